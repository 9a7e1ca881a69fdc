"""The reduced form of a privacy loss: terms that add up under composition.

A pair of Gaussians, whitened so that Y is N(0, I), is X_i ~ N(b_i, 1 - g_i) coordinate by coordinate. Its privacy loss
depends on the *variance gap* g_i and on b_i^2 only, and coordinates with equal gaps merge: `multiplicity` many of them
share g, and their squared mean gaps sum to `energy`. Composition concatenates terms; an n-fold composition multiplies
multiplicity and energy by n.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussveil.spectrum.selection import array_namespace, take_rows

Array = Any

SMALLEST = 1e-100  # smaller gaps are raised to this: their squares would leave the range of doubles


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
    def from_gaps(cls, variance_gap: Array, multiplicity: Array, energy: Array) -> Terms:
        """Terms whose variance ratio is exactly 1 - variance_gap."""
        xp = array_namespace(variance_gap)
        tiny = (variance_gap != 0) & (xp.abs(variance_gap) < SMALLEST)
        variance_gap = xp.where(tiny, SMALLEST * xp.sign(variance_gap), variance_gap)
        energy = xp.where((energy > 0) & (energy < SMALLEST**2), xp.full_like(energy, SMALLEST**2), energy)
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
            -self.variance_gap * inverse_ratio, -self.log_ratio, self.multiplicity, self.energy * inverse_ratio
        )

    def read_only(self) -> Terms:
        """The same terms; NumPy arrays refuse to be written to, so that a loss stays what it was."""
        for column in self._columns():
            if isinstance(column, np.ndarray):
                column.setflags(write=False)
        return self

    def flat(self, batch_shape: tuple[int, ...]) -> Terms:
        """The terms as (batch, terms); a single loss stays one row so that broadcasting needs no copy."""
        xp = array_namespace(self.variance_gap)
        columns = self._columns()
        if all(size == 1 for size in self.batch_shape):
            return Terms(*(xp.reshape(column, (1, -1)) for column in columns))
        count = self.variance_gap.shape[-1]
        return Terms(*(xp.reshape(xp.broadcast_to(column, (*batch_shape, count)), (-1, count)) for column in columns))

    def without_traces(self, limit: float) -> Terms:
        """The terms with gaps below the limit, and energies below its square, set to zero."""
        xp = array_namespace(self.variance_gap)
        trace = xp.abs(self.variance_gap) < limit
        gap, log_ratio = (
            xp.where(trace, xp.zeros_like(column), column) for column in (self.variance_gap, self.log_ratio)
        )
        energy = xp.where(self.energy < limit**2, xp.zeros_like(self.energy), self.energy)
        return Terms(gap, log_ratio, self.multiplicity, energy)

    def rows(self, index: Array) -> Terms:
        """The losses of a flat batch that an index array selects; a single shared row serves every selection."""
        if self.variance_gap.shape[0] == 1:
            return self
        return Terms(*(take_rows(column, index) for column in self._columns()))

    def span(self, start: int, stop: int) -> Terms:
        """The losses start..stop-1 of a flat batch."""
        if self.variance_gap.shape[0] == 1:
            return self
        return Terms(*(column[start:stop, :] for column in self._columns()))

    def _columns(self) -> tuple[Array, Array, Array, Array]:
        return self.variance_gap, self.log_ratio, self.multiplicity, self.energy


def cumulant(terms: Terms, order: Array) -> Array:
    """K(s) = log E_X[exp(s L)] at real s; +inf where it does not exist (mathematics: docs/math/spectrum)."""
    xp = array_namespace(terms.variance_gap)
    gap, order = terms.variance_gap, order[..., None]
    spread = 1 + order * gap
    exists = xp.all(spread > 0, axis=-1)
    safe = xp.where(spread > 0, spread, xp.ones_like(spread))
    covariance_part = (
        -0.5 * terms.multiplicity * (order * terms.log_ratio + xp.log1p(xp.where(spread > 0, order * gap, 0.0 * gap)))
    )
    mean_part = terms.energy * order * (1 + order) / (2 * safe)
    total = xp.sum(covariance_part + mean_part, axis=-1)
    return xp.where(exists, total, xp.full_like(total, xp.inf))


def cumulant_slopes(terms: Terms, order: Array) -> tuple[Array, Array]:
    """K'(s) and K''(s) at real s inside the domain of K."""
    xp = array_namespace(terms.variance_gap)
    gap, order = terms.variance_gap, order[..., None]
    inverse = 1 / (1 + order * gap)
    square, lean = inverse * inverse, gap * inverse
    slope = xp.vecdot(terms.energy, (1 + 2 * order + order * order * gap) * square)
    slope = 0.5 * (slope - xp.vecdot(terms.multiplicity, terms.log_ratio + lean))
    curvature = 0.5 * xp.vecdot(terms.multiplicity, lean * lean)
    return slope, curvature + xp.vecdot(terms.energy * xp.exp(terms.log_ratio), inverse * square)


def order_limits(terms: Terms) -> tuple[Array, Array]:
    """The open interval (s_min, s_max) on which K(s) is finite: all 1 + s g > 0."""
    xp = array_namespace(terms.variance_gap)
    lowest, highest = xp.min(terms.variance_gap, axis=-1), xp.max(terms.variance_gap, axis=-1)
    infinite, unit = xp.full_like(lowest, xp.inf), xp.ones_like(lowest)
    above = xp.where(lowest < 0, -1 / xp.where(lowest < 0, lowest, unit), infinite)
    below = xp.where(highest > 0, -1 / xp.where(highest > 0, highest, unit), -infinite)
    return below, above


def loss_limits(terms: Terms) -> tuple[Array, Array]:
    """Infimum and supremum of the loss L; one of them is finite when all gaps with weight have one sign."""
    xp = array_namespace(terms.variance_gap)
    gap, flat = terms.variance_gap, terms.variance_gap == 0
    bounded = xp.where(flat, xp.zeros_like(gap), terms.energy / (2 * xp.where(flat, xp.ones_like(gap), gap)))
    turn = xp.sum(bounded, axis=-1) - 0.5 * xp.vecdot(terms.multiplicity, terms.log_ratio)
    unbounded_mean = xp.any(flat & (terms.energy > 0), axis=-1)
    infinite = xp.full_like(turn, xp.inf)
    highest = xp.where(unbounded_mean | (xp.min(gap, axis=-1) < 0), infinite, turn)
    return xp.where(unbounded_mean | (xp.max(gap, axis=-1) > 0), -infinite, turn), highest
