"""Cells of Excel sheets, read only where a process of its own has read them within bounds.

A sheet is held whole, as wide and as high as its outermost cells say: one cell in the last corner would ask for half a
terabyte, and the library then ends the process. So another process reads the sheet first, within limits on memory and
time, and says how large it is; what it cannot read is refused here by a sentence.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

from gaussveil.errors import FormatError, MissingDependencyError, SourceError, install

MOST_SHEET_CELLS = 1 << 24  # sixteen columns down to the last row
MOST_SHEET_BYTES = 1 << 30  # of memory that the library may take for a sheet
MOST_SECONDS = 300
DAMAGED = 3

_PROBE = f"""
import resource, sys
resource.setrlimit(resource.RLIMIT_AS, ({MOST_SHEET_BYTES}, {MOST_SHEET_BYTES}))
resource.setrlimit(resource.RLIMIT_CPU, ({MOST_SECONDS}, {MOST_SECONDS}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
sys.path.insert(0, sys.argv[1])
from python_calamine import CalamineWorkbook
try:
    book = CalamineWorkbook.from_path(sys.argv[2])
    table = sys.argv[3]
    if table and table not in book.sheet_names:
        sys.exit(0)
    sheet = book.get_sheet_by_name(table) if table else book.get_sheet_by_index(0)
    print(sheet.total_height * sheet.total_width)
except (MemoryError, SystemExit):
    raise
except BaseException:
    sys.exit({DAMAGED})
"""


def sheet_rows(address: str, table: str) -> list[list[Any]]:
    """The cells of a sheet, by default of the first; refused where it is damaged or too large."""
    try:
        import python_calamine
    except ModuleNotFoundError:
        raise MissingDependencyError(
            f"Excel files need python-calamine: {install('excel')}; or save the sheet as CSV."
        ) from None
    name = Path(address).name
    _require_bounded(address, table, Path(str(python_calamine.__file__)).parent.parent)
    try:
        book = python_calamine.CalamineWorkbook.from_path(address)
        if table and table not in book.sheet_names:
            raise SourceError(
                f"{name} has no sheet {table!r}; it has {', '.join(book.sheet_names)}."
            )
        if table:
            sheet = book.get_sheet_by_name(table)
        else:
            sheet = book.get_sheet_by_index(0)
        rows: list[list[Any]] = sheet.to_python()
    except SourceError:
        raise
    except BaseException as error:  # the library's own mistakes are no Exceptions, and their words may quote a cell
        if isinstance(error, KeyboardInterrupt | SystemExit | MemoryError):
            raise
        raise _damaged(name) from None
    return rows


def _require_bounded(address: str, table: str, library: Path) -> None:
    """Let another process read the sheet first."""
    name = Path(address).name
    words = [
        sys.executable,
        "-I",
        "-S",
        "-c",
        _PROBE,
        str(library),
        str(Path(address).absolute()),
        table,
    ]
    ended = subprocess.run(
        words, stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    if ended.returncode == DAMAGED:
        raise _damaged(name)
    size = ended.stdout.strip() or b"0"
    if ended.returncode != 0 or int(size) > MOST_SHEET_CELLS:
        raise SourceError(
            f"{name}: the sheet is too large to be read at once; save it as CSV."
        )


def _damaged(name: str) -> FormatError:
    return FormatError(f"{name}: not an Excel file, or a damaged one")
