"""Regressions under the laws: the output of the linear ones is the noisy matrix, of the logistic one all its draws."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import PrivateLogisticRegression
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import Draws
from gaussveil.mechanisms.regression.lengths import Lengths, knots
from gaussveil.mechanisms.regression.logistic import LIFT, STEPS, gradient_steps
from gaussveil.mechanisms.regression.moments import LENGTH_SHARE, LOOK_SHARE, Look, draw_moments
from gaussveil.mechanisms.regression.rows import GivenTable
from gaussveil.mechanisms.regression.unit_sums import FRACTIONS, REACH, WholeUnits
from gaussveil.noise import GaussianNoise
from gaussveil.statistics import Block, ExactSum, Labels, Statistic
from gaussveil.statistics.source import View
from gaussveil.statistics.unit_cells import UnitCells
from gaussveil.typing import Floats

Matrix = NDArray[np.float64]
MALFORMED = (
    (np.zeros(3), np.zeros(3)),
    (np.zeros((1, 1)) * 1j, np.zeros(1)),
    (np.zeros((1, 0)), np.zeros(1)),
)


class OneBlock:
    """Rows that every pass reads as one block."""

    view = View((), "home")

    def __init__(self, values: Matrix, codes: NDArray[np.int64] | None = None, rows_per_unit: int = 1) -> None:
        self.values, self.codes, self.rows_per_unit = values, codes, rows_per_unit

    def aggregate(self, statistic: Statistic[Any], columns: Any = (), **_: Any) -> Any:
        block = Block(self.values[: len(columns) or None].copy(), self.codes, 2 if self.codes is not None else 1)
        return statistic.finish(statistic.partial(block))

    def fold_units(self, reader: Any, totals: Any, kept: Any) -> Any:
        """All rows are one unit's."""
        sums = np.array([[[each.sum()]] for each in reader.integers(dict(zip(reader.present, self.values)))])
        rows = self.values.shape[1]
        units = int(rows > 0)
        return totals.fold([UnitCells(pa.nulls(units), np.full((units, 1), rows), sums[:, :units], ())])


def number(certificate: Certificate, name: str) -> float:
    return float(certificate.parameters[name])  # type: ignore[arg-type]


class Recorded(Draws):
    """Draws that remember what they handed out."""

    def noisy(self, noise: GaussianNoise, *sums: ExactSum) -> Floats:
        handed = super().noisy(noise, *sums)
        self.__dict__.setdefault("outputs", []).append(np.ravel(handed - self.shared(noise)))
        return handed

    def shared(self, noise: GaussianNoise) -> Any:
        """What is left out: nothing."""
        return 0.0


def look_scales(certificate: Certificate, share: float = LOOK_SHARE) -> Matrix:
    """Deviations of the look's count, sum and sum of squares of one column."""
    return np.full(3, math.sqrt(3) / (row_shift(certificate) * math.sqrt(share)))


def row_shift(certificate: Certificate) -> float:
    """A row's mean shift, less what is kept for whole units."""
    kept = number(certificate, "unit_share") if "unit_share" in certificate.parameters else 0.0
    return number(certificate, "row_mean_shift") * math.sqrt(1 - kept)


def moments(name: str, kind: Any, blocks: tuple[str, ...], unit_rows: int = 1) -> dict[str, Any]:
    """One column, and one target where there are blocks of it: nobody against a unit that fills every block.

    The outputs are those of the look, how long rows are where that is asked (this one's length is a knot), then the
    matrix, which is drawn in fixed units (whatever the look tells, its shares of the budget are the same), and what the
    weights lack: of these rows nothing. Where units have several rows theirs are bounded to a quarter of the most, and
    are all alike and that long: how many rows there are of each length follows, then the squares of their part in two
    coefficients, as long as can be: A is fixed, too.
    """
    supervised, several = "y" in blocks, unit_rows > 1
    columns, cell = 1 + supervised, 0.5 if unit_rows > 1 else 1.0
    fraction = cell**2
    halved = np.array([math.sqrt(0.5) if several and block in ("xx", "yy") else 1.0 for block in blocks])

    def rows_of(count: int, *values: float) -> tuple[Any, Matrix]:
        cells = np.array(values or [cell] * count)
        return (
            pd.DataFrame({"home": np.zeros(count, dtype=np.int64), "x": cells}) if several else cells[:, None],
            np.ones(count),
        )

    nobody, somebody = rows_of(0), rows_of(unit_rows)
    full = np.array([cell ** block.count("x") for block in ("1", "x", "xx", *blocks)])
    full[3:] *= halved
    shells = (knots(1) == 1.0)[: len(knots(1)) * bool(kind.rows_share)]
    looked = full * (1 - 2.0**-50)  # the x-part leaves room for its rounding
    filled = np.concatenate((looked[:3], shells, looked[3:], [0.0]))
    longest = unit_rows**2 * math.sqrt(REACH**2 + 3 * 2)
    if several:
        lengths = np.asarray(FRACTIONS) == fraction
        filled = np.concatenate((filled, lengths, [longest * (1 - 2.0**-40) / unit_rows, 0.0]))

    def build(**changes: Any) -> Any:
        bounds = {"bounds": (-1.0, 1.0)} | ({"target_bounds": (-1.0, 1.0)} if supervised else {})
        unit = {"unit": "home", "rows_per_unit": unit_rows} if several else {}
        return kind(**{**bounds, **unit, **changes})

    def block_scales(certificate: Certificate) -> dict[str, float]:
        rest = row_shift(certificate) * math.sqrt(1 - kind.look_share - kind.rows_share)
        found: dict[str, float] = build()._scales(1, int(supervised), Look(1000.0, np.zeros(1), 1.0), rest, fraction)[1]
        return found

    def scales(certificate: Certificate) -> Matrix:
        declared = block_scales(certificate)
        each = [declared[block] * (math.sqrt(2) if block in ("xx", "yy") else 1.0) for block in blocks]
        by_unit = []
        if several:
            lengths, squares = unit_shifts(certificate)
            by_unit = [1 / lengths] * len(FRACTIONS) + [longest / (unit_rows * squares)] * 2
        shell = np.full(len(shells), 1 / max(rows_shift(certificate), 1e-300))
        look = look_scales(certificate, kind.look_share)
        return np.concatenate((look, shell, each * halved, [declared["1"]], by_unit))

    def rows_shift(certificate: Certificate) -> float:
        return row_shift(certificate) * math.sqrt(kind.rows_share)

    def unit_shifts(certificate: Certificate) -> list[float]:
        shares = LENGTH_SHARE, number(certificate, "unit_share") - LENGTH_SHARE
        return [number(certificate, "row_mean_shift") * math.sqrt(share) for share in shares]

    def draws(mechanism: Any, data: Any, count: int) -> Matrix:
        certificate = build(epsilon=mechanism.epsilon, delta=mechanism.delta).fit(*nobody).certificate_
        targets = ("y",) * supervised
        rows = np.stack((np.asarray(data[0])[:, -1].astype(float), data[1]))[:columns]
        units, made = np.array([[0.0, 1.0]] * columns), []
        for _ in range(count):
            source = OneBlock(rows, rows_per_unit=unit_rows)
            table = GivenTable(source, ("x",), targets, ("x",), targets, "row")  # type: ignore[arg-type]
            passes = Recorded(table, number(certificate, "mean_shift"), mechanism.generator)
            Look.at(passes, units, row_shift(certificate) * math.sqrt(kind.look_share))
            if kind.rows_share:
                Lengths.drawn(passes, units, rows_shift(certificate), 1.0)
            first = len(passes.__dict__["outputs"])
            whole = WholeUnits(passes, units)
            grams = replace(whole.grams, fraction=fraction) if several else None
            declared = block_scales(certificate)
            draw_moments(whole, declared, grams)
            outputs = passes.__dict__["outputs"]
            places = [first + [*declared].index(block) for block in blocks]
            drawn = [*outputs[:first], *(outputs[place] for place in places), outputs[-1]]
            if grams is not None:
                lengths, squares = unit_shifts(certificate)
                whole.left_by(lengths)
                whole.effects(grams, np.zeros((1, 2)), np.diag([1e9, 0.0])[None], 1.0, squares)
                drawn += outputs[-2:]
            made.append(np.concatenate(drawn))
        return np.stack(made)

    def release(mechanism: Any, data: Any) -> Release[Any]:
        mechanism.fit(*data)
        return Release(mechanism.moments_, mechanism.certificate_)

    return {
        "name": name,
        "build": build,
        "value": nobody,
        "neighbour": somebody,
        "centre": lambda data: filled * len(data[0]),
        "draws": draws,
        "residuals": lambda certificate, noise: noise / scales(certificate),
        "score": lambda certificate, noise: noise @ (filled / scales(certificate) ** 2),
        "grid": lambda certificate: min(noise_design(each, (1,), 1).grid for each in scales(certificate)),
        "release": release,
        "malformed": MALFORMED,
        "bad_records": ((rows_of(3, np.nan, np.inf, 0.5)[0], np.array([0.0, 0.0, np.nan])), nobody),
    }


SIDES = np.repeat([-1.0, 1.0], 100)


class WithoutTheCommonRows(Recorded):
    """What was handed out, less what the rows that both neighbours share gave at that step."""

    def shared(self, noise: GaussianNoise) -> Any:
        common: ExactSum = self.table.source.shared  # type: ignore[attr-defined]
        of_look = {1: (0, 0), 2: (0, 1), 3: (1, 1)}.get(self.draws)
        return common.on_grid(noise.grid)[of_look or ...]


class SharedRows(OneBlock):
    """A block that also knows the sum over the first 200 rows of its last pass."""

    def aggregate(self, statistic: Statistic[Any], columns: Any = (), **_: Any) -> Any:
        assert self.codes is not None
        self.shared = OneBlock(self.values[:, :200], self.codes[:200]).aggregate(statistic)
        return super().aggregate(statistic) if len(self.codes) > 200 else self.shared


def logistic_steps(name: str) -> dict[str, Any]:
    """Rows on two sides, against one more that is on the wrong side at every step but the first: all its gradient."""
    common = (SIDES[:, None], (SIDES < 0).astype(np.int64))
    wrong = (np.append(SIDES, 1e9)[:, None], np.append(common[1], 1))
    row = np.array([LIFT, 1.0])
    moved = np.concatenate([[0.0, 0.0, 1.0], row / 2, *[row] * (STEPS - 1)])  # the look weighs a wild row down

    def build(**changes: Any) -> PrivateLogisticRegression:
        return PrivateLogisticRegression(**{"bounds": (-1.0, 1.0), "classes": [0, 1], **changes})

    def release(mechanism: PrivateLogisticRegression, data: Any) -> Release[Any]:
        mechanism.fit(*data)
        return Release(mechanism.coef_, mechanism.certificate_)

    def draws(mechanism: PrivateLogisticRegression, data: Any, count: int) -> Matrix:
        certificate = build(epsilon=mechanism.epsilon, delta=mechanism.delta).fit(*common).certificate_
        source = SharedRows(data[0].T.copy(), np.asarray(data[1]))
        table = GivenTable(source, ("x",), (), ("x",), (), "row")  # type: ignore[arg-type]
        made = []
        for _ in range(count):
            passes = WithoutTheCommonRows(table, number(certificate, "mean_shift"), mechanism.generator)
            left = number(certificate, "row_mean_shift")
            gradient_steps(passes, Labels("y", [0, 1]), np.array([[0.0, 1.0]]), None, left)
            made.append(np.concatenate(passes.__dict__["outputs"]))
        return np.stack(made)

    def scales(certificate: Certificate) -> Matrix:
        length, left = math.sqrt(1 + LIFT**2), number(certificate, "row_mean_shift")
        steps = np.full(2 * STEPS, length / (math.sqrt((1 - LOOK_SHARE) / STEPS) * left))
        return np.concatenate((look_scales(certificate), steps))

    return {
        "name": name,
        "build": build,
        "value": common,
        "neighbour": wrong,
        "centre": lambda data: moved * (len(data[0]) - 200),
        "draws": draws,
        "residuals": lambda certificate, noise: noise / scales(certificate),
        "score": lambda certificate, noise: noise @ (moved / scales(certificate) ** 2),
        "grid": lambda certificate: min(noise_design(each, (2,), 2).grid for each in scales(certificate)),
        "release": release,
        "malformed": (*MALFORMED[:2], (np.zeros((2, 1)), None)),
        "bad_records": ((np.array([[np.nan], [np.inf], [0.5]]), np.array([0, 1, 7])), (np.empty((0, 1)), np.empty(0))),
    }
