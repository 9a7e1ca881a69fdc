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
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.contour_path import choose_bend, log_integrand, saddle
from gaussveil.spectrum.rules import (
    HOCKEY_STICK,
    HOCKEY_STICK_COMPLEMENT,
    TRAPEZOID_RULES,
    Integral,
    Region,
)
from gaussveil.spectrum.selection import (
    array_namespace,
    compiled_contour,
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
)
from gaussveil.typing import Array

CPU_CHUNK = 1 << 17
DEVICE_CHUNK = 1 << 29
HOPELESS = -1e6  # log delta below which digits no longer matter
ROUNDING_LIMIT = 1e-10  # relative rounding error of a delta beyond which it is evaluated by ball arithmetic instead


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
    integral = Integral(
        xp.zeros_like(threshold), xp.zeros_like(threshold), xp.zeros_like(threshold)
    )
    if rows.shape[0]:
        at, around, across = (
            take_rows(column, rows) for column in (threshold, centre, width)
        )
        part = _integrate_rows(terms.rows(rows), at, HOCKEY_STICK, around, across)
        integral = Integral(
            *(put_rows(column, rows, update) for column, update in zip(integral, part))
        )
    rows = where(large)
    if rows.shape[0]:
        at = take_rows(threshold, rows)
        chosen = terms.rows(rows)
        region = HOCKEY_STICK_COMPLEMENT
        missing = _integrate_rows(chosen, at, region, *saddle(chosen, at, region))
        part = Integral(*formulas.from_complement(xp, *missing))
        integral = Integral(
            *(put_rows(column, rows, update) for column, update in zip(integral, part))
        )
    return integral


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
    integral = Integral(unknown, xp.zeros_like(threshold), error)
    if rows.shape[0]:
        part = log_hockey_stick(terms.rows(rows), take_rows(threshold, rows))
        integral = Integral(
            *(put_rows(column, rows, update) for column, update in zip(integral, part))
        )
    return integral


def doubtful(log_delta: Array, error: Array) -> Array:
    """Where doubles leave more than one part in 1e9 of delta open: of its logarithm, where delta leaves their range."""
    xp = array_namespace(log_delta)
    if every((log_delta > -700) & (error <= 5 * ROUNDING_LIMIT)):  # as nearly always
        return xp.zeros_like(log_delta) > 0
    scale = xp.where(log_delta > -700, xp.full_like(log_delta, 5.0), xp.abs(log_delta))
    settled = error <= scale * ROUNDING_LIMIT  # never of NaN
    # not settled: an upper bound already
    upper = log_delta + xp.where(xp.isinf(error), xp.zeros_like(error), error)
    return ~settled & ~(upper < HOPELESS)


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
    chunks = []
    for start in range(0, count, rows):
        stop = min(start + rows, count)
        chunks.append(evaluate(terms.span(start, stop), threshold[start:stop]))
    if len(chunks) == 1:
        return chunks[0]
    return Integral(*(xp.concat(list(column)) for column in zip(*chunks)))


def _integrate_rows(
    terms: Terms, threshold: Array, region: Region, centre: Array, width: Array
) -> Integral:
    xp = array_namespace(threshold)
    integral = _trapezoid(terms, threshold, region, centre, width, *TRAPEZOID_RULES[0])
    for count, reach in TRAPEZOID_RULES[1:]:
        rows = where(xp.isinf(integral.log_error))
        if rows.shape[0] == 0:
            return integral
        at, around, across = (
            take_rows(column, rows) for column in (threshold, centre, width)
        )
        again = _trapezoid(terms.rows(rows), at, region, around, across, count, reach)
        integral = Integral(
            *(put_rows(column, rows, update) for column, update in zip(integral, again))
        )
    rows = where(xp.isinf(integral.log_error))
    if rows.shape[0] == 0:
        return integral
    at = take_rows(threshold, rows)
    around = take_rows(centre, rows)
    left = terms.rows(rows)
    bound = _chernoff(left, at, region, around) + _rounding(left, at, around)
    return Integral(
        put_rows(integral.log_value, rows, bound),
        put_rows(integral.slope, rows, -around),
        integral.log_error,
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
