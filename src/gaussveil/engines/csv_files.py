"""What the first lines of a file show of its form, where nobody wrote the form down.

Spreadsheets and meters write semicolons, decimal commas, Windows letters and days before months. What is found in the
first lines (separator, decimal mark, encoding, titles above the names, what every column holds) holds for the whole
file. It is found in private cells, so the guarantee names it; `gaussveil schema` writes it down for a person to keep.

What most cells of a column are decides, and others are missing. Two things no cell decides: 03/04/2024 is a day in
April or in March whatever other cells say, until somebody says which; and who a row belongs to is read as text.

Engines read the files of a table by place. A file with other columns, or the same in another order, would have readings
taken for privacy units; a file without a header would have readings taken for names, which are public.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gaussveil.engines.column_kinds import (
    COMMA_NUMBER,
    NUMBER,
    column_kind,
    is_missing,
)
from gaussveil.engines.dialect import ColumnForm, Dialect
from gaussveil.engines.form import Given
from gaussveil.engines.text_files import open_bytes, open_text, require_text
from gaussveil.errors import SchemaError, SourceError

SEPARATORS = (",", ";", "\t", "|")
HEAD_LINES = 20_480
FOUND = ("separator", "decimal mark", "encoding", "titles", "types of columns")
_HEAD_BYTES = 1 << 22
_MOST_TITLES = 50
_THOUSANDS = re.compile(
    r"[+-]?\d{1,3}(([.]\d{3})+(,\d+)?|(,\d{3})+([.]\d+)?|(['\u2019 ]\d{3})+([.,]\d+)?)"
)
_AMBIGUOUS = "days may be months: give the time format"


@dataclass(frozen=True)
class Head:
    """The first lines of a file: how they are written, those above its rows, and the cells of names and rows."""

    dialect: Dialect
    above: tuple[str, ...]
    rows: list[list[str]]


def read_head(file: str, given: Given) -> Head:
    """How a file is written, without its columns, and the cells of its first lines."""
    with open_bytes(file) as stream:
        head = stream.read(_HEAD_BYTES)
    require_text(file, head)
    if not (len(head) < _HEAD_BYTES):
        head = head[: head.rfind(b"\n") + 1]
    encoding = _said(given, "encoding") or _encoding(head)
    lines = (
        io.StringIO(
            head.decode(encoding, errors="replace").removeprefix("\ufeff"), None
        )
        .read()
        .split("\n")
    )
    return head_of(lines, given, encoding)


def head_of(lines: Sequence[str], given: Given, encoding: str = "utf-8") -> Head:
    """The same by the first lines that an engine brought."""
    pinned = given.pinned
    if pinned is None:
        comment = "#" * _begins_with_comments(lines)
        separator = given.separator or _separator_of(lines[:100], comment)
        decimal = given.decimal or ""
    else:
        comment = pinned.comment
        separator = pinned.separator
        decimal = pinned.decimal
    places = [
        place
        for place, line in enumerate(lines[: HEAD_LINES + _MOST_TITLES])
        if _is_row(line, comment)
    ]
    rows = [lines[place] for place in places]
    if pinned is None:
        titles = title_rows(_split_each(rows[: _MOST_TITLES + 1], separator))
    else:
        titles = pinned_titles(pinned, places)
    table = _split(rows[titles:][: HEAD_LINES + 1], separator)
    if not decimal:
        decimal = "." if separator == "," else _decimal(table)
    begin = 0
    if titles:
        begin = (*places, len(lines))[min(titles, len(places))]
    above = tuple(rows[: titles + 1])
    return Head(Dialect(separator, decimal, encoding, begin, comment), above, table)


def _is_row(line: str, comment: str) -> bool:
    """Whether something stands in a line that is no comment."""
    if comment and line.startswith(comment):
        return False
    return bool(line.strip())


def _begins_with_comments(lines: Sequence[str]) -> bool:
    return any(line.startswith("#") for line in _above_first(lines))


def _separator_of(lines: Sequence[str], comment: str) -> str:
    rows = [line for line in lines if _is_row(line, comment)]
    return max(SEPARATORS, key=lambda sign: _fit_of(sign, rows))


def pinned_titles(pinned: Dialect, places: Sequence[int]) -> int:
    """How many lines with cells stand above the names, by a form that was written down."""
    return sum(place < pinned.above for place in places)


def title_rows(rows: Sequence[Sequence[str]]) -> int:
    """How many of the first rows are titles: they have a cell, the first, or less than half of what most rows have.

    Two columns of which one has no name are told from a title by nothing but its width.
    """
    filled = [sum(bool(cell.strip()) for cell in row) for row in rows]
    usual, most_filled = _most_common([len(row) for row in rows]), _most_common(filled)
    if usual == 2:
        narrow = 1
    else:
        narrow = usual
    for place, row in enumerate(rows):
        several = 2 * filled[place] >= most_filled and any(map(str.strip, row[1:]))
        if usual < 2 or len(row) > narrow or several:
            return place
    return 0


def _most_common(counts: Sequence[int]) -> int:
    return Counter(counts).most_common(1)[0][0] if counts else 0


def _above_first(lines: Sequence[str]) -> Sequence[str]:
    begin = next(
        (
            place
            for place, line in enumerate(lines)
            if line.strip() and not line.startswith("#")
        ),
        len(lines),
    )
    return lines[:begin]


def column_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """The names in the first line; refused where it names none, or two columns alike."""
    if not rows:
        raise SourceError(
            "a CSV file must name its columns in the first line; it is empty."
        )
    require_header(rows[0])
    names = [name.strip() or f"column{place}" for place, name in enumerate(rows[0])]
    if twice := [
        name
        for name, count in Counter(name.lower() for name in names).items()
        if count > 1
    ]:
        raise SchemaError(
            f"columns must have names of their own. {', '.join(map(repr, twice))} occurs twice."
        )
    if len(names) == 1 and 2 * sum(len(row) > 1 for row in rows[1:]) > len(rows):
        raise SourceError(
            "the first line of a CSV file must name the columns; it has one cell, most others have more: remove the "
            "lines above the names, or give the separator."
        )
    return names


def dialect_of(head: Head, given: Given) -> Dialect:
    """The form of a table: the pinned one, else what its first lines show, with what the owner says."""
    names = column_names(head.rows)
    if given.pinned is not None:
        return given.dialect(names)
    return given.typed(found_columns(head.dialect, names, head.rows[1:], given))


def found_columns(
    form: Dialect, names: Sequence[str], rows: Sequence[Sequence[str]], given: Given
) -> Dialect:
    """What the cells of the first rows show of every column."""
    columns = []
    unclear = []
    for place, name in enumerate(names):
        if name in given.types:
            columns.append(ColumnForm(name, "VARCHAR"))
            continue
        cells = Counter(row[place].strip() for row in rows if len(row) > place)
        column, doubt = _found_column(name, cells, form, given)
        columns.append(column)
        if doubt:
            unclear.append((name, doubt))
    time_format = None if given.types else given.time_format
    if time_format and time_format not in {column.form for column in columns}:
        raise SourceError(
            f"time_format must fit a column of the table; none holds times such as {time_format!r}."
        )
    return replace(form, columns=tuple(columns), unclear=tuple(unclear), found=FOUND)


def _found_column(
    name: str, counts: Mapping[str, int], form: Dialect, given: Given
) -> tuple[ColumnForm, str]:
    """A column by its cells, and why it stays text, if something else was to be expected."""
    cells = {
        cell: count
        for cell, count in counts.items()
        if not is_missing(cell, given.missing)
    }
    kind, shape = column_kind(cells, form.decimal, given.time_format)
    if kind != "VARCHAR":
        return ColumnForm(name, kind, shape), ""
    doubt = ""
    if shape:
        doubt = _AMBIGUOUS
    elif 2 * _weight(cells, _THOUSANDS) > sum(cells.values()):
        doubt = "its numbers hold marks of thousands: write them without"
    return ColumnForm(name, kind), doubt


def read_dialect(files: Sequence[str], given: Given) -> tuple[Dialect, tuple[str, ...]]:
    """The form of the files of a table, and the lines above their rows; refused where one has another first line."""
    first = read_head(files[0], given)
    above = dict.fromkeys(first.above)
    for file in files[1:]:
        other = _header(file, first, given)
        if [cell.strip() for cell in other.rows[0]] != [
            cell.strip() for cell in first.rows[0]
        ]:
            raise SourceError(
                f"{file}: its first line is not that of {files[0]}; all files of a table need the same columns, named "
                "in the same order."
            )
        above |= dict.fromkeys(other.above)
    return dialect_of(first, given), tuple(above)


def _header(file: str, first: Head, given: Given) -> Head:
    """The names of another file of the same table, by the form of the first."""
    form = first.dialect
    with open_text(file, form.encoding) as stream:
        text = stream.read(1 << 16)
    lines = io.StringIO(text, None).read().split("\n")
    same = replace(
        given, separator=form.separator, decimal=form.decimal, encoding=form.encoding
    )
    head = head_of(lines, same, form.encoding)
    if head.rows:
        return head
    return replace(head, rows=[[]])


def require_header(names: Sequence[str]) -> None:
    """Refuse a first line that holds readings; it is not repeated.

    A whole number may name a meter or an hour beside other names; numbers alone, a sign or a fraction are readings.
    """
    if 2 * sum(not name.strip() for name in names) > len(names):
        raise SourceError(
            "the first line must name the columns; most of its cells are empty: remove what is above it."
        )
    whole = [name.strip().isdecimal() for name in names]
    numbers = [
        bool(NUMBER.fullmatch(name.strip()) or COMMA_NUMBER.fullmatch(name.strip()))
        for name in names
    ]
    if all(whole) or any(
        number and not is_whole for number, is_whole in zip(numbers, whole)
    ):
        raise SourceError(
            "the first line must name the columns; it seems to hold numbers."
        )


def _said(given: Given, name: str) -> str | None:
    pinned = given.pinned
    value: str | None = getattr(given, name) or (
        getattr(pinned, name) if pinned is not None else None
    )
    return value


def _fit_of(separator: str, lines: Sequence[str]) -> tuple[int, int, int]:
    """How many columns a separator makes of most lines, if several, and how many of the first, which may hold names.

    A comma may be a decimal one, so it fits the first line; empty cells beyond that line's are no columns. Where no
    separator makes several, that one is right which leaves most lines like the first.
    """
    rows = _split(lines, separator)
    if rows:
        first = len(rows[0])
    else:
        first = 0
    sizes = [
        first if len(row) > first and not any(row[first:]) else len(row) for row in rows
    ]
    (usual, count), *_ = Counter(sizes).most_common(1) or [(0, 0)]
    fits = usual > 1 and 2 * count > len(sizes) and (separator != "," or first == usual)
    return (usual if fits else 0), first, sizes.count(first)


def _split_each(lines: Sequence[str], separator: str) -> list[list[str]]:
    return [_split_line(line, separator) for line in lines]


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Cells of each line by itself: what one record leaves open or makes too long is no other record's affair."""
    return [
        _split_line(line, separator)
        for line in lines
        if len(line) <= csv.field_size_limit()
    ]


def _split_line(line: str, separator: str) -> list[str]:
    if len(line) > csv.field_size_limit():
        return [""]
    return next(csv.reader([line], delimiter=separator), [])


def _decimal(rows: Sequence[Sequence[str]]) -> str:
    cells = [cell.strip() for row in rows[1:] for cell in row]
    commas = sum(COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum("." in cell and NUMBER.fullmatch(cell) is not None for cell in cells)
    if commas > points:
        return ","
    return "."


def _weight(cells: Mapping[str, int], pattern: re.Pattern[str]) -> int:
    return sum(count for cell, count in cells.items() if pattern.fullmatch(cell))


def _encoding(head: bytes) -> str:
    """By its mark, else UTF-8, unless most lines that could tell are not: then what Windows writes in the west."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    lines = [
        line.decode("utf-8", errors="replace")
        for line in head.split(b"\n")
        if not line.isascii()
    ]
    if 2 * sum("\ufffd" in line for line in lines) > len(lines):
        return "windows-1252"
    return "utf-8"
