"""Gradient of the exact delta of a pair of Gaussians in its means and covariances (derived: docs/math/class_noise).

Whiten with T: T' S_Y T = I, T' S_X T = diag(1 - g), b = T'(m_X - m_Y), q_i = 1 + s g_i; I[f]: delta's contour
integral of f. With J_i = I[1/q_i], C0_ij = I[1/(q_i q_j)], C1_ij = I[s/(q_i q_j)]

    d delta / d m_X = T (b o J) = -d delta / d m_Y
    d delta / d S_X = T [ bb' o C1 / 2 - diag(g J / (2 (1-g))) ] T'
    d delta / d S_Y = T [ diag(g J / 2) - bb' o (C0 + C1) / 2 ] T'
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from array_api_compat import is_numpy_namespace

from gaussveil.spectrum.contour_path import choose_bend, log_integrand, saddle
from gaussveil.spectrum.rules import (
    GRADIENT_HALF_RULE,
    GRADIENT_TAIL,
    HOCKEY_STICK,
    TRAPEZOID_RULES,
)
from gaussveil.spectrum.selection import (
    array_namespace,
    compiled_contour,
    put_rows,
    take_rows,
    where,
)
from gaussveil.spectrum.terms import Terms, cumulant, energy_of, loss_limits
from gaussveil.typing import Array

EQUAL_GAP = 1e-13  # gaps below this are rounding errors of equal covariances
FAR_ORDER = 1e3  # s epsilon where Chernoff's bound is looked at
SMALLEST_DOUBLE = -750.0  # exp of it is zero
CPU_GRADIENT_ELEMENTS = 1 << 17
DEVICE_GRADIENT_ELEMENTS = 1 << 26


class PairGradient(NamedTuple):
    """log delta of a batch of pairs and its gradient: in mean_x (minus that in mean_y), cov_x and cov_y."""

    log_delta: Array
    mean_x: Array
    cov_x: Array
    cov_y: Array


@dataclass(frozen=True, eq=False)
class Whitened:
    """A batch of pairs with T' S_Y T = I, T' S_X T = diag(ratio): `axes` is T, `mean_gap` is T'(m_X - m_Y)."""

    axes: Array
    gap: Array
    ratio: Array
    mean_gap: Array

    def reversed(self) -> Whitened:
        """The pairs (Y, X)."""
        xp = array_namespace(self.gap)
        scale = 1 / xp.sqrt(self.ratio)
        return Whitened(
            self.axes * scale[:, None, :],
            -self.gap / self.ratio,
            1 / self.ratio,
            -self.mean_gap * scale,
        )


def whiten(mean_x: Array, cov_x: Array, mean_y: Array, cov_y: Array) -> Whitened:
    """Reduce a flat batch of pairs (batch, d), (batch, d, d), keeping the axes that gradients need."""
    xp = array_namespace(cov_y)
    factor = xp.linalg.cholesky(cov_y)
    inverse = xp.linalg.inv(factor)
    difference = inverse @ (cov_y - cov_x) @ xp.matrix_transpose(inverse)
    gap, basis = xp.linalg.eigh((difference + xp.matrix_transpose(difference)) / 2)
    gap = xp.where(
        xp.abs(gap) < EQUAL_GAP,
        xp.zeros_like(gap),
        xp.minimum(gap, xp.full_like(gap, 1 - EQUAL_GAP)),
    )
    axes = xp.matrix_transpose(inverse) @ basis
    shift = (xp.matrix_transpose(axes) @ (mean_x - mean_y)[:, :, None])[:, :, 0]
    return Whitened(axes, gap, 1 - gap, shift)


def both_gradients(pair: Whitened, epsilon: float) -> tuple[PairGradient, PairGradient]:
    """log delta(epsilon) and its gradient, X from Y and Y from X, both in the pair's X and Y, from one batch."""
    xp = array_namespace(pair.gap)
    back = pair.reversed()
    count = pair.gap.shape[0]
    gap, ratio, mean_gap = (
        xp.concat([getattr(pair, name), getattr(back, name)])
        for name in ("gap", "ratio", "mean_gap")
    )
    log_delta, *moments = _moments(gap, ratio, mean_gap, epsilon, 1)
    ahead = _pull_back(pair, *(column[:count, ...] for column in moments))
    mean, cov_y, cov_x = _pull_back(back, *(column[count:, ...] for column in moments))
    return PairGradient(log_delta[:count], *ahead), PairGradient(
        log_delta[count:], -mean, cov_x, cov_y
    )


def swap_gradient(pair: Whitened, epsilon: float) -> PairGradient:
    """log delta(epsilon) of (X x Y) from (Y x X), two labels that change places, and its gradient."""
    xp = array_namespace(pair.gap)
    back = pair.reversed()
    gap, ratio, mean_gap = (
        xp.concat([getattr(pair, name), getattr(back, name)], axis=-1)
        for name in ("gap", "ratio", "mean_gap")
    )
    log_delta, first, plain, tilted = _moments(gap, ratio, mean_gap, epsilon, 2)
    size = pair.gap.shape[-1]
    there = _pull_back(pair, first[:, :size], plain[:, 0, :, :], tilted[:, 0, :, :])
    again = _pull_back(back, first[:, size:], plain[:, 1, :, :], tilted[:, 1, :, :])
    return PairGradient(
        log_delta, there[0] - again[0], there[1] + again[2], there[2] + again[1]
    )


def _pull_back(
    pair: Whitened, first: Array, plain: Array, tilted: Array
) -> tuple[Array, Array, Array]:
    """From integrals in whitened coordinates to gradients in the pair's own."""
    xp = array_namespace(pair.gap)
    if plain.ndim == 4:
        plain = plain[:, 0, :, :]
        tilted = tilted[:, 0, :, :]
    back = xp.matrix_transpose(pair.axes)
    eye = xp.eye(pair.gap.shape[-1], dtype=pair.gap.dtype, device=pair.gap.device)
    outer = 0.5 * pair.mean_gap[:, :, None] * pair.mean_gap[:, None, :]
    lean = 0.5 * pair.gap * first
    mean = (pair.axes @ (pair.mean_gap * first)[:, :, None])[:, :, 0]
    cov_x = pair.axes @ (outer * tilted - eye * (lean / pair.ratio)[:, None, :]) @ back
    cov_y = pair.axes @ (eye * lean[:, None, :] - outer * (plain + tilted)) @ back
    return mean, cov_x, cov_y


@np.errstate(all="ignore")
def _moments(
    gap: Array, ratio: Array, mean_gap: Array, epsilon: float, parts: int
) -> tuple[Array, ...]:
    """log delta, and J, C0, C1 divided by delta; C only inside each of the `parts` equal blocks of terms."""
    xp = array_namespace(gap)
    terms = Terms(gap, xp.log(ratio), xp.ones_like(gap), energy_of(mean_gap))
    if is_numpy_namespace(xp):
        budget = CPU_GRADIENT_ELEMENTS
    else:
        budget = DEVICE_GRADIENT_ELEMENTS
    rows = max(1, budget // (gap.shape[-1] * TRAPEZOID_RULES[0][0]))
    count = gap.shape[0]
    pieces = [
        _moments_of(terms.span(at, min(at + rows, count)), epsilon, parts)
        for at in range(0, count, rows)
    ]
    if len(pieces) > 1:
        return tuple(xp.concat(list(column)) for column in zip(*pieces))
    return pieces[0]


def _moments_of(terms: Terms, epsilon: float, parts: int) -> tuple[Array, ...]:
    xp = array_namespace(terms.variance_gap)
    _, supremum = loss_limits(terms)
    # Elsewhere delta is zero, and a saddle would run off to infinity.
    possible = where((supremum > epsilon) & ~_below_all_doubles(terms, epsilon))
    count, size = terms.variance_gap.shape
    blocks = (count, parts, size // parts, size // parts)
    empty = [xp.full_like(supremum, -xp.inf), xp.zeros_like(terms.variance_gap)]
    empty += [
        xp.zeros(blocks, dtype=supremum.dtype, device=supremum.device) for _ in range(2)
    ]
    if possible.shape[0] == 0:
        return tuple(empty)
    terms = terms.rows(possible)
    threshold = xp.full_like(terms.variance_gap[:, 0], epsilon)
    by_rules = getattr(
        compiled_contour(threshold, size), "moments", _by_rules
    )  # in C on the CPU
    moments = by_rules(terms, threshold, parts)
    usable = xp.isfinite(moments[0])
    moments = [
        xp.where(
            xp.reshape(usable, (-1, *(1,) * (column.ndim - 1))),
            column,
            xp.zeros_like(column),
        )
        for column in moments
    ]
    return tuple(
        put_rows(before, possible, column) for before, column in zip(empty, moments)
    )


def _by_rules(terms: Terms, threshold: Array, parts: int) -> list[Array]:
    """The integrals by the first rule that settles, row by row, or the last."""
    centre, width = saddle(terms, threshold, HOCKEY_STICK)
    *integrals, settled = _rule(
        terms, threshold, centre, width, *TRAPEZOID_RULES[0], parts
    )
    for nodes, reach in TRAPEZOID_RULES[1:]:
        rows = where(~settled)
        if rows.shape[0] == 0:
            break
        at, around, across = (
            take_rows(column, rows) for column in (threshold, centre, width)
        )
        *again, fine = _rule(terms.rows(rows), at, around, across, nodes, reach, parts)
        integrals = [
            put_rows(column, rows, update) for column, update in zip(integrals, again)
        ]
        settled = put_rows(settled, rows, fine)
    return integrals


def _below_all_doubles(terms: Terms, epsilon: float) -> Array:
    """Where delta <= exp(K(s) - s epsilon), Chernoff's bound, is too small for a double.

    The integral would be one of rounding errors there: its exponents have more digits than a double.
    """
    xp = array_namespace(terms.variance_gap)
    if epsilon > 0:
        order = FAR_ORDER / epsilon
    else:
        order = 0.0
    return (
        cumulant(terms, xp.full_like(terms.variance_gap[:, 0], order)) - order * epsilon
        < SMALLEST_DOUBLE
    )


def _rule(
    terms: Terms,
    threshold: Array,
    centre: Array,
    width: Array,
    count: int,
    reach: float,
    parts: int,
) -> tuple[Array, ...]:
    """The integrals by `count` trapezoid nodes on the half contour, and whether the rule has settled."""
    xp = array_namespace(centre)
    bend, extent = choose_bend(
        terms, threshold, HOCKEY_STICK.poles, centre, width, reach
    )
    step = extent / count
    position = step[:, None] * xp.arange(
        0, count + 1, dtype=centre.dtype, device=centre.device
    )
    rise = xp.sinh(position)
    swing = xp.cosh(position)
    offset = width[:, None] * bend[:, None] * (swing - 1)
    imag = width[:, None] * rise
    log_size, phase = log_integrand(
        terms, threshold, HOCKEY_STICK.poles, centre, offset, imag, True
    )
    peak = log_size[:, :1]
    angle = xp.exp(1j * phase)
    # I = (1/pi) Im int_0^inf F(s(u)) s'(u) du by symmetry; the first node counts half
    direction = bend[:, None] * rise + 1j * swing
    values = xp.exp(log_size - peak) * angle * direction
    values = xp.concat([0.5 * values[:, :1], values[:, 1:]], axis=-1)
    total = xp.sum(xp.imag(values), axis=-1)
    coarse = 2 * xp.sum(xp.imag(values)[:, ::2], axis=-1)
    settled = (xp.abs(total - coarse) <= GRADIENT_HALF_RULE * xp.abs(total)) & (
        total > 0
    )
    order = centre[:, None] + offset + 1j * imag
    values = (
        values
        * order
        * (1 + order)
        / xp.where(total > 0, total, xp.ones_like(total))[:, None]
    )
    sizes = xp.abs(values)
    parts_of = xp.imag(values)
    settled = settled & (
        xp.max(sizes[:, -2:], axis=-1) <= GRADIENT_TAIL * xp.max(sizes, axis=-1)
    )
    halved = xp.abs(xp.sum(parts_of, axis=-1) - 2 * xp.sum(parts_of[:, ::2], axis=-1))
    settled = settled & (halved <= GRADIENT_HALF_RULE * xp.sum(sizes, axis=-1))
    inverse = 1 / (1 + terms.variance_gap[:, :, None] * order[:, None, :])
    first = xp.imag((inverse @ values[:, :, None])[:, :, 0])
    size = inverse.shape[1] // parts
    blocks = xp.reshape(inverse, (inverse.shape[0], parts, size, inverse.shape[2]))
    turned = xp.permute_dims(blocks, (0, 1, 3, 2))
    plain = xp.imag((blocks * values[:, None, None, :]) @ turned)
    tilted = xp.imag((blocks * (values * order)[:, None, None, :]) @ turned)
    log_delta = peak[:, 0] + xp.log(
        xp.where(total > 0, total, xp.ones_like(total)) * step * width / math.pi
    )
    return (
        xp.minimum(log_delta, xp.zeros_like(log_delta)),
        first,
        plain,
        tilted,
        settled,
    )
