"""Files as people have them: every engine and every command reads the same rows out of them."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest

from gaussveil.engines import open
from gaussveil.engines.csv_files import read_dialect
from gaussveil.engines.form import Given
from gaussveil.errors import FormatError, MissingDependencyError, ParameterError, SchemaError, SourceError
from gaussveil.statistics import Source

pytestmark = pytest.mark.xdist_group("spark")

Opener = Callable[..., Source]
NOON = datetime(2024, 3, 31, 12, 0)
# What is written, what each row must be, and what the owner is told.
WRITTEN: dict[str, tuple[bytes, list[tuple[Any, ...]], str]] = {
    "a German spreadsheet": (
        '"Zähler";"Zeit";"kW"\r\n"Müller €";31.03.2024 12:00;0,45\r\n"b;c";1.4.2024 09:30;-1\r\n'.encode("cp1252"),
        [("Müller €", NOON, 0.45), ("b;c", datetime(2024, 4, 1, 9, 30), -1.0)],
        "separated by semicolons, decimal commas, letters in windows-1252, 'Zeit' as %d.%m.%Y %H:%M",
    ),
    "marks at its beginning": (
        "\ufeffhome,t,kw\na,2024-03-31 12:00,0.5\nb,2024-03-31T12:00:00,NA\n".encode(),
        [("a", NOON, 0.5), ("b", NOON, None)],
        "",
    ),
    "two bytes a letter and tabs": (
        "home\tt\tkw\né\t13.02.2024\t5\nf\t01.03.2024\t-\n".encode("utf-16"),
        [("é", date(2024, 2, 13), 5), ("f", date(2024, 3, 1), None)],
        "separated by tabs, letters in utf-16, 't' as %d.%m.%Y",
    ),
    "clocks of two halves": (
        b"home|t|kw\n007|13.2.24 1:05 PM|1e-3\n00123|1.12.24 11:00 AM|inf\n",
        [("007", datetime(2024, 2, 13, 13, 5), 1e-3), ("00123", datetime(2024, 12, 1, 11, 0), float("inf"))],
        "separated by '|', 't' as %d.%m.%y %I:%M %p",
    ),
    "the hour that autumn repeats": (
        b"# exported\n\n# by hand\nhome,t,kw\n"
        b"1,2024-10-27T02:15+02:00,.5\n# two\n2,2024-10-27T02:15+01:00,+1\n3,2024-10-27T02:15Z,2\n",
        [(hour + 1, datetime(2024, 10, 27, hour, 15, tzinfo=UTC), kw) for hour, kw in enumerate((0.5, 1.0, 2.0))],
        "",
    ),
    "two columns of days": (
        b"home;paid;read;kw\nx;2024/03/31;31.03.2024 12:00:00;1\n",
        [("x", date(2024, 3, 31), NOON, 1)],
        "separated by semicolons, 'paid' as %Y/%m/%d, 'read' as %d.%m.%Y %H:%M:%S",
    ),
    "one column of commas": (b"kw\n0,5\n1,5\n", [(0.5,), (1.5,)], "separated by semicolons, decimal commas"),
}


@pytest.fixture(params=["duckdb", "spark"])
def reader(request: pytest.FixtureRequest) -> Opener:
    if request.param == "duckdb":
        return open
    session = request.getfixturevalue("spark")
    return lambda path, **said: open(path, engine="spark", session=session, **said)


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("name", WRITTEN)
def test_a_file_has_one_answer(reader: Opener, tmp_path: Path, name: str, packed: bool) -> None:
    content, rows, told = WRITTEN[name]
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(content) if packed else content)
    source = reader(path)
    found = [tuple(row.values()) for row in source.table().to_pylist()]
    assert sorted(found, key=lambda row: str(row[0])) == sorted(rows, key=lambda row: str(row[0]))
    assert source.dialect.words() == told  # type: ignore[attr-defined]


ODD_LINES = {
    "a quote that nobody closes": b'"x,Bern,0.5\n',
    "a cell of two lines": b'"x\ny",Bern,0.5\n',
    "another end of line": b"x,Bern,0.5\r\n",
    "half an end of line": b"x\r,Bern,0.5\n",
    "a letter of another encoding": b"x,Z\xfcrich,0.5\n",
    "a cell of megabytes": b"x" * 3_000_000 + b",Bern,0.5\n",
    "nothing": b"x\0,Bern,0.5\n",
    "cells that nobody named": b"x,Bern,0.5,1,2\n",
    "words among numbers": b"x,Bern,out of order\n",
}


@pytest.mark.parametrize("name", ODD_LINES)
def test_no_line_decides_how_others_are_read(reader: Opener, tmp_path: Path, name: str) -> None:
    """Otherwise one record would decide whether a table can be read, or take others with it: delta 1."""
    lines = [f"h{k},{['Bern', 'Zürich'][k % 2]},{k / 8}\n".encode() for k in range(60)]
    (tmp_path / "t.csv").write_bytes(b"".join([b"home,zone,kw\n", *lines[:30], ODD_LINES[name], *lines[30:]]))
    found = reader(tmp_path / "t.csv").table(["home", "zone", "kw"]).to_pylist()
    kept = sorted(tuple(row.values()) for row in found if (row["home"] or "").startswith("h"))
    assert kept == sorted((f"h{k}", ["Bern", "Zürich"][k % 2], k / 8) for k in range(60))


def test_days_that_may_be_months_stay_text_until_the_owner_says(reader: Opener, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("day,kw\n01/02/2024,1\n03/04/2024,2\n")
    assert reader(tmp_path / "t.csv").table()["day"].to_pylist() == ["01/02/2024", "03/04/2024"]
    said = reader(tmp_path / "t.csv", time_format="%m/%d/%Y")
    assert sorted(said.table()["day"].to_pylist()) == [date(2024, 1, 2), date(2024, 3, 4)]
    with pytest.raises(SourceError, match="time_format must fit a column"):
        reader(tmp_path / "t.csv", time_format="%Y")


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ({"separator": ";;"}, "separator must be one sign"),
        ({"decimal": "'"}, "decimal must be one of '.', ','"),
        ({"encoding": "runes"}, "encoding must be the name"),
    ],
)
def test_what_the_owner_says_is_checked(tmp_path: Path, said: dict[str, str], words: str) -> None:
    (tmp_path / "t.csv").write_text("a,b\n1,2\n")
    with pytest.raises(ParameterError, match=words):
        open(tmp_path / "t.csv", **said)


def test_what_the_owner_says_goes_before_what_is_found(
    reader: Opener, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "t.csv").write_bytes("a;b\n1.5;\xe9\n".encode("latin-1"))
    assert reader(tmp_path / "t.csv", separator=",").schema.names == ["a;b"]
    assert reader(tmp_path / "t.csv", encoding="cp850").table()["b"].to_pylist() == ["Ú"]
    monkeypatch.setenv("GAUSSVEIL_DECIMAL", ",")
    assert str(reader(tmp_path / "t.csv").schema.field("a").type) == "string"
    assert str(reader(tmp_path / "t.csv", decimal=".").schema.field("a").type) == "double"


def test_a_point_among_decimal_commas_is_no_number(reader: Opener, tmp_path: Path) -> None:
    lines = "".join(f"h{k};{k},5\n" for k in range(21_000))
    (tmp_path / "t.csv").write_text(f"home;kw\n{lines}late;1.234\n")  # beyond what is looked at
    source = reader(tmp_path / "t.csv")
    values = {row["home"]: row["kw"] for row in source.table().to_pylist()}
    assert (values["h7"], values["late"]) == (7.5, None)


def test_columns_have_names_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("kw,KW\n1,2\n")
    with pytest.raises(SchemaError, match="'kw' occurs twice"):
        open(tmp_path / "t.csv")


def sheet(path: Path, rows: str) -> Path:
    """A small Excel file, written by hand."""
    kinds = "application/vnd.openxmlformats-officedocument.spreadsheetml"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    package = "http://schemas.openxmlformats.org/package/2006"
    parts = {
        "[Content_Types].xml": f'<Types xmlns="{package}/content-types"><Default Extension="rels" ContentType='
        '"application/vnd.openxmlformats-package.relationships+xml"/><Override PartName="/xl/workbook.xml" ContentType='
        f'"{kinds}.sheet.main+xml"/><Override PartName="/xl/s.xml" ContentType="{kinds}.worksheet+xml"/></Types>',
        "_rels/.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" Type='
        f'"{office}/officeDocument" Target="xl/workbook.xml"/></Relationships>',
        "xl/workbook.xml": f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="Blatt 1" sheetId="1" '
        'r:id="a"/></sheets></workbook>',
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{package}/relationships"><Relationship Id="a" Type='
        f'"{office}/worksheet" Target="s.xml"/></Relationships>',
        "xl/s.xml": f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, text in parts.items():
            archive.writestr(name, '<?xml version="1.0" encoding="UTF-8"?>' + text)
    path.write_bytes(buffer.getvalue())
    return path


def cells(*values: str | float | date | None) -> str:
    return f"<row>{''.join(map(_cell, values))}</row>"


def _cell(value: str | float | date | None) -> str:
    if isinstance(value, bool):
        return f'<c t="b"><v>{value:d}</v></c>'
    if isinstance(value, date):
        return f'<c t="d"><v>{value.isoformat()}</v></c>'
    return (
        f'<c t="inlineStr"><is><t xml:space="preserve">{value or ""}</t></is></c>'
        if isinstance(value, str | None)
        else f"<c><v>{value}</v></c>"
    )


def test_excel_sheets_are_tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    book = sheet(tmp_path / "t.xlsx", cells("home", "meter", "kw") + cells("a", 7, 0.5) + cells("b", 8, 1))
    expected = {"home": ["a", "b"], "meter": [7, 8], "kw": [0.5, 1.0]}
    assert open(book).table().to_pydict() == open(f"{book}#Blatt 1").table().to_pydict() == expected
    with pytest.raises(SourceError, match="no sheet 'Blatt 2'; it has Blatt 1"):
        open(f"{book}#Blatt 2")
    with pytest.raises(ParameterError, match="separator is declared of CSV files only"):
        open(book, separator=";")
    with pytest.raises(SourceError, match="must name the columns"):
        open(sheet(tmp_path / "n.xlsx", cells(1.5, 2) + cells(3, 4)))
    (tmp_path / "bad.xlsx").write_bytes(b"PK")
    with pytest.raises(FormatError, match=r"bad\.xlsx: not an Excel file"):
        open(tmp_path / "bad.xlsx")
    monkeypatch.setitem(__import__("sys").modules, "python_calamine", None)
    with pytest.raises(MissingDependencyError, match=r"python-calamine: pip install"):
        open(book)


@pytest.mark.parametrize(
    ("usual", "kind"),
    [
        ("0.25 1.5 -.5 3", "double"),
        ("2024-03-31 2024-04-01", "date32[day]"),
        ("2024-03-31T12:00Z 2024-04-01T12:00Z", "timestamp[us, tz=UTC]"),
        ("31.03.2024 01.04.2024", "date32[day]"),
        ("7 8 9", "int64"),
        ("true false true", "bool"),
        ("a b c", "string"),
    ],
)
def test_a_cell_does_not_decide_the_type_of_a_column(tmp_path: Path, usual: str, kind: str) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["a;b", *(f"x;{cell}" for cell in [*usual.split(), "odd"])]))
    found = open(tmp_path / "t.csv")
    assert str(found.schema.field("b").type).replace("Etc/", "") == kind
    assert found.table()["b"].null_count == (kind != "string")


def test_what_is_no_text_is_refused_by_its_kind(tmp_path: Path) -> None:
    for begin, kind in (
        (b"\x89PNG\r\n\x1a\n\0\0", "picture"),
        (b"PK\x03\x04\0", "workbook"),
        (b"%PDF-1.7\n", "document"),
    ):
        (tmp_path / "table.csv").write_bytes(begin + bytes(range(256)))
        with pytest.raises(FormatError, match=f"table.csv: holds a {kind}"):
            open(tmp_path / "table.csv").table()


def test_titles_above_the_names_are_skipped_and_told(reader: Opener, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("Readings of 2024,,\n,,\nhome,hour,kw\na,1,0.5\n")
    (tmp_path / "two.csv").write_text("Export of meter 0815\n\nhome;kw\na;0,5\n")
    titled = cells("Readings of 2024", "", "") + cells("home", "hour", "kw") + cells("a", 1, 0.5)
    tables = [reader(tmp_path / "t.csv"), reader(tmp_path / "two.csv"), open(sheet(tmp_path / "t.xlsx", titled))]
    assert [source.table().to_pylist() for source in tables] == [
        [{"home": "a", "hour": 1, "kw": 0.5}],
        [{"home": "a", "kw": 0.5}],
        [{"home": "a", "hour": 1, "kw": 0.5}],
    ]
    words = [source.dialect.words() for source in tables]  # type: ignore[attr-defined]
    assert [one.rpartition("names")[2] for one in words] == [" in line 3", " in line 3", " in line 2"]
    two = cells("Canton", "Aargau", "", "", "") + cells("", "", "as of", "2024", "") + cells("", "", "", "", "")
    filled = two + cells("home", "hour", "kw", "zone", "") + 3 * cells("a", 1, 0.5, "east", 3)
    (tmp_path / "wide.csv").write_text("Canton;Aargau\n;;as of;2024;\nhome;hour;kw;zone;\n" + 3 * "a;1;0,5;east;3\n")
    for source in (open(sheet(tmp_path / "two.xlsx", filled)), reader(tmp_path / "wide.csv")):
        assert source.table().to_pylist() == 3 * [{"home": "a", "hour": 1, "kw": 0.5, "zone": "east", "column4": 3}]
    (tmp_path / "index.csv").write_text(",kw\n0,0.5\n")
    assert open(tmp_path / "index.csv").schema.names == ["column0", "kw"]


@pytest.mark.parametrize(
    ("usual", "odd", "kind"),
    [
        ("2024-03-31T12:00 2024-04-01T12:00", "2024-04-01T12:00Z", "timestamp[us]"),
        ("2024-03-31T12:00Z 2024-04-01T12:00Z", "2024-04-01T12:00", "timestamp[us, tz=UTC]"),
        ("31.03.2024 01.04.2024", "32.03.2024", "date32[day]"),
        ("31.03.2024 01.04.2024", "2024/03/31", "date32[day]"),
        ("31/03/2024 30/03/2024", "01/13/2024", "string"),
        ("2024/03/31 2024/03/30", "2024/13/31", "date32[day]"),
    ],
)
def test_a_time_in_another_form_does_not_decide_that_of_its_column(
    tmp_path: Path, usual: str, odd: str, kind: str
) -> None:
    (tmp_path / "t.csv").write_text("\n".join(["a;b", *(f"x;{cell}" for cell in [*usual.split(), odd])]))
    assert str(open(tmp_path / "t.csv").schema.field("b").type).replace("Etc/", "") == kind


def test_a_cell_does_not_refuse_the_form_that_the_owner_says(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a;b\nx;20240331\nx;20240401\nx;odd\n")
    found = open(tmp_path / "t.csv", time_format="%Y%m%d").table()["b"]
    assert (str(found.type), found.null_count) == ("date32[day]", 1)


def test_no_cell_of_a_sheet_splits_a_unit_or_stops_a_release(tmp_path: Path) -> None:
    """7 typed as a number and 7 typed as text are one home; a number beyond all integers is a missing one."""
    rows = cells("home", "meter") + cells(7, 1) + cells("7", 2) + cells("b", 1e19) + cells("c", -1e300)
    found = open(sheet(tmp_path / "t.xlsx", rows)).table().to_pydict()
    assert found == {"home": ["7", "7", "b", "c"], "meter": [1.0, 2.0, 1e19, -1e300]}
    odd = cells("kw", "id") + cells(0.5, 1) + cells(1.5, 2) + cells(2, 3) + cells(0.25, 4) + cells("out of order", "x")
    source = open(sheet(tmp_path / "odd.xlsx", odd))
    assert source.table().to_pydict() == {"kw": [0.5, 1.5, 2.0, 0.25, None], "id": [1, 2, 3, 4, None]}
    assert source.identified("id").table()["id"].to_pylist() == ["1", "2", "3", "4", "x"]


def test_times_of_a_sheet_stay_times_at_midnight(tmp_path: Path) -> None:
    """Such a cell is a date without a clock, and one that is no time at all is missing."""
    moments = [datetime(2024, 3, 30), datetime(2024, 3, 30, 1), None, "gestern"]
    rows = "".join(cells(moment, date(2024, 3, 30), 1) for moment in moments)
    sheet(tmp_path / "t.xlsx", cells("t", "day", "kw") + rows)
    found = open(tmp_path / "t.xlsx").table()
    assert found["t"].to_pylist() == [*moments[:2], None, None]
    assert str(found["day"].type) == "date32[day]"


@pytest.mark.parametrize("word", ["text", "number", "whole", "truth", "date", "time", "instant"])
def test_what_somebody_says_of_a_column_of_a_sheet_no_cell_decides(tmp_path: Path, word: str) -> None:
    values = (7, 0.5, datetime(2024, 3, 30, 1), True, "a")
    sheet(tmp_path / "t.xlsx", cells("a", "b") + "".join(cells(1, value) for value in values))
    found = open(tmp_path / "t.xlsx", types={"b": word}).table()["b"].to_pylist()
    fitting = {
        "text": ["7", "0.5", "2024-03-30 01:00:00", "true", "a"],
        "number": [7.0, 0.5, None, None, None],
        "whole": [7, None, None, None, None],
        "truth": [None, None, None, True, None],
        "time": [None, None, datetime(2024, 3, 30, 1), None, None],
    }
    assert found == fitting.get(word, [None] * 5)


@pytest.mark.parametrize("number", ["2.601,2", "12'601.25", "1 234 567,5", "1.234"])
def test_marks_of_thousands_are_told(tmp_path: Path, number: str) -> None:
    """Such numbers are text: what 1.234 is depends on who wrote it."""
    (tmp_path / "t.csv").write_text("a;b;c\n" + f"x;{number};0,5\n" * 3)
    words = read_dialect([str(tmp_path / "t.csv")], Given(decimal=","))[0].words()
    assert words.endswith("'b' as text, since its numbers hold marks of thousands: write them without")


def test_only_the_head_is_looked_at(tmp_path: Path) -> None:
    first = "home,kw\n" + "a,1\n" * 20_480
    (tmp_path / "t.csv").write_text(first)
    (tmp_path / "u.csv").write_text(first + "zzz;,,;0,5\n" * 50)
    assert read_dialect([str(tmp_path / "t.csv")], Given()) == read_dialect([str(tmp_path / "u.csv")], Given())
