"""The one integral behind every probability of the privacy loss.

For a loss with cumulant function K and poles at 0 and/or -1,

    (1/(2 pi i)) int exp(K(s) - s eps) / prod_p (s - p) ds

over a line Re s = c is delta(eps) (poles 0 and -1, c > 0), delta(eps) - 1 (c between them), Pr_X[L > eps] (pole 0, c > 0), and so on
(derived: docs/math/spectrum). The line is moved to the saddle c of |integrand|, bent into the half plane where the
integrand decays, s(u) = c + w (i sinh u +- k (cosh u - 1)), and summed by the trapezoid rule, which converges geometrically. Every
value is checked against the rule with half the nodes; the few that fail are done again with more.

Everything is real arithmetic on real and imaginary parts, through the array API, so that the same lines run on NumPy, PyTorch and CuPy.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from array_api_compat import array_namespace, is_numpy_namespace

from gaussveil.errors import NumericalError
from gaussveil.spectrum.terms import Terms, cumulant_slopes, loss_limits, order_limits

Array = Any

BEND = 0.5  # below 1, since a mean shift acts as exp(b^2 s^2 / 2)
PROBES = (1.7, 2.3, 3.0, 3.9, 5.2, 7.0, 9.5, 13.0, 18.0, 26.0, 40.0, 60.0, 90.0)
RULES = ((24, 7.0), (128, 26.0), (512, 90.0), (4096, 90.0))  # nodes, and the largest u that they may have to cover
DECAY = -36.7  # log of 2^-53: where a probe counts as decayed
HALF_RULE_TOLERANCE = 1e-9  # the full rule's error is about the square of the half rule's
CPU_CHUNK = 1 << 17
DEVICE_CHUNK = 1 << 28


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


HOCKEY_STICK = Region((0.0, -1.0), 0.0, 1.0)  # delta
HOCKEY_STICK_COMPLEMENT = Region((0.0, -1.0), 0.0, -1.0)  # delta - 1
TAIL_X = Region((0.0,), 0.0, 1.0)  # Pr_X[L > eps]
TAIL_X_COMPLEMENT = Region((0.0,), 0.0, -1.0)  # Pr_X[L > eps] - 1
TAIL_Y = Region((-1.0,), -1.0, 1.0)  # exp(eps) Pr_Y[L > eps]
TAIL_Y_COMPLEMENT = Region((-1.0,), -1.0, -1.0)  # exp(eps) (Pr_Y[L > eps] - 1)


def saddle(terms: Terms, threshold: Array, region: Region) -> tuple[Array, Array]:
    """Crossing point c that (nearly) minimises the integrand on the real axis, and the local width there.

    Safeguarded Newton on the distance from the base, in a logit-like coordinate that maps the region onto the line. Any c is
    valid; a good one only saves nodes, so a loose tolerance is enough.
    """
    xp = array_namespace(terms.variance_gap)
    inverse_reach = 1 / region.reach(terms) + 0 * threshold
    sign = region.direction
    slope, curvature = cumulant_slopes(terms, xp.full_like(inverse_reach, region.base))
    drift = sign * (slope - threshold)
    distance = 3 / (drift + xp.sqrt(drift * drift + 6 * curvature) + 1e-300)
    distance = xp.minimum(distance, 0.9 / (inverse_reach + 1e-300))
    coordinate = -xp.log(xp.clip(1 / distance - inverse_reach, 1e-300, 1e300))
    below, above = xp.full_like(coordinate, -xp.inf), xp.full_like(coordinate, xp.inf)
    for _ in range(60):
        decay = xp.exp(-coordinate)
        distance = 1 / (inverse_reach + decay)
        centre = region.base + sign * distance
        slope, curvature = cumulant_slopes(terms, centre)
        force, stiffness = slope - threshold, curvature
        for pole in region.poles:
            offset = 1 / (centre - pole)
            force, stiffness = force - offset, stiffness + offset * offset
        stride = sign * distance * distance * decay  # d centre / d coordinate
        balance = force * stride
        below = xp.where(balance < 0, coordinate, below)
        above = xp.where(balance > 0, coordinate, above)
        gradient = stiffness * stride * stride + balance * (1 - 2 * distance * inverse_reach)
        step = -balance / xp.where(gradient > 0, gradient, xp.ones_like(gradient))
        step = xp.where(gradient > 0, xp.clip(step, -4.0, 4.0), -4.0 * xp.sign(balance))
        proposal = coordinate + step
        middle = (below + above) / 2
        outside = (proposal <= below) | (proposal >= above)
        coordinate = xp.where(outside & xp.isfinite(middle), middle, proposal)
        if bool(xp.all(xp.abs(step) < 0.05)):
            break
    distance = 1 / (inverse_reach + xp.exp(-coordinate))
    centre = region.base + sign * distance
    _, stiffness = cumulant_slopes(terms, centre)
    for pole in region.poles:
        stiffness = stiffness + 1 / (centre - pole) ** 2
    return centre, 1 / xp.sqrt(stiffness)


def _log_integrand(
    terms: Terms, threshold: Array, poles: tuple[float, ...], real: Array, imag: Array, phase: bool
) -> tuple[Array, Array]:
    """Real and (when asked) imaginary part of log of the integrand at s = real + i imag, arrays (batch, nodes)."""
    xp = array_namespace(real)
    gap = terms.variance_gap[:, :, None]
    across, along = real[:, None, :] * gap, imag[:, None, :] * gap
    spread = 1 + across
    along_squared = along * along
    inverse_modulus = 1 / (spread * spread + along_squared)
    multiplicity, energy = terms.multiplicity[:, None, :], terms.energy[:, None, :]
    log_modulus = (multiplicity @ xp.log1p(across * (2 + across) + along_squared))[:, 0, :]
    mean_real = 0.5 * (energy @ (spread * inverse_modulus))[:, 0, :]
    mean_imag = 0.5 * (energy @ (along * inverse_modulus))[:, 0, :]
    square_real, square_imag = real * (1 + real) - imag * imag, imag * (1 + 2 * real)
    drift = 0.5 * xp.sum(terms.multiplicity * terms.log_ratio, axis=-1)[:, None] + threshold[:, None]
    log_size = square_real * mean_real + square_imag * mean_imag - 0.25 * log_modulus - real * drift
    for pole in poles:
        log_size = log_size - 0.5 * xp.log((real - pole) ** 2 + imag * imag)
    if not phase:
        return log_size, log_size
    angle = (multiplicity @ xp.atan2(along, spread))[:, 0, :]
    log_phase = square_imag * mean_real - square_real * mean_imag - 0.5 * angle - imag * drift
    for pole in poles:
        log_phase = log_phase - xp.atan2(imag, real - pole)
    return log_size, log_phase


def _bend(
    terms: Terms, threshold: Array, poles: tuple[float, ...], centre: Array, width: Array, reach: float
) -> tuple[Array, Array]:
    """Which way to bend the contour and how far it must be followed, found by probing both ways.

    The asymptotic sign of (L_inf - eps) is wrong for some ordinary pairs, so the decay is measured, not inferred.
    """
    xp = array_namespace(centre)
    probes = xp.asarray([spot for spot in PROBES if spot <= reach], dtype=centre.dtype, device=centre.device)
    extents, lasts = [], []
    peak, _ = _log_integrand(terms, threshold, poles, centre[:, None], xp.zeros_like(centre)[:, None], False)
    for bend in (-BEND, BEND):
        real = centre[:, None] + width[:, None] * bend * (xp.cosh(probes) - 1)
        imag = width[:, None] * xp.sinh(probes)
        size, _ = _log_integrand(terms, threshold, poles, real, imag, False)
        level = size - peak + xp.log(xp.cosh(probes))
        level = xp.where(xp.isnan(level), xp.full_like(level, xp.inf), level)
        quiet = level < DECAY
        settled = xp.flip(xp.cumulative_sum(xp.astype(xp.flip(~quiet, axis=-1), xp.int64), axis=-1), axis=-1) == 0
        index = xp.argmax(xp.astype(settled, xp.int8), axis=-1)
        extents.append(xp.where(xp.any(settled, axis=-1), xp.take(probes, index), xp.full_like(centre, xp.inf)))
        lasts.append(level[:, -1])
    left_first = (extents[0] < extents[1]) | ((extents[0] == extents[1]) & (lasts[0] <= lasts[1]))
    extent = xp.minimum(extents[0], extents[1])
    bend = xp.where(left_first, xp.full_like(centre, -BEND), xp.full_like(centre, BEND))
    return bend, xp.where(xp.isfinite(extent), extent, xp.full_like(centre, reach))


def _trapezoid(
    terms: Terms, threshold: Array, poles: tuple[float, ...], centre: Array, width: Array, count: int, reach: float
) -> tuple[Array, Array, Array, Array]:
    """Sign, log magnitude, d log/d threshold of the integral, and whether the half rule agrees."""
    xp = array_namespace(centre)
    bend, extent = _bend(terms, threshold, poles, centre, width, reach)
    step = extent / count
    position = step[:, None] * xp.arange(0, count + 1, dtype=centre.dtype, device=centre.device)
    rise, swing = xp.sinh(position), xp.cosh(position)
    real = centre[:, None] + width[:, None] * bend[:, None] * (swing - 1)
    imag = width[:, None] * rise
    log_size, phase = _log_integrand(terms, threshold, poles, real, imag, True)
    peak = log_size[:, :1]
    size = xp.exp(log_size - peak)
    cosine, sine = size * xp.cos(phase), size * xp.sin(phase)
    tilt = bend[:, None] * rise
    value = cosine * swing + sine * tilt
    tilted = (cosine * real - sine * imag) * swing + (sine * real + cosine * imag) * tilt
    half = xp.concat([0.5 * value[:, :1], value[:, 1:]], axis=-1)
    fine, coarse = xp.sum(half, axis=-1), 2 * xp.sum(half[:, ::2], axis=-1)
    moment = xp.sum(tilted[:, 1:], axis=-1) + 0.5 * tilted[:, 0]
    magnitude = xp.abs(fine)
    tail = xp.max(xp.abs(value[:, -2:]), axis=-1)
    agrees = (xp.abs(fine - coarse) <= HALF_RULE_TOLERANCE * magnitude) & (tail <= 1e-14 * magnitude)
    safe = xp.where(magnitude > 0, magnitude, xp.ones_like(magnitude))
    log_value = peak[:, 0] + xp.log(safe * step * width / math.pi)
    return xp.sign(fine), log_value, -moment / xp.where(fine != 0, fine, xp.ones_like(fine)), agrees


def integrate(terms: Terms, threshold: Array, region: Region) -> tuple[Array, Array, Array]:
    """log |integral|, its derivative in the threshold, and the crossing point, for a flat batch (batch, terms) and (batch,).

    The sign of the integral is the region's direction; a value that no rule settles raises NumericalError.
    """
    xp = array_namespace(threshold)
    chunk_elements = CPU_CHUNK if is_numpy_namespace(xp) else DEVICE_CHUNK
    rows = max(1, chunk_elements // (max(1, terms.variance_gap.shape[-1]) * RULES[0][0]))
    parts = []
    for start in range(0, threshold.shape[0], rows):
        piece = slice(start, start + rows)
        parts.append(_integrate_rows(terms.rows(piece), threshold[piece], region))
    log_value, slope, centre = (xp.concat(list(column)) for column in zip(*parts))
    return log_value, slope, centre


def _integrate_rows(terms: Terms, threshold: Array, region: Region) -> tuple[Array, Array, Array]:
    xp = array_namespace(threshold)
    centre, width = saddle(terms, threshold, region)
    sign, log_value, slope, settled = _trapezoid(terms, threshold, region.poles, centre, width, *RULES[0])
    settled = settled & (sign == region.direction)
    for count, reach in RULES[1:]:
        if bool(xp.all(settled)):
            return log_value, slope, centre
        open_rows = xp.nonzero(~settled)[0]
        again = _trapezoid(
            terms.rows(open_rows), threshold[open_rows], region.poles, centre[open_rows], width[open_rows], count, reach
        )
        log_value[open_rows], slope[open_rows] = again[1], again[2]
        settled[open_rows] = again[3] & (again[0] == region.direction)
    if not bool(xp.all(settled)):
        raise NumericalError(
            "The contour integral did not settle for some pairs; use enclose() for a rigorous value of those pairs."
        )
    return log_value, slope, centre


def tail_probability(terms: Terms, threshold: Array, upper: Region, lower: Region) -> Array:
    """Pr[L > threshold] under the law whose pole is the regions' base, from whichever tail is the smaller one."""
    xp = array_namespace(threshold)
    lowest, highest = loss_limits(terms)
    mean, _ = cumulant_slopes(terms, upper.base + 0 * threshold)
    certain = (threshold < lowest) | (threshold == -xp.inf)
    inside = (threshold >= lowest) & (threshold < highest) & (highest > lowest) & xp.isfinite(threshold)
    probability = xp.where(certain, 1 + 0 * mean, 0 * mean)
    for rows, region in (
        (xp.nonzero(inside & (threshold >= mean))[0], upper),
        (xp.nonzero(inside & (threshold < mean))[0], lower),
    ):
        if rows.shape[0]:
            values, _, _ = integrate(terms.rows(rows), threshold[rows], region)
            mass = xp.exp(xp.minimum(values + upper.base * threshold[rows], 0 * values))
            probability[rows] = mass if region is upper else 1 - mass
    return probability
