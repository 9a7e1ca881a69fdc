"""Where the contour of a Gaussian pair crosses the real axis, which way it bends, and the integrand along it."""

from __future__ import annotations

from gaussveil.spectrum import formulas
from gaussveil.spectrum.rules import (
    BENDS,
    MANY,
    NEWTON_STEPS,
    PENALTY,
    PROBES,
    TRAPEZOID_RULES,
    Region,
)
from gaussveil.spectrum.selection import (
    array_namespace,
    contract,
    put_rows,
    take_rows,
    where,
)
from gaussveil.spectrum.terms import (
    Terms,
    cumulant_slopes,
    order_limits,
)
from gaussveil.typing import Array


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
