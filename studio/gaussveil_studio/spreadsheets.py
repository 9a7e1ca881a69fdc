"""Tables as Excel and LibreOffice open them: a minimal workbook, written with the standard library.

Numbers stay numbers, whole, and are shown with as many decimals as mean something; the reader's own program writes
them with the comma or the point of its country. The same table gives the same bytes.
"""

from __future__ import annotations

import io
import math
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from typing import Any
from xml.sax.saxutils import escape

MOST_DECIMALS = 12
EPOCH = (1980, 1, 1, 0, 0, 0)  # of every part: zip files know no earlier day
MAIN = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
PACKAGE = "http://schemas.openxmlformats.org/package/2006"
HEAD = '<?xml version="1.0" encoding="UTF-8" standalone="yes"?>\n'
NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")
KIND = "application/vnd.openxmlformats-officedocument.spreadsheetml"
BOLD = 1
PLAIN = 0
FIRST_ROUNDED = 2  # style of numbers without decimals; the others follow


@dataclass(frozen=True)
class Sheet:
    """One sheet: its name, the names of its columns, their cells, and how many decimals of each column to show."""

    name: str
    columns: Mapping[str, Sequence[Any]]
    decimals: Mapping[str, int] = field(default_factory=dict)


def workbook(sheets: Sequence[Sheet]) -> bytes:
    """The bytes of an .xlsx file."""
    parts = {
        "[Content_Types].xml": _content_types(len(sheets)),
        "_rels/.rels": _relations([(f"{RELATIONS}/officeDocument", "xl/workbook.xml")]),
        "xl/workbook.xml": _workbook(sheets),
        "xl/_rels/workbook.xml.rels": _relations(
            [
                (f"{RELATIONS}/worksheet", f"worksheets/sheet{place}.xml")
                for place in range(1, len(sheets) + 1)
            ]
            + [(f"{RELATIONS}/styles", "styles.xml")]
        ),
        "xl/styles.xml": _styles(),
    }
    parts |= {
        f"xl/worksheets/sheet{place}.xml": _sheet(one)
        for place, one in enumerate(sheets, 1)
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as parcel:
        for name, text in parts.items():
            parcel.writestr(zipfile.ZipInfo(name, EPOCH), text, zipfile.ZIP_DEFLATED)
    return buffer.getvalue()


def _content_types(count: int) -> str:
    named = [
        ("/xl/workbook.xml", f"{KIND}.sheet.main+xml"),
        ("/xl/styles.xml", f"{KIND}.styles+xml"),
    ]
    named += [
        (f"/xl/worksheets/sheet{place}.xml", f"{KIND}.worksheet+xml")
        for place in range(1, count + 1)
    ]
    parts = "".join(
        f'<Override PartName="{name}" ContentType="{kind}"/>' for name, kind in named
    )
    usual = '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
    return f'{HEAD}<Types xmlns="{PACKAGE}/content-types">{usual}{parts}</Types>'


def _relations(targets: Iterable[tuple[str, str]]) -> str:
    parts = "".join(
        f'<Relationship Id="rId{place}" Type="{kind}" Target="{target}"/>'
        for place, (kind, target) in enumerate(targets, 1)
    )
    return (
        f'{HEAD}<Relationships xmlns="{PACKAGE}/relationships">{parts}</Relationships>'
    )


def _workbook(sheets: Sequence[Sheet]) -> str:
    parts = "".join(
        f'<sheet name="{_text(one.name)[:31]}" sheetId="{place}" r:id="rId{place}"/>'
        for place, one in enumerate(sheets, 1)
    )
    return f'{HEAD}<workbook xmlns="{MAIN}" xmlns:r="{RELATIONS}"><sheets>{parts}</sheets></workbook>'


def _styles() -> str:
    """Plain, bold, and a style for every number of decimals."""
    formats = range(MOST_DECIMALS + 1)
    codes = "".join(
        f'<numFmt numFmtId="{164 + places}" formatCode="0{"." * (places > 0)}{"0" * places}"/>'
        for places in formats
    )
    used = "".join(
        f'<xf numFmtId="{164 + places}" xfId="0" applyNumberFormat="1"/>'
        for places in formats
    )
    fonts = '<fonts count="2"><font><sz val="11"/></font><font><b/><sz val="11"/></font></fonts>'
    rest = (
        '<fills count="1"><fill><patternFill patternType="none"/></fill></fills>'
        '<borders count="1"><border/></borders><cellStyleXfs count="1"><xf/></cellStyleXfs>'
    )
    cells = f'<xf xfId="0"/><xf fontId="1" xfId="0" applyFont="1"/>{used}'
    return (
        f'{HEAD}<styleSheet xmlns="{MAIN}"><numFmts count="{len(formats)}">{codes}</numFmts>{fonts}{rest}'
        f'<cellXfs count="{len(formats) + FIRST_ROUNDED}">{cells}</cellXfs></styleSheet>'
    )


def _sheet(sheet: Sheet) -> str:
    names = list(sheet.columns)
    styles = [_style(sheet.decimals.get(name)) for name in names]
    rows = [_row([(name, BOLD) for name in names])]
    rows += [_row(list(zip(cells, styles))) for cells in zip(*sheet.columns.values())]
    wide = [
        max([len(name), *(len(str(cell)) for cell in cells if isinstance(cell, str))])
        for name, cells in sheet.columns.items()
    ]
    columns = "".join(
        f'<col min="{place}" max="{place}" width="{min(max(size + 2, 12), 80)}" customWidth="1"/>'
        for place, size in enumerate(wide, 1)
    )
    return f'{HEAD}<worksheet xmlns="{MAIN}"><cols>{columns}</cols><sheetData>{"".join(rows)}</sheetData></worksheet>'


def _style(decimals: int | None) -> int:
    if decimals is None:
        return PLAIN
    return FIRST_ROUNDED + min(max(decimals, 0), MOST_DECIMALS)


def _row(cells: Sequence[tuple[Any, int]]) -> str:
    return f"<row>{''.join(_cell(value, style) for value, style in cells)}</row>"


def _cell(value: Any, style: int) -> str:
    if style:
        shown = f' s="{style}"'
    else:
        shown = ""
    if isinstance(value, bool):
        return f'<c t="b"{shown}><v>{int(value)}</v></c>'
    if isinstance(value, int | float) and math.isfinite(value):
        return f"<c{shown}><v>{value!r}</v></c>"
    if value is None or isinstance(value, float):
        return "<c/>"
    if isinstance(value, datetime):
        text = value.isoformat(sep=" ")
    else:
        text = str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        text = value.isoformat()
    return f'<c t="inlineStr"{shown}><is><t xml:space="preserve">{_text(text)}</t></is></c>'


def _text(value: str) -> str:
    """Text as XML can hold it."""
    return escape(NOT_IN_XML.sub("�", value), {'"': "&quot;"})
