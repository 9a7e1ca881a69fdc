"""Columns of tables that have types of their own, in the words of a form, and columns without any cell."""

from __future__ import annotations

from typing import TypeVar

import pyarrow as pa

from gaussveil.engines.dialect import KINDS, NOTHING, Column, Dialect
from gaussveil.engines.form import Given
from gaussveil.errors import SchemaError

Typed = TypeVar("Typed", pa.Schema, pa.RecordBatch)


def word_of(kind: pa.DataType) -> str:
    """What a column of this type holds, in the words of a form."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return "truth"
    if types.is_integer(kind):
        return "whole"
    if types.is_floating(kind) or types.is_decimal(kind):
        return "number"
    if types.is_date(kind):
        return "date"
    if types.is_timestamp(kind):
        if kind.tz:
            return "instant"
        return "time"
    if (
        types.is_string(kind)
        or types.is_large_string(kind)
        or types.is_string_view(kind)
    ):
        return "text"
    return str(kind)


def stored_form(schema: pa.Schema, given: Given) -> Dialect:
    """The form of a table that has types of its own: nothing of it is found in its cells."""
    pinned = given.pinned or Dialect(missing=given.missing)
    own = {column.name: column.missing for column in pinned.columns}
    columns = []
    for field in schema:
        word = word_of(field.type)
        columns.append(
            Column(field.name, KINDS.get(word, word), None, own.get(field.name, ()))
        )
    return Dialect(columns=tuple(columns), missing=pinned.missing, unit=pinned.unit)


def require_stored(schema: pa.Schema, pinned: Dialect) -> None:
    """Refuse a table whose columns are not what its form says: names and types are public."""
    for column in pinned.columns:
        place = schema.get_field_index(column.name)
        if place < 0:
            stored = None
        else:
            stored = word_of(schema.field(place).type)
        if stored is None or column.word not in (
            stored,
            "number" if stored == "whole" else stored,
        ):
            raise SchemaError(
                f"the form says that {column.name!r} holds {column.word}; in the table it "
                f"{'is missing' if stored is None else f'holds {stored}'}."
            )


def without_cells(table: Typed, dialect: Dialect) -> Typed:
    """A table whose columns in which nobody has seen a cell have no type: they may be anything."""
    for column in dialect.columns:
        if isinstance(table, pa.Schema):
            schema = table
        else:
            schema = table.schema
        place = schema.get_field_index(column.name)
        if column.kind != NOTHING or place < 0:
            continue
        if isinstance(table, pa.Schema):
            table = table.set(place, pa.field(column.name, pa.null()))
        else:
            table = table.set_column(place, column.name, pa.nulls(table.num_rows))
    return table
