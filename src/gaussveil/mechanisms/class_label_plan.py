"""The public half of a class-label release: lattice noise per label, dominating pairs, and what they cost."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.calibration.class_gradient import LabelModels
from gaussveil.containers import real_array
from gaussveil.errors import AssumptionError, NumericalError, ParameterError, ShapeError
from gaussveil.noise import GaussianNoise, Generator
from gaussveil.shown import Shown
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.one_covariance import squared_shifts_above
from gaussveil.typing import Floats

CONSTANT_GRID = (
    2.0**-30
)  # of the smallest standard deviation: the rounded centres are evaluated, so this costs nothing
RANDOM_GRID = (
    2.0**-38
)  # rounding a random query is charged as total variation, about 1e-12 with this grid
FINEST_GRID = 2.0**-48  # of the largest value that can occur: integers must stay exact
ROUND_UP = 1 + 1e-12
SAME = (
    1e-9  # how far a constant query may be from the design's, against the largest mean
)

# binary exponents of queries' differences that are searched as they are
ORDINARY = (-4, 8)
LARGEST_EXPONENT = 400


@dataclass(frozen=True, eq=False, repr=False)
class ClassLabelPlan(Shown):
    """Everything about a release that does not depend on the label: public before anything is drawn."""

    labels: tuple[Any, ...]
    edges: NDArray[np.intp]  # ordered
    models: LabelModels
    shifts: Floats
    noises: tuple[GaussianNoise, ...]
    epsilon: float
    swap: bool
    duality_gap: float | None = None
    """How far the design is at most above the least of its kind, where that is proven (`ClassNoise.duality_gap`)."""

    @classmethod
    def of(
        cls,
        labels: tuple[Any, ...],
        edges: NDArray[np.intp],
        models: LabelModels,
        shifts: Floats,
        spreads: Floats,
        epsilon: float,
        swap: bool,
        duality_gap: float | None = None,
    ) -> ClassLabelPlan:
        """Lattice noise of at least the given covariances on one grid, and shifts that end on it where queries are
        constant.
        """
        variances = np.linalg.eigvalsh(spreads)
        smallest = math.sqrt(float(variances.min()))
        largest = math.sqrt(float(variances.max()))
        own = math.sqrt(float(np.max(np.linalg.eigvalsh(models.covariances))))
        reach = float(np.max(np.abs(models.means + shifts))) + 64 * (largest + own)
        if models.constant:
            share = CONSTANT_GRID
        else:
            share = RANDOM_GRID
        finest = max(share * smallest / math.sqrt(shifts.shape[1]), FINEST_GRID * reach)
        grid = math.ldexp(1.0, math.floor(math.log2(finest)))
        noises = GaussianNoise.family(list(spreads), grid=grid)
        if models.constant:
            shifts = np.rint((models.means + shifts) / grid) * grid - models.means
        return cls(
            labels, edges, models, shifts, tuple(noises), epsilon, swap, duality_gap
        )

    @property
    def noise_covariances(self) -> Floats:
        """Covariances of the noise as drawn, one per label."""
        return np.stack([np.asarray(noise.covariance) for noise in self.noises])

    @property
    def grid(self) -> float:
        """The grid that all labels' outputs lie on."""
        return self.noises[0].grid

    @cached_property
    def centres(self) -> Floats:
        """Means of the outputs; lattice points, to the bit, where queries are constant."""
        centres = self.models.means + self.shifts
        if self.models.constant:
            return np.asarray(np.rint(centres / self.grid) * self.grid)
        return centres

    @cached_property
    def _output_covariances(self) -> Floats:
        """Covariances of queries and noise together, one per label."""
        drawn = np.stack(
            [np.asarray(noise.continuous_covariance) for noise in self.noises]
        )
        return np.asarray(
            self.models.covariances + (drawn + drawn.transpose(0, 2, 1)) / 2
        )

    @cached_property
    def pairs(self) -> PrivacyLoss:
        """Dominating pairs, one per ordered edge; of a swap of two labels where all are released together."""
        first = self.edges[:, 0]
        second = self.edges[:, 1]
        total = self._output_covariances
        pair = GaussianPair(
            self.centres[first], total[first], self.centres[second], total[second]
        )
        if self.swap:
            return compose(pair, pair.reversed())
        return pair

    @cached_property
    def loss(self) -> PrivacyLoss:
        """The pairs' losses as an account keeps them: one term per edge, not k, where all labels share a covariance.

        Mean gaps of equal covariances matter through the sum of their squares only; rounding it up keeps it sound.
        """
        energy = self._energies
        if energy is None:
            return self.pairs
        return PrivacyLoss.from_terms(
            np.zeros_like(energy), np.ones_like(energy), energy
        )

    @cached_property
    def _energies(self) -> Floats | None:
        """Squared mean shifts of the pairs, rounded up, as a column; None where covariances differ."""
        spreads = self._output_covariances
        if np.any(spreads != spreads[:1]):
            return None
        squares = squared_shifts_above(self.centres, spreads[0], self.edges)
        if squares is not None:
            return squares[:, None] * (2.0 if self.swap else 1.0)
        pairs, _ = self.pairs.dominating()
        if np.any(pairs.variance_gap):
            return None
        energy = np.sum(np.asarray(pairs.energy), axis=-1, keepdims=True)
        return np.asarray(energy * ROUND_UP)

    @property
    def sampler_error(self) -> float:
        """Total variation of what is drawn from the ideal laws, rounding and adding in floats included."""
        one = self.noises[0].total_variation
        if not self.models.constant:
            one += 2 * max(noise.centre_total_variation for noise in self.noises)
        return float(one * (len(self.labels) if self.swap else 1))

    def _claim(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def _facts(self) -> dict[str, str]:
        error = f"{self.accuracy:.4g} (largest mean square)"
        facts = {
            "labels": str(len(self.labels)),
            "error": error,
            "variance kept": f"{self.retained_variance:.2g}",
        }
        if self.duality_gap is not None:
            facts["above the least"] = f"at most {self.duality_gap:.1g}"
        return facts

    @cached_property
    def charge(self) -> Charge:
        """What a release costs an account."""
        return Charge(self.loss, sampler_error=self.sampler_error)

    @cached_property
    def delta(self) -> float:
        """Rigorous upper end of the worst delta at epsilon, sampler error included."""
        return self._delta_of(self.charge)

    @cached_property
    def charge_of_noise(self) -> Charge:
        """What a release costs that counts on no query's randomness: any number of them, of one draw or several.

        Given what all labels' queries share of their spread, a query is a constant that only its mean tells of its
        label. So where the spreads are equal the noise alone is counted: N(c_X, C_X) against N(c_Y, C_Y). Where they
        differ the query itself may be known in the end: its own pair is charged, and N(m_X, C_X) against N(m_Y, C_Y).
        """
        first = self.edges[:, 0]
        second = self.edges[:, 1]
        drawn = np.stack(
            [np.asarray(noise.continuous_covariance) for noise in self.noises]
        )
        spreads = self.models.covariances
        means = self.models.means
        if np.all(spreads == spreads[:1]):
            pair: PrivacyLoss = GaussianPair(
                self.centres[first], drawn[first], self.centres[second], drawn[second]
            )
        else:
            query = GaussianPair(
                means[first], spreads[first], means[second], spreads[second]
            )
            noise = GaussianPair(
                self.shifts[first], drawn[first], self.shifts[second], drawn[second]
            )
            pair = compose(query, noise)
        return Charge(
            compose(pair, pair.reversed()) if self.swap else pair,
            sampler_error=self.sampler_error,
        )

    @cached_property
    def delta_of_noise(self) -> float:
        """The same as `delta`, of `charge_of_noise`."""
        return self._delta_of(self.charge_of_noise)

    def _delta_of(self, charge: Charge) -> float:
        upper = Composition.of([(charge, 1)], symmetric=False).delta_upper(self.epsilon)
        return min(1.0, upper * ROUND_UP)

    @property
    def accuracy(self) -> float:
        """Largest mean squared error per coordinate over the labels, rounding included."""
        traces = np.array(
            [np.trace(np.asarray(noise.covariance)) for noise in self.noises]
        )
        size = self.shifts.shape[1]
        if self.models.constant:
            rounding = 0.0
        else:
            rounding = size * self.grid**2
        return float(
            np.max(traces + np.sum(self.shifts**2, axis=1)) + rounding
        ) / float(size)

    @property
    def retained_variance(self) -> float:
        """Share of the between-label variance that the outputs' means keep: 0 if all release one centre."""
        before, after = (
            np.sum((rows - rows.mean(axis=0)) ** 2)
            for rows in (self.models.means, self.centres)
        )
        if before > 0:
            return float(after / before)
        return 1.0

    def pdp_delta(self, priors: Sequence[float] | None = None) -> float:
        """Exact two-sided probabilistic delta Pr_X[|L| > epsilon], worst ordered edge, of the continuous laws (K1).

        With priors (Remark 1, eq. (9)) L is the log ratio of posteriors instead of likelihoods. Probabilistic DP is not
        closed under post-processing, so this is a figure to compare with the paper, not a guarantee.
        """
        lean: float | Floats = 0.0
        if priors is not None:
            weights = np.asarray(priors, dtype=np.float64)
            if (
                weights.shape != (len(self.labels),)
                or not np.all(weights > 0)
                or abs(weights.sum() - 1) > 1e-9
            ):
                raise ParameterError(
                    f"priors must be {len(self.labels)} positive numbers that sum to 1."
                )
            lean = np.log(weights[self.edges[:, 0]] / weights[self.edges[:, 1]])
        above = self.loss.loss_tail(self.epsilon - lean)
        below = 1 - self.loss.loss_tail(-self.epsilon - lean)
        return float(np.max(above + below))

    @property
    def pdp_delta_told(self) -> float | None:
        """`pdp_delta()` for a certificate; None where it is unknown: no figure that is merely told stops a release."""
        try:
            return self.pdp_delta()
        except NumericalError:
            return None

    def draw(
        self, position: int, query: ArrayLike, generator: Generator | None = None
    ) -> Floats:
        """One label's noisy query, without a record of it: for studies and audits. Releases go through `release`."""
        return self.noises[position].add(self.centre_of(position, query), generator)

    def centre_of(self, position: int, query: ArrayLike) -> Floats:
        """Query plus noise mean, ready for the grid; the design's own centre for a constant query."""
        value = np.asarray(query, dtype=np.float64)
        if value.shape != self.models.means[position].shape:
            raise ShapeError(
                f"query must have shape {self.models.means[position].shape}. Got {value.shape}."
            )
        if not self.models.constant:
            return np.asarray(value + self.shifts[position])
        scale = float(np.max(np.abs(self.models.means))) + 1
        if not np.max(np.abs(value - self.models.means[position])) <= SAME * scale:
            raise AssumptionError(
                "query must be the constant that the design holds for its label. Got another one: design again with "
                "the queries to be released as means, or give the covariances of random queries."
            )
        return np.asarray(self.centres[position])


def rows_of(queries: Any, plan: ClassLabelPlan, positions: list[int]) -> Floats:
    """One query per label; constant ones may be left out."""
    if queries is not None:
        rows = real_array("queries", queries)
    elif plan.models.constant:
        rows = plan.models.means[positions]
    else:
        rows = plan.models.means[:0]
    if len(rows) != len(positions):
        raise ParameterError(f"queries must be {len(positions)} rows, one per label.")
    return rows


def names_of(labels: Sequence[Any] | None, count: int) -> tuple[Any, ...]:
    """One name per label, all different as text."""
    names = tuple(range(count)) if labels is None else tuple(labels)
    if len(names) != count or len({str(name) for name in names}) != count:
        raise ParameterError(f"labels must be {count} names, all different as text.")
    return names


def unit_of(models: LabelModels) -> float:
    """A power of two in which queries are numbers of ordinary size: the search has steps and tolerances of its own."""
    apart = float(np.max(np.abs(models.means - models.means[:1])))
    size = max(apart, math.sqrt(float(np.max(np.abs(models.covariances)))))
    if size > 0:
        exponent = math.frexp(size)[1]
    else:
        exponent = 0
    if abs(exponent) > LARGEST_EXPONENT:
        raise ParameterError(
            f"queries must differ by between 2^-{LARGEST_EXPONENT} and 2^{LARGEST_EXPONENT}: state them in other units."
        )
    if ORDINARY[0] <= exponent <= ORDINARY[1]:
        return 1.0
    return math.ldexp(1.0, exponent)
