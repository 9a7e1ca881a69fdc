"""How a release reads its table: through the embedded engine, or as plain numbers from one file."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.errors import SourceError
from gaussveil.project_file import write_form
from gaussveil.report.number_files import ENDINGS, Numbers, read_numbers
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import is_number
from gaussveil_studio.forms import kept_form, place_of_form
from gaussveil_studio.shown import written

MOST_COLUMNS = 5000
# In English, German, French and Italian: what columns are called that name somebody, and those that tell when.
SOUNDS_LIKE_SOMEBODY = re.compile(
    r"\bid\b|_id\b|\b(id|nr|no|number|nummer|num[eé]ro|numero)$|household|haushalt|\bhomes?\b|meter|z[aä]e?hler|"
    r"patient|person|customer|kunde|client|participant|proband|subject|user|employee|mitarbeiter|pupil|student|"
    r"member|mitglied|insured|versicherte|m[eé]nage|compteur|utente|famiglia",
    re.IGNORECASE,
)
SOUNDS_LIKE_TIME = re.compile(
    r"^(date|time|datetime|timestamp|day|datum|zeit|zeitstempel|uhrzeit|heure|data|ora)\b",
    re.IGNORECASE,
)
SIGNS = {
    "%Y": "2024",
    "%y": "24",
    "%m": "12",
    "%d": "31",
    "%H": "23",
    "%M": "59",
    "%S": "58",
    "%f": "000",
    "%z": "+01:00",
}
SIGNS |= {"%b": "Dec", "%B": "December", "%I": "11", "%p": "PM", "%T": "23:59:58"}
SOUNDS_LIKE_READING = re.compile(
    r"(^|[^a-z])(kwh?|mwh|w|wh|power|load|reading|value|amount|consumption|energy|leistung|last|verbrauch|wert|betrag|"
    r"puissance|consommation|valeur|potenza|consumo|valore)($|[^a-z])",
    re.IGNORECASE,
)
LONGEST_HEADER = 1 << 20  # bytes that are looked at for their separators
HOUSEHOLD = "household"
READING = "reading"
FEWEST_HOMES = 8


def open_source(address: str) -> Source:
    """The table as a Source."""
    from gaussveil.engines import open as open_table

    if Path(address).suffix.lower() == ".npy":
        return as_source(read_plain(address).values)
    form = kept_form(address)
    if form is None:
        return open_table(address)
    return open_table(address, schema=form)


def keep_form(address: str) -> dict[str, Any]:
    """Keep the form that a table was found to have, for every release from now on."""
    place = place_of_form(address)
    table = open_source(address)
    dialect = getattr(table, "dialect", None)
    if place is None or dialect is None:
        raise SourceError(
            "the table says itself what its columns hold: there is no form to keep"
        )
    unit = proposed(table.schema)["unit"]
    form = replace(dialect.identified([unit] if unit else []), found=(), unclear=())
    place.unlink(missing_ok=True)
    write_form(place, "", form.toml())
    return {}


def schema_of(address: str) -> pa.Schema:
    """Columns and types, kept as long as the file stays as it is: a slider asks for them ten times a second."""
    return _seen(address)[0]


def _seen(address: str) -> tuple[pa.Schema, str, bool]:
    """The schema, how the file is written, and whether that was found in it; a wide text file takes its time."""
    known = written(address)
    if known:
        return _looked(address, *known)
    return _looked.__wrapped__(address)


@lru_cache(maxsize=16)
def _looked(address: str, *_written: int) -> tuple[pa.Schema, str, bool]:
    table = open_source(address)
    dialect = getattr(table, "dialect", None)
    return (
        table.schema,
        _spoken(dialect.words()) if dialect else "",
        bool(dialect and dialect.found),
    )


def _spoken(words: str) -> str:
    """How a file is written, with an example in place of the signs of its times."""
    for sign, example in SIGNS.items():
        words = words.replace(sign, example)
    return re.sub(r"'([^']*)'", r"“\1”", words)


def proposed(schema: pa.Schema) -> dict[str, str]:
    """Which columns probably name whose row it is, when, and how much; by names and types, which are public."""
    is_time = [one.name for one in schema if pa.types.is_temporal(one.type)]
    named = [one.name for one in schema if SOUNDS_LIKE_TIME.search(one.name)]
    texts = [
        one.name
        for one in schema
        if pa.types.is_string(one.type) or pa.types.is_large_string(one.type)
    ]
    whose = [
        one.name
        for one in schema
        if SOUNDS_LIKE_SOMEBODY.search(one.name) and one.name not in (*is_time, *named)
    ]
    units = (
        [name for name in whose if name in texts]
        or whose
        or [name for name in texts if name not in named]
    )
    numbers = [
        one.name
        for one in schema
        if is_number(one.type) and one.name not in (*whose, *named)
    ]
    times = is_time or named
    if rows_of(schema) is not None:  # a column for each home
        return {"unit": "", "time": times[0], "reading": ""}
    found = {"unit": units[:1], "time": times[:1], "reading": [reading_of(numbers)]}
    return {name: listed[0] if listed else "" for name, listed in found.items()}


def reading_of(numbers: list[str]) -> str:
    """Which column of numbers is the reading: the only one, or the only one that is called so; empty if none is."""
    called = [name for name in numbers if SOUNDS_LIKE_READING.search(name)]
    if len(numbers) == 1:
        likely = numbers
    else:
        likely = called
    if len(likely) == 1:
        return likely[0]
    return ""


def rows_of(schema: pa.Schema) -> pa.Schema | None:
    """Of times and a column of readings for every home: the same as rows; None of other tables."""
    times = [one for one in schema if pa.types.is_temporal(one.type)]
    fits = len(schema) > FEWEST_HOMES and all(
        is_number(one.type) for one in schema if one not in times
    )
    if len(times) != 1 or not fits or {HOUSEHOLD, READING} & {*schema.names}:
        return None
    return pa.schema([(HOUSEHOLD, pa.string()), times[0], (READING, pa.float64())])


def by_rows(source: Source) -> Source:
    """A row for each reading."""
    found = source.table()
    (time,) = (one.name for one in found.schema if pa.types.is_temporal(one.type))
    homes = [name for name in found.column_names if name != time]
    readings = pa.chunked_array(
        [
            part
            for home in homes
            for part in found[home].cast(pa.float64(), safe=False).chunks
        ]
    )
    times = pa.chunked_array(found[time].chunks * len(homes))
    return as_source(
        pa.table(
            [np.repeat(homes, len(found)), times, readings], [HOUSEHOLD, time, READING]
        )
    )


def read_plain(address: str) -> Numbers:
    """The numbers of one file, in its own order."""
    if (
        Path(address).suffix.lower() not in ENDINGS
        or "://" in address
        or "#" in address
    ):
        raise SourceError(
            f"a vector is read from one file that ends in {', '.join(ENDINGS)}"
        )
    return read_numbers(Path(address))


def require_narrow(address: str) -> None:
    """Refuse a text file of more columns than a form can show before anything looks at all of them."""
    if not address.lower().endswith(".csv") or "://" in address or "#" in address:
        return
    with open(address, "rb") as stream:
        header = stream.readline(LONGEST_HEADER)
    if (
        max(header.count(separator) for separator in (b",", b";", b"\t", b"|"))
        >= MOST_COLUMNS
    ):
        raise SourceError(
            f"the table has more than {MOST_COLUMNS} columns: keep those that the release needs"
        )


def describe_table(address: str) -> dict[str, Any]:
    """Columns and their types: the schema counts as public, the number of rows does not."""
    require_narrow(address)
    schema, form, guessed = _seen(address)
    columns, rows = (
        [{"name": field.name, "type": str(field.type)} for field in fields or ()]
        for fields in (schema, rows_of(schema))
    )
    known = {
        "written": form,
        "guessed": guessed,
        "kept": kept_form(address) is not None,
    }
    return {"columns": columns, "rows": rows, "proposed": proposed(schema), **known}
