"""The one integral behind every probability of the privacy loss.

For a loss with cumulant function K and poles at 0 and/or -1,

    (1/(2 pi i)) int exp(K(s) - s eps) / prod_p (s - p) ds

over a line Re s = c is delta(eps) (poles 0 and -1, c > 0), delta(eps) - 1 (c between them), Pr_X[L > eps] (pole 0, c >
0), and so on (derived: docs/math/spectrum). The line is moved to the saddle c of |integrand|, bent into the half plane
where the integrand decays, s(u) = c + w (i sinh u +- k (cosh u - 1)), and summed by the trapezoid rule, which converges
geometrically. Every value is checked against the rule with half the nodes; the few that fail are done again with more.

Everything is real arithmetic on real and imaginary parts, through the array API, so that the same lines run on NumPy,
PyTorch and CuPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import is_numpy_namespace

from gaussveil.errors import NumericalError
from gaussveil.spectrum.selection import array_namespace, contract, put_rows, take_rows, where
from gaussveil.spectrum.terms import Terms, cumulant, cumulant_slopes, loss_limits, order_limits

Array = Any

BENDS = (-0.3, 0.3, -0.9, 0.9)  # below 1, since a mean shift acts as exp(b^2 s^2 / 2); mild ones first
PENALTY = (1.0, 1.0, 1.25, 1.25)  # a strong bend, good for exponential falls, must be worth it
PROBES = (3.0, 4.0, 5.2, 7.0, 9.5, 13.0, 18.0, 26.0, 40.0, 60.0, 90.0)
# Nodes of each rule, and the largest u that they may have to cover.
RULES = ((40, 7.0), (72, 13.0), (160, 26.0), (640, 90.0), (4096, 90.0))
GROWTH = 3.0  # log growth along the way that would cost digits by cancellation
DECAY = -36.7  # log of 2^-53: where a probe counts as decayed
RULE_ERROR = 2e-12  # relative error of a settled rule, tested against ball arithmetic
LARGE = -0.5  # log of peak times width beyond which 1 - delta is the better integral
STRETCH = 1.4  # contour scale in local widths, the best of those tried
HALF_RULE_TOLERANCE = 3e-9  # the full rule's error is about the square of the half rule's
SPLIT = 134217729.0  # 2^27 + 1, Veltkamp's constant: halves of a double multiply exactly
MANY = 1000  # multiplicity up to which log |1 + s g| may carry the rounding of a plain logarithm
CPU_CHUNK = 1 << 17
DEVICE_CHUNK = 1 << 29


@dataclass(frozen=True)
class Region:
    """Where the contour crosses the real axis: from `base` (a pole) in `direction` up to the next singularity."""

    poles: tuple[float, ...]
    base: float
    direction: float

    def reach(self, terms: Terms) -> Array:
        """Distance from the base to the other end of the region, possibly infinite."""
        lowest, highest = order_limits(terms)
        others = [pole for pole in self.poles if (pole - self.base) * self.direction > 0]
        if others:
            xp = array_namespace(lowest)
            return xp.full_like(lowest, abs(others[0] - self.base))
        return highest - self.base if self.direction > 0 else self.base - lowest


class Integral(NamedTuple):
    """log |integral|, its slope in the threshold, and a bound on the error of the log.

    Where no rule settled, the error is infinite and the value is an upper bound.
    """

    log_value: Array
    slope: Array
    log_error: Array


HOCKEY_STICK = Region((0.0, -1.0), 0.0, 1.0)  # delta
HOCKEY_STICK_COMPLEMENT = Region((0.0, -1.0), 0.0, -1.0)  # delta - 1
TAIL_X = Region((0.0,), 0.0, 1.0)  # Pr_X[L > eps]
TAIL_X_COMPLEMENT = Region((0.0,), 0.0, -1.0)  # Pr_X[L > eps] - 1
TAIL_Y = Region((-1.0,), -1.0, 1.0)  # exp(eps) Pr_Y[L > eps]
TAIL_Y_COMPLEMENT = Region((-1.0,), -1.0, -1.0)  # exp(eps) (Pr_Y[L > eps] - 1)


def saddle(terms: Terms, threshold: Array, region: Region) -> tuple[Array, Array]:
    """Crossing point c that (nearly) minimises the integrand on the real axis, and the local width there.

    Safeguarded Newton on the distance from the base, in a logit-like coordinate that maps the region onto the line. Any
    c is valid; a good one only saves nodes, so a loose tolerance is enough. Rows leave as they arrive.
    """
    xp = array_namespace(terms.variance_gap)
    inverse_reach = 1 / region.reach(terms) + 0 * threshold
    slope, curvature = cumulant_slopes(terms, xp.full_like(inverse_reach, region.base))
    drift = region.direction * (slope - threshold)
    distance = 3 / (drift + xp.hypot(drift, xp.sqrt(6 * curvature)) + 1e-300)
    distance = xp.minimum(distance, 0.9 / (inverse_reach + 1e-300))
    coordinate = -xp.log(xp.clip(1 / distance - inverse_reach, 1e-300, 1e300))
    infinite = xp.full_like(coordinate, xp.inf)
    state = (threshold, inverse_reach, coordinate, -infinite, infinite)
    rows = xp.arange(coordinate.shape[0], device=coordinate.device)
    found_centre, found_stiffness = coordinate, coordinate
    for _ in range(60):
        centre, stiffness, arrived, state = _newton_step(terms, region, *state)
        found_centre = put_rows(found_centre, rows, centre)
        found_stiffness = put_rows(found_stiffness, rows, stiffness)
        left = where(~arrived)
        if left.shape[0] == 0:
            break
        if 2 * left.shape[0] <= rows.shape[0]:  # compressing costs about as much as a step
            rows, terms = take_rows(rows, left), terms.rows(left)
            state = tuple(take_rows(column, left) for column in state)
    return found_centre, STRETCH / xp.sqrt(found_stiffness)


def _newton_step(
    terms: Terms, region: Region, threshold: Array, inverse_reach: Array, coordinate: Array, below: Array, above: Array
) -> tuple[Array, Array, Array, tuple[Array, ...]]:
    """The crossing at the coordinate, the stiffness there, whether it is good enough, and the state to go on with."""
    xp = array_namespace(coordinate)
    decay = xp.exp(-coordinate)
    distance = 1 / (inverse_reach + decay)
    centre = region.base + region.direction * distance
    slope, stiffness = cumulant_slopes(terms, centre)
    force = slope - threshold
    for pole in region.poles:
        offset = 1 / (centre - pole)
        force, stiffness = force - offset, stiffness + offset * offset
    arrived = xp.abs(force) < 0.25 * xp.sqrt(stiffness)  # within a quarter of the local width
    stride = region.direction * distance * distance * decay  # d centre / d coordinate
    balance = force * stride
    below, above = xp.where(balance < 0, coordinate, below), xp.where(balance > 0, coordinate, above)
    gradient = stiffness * stride * stride + balance * (1 - 2 * distance * inverse_reach)
    step = xp.where(gradient > 0, xp.clip(-balance / gradient, -4.0, 4.0), -4.0 * xp.sign(balance))
    proposal = coordinate + step
    middle = (below + above) / 2
    outside = ((proposal <= below) | (proposal >= above)) & xp.isfinite(middle)
    return centre, stiffness, arrived, (threshold, inverse_reach, xp.where(outside, middle, proposal), below, above)


def log_integrand(
    terms: Terms, threshold: Array, poles: tuple[float, ...], centre: Array, offset: Array, imag: Array, phase: bool
) -> tuple[Array, Array]:
    """log |integrand| at s = centre + offset + i imag, arrays (batch, nodes), with its phase when asked for.

    Without `phase` the second array bounds how much log |integrand| can still grow on the way straight up: only mean
    parts of terms whose branch point lies between the real axis and s can (derived: docs/math/spectrum).
    """
    xp = array_namespace(imag)
    gap = terms.variance_gap[:, :, None]
    real = centre[:, None] + offset
    along = imag[:, None, :] * gap
    spread = _spread_at(terms.variance_gap, centre)[:, :, None] + offset[:, None, :] * gap
    modulus = spread * spread + along * along
    log_terms = xp.log(modulus)
    if bool(xp.any(xp.sum(terms.multiplicity, axis=-1) > MANY)):  # small logs count so often that they need all digits
        across = real[:, None, :] * gap
        log_terms = xp.where(modulus < 0.25, log_terms, xp.log1p(across * (2 + across) + along * along))
    log_modulus = contract(terms.multiplicity, log_terms)
    mean_real = 0.5 * contract(terms.energy, spread / modulus)
    mean_imag = 0.5 * contract(terms.energy, along / modulus)
    square_real, square_imag = real * (1 + real) - imag * imag, imag * (1 + 2 * real)
    drift = 0.5 * xp.vecdot(terms.multiplicity, terms.log_ratio)[:, None] + threshold[:, None]
    log_size = square_real * mean_real + square_imag * mean_imag - 0.25 * log_modulus - real * drift
    for pole in poles:
        log_size = log_size - 0.5 * xp.log((real - pole) ** 2 + imag * imag)
    if not phase:
        behind = spread < 0
        if not bool(xp.any(behind)):
            return log_size, xp.zeros_like(log_size)
        squared = xp.where(gap != 0, gap * gap, xp.ones_like(gap))
        weight = xp.exp(terms.log_ratio)[:, :, None] / (2 * squared)
        return log_size, contract(terms.energy, xp.where(behind, -weight * spread / modulus, 0 * modulus))
    angle = contract(terms.multiplicity, xp.atan2(along, spread))
    log_phase = square_imag * mean_real - square_real * mean_imag - 0.5 * angle - imag * drift
    for pole in poles:
        log_phase = log_phase - xp.atan2(imag, real - pole)
    return log_size, log_phase


def _spread_at(gap: Array, centre: Array) -> Array:
    """1 + centre * gap without cancellation next to a branch point: the product is error-free."""
    left, right = gap + 0 * centre[:, None], centre[:, None] + 0 * gap
    product = left * right
    left_high = left * SPLIT - (left * SPLIT - left)
    right_high = right * SPLIT - (right * SPLIT - right)
    left_low, right_low = left - left_high, right - right_high
    error = ((left_high * right_high - product) + left_high * right_low + left_low * right_high) + left_low * right_low
    return (1 + product) + error


def choose_bend(
    terms: Terms, threshold: Array, poles: tuple[float, ...], centre: Array, width: Array, reach: float
) -> tuple[Array, Array]:
    """Which way and how strongly to bend the contour, and how far it must be followed, found by probing.

    A Gaussian fall wants a nearly straight line, an exponential one a strong bend to the right side. The asymptotic
    sign of (L_inf - eps) is wrong for some ordinary pairs, so the fall is measured: the shortest contour wins.
    """
    xp = array_namespace(centre)
    spots = [spot for spot in PROBES if spot <= reach]
    count = len(spots)
    device = {"dtype": centre.dtype, "device": centre.device}
    bends = xp.asarray([0.0] + [bend for bend in BENDS for _ in spots], **device)  # first the crossing itself
    places = xp.asarray([0.0] + spots * len(BENDS), **device)
    rise, swing = xp.sinh(places), xp.cosh(places)
    size, growth = log_integrand(
        terms, threshold, poles, centre, width[:, None] * (bends * (swing - 1)), width[:, None] * rise, False
    )
    shape = (centre.shape[0], len(BENDS), count)
    level = xp.reshape((size - size[:, :1] + xp.log(swing))[:, 1:], shape)
    # Nothing of weight is left above a quiet probe, so the contour may end there, unless it grew on the way.
    quiet = level + xp.reshape(growth[:, 1:], shape) < DECAY
    grown = ~(level <= GROWTH)
    first_quiet = xp.argmax(xp.astype(quiet, xp.int8), axis=-1)
    first_grown = xp.where(xp.any(grown, axis=-1), xp.argmax(xp.astype(grown, xp.int8), axis=-1), count)
    ends = xp.any(quiet, axis=-1) & (first_quiet < first_grown)
    extent = xp.reshape(xp.take(xp.asarray(spots, **device), xp.reshape(first_quiet, (-1,))), shape[:2])
    if reach == RULES[0][1]:
        # A Gaussian saddle falls like sinh(u)^2: end the contour where such a fall reaches the wanted depth.
        depth = xp.take_along_axis(level, first_quiet[:, :, None], axis=-1)[:, :, 0]
        extent = xp.asinh(xp.sinh(extent) * xp.sqrt(xp.clip(DECAY / depth, 0.0, 1.0)))
    extent = xp.where(ends, extent, xp.full_like(extent, xp.inf))
    best = xp.argmin(extent * xp.asarray(PENALTY, **device), axis=-1)
    shortest = xp.take_along_axis(extent, best[:, None], axis=-1)[:, 0]
    chosen = xp.take(xp.asarray(BENDS, **device), best)
    return chosen, xp.where(xp.isfinite(shortest), shortest, xp.full_like(shortest, reach))


def _trapezoid(
    terms: Terms, threshold: Array, region: Region, centre: Array, width: Array, count: int, reach: float
) -> Integral:
    """The integral by `count` nodes on the half contour."""
    xp = array_namespace(centre)
    bend, extent = choose_bend(terms, threshold, region.poles, centre, width, reach)
    step = extent / count
    position = step[:, None] * xp.arange(0, count + 1, dtype=centre.dtype, device=centre.device)
    grow = 0.5 * xp.exp(position)
    rise, swing = grow - 0.25 / grow, grow + 0.25 / grow  # sinh and cosh
    offset, imag = width[:, None] * bend[:, None] * (swing - 1), width[:, None] * rise
    log_size, phase = log_integrand(terms, threshold, region.poles, centre, offset, imag, True)
    peak = log_size[:, :1]
    size = xp.exp(log_size - peak)
    cosine, sine = size * xp.cos(phase), size * xp.sin(phase)
    tilt = bend[:, None] * rise
    value = cosine * swing + sine * tilt
    real = centre[:, None] + offset
    tilted = (cosine * real - sine * imag) * swing + (sine * real + cosine * imag) * tilt
    half = xp.concat([0.5 * value[:, :1], value[:, 1:]], axis=-1)
    fine, coarse = xp.sum(half, axis=-1), 2 * xp.sum(half[:, ::2], axis=-1)
    moment = xp.sum(tilted[:, 1:], axis=-1) + 0.5 * tilted[:, 0]
    magnitude = xp.abs(fine)
    tail = xp.max(xp.abs(value[:, -2:]), axis=-1)
    rounding = _rounding(terms, threshold, centre)
    settled = (
        (xp.abs(fine - coarse) <= (HALF_RULE_TOLERANCE + 4 * rounding) * magnitude)
        & (tail <= (1e-14 + rounding) * magnitude)
        & (xp.sign(fine) == region.direction)
    )
    safe = xp.where(magnitude > 0, magnitude, xp.ones_like(magnitude))
    log_value = peak[:, 0] + xp.log(safe * step * width / math.pi)
    slope = -moment / xp.where(fine != 0, fine, xp.ones_like(fine))
    return Integral(log_value, slope, xp.where(settled, RULE_ERROR + rounding, xp.full_like(rounding, xp.inf)))


def _rounding(terms: Terms, threshold: Array, centre: Array) -> Array:
    """Rounding error of the exponent at the crossing, whose parts may be far larger than their sum."""
    xp = array_namespace(centre)
    drift = 0.5 * xp.vecdot(terms.multiplicity, xp.abs(terms.log_ratio))
    spread = xp.abs(1 + centre[:, None] * terms.variance_gap)
    mean_part = 0.5 * xp.abs(centre * (1 + centre)) * xp.vecdot(terms.energy, 1 / xp.clip(spread, 1e-300, xp.inf))
    return 2.0**-50 * (xp.abs(centre) * (drift + xp.abs(threshold)) + mean_part)


@np.errstate(all="ignore")  # probes may overflow harmlessly; every returned value is checked
def integrate(terms: Terms, threshold: Array, region: Region) -> Integral:
    """The integral for a flat batch (batch, terms) of losses and (batch,) of thresholds.

    Its sign is the region's direction.
    """
    return _in_chunks(terms, threshold, lambda part, at: _integrate_rows(part, at, region, *saddle(part, at, region)))


@np.errstate(all="ignore")
def log_hockey_stick(terms: Terms, threshold: Array) -> Integral:
    """log delta, its slope and error; through 1 - delta where delta is large, so that log delta keeps its digits."""
    return _in_chunks(terms, threshold, _log_hockey_stick_rows)


def _log_hockey_stick_rows(terms: Terms, threshold: Array) -> Integral:
    xp = array_namespace(threshold)
    centre, width = saddle(terms, threshold, HOCKEY_STICK)
    large = cumulant(terms, centre) - centre * threshold + xp.log(width / (centre * (1 + centre))) > LARGE
    rows = where(~large)
    found = Integral(xp.zeros_like(threshold), xp.zeros_like(threshold), xp.zeros_like(threshold))
    if rows.shape[0]:
        at, around, across = (take_rows(column, rows) for column in (threshold, centre, width))
        part = _integrate_rows(terms.rows(rows), at, HOCKEY_STICK, around, across)
        found = Integral(*(put_rows(column, rows, update) for column, update in zip(found, part)))
    rows = where(large)
    if rows.shape[0]:
        at, chosen = take_rows(threshold, rows), terms.rows(rows)
        region = HOCKEY_STICK_COMPLEMENT
        missing, slope, error = _integrate_rows(chosen, at, region, *saddle(chosen, at, region))
        missing = xp.minimum(missing, xp.zeros_like(missing))
        odds = xp.exp(missing) / -xp.expm1(missing)  # (1 - delta) / delta
        part = Integral(xp.log1p(-xp.exp(missing)), -odds * slope, xp.where(xp.isinf(error), error, odds * error))
        found = Integral(*(put_rows(column, rows, update) for column, update in zip(found, part)))
    return found


def _in_chunks(terms: Terms, threshold: Array, evaluate: Callable[[Terms, Array], Integral]) -> Integral:
    """Evaluate as many rows at once as a cache holds or a device wants, so that memory stays bounded."""
    xp = array_namespace(threshold)
    elements = CPU_CHUNK if is_numpy_namespace(xp) else DEVICE_CHUNK
    rows = max(1, elements // (max(1, terms.variance_gap.shape[-1]) * RULES[0][0]))
    count = threshold.shape[0]
    parts = []
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        parts.append(evaluate(terms.span(start, stop), threshold[start:stop]))
    return parts[0] if len(parts) == 1 else Integral(*(xp.concat(list(column)) for column in zip(*parts)))


def _integrate_rows(terms: Terms, threshold: Array, region: Region, centre: Array, width: Array) -> Integral:
    xp = array_namespace(threshold)
    found = _trapezoid(terms, threshold, region, centre, width, *RULES[0])
    for count, reach in RULES[1:]:
        rows = where(xp.isinf(found.log_error))
        if rows.shape[0] == 0:
            return found
        at, around, across = (take_rows(column, rows) for column in (threshold, centre, width))
        again = _trapezoid(terms.rows(rows), at, region, around, across, count, reach)
        found = Integral(*(put_rows(column, rows, update) for column, update in zip(found, again)))
    rows = where(xp.isinf(found.log_error))
    if rows.shape[0] == 0:
        return found
    at, around = take_rows(threshold, rows), take_rows(centre, rows)
    bound = _chernoff(terms.rows(rows), at, region, around)
    return Integral(put_rows(found.log_value, rows, bound), put_rows(found.slope, rows, -around), found.log_error)


def _chernoff(terms: Terms, threshold: Array, region: Region, centre: Array) -> Array:
    """K(c) - c threshold, an upper bound of log |integral|: what is left where doubles cannot settle the value."""
    xp = array_namespace(centre)
    still = xp.zeros_like(centre)[:, None]
    bound = log_integrand(terms, threshold, region.poles, centre, still, still, False)[0][:, 0]
    for pole in region.poles:
        bound = bound + xp.log(xp.abs(centre - pole))
    return bound


def tail_probability(terms: Terms, threshold: Array, upper: Region, lower: Region) -> Array:
    """Pr[L > threshold] under the law whose pole is the regions' base, from whichever tail is the smaller one."""
    xp = array_namespace(threshold)
    lowest, highest = loss_limits(terms)
    mean, _ = cumulant_slopes(terms, xp.full_like(threshold, upper.base))
    certain = (threshold < lowest) | (threshold == -xp.inf)
    inside = (threshold >= lowest) & (threshold < highest) & (highest > lowest) & xp.isfinite(threshold)
    probability = xp.where(certain, 1 + 0 * mean, 0 * mean)
    for tail, region in ((inside & (threshold >= mean), upper), (inside & (threshold < mean), lower)):
        rows = where(tail)
        if rows.shape[0]:
            at = take_rows(threshold, rows)
            values, _, error = integrate(terms.rows(rows), at, region)
            require_settled(error)
            mass = xp.exp(xp.minimum(values + upper.base * at, 0 * values))
            probability = put_rows(probability, rows, mass if region is upper else 1 - mass)
    return probability


def require_settled(log_error: Array) -> None:
    """Refuse values that no rule settled."""
    xp = array_namespace(log_error)
    if bool(xp.any(xp.isinf(log_error))):
        raise NumericalError(
            "The contour integral did not settle for some pairs; use enclose() for rigorous values of them."
        )
