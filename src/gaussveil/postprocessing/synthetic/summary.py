"""What a table says: means, shares, quantiles, correlations; and how far such numbers may be trusted."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa
from scipy.special import stdtrit

from gaussveil.postprocessing.synthetic.columns import NUMBER, WHOLE, Column
from gaussveil.typing import Floats

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
COVERAGE = 0.95
MODEL_CORRELATION = 0.045  # by which normal scores may miss a correlation of values that they do not tell
INSIDE = 0.125  # of the interval that holds a quantile, by which it may be off whatever the noise
BEYOND_LEVEL = (
    1.5  # of the share beyond a learnt range, up to which quantiles may lie there
)
NO_ROOM = (0.0, 0.0)
WIDEST = 0.15  # half-width from which a share or a correlation is not trusted
WIDEST_SPREAD = 0.25  # half-width from which a mean or a quantile is not trusted, in the column's spread


@dataclass(frozen=True, order=True)
class StatedNumber:
    """One statement about a table: of a column, or of two."""

    column: str
    statistic: str
    other: str = ""


def statements(table: pa.Table, columns: Sequence[Column]) -> dict[StatedNumber, float]:
    """Means, quantiles and correlations of numbers, shares of the values of categories, shares of missing cells."""
    made: dict[StatedNumber, float] = {}
    numbers: dict[str, Floats] = {}
    for column in columns:
        cells = table.column(column.name)
        missing = cells.null_count / max(len(cells), 1)
        made[StatedNumber(column.name, "missing")] = missing
        whole = cells.combine_chunks()
        if column.is_category:
            made |= _shares(column, whole)
        elif column.kind in (NUMBER, WHOLE):
            numbers[column.name] = column.numbers(whole)
            made |= _numbers(column.name, numbers[column.name])
    return made | _correlations(numbers)


def _shares(column: Column, cells: pa.Array) -> dict[StatedNumber, float]:
    values = cells.to_pylist()
    known = max(sum(value is not None for value in values), 1)
    return {
        StatedNumber(column.name, f"share of {one}"): values.count(one) / known
        for one in column.values or ()
    }


def _numbers(name: str, numbers: Floats) -> dict[StatedNumber, float]:
    known = numbers[~np.isnan(numbers)]
    if not len(known):
        return {}
    found = {StatedNumber(name, "mean"): float(known.mean())}
    quantiles = np.quantile(known, LEVELS)
    return found | {
        StatedNumber(name, f"quantile {level:g}"): float(one)
        for level, one in zip(LEVELS, quantiles)
    }


def _correlations(numbers: Mapping[str, Floats]) -> dict[StatedNumber, float]:
    names = list(numbers)
    made = {}
    for place, first in enumerate(names):
        for second in names[place + 1 :]:
            both = ~np.isnan(numbers[first]) & ~np.isnan(numbers[second])
            pair = numbers[first][both], numbers[second][both]
            spread = [float(one.std()) if len(one) else 0.0 for one in pair]
            if min(spread) > 0:
                told = float(np.corrcoef(*pair)[0, 1])
            else:
                told = 0.0
            made[StatedNumber(first, "correlation", second)] = told
    return made


Room = tuple[float, float]


def tail_rooms(
    table: pa.Table,
    columns: Sequence[Column],
    tails: Mapping[str, tuple[float, float]],
    series: Sequence[Sequence[str]] = (),
) -> dict[StatedNumber, Room]:
    """How far statements rest on where numbers lie in a column's outermost cells, of which only the count is released.

    They may lie as near as the inner end, or as much farther than the tail that is drawn. Correlations of neighbours of
    a series rest on values, too.
    """
    made: dict[StatedNumber, Room] = {}
    numbers: dict[str, Floats] = {}
    inner: dict[str, Floats] = {}
    for column in columns:
        if column.kind not in (NUMBER, WHOLE) or column.name not in tails:
            continue
        numbers[column.name] = column.numbers(
            table.column(column.name).combine_chunks()
        )
        inner[column.name] = np.clip(numbers[column.name], *tails[column.name])
        known = ~np.isnan(numbers[column.name])
        if not known.any():
            continue
        moved = numbers[column.name][known] - inner[column.name][known]
        mean = float(np.abs(moved).mean())
        made[StatedNumber(column.name, "mean")] = mean, mean
        for level, one in zip(LEVELS, np.quantile(numbers[column.name][known], LEVELS)):
            far = abs(float(one - np.clip(one, *tails[column.name])))
            made[StatedNumber(column.name, f"quantile {level:g}")] = far, far
    for names in series:
        for pair in pairwise(name for name in names if name in numbers):
            drawn, near = (
                _correlations({name: one[name] for name in pair})
                for one in (numbers, inner)
            )
            for told, value in drawn.items():
                far = abs(value - near[told])
                made[told] = far, far
    return made


def model_errors(
    said: Mapping[StatedNumber, float],
    columns: Sequence[Column],
    width_at: Callable[[str, float], float],
    hidden: Mapping[str, float],
) -> dict[StatedNumber, float]:
    """By how much statements may be off whatever the noise, which replays do not show.

    Inside the interval that a quantile lies in nothing was counted: drawn rows are spread smoothly there, private ones
    need not be. Correlations are those of normal scores, as far as values follow them.

    Args:
        said: all statements.
        columns: what is public of the columns.
        width_at: of a column and a number, the width of its interval.
        hidden: of columns, how little their values follow normal scores.
    """
    whole = {column.name for column in columns if column.is_whole}
    made = {}
    for told, value in said.items():
        if told.statistic.startswith("quantile"):
            width = width_at(told.column, value)
            is_one = told.column in whole and width <= 1
            made[told] = 0.0 if is_one else INSIDE * width
        elif told.statistic == "correlation":
            parts = hidden[told.column], hidden[told.other]
            made[told] = MODEL_CORRELATION * math.hypot(*parts)
    return made


def beyond_rooms(
    said: Mapping[StatedNumber, float], beyond: Mapping[str, tuple[float, float]]
) -> dict[StatedNumber, Room]:
    """Statements that rest on numbers that may lie anywhere on one side: `beyond` has their shares below and above."""
    made: dict[StatedNumber, Room] = {}
    for told in said:
        low, high = beyond.get(told.column, NO_ROOM)
        if told.statistic == "correlation":
            other = beyond.get(told.other, NO_ROOM)
            if max(low, high, *other) > 0:
                made[told] = math.inf, math.inf
        elif told.statistic == "mean" and max(low, high) > 0:
            made[told] = _far(low), _far(high)
        elif told.statistic.startswith("quantile"):
            level = float(told.statistic.split()[1])
            if level <= BEYOND_LEVEL * low:
                made[told] = math.inf, 0.0
            elif 1 - level <= BEYOND_LEVEL * high:
                made[told] = 0.0, math.inf
    return made


def _far(share: float) -> float:
    return math.inf if share > 0 else 0.0


def banded(
    said: Mapping[StatedNumber, float],
    errors: Sequence[Mapping[StatedNumber, float]],
    least_share: float,
    columns: Sequence[Column],
    rooms: Mapping[tuple[str, str], Room] | None = None,
    unknown: Collection[str] = (),
    tails: Mapping[StatedNumber, Room] | None = None,
    model: Mapping[StatedNumber, float] | None = None,
) -> pa.Table:
    """Statements with their intervals, from the errors of the same statements in replays of the release.

    Shares of missing cells below `least_share` are drawn as none at all, here and in every replay. Quantiles of whole
    numbers jump by 1, and few replays may show no jump: their intervals end at whole numbers. `rooms` says of pairs of
    columns how far below and above the model their correlation may lie whatever the noise, `tails` of statements; where
    there is no such room `model` says by how much they may be off, as noise is. Of `unknown` columns, which are drawn
    empty, nothing is said.
    """
    whole = {column.name for column in columns if column.is_whole}
    given = rooms or {}
    rows = []
    for told, value in said.items():
        if told.column in unknown:
            rows.append((told, value, math.inf, NO_ROOM))
            continue
        room = given.get((told.column, told.other), NO_ROOM)
        seen = [one[told] for one in errors if told in one]
        model_error = (model or {}).get(told, 0.0) * (room == NO_ROOM)
        reach = _reach(told, seen, least_share, model_error)
        other = (tails or {}).get(told, NO_ROOM)
        room = max(room[0], other[0]), max(room[1], other[1])
        rows.append((told, value, reach, room))
    trusted = [_trusted(told, reach + max(room), said) for told, _, reach, room in rows]
    ends = [
        _within(told, value, reach, room, told.column in whole)
        for told, value, reach, room in rows
    ]
    return pa.table(
        {
            "column": [told.column for told, *_ in rows],
            "statistic": [told.statistic for told, *_ in rows],
            "other": [told.other for told, *_ in rows],
            "value": [value for _, value, *_ in rows],
            "low": [low for low, _ in ends],
            "high": [high for _, high in ends],
            "trusted": trusted,
        }
    )


def _reach(
    told: StatedNumber, errors: Sequence[float], least_share: float, model_error: float
) -> float:
    """Half-width of an interval: errors of replays by Student's law; they are centred on zero, so bias counts too."""
    if not errors:
        return math.inf
    square = float(np.mean(np.square(errors))) + model_error**2
    reach = float(stdtrit(len(errors), (1 + COVERAGE) / 2)) * math.sqrt(square)
    if told.statistic == "missing":
        return max(reach, least_share)
    return reach


def _within(
    told: StatedNumber,
    value: float,
    reach: float,
    room: tuple[float, float],
    whole: bool,
) -> tuple[float, float]:
    """The interval; shares lie between 0 and 1, correlations between -1 and 1."""
    if whole and told.statistic.startswith("quantile"):
        ends = value - reach - room[0], value + reach + room[1]
        low, high = (
            float(rounded(end)) if math.isfinite(end) else end
            for end, rounded in zip(ends, (math.floor, math.ceil))
        )
        return low, high
    low = -math.inf
    high = math.inf
    if told.statistic == "correlation":
        low = -1.0
        high = 1.0
    elif told.statistic == "missing" or told.statistic.startswith("share"):
        low = 0.0
        high = 1.0
    return max(value - reach - room[0], low), min(value + reach + room[1], high)


def _trusted(
    told: StatedNumber, reach: float, said: Mapping[StatedNumber, float]
) -> bool:
    """Whether the interval says anything: a quarter of a column's spread at most, .15 of a share or correlation."""
    if told.statistic != "mean" and not told.statistic.startswith("quantile"):
        return reach <= WIDEST
    spread = (
        said[StatedNumber(told.column, "quantile 0.95")]
        - said[StatedNumber(told.column, "quantile 0.05")]
    )
    return reach <= WIDEST_SPREAD * spread
