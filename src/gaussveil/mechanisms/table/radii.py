"""Radii from noisy histograms of norms over octaves, and what clipping to them takes away.

The law of the norms is sought among split log-normal laws, whose spread above the middle differs from that below. How
much of all lengths lies beyond a radius is read from all laws that the histogram allows, so that it comes with its own
uncertainty; what stands out of them far away is not clipped at all.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np
import scipy

from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.typing import Floats, Integers

DOUBT = 0.01
WIDTHS = np.geomspace(0.2, 2.5, 12)  # octaves
SEEN = 3.5  # deviations of the noise above which an octave holds something
LUMP = 5.0  # the same for what makes the noise wide: less than once in ten thousand histograms
LOWER_WIDTHS = (0.35, 0.6, 1.0, 1.6, 2.5)
UPPER_WIDTHS = (0.12, 0.2, 0.3, 0.45, 0.6, 0.8, 1.05, 1.4, 1.8, 2.4)
# of upper widths, in octaves, and of their logarithm
USUAL_WIDTH = 0.7
USUAL_RANGE = 0.4
STEPS = 4  # of middles and radii in an octave
LIKELY = 12.0  # laws less likely by a factor of exp(-12) than the best are left out
LEVELS = (
    0.5,
    0.9,
)  # of the laws allowed: what is expected, and what must be reckoned with
NORMAL = 1.2815515655446004  # the second level, in deviations


@dataclass(frozen=True)
class Lost:
    """By how much clipping to a radius shortens all vectors together: expected, and its standard deviation."""

    expected: float
    deviation: float


@dataclass(frozen=True, eq=False)
class NormLaw:
    """What a noisy histogram of norms allows."""

    histogram: Floats
    noise: float
    units: tuple[float, float] = (0.0, math.inf)
    """How many units there are, and the deviation of that: a false octave holds others."""

    @cached_property
    def _weights(self) -> tuple[Integers, Floats, Floats]:
        """Numbers of the laws that are allowed, their weights and how many vectors they hold, by least squares."""
        shapes, lengths = _shapes()
        counted, spread = self.units
        match = np.maximum(
            (self.histogram @ shapes) / self.noise**2 + counted / spread**2, 0.0
        )
        weight = (lengths / self.noise) ** 2 + spread**-2
        found = match**2 / (2 * weight) + _prior()
        found -= np.max(found)
        kept = np.flatnonzero(found > -LIKELY)
        return kept, np.exp(found[kept]), match[kept] / weight[kept]

    @cached_property
    def _lumps(self) -> tuple[Floats, Floats]:
        """Ends of the octaves that hold far more than the likeliest law puts there, and how much more."""
        kept, weights, many = self._weights
        best = int(np.argmax(weights))
        left = self.histogram - many[best] * _shapes()[0][:, kept[best]]
        lumps = np.flatnonzero(left > np.maximum(LUMP * self.noise, self.histogram / 2))
        return np.asarray(2.0 ** OCTAVES[lumps]), left[lumps]

    @property
    def farthest(self) -> float:
        """The end of the last octave that holds far more than any law close to the histogram puts there; or 0."""
        return float(np.max(self._lumps[0], initial=0.0))

    @property
    def doubt(self) -> float:
        """Half the largest middle that a law allowed has with a chance of `DOUBT`: of few units nothing is believed."""
        kept, weights, _ = self._weights
        middles = _laws()[0][kept]
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

        Weighted quantiles over all laws that are allowed, which takes a sort for every radius. What stands out of the
        laws is lost beside them: from the middle of its octave, and from its end.
        """
        kept, weights, many = self._weights
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
        ends, counts = self._lumps
        out = [
            np.maximum(ends * place - radii()[places, None], 0.0) @ counts
            for place in (math.sqrt(0.5), 1.0)
        ]
        return found[0] + out[0], found[1] + out[1]


@dataclass(frozen=True)
class Clipping:
    """What is told of clipping to a radius, whether it was given or is the best one.

    `noise_per_radius` is the noise of all coordinates together at a radius of 1. Of lengths that are lost the part
    `aligned` adds up as a vector, and of that the part `unknown` is taken as the deviation of what is expected.
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

    def best(self, laws: list[NormLaw]) -> tuple[float, list[Lost]]:
        """The radius where noise and what is not known of the lost length are smallest together; of each law its loss.

        Of several places a place's error counts: its noise is that of all, what it lost is a part of what all lost.
        The radius is the longest vector's where that is no worse: then nothing is lost.
        """
        doubt = max(one.doubt for one in laws)
        if self.whole is not None:
            doubt = min(doubt, max(self.whole.doubt, self.whole.farthest) + self.apart)
        least = max(doubt, *(one.farthest for one in laws))
        allowed = np.flatnonzero(radii() >= min(least, radii()[-1]))
        near = allowed[::-STEPS][::-1]  # octaves first, then about the best of them
        place = near[np.argmin(self._errors(laws, near)[0])]
        near = allowed[np.abs(allowed - place) < STEPS]
        errors, expected, spread = self._errors(laws, near)
        best = int(np.argmin(errors))
        place = int(near[best])
        return min(float(radii()[place]), self.most), self._told(
            place, expected[:, best], spread[:, best]
        )

    def _errors(
        self, laws: list[NormLaw], places: Integers
    ) -> tuple[Floats, Floats, Floats]:
        """At these radii the square of noise and of what is not known of the loss; and the loss, of each law."""
        expected, spread = self._lost(laws, places)
        unknown = (
            np.sum(spread**2, axis=0) + (self.differing * np.sum(expected, axis=0)) ** 2
        )
        return (
            (self.places * self.noise_per_radius * radii()[places]) ** 2 + unknown,
            expected,
            spread,
        )

    def given(self, laws: list[NormLaw], radius: float) -> list[Lost]:
        """The same of a radius that was stated."""
        place = max(int(np.searchsorted(radii(), radius, side="right")) - 1, 0)
        expected, spread = self._lost(laws, np.array([place]))
        return self._told(place, expected[:, 0], spread[:, 0])

    def _lost(self, laws: list[NormLaw], places: Integers) -> tuple[Floats, Floats]:
        """Of each law (rows) at these radii (columns): what is expected to be lost, and its deviation."""
        lost = np.array([one.lost(places) for one in laws])
        if (
            self.whole is not None
        ):  # by the triangle's inequality no more than the whole vectors lose that much sooner
            sooner = (
                np.searchsorted(radii(), radii()[places] - self.apart, side="right") - 1
            )
            lost = np.minimum(lost, np.array(self.whole.lost(np.maximum(sooner, 0))))
        expected = self.aligned * lost[:, 0]
        spread = self.aligned * np.maximum(lost[:, 1] - lost[:, 0], 0.0) / NORMAL
        return expected, np.sqrt(spread**2 + (self.unknown * expected) ** 2)

    def _told(self, place: int, expected: Floats, spread: Floats) -> list[Lost]:
        if radii()[place] >= self.most:
            return [Lost(0.0, 0.0) for _ in expected]
        return [Lost(float(one), float(wide)) for one, wide in zip(expected, spread)]


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
def _laws() -> tuple[Floats, Floats, Floats]:
    """Middles, and widths below and above them."""
    middles = np.linspace(OCTAVES[0], OCTAVES[-1], STEPS * (len(OCTAVES) - 1) + 1)
    made = np.meshgrid(middles, LOWER_WIDTHS, UPPER_WIDTHS, indexing="ij")
    middle, below, above = (np.asarray(one.ravel(), dtype=np.float64) for one in made)
    return middle, below, above


def _share_beyond(exponents: Floats) -> Floats:
    """The part of every split log-normal law (rows) that lies beyond 2^exponent (columns)."""
    middle, below, above = (one[:, None] for one in _laws())
    place = exponents[None] - middle
    upper = 2 * above / (above + below) * scipy.special.ndtr(-place / above)
    lower = 1 - 2 * below / (above + below) * scipy.special.ndtr(place / below)
    return np.asarray(np.where(place > 0, upper, lower))


@cache
def _prior() -> Floats:
    """Logarithms of the laws' weights before anything is known: upper widths of half an octave to one are usual."""
    return np.asarray(-((np.log(_laws()[2] / USUAL_WIDTH) / USUAL_RANGE) ** 2) / 2)


@cache
def _shapes() -> tuple[Floats, Floats]:
    """Histograms of the laws as columns, and their l2 norms."""
    upper = 1 - _share_beyond(OCTAVES.astype(float)).T
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return shapes, np.linalg.norm(shapes, axis=0)


@cache
def _beyond() -> Floats:
    """At every radius (rows) of every law the mean of (norm - radius)+: the integral of what lies beyond."""
    fine = np.linspace(OCTAVES[0], OCTAVES[-1] + 2, 4 * STEPS * (len(OCTAVES) + 1) + 1)
    places = 2.0**fine
    share = _share_beyond(fine)
    pieces = (share[:, 1:] + share[:, :-1]) / 2 * np.diff(places)
    tails = np.cumsum(pieces[:, ::-1], axis=1)[:, ::-1]
    return np.ascontiguousarray(tails[:, ::4][:, : len(radii())].T, dtype=np.float32)


@cache
def _log_normal_laws() -> tuple[Floats, Floats, Floats, Floats]:
    """Middles and widths of laws in octaves, their histograms as columns, and the l2 norms of those."""
    centres = np.linspace(OCTAVES[0], OCTAVES[-1], 8 * (len(OCTAVES) - 1) + 1)
    middle, width = (one.ravel() for one in np.meshgrid(centres, WIDTHS))
    upper = scipy.special.ndtr((OCTAVES[:, None] - middle) / width)
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return middle, width, shapes, np.linalg.norm(shapes, axis=0)
