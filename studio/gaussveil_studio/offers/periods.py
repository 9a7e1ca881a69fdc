"""What is hidden of each: everything, or what one month, week or day of theirs holds.

A period of somebody is a unit of its own: the rows of one are told by a name made of whose they are and when they were.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import require_columns

EVERYTHING = "everything"
PERIODS = {"one month": "%Y-%m", "one week": "%G-W%V", "one day": "%Y-%m-%d"}


def unit_of(order: Mapping[str, Any]) -> str:
    """Who is protected, by name: a column, or a period of whom it names."""
    unit: str = order["unit"]
    if is_whole(order):
        return unit
    return f"{unit} in {order['period']}"


def is_whole(order: Mapping[str, Any]) -> bool:
    """Whether everything of each is hidden."""
    return bool(order.get("period", EVERYTHING) == EVERYTHING)


def with_periods(schema: pa.Schema, order: Mapping[str, Any], time: str) -> pa.Schema:
    """The schema with the column that names the periods; refused where they cannot be told or would be too few."""
    if is_whole(order):
        return schema
    if order.get("people"):
        raise ParameterError(
            "an account that is kept for people pays for all that is known of them: leave these people empty, and take "
            "an account that is for periods of them"
        )
    require_columns(schema, [order["unit"], *([time] if time else [])])
    if not time or not pa.types.is_temporal(schema.field(time).type):
        raise SchemaError("periods need a column of times, and the table has none")
    if unit_of(order) in schema.names:
        raise SchemaError(
            "the table has a column that is called as the periods would be: give it another name"
        )
    return schema.append(pa.field(unit_of(order), pa.string()))


def by_periods(source: Source, order: Mapping[str, Any], time: str) -> Source:
    """The table with the column that names the periods."""
    if is_whole(order):
        return source
    wanted = [order["unit"], time, order.get("column"), order.get("by_column")]
    found = source.table(list(dict.fromkeys(name for name in wanted if name)))
    whose = pc.cast(found[order["unit"]], pa.string())
    when = pc.strftime(found[time], format=PERIODS[order["period"]])
    return as_source(
        found.append_column(
            unit_of(order), pc.binary_join_element_wise(whose, when, " in ")
        )
    )
