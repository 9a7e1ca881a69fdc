"""Radii from noisy histograms of norms over octaves, and what clipping to them takes away.

The law of the norms is sought among split log-normal laws, whose spread above the middle differs from that below, and
such as have the shorter tails of gamma or normal laws above it. How much of all lengths lies beyond a radius is read
from all laws that the histogram allows, so that it comes with its own uncertainty; what stands out of them far away is
not clipped at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import scipy
from numpy.typing import NDArray

from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.typing import Floats, Integers

DOUBT = 0.01
WIDTHS = np.geomspace(0.2, 2.5, 12)  # octaves
SEEN = 3.5  # deviations of the noise above which an octave holds something
LUMP = 5.0  # the same for what makes the noise wide: less than once in ten thousand histograms
DOUBTED = 4.0  # the same for what may be there and must be reckoned with: noise of one octave in 30,000
LOWER_WIDTHS = (0.35, 0.6, 1.0, 1.6, 2.5)
UPPER_WIDTHS = (0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.05, 1.4, 1.8, 2.4)
# above its middle the power of a norm is normal: 0 stands for its logarithm, 1/3 makes a gamma law of it
POWERS = (0.0, 1 / 3, 1.0)
NEARLY_LOGARITHM = 1e-9
# by how much the logarithm of a law's weight falls with its power: too little lost is worse than too much
SHORT_TAILS = 1.0
# of upper widths, in octaves, and of their logarithm
USUAL_WIDTH = 0.7
USUAL_RANGE = 0.4
STEPS = 4  # of middles and radii in an octave
MISFIT = 0.1  # of an octave's count, the deviation of the best law from the true one
TAIL = 0.1  # of the count of all octaves beyond it, the same
UNKNOWN_UNITS = 1e18  # more than there can be
LIKELY = 12.0  # laws less likely by a factor of exp(-12) than the best are left out
LEVELS = (
    0.5,
    0.9,
)  # of the laws allowed: what is expected, and what must be reckoned with
NORMAL = 1.2815515655446004  # the second level, in deviations


LAWS_DIFFER = 0.35  # deviation of what is lost, as a part of it: true laws are none of those tried


@dataclass(frozen=True)
class Lost:
    """By how much clipping to a radius shortens all vectors together: expected, and its standard deviation."""

    expected: float
    deviation: float
    kept: float = math.inf
    """How long all vectors together are after it."""


@dataclass(frozen=True, eq=False)
class NormLaw:
    """What a noisy histogram of norms allows."""

    histogram: Floats
    noise: float
    units: tuple[float, float] = (0.0, math.inf)
    """How many units there are, and the deviation of that: a false octave holds others."""
    far: float = 1.0
    """How many times as many deviations the noise strays as a Gaussian does, where that is hardly ever."""

    def _allowed(self, deviations: Floats) -> tuple[Integers, Floats, Floats]:
        """Laws that are allowed where octaves deviate so: numbers, weights, how many vectors they hold."""
        shapes, squares = _shapes()
        counted, spread = self.units
        sure = deviations**-2
        match = np.maximum((sure * self.histogram) @ shapes + counted / spread**2, 0.0)
        weight = sure @ squares + spread**-2
        found = match**2 / (2 * weight) + _prior()
        found -= np.max(found)
        kept = np.flatnonzero(found > -LIKELY)
        return kept, np.exp(found[kept]), match[kept] / weight[kept]

    @cached_property
    def _weights(self) -> tuple[Integers, Floats, Floats]:
        """By the noise alone, as if the true law were one of these."""
        return self._allowed(np.full(len(OCTAVES), self.noise))

    @cached_property
    def _tails(self) -> tuple[Integers, Floats, Floats]:
        """For what lies beyond a radius: no law tried is the true one; an octave weighs less the more lies beyond."""
        seen = np.where(
            self.histogram > SEEN * self.far * self.noise, self.histogram, 0.0
        )
        beyond = np.cumsum(seen[::-1])[::-1] - seen
        return self._allowed(
            np.sqrt(self.noise**2 + (MISFIT * seen) ** 2 + (TAIL * beyond) ** 2)
        )

    def _lumps(self, limit: float) -> tuple[Floats, Floats]:
        """Ends of the octaves that hold so much more than the likeliest law puts there, and how much more."""
        kept, weights, many = self._tails
        best = int(np.argmax(weights))
        left = self.histogram - many[best] * _shapes()[0][:, kept[best]]
        lumps = np.flatnonzero(left > np.maximum(limit, self.histogram / 2))
        return np.asarray(2.0 ** OCTAVES[lumps]), left[lumps]

    @cached_property
    def _sure(self) -> tuple[Floats, Floats]:
        """Those that no noise makes."""
        return self._lumps(LUMP * self.far * self.noise)

    @cached_property
    def _doubted(self) -> tuple[Floats, Floats]:
        """Those that noise hardly makes, the sure ones among them."""
        return self._lumps(doubted(self.noise, self.far))

    @property
    def farthest(self) -> float:
        """The end of the last octave that holds far more than any law close to the histogram puts there; or 0."""
        return float(np.max(self._sure[0], initial=0.0))

    @property
    def doubt(self) -> float:
        """Half the largest middle that a law allowed has with a chance of `DOUBT`: of few units nothing is believed."""
        kept, weights, _ = self._weights
        middles = _middles()[kept]
        rising = np.argsort(middles)
        chances = np.cumsum(weights[rising])
        return float(
            2.0
            ** (
                middles[rising][np.searchsorted(chances, (1 - DOUBT) * chances[-1])] - 1
            )
        )

    def lost(self, places: Integers) -> tuple[Floats, Floats]:
        """At these radii, by their places in `radii()`: the length expected to be lost, and what must be reckoned with.

        Weighted quantiles over all laws that are allowed, which takes a sort for every radius; and what stands out.
        """
        kept, weights, many = self._tails
        beyond = many * _beyond()[places[:, None], kept]
        order = np.argsort(beyond, axis=1)
        rising = np.cumsum(weights[order], axis=1) / weights.sum()
        found = []
        for level in LEVELS:
            law = np.minimum(np.sum(rising < level, axis=1), len(kept) - 1)
            found.append(
                np.take_along_axis(
                    beyond, np.take_along_axis(order, law[:, None], axis=1), axis=1
                )[:, 0]
            )
        out = self.out_lost(places)
        return found[0] + out[0], found[1] + out[1]

    def out_lost(self, places: Integers) -> tuple[Floats, Floats]:
        """What stands out of the laws, the same: from the middle of its octave where it is sure, from its end else."""
        sure, doubted = (
            np.maximum(ends * place - radii()[places, None], 0.0) @ counts
            for place, (ends, counts) in (
                (math.sqrt(0.5), self._sure),
                (1.0, self._doubted),
            )
        )
        return sure, doubted


@dataclass(frozen=True)
class Clipping:
    """What is told of clipping to a radius, whether it was given or is the best one.

    `noise_per_radius` is the noise of all coordinates together at a radius of 1. The best radius is the best if of
    lengths that are lost the part `aligned` adds up as a vector, of which the part `unknown` cannot be given back.
    """

    noise_per_radius: float
    aligned: float
    unknown: float
    most: float
    """No vector is longer."""
    whole: NormLaw | None = None
    """The law of vectors of which these are the differences from others, no longer than `apart`."""
    apart: float = 0.0
    places: float = 1.0
    """Among how many places vectors are divided, each with noise of its own."""
    differing: float = 0.0
    """Of what is expected to be lost, the deviation of what a place lost from its share."""
    both: NormLaw | None = None
    """The law of vectors on both sides of the centre together, where they are counted apart."""

    def best(self, laws: list[NormLaw]) -> tuple[float, list[Lost]]:
        """The radius where noise and what is not known of the lost length are smallest together; of each law its loss.

        Of several places a place's error counts: its noise is that of all, what it lost is a part of what all lost.
        The radius is the longest vector's where that is no worse: then nothing is lost.
        """
        doubt = max(one.doubt for one in laws)
        if self.both is not None:  # of an empty side alone nothing would be believed
            doubt = min(doubt, self.both.doubt)
        if self.whole is not None:
            doubt = min(doubt, max(self.whole.doubt, self.whole.farthest) + self.apart)
        least = max(doubt, *(one.farthest for one in laws))
        allowed = np.flatnonzero(radii() >= min(least, radii()[-1]))
        near = allowed[::-STEPS][::-1]  # octaves first, then about the best of them
        place = near[np.argmin(self._errors(laws, near))]
        near = allowed[np.abs(allowed - place) < STEPS]
        place = int(near[np.argmin(self._errors(laws, near))])
        return min(float(radii()[place]), self.most), self._told(laws, place)

    def _errors(self, laws: list[NormLaw], places: Integers) -> Floats:
        """At these radii the square of noise and of what is not known of the loss."""
        expected, spread = self.aligned * self._lost(laws, places)
        unknown = np.sum(spread**2 + (self.unknown * expected) ** 2, axis=0)
        unknown += (self.differing * np.sum(expected, axis=0)) ** 2
        noise = self.places * self.noise_per_radius * radii()[places]
        return np.asarray(noise**2 + unknown)

    def given(self, laws: list[NormLaw], radius: float) -> list[Lost]:
        """The same of a radius that was stated."""
        place = int(np.searchsorted(radii(), radius, side="right")) - 1
        return self._told(laws, max(place, 0))

    def _lost(self, laws: list[NormLaw], places: Integers) -> Floats:
        """Lengths expected to be lost and their deviations, each of every law (rows) at these radii (columns)."""
        lost = np.array([one.lost(places) for one in laws])
        if (
            self.whole is not None
        ):  # by the triangle's inequality, all laws together no less and each no more
            sooner = self._whole_lost(places, -self.apart)
            # but for what stands out here, which the noise of whole vectors may hide
            out = np.array([one.out_lost(places) for one in laws])
            lost = np.maximum(np.minimum(lost, sooner), out)
            missing = np.maximum(
                self._whole_lost(places, self.apart) - lost.sum(axis=0), 0.0
            )
            lost[-1] += missing
        spread = np.maximum(lost[:, 1] - lost[:, 0], 0.0) / NORMAL
        return np.array([lost[:, 0], spread])

    def _whole_lost(self, places: Integers, further: float) -> Floats:
        """What whole vectors lose of radii that are longer by so much: between two radii on a line.

        Of a radius below nothing every vector loses what is missing there, too, of as many as there may be.
        """
        assert self.whole is not None
        ends = radii()[places] + further
        wanted = np.clip(ends, radii()[0], radii()[-1])
        near = np.searchsorted(radii()[1:-1], wanted, side="right")
        part = (wanted - radii()[near]) / np.diff(radii())[near]
        shorter, longer = (np.array(self.whole.lost(one)) for one in (near, near + 1))
        many, spread = self.whole.units
        most = np.minimum([[many], [many + NORMAL * spread]], UNKNOWN_UNITS)
        missing = most * np.maximum(-ends, 0.0)
        return np.asarray((1 - part) * shorter + part * longer + missing)

    def _told(self, laws: list[NormLaw], place: int) -> list[Lost]:
        if radii()[place] >= self.most:
            return [Lost(0.0, 0.0) for _ in laws]
        (whole, expected), (_, spread) = (
            one.T for one in self._lost(laws, np.array([0, place]))
        )
        deviation = np.hypot(spread, LAWS_DIFFER * expected)
        return [
            Lost(float(gone), float(wide), float(max(length - gone, 0.0)))
            for gone, wide, length in zip(expected, deviation, whole)
        ]


def doubted(noise: float, far: float) -> float:
    """How many units in an octave are hardly noise, which strays so many times as far as a Gaussian one."""
    return DOUBTED * far * noise


def quantile_of_norms(histogram: Floats, quantile: float, noise: float) -> float:
    """Quantile of the log-normal law that fits a noisy histogram over octaves best, by least squares.

    The whole histogram is matched, so empty octaves far away do not lead astray. Where the quantile is more than twice
    as large with a chance of `DOUBT`, half of that is taken: a false octave would promise far too little noise.
    """
    middle, width, shapes, lengths = _log_normal_laws()
    match = np.maximum(histogram @ shapes, 0.0) / lengths
    found = np.clip(
        middle + width * scipy.special.ndtri(quantile), OCTAVES[0], OCTAVES[-1]
    )
    rising = np.argsort(found)
    chances = np.cumsum(
        np.exp((match[rising] ** 2 - np.max(match) ** 2) / (2 * noise**2))
    )
    most = found[rising][np.searchsorted(chances, (1 - DOUBT) * chances[-1])]
    return float(2.0 ** max(found[np.argmax(match)], most - 1))


def farthest_seen(histogram: Floats, noise: float) -> float:
    """The upper end of the last octave that holds more than its noise explains; infinite where none does.

    The first one, which holds lengths of nothing, is believed sooner: it makes nothing wide.
    """
    limits = np.full(len(OCTAVES), LUMP * noise)
    limits[0] = SEEN * noise
    seen = np.flatnonzero(histogram > limits)
    if len(seen):
        return float(2.0 ** OCTAVES[seen[-1]])
    return math.inf


@cache
def radii() -> Floats:
    """Radii to choose among."""
    return np.asarray(
        2.0 ** np.linspace(OCTAVES[0], OCTAVES[-1], STEPS * (len(OCTAVES) - 1) + 1)
    )


@cache
def _kinds() -> tuple[Floats, Floats, Floats]:
    """Widths below and above the middle, and the powers that are normal above, of the laws at every middle."""
    made = np.meshgrid(LOWER_WIDTHS, UPPER_WIDTHS, POWERS, indexing="ij")
    below, above, power = (np.asarray(one.ravel(), dtype=np.float64) for one in made)
    return below, above, power


@cache
def _middles() -> Floats:
    """Logarithms of the middles of all laws, those of one middle beside each other."""
    middles = np.linspace(OCTAVES[0], OCTAVES[-1], len(radii()))
    return np.repeat(middles, len(_kinds()[0]))


def _share_beyond(place: Floats) -> Floats:
    """The part of every kind of law (columns) that lies so many octaves beyond its middle (rows)."""
    below, above, power = _kinds()
    place = place[:, None]
    curved = np.maximum(power * math.log(2), NEARLY_LOGARITHM)
    further = np.expm1(curved * np.maximum(place, 0.0)) / curved
    upper = 2 * above / (above + below) * scipy.special.ndtr(-further / above)
    lower = 1 - 2 * below / (above + below) * scipy.special.ndtr(place / below)
    return np.asarray(np.where(place > 0, upper, lower))


@cache
def _prior() -> Floats:
    """Logarithms of the laws' weights before anything is known: upper widths of half an octave to one are usual.

    Tails as long as log-normal ones are likelier than short ones.
    """
    _, above, power = _kinds()
    usual = -((np.log(above / USUAL_WIDTH) / USUAL_RANGE) ** 2) / 2
    return np.tile(usual - SHORT_TAILS * power, len(radii()))


@cache
def _shapes() -> tuple[Floats, Floats]:
    """Histograms of the laws as columns, and their squares."""
    octaves = len(OCTAVES) - 1
    shares = _share_beyond(np.arange(-octaves * STEPS, octaves * STEPS + 1) / STEPS)
    ends, middles = STEPS * np.arange(len(OCTAVES))[:, None], np.arange(len(radii()))
    upper = 1 - shares[ends - middles + octaves * STEPS].reshape(len(OCTAVES), -1)
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return shapes, shapes**2


@cache
def _beyond() -> NDArray[np.float32]:
    """At every radius (rows) of every law the mean of (norm - radius)+: the integral of what lies beyond.

    Laws of one kind are one law at another scale; all end two octaves beyond the last one.
    """
    fine, octaves = 4 * STEPS, len(OCTAVES) - 1
    places = np.arange(-octaves * fine, (octaves + 2) * fine + 1) / fine
    share = _share_beyond(places)
    pieces = (share[1:] + share[:-1]) / 2 * np.diff(2.0**places)[:, None]
    found = np.empty((len(radii()), len(radii()), share.shape[1]), dtype=np.float32)
    for middle, scale in enumerate(radii()):
        end = (octaves + 2) * fine - 4 * middle + octaves * fine
        within = pieces[octaves * fine - 4 * middle : end]
        tails = np.cumsum(within[::-1], axis=0)[::-1]
        found[:, middle] = scale * tails[::4][: len(radii())]
    return found.reshape(len(radii()), -1)


@cache
def _log_normal_laws() -> tuple[Floats, Floats, Floats, Floats]:
    """Middles and widths of laws in octaves, their histograms as columns, and the l2 norms of those."""
    centres = np.linspace(OCTAVES[0], OCTAVES[-1], 8 * (len(OCTAVES) - 1) + 1)
    middle, width = (one.ravel() for one in np.meshgrid(centres, WIDTHS))
    upper = scipy.special.ndtr((OCTAVES[:, None] - middle) / width)
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return middle, width, shapes, np.linalg.norm(shapes, axis=0)
