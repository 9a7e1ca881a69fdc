"""Curves of units over the groups: mean profiles with far less noise than value by value.

The mean of a group is over the units that are in it. Released, in draws of their own: how many units are at every
place, and when; a rough curve of each place as a centre; the sums over units of their values less the centre, where
they are present, in a smooth part and the rest, each scaled by unit into a ball. The mean is centre + sum / count,
whatever the centre is. Radii not given are learnt (docs/math/tables.md, "Curves of units").
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from gaussveil.calibration.boxes import box_noise
from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design, shared_design
from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.mechanisms.table.curves import Curves, Presence
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.mechanisms.table.means import ProfileDraw
from gaussveil.mechanisms.table.radii import farthest_seen, quantile_of_norms
from gaussveil.postprocessing.intervals import Variances
from gaussveil.statistics import ExactSum, FixedPoint, Source
from gaussveil.statistics.unit_cells import CellReader, UnitCells
from gaussveil.typing import Floats

MEAN_SHARES = {"units": 0.05, "presence": 0.02, "rough": 0.1, "smooth": 0.44, "rest": 0.39}  # of the squared loss
SUM_SHARES = {**MEAN_SHARES, "units": 0.2, "presence": 0.05}  # whose counts are multiplied by the centre
NORM_SHARES = {"presence": 0.01, "rough": 0.08, "smooth": 0.03, "rest": 0.08}  # for radii, from all others alike
ALIGNMENT = {"rough": 0.9, "smooth": 0.3, "rest": 0.25}  # how alike in direction clipped parts are
MOST_CLIPPED = 0.75


def learnt(answer: Mean | Sum, layout: Layout) -> list[str]:
    """Which radii of values must be learnt; where groups stand for themselves there is no rest."""
    given = 0 if answer.unit_norm is None else np.size(answer.unit_norm)
    return list(_parts(layout)[given:])


def stage_shares(answer: Mean | Sum, layout: Layout) -> dict[str, float]:
    """How the squared loss of a profile is divided among its draws."""
    whole = SUM_SHARES if isinstance(answer, Sum) else MEAN_SHARES
    counted = ["presence"] if layout.moments > 1 else []
    needed = {"units", *counted, *_parts(layout)}
    parts = {name: share for name, share in whole.items() if name in needed}
    norms = {f"norm of {one}": NORM_SHARES[one] for one in (*counted, *learnt(answer, layout))}
    left = (1 - sum(norms.values())) / sum(parts.values())
    return {name: left * share for name, share in parts.items()} | norms


def _parts(layout: Layout) -> tuple[str, ...]:
    return ("rough", "smooth", "rest")[: 3 if layout.moments > layout.functions else 2]


class ProfileDraws:
    """All draws of one profile, in order; each has its public share of the squared loss."""

    def __init__(
        self, draws: NoisySums, source: Source, reader: CellReader, layout: Layout, rows: int, answer: Mean | Sum
    ) -> None:
        self.draws, self.source, self.reader, self.layout, self.rows = draws, source, reader, layout, rows
        self.answer = answer
        self.kept: list[UnitCells] = []
        self.lengths: Callable[[float], float] = lambda level: math.inf  # of smooth parts, once they are learnt
        ends = answer.feature.low, answer.feature.high
        self.largest = max(abs(end) for end in ends)
        self.longest = rows * math.sqrt(layout.touched) * self.largest
        self.shares = stage_shares(answer, layout)
        self.present = self._read(Presence(layout, rows), 1.0)

    def draw(self, squared_loss: float) -> ProfileDraw:
        """The profile, for a squared loss."""
        layout = self.layout
        losses = {name: share * squared_loss for name, share in self.shares.items()}
        noise = place_noise(layout, self.rows, losses["units"])
        places = self._places(noise, losses["units"])
        units = max(float(places.sum()), 1.0)
        counts, moment = np.repeat(places[:, None], layout.moments, axis=1), 0.0
        if "presence" in losses:
            presence, moment = self._sums("presence", losses, units, None)
            counts = counts + self.rows * (presence - presence.mean(axis=1, keepdims=True))
        rough, deviation = self._sums("rough", losses, units, None)
        coefficients = centre_of(rough, deviation**2, places, math.sqrt(layout.moments) * self.largest)
        centre = coefficients @ layout.basis
        parts, smooth = self._sums("smooth", losses, units, centre)
        residual, rest = parts @ layout.basis, 0.0
        if "rest" in losses:
            left, rest = self._sums("rest", losses, units, centre)
            residual = residual + left - (left @ layout.basis.T) @ layout.basis
        return ProfileDraw(layout, counts, centre, residual, noise, (self.rows * moment) ** 2, smooth**2, rest**2)

    def _places(self, noise: Variances, loss: float) -> Floats:
        """Rows per moment at each place; what is drawn are rows of all moments."""
        whole, shape, touched = self.layout.moments**2, (self.layout.places,), self.layout.places_touched
        self.draws.spend(loss)
        if noise.shared <= 2.0**-40 * noise.own:
            design = noise_design(math.sqrt(noise.one * whole), shape, touched)
        else:
            design = shared_design(noise.own * whole, noise.shared * whole, shape, touched)
        return self.draws.noisy(design, self.present) / self.layout.moments

    def _sums(self, name: str, losses: dict[str, float], units: float, centre: Floats | None) -> tuple[Floats, float]:
        """One part's noisy sums over units, and the deviation of each number."""
        radius = self._radius(name, losses, units, centre)
        curves = Curves(self.answer.feature, self.layout, self.rows, name, radius, centre)
        deviation = radius / math.sqrt(losses[name])
        self.draws.spend(losses[name])
        exact = self._read(curves, FixedPoint(radius).unit)
        noisy = self.draws.noisy(noise_design(deviation, exact.shape, exact.shape[0]), exact)
        return noisy.reshape(curves.size), deviation

    def _radius(self, name: str, losses: dict[str, float], units: float, centre: Floats | None) -> float:
        """The radius given, or one learnt: an l2 norm, a root mean square being that over sqrt(groups touched)."""
        given = np.atleast_1d(np.asarray(self.answer.unit_norm if self.answer.unit_norm is not None else []))
        place = ("rough", "smooth", "rest", "presence").index(name)
        if place < len(given):
            return self.rows * float(given[place]) * math.sqrt(self.layout.touched)
        loss = losses[f"norm of {name}"]
        curves = Curves(self.answer.feature, self.layout, self.rows, name, None, centre)
        self.draws.spend(loss)
        exact = self._read(curves, 1.0)
        histogram = self.draws.noisy(noise_design(1 / math.sqrt(loss), exact.shape, 1), exact)
        if name == "presence":
            return min(farthest_seen(histogram, 1 / math.sqrt(loss)), math.sqrt(self.layout.touched))
        numbers = curves.size[1] - self.layout.functions * (name == "rest")
        noise = math.sqrt(max(numbers, 1) / losses[name]) / units
        quantile = 1 - min(noise / ALIGNMENT[name], MOST_CLIPPED)
        found = quantile_of_norms(histogram, quantile, 1 / math.sqrt(loss))
        if name == "rough":
            self.lengths = lambda level: quantile_of_norms(histogram, level, 1 / math.sqrt(loss))
        elif name == "smooth" and centre is not None:  # a residual is no longer than its unit's part and the centre
            reach = self.rows * math.sqrt(self.layout.places_touched) * float(np.linalg.norm(centre, axis=1).max())
            found = min(found, self.lengths(quantile) + reach)
        return min(found, 2 * self.longest)

    def _read(self, totals: Presence | Curves, unit: float) -> ExactSum:
        return ExactSum(self.source.fold_units(self.reader, totals, self.kept)["sums"], unit)


def place_noise(layout: Layout, rows: int, loss: float) -> Variances:
    """Noise of the rows per moment at a place, of which a unit has at most `rows` at each that it touches."""
    box = box_noise(layout.places, layout.places_touched)
    scale = rows**2 / loss
    return Variances(box.own * scale, box.shared * scale)


def centre_of(rough: Floats, variance: float, counts: Floats, longest: float) -> Floats:
    """Coefficients (places x functions) that residuals are taken from: each place's own as far as noise lets it show.

    Any centre is right; a near one makes residuals short. Places are drawn to their common mean by as much as their
    noise exceeds their differences.
    """
    total = max(float(counts.sum()), 1.0)
    common = rough.sum(axis=0) / total
    sure = np.maximum(counts, 1.0)[:, None]
    noise = variance / sure**2
    gaps = rough / sure - common
    weights = sure / sure.sum()
    spread = np.maximum(np.sum(weights * (gaps**2 - noise), axis=0), 0.0)
    found = common + gaps * spread / (spread + noise)
    lengths = np.linalg.norm(found, axis=1, keepdims=True)
    return np.asarray(found * np.minimum(1.0, longest / np.maximum(lengths, longest)))
