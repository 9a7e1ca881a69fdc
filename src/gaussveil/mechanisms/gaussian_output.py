"""A Gaussian-output algorithm made private by adding just enough variance to its output.

Released: one draw of N(mean(D), covariance(D) + v N) on a public grid, N = I or a public shape, for any algorithm that
maps data to a mean and a covariance, such as a Bayesian posterior. The output's own spread protects, too, so v can be
small, even 0. With N = R R, R^-1 makes every law one with noise v I, and R of that draw is post-processing.

Adjacency: whatever relation the caller names. What enters is how far apart the outputs of two neighbours can lie, as a
function of v, and it must be public: covariances are ordered and at most `rank` of their ratios exceed 1, by a factor
of at most e^log_ratio(v); means are at most mean_gap(v) apart in standard deviations of the narrower of the two noised
laws.

Theorem (corrections N2; derived: docs/mechanisms/gaussian_output.md). If the supremum of delta(epsilon) over all such
pairs, both directions, is at most delta - (1 + e^epsilon) eta, eta the sampler's total variation, the release is
(epsilon, delta)-differentially private.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Adjacency, Charge, Release
from gaussveil.calibration.envelope import (
    Sensitivity,
    variance_for_dominating_pair,
    variance_for_envelope,
)
from gaussveil.containers import readings_array, real_array
from gaussveil.errors import ShapeError
from gaussveil.mechanisms.release_path import Mechanism, Plan, Promise
from gaussveil.noise import Generator
from gaussveil.noise.random_centre import RandomCentre
from gaussveil.shown import Shown
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.envelope import GaussianEnvelope
from gaussveil.typing import Floats

WIDER = {"with": "X", "without": "Y", "either": "either"}
BOUND_RAISED = 1 + 1e-12  # of bounds computed in floating point


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class LiftedPlan(Shown):
    """Everything about a release that does not depend on the data: public before anything is drawn."""

    added_variance: float
    covered_variance: float
    cost: GaussianEnvelope | PrivacyLoss
    sampler: RandomCentre
    count: int = 1
    comparison: str = ""
    """One sentence: what the release is worth beside a simpler one, where the mechanism knows one."""

    @classmethod
    def of(
        cls,
        promise: Promise,
        variance: float,
        cost: GaussianEnvelope | PrivacyLoss,
        *,
        dimension: int,
        mean_bound: float,
        smallest_variance: float,
        largest_variance: float,
        count: int = 1,
        growth: float = 1.0,
        remedy: str = "a smaller epsilon or a smaller mean_bound may help",
    ) -> LiftedPlan:
        """The sampler: exact lattice noise of the added variance and of half of what every covariance has anyway.

        `remedy` says which of the caller's own parameters make the sampler's error smaller.
        """
        covered = checks.real("smallest_variance", smallest_variance, "[0, inf)") / 2
        if not variance + covered > 0:
            checks.refuse(
                "smallest_variance",
                "positive where no variance has to be added",
                smallest_variance,
            )
        sampler = RandomCentre(
            exact_variance=variance + covered,
            largest_variance=largest_variance,
            dimension=dimension,
            mean_bound=mean_bound,
            growth=growth,
            remedy=remedy,
        )
        promise.require_sampler_share(sampler.total_variation, remedy)
        return cls(
            added_variance=variance,
            covered_variance=covered,
            cost=cost,
            sampler=sampler,
            count=count,
        )

    def _facts(self) -> dict[str, str]:
        told = {
            "added variance": f"{self.added_variance:.4g}",
            "outputs": str(self.count),
        }
        return told | ({"beside": self.comparison} if self.comparison else {})

    @property
    def charge(self) -> Charge:
        """What the release costs an account."""
        return Charge(
            self.cost, count=self.count, sampler_error=self.sampler.total_variation
        )

    @property
    def added_deviation(self) -> float:
        """Square root of the added variance."""
        return math.sqrt(self.added_variance)

    def draw(
        self, mean: Floats, factor: Floats, generator: Generator | None = None
    ) -> Floats:
        """One output, unrecorded: for studies and audits. F F' is the covariance less `covered_variance` I."""
        return self.sampler.draw(mean, factor, generator)

    def said(
        self,
        released: str,
        adjacency: Adjacency,
        assumptions: tuple[str, ...],
        parameters: Mapping[str, object],
        model: str | None = None,
    ) -> Plan:
        """What the certificate will say."""
        accuracy = f"within {self.sampler.arithmetic_allowance:.2g} of the exact noise's standard deviation"
        return Plan(
            charge=self.charge,
            released=released,
            adjacency=adjacency,
            assumptions=(
                *assumptions,
                f"mean and covariance are computed to {accuracy}",
            ),
            parameters={
                **parameters,
                "added_variance": self.added_variance,
                "exact_noise_variance": self.sampler.noise.covariance,
                "grid": self.sampler.noise.grid,
                "mean_bound": self.sampler.mean_bound,
            },
            model=model,
        )


def calibrated(
    sensitivity: Sensitivity,
    promise: Promise,
    *,
    rank: int,
    wider: str,
    composition: str,
) -> tuple[float, GaussianEnvelope | PrivacyLoss]:
    """The least variance to add, and what the release then costs."""
    if (
        checks.one_of("composition", composition, ("envelope", "pair")) == "pair"
        and wider == "either"
    ):
        # one entry could then stand either way round beside others, which a single oriented pair does not say
        checks.refuse("wider", '"with" or "without" where composition is "pair"', wider)
    calibrate = (
        variance_for_envelope
        if composition == "envelope"
        else variance_for_dominating_pair
    )
    return calibrate(
        sensitivity, rank, promise.epsilon, promise.delta_before_sampler, wider=wider
    )


@dataclass(frozen=True)
class StatedSensitivity:
    """The caller's own bounds on mean gap and log-ratio, as one function of the added variance."""

    mean_gap: Callable[[float], float]
    log_ratio: Callable[[float], float]
    log_determinant: Callable[[float], float] | None = None

    def __call__(self, variance: float) -> tuple[float, float]:
        """Both bounds, with room for their rounding; ordered covariances move no single ratio beyond their product."""
        if self.log_determinant is None:
            total = math.inf
        else:
            total = float(self.log_determinant(variance))
        return float(self.mean_gap(variance)) * BOUND_RAISED, min(
            float(self.log_ratio(variance)), total
        ) * BOUND_RAISED


@dataclass(kw_only=True, eq=False, repr=False)
class LiftedGaussian(Mechanism):
    """Make any algorithm whose output is Gaussian (epsilon, delta)-differentially private.

    >>> import math
    >>> from gaussveil.mechanisms import LiftedGaussian
    >>> def posterior(records):  # of a mean in [0, 1], one pseudo-record at 1/2, unit observation variance
    ...     n = len(records)
    ...     return [(sum(records) + 0.5) / (n + 1)], [[1 / (n + 1)]]
    >>> lifted = LiftedGaussian(
    ...     posterior, dimension=1, epsilon=1.0, delta=1e-5, mean_gap=lambda v: 0.25 / math.sqrt(v) if v else math.inf,
    ...     log_ratio=lambda v: math.log((1 + v) / (0.5 + v)), mean_bound=1.0, largest_variance=1.0)
    >>> round(lifted.plan().added_variance, 1)
    5.2

    Args:
        algorithm: data -> (mean of length `dimension`, covariance matrix).
        dimension: length of the output.
        mean_gap: added variance -> public bound on the distance of two neighbours' means, in standard deviations of the
            narrower noised law; may be infinite where it is unbounded.
        log_ratio: added variance -> public bound on the logarithm of the ratio of noised variances, in any direction.
        rank: how many eigenvalues of the ratio can differ from 1.
        wider: whose covariance is the larger one: that "with" the record, "without" it (posteriors), or "either".
        log_determinant: added variance -> public bound on the sum of all log-ratios, where one is known (NDIS's nu).
        noise_shape: public positive definite matrix N: the noise is v N, and mean_gap, log_ratio and log_determinant
            are those under it. Of all that cover a public set of mean differences at one distance,
            `covering_ellipsoid(differences).covariance` has the least trace.
        mean_bound: public bound on the length of the mean.
        smallest_variance, largest_variance: public bounds on the eigenvalues of the covariance.
        composition: "envelope" adds the least variance; "pair" adds about a tenth more, so that accounts can add up one
            dominating pair of Gaussians exactly.
        adjacency: an `Adjacency` that says which neighbours the bounds were computed for; by default one record is
            added or removed. Nothing here sees records: the bounds are the owner's word, as the certificate says.
        account, generator: as in `GaussianRelease`.
        people: whose rows these are, as an account that is kept for a population names them.
        epsilon, delta: the promise for one release.
    """

    mechanism = "lifted-gaussian"
    algorithm: Callable[[Any], tuple[Any, Any]] = field(kw_only=False)
    dimension: int
    mean_gap: Callable[[float], float]
    log_ratio: Callable[[float], float]
    mean_bound: float
    largest_variance: float
    smallest_variance: float = 0.0
    rank: int = 1
    wider: str = "without"
    composition: str = "envelope"
    adjacency: Adjacency | None = None
    log_determinant: Callable[[float], float] | None = None
    noise_shape: Any = None
    added_variance_: float = field(init=False, repr=False)

    def plan(self) -> LiftedPlan:
        """The added variance and the sampler, without data.

        Returns:
            A `LiftedPlan`: how much variance is added, and how the draw is made.

        Raises:
            ParameterError: a parameter is out of range, or no variance is enough.
        """
        promise = self.promise
        size = checks.whole("dimension", self.dimension)
        rank = checks.whole("rank", self.rank, f"[1, {size}]")
        sensitivity = StatedSensitivity(
            self.mean_gap, self.log_ratio, self.log_determinant
        )
        wider = WIDER[checks.one_of("wider", self.wider, WIDER)]
        found = calibrated(
            sensitivity, promise, rank=rank, wider=wider, composition=self.composition
        )
        roots, _ = self._roots()
        return LiftedPlan.of(
            promise,
            *found,
            dimension=size,
            mean_bound=self.mean_bound / roots[0],
            smallest_variance=self.smallest_variance
            / roots[-1] ** 2
            / (1 if self.noise_shape is None else BOUND_RAISED),
            largest_variance=self.largest_variance / roots[0] ** 2,
        )

    def _roots(self) -> tuple[Floats, Floats]:
        """Roots of the shape's eigenvalues, the smallest first, and its axes."""
        if self.noise_shape is None:
            return np.ones(self.dimension), np.eye(self.dimension)
        shape = real_array("noise_shape", self.noise_shape).astype(np.float64)
        if shape.shape != (self.dimension, self.dimension) or not np.allclose(
            shape, shape.T, rtol=1e-9, atol=0
        ):
            checks.refuse(
                "noise_shape",
                f"a symmetric matrix of {self.dimension} rows",
                self.noise_shape,
            )
        values, axes = np.linalg.eigh((shape + shape.T) / 2)
        if not values[0] > 1e-12 * values[-1]:
            checks.refuse("noise_shape", "positive definite", self.noise_shape)
        return np.sqrt(values), np.asarray(axes)

    def release(
        self, data: Any, *, released: str = "draw of a Gaussian-output algorithm"
    ) -> Release[Any]:
        """Debit, draw and certify. Every refusal comes before the debit.

        Args:
            data: what the query is evaluated on.
            released: what is released, in words, for the certificate.

        Returns:
            The draw, a vector of `dimension` numbers, and its certificate.

        Raises:
            ParameterError: the adjacency is none.
            ShapeError: the algorithm gave a mean or covariance of another size.
            BudgetExceededError: the account cannot pay.
        """
        plan = self.plan()
        if not isinstance(self.adjacency, Adjacency | None):
            checks.refuse("adjacency", "an Adjacency", self.adjacency)
        mean, covariance = _moments(*self.algorithm(data), self.dimension)
        # Nothing that keeps the stated bounds is changed; what does not must still be drawn, or a refusal would tell.
        mean = np.clip(mean, -self.mean_bound, self.mean_bound)
        covariance = np.clip(covariance, -self.largest_variance, self.largest_variance)
        roots, axes = self._roots()
        whitened = (axes.T @ covariance @ axes) / np.outer(roots, roots)
        rest = whitened - plan.covered_variance * np.eye(self.dimension)
        factor = symmetric_factor(rest, self.largest_variance / roots[0] ** 2)
        centre = clipped(
            axes.T @ clipped(mean, self.mean_bound) / roots, plan.sampler.mean_bound
        )
        said = plan.said(
            released,
            self.adjacency or Adjacency.add_remove("record"),
            (
                "the owner states, without the data, which inputs are neighbours, and that mean_gap, log_ratio and "
                "rank hold for every two of them",
                f"the owner states that for every data set the mean is no longer than {self.mean_bound:g} and the "
                f"covariance's eigenvalues lie between {self.smallest_variance:g} and {self.largest_variance:g}; "
                "moments that are not finite count as 0",
            ),
            {}
            if self.noise_shape is None
            else {"noise_shape": np.asarray(self.noise_shape, dtype=float).tolist()},
        )
        release = self._publish(
            said,
            lambda: axes @ (roots * plan.draw(centre, factor, self.generator)),
            data,
        )
        self.added_variance_ = plan.added_variance
        return release


def clipped(mean: Floats, bound: float) -> Floats:
    """The nearest vector no longer than `bound`: a public rule that brings no two means further apart."""
    length = float(np.linalg.norm(mean))
    if length <= bound:
        return mean
    return mean * (bound / length)


def symmetric_factor(covariance: Floats, largest_variance: float) -> Floats:
    """F with F F' = covariance, eigenvalues clipped to [0, largest_variance] by a public rule."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, largest_variance)))


def _moments(mean: Any, covariance: Any, dimension: int) -> tuple[Floats, Floats]:
    """What the algorithm returned as arrays, what is not finite as 0: a refusal would tell of the data."""
    vector, matrix = (
        np.nan_to_num(
            readings_array(name, value).astype(np.float64), posinf=0.0, neginf=0.0
        )
        for name, value in (
            ("the algorithm's mean", mean),
            ("the algorithm's covariance", covariance),
        )
    )
    if vector.shape != (dimension,) or matrix.shape != (dimension, dimension):
        raise ShapeError(
            f"algorithm must return a mean of shape ({dimension},) and a covariance of shape "
            f"({dimension}, {dimension}). Got {vector.shape} and {matrix.shape}."
        )
    return vector, matrix
