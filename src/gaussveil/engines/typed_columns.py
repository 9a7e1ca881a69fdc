"""Columns of tables that have types of their own, in the words of a form, and columns without any cell.

What such a table holds as text may be said to be something else: its cells then go through the map of all cells.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

import pyarrow as pa

from gaussveil.engines.cell_map import (
    LINES,
    held,
    mapped,
    quoted,
    schema_of,
    value,
)
from gaussveil.engines.dialect import KINDS, NOTHING, ColumnForm, Dialect
from gaussveil.engines.form import Given, require_known
from gaussveil.errors import SchemaError

_ALSO = {("whole", "number"), ("whole", "text")}
"""What a column may be said to hold beside what its type says."""
_WORDS: tuple[tuple[Callable[[pa.DataType], bool], str], ...] = (
    (pa.types.is_boolean, "truth"),
    (pa.types.is_integer, "whole"),
    (pa.types.is_floating, "number"),
    (pa.types.is_decimal, "number"),
    (pa.types.is_date, "date"),
    (pa.types.is_timestamp, "time"),
    (pa.types.is_string, "text"),
    (pa.types.is_large_string, "text"),
    (pa.types.is_string_view, "text"),
)
Typed = TypeVar("Typed", pa.Schema, pa.RecordBatch)


def word_of(kind: pa.DataType) -> str:
    """What a column of this type holds, in the words of a form."""
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if pa.types.is_timestamp(kind) and kind.tz:
        return "instant"
    for is_one, word in _WORDS:
        if is_one(kind):
            return word
    return str(kind)


def stored_form(schema: pa.Schema, given: Given) -> Dialect:
    """The form of a table that has types of its own: nothing of it is found in its cells.

    Raises:
        SchemaError: a column is said to hold what its type cannot; names and types are public.
    """
    form = given.pinned or replace(given.about, missing=given.missing)
    if given.decimal:
        form = replace(form, decimal=given.decimal)
    stated = {column.name: column for column in form.columns}
    require_known(list(given.types), schema.names, "types")
    stated |= {name: given.column(ColumnForm(name, "VARCHAR")) for name in given.types}
    require_known(list(stated), schema.names, "the form")
    columns = [_stored_column(field, stated.get(field.name)) for field in schema]
    return replace(form, columns=tuple(columns))


def _stored_column(field: pa.Field, said: ColumnForm | None) -> ColumnForm:
    """A column by its own type, or by what was said of it where that fits."""
    stored = word_of(field.type)
    own = ColumnForm(field.name, KINDS.get(stored, stored))
    if said is None:
        return own
    fits = stored == "text" or said.word == stored or (stored, said.word) in _ALSO
    if not fits:
        raise SchemaError(
            f"the form says that {field.name!r} holds {said.word}; in the table it holds {stored}."
        )
    if stored == "text" or said.word == "text":
        return said
    return replace(own, missing=said.missing)


def is_read_from_text(name: str, form: Dialect, stored: pa.Schema | None) -> bool:
    """Whether cells of a column are text that is read as something else; without a stored schema all cells are text."""
    kind = next(
        (column.kind for column in form.columns if column.name == name), "VARCHAR"
    )
    text = stored is None or word_of(stored.field(name).type) == "text"
    return text and kind != "VARCHAR"


def stored_rows(table: str, schema: pa.Schema, form: Dialect, *, collated: bool) -> str:
    """SQL of a table with types of its own: marks of missing cells are missing, text is read as the form says.

    Text of a database has no collation here: that is another notion of equality, and two units would be one to the
    engine, and two to everybody else.
    """
    kinds = {field.name: word_of(field.type) for field in schema}
    changed = []
    for column in form.columns:
        if column.name in kinds:
            cell = quoted(column.name)
            made = _stored_value(column, kinds[column.name], form, collated)
            changed += [f"{made} AS {cell}"] if made != cell else []
    if changed:
        return f"(SELECT * REPLACE ({', '.join(changed)}) FROM {table})"
    return table


def _stored_value(
    column: ColumnForm, stored: str, form: Dialect, collated: bool
) -> str:
    """SQL of one cell."""
    cell = quoted(column.name)
    marks = (*form.missing, *column.missing)
    if stored == "text" and column.kind != "VARCHAR":
        return value(column, form)
    if stored == "text":
        bare = f"decode(encode(CAST({cell} AS VARCHAR)))" if collated else cell
        return held(bare, True, marks, f"trim({bare})" if marks else None)
    if column.kind == "VARCHAR":
        text = f"CAST({cell} AS VARCHAR)"
        return held(text, True, marks, text if marks else None)
    if stored in ("whole", "number"):
        return held(cell, False, marks)
    return cell


def as_said(table: pa.Table, given: Given) -> pa.Table:
    """A table that was read at once, as its form says; its rows in their order."""
    form = stored_form(table.schema, given)
    query = stored_rows(LINES, table.schema, form, collated=False)
    if query == LINES:
        return table
    schema = schema_of(query, table.schema)
    return pa.Table.from_batches(
        mapped(iter(table.to_batches()), query, schema), schema
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
