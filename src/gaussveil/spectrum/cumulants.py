"""The cumulant function K(s) to the last digits, for what adds it up: Renyi divergences, filters, Chernoff bounds.

A term adds -m/2 [s log(1-g) + log(1+sg)] + s(1+s) e / (2 (1+sg)). For small gaps the two logarithms cancel to
-s(1+s) g^2 / 2, all digits lost from g = 1e-8 on; with f(x) = log(1+x) - x <= 0 they are s f(-g) + f(sg), which for
s > 0 have one sign. The contour integral needs K for its choice of route only, and takes a shorter formula.
"""

from __future__ import annotations

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.formulas import spread_at
from gaussveil.spectrum.selection import array_namespace
from gaussveil.spectrum.terms import Terms, cumulant_slopes, loss_limits
from gaussveil.typing import Array

SERIES_WITHIN = 0.5
NEAR_ONE = 1e-9  # of an order: there the slope at 1 has more digits than the quotient
SERIES_TERMS = 18  # r^2 <= 1/9 for |x| <= 1/2: the rest is below 2^-60
DOMAIN_EDGE = (
    2.0**-40
)  # taken off 1 + sg next to the end of K's domain: more than gaps of a reversed pair can be off


def log_excess(x: Array) -> Array:
    """log(1 + x) - x with a relative error of a few units in the last place, for x > -1.

    With r = x/(2+x), log(1+x) = 2 (r + r^3/3 + r^5/5 + ...) and 2r - x = -x r.
    """
    xp = array_namespace(x)
    small = xp.abs(x) <= SERIES_WITHIN
    near = xp.where(small, x, xp.zeros_like(x))
    ratio = near / (2 + near)
    square = ratio * ratio
    series = xp.zeros_like(x)
    for power in range(2 * SERIES_TERMS + 1, 1, -2):
        series = series * square + 1 / power
    return xp.where(small, 2 * ratio * square * series - near * ratio, xp.log1p(x) - x)


def cumulant(terms: Terms, order: Array, edge: float = 0.0) -> Array:
    """K(s) at real s; +inf where it does not exist, or not by `edge`: then 1 + sg is taken so much smaller."""
    xp = array_namespace(terms.variance_gap)
    gap, log_ratio, multiplicity, energy = terms.columns()
    order = order[..., None]
    along = order * gap
    far = along < -SERIES_WITHIN
    spread = xp.where(far, spread_at(gap, order) - edge, 1 + along)
    exists = spread > 0
    inside = xp.where(exists, spread, xp.ones_like(spread))
    logs = order * _own_excess(gap, log_ratio) + xp.where(
        far,
        xp.log(inside) - along,
        log_excess(xp.where(far, xp.zeros_like(along), along)),
    )
    value = energy * order * (1 + order) / (2 * inside) - 0.5 * multiplicity * logs
    return xp.sum(xp.where(exists, value, xp.full_like(value, xp.inf)), axis=-1)


def cumulant_upper(terms: Terms, order: Array) -> Array:
    """At least K(s), for s > 0, of terms and of their reverses: no part cancels, so the error is relative."""
    rounding = 1 + 2 * (terms.variance_gap.shape[-1] + 1000) * UNIT_ROUNDOFF
    return cumulant(terms, order, DOMAIN_EDGE) * rounding


def mean_loss(terms: Terms) -> Array:
    """K'(0), the Kullback-Leibler divergence of X from Y."""
    xp = array_namespace(terms.variance_gap)
    gap, log_ratio, multiplicity, energy = terms.columns()
    return 0.5 * xp.sum(energy - multiplicity * _own_excess(gap, log_ratio), axis=-1)


def renyi(terms: Terms, order: Array) -> Array:
    """Renyi divergence of X from Y at orders > 0; next to order 1, where K(s)/s cancels, by K'(0) + s K''(0)/2."""
    xp = array_namespace(order)
    excess = order - 1
    finite = xp.isfinite(order)
    apart = xp.abs(excess) > NEAR_ONE
    safe = xp.where(finite & apart, excess, xp.ones_like(excess))
    ordinary = cumulant(terms, safe) / safe
    _, curvature = cumulant_slopes(terms, 0 * order)
    beside = xp.where(finite, excess, xp.zeros_like(excess))
    near_one = mean_loss(terms) + 0.5 * curvature * beside
    _, supremum = loss_limits(terms)
    value = xp.where(apart, ordinary, near_one)
    return xp.where(finite, value, supremum + xp.zeros_like(order))


def _own_excess(gap: Array, log_ratio: Array) -> Array:
    """log(1-g) + g; the log of a tiny ratio is known better than the ratio is from its gap."""
    xp = array_namespace(gap)
    small = xp.abs(gap) <= SERIES_WITHIN
    return xp.where(
        small, log_excess(xp.where(small, -gap, xp.zeros_like(gap))), log_ratio + gap
    )
