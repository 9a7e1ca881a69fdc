"""Sums over the steps of an allocation, on a lattice: what `allocation.py` reads upper ends of delta from.

The density ratio R of k of T steps is linear in each step's likelihood ratio w, so that moving w to the ends of its
cell, mean kept, raises E (R - a)_+ and E (1 - aR)_+ (Jensen). Ends of cells lie where g(w) = log(1 + l (w - 1))/l is on
a lattice; G is the sum of all g. For k = 1, l = 0 and G is R. Else E(R^n; G), n = 0, 1, .. are one convolution each, as
so many steps are in one, two, ... of n draws at random (`allocation_draws`; derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.subsampled.allocation_draws import SharedSteps, shared_steps
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
AT_ONCE = 64  # products that are summed at once
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
    """One step's cells from number `base` on: probabilities without the record, and E(w^n; cell), n = 1, 2, ..."""

    base: int
    plain: Floats
    powers: tuple[Floats, ...] = ()


class Sums(NamedTuple):
    """Measures of cells of G, `first` being the number of the first: powers of R as far as asked, with errors of each.

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
    return Grid(spacing, base, places, cell_masses(sigma, places, top), top, moved)


def _g(sigma: float, share: float, output: float) -> float:
    ratio = math.exp(min(output / sigma - 0.5 / sigma**2, 690.0))
    if share > 0.0:
        return math.log1p(share * (ratio - 1.0)) / share
    return ratio


def cell_masses(sigma: float, places: Floats, top: float) -> Floats:
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
        cosines, sines = _low_frequencies(measure.size, size)
        real = (measure * cosines).sum(axis=1)
        transform[:LOW] = real - 1j * (measure * sines).sum(axis=1)
        lost[:LOW] = SUMMED * ULP * total
    return transform, lost


@lru_cache(maxsize=2)
def _low_frequencies(terms: int, size: int) -> tuple[Floats, Floats]:
    """Cosines and sines of the first frequencies of a transform of a size, of so many terms."""
    turns = np.multiply.outer(np.arange(LOW), np.arange(terms)) % size
    angles = 2.0 * math.pi / size * turns
    return np.cos(angles), np.sin(angles)


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
        for measure in (step.plain, *step.powers)
    ]
    sizes = np.abs(transforms[0][0]) + transforms[0][1]
    draws = len(step.powers)
    moments = [max(math.log(float(abs(one[0]))), 0.0) for one, _ in transforms]
    # what measures of R^n have at most beside the plain ones
    grown = draws * takes * max(log / max(n, 1) for n, log in enumerate(moments))
    common = max(steps - draws * takes, 0)
    kept = np.flatnonzero(common * np.log(sizes) + grown > FAINT)
    logs = [_part(one[kept], lost[kept]) for one, lost in transforms]
    parts = [_product(logs[:1], np.array([steps]))]
    if draws:
        parts.append(_product(logs[:2], np.array([steps - takes, takes])))
    if draws > 1:
        rounded = tuple(math.ceil(float(part.log_bound[0])) for part in logs[2:])
        parts += [_power(logs, one) for one in shared_steps(steps, takes, rounded)]
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


def _product(parts: list[_Part], counts: Floats) -> tuple[Floats, Floats, Floats]:
    """A product of powers, a bound of its size, and one of its error."""
    columns = list(zip(counts.tolist(), parts))
    bound = np.exp(sum(count * part.log_bound for count, part in columns))
    value = np.exp(sum(count * part.log for count, part in columns))
    return value, bound, bound * sum(count * part.relative for count, part in columns)


def _power(parts: list[_Part], shared: SharedSteps) -> tuple[Floats, Floats, Floats]:
    """The transform of E(R^n; G): a mean of products over how many of n draws a step is in."""
    width = shared.counts.shape[1]
    logs = np.stack([part.log for part in parts[:width]])
    bounds = np.stack([part.log_bound for part in parts[:width]])
    relative = np.stack([part.relative for part in parts[:width]])
    value = np.zeros(logs.shape[1], dtype=complex)
    bound = np.zeros(logs.shape[1])
    for start in range(0, len(shared.counts), AT_ONCE):
        counts = shared.counts[start : start + AT_ONCE].astype(np.float64)
        chances = shared.log_chances[start : start + AT_ONCE, None]
        value += np.exp(counts @ logs + chances).sum(axis=0)
        bound += np.exp(counts @ bounds + chances).sum(axis=0)
    share = shared.counts.max(axis=0) @ relative + shared.relative
    return value, bound, bound * share + shared.missing
