"""Sums over the steps of an allocation, on a lattice: what `allocation.py` reads upper ends of delta from.

The density ratio R of k of T steps is linear in each step's likelihood ratio w, so that moving w to the ends of its
cell, mean kept, raises E (R - a)_+ and E (1 - aR)_+ (Jensen). Ends of cells lie where g(w) = log(1 + l (w - 1))/l is on
a lattice; G is the sum of all g. For k = 1, l = 0 and G is R. Else E(1; G), E(R; G) and E(R^2; G) are one convolution
each, as two draws of steps have so many in common at random, and E(y_+; G) <= (E(y; G) + sqrt(E(1; G) E(y^2; G)))/2
(derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.typing import Floats

MASS_ROUNDING = 1e-12  # of a mass
NARROW = (
    0.2  # width of a cell, in deviations, below which its masses come by quadrature
)
THREE, SIX = (np.polynomial.legendre.leggauss(count) for count in (3, 6))
FEW_WITHIN = 0.04  # half a width times (1 + |z|) below which three nodes have 13 digits
LOW = 48  # frequencies that are summed one by one, as errors of a transform count once for each step
SUMMED = 40.0  # roundings of such a sum
MOST_TERMS = 200_000
FEW_STEPS = 100
FAINT = -80.0  # log of coefficients that are left out, and charged
TINY = 1e-270  # masses whose tilt doubles may not hold
SEEN = 1e-26  # share of E R^2 that may be left out, each time; it is charged
CHARGED = 1e-6  # share of delta that outputs and sums beyond grids may be charged with
CHARGED_BEYOND = 14.5  # deviations beyond which outputs are charged at any delta


class Grid(NamedTuple):
    """Ends of a step's cells and their masses; what is above the last one is left out, below the first one moved up."""

    spacing: float  # of g
    base: int  # number of the first place
    places: Floats  # w
    masses: Floats
    top: float  # output, in deviations, beyond which nothing is in the masses
    bottom: float  # the same below: outputs that were moved up


class Measures(NamedTuple):
    """One step's cells from number `base` on: probabilities without the record, E(w; cell), and E(w^2; cell)."""

    base: int
    plain: Floats
    once: Floats | None = None
    twice: Floats | None = None


class Sums(NamedTuple):
    """Measures of cells of G, `first` being the number of the first: 1, R and R^2 as far as asked, with errors of each.

    A measure at number n is the array's e^(log_scale - tilt n), up to what is wrapped around.
    """

    first: int
    measures: list[Floats]
    errors: list[float]
    tilt: float
    log_scale: float


def grid_of(
    sigma: float, share: float, spacing: float, top: float, bottom: float
) -> Grid:
    """Cells between two outputs, of equal length in g; from w = 0 where that is no farther than as many again."""
    lowest, low, high = (
        _g(sigma, share, output) for output in (-math.inf, bottom, top)
    )
    base = 0
    if low - lowest > 2.0 * (high - low):
        base = math.floor((low - lowest) / spacing)
    numbers = np.arange(base, math.ceil((high - lowest) / spacing) + 1.0)
    if share > 0.0:
        places = 1.0 + np.expm1(share * (lowest + spacing * numbers)) / share
    else:
        places = spacing * numbers
    moved = bottom if base else -math.inf
    if not base:
        places[0] = 0.0
    return Grid(spacing, base, places, _masses(sigma, places, top), top, moved)


def _g(sigma: float, share: float, output: float) -> float:
    ratio = math.exp(min(output / sigma - 0.5 / sigma**2, 690.0))
    if share > 0.0:
        return math.log1p(share * (ratio - 1.0)) / share
    return ratio


def _masses(sigma: float, places: Floats, top: float) -> Floats:
    """Masses of w below the top, from cell to cell with the mean of w there."""
    shift = 1.0 / sigma
    with np.errstate(divide="ignore"):
        z = sigma * np.log(places) + 0.5 * shift
    z[-1] = min(float(z[-1]), top)
    inner = places[1:]
    before = places[:-1]
    side = np.where(z[:-1] > 0.0, -1.0, 1.0)  # from the smaller tail
    ndtr = scipy.special.ndtr
    chance, mean = (
        side * (ndtr(side * (z[1:] - m)) - ndtr(side * (z[:-1] - m)))
        for m in (0.0, shift)
    )
    apart = inner - before
    up = (mean - before * chance) / apart
    down = (inner * chance - mean) / apart
    narrow = np.flatnonzero(
        (z[1:] - z[:-1] < NARROW) & (np.arange(before.size) < before.size - 1)
    )
    half = 0.5 * sigma * np.log1p(apart[narrow] / before[narrow])
    few = half * (1.0 + np.abs(z[narrow])) < FEW_WITHIN
    for chosen, (nodes, weights) in ((few, THREE), (~few, SIX)):
        cells = narrow[chosen]
        halves = half[chosen, None]
        density = weights * np.exp(
            -0.5 * (z[cells, None] + halves * (1.0 + nodes)) ** 2
        )
        density *= halves / math.sqrt(2.0 * math.pi)
        raised = (density * np.expm1(halves * (1.0 + nodes) * shift)).sum(axis=1)
        up[cells] = raised * before[cells] / apart[cells]
        down[cells] = density.sum(axis=1) - up[cells]
    below = float(ndtr(z[0]))
    mass = np.append(np.maximum(down, 0.0), 0.0) + np.append(below, np.maximum(up, 0.0))
    return np.asarray(mass * (1.0 + MASS_ROUNDING * (1.0 + 0.1 * sigma)))


class _Part(NamedTuple):
    """A transform of one step's measure, its logarithm, log of an upper end of its size, and relative errors."""

    transform: Floats
    log: Floats
    bound: Floats
    log_bound: Floats
    relative: Floats


def _transform(measure: Floats, size: int, steps: int) -> tuple[Floats, Floats]:
    """A transform and bounds of its errors."""
    total = float(measure.sum())
    transform = scipy.fft.rfft(
        np.bincount(np.arange(measure.size) % size, weights=measure, minlength=size)
    )
    lost = np.full(transform.size, 16.0 * ULP * math.log2(size + 2) * total)
    if steps > FEW_STEPS and LOW * measure.size < MOST_TERMS:
        angles = (
            2.0
            * math.pi
            / size
            * (np.multiply.outer(np.arange(LOW), np.arange(measure.size)) % size)
        )
        transform[:LOW] = (measure * np.cos(angles)).sum(axis=1) - 1j * (
            measure * np.sin(angles)
        ).sum(axis=1)
        lost[:LOW] = SUMMED * ULP * total
    return transform, lost


def _part(transform: Floats, lost: Floats) -> _Part:
    bound = np.abs(transform) + lost
    log_bound = np.log(bound)
    log = np.log(np.where(transform == 0.0, 1e-300, transform))
    relative = lost / bound + 8.0 * ULP * (1.0 + np.abs(log_bound))
    return _Part(transform, log, bound, log_bound, relative)


def sums(
    step: Measures, steps: int, takes: int, first: int, size: int, tilt: float
) -> Sums:
    """Measures of G's cells first, first + 1, ... modulo the size."""
    exponent = tilt * np.arange(step.plain.size)
    present = step.plain > TINY
    peak = float((exponent[present] + np.log(step.plain[present])).max())
    tilts = np.exp(np.minimum(exponent - peak, 640.0))
    total = float((step.plain * tilts).sum())
    tilts /= total
    transforms = [
        _transform(measure * tilts, size, steps)
        for measure in (step.plain, step.once, step.twice)
        if measure is not None
    ]
    sizes = np.abs(transforms[0][0]) + transforms[0][1]
    common = steps
    grown = 0.0
    if len(transforms) > 1:  # what measures of R have at most beside the plain ones
        common = max(steps - 2 * takes, 0)
        grown = (
            2.0
            * takes
            * max(math.log(max(float(abs(one[0])), 1.0)) for one, _ in transforms)
        )
    kept = np.flatnonzero(common * np.log(sizes) + grown > FAINT)
    plain, *others = (_part(one[kept], lost[kept]) for one, lost in transforms)
    bound = np.exp(steps * plain.log_bound)
    parts = [(np.exp(steps * plain.log), bound, bound * steps * plain.relative)]
    if others:
        once = others[0]
        bound = np.exp((steps - takes) * plain.log_bound + takes * once.log_bound)
        value = np.exp((steps - takes) * plain.log + takes * once.log)
        parts.append(
            (
                value,
                bound,
                bound * ((steps - takes) * plain.relative + takes * once.relative),
            )
        )
    if len(others) > 1:
        parts.append(_square(plain, once, others[1], steps, takes))
    measures = []
    errors = []
    for value, bound, error in parts:
        spread = np.zeros(size // 2 + 1, dtype=complex)
        spread[kept] = value
        whole = np.roll(
            scipy.fft.irfft(spread, n=size), -((first - steps * step.base) % size)
        )
        back = (
            16.0
            * ULP
            * math.log2(size + 2)
            * math.sqrt(2.02 / size)
            * float(np.linalg.norm(bound))
        )
        measures.append(np.maximum(whole, 0.0))
        errors.append(2.02 / size * float(error.sum()) + back + 1.01 * math.exp(FAINT))
    return Sums(
        first,
        measures,
        errors,
        tilt,
        steps * (math.log(total) + peak + tilt * step.base),
    )


def _square(
    plain: _Part, once: _Part, twice: _Part, steps: int, takes: int
) -> tuple[Floats, Floats, Floats]:
    """The transform of E(R^2; G): two draws have j steps in common with hypergeometric probability."""
    common, chance = in_common(steps, takes)
    moments = [float(part.bound[0]) for part in (plain, once, twice)]
    log_odds = math.log(moments[2]) + math.log(moments[0]) - 2.0 * math.log(moments[1])
    weight = np.log(np.maximum(chance, 1e-300)) + common * log_odds
    kept = np.flatnonzero(weight > weight.max() + math.log(SEEN))
    low, high = int(common[kept[0]]), int(common[kept[-1]])
    chosen = chance[kept[0] : kept[-1] + 1]
    crossed = twice.transform * plain.transform
    paired = once.transform**2
    bounds = twice.bound * plain.bound, once.bound**2
    value = np.full(paired.size, chosen[-1], dtype=complex)
    bound = np.full(paired.size, chosen[-1])
    powers = np.ones(paired.size, dtype=complex)
    power = np.ones(paired.size)
    for probability in chosen[-2::-1]:
        powers = powers * paired
        power = power * bounds[1]
        value = value * crossed + probability * powers
        bound = bound * bounds[0] + probability * power
    rest = steps - 2 * takes + low
    value *= np.exp(
        low * twice.log + 2.0 * (takes - high) * once.log + rest * plain.log
    )
    bound *= np.exp(
        low * twice.log_bound
        + 2.0 * (takes - high) * once.log_bound
        + rest * plain.log_bound
    )
    relative = (
        steps * plain.relative + 2.0 * takes * once.relative + takes * twice.relative
    )
    relative = relative + 32.0 * ULP * (takes + 4.0)
    return value, bound, bound * relative + takes * SEEN * float(bound[0])


def in_common(steps: int, takes: int) -> tuple[Floats, Floats]:
    """How many steps two draws of k of T share, and the probabilities of that."""
    least = max(0, 2 * takes - steps)
    common = np.arange(float(least), takes + 1.0)
    before = common[:-1]
    grown = (
        2.0 * np.log(takes - before)
        - np.log(before + 1.0)
        - np.log(steps - 2.0 * takes + before + 1.0)
    )
    logs = np.append(0.0, np.cumsum(grown))
    chance = np.exp(logs - logs.max())
    return common, chance / chance.sum()
