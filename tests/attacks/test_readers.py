"""Attacks on readers: one unit writes what it likes, and nobody else's cells may change by it, nor any refusal.

With a pinned form this holds for every unit, also for one with most of the rows. Without one, who a row belongs to and
which days are months hold all the same; what else was found in the cells is named by the guarantee.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import datetime
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import Count, Mean, TableRelease
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Moments, Source, hour_of

from ..engines.awkward_table import METERS, NAMES, awkward, everywhere, few, outcome
from ..engines.test_written_files import cells, sheet

pytestmark = pytest.mark.xdist_group("spark")

Opener = Callable[..., Source]
FORM: dict[str, Any] = {
    "separator": ";",
    "decimal": ",",
    "encoding": "utf-8",
    "missing": ["-999"],
    "columns": {"home": "text", "time": {"type": "time", "format": "%d/%m/%Y %H:%M"}, "city": "text", "kw": "number"},
}
HONEST = [
    f"{k:03d};{1 + k % 12:02d}/03/2024 {k % 24:02d}:00;{('Bern', 'Zürich')[k % 2]};{k / 8}".replace(".", ",")
    for k in range(60)
]
# Lines of one unit, whose cells say V where they say anything.
HOSTILE: dict[str, list[bytes]] = {
    "days after the twelfth": [f"V;{day}/03/2024 00:00;Bern;1".encode() for day in range(13, 31)],
    "months after the twelfth": [f"V;03/{day}/2024 00:00;Bern;1".encode() for day in range(13, 31)],
    "decimal points": [f"V;01/03/2024 00:00;Bern;{k}.125".encode() for k in range(200)],
    "letters of another encoding": [b"V;01/03/2024 00:00;Z\xfcrich;1"] * 200,
    "commas": [b"V,01/03/2024 00:00,Bern,1,2,3,4"] * 200,
    "numbers as names": [f"{10**19 + k};01/03/2024 00:00;Bern;1".encode() for k in range(200)],
    "junk": [f"V;x{k};y{k};z{k}".encode() for k in range(300)],
    "quotes": [b'"V;01/03/2024 00:00;Bern;1', b'V;";";1', b'"V""";01/03/2024 00:00;"Bern;1'],
    "bytes of none": [b"V\0;01/03/2024 00:00;\0;1\0", b"V\x01;\x02;\x03;\x1f", b"V\x85;\xff\xfe;\xf0;\xc3"],
    "ends of lines": [b"V;01/03/2024\r 00:00;Bern;1", b"V\r", b"\x0bV;;\x0c;"],
    "a cell of megabytes": [b"V;01/03/2024 00:00;" + b"x" * 3_000_000 + b";1"],
    "a line beyond all lines": [b"V;" + b"x" * 17_000_000],
    "thousands of cells": [b"V" + b";" * 21_000],
    "the names again": [b"home;time;city;kw"],
    "comments": [b"# V;01/03/2024 00:00;Bern;1"],
    "a mark at the beginning": [b"\xef\xbb\xbfV;01/03/2024 00:00;Bern;1"],
}


@pytest.fixture(params=["duckdb", "spark"])
def reader(request: pytest.FixtureRequest) -> Opener:
    if request.param == "duckdb":
        return open
    session = request.getfixturevalue("spark")
    return lambda path, **said: open(path, engine="spark", session=session, **said)


def honest_rows(source: Source) -> list[tuple[Any, ...]]:
    """The cells of everybody but the hostile unit, of which each is known by a name of three digits."""
    rows = [tuple(row.values()) for row in source.table(["home", "time", "city", "kw"]).to_pylist()]
    return sorted((row for row in rows if row[0] and row[0].isdecimal() and len(row[0]) == 3), key=lambda row: row[0])


def written(path: Path, *hostile: bytes) -> Path:
    lines = [line.encode() for line in HONEST]
    path.write_bytes(b"\n".join([b"home;time;city;kw", *lines[:30], *hostile, *lines[30:], b""]))
    return path


def test_with_a_pinned_form_nobody_changes_anybody_elses_cells(reader: Opener, tmp_path: Path) -> None:
    expected = honest_rows(reader(written(tmp_path / "t.csv"), schema=FORM))
    assert [len(expected), expected[13]] == [60, ("013", datetime(2024, 3, 2, 13), "Zürich", 1.625)]
    for name, lines in HOSTILE.items():
        source = reader(written(tmp_path / "v.csv", *lines), schema=FORM)
        assert honest_rows(source) == expected, name
        assert source.found_form == ()


@pytest.mark.parametrize("name", HOSTILE)
def test_without_one_units_and_days_hold_all_the_same(tmp_path: Path, name: str) -> None:
    """`time` stays text whatever hostile cells say, and who a row belongs to is text, byte for byte."""
    source = open(written(tmp_path / "t.csv"), separator=";", encoding="utf-8")
    attacked = open(written(tmp_path / "v.csv", *HOSTILE[name]), separator=";", encoding="utf-8")
    before, after = (honest_rows(one.identified("home")) for one in (source, attacked))
    assert [row[:3] for row in before] == [row[:3] for row in after]
    assert all(isinstance(row[1], str) for row in after)
    assert "types of columns" in attacked.found_form


def test_a_hostile_name_does_not_make_two_homes_of_one_nor_one_of_two(tmp_path: Path) -> None:
    for rows in (["100", "0100", "7", "007"], ["100", "0100", "7", "007", "V"], ["100", "0100", "7.0", "1e2", "NaN"]):
        (tmp_path / "t.csv").write_text("home,kw\n" + "".join(f"{name},1\n" * 3 for name in rows))
        assert open(tmp_path / "t.csv").bounded("home", 1).row_count() == len(rows)
    for number, rows in enumerate((["1", "2"], ["01", "A17"], ["1.0"])):
        (tmp_path / f"part{number}.csv").write_text("home,kw\n" + "".join(f"{name},1\n" for name in rows))
    assert open(tmp_path / "part*.csv").bounded("home", 1).row_count() == 5


def test_a_hostile_sheet_changes_nobody_elses_cells(tmp_path: Path) -> None:
    form = {"columns": {"home": "text", "time": "time", "kw": "number"}, "above": 1}
    title, names = cells("Readings"), cells("home", "time", "kw")
    honest = [cells(f"{k:03d}", datetime(2024, 3, 1, k), k / 8) for k in range(24)]
    expected = open(sheet(tmp_path / "t.xlsx", title + names + "".join(honest)), schema=form).table().to_pylist()
    for hostile in (cells("V", "x", "y"), cells(1e300, True, datetime(2024, 3, 1)), cells("", "", ""), cells("V")):
        attacked = sheet(tmp_path / "v.xlsx", title + names + "".join(honest[:12] + [hostile] * 40 + honest[12:]))
        rows = open(attacked, schema=form).table().to_pylist()
        assert [row for row in rows if (row["home"] or "").isdecimal() and len(row["home"]) == 3] == expected
    assert expected[3] == {"home": "003", "time": datetime(2024, 3, 1, 3), "kw": 0.375}


def test_marks_of_missing_cells_are_missing_in_every_format(tmp_path: Path) -> None:
    columns = {"home": ["a", "b", "c"], "kw": [1.5, -999.0, 2.5], "n": [1, 2, -999]}
    table = pa.table(columns)
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("home,kw,n\na,1.5,1\nb,-999.0,2\nc,2.5,-999\n")
    with closing(duckdb.connect(str(tmp_path / "t.duckdb"))) as database:
        database.register("given", table)
        database.execute("CREATE TABLE t AS SELECT * FROM given")
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as lite, lite:
        lite.execute("CREATE TABLE t (home TEXT, kw REAL, n INTEGER)")
        lite.executemany("INSERT INTO t VALUES (?, ?, ?)", list(zip(*columns.values())))
    sheet(tmp_path / "t.xlsx", cells("home", "kw", "n") + "".join(cells(*row) for row in zip(*columns.values())))
    for name in ("t.parquet", "t.csv", "t.duckdb#t", "t.sqlite#t", "t.xlsx"):
        rows = open(tmp_path / name, missing=-999).table(order=["home"]).to_pydict()
        assert rows == {"home": ["a", "b", "c"], "kw": [1.5, None, 2.5], "n": [1, 2, None]}, name


def told(source: Callable[[], Source]) -> list[str]:
    """What two requests are answered: that there is an answer, or the refusal, word for word."""
    words = []
    for by in ({}, {"hour": hour_of("time")}):
        mean = Mean("kw", between=(0, 10))
        asked = TableRelease(epsilon=1.0, delta=1e-6, unit="home", by=by, answers=[mean], generator=SeededGenerator(1))
        try:
            asked.release(source())
            words.append("answered")
        except GaussveilError as refusal:
            words.append(f"{type(refusal).__name__}: {refusal}")
    return words


@pytest.mark.parametrize("form", [FORM, None], ids=["pinned", "found"])
def test_no_unit_decides_whether_a_table_is_refused(tmp_path: Path, form: dict[str, Any] | None) -> None:
    """Without a form that was pinned the days are refused, whatever anybody writes; a few cells decide nothing else."""
    said: dict[str, Any] = {"schema": form} if form else {"separator": ";", "decimal": ",", "encoding": "utf-8"}
    expected = told(lambda: open(written(tmp_path / "t.csv"), **said))
    assert expected[0] == "answered"
    assert (expected[1] == "answered") == (form is not None)
    for name, lines in HOSTILE.items():
        few_lines = lines if form is not None else lines[:20]
        assert told(lambda lines=few_lines: open(written(tmp_path / "v.csv", *lines), **said)) == expected, name
    for name in ("7.0", "1e2", "NaN", "-1", "0x10", "99999999999999999999", "true", "2024-01-01"):
        line = f"{name};01/03/2024 00:00;Bern;unknown".encode()
        assert told(lambda line=line: open(written(tmp_path / "v.csv", line), **said)) == expected, name


def test_numbers_that_name_units_are_text_whatever_one_of_them_is(tmp_path: Path) -> None:
    """A column of whole numbers and one 7.0 is one of decimals to whoever asks for its values; its units are text."""
    ages = "home,age\n" + "".join(f"{k},{20 + k % 50}\n" for k in range(1000))
    (tmp_path / "t.csv").write_text(ages + "7.0,unknown\n" + "".join(f"V,junk{k}\n" for k in range(300)))
    asked = TableRelease(epsilon=1.0, delta=1e-6, unit="home", answers=[Count(), Mean("age", between=(0, 100))])
    asked.generator = SeededGenerator(1)
    answer = asked.release(open(tmp_path / "t.csv")).value
    assert abs(answer["count"][0].as_py() - 1002) < 12
    assert abs(answer["mean_age"][0].as_py() - 44.5) < 3


def test_cells_of_other_types_refuse_nothing_in_any_place(tmp_path: Path) -> None:
    hostile: list[tuple[Any, ...]] = [("V", "noon", "much"), ("V", 3, b"\xff"), (b"\xc3", 1.5, None), (7, None, 1e308)]
    honest = [(f"{k:03d}", f"2024-03-01 {k % 24:02d}:00:00", k / 8) for k in range(60)]
    with closing(sqlite3.connect(tmp_path / "t.sqlite")) as lite, lite:
        for table, rows in (("t", honest), ("v", honest + hostile * 9)):
            lite.execute(f"CREATE TABLE {table} (home TEXT, time TIMESTAMP, kw REAL)")
            lite.executemany(f"INSERT INTO {table} VALUES (?, ?, ?)", rows)
    names = cells("home", "time", "kw")
    body = "".join(cells(home, datetime.fromisoformat(time), kw) for home, time, kw in honest)
    odd = cells("V", "noon", "much") + cells(1e300, True, datetime(2024, 3, 1)) + cells("V") + cells("", "", "")
    book, attacked = sheet(tmp_path / "t.xlsx", names + body), sheet(tmp_path / "v.xlsx", names + odd * 9 + body)
    wild = {
        "home": ["V"] * 4,
        "time": [None, datetime(1, 1, 1), None, None],
        "kw": [None, float("inf"), -1e308, 5e-324],
    }
    for name, more in (("t", {}), ("v", wild)):
        table = {"home": [row[0] for row in honest], "time": [datetime.fromisoformat(row[1]) for row in honest]}
        whole = {**table, "kw": [row[2] for row in honest]}
        pq.write_table(
            pa.table({key: cells + more.get(key, []) for key, cells in whole.items()}), tmp_path / f"{name}.parquet"
        )
    with closing(duckdb.connect(str(tmp_path / "t.duckdb"))) as database:
        for name in ("t", "v"):
            database.execute(f"CREATE TABLE {name} AS FROM read_parquet('{tmp_path / name}.parquet')")
    pairs = [("t.sqlite#t", "t.sqlite#v"), (book, attacked), ("t.parquet", "v.parquet"), ("t.duckdb#t", "t.duckdb#v")]
    for before, after in pairs:
        assert told(lambda at=before: open(tmp_path / at)) == ["answered"] * 2
        assert told(lambda at=after: open(tmp_path / at)) == ["answered"] * 2
    # Text that somebody typed: what V writes is missing, and refuses nothing.
    form = {"columns": {"home": "text", "time": "time", "kw": "number"}}
    for name, rows in (
        ("t", honest),
        ("v", honest + [("V", "noon", "much"), ("7.0", "", "\x00"), ("V", "24:61", "1e")] * 9),
    ):
        texts = {column: [str(cell) for cell in cells] for column, cells in zip(("home", "time", "kw"), zip(*rows))}
        pq.write_table(pa.table(texts), tmp_path / f"{name}.text.parquet")
        with closing(duckdb.connect(str(tmp_path / f"{name}.text.duckdb"))) as database:
            database.execute(f"CREATE TABLE t AS FROM read_parquet('{tmp_path / name}.text.parquet')")
    for ending in ("parquet", "duckdb#t"):
        places = [tmp_path / f"{name}.text.{ending}" for name in "tv"]
        assert [told(lambda at=at: open(at, schema=form)) for at in places] == [["answered"] * 2] * 2
        before, after = (honest_texts(open(at, schema=form)) for at in places)
        assert before == after
        assert len(before) == 60


def honest_texts(source: Source) -> list[tuple[Any, ...]]:
    rows = [tuple(row.values()) for row in source.table().to_pylist()]
    return sorted(row for row in rows if row[0].isdecimal())


def test_one_table_of_awkward_content_has_the_same_exact_sums_everywhere(tmp_path: Path, spark: Any) -> None:
    """PostgreSQL's part of it is in engines/test_postgres.py."""
    places = everywhere(awkward(), tmp_path)
    expected = outcome(places["memory"]())
    assert [home for home, _ in expected["homes"]] == sorted(NAMES)
    assert expected["rows"][:2] == [3 * len(NAMES), 2 * len(METERS)]
    for name, place in places.items():
        assert outcome(place()) == expected, name
    for name in ("t.csv", "t.parquet"):
        source = open(tmp_path / name, engine="spark", session=spark)
        assert few(source).items() <= expected.items(), name
        kept = source.bounded("home", 3).aggregate(Moments(clip=60.0), columns=["kw", "n", "price"])
        assert kept.total.limbs.tolist() == expected["kept"], name


def test_a_table_without_rows_is_answered_everywhere(tmp_path: Path) -> None:
    for name, place in everywhere(awkward(0), tmp_path).items():
        source = place()
        assert source.bounded("home", 3).row_count() == 0, name
        assert source.aggregate(Moments(clip=5.0), columns=["kw", "n"]).count.integers().tolist() == [0], name
