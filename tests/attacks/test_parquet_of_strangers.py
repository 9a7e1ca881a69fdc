"""Parquet is read by the verifier itself, with its one dependency: as others read it, or not at all."""

from __future__ import annotations

import datetime
import io
import itertools
import sys
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.accounting.certificates.values import ValuesDigest
from gaussveil.errors import FormatError
from gaussveil.report.released import readings

from ..independent_verifier import independent

ROWS = 120
MIDNIGHT = datetime.datetime(2026, 11, 18)
NUMBERS = np.random.default_rng(4).normal(size=ROWS)
STEPS = range(ROWS)
TIMES = [MIDNIGHT + datetime.timedelta(milliseconds=7777 * step) for step in STEPS]
TABLE = pa.table(
    {
        "double": NUMBERS,
        "float": NUMBERS.astype(np.float32),
        "gaps": [None if step % 7 == 0 else step / 3 for step in STEPS],
        "missing": pa.nulls(ROWS),
        "whole": STEPS,
        "small": pa.array([-step for step in STEPS], pa.int8()),
        "large": pa.array([2**63 + step for step in STEPS], pa.uint64()),
        "truth": [None if step % 5 == 0 else step % 3 == 0 for step in STEPS],
        "zone": [["north", "s\u00fcd", None, "007", ""][step % 5] for step in STEPS],
        "kind": pa.array(["a", "b"] * (ROWS // 2)).dictionary_encode(),
        "day": [MIDNIGHT.date() + datetime.timedelta(days=step) for step in STEPS],
        "time": pa.array(TIMES, pa.timestamp("ms")),
        "clock": pa.array(TIMES, pa.timestamp("ns", "Europe/Zurich")),
    }
)


def written(table: pa.Table, **form: Any) -> bytes:
    body = io.BytesIO()
    pq.write_table(table, body, **form)
    return body.getvalue()


def digest(body: bytes) -> ValuesDigest:
    """As the library reads a file, which is pyarrow's reading."""
    return ValuesDigest.of(readings("day.parquet", body)[0])


def same(released: ValuesDigest, body: bytes) -> bool | None:
    """What the verifier says of a file; None where it does not read it."""
    found = independent().tables_in("day.parquet", body)
    return None if found is None else any(independent().difference(released.to_dict(), rows) is None for rows in found)


FORMS = list(itertools.product(["none", "snappy", "gzip"], [True, False], ["1.0", "2.0"], [50, ROWS], [True, False]))


@pytest.mark.parametrize(("compression", "dictionary", "page", "group", "schema"), FORMS)
def test_every_usual_way_of_writing_is_read(
    compression: str, dictionary: bool, page: str, group: int, schema: bool
) -> None:
    form = {"use_dictionary": dictionary, "data_page_version": page, "row_group_size": group, "store_schema": schema}
    body = written(TABLE, compression=compression, data_page_size=300, **form)
    assert same(digest(body), body) is True
    edited = TABLE.set_column(0, "double", pa.array([*NUMBERS[:-1], NUMBERS[-1] * (1 + 1e-9)]))
    assert same(digest(body), written(edited, compression=compression, **form)) is False


def test_nothing_but_its_one_dependency_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    body = written(TABLE)
    released = digest(body)
    for name in ("pyarrow", "pyarrow.parquet", "numpy", "pandas"):
        monkeypatch.setitem(sys.modules, name, None)
    assert same(released, body) is True


@pytest.mark.parametrize("compression", ["zstd", "brotli", "lz4"])
def test_another_compression_is_not_decided(compression: str) -> None:
    body = written(TABLE, compression=compression)
    assert same(digest(body), body) is None


@pytest.mark.parametrize(
    "column", [[[1, 2], [3]], [b"a", b"b"], [datetime.time(1), None], [{"a": 1}, {"a": 2}]], ids=str
)
def test_columns_of_other_kinds_are_not_decided(column: list[Any]) -> None:
    assert independent().tables_in("day.parquet", written(pa.table({"x": column}))) is None


def test_no_changed_byte_shows_other_numbers_than_other_readers_do() -> None:
    few = TABLE.select(["double", "gaps", "zone", "clock"]).slice(0, 12)
    for compression in ("none", "snappy"):
        body = written(few, compression=compression, store_schema=False, write_statistics=False)
        released = digest(body)
        accepted = 0
        for place in range(0, len(body), 3):
            changed = bytearray(body)
            changed[place] ^= 1 << place % 8
            if same(released, bytes(changed)):
                accepted += 1
                try:
                    found = readings("day.parquet", bytes(changed))
                except FormatError:
                    continue  # a file that nobody else reads shows nobody another number
                assert found
                assert released.differs(found[0]) is None, place
        assert 0 < accepted < len(body) // 9


@pytest.mark.parametrize("size", range(0, 400, 7))
def test_files_cut_short_hold_no_table(size: int) -> None:
    body = written(TABLE.select(["double", "zone"]))
    assert independent().tables_in("day.parquet", body[:size] + body[-4:]) == []


def test_a_small_file_that_claims_much_ends_at_once() -> None:
    claims = [
        written(pa.table({"x": pa.nulls(1 << 24, pa.int8())}), compression="none"),
        written(pa.table({"x": np.zeros(1 << 19)}), compression="snappy", use_dictionary=False),
    ]
    assert independent().tables_in("day.parquet", claims[0]) is None
    (rows,) = independent().tables_in("day.parquet", claims[1])
    assert len(rows) == (1 << 19) + 1


def test_a_table_without_rows_is_read() -> None:
    """Held back rows of a synthetic table are none: pyarrow writes their columns without a page."""
    body = written(TABLE.select(["double", "zone", "day"]).slice(0, 0))
    assert same(digest(body), body)
    assert same(digest(written(TABLE.select(["double", "zone", "day"]))), body) is False
