"""Bins on a ring: upper ends of delta where covariances are a + b K(distance), and more on the diagonal.

K(h) = (r^h + r^(bins - h)) / (1 + r^bins) is the covariance of a Gaussian chain u that closes: its density is a product
of one factor for each pair of neighbours. Given u the bins' ratios w are independent, so that the transform of the law
of their sum is the trace of a product of equal matrices. Places of u are on a lattice, which costs a known share of any
mean of what is nowhere negative (Poisson's sum); w is moved to places of another one, mean kept, which costs more,
never less (Jensen). What all bins have in common is a mean shift beside (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.allocation_sums import MASS_ROUNDING, cell_masses
from gaussveil.spectrum.subsampled.discrete_ratio import shifted_deltas
from gaussveil.spectrum.turns import whole_turn
from gaussveil.typing import Floats

LATTICE_SHARE = 1e-5  # of a mean, that places of u on a lattice may cost
WHOLE_SHARE = 1e-12  # of the whole of X, that they may cost
LEFT_OUT = 1e-10  # of X, where some u is beyond the lattice
MOST_PLACES = 400  # of u
AT_ONCE = 2**21  # entries of matrices that are multiplied at once
FINE, COARSE = 1024, 256  # places of the sum
BESIDE = 1e-2  # share of delta that may lie beyond the window
MOST_POWER = 64  # of 2, a window of R
USUAL = 2.0, 4.0, 16.0  # windows of R, backwards
FALLING = 1.0  # e-foldings of a tilt from end to end of a window, which tells what is beyond it
TILTS = np.geomspace(1.0, 300.0, 14)  # towards small sums, from end to end
FARTHER = 4.0  # ends of a window over where (1 - a R)_+ ends
EACH = 0.5  # width of epsilons that share such a window
SAME = 1e-7  # of an epsilon
MOST_TIMES = 8  # that windows are made anew
NEARLY = 0.97  # of the epsilon that they were made for
ROUNDED = 1e-12  # of epsilon: more than roundings of means


class Ring(NamedTuple):
    """A shift that is common to all bins, variances of the chain and of each bin's own, and the chain's decay."""

    shift: float
    chained: float
    decay: float
    own: float
    bins: int


def chained(decay: float, bins: int) -> Floats:
    """Covariances of the chain at distances 0, 1, ..., over its variance."""
    distance = np.arange(float(bins))
    near = decay**distance + decay ** (bins - distance)
    return np.asarray(near / (1.0 + decay**bins))


class _Chain(NamedTuple):
    """Places of u, a factor of the density for each pair of neighbours, the trace's factor, and what this costs.

    That is a share of any mean, a smaller one of means of exponentials, and the chance that some u is beyond.
    """

    places: Floats
    factors: Floats
    scale: float
    share: float
    whole_share: float
    left_out: float


@lru_cache(maxsize=16)
def _chain(ring: Ring) -> _Chain | None:
    """None where the lattice would be too large."""
    _, variance, decay, own, bins = ring
    around = decay**bins
    precision = (1.0 + around) / (variance * (1.0 - decay**2) * (1.0 - around))
    whole = 1.0 / (precision * (1.0 + decay) ** 2)
    least = 1.0 / (1.0 / own + 1.0 / whole)
    spacing = math.pi * min(
        math.sqrt(2.0 * value / math.log(2.1 * bins / share))
        for value, share in ((least, LATTICE_SHARE), (whole, WHOLE_SHARE))
    )
    deviation = math.sqrt(variance)
    reach = math.sqrt(2.0 * math.log(4.0 * bins / LEFT_OUT)) * deviation
    last = math.ceil((variance + reach) / spacing)
    first = -math.ceil(reach / spacing)
    if last - first >= MOST_PLACES:
        return None
    places = spacing * np.arange(first, last + 1.0)
    apart = np.subtract.outer(places, places)
    squares = np.add.outer(places**2, places**2)
    log_factors = (
        -0.5 * precision * (decay * apart**2 + 0.5 * (1.0 - decay) ** 2 * squares)
    )
    factors = spacing * math.sqrt(precision / (2.0 * math.pi)) * np.exp(log_factors)
    share, whole_share = (
        1.001
        * math.expm1(
            bins * math.log1p(2.1 * math.exp(-2.0 * math.pi**2 * value / spacing**2))
        )
        for value in (least, whole)
    )
    return _Chain(places, factors, 1.0 - around, share, whole_share, 1.001 * LEFT_OUT)


class _Law(NamedTuple):
    """Masses at values of R; what each may lack, before it is grown (l2); and what they may have more, relatively."""

    values: Floats
    masses: Floats
    grown: Floats
    error: float
    inflated: float

    def sum(self, weights: Floats) -> Floats:
        """Upper ends of means of weights, a row each."""
        errors = self.error * np.sqrt(((weights * self.grown) ** 2).sum(axis=-1))
        return np.asarray((weights @ self.masses) * (1.0 + 1e-11) + errors)


@lru_cache(maxsize=64)
def _law(
    ring: Ring, window: float, cells: int, tilt: float, with_record: bool
) -> _Law | None:
    """Of the mean R of all w below a window, modulo it, with the record (weighted by R) or without.

    What is wrapped around comes out smaller, by e^-tilt each time.
    """
    chain = _chain(ring)
    if chain is None:
        return None
    masses, places = _step_masses(ring, chain, window, cells)
    exponents = tilt / cells * np.arange(float(cells))
    masses *= np.exp(-exponents)
    plain = scipy.fft.rfft(masses, axis=1).T
    last = scipy.fft.rfft(masses * places, axis=1).T if with_record else plain
    size = chain.places.size
    at_once = max(AT_ONCE // size**2, 1)
    traces = np.empty(len(plain), dtype=complex)
    for start in range(0, traces.size, at_once):
        chosen = slice(start, start + at_once)
        power = _power(plain[chosen, :, None] * chain.factors, ring.bins - 1)
        closed = (power.transpose(0, 2, 1) * chain.factors).sum(axis=2)
        traces[chosen] = (closed * last[chosen]).sum(axis=1)
    traces *= chain.scale
    grown = np.exp(exponents)
    found = np.maximum(scipy.fft.irfft(traces, n=cells) * grown, 0.0)
    roundings = ring.bins * (24.0 * math.log2(cells) + 4.0 * size + 300.0)
    inflated = ring.bins * 4.0 * MASS_ROUNDING * (1.0 + 0.1 / math.sqrt(ring.own))
    error = ULP * roundings * abs(float(traces[0].real))
    return _Law(places / ring.bins, found, grown, error, inflated)


def _step_masses(
    ring: Ring, chain: _Chain, window: float, cells: int
) -> tuple[Floats, Floats]:
    """A row of masses of w for each place of u, and the places of w."""
    places = window * ring.bins / cells * np.arange(float(cells))
    noise = 1.0 / math.sqrt(ring.own)
    means = np.exp(chain.places - 0.5 * ring.chained).tolist()
    with np.errstate(all="ignore"):
        rows = [cell_masses(noise, places / mean, math.inf) for mean in means]
    return np.stack(rows), places


def _power(matrices: Floats, exponent: int) -> Floats:
    """A power of each matrix, at least the first."""
    found = None
    square = matrices
    while exponent > 1:
        if exponent % 2:
            found = square if found is None else found @ square
        square = square @ square
        exponent //= 2
    return np.asarray(square if found is None else found @ square)


class _Told(NamedTuple):
    """How sums of a ring are told: where a window ends, in R, and how far a tilt falls from end to end of it."""

    ring: Ring
    window: float
    tilt: float
    backward: bool

    def upper(self, epsilon: float, cells: int) -> float:
        """An upper end of delta; it falls with epsilon."""
        law = _law(self.ring, self.window, cells, self.tilt, not self.backward)
        chain = _chain(self.ring)
        if law is None or chain is None:
            return 1.0
        lowered = epsilon - ROUNDED
        beyond = self.beyond(cells)
        if self.backward:
            levels = lowered + np.log(law.values[1:])
            shares = np.append(1.0, shifted_deltas(levels, self.ring.shift))
            # what is beyond may begin within the last cell
            value = float(law.sum(shares)) + beyond * float(shares[-1])
            value += chain.left_out
        else:
            levels = lowered - np.log(law.values[1:])
            shares = np.append(0.0, shifted_deltas(levels, self.ring.shift))
            value = float(law.sum(shares)) + beyond
        return min(value / (1.0 - chain.share), 1.0)

    def beyond(self, cells: int) -> float:
        """An upper end of the probability of what is not in the window: with the record, or without if backward."""
        law = _law(self.ring, self.window, cells, self.tilt, not self.backward)
        chain = _chain(self.ring)
        if law is None or chain is None:
            return 1.0
        whole = (1.0 - law.inflated) * float(law.masses.sum())
        lost = law.error * float(np.sqrt((law.grown**2).sum()))
        rest = max(1.0 + chain.whole_share - whole + lost, 0.0)
        return min(rest / -math.expm1(-self.tilt), 1.0)

    def epsilon(self, delta: float, limit: float, cells: int) -> float:
        """An epsilon at which that is at most delta, or the limit."""
        goal = math.log(delta)

        def look(epsilon: float) -> Trial:
            return Trial(math.log(max(self.upper(epsilon, cells), 1e-300)) - goal)

        return private_end(look, 0.9 * limit, 0.0, limit, rtol=SAME)


def ring_upper(
    rings: Sequence[Ring], epsilon: float, cells: int, *, backward: bool
) -> float:
    """The least upper end of delta, of one ring on so many cells."""
    told = min(
        _ways(rings, epsilon, None, backward, cells > COARSE),
        key=lambda one: one.upper(epsilon, COARSE),
        default=None,
    )
    if told is None:
        return 1.0
    return told.upper(epsilon, cells)


def ring_epsilon(
    rings: Sequence[Ring], delta: float, limit: float, *, backward: bool
) -> float:
    """The least epsilon of one ring, or the limit."""
    best = limit
    for _ in range(MOST_TIMES):  # windows backwards are made for an epsilon
        ways = _ways(rings, best, delta, backward, True)
        found = [told.epsilon(delta, limit, COARSE) for told in ways]
        if not found:
            return limit
        before = best
        best = min(found)
        if not backward or best > NEARLY * before:
            break
    return ways[int(np.argmin(found))].epsilon(delta, limit, FINE)


def _ways(
    rings: Sequence[Ring],
    epsilon: float,
    delta: float | None,
    backward: bool,
    steep: bool,
) -> list[_Told]:
    """How sums are told at about an epsilon, or of about a delta; steep tilts are many where epsilons are."""
    known = [ring for ring in rings if _chain(ring) is not None]
    if not backward:
        return [_widened(ring, epsilon, delta) for ring in known]
    ways = [_Told(ring, end, FALLING, True) for ring in known for end in USUAL]
    if not steep:
        return ways
    for ring in known:
        end = math.ceil(min(0.5 * ring.shift**2 - epsilon, 1.0) / EACH) * EACH
        window = FARTHER * math.exp(end)
        ways.append(_Told(ring, window, _steepest(ring, window), True))
    return ways


def _widened(ring: Ring, epsilon: float, delta: float | None) -> _Told:
    """The least window, of a power of 2, that holds next to all of delta."""

    def enough(power: int) -> bool:
        told = _Told(ring, 2.0**power, FALLING, False)
        goal = told.upper(epsilon, COARSE) if delta is None else delta
        return told.beyond(COARSE) <= BESIDE * goal

    _, power = whole_turn(enough, 0, MOST_POWER, first=(2, 4, 8))
    return _Told(ring, 2.0**power, FALLING, False)


@lru_cache(maxsize=64)
def _steepest(ring: Ring, window: float) -> float:
    """The tilt with which Chernoff's bound of sums below its end is least."""
    chain = _chain(ring)
    if chain is None:
        return FALLING
    masses, _ = _step_masses(ring, chain, window, COARSE)
    numbers = np.arange(float(COARSE)) / COARSE
    bounds = []
    for tilt in TILTS.tolist():
        plain = masses @ np.exp(-tilt * numbers)
        power = _power((plain[:, None] * chain.factors)[None], ring.bins)[0]
        trace = max(chain.scale * float(np.trace(power)), 1e-300)
        bounds.append(math.log(trace) + tilt / FARTHER)
    return float(TILTS[int(np.argmin(bounds))])
