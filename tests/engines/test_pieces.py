"""Pieces of Parquet files: every row in exactly one, and only types that all readers understand alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open, pieces
from gaussveil.engines.pieces import cut_files, read_piece, readable
from gaussveil.errors import SchemaError, SourceError
from gaussveil.statistics import Gram, Labels, Moments, as_source

SCHEMA = pa.schema([("number", pa.int64())])


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Files of many sizes, row groups of many sizes, one without a row; numbered through."""
    found, start = [], 0
    for k, (rows, group) in enumerate([(50_000, 700), (10, 3), (0, 5), (20_000, 20_000), (3, 1), (9_000, 4_000)]):
        path = tmp_path / f"{k}.parquet"
        table = pa.table(
            {"other": np.random.default_rng(k).normal(size=rows), "number": np.arange(start, start + rows)}
        )
        pq.write_table(table, path, row_group_size=group)
        found.append(str(path))
        start += rows
    return found


@pytest.mark.parametrize("smallest", [2**10, 2**15, 2**22])
@pytest.mark.parametrize("cores", [1, 2, 7])
def test_every_row_is_in_exactly_one_piece(
    files: list[str], cores: int, smallest: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_SMALLEST", smallest)
    cut = cut_files(files, cores)
    numbers = [n for piece in cut for batch in read_piece(piece, SCHEMA) for n in batch.column("number").to_pylist()]
    assert sorted(numbers) == list(range(79_013))
    assert (len(cut) == 1) == (smallest == 2**22)  # small files are together


def test_only_types_that_mean_one_thing_are_read_so(tmp_path: Path) -> None:
    labels = pa.array(["flat", "house"])
    table = pa.table({"kind": labels.dictionary_encode(), "time": pa.array([1, 2], pa.timestamp("us")), "n": [1, 2]})
    path = str(tmp_path / "table.parquet")
    pq.write_table(table, path)
    assert readable(path, pa.schema([("kind", pa.string()), ("n", pa.int64())]))
    for field in (("time", pa.timestamp("us", "UTC")), ("n", pa.float64()), ("absent", pa.int64())):
        assert not readable(path, pa.schema([field]))


@pytest.mark.xdist_group("spark")
def test_a_folder_on_spark_agrees_to_the_bit_and_mixed_types_are_refused(spark: Any, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    table = pa.table({"kw": rng.normal(size=4_000), "kind": pa.array(["flat", "house"] * 2_000).dictionary_encode()})
    for k in range(4):
        pq.write_table(table.slice(1_000 * k, 1_000), tmp_path / f"{k}.parquet", row_group_size=300)
    source, here = open(tmp_path, engine="spark", session=spark), as_source(table)
    group = Labels("kind", ["house", "flat"])
    got, wanted = (s.aggregate(Moments(clip=2.0), columns=["kw"], group=group) for s in (source, here))
    assert np.array_equal(got.total.limbs, wanted.total.limbs)
    assert got.count.integers().tolist() == [2_000, 2_000]
    pq.write_table(pa.table({"kw": np.float32(rng.normal(size=9)), "kind": ["flat"] * 9}), tmp_path / "9.parquet")
    mixed = open(tmp_path, engine="spark", session=spark)
    with pytest.raises(SchemaError, match="'kw' is not in every file of the table, or not of one type"):
        mixed.aggregate(Gram(row_norm=2.0), columns=["kw"])


@pytest.mark.xdist_group("spark")
def test_sums_and_rows_on_spark_are_of_the_same_files(spark: Any, tmp_path: Path) -> None:
    pq.write_table(pa.table({"kw": [1.0, 2.0]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"kw": [4.0]}), tmp_path / "_unfinished.parquet")  # Spark itself skips it
    (tmp_path / "b.parquet").mkdir()  # as Spark writes tables
    pq.write_table(pa.table({"kw": [8.0]}), tmp_path / "b.parquet" / "part.parquet")
    source = open(tmp_path, engine="spark", session=spark)
    assert sorted(source.table()["kw"].to_pylist()) == [1.0, 2.0, 8.0]
    assert source.aggregate(Moments(clip=9.0), columns=["kw"]).total.to_float().item() == 11.0
    pq.write_table(pa.table({"kw": [1.0]}), tmp_path / "{a}.parquet")
    with pytest.raises(SourceError, match="rename it"):
        open(tmp_path, engine="spark", session=spark)
