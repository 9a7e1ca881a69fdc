"""How every command speaks: JSON or a few lines for people on stdout, one line on stderr when something is wrong.

What each exit code says stands in docs/exit-codes.md.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import threading
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import ROUND_CEILING, Decimal

from gaussveil.errors import (
    GaussveilError,
    LedgerError,
    NumericalError,
    PrivacyError,
    VerificationError,
)
from gaussveil.files import json_values, printable

DONE, NO, BAD_INPUT, UNDECIDED, REFUSED, LEDGER = range(6)
OUR_FAULT = 70
UNEXPECTED = "GV900"

EXIT_CODE_HELP = "Exit codes: 0 done or yes, 1 no, 2 bad input, 3 undecided, 4 refused, 5 ledger (docs/exit-codes.md)."

PATIENCE = 2  # seconds that nobody wonders about
_BOLD = "1"
_COLOURS = {"": "39", "red": "31", "green": "32", "yellow": "33"}

_EXIT_BY_ERROR: tuple[tuple[type[GaussveilError], int], ...] = (
    (VerificationError, NO),
    (PrivacyError, REFUSED),
    (LedgerError, LEDGER),
    (NumericalError, UNDECIDED),
)


def exit_code(error: GaussveilError) -> int:
    """Return the exit code that stands for an error."""
    return next(
        (code for kind, code in _EXIT_BY_ERROR if isinstance(error, kind)), BAD_INPUT
    )


def print_error(code: str, message: str) -> None:
    """Print one plain line on stderr, ``error GV105: ...``: easy to read, easy to match."""
    print(printable(f"error {code}: {message}"), file=sys.stderr)


def print_unexpected(error: BaseException) -> None:
    """Say in one sentence that we made a mistake, and write what happened into a file that the owner alone can read.

    The words of an unexpected error may hold values of the data, so that none of them is printed.
    """
    kind = type(error).__name__
    if isinstance(error, MemoryError):
        print_error(
            UNEXPECTED,
            "there is not enough memory for this; what was debited by now counts as spent",
        )
        return
    handle, name = tempfile.mkstemp(prefix="gaussveil-report-", suffix=".txt")
    with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as stream:
        stream.write("PRIVATE: this report may hold values of the data.\n\n")
        stream.writelines(traceback.format_exception(error))
    print_error(
        UNEXPECTED,
        f"gaussveil made a mistake ({kind}); what was debited by now counts as spent. What happened is told in {name}, "
        "which only you can read and which may hold values of the data",
    )


def print_json(answer: Mapping[str, object]) -> None:
    """Print an answer as one JSON object; floats keep every digit, infinities become the strings "inf" and "-inf"."""
    print(json.dumps(json_values(answer), indent=2, allow_nan=False))


def print_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None
) -> None:
    """Print a table: first column to the left, numbers to the right; whole numbers, whatever they are printed on."""
    lines = [[printable(cell) for cell in row] for row in (columns, *rows)]
    widths = [max(len(row[place]) for row in lines) for place in range(len(columns))]
    if title is not None:
        print(_styled(printable(title), _BOLD))
    for number, (first, *others) in enumerate(lines):
        cells = [
            first.ljust(widths[0]),
            *(cell.rjust(width) for cell, width in zip(others, widths[1:])),
        ]
        print(_styled("  ".join(cells).rstrip(), "" if number else _BOLD))


def print_line(text: str, verdict: str = "", colour: str = "") -> None:
    """Print one line as it is; a verdict may follow, bold and coloured."""
    print(
        printable(text)
        + (
            _styled(printable(verdict), f"{_BOLD};{_COLOURS[colour]}")
            if verdict
            else ""
        )
    )


def _styled(text: str, style: str) -> str:
    coloured = style and sys.stdout.isatty() and not os.environ.get("NO_COLOR")
    if coloured:
        return f"\033[{style}m{text}\033[0m"
    return text


def tell(answer: Mapping[str, object], lines: Sequence[str], *, json: bool) -> None:
    """End a command: one JSON object, or a few lines for people."""
    if json:
        print_json(answer)
    else:
        for line in lines:
            print_line(line)


@contextmanager
def waiting(shown: bool) -> Iterator[None]:
    """Say on a terminal, from the second second on, that a job is still at work and since when."""
    ended = threading.Event()

    def tell_time() -> None:
        seconds = PATIENCE
        while not ended.wait(PATIENCE if seconds == PATIENCE else 1):
            print(f"\rworking, {seconds} s ", end="", file=sys.stderr, flush=True)
            seconds += 1
        if seconds > PATIENCE:
            print("\r" + " " * 24 + "\r", end="", file=sys.stderr, flush=True)

    teller = threading.Thread(target=tell_time, daemon=True)
    if shown:
        teller.start()
    try:
        yield
    finally:
        ended.set()
        if shown:
            teller.join()


def digits(value: float) -> str:
    """Format a number for people: ten significant digits, and 1e-6 rather than 1e-06."""
    return f"{value:.10g}".replace("e-0", "e-").replace("e+0", "e+")


def digits_up(value: float) -> str:
    """The same of a number that must not get smaller on its way to a person, such as the least noise."""
    last = Decimal(value).adjusted() - 9
    up = Decimal(value).quantize(Decimal(1).scaleb(last), rounding=ROUND_CEILING)
    return digits(float(up))
