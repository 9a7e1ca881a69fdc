"""A vector or matrix released with Gaussian noise, white or coloured.

Released: round_g(value) + noise on a public power-of-two grid g, noise a lattice Gaussian at least as wide as N(0, N).

Adjacency: whatever relation the caller names. What enters is only how far two neighbouring values can lie apart, and it
must be public: at most `l2_sensitivity` in l2 norm, or one of finitely many vectors, the rows of `shifts`.

Theorem (Balle and Wang 2018, Theorem 8; derived: docs/math/noise.md). Let N(t, 1) against N(0, 1) have a delta(epsilon)
of at most delta - (1 + e^epsilon) eta, eta the sampler's total variation. If w' N^-1 w <= t^2 for every difference w of
neighbouring values after rounding to the grid, the release is (epsilon, delta)-differentially private.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.accounting import (
    Account,
    Adjacency,
    Certificate,
    CertificateDraft,
    Charge,
    Guarantee,
    Release,
    transaction,
)
from gaussveil.accounting.composition import sampler_delta
from gaussveil.calibration import (
    covariance_for_ball,
    covariance_for_shifts,
    mean_shift_for,
    smallest_deviation,
    white_noise_scale,
)
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms.containers import like, real_array, real_number
from gaussveil.mechanisms.source_rows import ordered_table
from gaussveil.noise import GaussianNoise, Generator
from gaussveil.noise.lattice import Shape, checked_shape, to_lattice
from gaussveil.spectrum import GaussianPair, PrivacyLoss

SAMPLER_RESERVE = 1e-32  # per coordinate; designs need about 3e-33, and the transaction checks the actual sum
ROUNDING_RESERVE = 1 - 2.0**-48  # certificates round their delta up by a few units in the last place


@dataclass(frozen=True, eq=False)
class GaussianPlan:
    """Everything about a release that does not depend on the data: public before anything is drawn."""

    epsilon: float
    delta: float
    mean_shift: float
    noise: GaussianNoise

    @cached_property
    def pair(self) -> PrivacyLoss:
        """The dominating pair N(t, 1) against N(0, 1): every two neighbours are at most t noise deviations apart."""
        return GaussianPair.mean_shift(self.mean_shift)

    @property
    def charge(self) -> Charge:
        """What the release costs an account."""
        return Charge(self.pair, sampler_error=self.noise.total_variation)

    @property
    def standard_deviation(self) -> float | NDArray[np.float64]:
        """Standard deviation of the noise: one number if white, else one per coordinate of the covariance."""
        covariance = self.noise.covariance
        return math.sqrt(covariance) if isinstance(covariance, float) else np.sqrt(np.diagonal(covariance))

    def draw(self, value: ArrayLike, generator: Generator | None = None) -> NDArray[np.float64]:
        """The value with noise, without a record of it: for studies and audits. Releases go through `release`."""
        return self.noise.add(value, generator)


@dataclass(kw_only=True, eq=False)
class GaussianRelease:
    """Release vectors or matrices with just enough Gaussian noise for (epsilon, delta)-differential privacy.

    >>> from gaussveil.mechanisms import GaussianRelease
    >>> mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0)
    >>> round(mechanism.plan(shape=3).standard_deviation, 4)
    4.2247
    >>> mechanism.release([10.0, 20.0, 30.0]).certificate.account
    'not recorded'

    Args:
        epsilon, delta: the promise for one release.
        l2_sensitivity: public bound on the l2 distance of two neighbouring values (Frobenius norm of a matrix).
        shifts: instead of it, public array of N differences, each of the value's shape, that covers every pair of
            neighbours up to sign. Without a `covariance_shape` the noise then has the smallest trace possible.
        covariance_shape: public positive definite matrix that the noise's covariance is a multiple of; for all
            coordinates in C order or, with `l2_sensitivity`, for the last axis.
        account: where the release is debited before it is drawn; without one the certificate says "not recorded".
        adjacency: an `Adjacency`, or "add-remove" or "replace".
        privacy_unit: what one record stands for, with "add-remove" or "replace".
        grid: power of two on which the output lies; chosen from the noise by default.
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
    """

    epsilon: float
    delta: float
    l2_sensitivity: float | None = None
    shifts: ArrayLike | None = None
    covariance_shape: ArrayLike | None = None
    account: Account | None = None
    adjacency: Adjacency | str = "add-remove"
    privacy_unit: str | None = None
    grid: float | None = None
    generator: Generator | None = None
    certificate_: Certificate = field(init=False, repr=False)

    def plan(self, shape: Shape | None = None) -> GaussianPlan:
        """The noise for values of the given shape, without data; a matrix among the parameters can tell the shape."""
        if not isinstance(self.generator, Generator | None):
            raise ParameterError(
                f"generator must be a SecureGenerator or SeededGenerator. Got {type(self.generator).__name__} instead."
            )
        if (self.l2_sensitivity is None) == (self.shifts is None):
            raise ParameterError("give exactly one of l2_sensitivity and shifts: how far apart neighbours can lie.")
        sizes = self._shape(shape)
        count = math.prod(sizes)
        if count == 0:
            raise ShapeError(f"shape must hold at least one coordinate. Got {sizes} instead.")
        ideal = self._ideal_delta(count)
        mean_shift = mean_shift_for(self.epsilon, ideal)
        if self.l2_sensitivity is not None:
            noise = self._noise_for_ball(sizes, real_number("l2_sensitivity", self.l2_sensitivity), mean_shift, ideal)
        else:
            noise = self._noise_for_shifts(sizes, count, mean_shift)
        return GaussianPlan(float(self.epsilon), float(self.delta), mean_shift, noise)

    def release(self, value: Any, *, order: Sequence[str] = (), released: str | None = None) -> Release[Any]:
        """Debit, draw and certify. Arrays come back as arrays, lists as lists, frames as frames with the same labels.

        Of a Source all columns are released, as an Arrow table, but the public columns `order` that its rows are sorted
        by. Every refusal comes before the debit. `released` says on the certificate what the value is.
        """
        value = ordered_table(value, order)
        numbers = real_array("value", value)
        plan = self.plan(numbers.shape)
        to_lattice(numbers, plan.noise.shape, plan.noise.grid)  # refuses here what could not be drawn later
        draft = self._draft(plan, released or f"array of shape {plan.noise.shape}")
        with transaction(self.account, plan.charge, draft) as debit:
            noisy = debit.draw(lambda: like(value, plan.draw(numbers, self.generator)))
        self.certificate_ = debit.certificate
        return Release(noisy, debit.certificate)

    def _noise_for_ball(self, shape: tuple[int, ...], radius: float, mean_shift: float, ideal: float) -> GaussianNoise:
        if not 0 < radius < math.inf:
            raise ParameterError(f"l2_sensitivity must be positive and finite. Got {radius!r} instead.")
        # The grid comes first, fine against both the noise and the radius; the radius then grows by its rounding.
        lattice = GaussianNoise(min(radius, radius / mean_shift), shape, self.grid)
        reach = math.nextafter(radius + lattice.rounding_l2, math.inf)
        if self.covariance_shape is None:
            return GaussianNoise(white_noise_scale(reach, self.epsilon, ideal), shape, lattice.grid)
        return GaussianNoise(covariance_for_ball(reach, mean_shift, self.covariance_shape), shape, lattice.grid)

    def _noise_for_shifts(self, shape: tuple[int, ...], count: int, mean_shift: float) -> GaussianNoise:
        rows = real_array("shifts", self.shifts)
        if rows.shape[1:] not in (shape, (count,)):
            raise ShapeError(f"shifts must have shape (N, {', '.join(map(str, shape))}). Got {rows.shape} instead.")
        rows = rows.reshape(len(rows), count)
        smallest = smallest_deviation(rows, mean_shift, self.covariance_shape)
        lattice = GaussianNoise(smallest * min(1.0, mean_shift), shape, self.grid)
        covariance = covariance_for_shifts(
            rows, mean_shift, shape=self.covariance_shape, rounding_l2=lattice.rounding_l2
        )
        return GaussianNoise(covariance, shape, lattice.grid)

    def _shape(self, shape: Shape | None) -> tuple[int, ...]:
        if shape is not None:
            return checked_shape(shape)
        if self.shifts is not None:
            return np.shape(self.shifts)[1:]
        if self.covariance_shape is not None:
            return np.shape(self.covariance_shape)[:1]
        raise ParameterError("shape must be given: neither shifts nor covariance_shape tells how long the value is.")

    def _ideal_delta(self, count: int) -> float:
        """What is left of delta for ideal noise, after the sampler's error."""
        epsilon, delta = real_number("epsilon", self.epsilon), real_number("delta", self.delta)
        if not 0 <= epsilon < math.inf:
            raise ParameterError(f"epsilon must be finite and not negative. Got {epsilon!r} instead.")
        if not 0 < delta < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1. Got {delta!r} instead.")
        sampler = sampler_delta(epsilon, SAMPLER_RESERVE * count)
        if sampler >= delta / 2:
            raise ParameterError(
                f"delta must be at least {2 * sampler:.3g} at epsilon {epsilon:g} with {count} coordinates, "
                f"to pay for the sampler's error. Got {delta!r} instead."
            )
        return (delta - sampler) * ROUNDING_RESERVE

    def _draft(self, plan: GaussianPlan, released: str) -> CertificateDraft:
        secure = self.generator is None or self.generator.is_secure
        noise = plan.noise
        if self.shifts is None:
            apart, known = f"at most {self.l2_sensitivity} in l2 norm", {"l2_sensitivity": self.l2_sensitivity}
        else:
            count = len(np.asarray(self.shifts))
            apart, known = f"one of {count} public shifts or its negative", {"shifts": count}
        return CertificateDraft(
            released=released,
            mechanism="gaussian",
            adjacency=self._adjacency(),
            epsilon=plan.epsilon,
            delta=plan.delta,
            guarantee=Guarantee.worst_case() if secure else Guarantee.none("seeded"),
            assumptions=(
                f"every two neighbouring values, as 64-bit floats, differ by {apart}; this is known without the data",
                "the value's shape and labels, and that it is finite and below 2^52 grids, are public knowledge",
            ),
            parameters={
                **known,
                "shape": list(noise.shape),
                "grid": noise.grid,
                "rounding_l2": noise.rounding_l2,
                "mean_shift": plan.mean_shift,
                "noise_covariance": noise.covariance,
            },
        )

    def _adjacency(self) -> Adjacency:
        if isinstance(self.adjacency, Adjacency):
            if self.privacy_unit not in (None, self.adjacency.unit):
                raise ParameterError(
                    f"privacy_unit must be left out, or be the adjacency's own {self.adjacency.unit!r}. "
                    f"Got {self.privacy_unit!r} instead."
                )
            return self.adjacency
        relations = {"add-remove": Adjacency.add_remove, "replace": Adjacency.replace_one}
        if self.adjacency not in relations:
            raise ParameterError(
                f"adjacency must be an Adjacency or one of {', '.join(relations)}. Got {self.adjacency!r} instead."
            )
        return relations[self.adjacency](self.privacy_unit or "record")

    def __sklearn_clone__(self) -> GaussianRelease:
        return dataclasses.replace(self)
