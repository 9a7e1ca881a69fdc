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

from gaussveil.calibration.boxes import box_noise
from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design, shared_design
from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.mechanisms.table.curves import Curves, Presence
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.mechanisms.table.means import PLACES_DIFFER, ProfileDraw
from gaussveil.mechanisms.table.radii import Clipping, Lost, NormLaw, farthest_seen
from gaussveil.postprocessing.intervals import Variances
from gaussveil.statistics import ExactSum, FixedPoint, Source
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.unit_cells import UnitCells
from gaussveil.typing import Floats

# Of the squared loss: where groups stand for themselves, and of curves over moments.
ALONE = {
    "units": 0.07,
    "rough": 0.05,
    "smooth": 0.76,
    "norm of rough": 0.05,
    "norm of smooth": 0.07,
}
CURVES = {
    "units": 0.045,
    "presence": 0.02,
    "rough": 0.065,
    "smooth": 0.37,
    "rest": 0.32,
}
CURVES |= {
    "norm of presence": 0.01,
    "norm of rough": 0.04,
    "norm of smooth": 0.08,
    "norm of rest": 0.05,
}
SUMMED = {
    "units": 3.0,
    "presence": 2.0,
}  # times as much where counts are multiplied by the centre
PLACED = {
    "units": 4.0
}  # where a unit's curve is at one of several places, whose counts are smaller
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


def learnt(answer: Mean | Sum, layout: Layout) -> list[str]:
    """Which radii of values must be learnt; where groups stand for themselves there is no rest."""
    if answer.unit_norm is None:
        given = 0
    else:
        given = np.size(answer.unit_norm)
    return list(_parts(layout)[given:])


def stage_shares(answer: Mean | Sum, layout: Layout) -> dict[str, float]:
    """How the squared loss of a profile is divided among its draws."""
    if layout.moments > 1:
        whole = CURVES
    else:
        whole = ALONE
    left_out = {
        one
        for name in ("rest",)
        if name not in _parts(layout)
        for one in (name, f"norm of {name}")
    }
    factors = (PLACED if layout.places > 1 and layout.moments > 1 else {}) | (
        SUMMED if isinstance(answer, Sum) else {}
    )
    shares = {
        name: share * factors.get(name, 1.0)
        for name, share in whole.items()
        if name not in left_out
    }
    return {name: share / sum(shares.values()) for name, share in shares.items()}


def nominal_noise(answer: Mean | Sum, layout: Layout, present: int) -> float:
    """Deviation of the noise of a group, for units in `present` groups, at a distance of 1 with a quarter as rest.

    Only for comparing layouts; a unit at fewer groups than its place has moments leaves most to the rest.
    """
    shares = stage_shares(answer, layout)
    inside = float(layout.inside.mean())
    smooth = float(present)
    rest = present / 16
    if layout.moments == layout.functions:
        return math.sqrt((smooth + rest) / shares["smooth"])
    if present < layout.moments:
        smooth = inside * present
        rest = (1 - inside) * present + rest
    return math.sqrt(
        inside * smooth / shares["smooth"] + (1 - inside) * rest / shares["rest"]
    )


def _parts(layout: Layout) -> tuple[str, ...]:
    return ("rough", "smooth", "rest")[: 3 if layout.moments > layout.functions else 2]


@dataclass(frozen=True)
class Part:
    """Noisy sums of one part, the deviation of each number, and what clipping lost of it."""

    sums: Floats
    deviation: float
    lost: list[Lost]


class ProfileDraws:
    """All draws of one profile, in order; each has its public share of the squared loss."""

    def __init__(
        self,
        draws: NoisySums,
        source: Source,
        reader: CellReader,
        layout: Layout,
        rows: int,
        answer: Mean | Sum,
    ) -> None:
        self.draws = draws
        self.source = source
        self.reader = reader
        self.layout = layout
        self.rows = rows
        self.answer = answer
        self.kept: list[UnitCells] = []
        ends = answer.feature.low, answer.feature.high
        self.largest = max(abs(end) for end in ends)
        self.longest = rows * math.sqrt(layout.touched) * self.largest
        self.shares = stage_shares(answer, layout)
        self.whole: NormLaw | None = None
        self.units = 0.0, math.inf
        self.present = self._read(Presence(layout, rows), 1.0)

    def draw(self, squared_loss: float) -> ProfileDraw:
        """The profile, for a squared loss."""
        layout = self.layout
        losses = {name: share * squared_loss for name, share in self.shares.items()}
        noise = place_noise(layout, self.rows, losses["units"])
        places = self._places(noise, losses["units"])
        visits = max(float(places.sum()) / self.rows, 0.0)
        spread = (
            math.sqrt(layout.places * noise.own + layout.places**2 * noise.shared)
            / self.rows
        )
        fewest = (
            visits / layout.places_touched
        )  # each at all the places that a unit can be at
        self.units = (
            (visits + fewest) / 2,
            math.hypot(spread, ELSEWHERE * visits + (visits - fewest) / 2),
        )
        counts = np.repeat(places[:, None], layout.moments, axis=1)
        moment = 0.0
        if "presence" in losses:
            presence = self._sums("presence", losses, None)
            moment = self.rows * presence.deviation
            counts = counts + self.rows * (
                presence.sums - presence.sums.mean(axis=1, keepdims=True)
            )
        rough = self._sums("rough", losses, None)
        longest = math.sqrt(layout.moments) * self.largest
        centre = (
            centre_of(rough.sums, rough.deviation**2, places, noise, longest)
            @ layout.basis
        )
        smooth = self._sums("smooth", losses, centre)
        residual = smooth.sums @ layout.basis
        rest = Part(np.zeros(layout.groups.shape), 0.0, [Lost(0.0, 0.0)])
        if "rest" in losses:
            rest = self._sums("rest", losses, centre)
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
        )

    def _places(self, noise: Variances, loss: float) -> Floats:
        """Rows per moment at each place; what is drawn are rows of all moments."""
        whole = self.layout.moments**2
        shape = (self.layout.places,)
        touched = self.layout.places_touched
        self.draws.spend(loss)
        if noise.shared <= 2.0**-40 * noise.own:
            design = noise_design(math.sqrt(noise.one * whole), shape, touched)
        else:
            design = shared_design(
                noise.own * whole, noise.shared * whole, shape, touched
            )
        return self.draws.noisy(design, self.present) / self.layout.moments

    def _sums(self, name: str, losses: dict[str, float], centre: Floats | None) -> Part:
        """One part's noisy sums over units."""
        radius, lost = self._radius(name, losses, centre)
        curves = Curves(
            self.answer.feature, self.layout, self.rows, name, radius, centre
        )
        deviation = radius / math.sqrt(losses[name])
        self.draws.spend(losses[name])
        exact = self._read(curves, FixedPoint(radius).unit)
        noisy = self.draws.noisy(
            noise_design(deviation, exact.shape, exact.shape[0]), exact
        )
        return Part(noisy.reshape(curves.size), deviation, lost)

    def _radius(
        self, name: str, losses: dict[str, float], centre: Floats | None
    ) -> tuple[float, list[Lost]]:
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
        loss = losses[f"norm of {name}"]
        curves = Curves(self.answer.feature, self.layout, self.rows, name, None, centre)
        self.draws.spend(loss)
        exact = self._read(curves, 1.0)
        deviation = 1 / math.sqrt(loss)
        histogram = self.draws.noisy(
            noise_design(deviation, exact.shape, 1 + curves.signed), exact
        )
        if name == "presence":
            return min(
                farthest_seen(histogram, deviation), math.sqrt(self.layout.touched)
            ), []
        units = self.units
        if curves.signed:  # each side has any part of them
            units = units[0] / 2, math.hypot(units[0] / 2, units[1])
        laws = [
            NormLaw(one, deviation, units)
            for one in histogram.reshape(1 + curves.signed, -1)
        ]
        numbers = curves.size[1] - self.layout.functions * (name == "rest")
        clipping = Clipping(
            math.sqrt(numbers / losses[name]),
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
        if stated is None:
            return clipping.best(laws)
        return (stated, clipping.given(laws, stated))

    def _read(self, totals: Presence | Curves, unit: float) -> ExactSum:
        return ExactSum(
            self.source.fold_units(self.reader, totals, self.kept)["sums"], unit
        )


def place_noise(layout: Layout, rows: int, loss: float) -> Variances:
    """Noise of the rows per moment at a place, of which a unit has at most `rows` at each that it touches."""
    box = box_noise(layout.places, layout.places_touched)
    scale = rows**2 / loss
    return Variances(box.own * scale, box.shared * scale)


def centre_of(
    rough: Floats,
    variance: float,
    counts: Floats,
    count_noise: Variances,
    longest: float,
) -> Floats:
    """Coefficients (places x functions) that residuals are taken from: each place's own as far as noise lets it show.

    Any centre is right; a near one makes residuals short. Places are drawn to their common mean by as much as their
    noise exceeds their differences, and that to nothing by as much as its noise exceeds it. Counts that might be
    nothing are taken as large as their noise, so that nothing is divided by next to nothing.
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
        - variance * rough.size / max(float(np.sum(rough.sum(axis=0) ** 2)), 1e-300),
        0.0,
    )
    sure = np.maximum(counts, max(math.sqrt(count_noise.one), 1.0))[:, None]
    noise = (variance + common**2 * count_noise.one) / sure**2
    gaps = (rough - counts[:, None] * common) / sure
    weights = sure / sure.sum()
    spread = np.maximum(np.sum(weights * (gaps**2 - noise), axis=0), 0.0)
    found = common + gaps * spread / (spread + noise)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found * np.minimum(1.0, longest / np.maximum(lengths, longest)))
