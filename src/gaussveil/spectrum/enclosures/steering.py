"""Where the contour integral in balls goes, chosen in doubles: a bad choice costs precision, never soundness.

    Im s |        / P, straight up from here on
         |       /
         |      /  one of five directions
---------|-----c------------------- Re s
         0     the saddle of K(s) - s eps - log s(1+s)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from flint import arb
from numpy.typing import NDArray

from gaussveil.spectrum.condensed import condensed
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.spectrum.enclosures.upper_end import LIMIT_UP
from gaussveil.spectrum.terms import Terms

GOAL_BITS = (
    60  # the integral is asked for this many bits; doubles then differ by an ulp or two
)
NEAR_LARGEST = 1e-3  # of epsilon: how near the largest loss the formulas change that steer the contour
# of the search for the saddle, to 1e-7 of its logarithm
SADDLE_SECTIONS = 5
CUTS = 120
DIRECTIONS = (
    -0.5 + 0.875j,
    0.5 + 0.875j,
    -0.25 + 1j,
    0.25 + 1j,
    1j,
)  # exact in binary, at 60 degrees or steeper


class Path(NamedTuple):
    """A straight piece from the saddle, cut at `lengths` times `direction`."""

    cost: float
    direction: complex
    lengths: tuple[float, ...]


class Crossing(NamedTuple):
    """Where the contour crosses the real axis: c, its odds of the domain's end, all 1 + c g, and the width there."""

    centre: float
    odds: float
    opening: NDArray[np.float64]
    width: float


class Steering:
    """K of spectra, each `count` times, in doubles."""

    def __init__(
        self, spectra: Sequence[tuple[BallSpectrum, int]], epsilon: float
    ) -> None:
        self.epsilon = epsilon
        terms = [
            (term, count) for spectrum, count in spectra for term in spectrum.terms
        ]
        gap = np.array([float(term.gap) for term, _ in terms])
        lowest = [
            float((term.gap - 2 * spectrum.gap_error).lower())
            for spectrum, _ in spectra
            for term in spectrum.terms
        ]
        self.limit = (
            max(-min(lowest, default=0.0), 0.0) * LIMIT_UP
        )  # K exists at least up to s = 1/limit
        number = np.array([float(term.multiplicity) * count for term, count in terms])
        shift = np.array([float(term.energy) * count for term, count in terms])
        self.gap, _, self.number, self.shift = condensed(
            Terms(gap, 0 * gap, number, shift)
        ).columns()
        self.flat = float(
            sum((spectrum.flat_energy * count for spectrum, count in spectra), arb(0))
        )
        log_ratio = sum(
            (spectrum.log_ratio * count for spectrum, count in spectra), arb(0)
        )
        self.log_ratio = float(log_ratio)
        self.room = self._room(terms, log_ratio)

    def _room(self, terms: Sequence[tuple[Term, int]], log_ratio: arb) -> float:
        """What is left up to the largest loss, where that is finite and so near that doubles would cancel."""
        if self.flat != 0.0 or not np.all(self.gap > 0.0):
            return math.inf
        energies = (term.energy * count / term.gap for term, count in terms)
        largest = sum(energies, -log_ratio) / 2
        room = float(largest - self.epsilon)
        if 0.0 < room < NEAR_LARGEST * self.epsilon:
            return room
        return math.inf

    def _openings(
        self, log_odds: NDArray[np.float64]
    ) -> tuple[NDArray[np.float64], ...]:
        """c, its odds of the domain's end, and all 1 + c g, without cancellation next to that end 1/limit."""
        if self.limit == 0.0:
            c = np.exp(log_odds)
            return c, 0.0 * c, 1.0 + np.multiply.outer(c, self.gap)
        odds = np.exp(np.minimum(log_odds + math.log(self.limit), 300.0))
        small = (odds < 1.0) & (self.limit < 1.0)
        c = np.where(
            small, np.exp(log_odds) / (1.0 + odds), odds / (1.0 + odds) / self.limit
        )
        ratio = -self.gap / self.limit
        near = (1.0 - ratio) + np.multiply.outer(1.0 / (1.0 + odds), ratio)
        return (
            c,
            odds,
            np.where(self.gap < 0.0, near, 1.0 + np.multiply.outer(c, self.gap)),
        )

    def _slope(
        self, c: NDArray[np.float64], opening: NDArray[np.float64]
    ) -> NDArray[np.float64]:
        steep = 1.0 / c + 1.0 / (1.0 + c)
        if self.room < math.inf:
            falling = (1.0 / opening) @ (self.number * self.gap)
            falling += opening**-2.0 @ (self.shift * (1.0 - self.gap) / self.gap)
            return np.asarray(self.room - steep - 0.5 * falling)
        value = (
            -0.5 * self.log_ratio
            - self.epsilon
            - steep
            + 0.5 * self.flat * (2.0 * c + 1.0)
        )
        value -= 0.5 * (1.0 / opening) @ (self.number * self.gap)
        value += 0.5 * ((c[:, None] * (1.0 + opening) + 1.0) / opening**2) @ self.shift
        return np.where(
            c > 0.0, value, -math.inf
        )  # the slope falls without end where c leaves the range of doubles

    def saddle(self) -> Crossing:
        """Approximate minimiser c of K(c) - c eps - log c(1+c)."""
        if self.limit > 0.0:
            scale = math.log(self.limit)
        else:
            scale = 0.0
        low = -300.0 - max(scale, 0.0)
        high = 300.0 - min(scale, 0.0)
        for _ in range(SADDLE_SECTIONS):
            places = np.linspace(low, high, CUTS + 2)
            falls = int(
                np.sum(
                    np.logical_and.accumulate(
                        self._slope(*self._openings(places[1:-1])[::2]) < 0.0
                    )
                )
            )
            low = float(places[falls])
            high = float(places[falls + 1])
        c, odds, opening = (column[0] for column in self._openings(np.array([low])))
        rest = self.flat + float(np.sum(0.5 * self.number * (self.gap / opening) ** 2))
        rest += float(np.sum(self.shift * (1.0 - self.gap) / opening**3))
        steepness = math.hypot(
            1.0 / c, 1.0 / (1.0 + c), math.sqrt(rest)
        )  # no overflow at c = 1e-200
        if steepness > 0.0:
            width = 1.0 / steepness
        else:
            width = math.inf
        return Crossing(float(c), float(odds), opening, width)

    def log_size(
        self, z: NDArray[np.complex128], c: arb, opening: NDArray[np.float64]
    ) -> NDArray[np.complex128]:
        """log F at c + z in floating point (imaginary part up to the branch)."""
        s = float(c) + z
        w = opening + np.multiply.outer(z, self.gap)
        if self.room < math.inf:  # s(1+s)/w = s/g + (1 - 1/g) s/w
            mean = (np.multiply.outer(s, 1.0 - 1.0 / self.gap) / w) @ self.shift
            near: NDArray[np.complex128] = (
                s * self.room - 0.5 * np.log(w) @ self.number + 0.5 * mean
            )
            near -= np.log(s) + np.log1p(s)
            return near
        value = (
            s * (-0.5 * self.log_ratio - self.epsilon)
            - np.log(s)
            - np.log1p(s)
            - 0.5 * np.log(w) @ self.number
        )
        result: NDArray[np.complex128] = value + 0.5 * s * (1.0 + s) * (
            self.flat + (1.0 / w) @ self.shift
        )
        return result

    def paths(
        self, c: arb, opening: NDArray[np.float64], width: float, level: float
    ) -> list[Path]:
        """Candidate pieces, cheapest first: doublings of length, height above the saddle, oscillations."""
        goal = -(GOAL_BITS + 6) * math.log(2.0)
        paths = []
        for direction in DIRECTIONS:
            for doublings in (10.0, 130.0):
                lengths = width * 2.0 ** np.arange(0.0, doublings, 0.5)
                z = np.asarray(lengths * direction, dtype=np.complex128)
                with np.errstate(all="ignore"):
                    size = self.log_size(z, c, opening) - level
                    s = float(c) + z
                    rest = (
                        size.real
                        + np.log(np.abs(s))
                        + np.log(np.abs(1.0 + s))
                        - np.log(z.imag)
                        - math.log(width)
                    )
                reached = np.flatnonzero(rest < goal)
                if reached.size:
                    break
            if reached.size:
                end = int(reached[0])
            else:
                end = len(lengths) - 1
            above = max(0.0, float(np.max(size.real[: end + 1])))
            turns = float(np.max(np.abs(size.imag[: end + 1]))) / (2.0 * math.pi)
            cost = (
                end
                + 20.0 * max(0.0, above - 3.0)
                + 2.0 * turns
                + (0.0 if reached.size else 1e6)
            )
            cuts = [
                length for length in lengths[: end + 1 : 2] if length < lengths[end]
            ]
            paths.append(
                Path(
                    cost if math.isfinite(cost) else 1e300,
                    direction,
                    (*cuts, float(lengths[end])),
                )
            )
        return sorted(paths, key=lambda path: path.cost)
