"""Answers from a table under the laws: raw draws of counts with features, of units' curves, of quantiles' rounds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.accounting import Certificate
from gaussveil.calibration.boxes import box_noise
from gaussveil.mechanisms import Count, Mean, Quantile, TableRelease
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.table.draws import TableDraws
from gaussveil.mechanisms.table.quantiles import ROUND_SHARES, QuantileSearch
from gaussveil.mechanisms.table.radii import Clipping, Lost
from gaussveil.noise import GaussianNoise
from gaussveil.noise.gaussian import SharedNoise
from gaussveil.statistics import ExactSum, MemorySource, weekday_of
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.statistic import State
from gaussveil.statistics.unit_cells import UnitCells, UnitTotals

Matrix = NDArray[np.float64]

ZONES = ["a", "b", "c"]
NORMS = (3.0, 2.0, 0.5)


def _table(rows: list[tuple[Any, Any, Any]]) -> pa.Table:
    homes, zones, kw = zip(*rows) if rows else ((), (), ())
    return pa.table(
        {
            "home": pa.array(homes, pa.string()),
            "zone": pa.array(zones, pa.string()),
            "kw": pa.array(kw, pa.float64()),
        }
    )


_HOMES = [("h1", "a", 1.0), ("h1", "a", 2.5), ("h1", "b", 0.3), ("h2", "c", 9.0), ("h3", "a", -4.0)]
# A unit that is everywhere, with many rows, all beyond the range.
_GREEDY = [("greedy", zone, kw) for zone in ZONES for kw in (1e300, 50.0, 11.0, 10.0)]
_CURVE = [("greedy", "a", 2.0**19), ("greedy", "b", -(2.0**18)), ("greedy", "c", 2.0**18)]
_ODD = [
    (None, "a", 1.0),
    ("h9", None, 1.0),
    ("h9", "nowhere", 1.0),
    ("h9", "a", np.nan),
    ("h9", "b", np.inf),
    ("", "c", -0.0),
]


class ReadOnce(MemorySource):
    """A table whose units are read once for any number of draws."""

    def fold_units(self, reader: CellReader, totals: UnitTotals, kept: list[UnitCells]) -> State:
        known = self.__dict__.setdefault("known", {}).setdefault(reader, [])
        return totals.fold(known) if known else super().fold_units(reader, totals, known)


@dataclass
class RecordedDraws(TableDraws):
    """Draws that remember what they handed out."""

    outputs: list[Matrix] = field(default_factory=list)
    grids: list[float] = field(default_factory=list)

    def noisy(self, noise: GaussianNoise, *sums: ExactSum) -> Matrix:
        handed = super().noisy(noise, *sums)
        self.outputs.append(handed.ravel())
        self.grids.append(noise.grid)
        return handed


def _recorded(mechanism: TableRelease, data: pa.Table) -> RecordedDraws:
    noise = mechanism.plan().noise
    made = RecordedDraws(ReadOnce(data), noise, noise.mean_shift, mechanism.generator)
    made.prepare()
    return made


def table_rows(name: str) -> dict[str, Any]:
    """Counts and means of a column by zone; the neighbour has one home more, in every zone and beyond every bound."""
    answers = [Count(), Mean("kw", between=(0.0, 10.0))]

    def build(**changes: Any) -> TableRelease:
        return TableRelease(
            **{
                "law": "gaussian",
                "unit": "home",
                "by": {"zone": ZONES},
                "answers": answers,
                "rows_per_group": 2,
                **changes,
            }
        )

    def draws(mechanism: TableRelease, data: pa.Table, count: int) -> Matrix:
        made = _recorded(mechanism, data)
        outputs = []
        for _ in range(count):
            made.outputs.clear()
            made.spent, made.draws = 0.0, 0
            made.rows()
            outputs.append(np.concatenate(made.outputs))
        return np.array(outputs)

    def centre(data: pa.Table) -> Matrix:
        counts, sums = np.zeros(3), np.zeros(3)
        cells: dict[tuple[str, str], list[float]] = {}
        for row in data.to_pylist():
            cells.setdefault((row["home"], row["zone"]), []).append(np.clip(row["kw"], 0, 10) / 5 - 1)
        for (_, zone), places in cells.items():
            weight = min(len(places), 2)
            counts[ZONES.index(zone)] += weight
            sums[ZONES.index(zone)] += weight * np.mean(places)
        return np.concatenate([counts, sums])

    def covariance(certificate: Certificate) -> Matrix:
        declared: Any = certificate.parameters["noise variances"]
        own, shared = declared["rows"]
        whole = np.diag(np.repeat([own, declared["features"][0]], 3))
        whole[:3, :3] += shared
        return whole

    def grid(certificate: Certificate) -> float:
        declared: Any = certificate.parameters["noise variances"]
        counts, features = SharedNoise(*declared["rows"], 3, 3), noise_design(declared["features"][0] ** 0.5, (3,), 3)
        return min(counts.grid, features.grid)

    value, neighbour = _table(_HOMES), _table(_HOMES + _GREEDY)
    worst = centre(neighbour) - centre(value)
    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "centre": centre,
        "draws": draws,
        "residuals": lambda certificate, noise: np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T),
        "score": lambda certificate, noise: np.asarray(noise @ np.linalg.solve(covariance(certificate), worst)),
        "malformed": (None, "readings", value.drop_columns(["kw"]), value.drop_columns(["home"]), np.ones((3, 3))),
        "bad_records": (_table(_HOMES + _ODD), _table([]), _table(_ODD)),
        "grid": grid,
    }


def table_profile(name: str) -> dict[str, Any]:
    """Means by zone within balls; nobody against one home that is in all three, further out than every ball."""
    return _profile(name, {"zone": ZONES}, 3, 1, _table(_CURVE))


def table_curve(name: str) -> dict[str, Any]:
    """Mean curves over the week within balls; one home without its Sundays, further out than every ball."""
    days = [("greedy", f"2024-01-{day + 1:02}", 2.0**19 * (1 + day % 2)) for day in range(6)]
    return _profile(name, {"zone": weekday_of("zone")}, 1, 7, _dated(_table(days)))


def _dated(table: pa.Table) -> pa.Table:
    return table.set_column(1, "zone", table.column("zone").cast(pa.timestamp("s")))


def _profile(name: str, by: dict[str, Any], places: int, moments: int, neighbour: pa.Table) -> dict[str, Any]:
    """Nobody against one home; places times moments of groups, its values all beyond the radii."""
    touched = places * moments
    present = np.array([1.0] * min(neighbour.num_rows, touched) + [0.0] * max(touched - neighbour.num_rows, 0))

    def build(**changes: Any) -> TableRelease:
        asked = {"unit": "home", "by": by, "answers": Mean("kw", unit_norm=NORMS), "law": "gaussian"}
        return TableRelease(**{**asked, **changes})

    def draws(mechanism: TableRelease, data: pa.Table, count: int) -> Matrix:
        outputs = []
        made = _recorded(mechanism, data)
        for _ in range(count):
            made.outputs.clear()
            made.spent, made.draws = 0.0, 0
            # What clipping lost is told after a draw, of its numbers: it takes longer than all that is looked at here.
            with patch.object(Clipping, "given", lambda _, laws, radius: [Lost(0.0, 0.0)] * len(laws)):
                made.profiles()
            drawn = dict(zip(_DRAWN[moments > 1], made.outputs, strict=True))
            outputs.append(
                np.concatenate([drawn[part] for part in ("units", "rough", "smooth", "rest") if part in drawn])
            )
        return np.array(outputs)

    def centre(data: pa.Table) -> Matrix:
        if data.num_rows == 0:
            return np.zeros(sum(_sizes(places, moments)))
        curve = np.zeros(touched)
        curve[: data.num_rows] = data.column("kw").to_pylist()
        cells = curve.reshape(places, moments)
        level = cells.mean(axis=1) / np.linalg.norm(cells.mean(axis=1)) * np.sqrt(touched)
        rest = cells - cells.mean(axis=1, keepdims=True)
        parts = [present.reshape(places, moments).sum(axis=1), NORMS[0] * level, NORMS[1] * level]
        if moments > 1:
            parts.append(NORMS[2] * np.sqrt(touched) * rest.ravel() / np.linalg.norm(rest))
        return np.concatenate(parts)

    def covariance(certificate: Certificate) -> Matrix:
        losses: Any = certificate.parameters["squared losses"]
        profile: Any = certificate.parameters["profile 0"]
        shares = {part: share * losses["profile 0"] for part, share in profile["shares"].items()}
        box = box_noise(places, places)
        variances = [moments**2 * box.own / shares["units"]]
        variances += [
            touched * norm**2 / shares[part] for norm, part in zip(NORMS, ("rough", "smooth", "rest")) if part in shares
        ]
        sizes = _sizes(places, moments)
        whole = np.diag(np.repeat(variances, sizes))
        whole[:places, :places] += moments**2 * box.shared / shares["units"]
        return whole

    def grid(certificate: Certificate) -> float:
        spreads = np.sqrt(np.diag(covariance(certificate)))
        sizes = _sizes(places, moments)
        ends = np.cumsum(sizes)
        return min(noise_design(float(spreads[end - 1]), (size,), size).grid for end, size in zip(ends, sizes))

    worst = centre(neighbour)
    return {
        "name": name,
        "build": build,
        "value": neighbour.slice(0, 0),
        "neighbour": neighbour,
        "centre": centre,
        "draws": draws,
        "residuals": lambda certificate, noise: np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T),
        "score": lambda certificate, noise: np.asarray(noise @ np.linalg.solve(covariance(certificate), worst)),
        "malformed": (None, neighbour.drop_columns(["zone"]), np.ones((3, 3))),
        "bad_records": (_table(_HOMES + _ODD), _table(_ODD)) if moments == 1 else (neighbour.slice(1, 3),),
        "grid": grid,
    }


# Histograms of norms, and presence in a learnt ball, are drawn beside; what follows has no part in their noise.
_DRAWN = {
    False: ("units", "norm of rough", "rough", "norm of smooth", "smooth"),
    True: (
        "units",
        "norm of presence",
        "presence",
        "norm of rough",
        "rough",
        "norm of smooth",
        "smooth",
        "norm of rest",
        "rest",
    ),
}


def _sizes(places: int, moments: int) -> list[int]:
    """How many numbers every draw has: counts, rough, smooth, rest."""
    return [places, places, places, *([moments] * (moments > 1))]


def table_quantile(name: str) -> dict[str, Any]:
    """All rounds of a search, later limits where earlier noise put them; nobody against one home below every limit."""
    answer = Quantile("kw", 0.3, between=(0.0, 10.0))
    zones = ZONES[:2]

    def build(**changes: Any) -> TableRelease:
        return TableRelease(
            **{"unit": "home", "by": {"zone": zones}, "answers": answer, "rows_per_group": 4, **changes}
        )

    def draws(mechanism: TableRelease, data: pa.Table, count: int) -> Matrix:
        """One search in many pairs of zones, each with homes of its own: what it counts in a pair is one draw."""
        promise = {name: getattr(mechanism, name) for name in ("epsilon", "delta", "generator")}
        pairs = [f"{zone} {k}" for k in range(count) for zone in zones]
        rows = [
            (f"{home} {k}", f"{zone} {k}", kw)
            for k in range(count)
            for home, zone, kw in zip(*data.to_pydict().values())
        ]
        made = _recorded(build(**promise, by={"zone": pairs}, groups_per_unit=len(zones)), _table(rows))
        made.searched()
        return np.hstack([one.reshape(count, -1) for one in made.outputs])

    def covariances(certificate: Certificate) -> list[Matrix]:
        losses: Any = certificate.parameters["squared losses"]
        rows: Any = certificate.parameters["rows_per_group"]
        search = QuantileSearch(answer, False, losses["quantile 0"], float(len(zones) * rows**2))
        return [search.covariance(number) for number in range(len(ROUND_SHARES))]

    sizes = [len(one) for one in covariances(build(epsilon=1.0, delta=0.2).release(_table([])).certificate)]

    def centre(data: pa.Table) -> Matrix:
        first = 4.0 if data.num_rows else 0.0
        return np.concatenate([np.tile([first] + [0.0] * (size - 1), len(zones)) for size in sizes])

    def whitened(certificate: Certificate, noise: Matrix) -> Matrix:
        parts = np.split(noise, np.cumsum([size * len(zones) for size in sizes])[:-1], axis=1)
        roots = [np.linalg.cholesky(one) for one in covariances(certificate)]
        cells = [part.reshape(-1, len(root)) for part, root in zip(parts, roots)]
        made = [np.linalg.solve(root, part.T).T for root, part in zip(roots, cells)]
        return np.hstack([one.reshape(len(noise), -1) for one in made])

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(whitened(certificate, noise) @ whitened(certificate, worst[None])[0])

    def grid(certificate: Certificate) -> float:
        made = covariances(certificate)
        return min(noise_design(one, (len(zones), len(one)), len(zones) * len(one)).grid for one in made)

    value, neighbour = _table([]), _table([("greedy", zone, -50.0) for zone in zones for _ in range(9)])
    worst = centre(neighbour)
    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "centre": centre,
        "draws": draws,
        "residuals": whitened,
        "score": score,
        "malformed": (None, _table(_HOMES).drop_columns(["kw"]), np.ones((3, 3))),
        "bad_records": (_table(_HOMES + _ODD), _table(_ODD)),
        "grid": grid,
    }
