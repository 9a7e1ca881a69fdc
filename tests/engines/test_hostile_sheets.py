"""Excel files that are damaged or lie about their size: a sentence, and never the memory that they ask for."""

from __future__ import annotations

import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from gaussveil.engines import open
from gaussveil.errors import FormatError, SourceError

from .test_written_files import cells, sheet

SHEET = "xl/s.xml"
ROWS = cells("home", "kw") + "".join(cells(f"h{k}", k / 8) for k in range(50))
Change = Callable[[bytes], bytes]


def one_more(reference: bytes) -> Change:
    return lambda body: body.replace(b"</row>", b'<c r="' + reference + b'"><v>1</v></c></row>', 1)


def rebuilt(folder: Path, change: Change) -> Path:
    """A sheet whose own part was changed."""
    whole = zipfile.ZipFile(sheet(folder / "whole.xlsx", ROWS))
    with zipfile.ZipFile(folder / "t.xlsx", "w", zipfile.ZIP_DEFLATED) as made:
        for name in whole.namelist():
            made.writestr(name, change(whole.read(name)) if name == SHEET else whole.read(name))
    return folder / "t.xlsx"


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body.replace(b"h3<", b"&nope;<"),
        lambda body: body.replace(b"<worksheet", b'<!DOCTYPE x [<!ENTITY a "aa">]><worksheet', 1).replace(
            b"h3<", b"&a;<"
        ),
        one_more(b"1A"),
        one_more(b""),
        one_more(b"A0"),
        lambda body: body[: len(body) // 2],
    ],
    ids=["entity", "doctype", "digits first", "no reference", "row 0", "cut"],
)
def test_what_cannot_be_read_is_a_damaged_file(tmp_path: Path, change: Change) -> None:
    with pytest.raises(FormatError, match=r"t\.xlsx: not an Excel file, or a damaged one"):
        open(rebuilt(tmp_path, change))


@pytest.mark.parametrize("reference", [b"XFD1048576", b"ZZZZZZZ1", b"A99999999999"])
def test_a_cell_in_the_last_corner_is_refused_and_takes_no_memory(tmp_path: Path, reference: bytes) -> None:
    with pytest.raises(SourceError, match="too large to be read at once"):
        open(rebuilt(tmp_path, one_more(reference)))


def test_a_bad_checksum_and_a_damaged_stream_are_told(tmp_path: Path) -> None:
    whole = rebuilt(tmp_path, lambda body: body)
    entry = zipfile.ZipFile(whole).getinfo(SHEET)
    body = whole.read_bytes()
    start = entry.header_offset + 30 + len(SHEET) + 20
    bent = bytearray(body)
    bent[start] ^= 0xFF
    bent[start + 5] ^= 0x55
    for damaged in (body.replace(struct.pack("<I", entry.CRC), struct.pack("<I", entry.CRC ^ 1)), bytes(bent)):
        (tmp_path / "t.xlsx").write_bytes(damaged)
        with pytest.raises(FormatError, match="damaged"):
            open(tmp_path / "t.xlsx")


def test_a_text_of_hundreds_of_megabytes_is_refused(tmp_path: Path, full: bool) -> None:
    """With --full 300 MB, as found; else a text of 3 MB is a cell like others."""
    size = 300_000_000 if full else 3_000_000
    body = cells("home", "kw") + cells("x" * size, 1) + cells("b", 2)
    if full:
        with pytest.raises(SourceError, match="too large"):
            open(sheet(tmp_path / "t.xlsx", body))
    else:
        assert open(sheet(tmp_path / "t.xlsx", body)).table()["kw"].to_pylist() == [1, 2]
