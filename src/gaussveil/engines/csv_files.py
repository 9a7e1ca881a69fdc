"""CSV files as people have them: how one is written is found once, from its first lines, for every engine.

Spreadsheets and meters write semicolons, decimal commas, Windows letters and days before months. What the first lines
show (separator, decimal mark, encoding, the type of every column and the form of its times) counts as public, as the
schema does; it is found before anything is spent and holds for the whole file. Cells that do not fit are missing, later
ones too. Whatever is found can be given instead: by keyword, or GAUSSVEIL_SEPARATOR, _DECIMAL, _ENCODING, _TIME_FORMAT.

Engines read the files of a table by place. A file with other columns, or the same in another order, would have readings
taken for privacy units; a file without a header would have readings taken for names, which are public.
"""

from __future__ import annotations

import codecs
import csv
import datetime
import gzip
import io
import os
import re
import shutil
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

from gaussveil.checks import one_of, refuse
from gaussveil.engines.location import Location
from gaussveil.errors import ParameterError, SchemaError, SourceError

SEPARATORS = (",", ";", "\t", "|")
HEAD_LINES = 20_480
_HEAD_BYTES = 1 << 22
_MISSING = frozenset(("", "na", "n/a", "nan", "null", "none", "-"))
_NUMBER = re.compile(r"\s*[+-]?((\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?|inf(inity)?)\s*", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"\s*[+-]?\d+,\d+([eE][+-]?\d+)?\s*")
_FRACTION = {".": re.compile(r"[+-]?\d*[.]\d+([eE][+-]?\d+)?"), ",": _COMMA_NUMBER}
_THOUSANDS = re.compile(r"[+-]?\d{1,3}(([.]\d{3})+(,\d+)?|(,\d{3})+([.]\d+)?|(['\u2019 ]\d{3})+([.,]\d+)?)")
_WHOLE = re.compile(r"\s*[+-]?(?!0\d{4})\d{1,18}\s*")
_ISO = re.compile(r"\d{4}-\d\d-\d\d(?P<time>[T ]\d\d:\d\d(:\d\d([.]\d{1,9})?)?(?P<zone>Z|[+-]\d\d(:?\d\d)?)?)?")
_OTHER_TIME = re.compile(
    r"(?P<first>\d{1,2}|\d{4})(?P<mark>[./-])(?P<second>\d{1,2})(?P=mark)(?P<last>\d{4}|\d{1,2})"
    r"((?P<gap>,? |T)(?P<clock>\d{1,2}:\d\d(?P<seconds>:\d\d)?(?P<half> ?[AP]M)?))?",
    re.IGNORECASE,
)


_PLAIN = {  # each engine reads more than this, and other things than the next
    "DOUBLE": "(?i)[+-]?(([0-9]+[.,]?[0-9]*|[.,][0-9]+)(e[+-]?[0-9]+)?|inf(inity)?|nan)",
    "TIMESTAMP": "[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]+)?",
}


@dataclass(frozen=True)
class Column:
    """A column of a CSV file: its name, its SQL type, and the form of its times where it is not ISO 8601."""

    name: str
    kind: str
    form: str | None = None

    @property
    def plain(self) -> str | None:
        """What cells look like that are read in this form; None where any engine reads what the others do."""
        return _PLAIN.get(self.kind.upper()) if self.form is None else None


@dataclass(frozen=True)
class Dialect:
    """How a CSV file is written."""

    separator: str = ","
    decimal: str = "."
    encoding: str = "utf-8"
    skipped: int = 0  # empty lines before the header
    comment: str = ""
    columns: tuple[Column, ...] = ()
    unclear: tuple[tuple[str, str], ...] = ()  # columns that stay text, and why

    def typed(self, types: Mapping[str, str]) -> list[Column]:
        """The columns, with declared types; those of columns that are not there are refused."""
        if unknown := types.keys() - {column.name for column in self.columns}:
            raise SchemaError(f"types declares {', '.join(map(repr, unknown))}, which the table does not have.")
        return [Column(one.name, types[one.name]) if one.name in types else one for one in self.columns]

    def words(self) -> str:
        """What is unusual about it, for people; nothing where it is as programs write it."""
        words = []
        if self.separator != ",":
            words.append("separated by " + {";": "semicolons", "\t": "tabs"}.get(self.separator, repr(self.separator)))
        if self.decimal != ".":
            words.append("decimal commas")
        if self.encoding != "utf-8":
            words.append(f"letters in {self.encoding}")
        words += [f"{column.name!r} as {column.form}" for column in self.columns if column.form]
        for reason in dict.fromkeys(why for _, why in self.unclear):
            names = ", ".join(repr(name) for name, why in self.unclear if why == reason)
            words.append(f"{names} as text, since {reason}")
        return ", ".join(words)


def given_form(
    location: Location | None = None,
    types: Mapping[str, str] | None = None,
    written: Mapping[str, str | None] | None = None,
) -> dict[str, str]:
    """What the owner says about a file: keywords first, then the environment; of a table that has types, refused."""
    given = dict.fromkeys(("separator", "decimal", "encoding", "time_format")) | dict(written or {})
    if len(given) > 4:
        one_of("options", list(given)[4], list(given)[:4])
    if location is not None and location.kind != "csv":
        for name in ["types"] if types else [name for name, value in given.items() if value]:
            raise ParameterError(f"{name} is declared of CSV files only: a table of kind {location.kind} has its own.")
    found = {name: value or os.environ.get(f"GAUSSVEIL_{name.upper()}") for name, value in given.items()}
    said = {name: value for name, value in found.items() if value}
    if "separator" in said:
        said["separator"] = {"tab": "\t", "\\t": "\t"}.get(said["separator"], said["separator"])
        if len(said["separator"]) != 1:
            refuse("separator", "one sign, or 'tab'", said["separator"])
    if "decimal" in said:
        one_of("decimal", said["decimal"], (".", ","))
    if "encoding" in said:
        try:
            said["encoding"] = codecs.lookup(said["encoding"]).name
        except LookupError:
            refuse("encoding", "the name of an encoding such as windows-1252", said["encoding"])
    return said


def read_form(file: str, given: Mapping[str, str]) -> tuple[Dialect, list[list[str]]]:
    """How a file is written, without its columns, and the cells of its first lines."""
    with _bytes(file) as stream:
        head = stream.read(_HEAD_BYTES)
    head = head if len(head) < _HEAD_BYTES else head[: head.rfind(b"\n") + 1]
    encoding = given.get("encoding") or _encoding(head)
    lines = io.StringIO(head.decode(encoding, errors="replace").removeprefix("\ufeff"), None).read().split("\n")
    return _form(lines, given, encoding)


def head_dialect(lines: Sequence[str], given: Mapping[str, str]) -> Dialect:
    """How a table elsewhere is written, by the first lines that an engine brought."""
    return _columns(*_form(lines, given, given.get("encoding", "utf-8")), given.get("time_format"))


def _form(lines: Sequence[str], given: Mapping[str, str], encoding: str) -> tuple[Dialect, list[list[str]]]:
    begin = next((place for place, line in enumerate(lines) if line.strip() and not line.startswith("#")), len(lines))
    comments = sum(line.startswith("#") for line in lines[:begin])
    comment = "#" if comments else ""
    lines = [line for line in lines[begin : begin + HEAD_LINES] if line.strip() and not (comment and line[0] == "#")]
    separator = given.get("separator") or max(SEPARATORS, key=lambda sign: _columns_by(sign, lines[:100]))
    rows = _split(lines, separator)
    decimal = given.get("decimal") or ("." if separator == "," else _decimal(rows))
    return Dialect(separator, decimal, encoding, begin - comments, comment), rows


def column_names(rows: Sequence[Sequence[str]]) -> list[str]:
    """The names in the first line; refused where it names none, or two columns alike."""
    if not rows:
        raise SourceError("a CSV file must name its columns in the first line; it is empty.")
    require_header(rows[0])
    names = [name.strip() or f"column{place}" for place, name in enumerate(rows[0])]
    if twice := [name for name, count in Counter(name.lower() for name in names).items() if count > 1]:
        raise SchemaError(f"columns must have names of their own. {', '.join(map(repr, twice))} occurs twice.")
    if len(names) == 1 and 2 * sum(len(row) > 1 for row in rows[1:]) > len(rows):
        raise SourceError(
            "the first line of a CSV file must name the columns; it has one cell, most others have more: remove the "
            "lines above the names, or give the separator."
        )
    return names


def _columns(form: Dialect, rows: Sequence[Sequence[str]], time_format: str | None) -> Dialect:
    names = column_names(rows)
    columns, unclear = [], []
    for place, name in enumerate(names):
        cells = {row[place].strip() for row in rows[1:] if len(row) > place}
        kind, shape = _kind([cell for cell in cells if cell.lower() not in _MISSING], form.decimal, time_format)
        if kind == "VARCHAR" and shape:
            unclear.append((name, "days may be months: give the time format"))
        elif len(rows) == 1:
            unclear.append((name, "there is no row below the names"))
        elif kind == "VARCHAR" and 2 * sum(map(bool, map(_THOUSANDS.fullmatch, cells))) > len(cells):
            unclear.append((name, "its numbers hold marks of thousands: write them without"))
        columns.append(Column(name, kind, None if kind == "VARCHAR" else shape))
    if time_format and not any(column.form == time_format for column in columns):
        raise SourceError(f"time_format must fit a column of the table; none holds times such as {time_format!r}.")
    return replace(form, columns=tuple(columns), unclear=tuple(unclear))


def read_dialect(files: Sequence[str], given: Mapping[str, str]) -> Dialect:
    """How the files of a table are written; refused where one has another first line than the first."""
    form, rows = read_form(files[0], given)
    for file in files[1:]:
        if _header(file, form) != (form.skipped, [cell.strip() for cell in rows[0]]):
            raise SourceError(
                f"{file}: its first line is not that of {files[0]}; all files of a table need the same columns, named "
                "in the same order."
            )
    return _columns(form, rows, given.get("time_format"))


def require_header(names: Sequence[str]) -> None:
    """Refuse a first line that holds readings; it is not repeated.

    A whole number may name a meter or an hour beside other names; numbers alone, a sign or a fraction are readings.
    """
    if 2 * sum(not name.strip() for name in names) > len(names):
        raise SourceError("the first line must name the columns; most of its cells are empty: remove what is above it.")
    whole = [name.strip().isdecimal() for name in names]
    numbers = [bool(_NUMBER.fullmatch(name) or _COMMA_NUMBER.fullmatch(name)) for name in names]
    if all(whole) or any(number and not one for number, one in zip(numbers, whole)):
        raise SourceError("the first line must name the columns; it seems to hold numbers.")


def in_utf8(file: str, encoding: str, copy: str) -> None:
    """Write the text of a file in UTF-8, which every engine reads; letters that are none become a mark."""
    with open_text(file, encoding) as text, open(copy, "x", encoding="utf-8", newline="") as stream:
        shutil.copyfileobj(text, stream, 1 << 20)


def _columns_by(separator: str, lines: Sequence[str]) -> int:
    """How many columns a separator makes of most lines, or none; a comma may be a decimal one, so it fits the names."""
    sizes = [len(row) for row in _split(lines, separator)]
    (usual, count), *_ = Counter(sizes).most_common(1) or [(0, 0)]
    return usual if 2 * count > len(sizes) and (separator != "," or sizes[0] == usual) else 0


def _split(lines: Sequence[str], separator: str) -> list[list[str]]:
    """Cells of each line by itself: what one record leaves open or makes too long is no other record's affair."""
    short = (line for line in lines if len(line) <= csv.field_size_limit())
    return [row for line in short for row in csv.reader([line], delimiter=separator)]


def _decimal(rows: Sequence[Sequence[str]]) -> str:
    cells = [cell for row in rows[1:1000] for cell in row]
    commas = sum(_COMMA_NUMBER.fullmatch(cell) is not None for cell in cells)
    points = sum("." in cell and _NUMBER.fullmatch(cell) is not None for cell in cells)
    return "," if commas > points else "."


def _kind(cells: Sequence[str], decimal: str, time_format: str | None) -> tuple[str, str | None]:
    """SQL type of the cells, and the form of their times; text with a form where that is one of two.

    Where most are fractions or times the others are missing, lest one of them decide. Whole numbers may be names.
    """
    found = _common_kind(cells, decimal, time_format)
    if found != ("VARCHAR", None):
        return found
    alike: dict[object, list[str]] = {}
    for cell in cells:
        alike.setdefault(_likeness(cell, decimal), []).append(cell)
    most = max((alike[form] for form in alike if form is not None), key=len, default=[])
    return _common_kind(most, decimal, time_format) if 2 * len(most) > len(cells) else found


def _likeness(cell: str, decimal: str) -> object:
    """What cells of one column have in common, where they are fractions or times; None for all others."""
    if _FRACTION[decimal].fullmatch(cell):
        return "fraction"
    if match := _ISO.fullmatch(cell):
        return match["zone"] is None
    return _shape(match) if (match := _OTHER_TIME.fullmatch(cell)) else None


def _common_kind(cells: Sequence[str], decimal: str, time_format: str | None) -> tuple[str, str | None]:
    if not cells:
        return "VARCHAR", None
    if time_format and 2 * sum(_fits(cell, time_format) for cell in cells) > len(cells):
        clock = "TIMESTAMP" if re.search("%[HIMSpfTRXc]", time_format) else "DATE"
        return ("TIMESTAMPTZ" if "%z" in time_format else clock), time_format
    if all(map(_WHOLE.fullmatch, cells)):
        return "BIGINT", None
    if all(cell.isdecimal() for cell in cells):  # a name of digits keeps its zeros and its length
        return "VARCHAR", None
    number = _NUMBER if decimal == "." else _COMMA_NUMBER
    if all(number.fullmatch(cell) or _WHOLE.fullmatch(cell) for cell in cells):
        return "DOUBLE", None
    if all(cell.lower() in ("true", "false") for cell in cells):
        return "BOOLEAN", None
    iso = [match for cell in cells if (match := _ISO.fullmatch(cell))]
    zones = {match["zone"] is not None for match in iso}
    if len(iso) == len(cells) and len(zones) == 1:
        clock = "TIMESTAMP" if any(match["time"] for match in iso) else "DATE"
        return ("TIMESTAMPTZ" if True in zones else clock), None
    found = [match for cell in cells if (match := _OTHER_TIME.fullmatch(cell))]
    return _other_time(found) if len(found) == len(cells) else ("VARCHAR", None)


def _other_time(found: Sequence[re.Match[str]]) -> tuple[str, str | None]:
    """The form that most times have: which of day and month comes first is seen where one is above 12."""
    mark, year_first, year_last, clock = shape = _shape(found[0])
    if any(_shape(match) != shape for match in found) or (year_first and year_last):
        return "VARCHAR", None
    if year_first:
        orders = {"%Y{0}%m{0}%d": ("second", "last")}
    else:
        year = "Y" if year_last else "y"
        orders = {"%d{0}%m{0}%" + year: ("second", "first"), "%m{0}%d{0}%" + year: ("first", "second")}
    fitting = {
        form: sum(int(match[month]) <= 12 and int(match[day]) <= 31 for match in found)
        for form, (month, day) in [*orders.items()][: 1 if mark == "." else 2]  # points: day first
    }
    days = [form for form, count in fitting.items() if count == max(fitting.values()) and 2 * count > len(found)]
    if not days:
        return "VARCHAR", None
    return ("VARCHAR" if len(days) > 1 else "TIMESTAMP" if clock else "DATE"), days[0].format(mark) + clock


def _shape(match: re.Match[str]) -> tuple[str, bool, bool, str]:
    return match["mark"], len(match["first"]) == 4, len(match["last"]) == 4, _clock(match)


def _clock(match: re.Match[str]) -> str:
    if match["clock"] is None:
        return ""
    hours = "%I:%M" if match["half"] else "%H:%M"
    half = re.sub("[AP]M", "%p", (match["half"] or "").upper())
    return match["gap"] + hours + (":%S" if match["seconds"] else "") + half


def _fits(cell: str, form: str) -> bool:
    try:
        datetime.datetime.strptime(cell, form)
    except ValueError:
        return False
    return True


def _encoding(head: bytes) -> str:
    """By its mark, else UTF-8, unless most lines that could tell are not: then what Windows writes in the west."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    lines = [line.decode("utf-8", errors="replace") for line in head.split(b"\n") if not line.isascii()]
    return "windows-1252" if 2 * sum("\ufffd" in line for line in lines) > len(lines) else "utf-8"


def _header(file: str, form: Dialect) -> tuple[int, list[str]]:
    skipped = 0
    with open_text(file, form.encoding) as stream:
        for line in stream:
            if line.strip() and not (form.comment and line.startswith("#")):
                return skipped, [cell.strip() for cell in next(csv.reader([line], delimiter=form.separator), [])]
            skipped += not line.strip()
    return skipped, []


def open_text(file: str, encoding: str) -> io.TextIOWrapper:
    """A CSV file as text, unpacked."""
    mark = "utf-8-sig" if encoding == "utf-8" else encoding
    return io.TextIOWrapper(_bytes(file), mark, errors="replace", newline="")


def _bytes(file: str) -> BinaryIO:
    return cast(BinaryIO, gzip.open(file, "rb")) if file.lower().endswith(".gz") else open(file, "rb")
