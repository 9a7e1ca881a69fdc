"""What units have in groups, against a plain reading of the rows with rationals; and that no unit breaks its bounds."""

from __future__ import annotations

import datetime
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.statistics import as_source
from gaussveil.statistics import cell_reader as module
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.fixed_point import ExactSum
from gaussveil.statistics.keys import Bins, bin_of, date_of, hour_of, month_of, value_of, weekday_of
from gaussveil.statistics.unit_cells import Feature, UnitCells, UnitTotals
from gaussveil.statistics.unit_counts import units_per_value
from gaussveil.typing import Integers


class _Sums(UnitTotals):
    """Everything as it is bounded."""

    def __init__(self, rows: int, groups: int, cells: int, features: int, bins: int = 0) -> None:
        self.bound = (rows, groups)
        self.made = {"rows": (cells,), "features": (features, cells)} | ({"bins": (cells, bins)} if bins else {})

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return self.made

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        bounded = cells.bounded(*self.bound)
        found = {"rows": bounded.rows, "features": np.moveaxis(bounded.features, 0, 1)}
        return found | ({"bins": bounded.bins[0]} if "bins" in self.made else {})


def _odd_rows() -> pa.Table:
    rng = np.random.default_rng(3)
    n = 2_000
    kw = rng.gamma(2.0, 2.0, n) - 1
    kw[:6] = [np.nan, np.inf, -np.inf, -0.0, 1e300, -1e300]
    home = [f"h{k}" for k in rng.integers(0, 30, n)]
    home[10:13] = [None, "", "hé"]
    region = [("north", "so\u0301uth", "só" + "uth", "west", None)[k] for k in rng.integers(0, 5, n)]
    return pa.table({"home": home, "region": region, "kw": kw, "volt": rng.normal(230, 3, n)})


def test_sums_are_those_of_a_plain_reading() -> None:
    table = _odd_rows()
    regions = ("north", "so\u0301uth", "west")
    feature = Feature("kw", 0.0, 4.0)
    reader = CellReader("home", (value_of("region", regions),), (feature,), (Bins("kw", (0.0, 1.0, 2.0, 4.0)),))
    state = as_source(table).fold_units(reader, _Sums(5, 2, 3, 1, 3), [])
    rows: dict[tuple[str, int], list[float]] = defaultdict(list)
    for row in table.to_pylist():
        if row["home"] is not None and row["region"] in regions and np.isfinite(row["kw"]):
            rows[row["home"], regions.index(row["region"])].append(row["kw"])
    per_home: dict[str, list[int]] = defaultdict(list)
    for home, region in rows:
        per_home[home].append(region)
    touched = {home: kept for home, kept in per_home.items() if len(kept) <= 2}
    assert len(touched) < len(per_home)  # some homes are in more groups than they may be
    assert int(ExactSum(state["rows"], 1.0).integers().sum()) == sum(
        min(len(rows[home, region]), 5) for home, region in rows if home in touched
    ) + sum(10 for home in per_home if home not in touched)
    narrow = as_source(table).fold_units(reader, _Sums(10**6, 3, 3, 1, 3), [])
    counts, total, bins = np.zeros(3, int), [Fraction(0)] * 3, np.zeros((3, 3), int)
    for (_, region), values in rows.items():
        for value in values:
            counts[region] += 1
            place = (min(max(value, 0.0), 4.0) - 2.0) / 2.0
            total[region] += Fraction(int(np.trunc(place * 2.0**36)), 2**36)
            if 0.0 <= value <= 4.0:  # values outside are in no bin
                bins[region, 0 if value < 1 else 1 if value < 2 else 2] += 1
    assert ExactSum(narrow["rows"], 1.0).integers().tolist() == counts.tolist()
    assert [Fraction(int(v), 2**36) for v in ExactSum(narrow["features"], 1.0).integers()[0]] == total
    assert (ExactSum(narrow["bins"], 2.0**-20).to_float() == bins).all()


def test_many_rows_of_a_unit_weigh_as_few_and_keep_their_mean() -> None:
    table = pa.table({"home": ["a"] * 1000, "kw": np.linspace(0, 4, 1000)})
    reader = CellReader("home", (), (Feature("kw", 0.0, 4.0),), (Bins("kw", (0.0, 1.0, 4.0)),))
    state = as_source(table).fold_units(reader, _Sums(3, 1, 1, 1, 2), [])
    assert ExactSum(state["rows"], 1.0).integers().tolist() == [3]
    assert ExactSum(state["features"], 2.0**-36).to_float()[0, 0] / 3 == pytest.approx(0.0, abs=1e-9)
    assert ExactSum(state["bins"], 2.0**-20).to_float()[0] == pytest.approx([0.75, 2.25], abs=1e-5)


@given(
    rows=st.lists(st.integers(0, 2**40), min_size=6, max_size=6),
    features=st.lists(st.integers(-(2**63), 2**63 - 1), min_size=6, max_size=6),
    bound=st.tuples(st.integers(1, 50), st.integers(1, 3)),
)
def test_no_unit_exceeds_its_bounds_whatever_its_cells_hold(
    rows: list[int], features: list[int], bound: tuple[int, int]
) -> None:
    """Even integers that overflowed on the way, from more rows than memory holds."""
    shape = (2, 3)
    counts = np.array(rows, dtype=np.int64).reshape(shape)
    bins = np.stack([counts // 3, counts - counts // 3], axis=-1)
    cells = UnitCells(pa.array(["a", "b"]), counts, np.array(features, dtype=np.int64).reshape(1, *shape), (bins,))
    bounded = cells.bounded(*bound)
    assert (bounded.rows <= bound[0]).all()
    assert ((bounded.rows > 0).sum(axis=1) <= bound[1]).all()
    assert (np.abs(bounded.features.astype(object)) <= bounded.rows.astype(object) * 2**36).all()
    assert (bounded.bins[0] >= 0).all()
    assert (bounded.bins[0].sum(axis=-1) <= bounded.rows * 2**20).all()


def test_chunks_of_units_and_orders_of_rows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    table = _odd_rows()
    reader = CellReader("home", (value_of("region", ["north", "west"]),), (Feature("kw", -1.0, 4.0),))
    totals = _Sums(4, 1, 2, 1)
    kept: list[UnitCells] = []
    whole = as_source(table).fold_units(reader, totals, kept)
    assert len(kept) == 1
    again = as_source(table.slice(0, 0)).fold_units(reader, totals, kept)  # what is kept is not read again
    shuffled = table.take(np.random.default_rng(1).permutation(table.num_rows))
    monkeypatch.setattr(module, "_CHUNK_CELLS", 4 * 7)  # seven units at a time
    monkeypatch.setattr(module, "_BATCH_ROWS", 100)
    kept = []
    parts = as_source(shuffled).fold_units(reader, totals, kept)
    assert kept == []
    for name in whole:
        assert np.array_equal(whole[name], parts[name])
        assert np.array_equal(whole[name], again[name])


def test_an_empty_table_and_units_without_names_are_nobody() -> None:
    reader = CellReader("home", (), (Feature("kw", 0.0, 1.0),))
    nobody = pa.table({"home": pa.array([None, None], pa.string()), "kw": [1.0, 2.0]})
    for table in (nobody, nobody.slice(0, 0)):
        state = as_source(table).fold_units(reader, _Sums(1, 1, 1, 1), [])
        assert not any(part.any() for part in state.values())


def test_clocks_are_read_in_their_zone_across_the_change_of_the_hour() -> None:
    # Zurich, the last Sunday of October 2024: 2 o'clock comes twice, and in March it does not come at all.
    instants = ["2024-10-27T00:30", "2024-10-27T01:30", "2024-03-31T00:30", "2024-03-31T01:30", "2024-12-31T23:30"]
    times = pa.array(np.array(instants, dtype="datetime64[us]"))
    zoned = times.cast(pa.timestamp("us", "UTC"))
    zurich = {"time_zone": "Europe/Zurich"}
    assert hour_of("t", **zurich).codes(zoned).tolist() == [2, 2, 1, 3, 0]
    assert hour_of("t").codes(zoned).tolist() == [0, 1, 0, 1, 23]
    elsewhere = zoned.cast(pa.timestamp("us", "Asia/Tokyo"))  # an engine's own zone plays no part
    assert hour_of("t").codes(elsewhere).tolist() == [0, 1, 0, 1, 23]
    assert hour_of("t").codes(times).tolist() == [0, 1, 0, 1, 23]
    assert weekday_of("t").codes(times).tolist() == [6, 6, 6, 6, 1]
    assert month_of("t", **zurich).codes(zoned).tolist() == [9, 9, 2, 2, 0]
    days = date_of("t", "2024-10-27", datetime.date(2025, 1, 1), **zurich)
    assert days.codes(zoned).tolist() == [0, 0, -1, -1, 66]
    assert date_of("t", "2024-03-31", "2024-10-27").codes(times).tolist() == [210, 210, 0, 0, -1]
    assert hour_of("t").codes(pa.array([None], pa.timestamp("us"))).tolist() == [-1]
    early = pa.array(np.array(["1969-12-31T23:59:59.5"], dtype="datetime64[ms]"))
    assert date_of("t", "1969-12-31", "1970-01-01").codes(early).tolist() == [0]


def test_dates_and_clocks_in_two_columns_are_read_each_for_what_it_tells() -> None:
    texts = ["00:15", "7:30", "23:59:59", " 05:00", "24:00", "7.30", "", None, "١٢:00", "12:60", "-1:00"]
    expected = [0, 7, 23, 5, -1, -1, -1, -1, -1, -1, -1]
    hour = hour_of("day + clock")
    assert hour.column == "clock"
    for kind in (pa.string(), pa.large_string()):
        assert hour.codes(pa.array(texts, kind)).tolist() == expected
        hour.check(pa.schema({"clock": kind}))
    times = pa.array([0, 3_599_999_999, 86_399_999_999, None], pa.time64("us"))
    assert hour.codes(times).tolist() == [0, 0, 23, -1]
    assert [weekday_of("day+clock").column, month_of("day+clock").column] == ["day", "day"]
    assert date_of("day+clock", "2024-01-01", "2024-01-02").column == "day"
    for key, kind in (
        (hour, pa.float64()),
        (hour, pa.date32()),
        (hour_of("day+clock", time_zone="Europe/Zurich"), pa.string()),
    ):
        with pytest.raises(SchemaError, match="times of day"):
            key.check(pa.schema({"clock": kind}))


def test_bins_hold_their_lower_edge_and_the_last_both() -> None:
    key = bin_of("x", [0, 1, 2.5])
    cells = pa.array([-0.1, -0.0, 0.99, 1.0, 2.5, 2.6, None, np.nan, np.inf])
    assert key.codes(cells).tolist() == [-1, 0, 0, 1, 1, -1, -1, -1, -1]
    assert list(key.values) == ["[0, 1)", "[1, 2.5]"]


def test_listed_numbers_know_minus_zero() -> None:
    assert value_of("x", [0.0, 1.5]).codes(pa.array([-0.0, 1.5, np.nan, None])).tolist() == [0, 1, -1, -1]


@pytest.mark.parametrize(
    ("reader", "words"),
    [
        (CellReader("nobody", ()), "'nobody' is missing"),
        (CellReader("day", ()), "text or integers"),
        (CellReader("home", (), (Feature("region", 0.0, 1.0),)), "must hold numbers"),
        (CellReader("home", (hour_of("kw"),)), "must hold dates"),
        (CellReader("home", (value_of("volt", ["high"]),)), "cannot hold the declared labels"),
    ],
)
def test_mistakes_are_found_in_the_schema(reader: CellReader, words: str) -> None:
    empty = _odd_rows().slice(0, 0).append_column("day", pa.array([], pa.date32()))
    with pytest.raises(SchemaError, match=words):
        as_source(empty).fold_units(reader, _Sums(1, 1, 1, 0), [])


def test_public_keys_are_checked_when_they_are_made() -> None:
    for make in (
        lambda: hour_of("t", time_zone="Mars/Olympus"),
        lambda: date_of("t", "yesterday", "today"),
        lambda: date_of("t", "2024-01-02", "2024-01-01"),
        lambda: bin_of("x", [1, 1]),
        lambda: bin_of("x", [0, np.inf]),
        lambda: value_of("x", []),
        lambda: value_of("x", ["a", "a"]),
    ):
        with pytest.raises(ParameterError):
            make()


def test_units_per_value_counts_units_and_bounds_each() -> None:
    table = pa.table({"u": ["a", "a", "a", "b", None, "c"], "v": ["x", "x", "y", "x", "x", None]})
    values, counts = units_per_value(table.to_batches(), 5)
    assert dict(zip(values.to_pylist(), counts.tolist())) == {"x": 2, "y": 1}
    _, counts = units_per_value(table.to_batches(), 1)
    assert counts.sum() == 2
    values, counts = units_per_value([], 1)
    assert len(values) == len(counts) == 0
    assert len(units_per_value(table.slice(4, 1).to_batches(), 1)[0]) == 0
