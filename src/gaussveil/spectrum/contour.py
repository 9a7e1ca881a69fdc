"""The one integral behind every probability of the privacy loss (derived: docs/math/spectrum).

    (1/(2 pi i)) int exp(K(s) - s eps) / prod_p (s - p) ds,  poles p at 0 and/or -1,

along s(u) = c + w (i sinh u +- k (cosh u - 1)) through the saddle c, by the trapezoid rule. Every value is checked
against the rule with half the nodes; the few that fail are done again with more. Real arithmetic on real and imaginary
parts, through the array API, runs on NumPy, PyTorch and CuPy; where it is at hand the kernel in C (`native`) walks the
same formulas pair by pair.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from array_api_compat import is_numpy_namespace

from gaussveil.errors import NumericalError
from gaussveil.spectrum import formulas
from gaussveil.spectrum.rules import (
    BENDS,
    HOCKEY_STICK,
    HOCKEY_STICK_COMPLEMENT,
    MANY,
    NEWTON_STEPS,
    PENALTY,
    PROBES,
    TRAPEZOID_RULES,
    Integral,
    Region,
)
from gaussveil.spectrum.selection import (
    array_namespace,
    compiled_contour,
    contract,
    every,
    put_rows,
    take_rows,
    where,
)
from gaussveil.spectrum.terms import (
    Terms,
    cumulant,
    cumulant_slopes,
    loss_limits,
    order_limits,
)
from gaussveil.typing import Array

UNIT_ROUNDOFF = 2.0**-53
CPU_CHUNK = 1 << 17
DEVICE_CHUNK = 1 << 29


def reach(terms: Terms, region: Region) -> Array:
    """Distance from the region's base to its other end, possibly infinite."""
    lowest, highest = order_limits(terms)
    if region.direction > 0:
        distance = highest - region.base
    else:
        distance = region.base - lowest
    return array_namespace(lowest).clip(distance, max=region.limit)


def saddle(terms: Terms, threshold: Array, region: Region) -> tuple[Array, Array]:
    """Crossing point c that (nearly) minimises the integrand on the real axis, and the local width there.

    Any c is valid; a good one only saves nodes, so a loose tolerance is enough. Rows leave as they arrive.
    """
    xp = array_namespace(terms.variance_gap)
    inverse_reach = 1 / reach(terms, region) + 0 * threshold
    slope, curvature = cumulant_slopes(terms, xp.full_like(inverse_reach, region.base))
    coordinate = formulas.first_coordinate(
        xp, region.direction, threshold, inverse_reach, slope, curvature
    )
    below = xp.full_like(coordinate, -xp.inf)
    above = xp.full_like(coordinate, xp.inf)
    rows = xp.arange(coordinate.shape[0], device=coordinate.device)
    found_centre = coordinate
    found_stiffness = coordinate
    for _ in range(NEWTON_STEPS):
        centre, distance, decay = formulas.crossing(
            xp, region.base, region.direction, inverse_reach, coordinate
        )
        slope, curvature = cumulant_slopes(terms, centre)
        force, stiffness = formulas.forces(
            region.poles, centre, slope - threshold, curvature
        )
        arrived, coordinate, below, above = formulas.newton_step(
            xp,
            region.direction,
            inverse_reach,
            distance,
            decay,
            force,
            stiffness,
            coordinate,
            below,
            above,
        )
        found_centre = put_rows(found_centre, rows, centre)
        found_stiffness = put_rows(found_stiffness, rows, stiffness)
        left = where(~arrived)
        if left.shape[0] == 0:
            break
        if (
            2 * left.shape[0] <= rows.shape[0]
        ):  # compressing costs about as much as a step
            state = (rows, threshold, inverse_reach, coordinate, below, above)
            rows, threshold, inverse_reach, coordinate, below, above = (
                take_rows(column, left) for column in state
            )
            terms = terms.rows(left)
    return found_centre, formulas.STRETCH / xp.sqrt(found_stiffness)


def log_integrand(
    terms: Terms,
    threshold: Array,
    poles: tuple[float, ...],
    centre: Array,
    offset: Array,
    imag: Array,
    phase: bool,
) -> tuple[Array, Array]:
    """log |integrand| at s = centre + offset + i imag, arrays (batch, nodes), with its phase when asked for.

    Without `phase` the second array bounds how much log |integrand| can still grow on the way straight up: only mean
    parts of terms whose branch point lies between the real axis and s can (derived: docs/math/spectrum).
    """
    xp = array_namespace(imag)
    gap = terms.variance_gap[:, :, None]
    real = centre[:, None] + offset
    base = formulas.spread_at(terms.variance_gap, centre[:, None])[:, :, None]
    spread, along, modulus = formulas.branch(
        gap, base, offset[:, None, :], imag[:, None, :]
    )
    log_terms = xp.log(modulus)
    if bool(
        xp.any(xp.sum(terms.multiplicity, axis=-1) > MANY)
    ):  # small logs count so often that they need all digits
        log_terms = formulas.log_square_near_one(
            xp, real[:, None, :], gap, along, modulus, log_terms
        )
    log_modulus = contract(terms.multiplicity, log_terms)
    for pole in poles:
        log_modulus = log_modulus + 2 * xp.log((real - pole) ** 2 + imag * imag)
    mean_real = contract(terms.energy, spread / modulus)
    mean_imag = contract(terms.energy, along / modulus)
    drift = (
        0.5 * xp.vecdot(terms.multiplicity, terms.log_ratio)[:, None]
        + threshold[:, None]
    )
    size = formulas.log_size(real, imag, drift, log_modulus, mean_real, mean_imag)
    if not phase:
        if not bool(xp.any(spread < 0)):
            return size, xp.zeros_like(size)
        growth = formulas.later_growth(
            xp, gap, terms.log_ratio[:, :, None], spread, modulus
        )
        return size, contract(terms.energy, growth)
    angle = contract(terms.multiplicity, xp.atan2(along, spread))
    for pole in poles:
        angle = angle + 2 * xp.atan2(imag, real - pole)
    return size, formulas.log_phase(real, imag, drift, angle, mean_real, mean_imag)


def choose_bend(
    terms: Terms,
    threshold: Array,
    poles: tuple[float, ...],
    centre: Array,
    width: Array,
    reach: float,
) -> tuple[Array, Array]:
    """Which way and how strongly to bend the contour, and how far it must be followed, found by probing.

    A Gaussian fall wants a nearly straight line, an exponential one a strong bend to the right side. The asymptotic
    sign of (L_inf - eps) is wrong for some ordinary pairs, so the fall is measured: the shortest contour wins.
    """
    xp = array_namespace(centre)
    spots = [spot for spot in PROBES if spot <= reach]
    count = len(spots)
    device = {"dtype": centre.dtype, "device": centre.device}
    bends = xp.asarray(
        [0.0] + [bend for bend in BENDS for _ in spots], **device
    )  # first the crossing itself
    _, swing, offset, imag = formulas.place(
        xp, xp.asarray([0.0] + spots * len(BENDS), **device), bends, width[:, None]
    )
    size, growth = log_integrand(terms, threshold, poles, centre, offset, imag, False)
    shape = (centre.shape[0], len(BENDS), count)
    level = xp.reshape((size - size[:, :1] + xp.log(swing))[:, 1:], shape)
    quiet = formulas.decayed(level, xp.reshape(growth[:, 1:], shape))
    grown = formulas.grown(level)
    first_quiet = xp.argmax(xp.astype(quiet, xp.int8), axis=-1)
    first_grown = xp.where(
        xp.any(grown, axis=-1), xp.argmax(xp.astype(grown, xp.int8), axis=-1), count
    )
    ends = xp.any(quiet, axis=-1) & (first_quiet < first_grown)
    extent = xp.reshape(
        xp.take(xp.asarray(spots, **device), xp.reshape(first_quiet, (-1,))), shape[:2]
    )
    if reach == TRAPEZOID_RULES[0][1]:
        depth = xp.take_along_axis(level, first_quiet[:, :, None], axis=-1)[:, :, 0]
        extent = formulas.shortened(xp, extent, depth)
    extent = xp.where(ends, extent, xp.full_like(extent, xp.inf))
    best = xp.argmin(extent * xp.asarray(PENALTY, **device), axis=-1)
    shortest = xp.take_along_axis(extent, best[:, None], axis=-1)[:, 0]
    chosen = xp.take(xp.asarray(BENDS, **device), best)
    return chosen, xp.where(
        xp.isfinite(shortest), shortest, xp.full_like(shortest, reach)
    )


def _trapezoid(
    terms: Terms,
    threshold: Array,
    region: Region,
    centre: Array,
    width: Array,
    count: int,
    reach: float,
) -> Integral:
    """The integral by `count` nodes on the half contour."""
    xp = array_namespace(centre)
    bend, extent = choose_bend(terms, threshold, region.poles, centre, width, reach)
    step = extent / count
    position = step[:, None] * xp.arange(
        0, count + 1, dtype=centre.dtype, device=centre.device
    )
    rise, swing, offset, imag = formulas.place(
        xp, position, bend[:, None], width[:, None]
    )
    log_size, phase = log_integrand(
        terms, threshold, region.poles, centre, offset, imag, True
    )
    peak = log_size[:, :1]
    integrand = formulas.polar(xp, log_size - peak, phase)
    value, tilted = formulas.node(
        bend[:, None], rise, swing, centre[:, None] + offset, imag, *integrand
    )
    half = 0.5 * value[:, 0]
    fine = half + xp.sum(value[:, 1:], axis=-1)
    coarse = 2 * (half + xp.sum(value[:, 2::2], axis=-1))
    levers = position * position * value
    lever = xp.sum(levers, axis=-1)
    coarse_lever = 2 * xp.sum(levers[:, ::2], axis=-1)
    half = 0.5 * tilted[:, 0]
    moment = half + xp.sum(tilted[:, 1:], axis=-1)
    coarse_moment = 2 * (half + xp.sum(tilted[:, 2::2], axis=-1))
    tail = xp.max(xp.abs(value[:, -2:]), axis=-1)
    rounding = _rounding(terms, threshold, centre)
    sums = (fine, coarse, lever, coarse_lever, moment, coarse_moment, tail, rounding)
    return Integral(
        *formulas.verdict(xp, region.direction, *sums, peak[:, 0], centre, width, step)
    )


def _rounding(terms: Terms, threshold: Array, centre: Array) -> Array:
    xp = array_namespace(centre)
    drift = xp.vecdot(terms.multiplicity, xp.abs(terms.log_ratio))
    spread = xp.clip(xp.abs(1 + centre[:, None] * terms.variance_gap), 1e-300, xp.inf)
    return formulas.exponent_rounding(
        xp, threshold, centre, drift, xp.vecdot(terms.energy, 1 / spread)
    )


@np.errstate(
    all="ignore"
)  # probes may overflow harmlessly; every returned value is checked
def integrate(terms: Terms, threshold: Array, region: Region) -> Integral:
    """The integral for a flat batch (batch, terms) of losses and (batch,) of thresholds.

    Its sign is the region's direction.
    """
    compiled = compiled_contour(threshold, terms.variance_gap.shape[-1])
    if compiled is not None:
        return Integral(*compiled.integrate(terms, threshold, region))

    def evaluate(part: Terms, at: Array) -> Integral:
        return _integrate_rows(part, at, region, *saddle(part, at, region))

    return _in_chunks(terms, threshold, evaluate, TRAPEZOID_RULES[0][0])


def log_hockey_stick(terms: Terms, threshold: Array) -> Integral:
    """log delta, its slope and error; through 1 - delta where delta is large, so that log delta keeps its digits."""
    compiled = compiled_contour(threshold, terms.variance_gap.shape[-1])
    if compiled is not None:
        return Integral(*compiled.log_hockey_stick(terms, threshold))
    with np.errstate(all="ignore"):
        return _in_chunks(
            terms, threshold, _log_hockey_stick_rows, TRAPEZOID_RULES[0][0]
        )


def _log_hockey_stick_rows(terms: Terms, threshold: Array) -> Integral:
    xp = array_namespace(threshold)
    centre, width = saddle(terms, threshold, HOCKEY_STICK)
    large = formulas.looks_large(xp, threshold, centre, width, cumulant(terms, centre))
    rows = where(~large)
    found = Integral(
        xp.zeros_like(threshold), xp.zeros_like(threshold), xp.zeros_like(threshold)
    )
    if rows.shape[0]:
        at, around, across = (
            take_rows(column, rows) for column in (threshold, centre, width)
        )
        part = _integrate_rows(terms.rows(rows), at, HOCKEY_STICK, around, across)
        found = Integral(
            *(put_rows(column, rows, update) for column, update in zip(found, part))
        )
    rows = where(large)
    if rows.shape[0]:
        at = take_rows(threshold, rows)
        chosen = terms.rows(rows)
        region = HOCKEY_STICK_COMPLEMENT
        missing = _integrate_rows(chosen, at, region, *saddle(chosen, at, region))
        part = Integral(*formulas.from_complement(xp, *missing))
        found = Integral(
            *(put_rows(column, rows, update) for column, update in zip(found, part))
        )
    return found


def log_delta(terms: Terms, threshold: Array) -> Integral:
    """`log_hockey_stick` with -inf where the loss certainly never exceeds the threshold."""
    return _in_chunks(terms, threshold, _log_delta_rows, 1)


def _log_delta_rows(terms: Terms, threshold: Array) -> Integral:
    xp = array_namespace(threshold)
    if every(xp.min(terms.variance_gap, axis=-1) < 0) and every(
        threshold < xp.inf
    ):  # no loss has an end
        return log_hockey_stick(terms, threshold)
    _, supremum = loss_limits(terms)
    rounding = 4 * (terms.variance_gap.shape[-1] + 8) * UNIT_ROUNDOFF
    rows = where(threshold < supremum * (1 - rounding))
    # Nearer to the supremum than doubles tell, delta may be 0 or not: an upper bound that nothing settled.
    edge = (threshold >= supremum * (1 - rounding)) & (
        threshold < supremum * (1 + rounding)
    )
    unknown = xp.where(edge, xp.zeros_like(threshold), xp.full_like(threshold, -xp.inf))
    error = xp.where(edge, xp.full_like(threshold, xp.inf), xp.zeros_like(threshold))
    found = Integral(unknown, xp.zeros_like(threshold), error)
    if rows.shape[0]:
        part = log_hockey_stick(terms.rows(rows), take_rows(threshold, rows))
        found = Integral(
            *(put_rows(column, rows, update) for column, update in zip(found, part))
        )
    return found


def _in_chunks(
    terms: Terms,
    threshold: Array,
    evaluate: Callable[[Terms, Array], Integral],
    nodes: int,
) -> Integral:
    """Evaluate as many rows at once as a cache holds or a device wants, so that memory stays bounded."""
    xp = array_namespace(threshold)
    if is_numpy_namespace(xp):
        elements = CPU_CHUNK
    else:
        elements = DEVICE_CHUNK
    rows = max(1, elements // (max(1, terms.variance_gap.shape[-1]) * nodes))
    count = threshold.shape[0]
    if count == 0:
        return Integral(threshold, threshold, threshold)
    parts = []
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        parts.append(evaluate(terms.span(start, stop), threshold[start:stop]))
    if len(parts) == 1:
        return parts[0]
    return Integral(*(xp.concat(list(column)) for column in zip(*parts)))


def _integrate_rows(
    terms: Terms, threshold: Array, region: Region, centre: Array, width: Array
) -> Integral:
    xp = array_namespace(threshold)
    found = _trapezoid(terms, threshold, region, centre, width, *TRAPEZOID_RULES[0])
    for count, reach in TRAPEZOID_RULES[1:]:
        rows = where(xp.isinf(found.log_error))
        if rows.shape[0] == 0:
            return found
        at, around, across = (
            take_rows(column, rows) for column in (threshold, centre, width)
        )
        again = _trapezoid(terms.rows(rows), at, region, around, across, count, reach)
        found = Integral(
            *(put_rows(column, rows, update) for column, update in zip(found, again))
        )
    rows = where(xp.isinf(found.log_error))
    if rows.shape[0] == 0:
        return found
    at = take_rows(threshold, rows)
    around = take_rows(centre, rows)
    left = terms.rows(rows)
    bound = _chernoff(left, at, region, around) + _rounding(left, at, around)
    return Integral(
        put_rows(found.log_value, rows, bound),
        put_rows(found.slope, rows, -around),
        found.log_error,
    )


def _chernoff(terms: Terms, threshold: Array, region: Region, centre: Array) -> Array:
    """K(c) - c threshold, an upper bound of log |integral|: what is left where doubles cannot settle the value."""
    xp = array_namespace(centre)
    still = xp.zeros_like(centre)[:, None]
    size = log_integrand(terms, threshold, region.poles, centre, still, still, False)[
        0
    ][:, 0]
    for pole in region.poles:
        size = size + xp.log(xp.abs(centre - pole))
    return size


def tail_probability(
    terms: Terms, threshold: Array, upper: Region, lower: Region
) -> Array:
    """Pr[L > threshold] under the law whose pole is the regions' base, from whichever tail is the smaller one."""
    xp = array_namespace(threshold)
    lowest, highest = loss_limits(terms)
    mean, _ = cumulant_slopes(terms, xp.full_like(threshold, upper.base))
    certain = (threshold < lowest) | (threshold == -xp.inf)
    inside = (
        (threshold >= lowest)
        & (threshold < highest)
        & (highest > lowest)
        & xp.isfinite(threshold)
    )
    probability = xp.where(certain, 1 + 0 * mean, 0 * mean)
    for tail, region in (
        (inside & (threshold >= mean), upper),
        (inside & (threshold < mean), lower),
    ):
        rows = where(tail)
        if rows.shape[0]:
            at = take_rows(threshold, rows)
            values, _, error = integrate(terms.rows(rows), at, region)
            require_settled(error)
            mass = xp.exp(xp.minimum(values + upper.base * at, 0 * values))
            probability = put_rows(
                probability, rows, mass if region is upper else 1 - mass
            )
    return probability


def require_settled(log_error: Array) -> None:
    """Refuse values that no rule settled."""
    xp = array_namespace(log_error)
    if bool(xp.any(xp.isinf(log_error))):
        raise NumericalError(
            "The contour integral did not settle for some pairs; use enclose() for rigorous values of them."
        )
