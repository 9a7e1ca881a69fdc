from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.engines import open as open_table
from gaussveil.engines import scanned
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.statistics.column_types import with_found_types
from gaussveil.timeseries import Readings, read_readings


def long_columns(count: int = 8, homes: tuple[str, ...] = ("b", "a"), step: int = 15) -> dict[str, Any]:
    times = np.datetime64("2024-01-01T00:00", "m") + step * np.arange(count)
    return {
        "household": [name for name in homes for _ in range(count)],
        "time": np.tile(times, len(homes)),
        "kw": np.arange(count * len(homes), dtype=float) / 10,
    }


def structured(columns: dict[str, Any]) -> np.ndarray:
    table = np.zeros(len(columns["kw"]), dtype=[("household", "U8"), ("time", "datetime64[m]"), ("kw", "f8")])
    for name, values in columns.items():
        table[name] = values
    return table


AS_TABLE = {
    "dict": lambda c: c,
    "pandas": pd.DataFrame,
    "polars": lambda c: pl.DataFrame({**c, "time": c["time"].astype("datetime64[us]")}),
    "pyarrow": lambda c: pa.table({**c, "time": c["time"].astype("datetime64[s]")}),
    "numpy": structured,
}


@pytest.mark.parametrize("kind", AS_TABLE)
def test_every_kind_of_long_table_gives_the_same_grid(kind: str) -> None:
    columns = long_columns()
    shuffled = np.random.default_rng(1).permutation(16)
    mixed = {name: np.asarray(values)[shuffled] for name, values in columns.items()}
    found = read_readings(AS_TABLE[kind](mixed))
    assert found.households == ("a", "b")
    assert found.step_minutes == 15
    assert found.start == np.datetime64("2024-01-01T00:00")
    np.testing.assert_array_equal(found.values, columns["kw"].reshape(2, 8)[::-1])


@pytest.mark.parametrize("step", [15, 60])
def test_wide_tables_with_a_time_column_or_a_time_index(step: int) -> None:
    times = np.datetime64("2024-01-01", "m") + step * np.arange(5)
    values = np.random.default_rng(2).random((2, 5))
    frame = pd.DataFrame({"time": times.astype("datetime64[ns]"), "h1": values[0], "h2": values[1]})
    for table in (frame, frame.set_index("time"), pl.from_pandas(frame), pa.Table.from_pandas(frame)):
        found = read_readings(table)
        assert found.households == ("h1", "h2")
        assert found.step_minutes == step
        np.testing.assert_array_equal(found.values, values)


def test_an_unnamed_time_index_is_the_time() -> None:
    frame = pd.DataFrame({"h": [1.0, 2.0]}, index=pd.to_datetime(["2024-01-01T00:00", "2024-01-01T01:00"]))
    assert read_readings(frame).step_minutes == 60


@pytest.mark.parametrize("kind", ["category", "int64"])
def test_household_names_may_be_categories_or_numbers(kind: str) -> None:
    frame = pd.DataFrame(long_columns(homes=("12", "7")))
    frame["household"] = frame["household"].astype(kind)
    found = read_readings(frame)
    assert found.households == ("12", "7")
    np.testing.assert_array_equal(found.values, frame["kw"].to_numpy().reshape(2, 8))


def test_units_are_converted() -> None:
    base = read_readings(long_columns())
    for unit, factor in (("W", 1e-3), ("kWh", 4.0), ("Wh", 4e-3)):
        np.testing.assert_allclose(
            read_readings(long_columns(), measured_in=unit).values, base.values * factor, rtol=1e-14
        )
    with pytest.raises(TypeError, match="unit"):  # of power, which a unit of privacy is not
        read_readings(long_columns(), **{"unit": "W"})


def without_rows(rows: list[int]) -> dict[str, Any]:
    return {name: np.delete(np.asarray(values), rows) for name, values in long_columns().items()}


def test_gaps_are_refused_or_filled_by_the_named_rule() -> None:
    table = without_rows([2, 3])  # household b, times 2 and 3
    with pytest.raises(
        SchemaError, match=r"column 'kw', household number 1, time number 2: reading missing \(2 in all\)"
    ):
        read_readings(table)
    np.testing.assert_allclose(read_readings(table, gaps="interpolate").values[1, 1:5], [0.1, 0.2, 0.3, 0.4])
    np.testing.assert_allclose(read_readings(table, gaps="hold").values[1, 1:5], [0.1, 0.1, 0.1, 0.4])
    with pytest.raises(SchemaError, match="longer than max_gap=1"):
        read_readings(table, gaps="interpolate", max_gap=1)


def test_the_week_rule_takes_the_same_time_of_the_week_before_or_else_after() -> None:
    count = 15 * 24
    times = np.datetime64("2024-01-01T00:00", "m") + 60 * np.arange(count)
    values = np.random.default_rng(3).random(count)
    holes = values.copy()
    holes[[5, 300]] = np.nan
    found = read_readings({"time": times, "h": holes}, gaps="week").values[0]
    assert found[300] == values[300 - 168]
    assert found[5] == values[5 + 168]


def test_null_and_nan_count_as_missing() -> None:
    columns = long_columns()
    columns["kw"][4] = np.nan
    with pytest.raises(SchemaError, match="reading missing"):
        read_readings(columns)
    frame = pl.DataFrame({"time": columns["time"][:8].astype("datetime64[us]"), "h": [1.0, None, 3.0] + [1.0] * 5})
    assert read_readings(frame, gaps="interpolate").values[0, 1] == 2.0


def test_duplicates_are_refused_or_merged_by_the_named_rule() -> None:
    columns = long_columns()
    doubled = {name: np.append(np.asarray(values), np.asarray(values)[9]) for name, values in columns.items()}
    doubled["kw"][-1] = 5.0
    with pytest.raises(SchemaError, match="column 'kw', row 16: the value is a second reading"):
        read_readings(doubled)
    for rule, expected in (("mean", (5.0 + 0.9) / 2), ("first", 0.9), ("last", 5.0)):
        assert read_readings(doubled, duplicates=rule).values[0, 1] == pytest.approx(expected)


def test_zeros_follow_their_rule() -> None:
    assert read_readings(long_columns()).values.min() == 0
    with pytest.raises(SchemaError, match="column 'kw', row 0: the value is exactly 0"):
        read_readings(long_columns(), zeros="refuse")
    assert read_readings(long_columns(), zeros="missing", gaps="interpolate").values[1, 0] == pytest.approx(0.1)


def zurich(stamps: list[str]) -> dict[str, Any]:
    return {"time": np.array(stamps, dtype="datetime64[m]"), "h": np.arange(len(stamps), dtype=float)}


def test_autumn_averages_the_repeated_hour_and_spring_interpolates_the_skipped_one() -> None:
    autumn = zurich(["2024-10-27T01:00", "2024-10-27T02:00", "2024-10-27T02:00", "2024-10-27T03:00"])
    with pytest.raises(SchemaError, match="second reading"):
        read_readings(autumn)
    np.testing.assert_allclose(read_readings(autumn, time_zone="Europe/Zurich").values, [[0, 1.5, 3]])
    spring = zurich(["2024-03-31T00:00", "2024-03-31T01:00", "2024-03-31T03:00", "2024-03-31T04:00"])
    with pytest.raises(SchemaError, match="column 'h', time number 2: reading missing"):
        read_readings(spring)
    np.testing.assert_allclose(read_readings(spring, time_zone="Europe/Zurich").values, [[0, 1, 1.5, 2, 3]])


def test_aware_stamps_run_on_the_wall_clock_when_a_zone_is_given() -> None:
    stamps = pd.date_range("2024-10-26T22:00", periods=6, freq="h", tz="UTC")
    frame = pd.DataFrame({"time": stamps, "h": np.arange(6.0)})
    assert read_readings(frame).count == 6
    local = read_readings(frame, time_zone="Europe/Zurich")
    assert local.start == np.datetime64("2024-10-27T00:00")
    np.testing.assert_allclose(local.values, [[0, 1, 2.5, 4, 5]])


def test_a_wall_clock_time_that_does_not_exist_is_refused_by_row() -> None:
    table = zurich(["2024-03-31T01:00", "2024-03-31T02:00", "2024-03-31T03:00"])
    with pytest.raises(SchemaError, match="column 'time', row 1: this wall-clock time does not exist"):
        read_readings(table, time_zone="Europe/Zurich")


def test_a_long_table_whose_homes_are_not_named_says_so() -> None:
    table = zurich(["2024-03-01T01:00", "2024-03-01T02:00"])
    with pytest.raises(
        SchemaError, match=r"'meter' must hold numbers; its type is string; of a long table name .*--house"
    ):
        read_readings({"meter": ["a", "a"], **table})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"kw": ["a"] * 16}, "column 'kw' must hold numbers"),
        (
            {"kw": np.r_[np.ones(11), -1.0, np.ones(4)]},
            "column 'kw', row 11: the value must be finite and not negative",
        ),
        ({"kw": np.r_[np.inf, np.ones(15)]}, "column 'kw', row 0"),
        ({"time": np.arange(16)}, "column 'time' must hold time stamps"),
        ({"time": ["2024-01-01T00:00"] * 15 + ["soon"]}, "column 'time', row 15: not ISO 8601"),
        ({"time": np.array(["2024-01-01T00:00"] * 15 + ["NaT"], "datetime64[m]")}, "row 15: the time is missing"),
        ({"time": np.datetime64("2024-01-01", "s") + 900 * np.arange(16) + 7}, "row 0: the time is not a whole minute"),
        ({"household": [None] + ["a"] * 15}, "column 'household', row 0: the value is missing"),
    ],
)
def test_bad_columns_are_named_with_their_row(change: dict[str, Any], message: str) -> None:
    with pytest.raises(SchemaError, match=message):
        read_readings({**long_columns(), **change})


def test_messages_never_show_a_reading() -> None:
    columns = long_columns()
    columns["kw"][3] = -123.456
    with pytest.raises(SchemaError) as caught:
        read_readings(columns)
    assert "123" not in str(caught.value)


def test_other_refusals() -> None:
    columns = long_columns()
    off = columns["time"].copy()
    off[3] += np.timedelta64(1, "m")
    with pytest.raises(SchemaError, match="column 'time', row 3: the value is off the grid of 15 minutes"):
        read_readings({**columns, "time": off})
    with pytest.raises(SchemaError, match="no column 'power'"):
        read_readings(columns, power="power")
    with pytest.raises(SchemaError, match="structured array"):
        read_readings(np.ones((3, 3)))
    with pytest.raises(SchemaError, match="cannot read a table from int"):
        read_readings(7)
    with pytest.raises(SchemaError, match="no rows"):
        read_readings({"time": np.array([], "datetime64[m]"), "h": np.array([])})
    with pytest.raises(ParameterError, match="gaps must be one of"):
        read_readings(columns, gaps="guess")
    with pytest.raises(ParameterError, match="time_zone"):
        read_readings(columns, time_zone="Mars/Olympus")
    with pytest.raises(SchemaError, match="does not divide a day"):
        read_readings(long_columns(step=7))
    far = zurich(["1900-01-01T00:00", "1900-01-01T00:15", "2024-01-01T00:00"])
    with pytest.raises(SchemaError, match="most of them without a reading"):
        read_readings(far, step_minutes=15, gaps="hold")


def test_iso_text_is_read_with_and_without_zone() -> None:
    plain = read_readings({"time": ["2024-01-01T00:00", "2024-01-01T00:30"], "h": [1.0, 2.0]})
    zoned = read_readings({"time": ["2024-01-01T01:00+01:00", "2024-01-01T01:30+01:00"], "h": [1.0, 2.0]})
    assert plain.start == zoned.start == np.datetime64("2024-01-01T00:00")
    with pytest.raises(SchemaError, match="zone"):
        read_readings({"time": ["2024-01-01T01:00+01:00", "2024-01-01T01:30"], "h": [1.0, 2.0]})


def test_readings_check_themselves() -> None:
    start = np.datetime64("2024-01-03T06:00")
    good = Readings(np.ones((2, 8)), ("a", "b"), start, 15)
    assert good.week_phase == (2 * 24 + 6) * 4
    assert good.times[-1] == start + np.timedelta64(105, "m")
    assert good.select(["b"]).households == ("b",)
    assert good.window(4, 2).start == start + np.timedelta64(60, "m")
    for build, error in (
        (lambda: Readings(np.ones((2, 8)), ("a",), start, 15), ShapeError),
        (lambda: Readings(np.ones((2, 8)), ("a", "a"), start, 15), SchemaError),
        (lambda: Readings(-np.ones((1, 8)), ("a",), start, 15), SchemaError),
        (lambda: Readings(np.ones((1, 8)), ("a",), start, 7), ParameterError),
        (lambda: good.window(5, 4), ParameterError),
        (lambda: good.select(["c"]), SchemaError),
        (lambda: good.resample(20), ParameterError),
    ):
        with pytest.raises(error):
            build()


@given(st.integers(1, 5), st.integers(4, 30), st.integers(0, 2**32 - 1))
def test_resampling_keeps_the_energy(homes: int, hours: int, seed: int) -> None:
    values = np.random.default_rng(seed).random((homes, 4 * hours))
    quarter = Readings(values, tuple(map(str, range(homes))), np.datetime64("2024-01-01"), 15)
    np.testing.assert_allclose(quarter.resample(60).values.sum(axis=1), values.sum(axis=1) / 4, rtol=1e-12)


def test_the_real_homes_are_read(real_data: Path) -> None:
    frame = pd.read_csv(real_data / "ch_homes_15min_kw.csv.gz")
    found = read_readings(frame)
    assert found.values.shape == (404, 4704)
    assert (found.start, found.step_minutes, found.week_phase) == (np.datetime64("2018-10-29"), 15, 0)
    np.testing.assert_array_equal(found.values.T, frame.drop(columns="time").to_numpy())


MIXED = np.array([0.25, "SECRET", {"deep": 1}], dtype=object)
STAMPS = ["2024-01-01T00:00", "2024-01-01T00:15", "2024-01-01T00:30"]


@pytest.mark.parametrize(
    "table",
    [
        {"household": ["a"] * 3, "time": STAMPS, "kw": MIXED},
        {"household": MIXED, "time": STAMPS, "kw": [1.0, 2.0, 3.0]},
        pd.DataFrame({"household": ["a"] * 3, "time": STAMPS, "kw": MIXED}),
        {"household": ["a"] * 3, "time": [*STAMPS[:2], "SECRET"], "kw": [1.0, 2.0, 3.0]},
        pa.table({"household": ["a"] * 3, "time": [*STAMPS[:2], "SECRET"], "kw": [1.0, 2.0, 3.0]}),
    ],
    ids=["kw", "household", "frame", "time", "arrow"],
)
def test_a_refusal_and_all_that_stands_behind_it_quote_no_cell(table: Any) -> None:
    with pytest.raises(SchemaError) as refused:
        read_readings(table)
    error: BaseException | None = refused.value
    while error is not None:
        assert "SECRET" not in str(error)
        error = error.__cause__ or error.__context__


def test_whole_numbers_beyond_the_doubles_are_rounded_not_quoted() -> None:
    found = read_readings({"household": ["a"] * 3, "time": STAMPS, "kw": [1, 2, 9007199254740993]})
    assert found.values[0, 2] == 9007199254740992.0


def test_a_file_with_a_column_for_each_home_is_not_described_anew_for_each(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """400 homes took minutes: the schema of all columns was made for every column of every column's schema."""
    described: list[int] = []

    def counted(schema: pa.Schema, names: list[str]) -> pa.Schema:
        described.append(len(names))
        return with_found_types(schema, names)

    monkeypatch.setattr(scanned, "with_found_types", counted)
    names = [f"home {k}" for k in range(60)]
    rows = [f"2024-01-01T{hour:02d}:00," + ",".join(f"{k / 10}" for k in range(60)) for hour in range(4)]
    (tmp_path / "wide.csv").write_text("\n".join([",".join(["Time", *names]), *rows]))
    readings = read_readings(open_table(tmp_path / "wide.csv"), time="Time", layout="wide")
    assert readings.households == tuple(names)
    assert 0 < len(described) < 60
