"""Two tables that differ in one unit are told the same: the unit's cells decide no refusal, in memory, files, Spark.

CSV files, sheets and databases are in test_readers.py, PostgreSQL is in engines/test_postgres.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open
from gaussveil.statistics import Labels, Moments, Source, as_source
from gaussveil.statistics.legible import legible_table

from ..engines.neighbouring_tables import REFUSED, attacked, honest, told

pytestmark = pytest.mark.xdist_group("spark")

Place = Callable[[pa.Table, Path], Source]


def parquet(table: pa.Table, path: Path, **options: Any) -> Source:
    pq.write_table(table, path.with_suffix(".parquet"), **options)
    return open(path.with_suffix(".parquet"))


def arrow(table: pa.Table, path: Path) -> Source:
    feather.write_feather(table, str(path.with_suffix(".arrow")), compression="uncompressed")
    return open(path.with_suffix(".arrow"))


PLACES: dict[str, Place] = {
    "memory": lambda table, path: as_source(table),
    "parquet": parquet,
    "parquet without dictionaries": lambda table, path: parquet(table, path, use_dictionary=False, row_group_size=7),
    "arrow": arrow,
}


@pytest.mark.parametrize("place", PLACES.values(), ids=list(PLACES))
def test_a_unit_of_extremes_decides_no_refusal(place: Place, tmp_path: Path) -> None:
    expected = told(lambda: place(honest(), tmp_path / "t"))
    assert sum(words != "answered" for words in expected.values()) == REFUSED
    assert told(lambda: place(attacked(), tmp_path / "v")) == expected


def test_nor_on_spark(spark: Any, tmp_path: Path) -> None:
    names = ("mean", "clock", "days", "found", "mean of text", "unit of times")
    words = []
    for name, table in (("t", honest()), ("v", attacked())):
        pq.write_table(table, tmp_path / f"{name}.parquet")
        words.append(told(lambda name=name: open(tmp_path / f"{name}.parquet", engine="spark", session=spark), names))
    assert words[0] == words[1]
    assert list(words[0].values()).count("answered") == 4


def test_bytes_of_no_text_are_missing_everywhere(spark: Any, tmp_path: Path) -> None:
    """Of a file that calls them text; days beyond Python's calendar name nobody; nobody else's rows change."""
    bad = (b"\xff\xfe", b"\xc3(", b"\xed\xa0\x80", b"\xc0\x80", b"\xf4\x90\x80\x80")
    good = ("\u00fc\u20ac\U0001f600", "a\n", "\0", "b", "c")
    assert [legible_table(text_of(bytes_)).column(0).to_pylist() for bytes_ in (bad, [w.encode() for w in good])] == [
        [None] * 5,
        list(good),
    ]
    days = pa.array([1, 2, 3, 4, 5, 2**31 - 1, -(2**31), 2**30, 6, None], pa.int32()).cast(pa.date32())
    homes = pa.chunked_array([pa.array(good), text_of(bad).column(0).chunk(0)])
    table = pa.table({"home": homes, "day": days, "kw": np.arange(10.0)})
    pq.write_table(table, tmp_path / "t.parquet")
    on_spark = open(tmp_path / "t.parquet", engine="spark", session=spark)
    for source in (as_source(table), open(tmp_path / "t.parquet"), on_spark):
        groups = dict(source.map_groups(lambda rows: rows["kw"].to_pylist(), by="home"))
        assert groups == {name: [float(k)] for k, name in enumerate(good)}
        assert [rows for _, rows in source.map_groups(len, by="day")] == [1] * 6
        assert source.bounded("home", 2).row_count() == 5
        labels = Labels("home", list(good[2:]))
        assert source.aggregate(Moments(clip=9.0), columns=["kw"], group=labels).count.integers().tolist() == [1] * 3
        assert [rows.num_rows for _, rows in source.windows(by="home", order="kw", length=1)] == [1] * 5


def text_of(cells: Sequence[bytes]) -> pa.Table:
    """A column that says it were text, whatever its bytes."""
    ends = np.cumsum([0, *map(len, cells)], dtype=np.int32)
    column = pa.StringArray.from_buffers(len(cells), pa.py_buffer(ends), pa.py_buffer(b"".join(cells)))
    return pa.table({"home": column})
