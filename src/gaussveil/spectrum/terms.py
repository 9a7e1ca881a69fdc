"""The reduced form of a privacy loss: terms that add up under composition.

A pair of Gaussians, whitened so that Y is N(0, I), is X_i ~ N(b_i, 1 - g_i) coordinate by coordinate. Its privacy loss
depends on the *variance gap* g_i and on b_i^2 only, and coordinates with equal gaps merge: `multiplicity` many of them
share g, and their squared mean gaps sum to `energy`. Composition concatenates terms; an n-fold composition multiplies
multiplicity and energy by n.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaussveil.spectrum import formulas
from gaussveil.spectrum.selection import array_namespace, every, take_rows
from gaussveil.typing import Array

SMALLEST_GAP = 1e-100  # smaller gaps are raised to this: their squares would leave the range of doubles
FAINTEST = 1e-300  # the least energy of a mean gap that is not zero: its square may leave the range of doubles


def energy_of(mean_gap: Array) -> Array:
    """b^2, and never 0 unless b is: a faint shift costs a little too much rather than nothing."""
    xp = array_namespace(mean_gap)
    energy = mean_gap * mean_gap
    if every(energy >= FAINTEST):
        return energy
    return xp.where(
        (mean_gap != 0) & (energy < FAINTEST), xp.full_like(energy, FAINTEST), energy
    )


@dataclass(frozen=True, eq=False)
class Terms:
    """Reduced terms; the last axis runs over terms, leading axes are a batch of losses.

    `log_ratio` is log(1 - variance_gap), kept apart because a tiny variance ratio is not recoverable from its gap.
    """

    variance_gap: Array
    log_ratio: Array
    multiplicity: Array
    energy: Array

    @classmethod
    def from_gaps(
        cls, variance_gap: Array, multiplicity: Array, energy: Array
    ) -> Terms:
        """Terms whose variance ratio is exactly 1 - variance_gap; the gap of a term without weight is none."""
        xp = array_namespace(variance_gap)
        absent = (multiplicity == 0) & (energy == 0)
        if bool(xp.any(absent)):
            variance_gap = xp.where(absent, xp.zeros_like(variance_gap), variance_gap)
        tiny = (variance_gap != 0) & (xp.abs(variance_gap) < SMALLEST_GAP)
        if bool(xp.any(tiny)):
            variance_gap = xp.where(
                tiny, SMALLEST_GAP * xp.sign(variance_gap), variance_gap
            )
        faint = (energy > 0) & (energy < SMALLEST_GAP**2)
        if bool(xp.any(faint)):
            energy = xp.where(faint, xp.full_like(energy, SMALLEST_GAP**2), energy)
        return cls(variance_gap, xp.log1p(-variance_gap), multiplicity, energy)

    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the batch of losses."""
        return tuple(self.variance_gap.shape[:-1])

    def reversed(self) -> Terms:
        """The loss of (Y, X): ratios invert, gaps become -g/(1-g), energies are measured in the other covariance."""
        xp = array_namespace(self.variance_gap)
        inverse_ratio = xp.exp(-self.log_ratio)
        return Terms(
            -self.variance_gap * inverse_ratio,
            -self.log_ratio,
            self.multiplicity,
            self.energy * inverse_ratio,
        )

    def read_only(self) -> Terms:
        """The same terms; NumPy arrays refuse to be written to, so that a loss stays what it was."""
        for column in self.columns():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return self

    def flat(self, batch_shape: tuple[int, ...]) -> Terms:
        """The terms as (batch, terms); a single loss stays one row so that broadcasting needs no copy."""
        xp = array_namespace(self.variance_gap)
        columns = self.columns()
        if all(size == 1 for size in self.batch_shape):
            return Terms(
                *(
                    column[None, :] if column.ndim == 1 else xp.reshape(column, (1, -1))
                    for column in columns
                )
            )
        count = self.variance_gap.shape[-1]
        return Terms(
            *(
                xp.reshape(xp.broadcast_to(column, (*batch_shape, count)), (-1, count))
                for column in columns
            )
        )

    def without_traces(self, limit: float) -> Terms:
        """The terms with gaps below the limit, and energies below its square, set to zero."""
        xp = array_namespace(self.variance_gap)
        trace = xp.abs(self.variance_gap) < limit
        gap, log_ratio = (
            xp.where(trace, xp.zeros_like(column), column)
            for column in (self.variance_gap, self.log_ratio)
        )
        energy = xp.where(
            self.energy < limit**2, xp.zeros_like(self.energy), self.energy
        )
        return Terms(gap, log_ratio, self.multiplicity, energy)

    def rows(self, index: Array) -> Terms:
        """The losses of a flat batch that an index array selects; a single shared row serves every selection."""
        if self.variance_gap.shape[0] == 1:
            return self
        return Terms(*(take_rows(column, index) for column in self.columns()))

    def span(self, start: int, stop: int) -> Terms:
        """The losses start..stop-1 of a flat batch."""
        if self.variance_gap.shape[0] == 1:
            return self
        return Terms(*(column[start:stop, :] for column in self.columns()))

    def columns(self) -> tuple[Array, Array, Array, Array]:
        """Variance gaps, logs of ratios, multiplicities and energies."""
        return self.variance_gap, self.log_ratio, self.multiplicity, self.energy


def folded(gap: Array, log_ratio: Array, multiplicity: Array, energy: Array) -> Terms:
    """Terms in a canonical order, equal variance gaps merged."""
    if not isinstance(gap, np.ndarray):
        return Terms(gap, log_ratio, multiplicity, energy)
    order = np.lexsort((energy, multiplicity, log_ratio, gap))
    gap, log_ratio, multiplicity, energy = (
        column[order] for column in (gap, log_ratio, multiplicity, energy)
    )
    starts = np.flatnonzero(
        np.concatenate(
            ([True], (gap[1:] != gap[:-1]) | (log_ratio[1:] != log_ratio[:-1]))
        )
    )
    return Terms(
        gap[starts],
        log_ratio[starts],
        np.add.reduceat(multiplicity, starts),
        np.add.reduceat(energy, starts),
    )


def cumulant(terms: Terms, order: Array) -> Array:
    """K(s) = log E_X[exp(s L)] at real s; +inf where it does not exist (mathematics: docs/math/spectrum)."""
    xp = array_namespace(terms.variance_gap)
    return xp.sum(
        formulas.cumulant_term(xp, order[..., None], *terms.columns()), axis=-1
    )


def cumulant_slopes(terms: Terms, order: Array) -> tuple[Array, Array]:
    """K'(s) and K''(s) at real s inside the domain of K."""
    xp = array_namespace(terms.variance_gap)
    mean, covariance, lean, cube = formulas.slope_parts(
        order[..., None], terms.variance_gap, terms.log_ratio
    )
    slope = 0.5 * (
        xp.vecdot(terms.energy, mean) - xp.vecdot(terms.multiplicity, covariance)
    )
    curvature = 0.5 * xp.vecdot(terms.multiplicity, lean)
    return slope, curvature + xp.vecdot(terms.energy * xp.exp(terms.log_ratio), cube)


def order_limits(terms: Terms) -> tuple[Array, Array]:
    """The open interval (s_min, s_max) on which K(s) is finite: all 1 + s g > 0."""
    xp = array_namespace(terms.variance_gap)
    lowest = xp.min(terms.variance_gap, axis=-1)
    highest = xp.max(terms.variance_gap, axis=-1)
    return formulas.lowest_order(xp, highest), formulas.highest_order(xp, lowest)


def loss_limits(terms: Terms) -> tuple[Array, Array]:
    """Infimum and supremum of the loss L; one of them is finite when all gaps with weight have one sign."""
    xp = array_namespace(terms.variance_gap)
    gap = terms.variance_gap
    flat = terms.variance_gap == 0
    bounded = xp.where(
        flat,
        xp.zeros_like(gap),
        terms.energy / (2 * xp.where(flat, xp.ones_like(gap), gap)),
    )
    turn = xp.sum(bounded, axis=-1) - 0.5 * xp.vecdot(
        terms.multiplicity, terms.log_ratio
    )
    unbounded_mean = xp.any(flat & (terms.energy > 0), axis=-1)
    infinite = xp.full_like(turn, xp.inf)
    highest = xp.where(unbounded_mean | (xp.min(gap, axis=-1) < 0), infinite, turn)
    return xp.where(
        unbounded_mean | (xp.max(gap, axis=-1) > 0), -infinite, turn
    ), highest
