"""A vector or matrix released with Gaussian noise, white or coloured.

Released: round_g(value) + noise on a public power-of-two grid g, noise a lattice Gaussian at least as wide as N(0, N).

Adjacency: whatever relation the caller names. What enters is only how far two neighbouring values can lie apart, and it
must be public: at most `l2_sensitivity` in l2 norm, or one of finitely many vectors, the rows of `shifts`.

Theorem (Balle and Wang 2018, Theorem 8; derived: docs/math/noise.md). Let N(t, 1) against N(0, 1) have a delta(epsilon)
of at most delta - (1 + e^epsilon) eta, eta the sampler's total variation. If w' N^-1 w <= t^2 for every difference w of
neighbouring values after rounding to the grid, the release is (epsilon, delta)-differentially private.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import calibration, checks
from gaussveil.accounting import Adjacency, Charge, Release
from gaussveil.containers import like, real_array
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms.release_path import Mechanism, Plan, Promise
from gaussveil.mechanisms.source_rows import ordered_table
from gaussveil.noise import GaussianNoise, Generator
from gaussveil.noise.lattice import Shape, checked_shape, to_lattice
from gaussveil.shown import Shown
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.typing import Floats

SAMPLER_RESERVE = 1e-32  # per coordinate; designs need about 3e-33, and the transaction checks the actual sum
RELATIONS = {"add-remove": Adjacency.add_remove, "replace": Adjacency.replace_one}


@dataclass(frozen=True, eq=False, repr=False)
class GaussianPlan(Shown):
    """Everything about a release that does not depend on the data: public before anything is drawn."""

    epsilon: float
    delta: float
    mean_shift: float
    noise: GaussianNoise
    comparison: str = ""
    """One sentence: what the release is worth beside a simpler one, where the mechanism knows one."""

    @cached_property
    def pair(self) -> PrivacyLoss:
        """The dominating pair N(t, 1) against N(0, 1): every two neighbours are at most t noise deviations apart."""
        return GaussianPair.mean_shift(self.mean_shift)

    @property
    def charge(self) -> Charge:
        """What the release costs an account."""
        return Charge(self.pair, sampler_error=self.noise.total_variation)

    @property
    def standard_deviation(self) -> float | Floats:
        """Standard deviation of the noise: one number if white, else one per coordinate of the covariance."""
        covariance = self.noise.covariance
        if isinstance(covariance, float):
            return math.sqrt(covariance)
        return np.sqrt(np.diagonal(covariance))

    def _claim(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def _facts(self) -> dict[str, str]:
        largest = float(np.max(self.standard_deviation))
        told = {
            "epsilon": f"{self.epsilon:g}",
            "delta": f"{self.delta:g}",
            "largest noise sd": f"{largest:.4g}",
        }
        return told | ({"beside": self.comparison} if self.comparison else {})

    def draw(self, value: ArrayLike, generator: Generator | None = None) -> Floats:
        """The value with noise, without a record of it: for studies and audits. Releases go through `release`."""
        return self.noise.add(value, generator)


@dataclass(kw_only=True, eq=False, repr=False)
class GaussianRelease(Mechanism):
    """Release vectors or matrices with just enough Gaussian noise for (epsilon, delta)-differential privacy.

    >>> from gaussveil.mechanisms import GaussianRelease
    >>> mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0)
    >>> round(mechanism.plan(shape=3).standard_deviation, 4)
    4.2247
    >>> mechanism.release([10.0, 20.0, 30.0]).certificate.account
    'not recorded'

    Args:
        epsilon, delta: the promise for one release.
        l2_sensitivity: public bound on the l2 distance of two neighbouring values (Frobenius norm of a matrix). With
            neither it nor `shifts`, and an `Adjacency.l2_ball`, the value is itself what the ball is about, and the
            ball's radius is the bound: both are one number, which `verify` checks.
        shifts: instead of it, public array of N differences, each of the value's shape, that covers every pair of
            neighbours up to sign. Without a `covariance_shape` the noise then has the smallest trace possible.
        covariance_shape: public positive definite matrix that the noise's covariance is a multiple of; for all
            coordinates in C order or, with `l2_sensitivity`, for the last axis.
        account: where the release is debited before it is drawn; without one the certificate says "not recorded".
        adjacency: "add-remove" or "replace" of one record, or an `Adjacency` that says which neighbours the caller's
            bound was computed for. Nothing here sees records: the bound is the owner's word, as the certificate says.
        because: where the bound comes from, in the owner's words; the certificate repeats it as an assumption.
        grid: power of two on which the output lies; chosen from the noise by default.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "gaussian"
    l2_sensitivity: float | None = None
    shifts: ArrayLike | None = None
    covariance_shape: ArrayLike | None = None
    adjacency: Adjacency | str = "add-remove"
    because: str | None = None
    grid: float | None = None

    def plan(self, shape: Shape | None = None) -> GaussianPlan:
        """The noise for values of the given shape, without data; a matrix among the parameters can tell the shape.

        Returns:
            A `GaussianPlan`: deviations, grid and charge.

        Raises:
            ParameterError: a promise or size is out of range, or neighbours are not described by exactly one of both.
            ShapeError: no coordinate is left, or the shape is not that of the parameters.
        """
        promise = self.promise
        radius = self._radius()
        if (radius is None) == (self.shifts is None):
            raise ParameterError(
                "give exactly one of l2_sensitivity and shifts: how far apart neighbours can lie."
            )
        sizes = self._shape(shape)
        count = math.prod(sizes)
        if count == 0:
            raise ShapeError(f"shape must hold at least one coordinate. Got {sizes}.")
        ideal = promise.ideal_delta(SAMPLER_RESERVE * count)
        mean_shift = calibration.mean_shift_for(promise.epsilon, ideal)
        if radius is not None:
            noise = self._noise_for_ball(radius, sizes, promise, mean_shift, ideal)
        else:
            noise = self._noise_for_shifts(sizes, count, mean_shift)
        return GaussianPlan(promise.epsilon, promise.delta, mean_shift, noise)

    def release(
        self, value: Any, *, order: Sequence[str] = (), released: str | None = None
    ) -> Release[Any]:
        """Debit, draw and certify. Arrays come back as arrays, lists as lists, frames as frames with the same labels.

        Of a Source all columns are released, as an Arrow table, but the public columns `order` that its rows are sorted
        by. Every refusal comes before the debit. `released` says on the certificate what the value is.

        Returns:
            The noisy value and its certificate.

        Raises:
            ParameterError: a number is out of range, or the value is no table of numbers.
            BudgetExceededError: the account cannot pay.
        """
        value = ordered_table(value, order)
        numbers = real_array("value", value)
        plan = self.plan(numbers.shape)
        to_lattice(
            numbers, plan.noise.shape, plan.noise.grid
        )  # refuses here what could not be drawn later
        full_plan = self._said(plan, released or f"array of shape {plan.noise.shape}")
        return self._publish(
            full_plan, lambda: like(value, plan.draw(numbers, self.generator)), value
        )

    @property
    def _is_ball(self) -> bool:
        """Whether the value is itself what an l2 ball of neighbours is about: no bound is given beside the radius."""
        ball = (
            isinstance(self.adjacency, Adjacency) and self.adjacency.kind == "l2-ball"
        )
        return ball and self.l2_sensitivity is None and self.shifts is None

    def _radius(self) -> float | None:
        if self._is_ball:
            return checks.positive("radius", self._adjacency().parameters["radius"])
        if self.l2_sensitivity is None:
            return None
        return checks.positive("l2_sensitivity", self.l2_sensitivity)

    def _noise_for_ball(
        self,
        radius: float,
        shape: tuple[int, ...],
        promise: Promise,
        mean_shift: float,
        ideal: float,
    ) -> GaussianNoise:
        # The grid comes first, fine against both the noise and the radius; the radius then grows by its rounding.
        lattice = GaussianNoise(min(radius, radius / mean_shift), shape, self.grid)
        reach = math.nextafter(radius + lattice.rounding_l2, math.inf)
        if self.covariance_shape is None:
            return GaussianNoise(
                calibration.white_noise_scale(reach, promise.epsilon, ideal),
                shape,
                lattice.grid,
            )
        return GaussianNoise(
            calibration.covariance_for_ball(reach, mean_shift, self.covariance_shape),
            shape,
            lattice.grid,
        )

    def _noise_for_shifts(
        self, shape: tuple[int, ...], count: int, mean_shift: float
    ) -> GaussianNoise:
        rows = real_array("shifts", self.shifts)
        if rows.shape[1:] not in (shape, (count,)):
            raise ShapeError(
                f"shifts must have shape (N, {', '.join(map(str, shape))}). Got {rows.shape}."
            )
        rows = rows.reshape(len(rows), count)
        smallest = calibration.smallest_deviation(
            rows, mean_shift, self.covariance_shape
        )
        lattice = GaussianNoise(smallest * min(1.0, mean_shift), shape, self.grid)
        covariance = calibration.covariance_for_shifts(
            rows,
            mean_shift,
            shape=self.covariance_shape,
            rounding_l2=lattice.rounding_l2,
        )
        return GaussianNoise(covariance, shape, lattice.grid)

    def _shape(self, shape: Shape | None) -> tuple[int, ...]:
        if shape is not None:
            return checked_shape(shape)
        if self.shifts is not None:
            return np.shape(self.shifts)[1:]
        if self.covariance_shape is not None:
            return np.shape(self.covariance_shape)[:1]
        raise ParameterError(
            "shape must be given: neither shifts nor covariance_shape tells how long the value is."
        )

    def _said(self, plan: GaussianPlan, released: str) -> Plan:
        noise = plan.noise
        radius = self._radius()
        bounds: dict[str, object]
        if radius is None:
            count = len(np.asarray(self.shifts))
            apart = f"one of {count} public shifts or its negative"
            bounds = {"shifts": count}
        else:
            apart = f"at most {radius} in l2 norm"
            bounds = {"l2_sensitivity": radius}
        bound = f"two neighbouring values, as 64-bit floats, differ by {apart}: the owner states it without the data"
        if self._is_ball:
            bound = f"what is released is itself what the neighbours' ball is about, so that two differ by {apart}"
            bounds = {"l2_ball": radius, **bounds}
        return Plan(
            charge=plan.charge,
            released=released,
            adjacency=self._adjacency(),
            assumptions=(
                bound,
                "the value's shape and labels, and that it is finite and below 2^52 grids, are public knowledge",
                *(
                    ()
                    if self.because is None
                    else (
                        f"the owner says where that bound comes from: {self.because}",
                    )
                ),
            ),
            parameters={
                **bounds,
                "shape": list(noise.shape),
                "grid": noise.grid,
                "rounding_l2": noise.rounding_l2,
                "mean_shift": plan.mean_shift,
                "noise_covariance": noise.covariance,
            },
        )

    def _adjacency(self) -> Adjacency:
        if isinstance(self.adjacency, Adjacency):
            return self.adjacency
        return RELATIONS[checks.one_of("adjacency", self.adjacency, RELATIONS)]()
