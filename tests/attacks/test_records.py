"""No cell of a record decides whether a release runs: a refusal that depends on the data is an output."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path

import numpy as np
import pandas
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gaussveil
from gaussveil import Ledger
from gaussveil.accounting import Account
from gaussveil.errors import GaussveilError, ParameterError, SchemaError
from gaussveil.mechanisms import (
    Count,
    PrivateGaussianProcessRegressor,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    TableRelease,
)
from gaussveil.mechanisms.regression.rows import WeightedRows
from gaussveil.statistics import as_source
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import date_of, discover, hour_of, month_of, weekday_of
from gaussveil.statistics.row_hash import hash_rows

CLOCKS = [hour_of("at"), weekday_of("at"), month_of("at"), date_of("at", "2020-01-01", "2020-02-01")]
FAR = [2**63 - 1, -(2**63), -(2**63) + 1, 2**62, -(2**62), 10**17, -(10**17), 10**15, -(10**15)]


def table(times: list[int | None], unit: str, zone: str | None) -> pa.Table:
    return pa.table(
        {
            "home": [f"h{number}" for number in range(len(times))],
            "at": pa.array(times, pa.int64()).cast(pa.timestamp(unit, zone)),
        }
    )


def release(data: object, key: object) -> None:
    TableRelease(epsilon=1.0, delta=1e-5, unit="home", by={"k": key}, answers=[Count()]).release(data)


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_time_beyond_all_calendars_belongs_to_no_group_or_to_one(unit: str, zone: str | None) -> None:
    """Arrow's hour of such a time may be a number of thirteen digits."""
    column = table([0, None, *FAR], unit, zone).column("at").combine_chunks()
    for key in CLOCKS:
        assert isinstance(key, Key)
        codes = key.codes(column)
        assert codes[1] == -1
        assert all(-1 <= code < len(key.values) for code in codes)
    release(table([0, 5, *FAR], unit, zone), CLOCKS[0])


@pytest.mark.parametrize("zone", [None, "Europe/Zurich"])
@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_coarse_times_are_read_whatever_they_hold(tmp_path: Path, form: str, zone: str | None) -> None:
    """DuckDB refuses times of milliseconds that microseconds cannot hold."""
    target = tmp_path / f"rows.{form}"
    for far in (0, *FAR):
        data = table([0, 5, far], "ms", zone)
        if form == "parquet":
            pq.write_table(data, target)
        else:
            with pa.OSFile(str(target), "wb") as stream, pa.ipc.new_file(stream, data.schema) as writer:
                writer.write_table(data)
        release(gaussveil.open(target), CLOCKS[0])


def test_integers_of_any_size_are_refused_by_type_or_told_apart() -> None:
    wide = pa.decimal256(76, 0)
    for value in (Decimal(1), Decimal(10) ** 75):
        with pytest.raises(SchemaError):
            release(pa.table({"home": ["a"], "k": pa.array([value], wide)}), discover("k"))
    numbers = [1, 2**64 + 1, 2**64, 2**65 + 1, -(2**64) + 1, 0, None, 10**37, -(10**37)]
    cells = [None if one is None else Decimal(one) for one in numbers]
    found = hash_rows([pa.array(cells, pa.decimal128(38, 0))], bytes(32))
    assert len(set(found.tolist())) == len(numbers)
    for kind in (pa.int64(), pa.uint64()):  # as integers of other types where those hold them
        assert hash_rows([pa.array([1, 0, None], kind)], bytes(32)).tolist() == found[[0, 5, 6]].tolist()


@pytest.mark.parametrize("odd", [2**70, 10**400, "unknown", None, float("nan"), b"x", {}])
def test_one_odd_cell_among_objects_changes_no_other_and_refuses_nothing(odd: object) -> None:
    """An integer beyond all types, like any odd cell, is some float, somebody's name or missing; it was a refusal."""
    cells = pandas.Series([*range(9), odd], dtype=object)
    source = as_source(pandas.DataFrame({"n": cells}))
    assert source.table()["n"].to_pylist()[:9] == list(range(9))
    assert source.found_form == ("types of columns of objects",)
    beside = as_source(pa.table({"kw": [*range(9), 0]}), unit=cells, rows_per_unit=1)
    assert beside.row_count() == (10 if odd in (2**70, "unknown") else 9)


def test_bytes_of_no_text_stop_nothing_and_name_nobody(tmp_path: Path) -> None:
    """One cell that is not UTF-8, which a writer may leave in a column of text, stopped the release."""
    words = [b"a", b"h\xff", b"h\xfe", b"a"]
    ends = pa.array([0, 1, 3, 5, 6], pa.int32()).buffers()[1]
    text = pa.Array.from_buffers(pa.string(), 4, [None, ends, pa.py_buffer(b"".join(words))])
    found = hash_rows([text], bytes(32)).tolist()
    assert found[0] == found[3] == hash_rows([pa.array(["a"])], bytes(32))[0]
    assert len(set(found)) == 3
    data = pa.table({"home": text, "k": [1, 1, 2, 2]})
    release(data, discover("k"))
    pq.write_table(data, tmp_path / "rows.parquet")
    read = gaussveil.open(tmp_path / "rows.parquet")
    release(read, discover("k"))
    assert read.bounded("home", 1).row_count() == 1  # a, as in every place


def test_columns_beside_text_are_read_in_their_types(tmp_path: Path) -> None:
    """Decimals of 32 bytes came as other numbers; Arrow hands durations and halves over in types of their own."""
    wide = pa.array([Decimal("1.5")], pa.decimal256(60, 2))
    columns = {"wide": wide, "half": np.array([1.5], np.float16), "lasts": pa.array([7], pa.duration("us"))}
    pq.write_table(pa.table({"home": ["a"], **columns}), tmp_path / "rows.parquet")
    assert gaussveil.open(tmp_path / "rows.parquet").table().to_pylist() == [
        {"home": "a", "wide": 1.5, "half": 1.5, "lasts": 7}
    ]


def test_rows_chosen_per_home_tell_of_persons() -> None:
    """A visitor of every home displaces the rows of many others: 50 of 50 against 0 of 50 at epsilon 1."""
    homes = as_source(pa.table({"home": [1, 1, 2], "person": ["a", "b", "b"], "k": [1, 2, 1]})).bounded("home", 1)
    for key in ([1, 2], discover("k")):
        with pytest.raises(ParameterError, match="the unit must be 'home'"):
            TableRelease(epsilon=1.0, delta=1e-5, unit="person", by={"k": key}, answers=[Count()]).release(homes)
    release(homes, discover("k"))


def test_identifiers_given_beside_the_rows_are_neither_shown_nor_stored() -> None:
    homes = np.array([f"meter-{number}" for number in range(40)])
    rows, values = np.random.default_rng(1).uniform(-1, 1, (2, 40))
    made = PrivateLinearRegression(unit=homes, rows_per_unit=1, bounds=(-1, 1), target_bounds=(-1, 1))
    made.fit(rows[:, None], values)
    assert "meter-7" not in repr(made)
    stored = pickle.dumps(made)
    assert b"meter-7" not in stored
    loaded = pickle.loads(stored)
    assert np.array_equal(loaded.coef_, made.coef_)
    with pytest.raises(GaussveilError):  # and not every row a unit of its own
        loaded.fit(rows[:, None], values)


def test_features_whose_distances_overflow_are_left_out_of_a_process() -> None:
    made = PrivateGaussianProcessRegressor(
        n_max=8, query_points=[[0.0]], observation_variance=0.1, epsilon=1.0, delta=1e-5
    )
    made.fit([[0.0], [1e200], [-1e300]], [1.0, 1.0, -1.0])
    assert np.isfinite(made.values_).all()
    assert any("2^300" in line for line in made.certificate_.assumptions)


def test_labels_of_another_type_are_refused_before_the_debit(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "ledger.db")
    ledger.open_account("winter", epsilon=2.0, delta=1e-5)
    source = as_source(pa.table({"x": [0.5, 1.0], "label": [True, False]}))
    made = PrivateLogisticRegression(
        classes=["yes", "no"], target="label", bounds=(-1, 1), account=Account(tmp_path / "ledger.db", "winter")
    )
    with pytest.raises(SchemaError, match="declared labels"):
        made.fit(source)
    assert not ledger.entries("winter")


def test_two_labels_are_among_the_public_knowledge() -> None:
    rows = np.random.default_rng(2).uniform(-1, 1, (50, 2))
    made = PrivateLogisticRegression(bounds=(-1, 1)).fit(rows, rows[:, 0] > 0)
    assert any("the two labels" in line for line in made.certificate_.assumptions)


def test_target_at_the_end_of_a_range_without_width_counts_as_nothing() -> None:
    statistic = WeightedRows(centre=(0.0, 1.0), scale=(1.0, 0.0), row_norm=1.0, targets=1)
    assert np.isfinite(statistic.weighted(np.array([[0.5, 0.5, np.inf], [1.0, 2.0, 1.0]]))).all()
