"""A Gaussian-output algorithm made private by adding just enough isotropic variance to its output.

Released: one draw of N(mean(D), covariance(D) + v I) on a public power-of-two grid, for any algorithm that maps data to
a mean and a covariance, such as a Bayesian posterior. The output's own spread protects, too, so v can be small, even 0.

Adjacency: whatever relation the caller names. What enters is how far apart the outputs of two neighbours can lie, as a
function of v, and it must be public: covariances are ordered and at most `rank` of their ratios exceed 1, by a factor
of at most e^log_ratio(v); means are at most mean_gap(v) apart in standard deviations of the narrower of the two noised
laws.

Theorem (corrections N2; derived: docs/mechanisms/gaussian_output.md). If the supremum of delta(epsilon) over all such
pairs, both directions, is at most delta - (1 + e^epsilon) eta, eta the sampler's total variation, the release is
(epsilon, delta)-differentially private.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
from gaussveil.calibration.envelope import (
    Sensitivity,
    variance_for_dominating_pair,
    variance_for_envelope,
)
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.mechanisms.containers import real_array, real_number
from gaussveil.mechanisms.random_centre import RandomCentre
from gaussveil.noise import Generator
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.envelope import GaussianEnvelope

SAMPLER_SHARE = 2.0**-8  # of delta, kept for the sampler's error
WIDER = {"with": "X", "without": "Y", "either": "either"}
ROUNDING = 1 + 1e-12
SMALLER_BOUND = "a smaller epsilon or a smaller mean_bound may help"


@dataclass(frozen=True, eq=False)
class LiftedPlan:
    """Everything about a release that does not depend on the data: public before anything is drawn."""

    epsilon: float
    delta: float
    added_variance: float
    covered_variance: float
    cost: GaussianEnvelope | PrivacyLoss
    sampler: RandomCentre
    count: int = 1

    @property
    def charge(self) -> Charge:
        """What the release costs an account."""
        return Charge(self.cost, count=self.count, sampler_error=self.sampler.total_variation)

    @property
    def added_deviation(self) -> float:
        """Square root of the added variance."""
        return math.sqrt(self.added_variance)

    def draw(
        self, mean: NDArray[np.float64], factor: NDArray[np.float64], generator: Generator | None = None
    ) -> NDArray[np.float64]:
        """One output, unrecorded: for studies and audits. F F' is the covariance less `covered_variance` I."""
        return self.sampler.draw(mean, factor, generator)


@dataclass(frozen=True)
class StatedSensitivity:
    """The caller's own bounds on mean gap and log-ratio, as one function of the added variance."""

    mean_gap: Callable[[float], float]
    log_ratio: Callable[[float], float]

    def __call__(self, variance: float) -> tuple[float, float]:
        """Both bounds, with room for their rounding."""
        return float(self.mean_gap(variance)) * ROUNDING, float(self.log_ratio(variance)) * ROUNDING


@dataclass(kw_only=True, eq=False)
class LiftedGaussian:
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
        mean_bound: public bound on the length of the mean.
        smallest_variance, largest_variance: public bounds on the eigenvalues of the covariance.
        composition: "envelope" adds the least variance; "pair" adds about a tenth more, so that accounts can add up one
            dominating pair of Gaussians exactly.
        account, adjacency, privacy_unit, generator: as in `GaussianRelease`.
    """

    algorithm: Callable[[Any], tuple[Any, Any]] = field(kw_only=False)
    dimension: int
    epsilon: float
    delta: float
    mean_gap: Callable[[float], float]
    log_ratio: Callable[[float], float]
    mean_bound: float
    largest_variance: float
    smallest_variance: float = 0.0
    rank: int = 1
    wider: str = "without"
    composition: str = "envelope"
    account: Account | None = None
    adjacency: Adjacency | None = None
    privacy_unit: str = "record"
    generator: Generator | None = None
    certificate_: Certificate = field(init=False, repr=False)
    added_variance_: float = field(init=False, repr=False)

    def plan(self) -> LiftedPlan:
        """The added variance and the sampler, without data."""
        if self.wider not in WIDER:
            raise ParameterError(f"wider must be one of {', '.join(WIDER)}. Got {self.wider!r} instead.")
        if isinstance(self.rank, bool) or not isinstance(self.rank, int) or not 1 <= self.rank <= self.dimension:
            raise ParameterError(f"rank must be an integer from 1 to the dimension. Got {self.rank!r} instead.")
        return lifted_plan(
            StatedSensitivity(self.mean_gap, self.log_ratio),
            epsilon=self.epsilon,
            delta=self.delta,
            rank=self.rank,
            wider=WIDER[self.wider],
            dimension=self.dimension,
            mean_bound=self.mean_bound,
            composition=self.composition,
            smallest_variance=self.smallest_variance,
            largest_variance=self.largest_variance,
        )

    def release(self, data: Any, *, released: str = "draw of a Gaussian-output algorithm") -> Release[Any]:
        """Debit, draw and certify. Every refusal comes before the debit."""
        plan = self.plan()
        mean, covariance = _moments(*self.algorithm(data), self.dimension)
        factor = symmetric_factor(covariance - plan.covered_variance * np.eye(self.dimension), self.largest_variance)
        release = draw_release(
            plan,
            clipped(mean, self.mean_bound),
            factor,
            released=released,
            mechanism="lifted-gaussian",
            account=self.account,
            adjacency=self.adjacency or Adjacency.add_remove(self.privacy_unit),
            generator=self.generator,
            assumptions=(
                "mean_gap, log_ratio and rank hold for every two neighbours and were fixed without the data",
                f"the mean is no longer than {self.mean_bound:g}, and the covariance's eigenvalues lie between "
                f"{self.smallest_variance:g} and {self.largest_variance:g}, for every data set",
            ),
            parameters={},
        )
        self.certificate_, self.added_variance_ = release.certificate, plan.added_variance
        return release

    def __sklearn_clone__(self) -> LiftedGaussian:
        return dataclasses.replace(self)


def lifted_plan(
    sensitivity: Sensitivity,
    *,
    epsilon: float,
    delta: float,
    rank: int,
    wider: str,
    dimension: int,
    mean_bound: float,
    smallest_variance: float,
    largest_variance: float,
    composition: str,
    remedy: str = SMALLER_BOUND,
) -> LiftedPlan:
    """Calibrate the envelope and design the sampler."""
    ideal = ideal_delta(epsilon, delta)
    if composition not in ("envelope", "pair"):
        raise ParameterError(f'composition must be "envelope" or "pair". Got {composition!r} instead.')
    if composition == "pair" and wider == "either":
        # one entry could then stand either way round beside others, which a single oriented pair does not say
        raise ParameterError('wider must be "with" or "without" where composition is "pair". Got "either" instead.')
    calibrate = variance_for_envelope if composition == "envelope" else variance_for_dominating_pair
    variance, cost = calibrate(sensitivity, rank, float(epsilon), ideal, wider=wider)
    return make_plan(
        epsilon,
        delta,
        variance,
        cost,
        dimension=dimension,
        mean_bound=mean_bound,
        remedy=remedy,
        smallest_variance=smallest_variance,
        largest_variance=largest_variance,
    )


def ideal_delta(epsilon: float, delta: float) -> float:
    """What is left of delta after the sampler's share."""
    level, failure = real_number("epsilon", epsilon), real_number("delta", delta)
    if not 0 <= level <= 500:
        raise ParameterError(f"epsilon must lie between 0 and 500. Got {level!r} instead.")
    if not 1e-300 <= failure < 1:
        raise ParameterError(f"delta must lie strictly between 0 and 1. Got {failure!r} instead.")
    return failure * (1 - SAMPLER_SHARE)


def make_plan(
    epsilon: float,
    delta: float,
    variance: float,
    cost: GaussianEnvelope | PrivacyLoss,
    *,
    dimension: int,
    mean_bound: float,
    smallest_variance: float,
    largest_variance: float,
    count: int = 1,
    remedy: str = SMALLER_BOUND,
) -> LiftedPlan:
    """The sampler: exact lattice noise of the added variance and of half of what every covariance has anyway.

    `remedy` says which of the caller's own parameters make the sampler's error smaller.
    """
    covered = smallest_variance / 2
    if not variance + covered > 0:
        raise ParameterError(
            "smallest_variance must be positive where no variance has to be added: a public lower bound on the "
            f"eigenvalues of every covariance. Got {smallest_variance!r} instead."
        )
    sampler = RandomCentre(
        exact_variance=variance + covered,
        largest_variance=largest_variance,
        dimension=dimension,
        mean_bound=mean_bound,
        remedy=remedy,
    )
    needed = sampler_delta(float(epsilon), sampler.total_variation)
    if needed > delta * SAMPLER_SHARE:
        least = needed / SAMPLER_SHARE
        wanted = (
            f"delta must be at least {least:.3g} at epsilon {epsilon:g}" if least < 1 else "epsilon must be smaller"
        )
        got = repr(delta) if least < 1 else repr(epsilon)
        raise ParameterError(f"{wanted}, to pay for the sampler's error. Got {got} instead: {remedy}.")
    return LiftedPlan(float(epsilon), float(delta), variance, covered, cost, sampler, count)


def draw_release(
    plan: LiftedPlan,
    mean: NDArray[np.float64],
    factor: NDArray[np.float64],
    *,
    released: str,
    mechanism: str,
    account: Account | None,
    adjacency: Adjacency,
    generator: Generator | None,
    assumptions: tuple[str, ...],
    parameters: dict[str, object],
) -> Release[NDArray[np.float64]]:
    """The one way out: debit, then draw N(mean, F F' + added variance I), then certify."""
    if not isinstance(generator, Generator | None):
        raise ParameterError(
            f"generator must be a SecureGenerator or SeededGenerator. Got {type(generator).__name__} instead."
        )
    secure = generator is None or generator.is_secure
    sampler = plan.sampler
    draft = CertificateDraft(
        released=released,
        mechanism=mechanism,
        adjacency=adjacency,
        epsilon=plan.epsilon,
        delta=plan.delta,
        guarantee=Guarantee.worst_case() if secure else Guarantee.none("seeded"),
        assumptions=(
            *assumptions,
            f"mean and covariance are computed to within {sampler.arithmetic_allowance:.2g} of the exact noise's "
            "standard deviation",
        ),
        parameters={
            **parameters,
            "added_variance": plan.added_variance,
            "exact_noise_variance": sampler.noise.covariance,
            "grid": sampler.noise.grid,
            "mean_bound": sampler.mean_bound,
        },
    )
    with transaction(account, plan.charge, draft) as debit:
        value = debit.draw(lambda: plan.draw(mean, factor, generator))
    return Release(value, debit.certificate)


def clipped(mean: NDArray[np.float64], bound: float) -> NDArray[np.float64]:
    """The nearest vector no longer than `bound`: a public rule that brings no two means further apart."""
    length = float(np.linalg.norm(mean))
    return mean if length <= bound else mean * (bound / length)


def symmetric_factor(covariance: NDArray[np.float64], largest_variance: float) -> NDArray[np.float64]:
    """F with F F' = covariance, eigenvalues clipped to [0, largest_variance] by a public rule."""
    values, vectors = np.linalg.eigh((covariance + covariance.T) / 2)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, largest_variance)))


def _moments(mean: Any, covariance: Any, dimension: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    vector, matrix = (
        real_array(name, value).astype(np.float64)
        for name, value in (("the algorithm's mean", mean), ("the algorithm's covariance", covariance))
    )
    if vector.shape != (dimension,) or matrix.shape != (dimension, dimension):
        raise ShapeError(
            f"algorithm must return a mean of shape ({dimension},) and a covariance of shape "
            f"({dimension}, {dimension}). Got {vector.shape} and {matrix.shape} instead."
        )
    if not (np.all(np.isfinite(vector)) and np.all(np.isfinite(matrix))):
        raise NotFiniteError("algorithm must return finite moments for every data set. Clip or drop bad records first.")
    return vector, matrix
