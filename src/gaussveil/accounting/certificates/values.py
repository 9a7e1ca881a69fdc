"""The numbers that a certificate is about, in one form that files and libraries cannot change, and its digest.

A released number is kept to 44 significant bits, thirteen digits: such a number is the nearest one to itself also after
a detour through fifteen decimal digits, or a reader that errs in the last bit. So a table has one digest whether it
comes from CSV, Parquet, JSON, Excel or a frame in memory. Lattice points below 2^44 grids, which nearly all are, stay
as they were drawn. Rounding what was released costs no privacy.
"""

from __future__ import annotations

import datetime
import hashlib
import json
import math
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from gaussveil.accounting.canonical import fields
from gaussveil.errors import FormatError

FORM = 1
BITS = 44
DIGITS = 13
LONGEST = 300  # digits and sign of a whole number that surely is a double
LARGEST_DOCUMENT = (
    1 << 19
)  # numbers: ten classes of a mixture in 200 columns, some seconds
DIFFERENT = "the numbers are not those that the certificate was issued for: {}"
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
_WHOLE = re.compile(r"[+-]?[0-9]{1,4000}")  # of more Python makes no number
_TIME = re.compile(
    r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?(?:\s*(Z|[+-]\d\d:?\d\d))?)?"
)
_MISSING = frozenset(
    {"", "nan", "-nan", "null", "none", "na", "n/a", "<na>", "nat", "#n/a"}
)
_INFINITE = {
    "inf": "inf",
    "+inf": "inf",
    "infinity": "inf",
    "-inf": "-inf",
    "-infinity": "-inf",
}
_DIGEST = re.compile("[0-9a-f]{64}")


@dataclass(frozen=True)
class Sheet:
    """A table as it was given: columns of cells of any type, and their names where they have some."""

    columns: list[list[Any]]
    names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.names is not None:
            plain = tuple(
                unicodedata.normalize("NFC", name.strip()) for name in self.names
            )
            object.__setattr__(self, "names", plain)

    @property
    def rows(self) -> int:
        """Number of rows."""
        if self.columns:
            return len(self.columns[0])
        return 0


@dataclass(frozen=True)
class ValuesDigest:
    """What a certificate says of its numbers: how many, under which names, and their digest."""

    rows: int
    columns: int
    names: tuple[str, ...] | None
    sha256: str

    @classmethod
    def of(cls, cells: Sheet) -> ValuesDigest:
        """The digest of a table."""
        return cls(cells.rows, len(cells.columns), cells.names, _sha256(cells))

    def differs(self, cells: Sheet) -> str | None:
        """In words, what a table has not in common with the one that was digested; None where they are the same."""
        chosen = self._matched(cells)
        if chosen is None:
            return f"it has the columns {_listed(cells)}, not those released"
        if chosen.rows != self.rows or len(chosen.columns) != self.columns:
            return f"{chosen.rows} rows and {len(chosen.columns)} columns, where {self.rows} and {self.columns} were"
        if _sha256(chosen) == self.sha256:
            return None
        return "at least one cell was changed"

    def _matched(self, cells: Sheet) -> Sheet | None:
        """The columns in the order of the digest; a first column without a name that numbers the rows is left out."""
        if self.names is None:
            return Sheet(_unnumbered(cells, self.columns).columns)
        names = cells.names
        if names is None or len(set(names)) < len(names):
            return None
        if not set(self.names) >= set(names):
            cells = _unnumbered(cells, self.columns)
            names = cells.names or ()
        if set(names) != set(self.names):
            return None
        return Sheet(
            [cells.columns[names.index(name)] for name in self.names], self.names
        )

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values."""
        if self.names is None:
            named = None
        else:
            named = list(self.names)
        return {
            "form": FORM,
            "rows": self.rows,
            "columns": self.columns,
            "names": named,
            "sha256": self.sha256,
        }

    @classmethod
    def from_dict(cls, record: object) -> ValuesDigest:
        """Inverse of `to_dict`."""
        what = "the field 'values'"
        found = fields(record, what, ("form", "rows", "columns", "names", "sha256"))
        rows, columns, names, digest = (
            found[name] for name in ("rows", "columns", "names", "sha256")
        )
        if found["form"] != FORM or len(found) > 5:
            raise FormatError(
                f"{what} has a form that this library does not know; upgrade gaussveil to check it"
            )
        if type(rows) is not int or type(columns) is not int or rows < 0 or columns < 0:
            raise FormatError(f"{what} must hold whole numbers of rows and columns")
        if not isinstance(digest, str) or not _DIGEST.fullmatch(digest):
            raise FormatError(f"{what} must hold a digest of 64 hexadecimal digits")
        if names is not None and not (
            isinstance(names, list)
            and len(names) == columns
            and all(isinstance(name, str) for name in names)
        ):
            raise FormatError(
                f"{what} must hold a name for each column, or none at all"
            )
        return cls(rows, columns, None if names is None else tuple(names), digest)


def rounded(value: Any) -> Any:
    """The same array, list or frame with its floating-point numbers kept to 44 significant bits; others as they are."""
    library, name = _kind(value)
    if isinstance(value, np.ndarray):
        if value.dtype == np.float64:
            return _rounded(value)
        return value
    if isinstance(value, list):
        return [rounded(item) for item in value]
    if isinstance(value, float):
        return type(value)(_rounded(np.array([value]))[0])
    if (library, name) == ("pandas", "DataFrame"):
        made = value.copy()
        for place, kind in enumerate(value.dtypes):
            if kind == np.float64:
                made.isetitem(place, _rounded(value.iloc[:, place].to_numpy()))
        return made
    if (library, name) == ("pandas", "Series") and value.dtype == np.float64:
        return type(value)(
            _rounded(value.to_numpy()), index=value.index, name=value.name
        )
    if (library, name) == ("polars", "DataFrame"):
        return value.with_columns(
            [rounded(column) for column in value if column.dtype.is_float()]
        )
    if (library, name) == ("polars", "Series") and value.dtype.is_float():
        return type(value)(
            value.name, [rounded(cell) for cell in value.to_list()], dtype=value.dtype
        )
    if (library, name) == ("pyarrow", "Table"):
        return _rounded_arrow(value)
    return value


def cells_of(value: Any) -> Sheet | None:
    """The cells of an array, list, frame, mapping of columns or list of records; None of anything else.

    A released object of another kind has a `released_document`: its numbers and names as mappings and lists.
    """
    library, name = _kind(value)
    if (library, name) == ("pandas", "Series"):
        numbered = type(value.index).__name__ == "RangeIndex"
        if numbered:
            return Sheet([value.tolist()])
        return cells_of(value.to_frame())
    if (library, name) == ("pandas", "DataFrame"):
        if type(value.index).__name__ != "RangeIndex":
            value = value.reset_index(
                names=["" if one is None else str(one) for one in value.index.names]
            )
        return Sheet(
            [value.iloc[:, at].tolist() for at in range(value.shape[1])],
            tuple(map(str, value.columns)),
        )
    if (library, name) == ("polars", "Series"):
        return Sheet([value.to_list()])
    if (library, name) == ("polars", "DataFrame"):
        return Sheet([column.to_list() for column in value], tuple(value.columns))
    if (library, name) == ("pyarrow", "Table"):
        return Sheet(
            [column.to_pylist() for column in value.columns], tuple(value.column_names)
        )
    if isinstance(value, Mapping):
        columns = [cells_of(column) for column in value.values()]
        known = [one for one in columns if one is not None and len(one.columns) == 1]
        same = len(known) == len(columns) > 0 and len({one.rows for one in known}) == 1
        if same:
            return Sheet([one.columns[0] for one in known], tuple(map(str, value)))
        return None
    if (
        isinstance(value, list)
        and value
        and all(isinstance(row, Mapping) for row in value)
    ):
        names = tuple(map(str, value[0]))
        alike = all(tuple(map(str, row)) == names for row in value)
        if alike:
            return Sheet([[row[name] for row in value] for name in value[0]], names)
        return None
    if isinstance(value, list | np.ndarray | int | float) and not isinstance(
        value, bool
    ):
        return _of_array(value)
    released_document = getattr(value, "released_document", None)
    if released_document is None:
        return None
    document = released_document()
    if _count(document) <= LARGEST_DOCUMENT:
        return document_cells(document)
    return None


def document_cells(document: Any) -> Sheet:
    """Every number and text of a document of mappings and lists, with the way to it: models, sketches, settings."""
    places: list[str] = []
    values: list[Any] = []
    _walk(document, "", places, values)
    return Sheet([places, values], ("place", "value"))


def _count(document: Any) -> int:
    """Number of numbers and texts in a document."""
    if not isinstance(document, dict | list) or not document:
        return 1
    parts = document.values() if isinstance(document, dict) else document
    if all(type(part) is float for part in parts):
        return len(document)
    return sum(map(_count, parts))


def _walk(document: Any, place: str, places: list[str], values: list[Any]) -> None:
    """Append every number and text of a document and the way to it."""
    if isinstance(document, dict | list) and document:
        items: Any
        if isinstance(document, dict):
            items = document.items()
        else:
            items = enumerate(document)
        for name, part in items:
            if isinstance(name, str):
                below = f"{place}/{json.dumps(name)}"
            else:
                below = f"{place}/{name}"
            if type(part) is float:
                places.append(below)
                values.append(part)
            else:
                _walk(part, below, places, values)
    else:
        places.append(place or "/")
        values.append(
            json.dumps(document) if isinstance(document, dict | list) else document
        )


def _of_array(value: Any) -> Sheet | None:
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.dtype.kind == "O" and array.ndim != 1:
        return None
    if array.ndim > 1 and array.size:
        table = array.reshape(len(array), -1)
    else:
        table = array.reshape(-1, 1)
    return Sheet([column.tolist() for column in table.T])


def digest_of(value: Any) -> ValuesDigest | None:
    """The digest of a released value; None where it is no table or document of numbers and texts."""
    cells = cells_of(value)
    if cells is None:
        return None
    return ValuesDigest.of(cells)


def cell_text(value: Any) -> str:
    """One cell in the form that every file and library leaves as it is."""
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        if value:
            return "true"
        return "false"
    if isinstance(value, int | np.integer):
        return _whole_text(int(value))
    if isinstance(value, float | np.number | Decimal):
        return _number_text(value)
    if isinstance(value, np.datetime64):
        if np.isnat(value):
            return ""
        return _word(str(value))
    if isinstance(value, datetime.date):
        return _word("" if str(value) == "NaT" else value.isoformat())
    return _word(str(value))


def _word(text: str) -> str:
    """A text that reads as a number, a time, a truth value or nothing is that, whoever wrote it."""
    text = unicodedata.normalize("NFC", text.strip())
    if text.startswith(
        "/"
    ):  # nothing of what follows begins so, but every place in a document
        return text
    lowered = text.lower()
    if lowered in _MISSING:
        return ""
    if lowered in _INFINITE:
        return _INFINITE[lowered]
    if lowered in ("true", "false"):
        return lowered
    if _WHOLE.fullmatch(text):
        return _whole_text(int(text))
    if _NUMBER.fullmatch(text):
        return _number_text(float(text))
    if _TIME.fullmatch(text):
        return _time_text(text)
    return text


def _whole_text(number: int) -> str:
    """A released number as it is; identifiers, of more bits and digits than those have, keep all their digits."""
    digits = str(number)
    if len(digits.lstrip("-").rstrip("0")) <= DIGITS:
        if len(digits) < LONGEST:
            return _number_text(number)
        return digits
    if len(digits) < LONGEST:
        near = float(_nearest(float(number)))
    else:
        near = math.inf
    same = abs(near) < math.inf and number in (
        int(near),
        int(Decimal(repr(near))),
    )  # as programs write a double
    if same:
        return near.hex()
    return digits


def _number_text(number: Any) -> str:
    value = float(number)
    if value != value:
        return ""
    return float(_nearest(value)).hex()


def _time_text(text: str) -> str:
    """A time without zeros at its end, on the clock of UTC where it names its zone; midnight is the day alone."""
    found = _TIME.fullmatch(text)
    assert found is not None
    day, clock, fraction, zone = found.groups()
    if clock is None:
        return day
    try:
        moment = datetime.datetime.fromisoformat(f"{day}T{clock}")
        if zone and zone != "Z":
            if zone[0] == "+":
                sign = -1
            else:
                sign = 1
            moment += sign * datetime.timedelta(
                hours=int(zone[1:3]), minutes=int(zone[-2:])
            )
    except (ValueError, OverflowError):
        return text
    rest = (fraction or "").rstrip("0").rstrip(".") + ("Z" if zone else "")
    plain = moment.isoformat()
    if not rest:
        return plain.removesuffix("T00:00:00")
    return plain + rest


def _sha256(cells: Sheet) -> str:
    """Of one JSON text: the names, then each row."""
    rows = zip(*(_column_texts(column) for column in cells.columns), strict=True)
    return hashlib.sha256(
        json.dumps([cells.names, *rows], separators=(",", ":")).encode()
    ).hexdigest()


def _column_texts(column: list[Any]) -> list[str]:
    """`cell_text` of each cell; of all finite floats at once."""
    finite = [type(cell) is float and math.isfinite(cell) for cell in column]
    nearest = iter(
        _nearest(
            np.array([cell for cell, known in zip(column, finite) if known], np.float64)
        ).tolist()
    )
    return [
        next(nearest).hex() if known else cell_text(cell)
        for cell, known in zip(column, finite)
    ]


def _unnumbered(cells: Sheet, wanted: int) -> Sheet:
    """Without a first column that only numbers the rows, where there is one column too many."""
    if len(cells.columns) != wanted + 1:
        return cells
    if cells.names:
        first = cells.names[0]
    else:
        first = ""
    numbers = [cell_text(number) for number in range(cells.rows)]
    if (
        first in ("", "Unnamed: 0", "index")
        and [cell_text(cell) for cell in cells.columns[0]] == numbers
    ):
        return Sheet(cells.columns[1:], cells.names[1:] if cells.names else None)
    return cells


def _listed(cells: Sheet) -> str:
    if cells.names is None:
        return "without names"
    return ", ".join(cells.names[:20])


def _kind(value: Any) -> tuple[str, str]:
    kind = type(value)
    return kind.__module__.partition(".")[0], kind.__name__


def _nearest(numbers: Any) -> Any:
    """The nearest numbers of 44 significant bits."""
    mantissa, exponent = np.frexp(numbers)
    with np.errstate(over="ignore"):
        return np.ldexp(np.rint(mantissa * 2.0**BITS), exponent - BITS) + 0.0


def _rounded(numbers: Any) -> Any:
    """Each number, if it is finite and no decimal of thirteen digits, which every reader takes as it is written."""
    near = _nearest(np.where(np.isfinite(numbers), numbers, 0.0))
    near = np.where(np.isfinite(numbers) & np.isfinite(near), near, numbers)
    for place in np.argwhere((near != numbers) & np.isfinite(numbers)):
        number = float(numbers[tuple(place)])
        if float(f"{number:.12e}") == number:
            near[tuple(place)] = number
    return near


def _rounded_arrow(table: Any) -> Any:
    import pyarrow as pa

    for place, field in enumerate(table.schema):
        if pa.types.is_float64(field.type):
            column = table.column(place).combine_chunks()
            numbers = _rounded(column.to_numpy(zero_copy_only=False))
            table = table.set_column(
                place, field, pa.array(numbers, mask=np.asarray(column.is_null()))
            )
    return table
