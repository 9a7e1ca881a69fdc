"""A release of a table tried without its rows, so that nothing which fails afterwards was paid for.

The draws are those of the release, of an empty table with the same columns and with noise that anyone can draw again.
Values of keys to be discovered are made up: once none shows, once some do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from gaussveil.mechanisms.table.draws import TableDraws
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import as_source

MADE_UP = 2  # values of a key to be discovered


@dataclass(repr=False, kw_only=True)
class RehearsedDraws(TableDraws):
    """Draws of an empty table, where the values of keys are given."""

    values: dict[str, list[Any]]

    def keys(self) -> dict[str, list[Any]]:
        """What was made up, after the draws that would find it."""
        super().keys()
        return self.values


def rehearsals(
    noise: TableNoise, schema: pa.Schema, names: Sequence[str]
) -> Iterator[TableDraws]:
    """Every course that the draws of a request may take, of the columns that it reads."""
    read = pa.schema([schema.field(name) for name in names], schema.metadata)
    source = as_source(read.empty_table())
    found = {
        name: _made_up(schema.field(key.column).type)
        for name, key in noise.request.discovered.items()
    }
    nothing: dict[str, list[Any]] = {name: [] for name in found}
    made: list[TableDraws] = [
        RehearsedDraws(
            source, noise, noise.mean_shift, SeededGenerator(0), values=values
        )
        for values in (nothing, found)
        if found
    ]
    for draws in made or [draws_of(noise, source, SeededGenerator(0))]:
        draws.prepare()
        yield draws


def _made_up(kind: pa.DataType) -> list[Any]:
    if pa.types.is_dictionary(kind):
        plain = kind.value_type
    else:
        plain = kind
    text = (
        pa.types.is_string(plain)
        or pa.types.is_large_string(plain)
        or pa.types.is_string_view(plain)
    )
    return [f"value {place}" if text else place for place in range(MADE_UP)]
