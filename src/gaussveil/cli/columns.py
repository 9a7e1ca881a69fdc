"""The columns that options name, held against a file's own before anything heavy is imported: all mistakes at once."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from gaussveil.cli.options import listed
from gaussveil.errors import SchemaError, SourceError

HOUSEHOLD = "household"
READINGS = (HOUSEHOLD, "time", "power")
MANY = 5  # columns whose names are alike
CLOCK = r"\s*\d{1,2}:\d\d(?::\d\d)?\s*"
CLOCKS = re.compile(f"(.+?):{CLOCK},{CLOCK}")
KEY = re.compile(r"\s*(hour|weekday|month|date|bin|discover)\((.*)\)\s*")


def require_named(path: Path | None, given: Mapping[str, Any]) -> None:
    """Refuse options that name columns which the table lacks, and a file that is not there."""
    named = list(_named(given))
    if not named and HOUSEHOLD not in given:
        return
    if path is None:
        return
    names = _header(path, planned=bool(given.get("dry_run")))
    if names is None:
        return
    if HOUSEHOLD in given:
        readings_named(names, {name: given[name] for name in READINGS})
    else:
        _refuse_missing(
            names, [(option, name) for option, name in named if not _has(names, name)]
        )


def readings_named(names: Sequence[str], wanted: Mapping[str, str]) -> dict[str, str]:
    """The columns of readings, or the only ones that differ by case alone; all that are missing in one message."""
    columns = {option: _alike(names, name) for option, name in wanted.items()}
    if "+" in wanted["time"] and columns["time"] is None:
        columns["time"] = _date_and_time(names, wanted["time"])
    if (
        columns[HOUSEHOLD] is None and wanted[HOUSEHOLD] == HOUSEHOLD
    ):  # a column per household instead
        columns = {"time": columns["time"]}
    _refuse_missing(
        names,
        [(option, wanted[option]) for option, name in columns.items() if name is None],
    )
    return {option: columns.get(option) or name for option, name in wanted.items()}


def _date_and_time(names: Sequence[str], wanted: str) -> str | None:
    """Two columns that make a time together, joined by a plus; None where one of them is missing."""
    columns = []
    for part in wanted.split("+", 1):
        column = _alike(names, part.strip())
        if not column:
            return None
        columns.append(column)
    return "+".join(columns)


def _refuse_missing(names: Sequence[str], missing: Sequence[tuple[str, str]]) -> None:
    if missing:
        told = [
            f"--{option} {name}{_meant(names, name)}"
            for option, name in dict.fromkeys(missing)
        ]
        if len(names) > 12:
            more = ", ..."
        elif len(names) == 1:
            more = " (a title? remove what is above the names)"
        else:
            more = ""
        if {HOUSEHOLD, "columns"} & {option for option, _ in missing}:
            wide = ""
        else:
            wide = _of_wide_sheets(names, {option for option, _ in missing})
        raise SchemaError(
            f"the table has no column for {' and '.join(told)}; its columns are {', '.join(names[:12])}{more}{wide}"
        )


def _of_wide_sheets(names: Sequence[str], options: Collection[str]) -> str:
    """What to make of a sheet with a column for each home or hour: many names are alike but for their numbers.

    Commands that ask for a column of times read such a sheet where that column is named.
    """
    alike = Counter(re.sub(r"\d+", "#", name) for name in names)
    if max(alike.values(), default=0) < MANY:
        return ""
    if "time" in options:
        return f". Is there a column for each home? Name the one of times: --time {names[0]}"
    return (
        ". Is there a column for each home or hour? A row for each reading is read, with columns such as home, time "
        f"and kw: in pandas, sheet.melt({names[0]!r}, var_name='home', value_name='kw')"
    )


def _meant(names: Sequence[str], name: str) -> str:
    close = difflib.get_close_matches(
        name.lower(), [other.lower() for other in names], 1, 0.7
    )
    return "".join(f" ({other}?)" for other in names if other.lower() in close)


def _named(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Every option that names a column, with its name."""
    for option in ("unit", "label"):
        if given.get(option):
            yield option, given[option]
    for option in ("target", "columns"):
        yield from ((option, name) for name in listed(given.get(option)))
    for option, spoken in (
        ("mean", "mean"),
        ("total", "sum"),
        ("variance", "variance"),
    ):
        yield from ((spoken, name) for name in given.get(option) or ())
    yield from _named_before_numbers(given)
    yield from _named_by_keys(given)


def _named_before_numbers(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """As in --share kw:3,inf; a range may be two times of day."""
    for option in ("share", "histogram", "cdf", "quantile", "between"):
        for text in given.get(option) or ():
            clocks = CLOCKS.fullmatch(text)
            if clocks is not None:
                yield option, clocks[1]
            elif ":" in text:
                yield option, text.rpartition(":")[0]


def _named_by_keys(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for text in given.get("by") or ():
        call = KEY.fullmatch(text)
        if call is not None:
            yield "by", call[2].partition(",")[0].strip()
        elif "=" in text:
            yield "by", text.partition("=")[0].strip()


def _has(names: Sequence[str], name: str) -> bool:
    return name in names or (
        "+" in name and all(part.strip() in names for part in name.split("+", 1))
    )


def _alike(names: Sequence[str], wanted: str) -> str | None:
    alike = [name for name in names if name.lower() == wanted.lower()]
    if wanted in names:
        return wanted
    if len(alike) == 1:
        return alike[0]
    return None


def _is_absent(path: Path) -> bool:
    """Whether a name that is neither a pattern nor a part of a file names nothing."""
    return not re.search(r"[*?#\[]", str(path)) and not path.exists()


def _header(path: Path, *, planned: bool) -> list[str] | None:
    """The names in a file of one's own that are found at once; None where an engine has to look."""
    kind = path.name.lower()
    if not kind.endswith((".csv", ".csv.gz", ".parquet")) or not path.is_file():
        if not planned and _is_absent(path):
            raise SourceError(f"{path}: cannot be read (no such file): check the path")
        return None
    if kind.endswith(".parquet"):
        import pyarrow as pa
        import pyarrow.parquet

        try:
            return list(pyarrow.parquet.read_schema(path).names)
        except (pa.ArrowException, OSError):  # the engine says what is wrong with it
            return None
    from gaussveil.engines.csv_files import column_names, read_head
    from gaussveil.engines.form import given_form
    from gaussveil.engines.location import Location

    return column_names(
        read_head(str(path), given_form(Location("csv", str(path)))).rows
    )
