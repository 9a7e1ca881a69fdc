"""Damaged files, files that unpack to more than any memory, and rows that spill to disk."""

from __future__ import annotations

import gzip
import resource
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gaussveil.cli.main import app
from gaussveil.engines import open as open_table
from gaussveil.engines import whole_files
from gaussveil.engines.whole_files import read_parquet, require_fitting, require_whole
from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.report.number_files import read_numbers

PROMISE = ("--epsilon", "1", "--delta", "1e-5")
COLUMNS = ("--household", "c0", "--time", "c1", "--power", "c2")
SPILLING = """
import sys
from gaussveil.engines import open
table = open(sys.argv[1], memory_limit="35MB", temp_directory=sys.argv[2]).bounded("home", 300)
found = 0
for batch in table.batches(["kw", *(f"c{k}" for k in range(6))]):
    found += batch.num_rows
print(found)
"""


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rng = np.random.default_rng(1)
    return pa.table({"home": rng.integers(0, 50, 3000), "kw": rng.random(3000)})


def total(file: Path) -> float:
    return sum(float(np.sum(batch.column("kw").to_numpy())) for batch in open_table(file).batches(["kw"]))


def test_half_a_gzip_is_refused_and_several_in_one_file_are_read(tmp_path: Path) -> None:
    lines = "home,kw\n" + "".join(f"a,{k / 8}\n" for k in range(20_000))
    whole = gzip.compress(lines.encode())
    file = tmp_path / "readings.csv.gz"
    for harm in (whole[: len(whole) // 2], whole[:-4], whole[:-8], whole[:-5] + bytes([whole[-5] ^ 1]) + whole[-4:]):
        file.write_bytes(harm)
        with pytest.raises(FormatError, match="gzip"):
            open_table(file)
    file.write_bytes(gzip.compress(lines.encode()) + gzip.compress(b"b,1.0\n"))
    assert total(file) == pytest.approx(sum(k / 8 for k in range(20_000)) + 1)


def test_flipped_parquet_pages_are_refused_where_they_have_checksums(table: pa.Table, tmp_path: Path) -> None:
    file = tmp_path / "readings.parquet"
    for compression in ("none", "snappy"):
        pq.write_table(table, file, write_page_checksum=True, compression=compression, use_dictionary=False)
        body = file.read_bytes()
        start = pq.ParquetFile(file).metadata.row_group(0).column(1).data_page_offset + 200
        for place in (start, start + 5000):
            file.write_bytes(body[:place] + bytes([body[place] ^ 0x10]) + body[place + 1 :])
            with pytest.raises(FormatError, match="damaged"):
                open_table(file)
            with pytest.raises(FormatError, match="damaged"):
                read_parquet(file)
        file.write_bytes(body)
        assert total(file) == pytest.approx(float(np.sum(table["kw"].to_numpy())))
    pq.write_table(table, file)  # without checksums: nothing to compare with, and nothing is read twice
    require_whole([str(file)])
    file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(FormatError, match="damaged"):
        require_whole([str(file)])


def test_parquet_that_unpacks_to_more_than_memory_is_refused_before_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, full: bool
) -> None:
    """Runs of one value: some hundred kilobytes for gigabytes."""
    parts = 30 if full else 4
    monkeypatch.setattr(whole_files, "MOST_CELLS", whole_files.MOST_CELLS * parts // 30)
    file = tmp_path / "bomb.parquet"
    part = pa.table({f"c{k}": np.zeros(1 << 20) for k in range(12)})
    with pq.ParquetWriter(file, part.schema) as writer:
        for _ in range(parts):
            writer.write_table(part)
    assert file.stat().st_size < 2_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for read in (read_parquet, read_numbers, lambda path: require_fitting(str(path))):
        with pytest.raises(SourceError, match="more than"):
            read(file)
    done = CliRunner().invoke(app, ["stream", "design", str(file), "--out", str(tmp_path / "m"), *PROMISE, *COLUMNS])
    assert isinstance(done.exception, SourceError)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200_000  # kB


def test_long_texts_are_counted_while_they_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A dictionary of one long text: rows cost nothing in the file, and the text each in memory."""
    monkeypatch.setattr(whole_files, "MOST_BYTES", 1 << 26)
    file = tmp_path / "texts.parquet"
    pq.write_table(pa.table({"home": ["x" * 500_000] * 200}), file)
    assert file.stat().st_size < 200_000
    with pytest.raises(SourceError, match="more than"):
        read_parquet(file)


@pytest.mark.full  # three times what memory holds
def test_rows_spill_to_a_private_folder_that_goes(tmp_path: Path) -> None:
    rng, rows = np.random.default_rng(2), 900_000
    file, place = tmp_path / "many.parquet", tmp_path / "temporary"
    place.mkdir()
    columns = {f"c{k}": rng.random(rows) for k in range(6)}
    pq.write_table(pa.table({"home": rng.integers(0, 3000, rows), "kw": rng.random(rows), **columns}), file)
    arguments = [sys.executable, "-c", SPILLING, str(file), str(place)]
    killed = subprocess.Popen(arguments, stdout=subprocess.DEVNULL)
    spilled: list[Path] = []
    while not spilled and killed.poll() is None:
        time.sleep(0.005)  # it spills for seconds, and two cores have other work
        spilled = [path for path in place.glob("*/*") if path.name not in ("lock", "new")]
    killed.kill()
    killed.wait()
    assert spilled, "nothing was spilled"
    (folder,) = place.iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    assert any(folder.iterdir())
    both = [subprocess.Popen(arguments, stdout=subprocess.PIPE) for _ in range(2)]  # they must not meet
    counts = {process.communicate()[0] for process in both}
    assert [process.returncode for process in both] == [0, 0]
    assert len(counts) == 1
    assert list(place.iterdir()) == []


def test_the_memory_limit_is_named_with_its_option(
    table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GAUSSVEIL_MEMORY_LIMIT", "2GB")  # what the command sets is undone afterwards
    file = tmp_path / "readings.parquet"
    wide = pa.table(
        {"home": np.arange(200_000) % 7, **{f"c{k}": np.random.default_rng(k).random(200_000) for k in range(9)}}
    )
    pq.write_table(wide, file)
    source = open_table(file, memory_limit="3MB").bounded("home", 10)
    with pytest.raises(SourceError, match=r"limit of 3MB: .*--memory-limit"):
        list(source.batches(["c1"]))
    with pytest.raises(ParameterError, match="memory_limit must be a size"):
        open_table(file, memory_limit="plenty")
    done = CliRunner().invoke(app, ["--memory-limit", "plenty", "audit", str(file), "--claim", "1,1e-5"])
    assert done.exit_code != 0
