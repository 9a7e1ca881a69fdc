"""The frame of a table's answers: one row per group, in the library that the data came in."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.table.request import Request
from gaussveil.postprocessing.intervals import Interval
from gaussveil.statistics.key import Key


def answers_frame(
    request: Request,
    columns: Mapping[str, Interval],
    totals: bool,
    library: str,
    rows: int | None = None,
) -> Any:
    """Keys, then every answer with its deviation and interval; with totals a last row without keys."""
    keys = [key for key in request.keys.values() if isinstance(key, Key)]
    groups = list(itertools.product(*(key.values for key in keys)))[:rows]
    made = {
        name: pa.array([group[place] for group in groups] + [None] * totals)
        for place, name in enumerate(request.keys)
    }
    for name, one in columns.items():
        for ending, numbers in {
            "": one.value,
            "_sd": one.deviation,
            "_low": one.low,
            "_high": one.high,
        }.items():
            if name + ending in made:
                raise ParameterError(
                    f"keys and answers must make different columns. Got {name + ending!r} twice."
                )
            made[name + ending] = pa.array(numbers)
    table = pa.table(made)
    if library == "pandas":
        return table.to_pandas()
    if library == "polars":
        import polars

        return polars.from_arrow(table)
    return table
