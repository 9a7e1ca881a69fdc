"""A pandas column of objects is what most of its cells are; one odd cell changes no other and refuses nothing."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gaussveil.engines import open
from gaussveil.errors import GaussveilError, SchemaError
from gaussveil.mechanisms import Count, Mean, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Labels, as_source, date_of, discover, hour_of, value_of
from gaussveil.statistics.column_types import is_found

USUAL: dict[str, list[Any]] = {
    "times": [dt.datetime(2024, 1, 1, k) for k in range(20)],
    "stamps": [pd.Timestamp(2024, 1, 1, k, nanosecond=7) for k in range(20)],
    "instants": [dt.datetime(2024, 1, 1, k, tzinfo=dt.UTC) for k in range(20)],
    "days": [dt.date(2024, 1, 1 + k) for k in range(20)],
    "clocks": [dt.time(k) for k in range(20)],
    "spans": [dt.timedelta(k) for k in range(20)],
    "prices": [Decimal(k) / 8 for k in range(20)],
    "truths": [k % 2 == 0 for k in range(20)],
    "texts": [f"h{k}" for k in range(20)],
    "bytes": [bytes([65 + k]) for k in range(20)],
    "numbers": [k / 8 for k in range(20)],
    "whole numbers": [*range(20)],
    "identifiers": [2**60 + k for k in range(20)],
}
ODD: list[Any] = ["x", "\ud800", b"x", 7, 2.5, 10**400, Decimal("NaN"), True, np.True_, 1j, [1], {}, np.zeros(2)]
ODD += [None, float("nan"), pd.NA, pd.NaT, dt.date(1, 1, 1), dt.datetime(9999, 12, 31), dt.time(1), dt.timedelta(1)]
ODD += [dt.datetime(1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=9))), pd.Timestamp("2024-03-31", tz="Asia/Tokyo")]
NUMBERS = ("numbers", "whole numbers", "identifiers", "prices")


def column(cells: list[Any]) -> pa.ChunkedArray:
    return as_source(pd.DataFrame({"k": pd.Series(cells, dtype=object)})).table()["k"]


@pytest.mark.parametrize("name", USUAL)
def test_no_cell_changes_the_others(name: str) -> None:
    alone = column(USUAL[name])
    assert alone.null_count == 0
    for odd in ODD:
        beside = column([*USUAL[name], odd])
        assert beside.slice(0, 20).to_pylist() == alone.to_pylist(), odd
        # whole numbers beside a fraction are doubles, which hold them all
        assert beside.type == alone.type or (name == "whole numbers" and beside.type == pa.float64()), odd


def test_two_frames_that_differ_in_one_unit_are_told_the_same() -> None:
    table = {"home": [f"h{k}" for k in range(20)]} | USUAL
    asked: list[dict[str, Any]] = [
        {"by": {"k": key}, "answers": [Count()]}
        for key in (hour_of("times"), hour_of("instants"), date_of("days", "2024-01-01", "2024-01-05"))
    ]
    asked += [{"by": {"k": value_of("truths", [True])}, "answers": [Count()]}]
    asked += [{"by": {"k": discover("texts")}, "answers": [Count()]}]
    asked += [{"answers": [Mean(name, between=(0, 1))]} for name in (*NUMBERS, "texts", "truths")]

    def told(frame: pd.DataFrame) -> list[str]:
        words = []
        for more in asked:
            release = TableRelease(epsilon=1.0, delta=1e-3, unit="home", generator=SeededGenerator(1), **more)
            try:
                release.release(frame)
                words.append("answered")
            except GaussveilError as refusal:
                words.append(str(refusal))
        return words

    expected = told(pd.DataFrame(table, dtype=object))
    assert expected[:9] == ["answered"] * 9
    for odd in ("x", 2.5, b"x"):
        added = {name: [*cells, "V" if name == "home" else odd] for name, cells in table.items()}
        frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in added.items()})
        assert told(frame) == expected, odd


@pytest.mark.parametrize("odd", ["2.5", "1e3", "7.0", "inf", "unknown"])
def test_one_fraction_among_whole_numbers_refuses_no_discovery(tmp_path: Path, odd: str) -> None:
    """A file's column is then one of fractions; values are told as whole numbers all the same."""
    rows = "".join(f"h{k},{k % 2}\n" for k in range(200))
    (tmp_path / "t.csv").write_text(f"home,n\n{rows}V,{odd}\n")
    asked = TableRelease(epsilon=5.0, delta=1e-3, unit="home", by={"n": discover("n")}, answers=[Count()])
    asked.generator = SeededGenerator(1)
    assert asked.release(open(tmp_path / "t.csv")).value["n"].to_pylist() == [0, 1]
    pinned = open(tmp_path / "t.csv", schema={"columns": {"home": "text", "n": "number"}})
    with pytest.raises(SchemaError, match="text or integers"):  # by its type, which somebody wrote
        asked.release(pinned)


WHOLE = [k % 7 for k in range(9)]
DAYS = [dt.date(2024, 3, 1 + k) for k in range(9)]
REQUESTS: dict[str, Any] = {
    "fractions": value_of("k", [0.5, 1.0]),
    "texts of fractions": value_of("k", ["0.5", "1"]),
    "texts": value_of("k", ["h1", "1"]),
    "beyond floats": value_of("k", [2**53 + 1, 1]),
    "infinite": value_of("k", [1.0, float("inf")]),
    "times": value_of("k", [dt.datetime(2024, 3, 1)]),
    "hours": hour_of("k"),
    "days": date_of("k", "2024-03-01", "2024-03-05"),
    "found": discover("k"),
}


def told_of(table: Any) -> dict[str, str]:
    """What each request is told of a table's form; no row is read for it."""
    words = {}
    for name, key in REQUESTS.items():
        law = "gaussian" if name == "found" else "laplace"
        made = TableRelease(epsilon=1.0, delta=1e-3, unit="home", by={"k": key}, answers=[Count()], law=law)
        try:
            made.rehearsals(table)
            words[name] = "answered"
        except GaussveilError as refusal:
            words[name] = str(refusal)
    return words


@pytest.mark.parametrize(
    ("cells", "odd", "answered"),
    [
        (WHOLE, 2.5, {"fractions", "texts of fractions", "infinite", "found"}),
        (DAYS, dt.datetime(2024, 3, 1, 10), {"times", "days"}),
    ],
    ids=["whole numbers", "days"],
)
def test_one_cell_decides_no_refusal_where_types_are_found(
    tmp_path: Path, cells: list[Any], odd: Any, answered: set[str]
) -> None:
    """A fraction makes doubles of whole numbers, which hold other labels; a clock would make times of days."""
    expected: dict[str, str] | None = None
    for column in (cells, [*cells, odd]):
        homes = [f"a{k}" for k in range(len(column))]
        (tmp_path / "t.csv").write_text("home,k\n" + "".join(f"{h},{cell}\n" for h, cell in zip(homes, column)))
        for table in (open(tmp_path / "t.csv"), pd.DataFrame({"home": homes, "k": pd.Series(column, dtype=object)})):
            expected = expected or told_of(table)
            assert told_of(table) == expected
    assert expected is not None
    assert {name for name, words in expected.items() if words == "answered"} == answered


def test_a_label_that_a_column_cannot_hold_is_nobodys() -> None:
    """Whatever its type: 0.5 is no whole number, and nothing that is missing has a label."""
    for kind in (pa.int64(), pa.float64(), pa.uint8(), pa.decimal128(5, 1)):
        cells = pa.array([1, 2, None, 4], kind)
        for labels in ([0.5, 2.0], ["0.5", "2.0"], [2**40, 2], [float("inf"), 2.0], [-1, 2]):
            assert Labels("k", labels).codes(cells).tolist() == [-1, 1, -1, -1], (kind, labels)
        assert value_of("k", [2.0, 0.5], other=True).codes(cells).tolist() == [2, 0, -1, 2]
        with pytest.raises(SchemaError, match="holds numbers, which cannot hold"):
            Labels("k", ["h1"]).value_set(kind)


@pytest.mark.parametrize("label", [2**53, -(2**53), 2**60 + 1, str(2**53 + 1), 2.0**60])
def test_labels_that_doubles_do_not_tell_apart_are_refused_as_numbers(label: Any) -> None:
    """One fraction makes doubles of a found column of whole numbers, and 50 homes of one label have another."""
    for kind in (pa.int64(), pa.float64(), pa.decimal128(38, 0)):
        with pytest.raises(SchemaError, match="must lie below 2\\^53"):
            value_of("k", [label]).check(pa.schema([("k", kind)]))
    if isinstance(label, str):
        assert value_of("k", [label]).codes(pa.array([label, "1"])).tolist() == [0, -1]


def test_one_fraction_moves_no_unit_from_value_to_value(tmp_path: Path) -> None:
    """Values that doubles would merge are nobody's whatever else is in the column."""
    homes = "".join(f"a{k},{2**53 + k % 2}\n" for k in range(50)) + "".join(f"b{k},3\n" for k in range(9))
    for odd in ("7", "2.5"):
        (tmp_path / "t.csv").write_text(f"home,key\n{homes}c,{odd}\n")
        values, units = open(tmp_path / "t.csv").units_per_value("home", "key", 1)
        assert dict(zip(values.to_pylist(), units.tolist())) == {3: 9, float(odd): 1}


def test_the_mark_of_a_found_type_is_that_of_its_column() -> None:
    frame = pd.DataFrame({"n": pd.Series([1, 2, 2.5], dtype=object), "kw": [0.5, 1.5, 2.5]})
    schema = as_source(frame).schema
    assert [is_found(schema.field(name)) for name in ("n", "kw")] == [True, False]
    assert schema.types == [pa.float64()] * 2


def test_sparse_columns_and_runs_are_what_they_stand_for() -> None:
    names, kw = ["a", "a", "b", None], [0.0, 1.5, 0.0, 2.0]
    runs = pa.array(names).dictionary_encode().cast(pa.string())
    sparse = pd.DataFrame({"home": names, "kw": pd.arrays.SparseArray(kw)})
    encoded = pa.table({"home": pa.compute.run_end_encode(runs), "kw": kw})
    for given in (sparse, encoded):
        source = as_source(given)
        assert source.table().to_pydict() == {"home": names, "kw": kw}
        assert source.bounded("home", 1).row_count() == 2


def test_columns_of_one_name_are_refused_by_it() -> None:
    for cells in ([[1, 2.0]], [[1, "x"]]):
        with pytest.raises(GaussveilError, match="'a' occurs twice"):
            as_source(pd.DataFrame(cells, columns=["a", "a"], dtype=object))
