"""Curves of units over the groups: mean profiles with far less noise than value by value.

The mean of a group is over the units that are in it. Released, in draws of their own: how many units are at every
place, and when; a rough curve of each place as a centre; the sums over units of their values less the centre, where
they are present, in a smooth part and the rest, each scaled by unit into a ball. The mean is centre + sum / count,
whatever the centre is. Radii not given are learnt (docs/math/tables.md, "Curves of units").
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from gaussveil.mechanisms.noisy_sums import NoisySums
from gaussveil.mechanisms.table.curves import Curves, Presence
from gaussveil.mechanisms.table.means import PLACES_DIFFER, ProfileDraw
from gaussveil.mechanisms.table.profile_noise import ProfileNoise
from gaussveil.mechanisms.table.radii import Clipping, Lost, NormLaw, farthest_seen
from gaussveil.postprocessing.intervals import Variances
from gaussveil.statistics import ExactSum, Source
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.unit_cells import UnitCells
from gaussveil.typing import Floats

ELSEWHERE = 0.2  # of the units, at any moment, may be away: the histograms of norms count whoever was ever there
ALIGNED = {
    "rough": 1.0,
    "smooth": 1.0,
    "rest": 0.3,
}  # which part of lost lengths adds up as a vector
UNKNOWN = {
    "rough": 1.0,
    "smooth": 0.35,
    "rest": 1.0,
}  # and cannot be given back, as a part of it: taken for choosing radii, before a direction is known


@dataclass(frozen=True)
class ProfilePart:
    """Noisy sums of one part, the deviation of each number, and what clipping lost of it."""

    sums: Floats
    deviation: float
    lost: list[Lost]


class ProfileDraws:
    """All draws of one profile, in order; each has its public share of what may be lost."""

    def __init__(
        self,
        draws: NoisySums,
        source: Source,
        reader: CellReader,
        noise: ProfileNoise,
    ) -> None:
        self.draws = draws
        self.source = source
        self.reader = reader
        self.public = self.noise = noise
        self.layout = layout = noise.layout
        self.rows = rows = noise.rows
        self.answer = answer = noise.answer
        self.kept: list[UnitCells] = []
        ends = answer.feature.low, answer.feature.high
        self.largest = max(abs(end) for end in ends)
        self.longest = rows * math.sqrt(layout.touched) * self.largest
        self.whole: NormLaw | None = None
        self.units = 0.0, math.inf
        self.present = self._read(Presence(layout, rows), 1.0)

    def draw(self) -> ProfileDraw:
        """The profile."""
        layout = self.layout
        places = self.public.drawn_places(self.draws, self.present)
        many, _ = self._units(places, self.public.places)
        self.noise = self.public.knowing(many)
        places, noise = self.noise.refined(self.draws, places, self.present)
        self.units = self._units(places, noise)
        counts = np.repeat(places[:, None], layout.moments, axis=1)
        moment = 0.0
        if "presence" in self.noise.shares:
            presence = self._sums("presence", None)
            moment = self.rows * presence.deviation
            counts = counts + self.rows * (
                presence.sums - presence.sums.mean(axis=1, keepdims=True)
            )
        rough = self._sums("rough", None)
        longest = math.sqrt(layout.moments) * self.largest
        centre = (
            centre_of(
                rough.sums,
                rough.deviation**2,
                places,
                noise,
                longest,
                self.noise.far,
            )
            @ layout.basis
        )
        smooth = self._sums("smooth", centre)
        residual = smooth.sums @ layout.basis
        rest = ProfilePart(np.zeros(layout.groups.shape), 0.0, [Lost(0.0, 0.0)])
        if "rest" in self.noise.shares:
            rest = self._sums("rest", centre)
            residual = (
                residual + rest.sums - (rest.sums @ layout.basis.T) @ layout.basis
            )
        variances = moment**2, smooth.deviation**2, rest.deviation**2
        return ProfileDraw(
            layout,
            counts,
            centre,
            residual,
            noise,
            *variances,
            (*smooth.lost, *rest.lost),
            self.noise.z,
        )

    def _units(self, places: Floats, noise: Variances) -> tuple[float, float]:
        """How many units there are, and the deviation of that."""
        layout = self.layout
        visits = max(float(places.sum()) / self.rows, 0.0)
        shared = layout.places**2 * noise.shared
        spread = math.sqrt(layout.places * noise.own + shared) / self.rows
        # the fewest that there can be: each at all the places that a unit can be at
        fewest = visits / layout.places_touched
        further = ELSEWHERE * visits + (visits - fewest) / 2
        return (visits + fewest) / 2, math.hypot(spread, further)

    def _sums(self, name: str, centre: Floats | None) -> ProfilePart:
        """One part's noisy sums over units."""
        radius, lost = self._radius(name, centre)
        length = self.noise.ball(name, radius)
        curves = replace(self._curves(name, centre), radius=radius, length=length)
        exact = self._read(curves, curves.fixed.unit)
        noisy = self.noise.drawn_sums(self.draws, name, exact, radius)
        return ProfilePart(
            noisy.reshape(curves.size), radius * self.noise.deviation(name), lost
        )

    def _curves(self, name: str, centre: Floats | None) -> Curves:
        """A histogram of the norms of a part."""
        return Curves(self.answer.feature, self.layout, self.rows, name, None, centre)

    def _radius(self, name: str, centre: Floats | None) -> tuple[float, list[Lost]]:
        """A radius and what clipping to it loses: an l2 norm, a root mean square being that over sqrt(groups touched).

        A histogram tells what is lost of a radius that was stated, too.
        """
        given = np.atleast_1d(
            np.asarray(
                self.answer.unit_norm if self.answer.unit_norm is not None else []
            )
        )
        place = ("rough", "smooth", "rest", "presence").index(name)
        if place < len(given):
            stated = self.rows * float(given[place]) * math.sqrt(self.layout.touched)
        else:
            stated = None
        curves = self._curves(name, centre)
        exact = self._read(curves, 1.0)
        deviation = self.noise.deviation(f"norm of {name}")
        histogram = self.noise.drawn_counts(
            self.draws, f"norm of {name}", exact, 1 + curves.signed
        )
        if name == "presence":
            return min(
                farthest_seen(histogram, deviation), math.sqrt(self.layout.touched)
            ), []
        units = self.units
        if curves.signed:  # each side has any part of them
            units = units[0] / 2, math.hypot(units[0] / 2, units[1])
        laws = [
            NormLaw(one, deviation, units, self.noise.far)
            for one in histogram.reshape(1 + curves.signed, -1)
        ]
        numbers = curves.size[1] - self.layout.functions * (name == "rest")
        clipping = Clipping(
            math.sqrt(numbers) * self.noise.deviation(name),
            ALIGNED[name],
            UNKNOWN[name],
            2 * self.longest,
        )
        if self.layout.places > self.layout.places_touched:
            divided = self.layout.places / self.layout.places_touched
            clipping = replace(clipping, places=divided, differing=PLACES_DIFFER)
        if name == "rough":
            (self.whole,) = laws
        elif name == "smooth" and centre is not None:
            apart = (
                self.rows
                * math.sqrt(self.layout.places_touched)
                * float(np.linalg.norm(centre, axis=1).max())
            )
            clipping = replace(clipping, whole=self.whole, apart=apart)
            if self.layout.moments == 1:
                # Of curves a nearer radius would take more of the shape than it spares of the noise.
                both = NormLaw(
                    np.sum([one.histogram for one in laws], axis=0),
                    deviation * math.sqrt(len(laws)),
                    self.units,
                    self.noise.far,
                )
                clipping = replace(clipping, both=both)
        if stated is None:
            return clipping.best(laws)
        return (stated, clipping.given(laws, stated))

    def _read(self, totals: Presence | Curves, unit: float) -> ExactSum:
        return ExactSum(
            self.source.fold_units(self.reader, totals, self.kept)["sums"], unit
        )


def centre_of(
    rough: Floats,
    variance: float,
    counts: Floats,
    count_noise: Variances,
    longest: float,
    far: float = 1.0,
) -> Floats:
    """Coefficients (places x functions) that residuals are taken from: each place's own as far as noise lets it show.

    Any centre is right; a near one makes residuals short. Places are drawn to their common mean by as much as their
    noise exceeds their differences, and that to nothing by as much as its noise exceeds it; where noise strays as `far`
    as so many times its deviation, what it can reach is no difference. Counts that might be nothing are taken as large
    as their noise, so that nothing is divided by next to nothing.
    """
    places = len(counts)
    total = max(
        float(counts.sum()),
        math.sqrt(places * count_noise.own + places**2 * count_noise.shared),
        1.0,
    )
    common = rough.sum(axis=0) / total
    common *= max(
        1.0
        - far**2
        * variance
        * rough.size
        / max(float(np.sum(rough.sum(axis=0) ** 2)), 1e-300),
        0.0,
    )
    sure = np.maximum(counts, max(math.sqrt(count_noise.one), 1.0))[:, None]
    noise = (variance + common**2 * count_noise.one) / sure**2
    gaps = (rough - counts[:, None] * common) / sure
    weights = sure / sure.sum()
    spread = np.maximum(np.sum(weights * (gaps**2 - far**2 * noise), axis=0), 0.0)
    found = common + gaps * spread / (spread + noise)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found * np.minimum(1.0, longest / np.maximum(lengths, longest)))
