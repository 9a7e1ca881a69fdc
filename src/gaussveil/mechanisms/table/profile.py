"""Curves of units over the groups: mean profiles with far less noise than value by value.

Every unit has a curve, its means per group, cut into a smooth part, its coefficients in a few public functions, and the
rest. Released, each scaled by unit into a ball and summed with white noise: the number of units, a rough smooth part,
the smooth part's residuals about it, the rest. Radii not given are learnt (docs/math/tables.md, "Profiles of units").
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
import scipy

from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design
from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.statistics import ExactSum, FixedPoint, Source
from gaussveil.statistics.fixed_point import column_norms
from gaussveil.statistics.keys import Key
from gaussveil.statistics.unit_cells import ROW_BITS, CellReader, Feature, UnitCells, UnitTotals
from gaussveil.typing import Floats, Integers

SHARES = {"units": 0.03, "rough": 0.12, "smooth": 0.44, "rest": 0.41}  # of the profile's squared loss
NORM_SHARES = {"rough": 0.1, "smooth": 0.03, "rest": 0.08}  # for radii that are learnt, from all others alike
OCTAVES = np.arange(-20, 21)
HARMONICS = 3  # of a clock of twelve or more
ALIGNMENT = {"rough": 0.9, "smooth": 0.3, "rest": 0.25}  # how alike in direction the clipped parts of units are
MOST_CLIPPED = 0.75
DOUBT = 0.01
WIDTHS = np.geomspace(0.2, 2.5, 12)  # octaves


@dataclass(frozen=True)
class ProfileDraw:
    """What was drawn of a profile: the mean is centre + residual / units, all but the centre noisy."""

    units: float
    units_variance: float
    centre: Floats
    residual: Floats
    residual_variance: Floats
    total_variance: float
    """Of the sum of the residuals over all groups."""


@dataclass(frozen=True, eq=False)
class Curves(UnitTotals):
    """Sums over units of one part of their curves, scaled into a ball; or a histogram of the part's norms."""

    feature: Feature
    basis: Floats
    part: str
    radius: float | None = None
    centre: Floats | None = None

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The part's length, or the number of octaves; and the number of units."""
        size = self.basis.shape[1] if self.part == "rest" else len(self.basis)
        return {"units": (1,), "sums": (len(OCTAVES) if self.radius is None else size,)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """Each unit's part within the ball of the radius, to the last bit (`FixedPoint`)."""
        here = cells.rows.any(axis=1)
        curves = self._curves(cells.rows[here], cells.features[0][here])
        part = self._part(curves)
        if self.radius is None:
            sums = np.zeros((part.shape[1], len(OCTAVES)), dtype=np.int64)
            sums[np.arange(len(sums)), octave(column_norms(part))] = 1
        else:
            sums = FixedPoint(self.radius).truncate(part).T.astype(np.int64)
        return {"units": np.ones((len(sums), 1), dtype=np.int64), "sums": sums}

    def _curves(self, rows: Integers, features: Integers) -> Floats:
        """Means per group (G x units); every step is elementwise, in one order, for all engines alike."""
        values = np.clip(features / np.maximum(rows, 1) * 2.0**-ROW_BITS, -1.0, 1.0)
        curves = np.ascontiguousarray((self.feature.middle + self.feature.half * values).T)
        seen = np.ascontiguousarray((rows > 0).T)
        total, count = np.zeros(curves.shape[1]), np.zeros(curves.shape[1])
        for curve, there in zip(curves, seen):
            total += np.where(there, curve, 0.0)
            count += there
        return np.where(seen, curves, total / np.maximum(count, 1.0))

    def _part(self, curves: Floats) -> Floats:
        smooth = np.zeros((len(self.basis), curves.shape[1]))
        for place, curve in enumerate(curves):
            for coefficient, row in zip(self.basis[:, place], smooth):
                row += coefficient * curve
        if self.part != "rest":
            return smooth if self.centre is None else smooth - self.centre[:, None]
        rest = curves.copy()
        for row, functions in zip(smooth, self.basis):
            for coefficient, place in zip(functions, rest):
                place -= coefficient * row
        return rest


def octave(norms: Floats) -> Integers:
    """Which octave a norm lies in, the outermost taking what lies beyond."""
    exponents = np.frexp(norms)[1].astype(np.int64)  # norm in [2^(e-1), 2^e)
    exponents = np.where(np.isinf(norms), OCTAVES[-1], np.where(norms > 0, exponents, OCTAVES[0]))
    return np.asarray(np.clip(exponents, OCTAVES[0], OCTAVES[-1]) - OCTAVES[0])


def smooth_basis(keys: Sequence[Key]) -> Floats:
    """Orthonormal smooth functions of the groups: the constant, and harmonics of a clock among the keys."""
    sizes = [len(key.values) for key in keys]
    functions = [np.ones(sizes)]
    clock = next((place for place, key in enumerate(keys) if key.cycle and sizes[place] >= 12), None)
    if clock is not None:
        shape = [1] * len(sizes)
        shape[clock] = sizes[clock]
        angle = 2 * math.pi * np.arange(sizes[clock]) / sizes[clock]
        for times in range(1, HARMONICS + 1):
            functions += [np.ones(sizes) * wave(times * angle).reshape(shape) for wave in (np.cos, np.sin)]
    rows = np.array([function.ravel() for function in functions])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))


def total_variance(basis: Floats, smooth: float, rest: float) -> float:
    """Variance of the sum over groups: the smooth functions hold the constant, so nothing of the rest is in it."""
    within = float(np.sum(basis.sum(axis=1) ** 2))
    return within * smooth + max(basis.shape[1] - within, 0.0) * rest


def learnt(answer: Mean | Sum, groups: int) -> list[str]:
    """Which radii must be learnt; a single group is all smooth."""
    given = 0 if answer.unit_norm is None else np.size(answer.unit_norm)
    return ["rough", "smooth", "rest"][given : 3 if groups > 1 else 2]


def stage_shares(answer: Mean | Sum, groups: int) -> dict[str, float]:
    """How the squared loss of a profile is divided among its draws."""
    norms = {f"norm of {one}": NORM_SHARES[one] for one in learnt(answer, groups)}
    parts = {name: share for name, share in SHARES.items() if groups > 1 or name != "rest"}
    left = (1 - sum(norms.values())) / sum(parts.values())
    return {name: left * share for name, share in parts.items()} | norms


class ProfileDraws:
    """All draws of one profile, in order; each has its public share of the squared loss."""

    def __init__(self, draws: NoisySums, source: Source, unit: str, keys: Sequence[Key], answer: Mean | Sum) -> None:
        self.draws, self.source, self.answer = draws, source, answer
        self.basis = smooth_basis(keys)
        self.reader = CellReader(unit, tuple(keys), (answer.feature,))
        self.kept: list[UnitCells] = []
        self.lengths: Callable[[float], float] = lambda level: math.inf  # of smooth parts, once they are learnt
        self.groups = self.basis.shape[1]
        self.longest = math.sqrt(self.groups) * max(abs(answer.feature.low), abs(answer.feature.high))
        self.counted = self._read(Curves(answer.feature, self.basis, "smooth"))["units"]

    def draw(self, squared_loss: float) -> ProfileDraw:
        """The profile, for a squared loss."""
        losses = {name: share * squared_loss for name, share in stage_shares(self.answer, self.groups).items()}
        deviation = 1 / math.sqrt(losses["units"])
        self.draws.spend(losses["units"])
        units = max(float(self.draws.noisy(noise_design(deviation, (1,), 1), self.counted)[0]), 1.0)
        centre, sums, spread = None, {"rest": np.zeros(self.groups)}, {"rest": 0.0}
        for name in [part for part in ("rough", "smooth", "rest") if part in losses]:
            radius = self._radius(name, losses, units, centre)
            curves = Curves(self.answer.feature, self.basis, name, radius, centre)
            deviation = radius / math.sqrt(losses[name])
            self.draws.spend(losses[name])
            exact = self._read(curves)["sums"]
            sums[name] = self.draws.noisy(noise_design(deviation, exact.shape, exact.shape[0]), exact)
            spread[name] = deviation**2
            centre = sums["rough"] / units
            centre *= min(1.0, self.longest / max(float(np.linalg.norm(centre)), self.longest))
        assert centre is not None
        inside = np.sum(self.basis**2, axis=0)
        rest = sums["rest"] - (sums["rest"] @ self.basis.T) @ self.basis
        return ProfileDraw(
            units,
            1 / losses["units"],
            centre @ self.basis,
            sums["smooth"] @ self.basis + rest,
            inside * spread["smooth"] + (1 - inside) * spread["rest"],
            total_variance(self.basis, spread["smooth"], spread["rest"]),
        )

    def _radius(self, name: str, losses: dict[str, float], units: float, centre: Floats | None) -> float:
        """The radius given, or one learnt: l2 norms of curves, a root mean square being that over sqrt(groups)."""
        given = np.atleast_1d(np.asarray(self.answer.unit_norm if self.answer.unit_norm is not None else []))
        place = ("rough", "smooth", "rest").index(name)
        if place < len(given):
            return float(given[place]) * math.sqrt(self.groups)
        loss = losses[f"norm of {name}"]
        curves = Curves(self.answer.feature, self.basis, name, None, centre)
        self.draws.spend(loss)
        exact = self._read(curves)["sums"]
        histogram = self.draws.noisy(noise_design(1 / math.sqrt(loss), exact.shape, 1), exact)
        size = self.groups - len(self.basis) if name == "rest" else len(self.basis)
        noise = math.sqrt(max(size, 1) / losses[name]) / units
        quantile = 1 - min(noise / ALIGNMENT[name], MOST_CLIPPED)
        found = quantile_of_norms(histogram, quantile, 1 / math.sqrt(loss))
        if name == "rough":
            self.lengths = lambda level: quantile_of_norms(histogram, level, 1 / math.sqrt(loss))
        elif name == "smooth" and centre is not None:  # a residual is no longer than its unit's part and the centre
            found = min(found, self.lengths(quantile) + float(np.linalg.norm(centre)))
        return min(found, 2 * self.longest)

    def _read(self, curves: Curves) -> dict[str, ExactSum]:
        state = self.source.fold_units(self.reader, curves, self.kept)
        unit = 1.0 if curves.radius is None else FixedPoint(curves.radius).unit
        return {"units": ExactSum(state["units"], 1.0), "sums": ExactSum(state["sums"], unit)}


def quantile_of_norms(histogram: Floats, quantile: float, noise: float) -> float:
    """Quantile of the log-normal law that fits a noisy histogram over octaves best, by least squares.

    The whole histogram is matched, so empty octaves far away do not lead astray. Where the quantile is more than twice
    as large with a chance of `DOUBT`, half of that is taken: a false octave would promise far too little noise.
    """
    middle, width, shapes, lengths = _log_normal_laws()
    match = np.maximum(histogram @ shapes, 0.0) / lengths
    found = np.clip(middle + width * scipy.special.ndtri(quantile), OCTAVES[0], OCTAVES[-1])
    rising = np.argsort(found)
    chances = np.cumsum(np.exp((match[rising] ** 2 - np.max(match) ** 2) / (2 * noise**2)))
    most = found[rising][np.searchsorted(chances, (1 - DOUBT) * chances[-1])]
    return float(2.0 ** max(found[np.argmax(match)], most - 1))


@cache
def _log_normal_laws() -> tuple[Floats, Floats, Floats, Floats]:
    """Middles and widths of laws in octaves, their histograms as columns, and the l2 norms of those."""
    centres = np.linspace(OCTAVES[0], OCTAVES[-1], 8 * (len(OCTAVES) - 1) + 1)
    middle, width = (one.ravel() for one in np.meshgrid(centres, WIDTHS))
    upper = scipy.special.ndtr((OCTAVES[:, None] - middle) / width)
    shapes = np.diff(upper, axis=0, prepend=0.0)
    shapes[-1] += 1 - upper[-1]
    return middle, width, shapes, np.linalg.norm(shapes, axis=0)
