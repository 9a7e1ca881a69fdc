"""What a column's type is called in refusals, and whether anybody but the cells said it.

A type that was found in private cells carries a mark: whole numbers become doubles there by a single fraction, so
nothing is refused to the one that the other is given, and no refusal tells them apart.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa

_FOUND = {b"gaussveil: type": b"found in cells"}


def with_found_types(schema: pa.Schema, names: Iterable[str]) -> pa.Schema:
    """The same columns, of which these bear the mark that their types were found in cells."""
    marked = set(names)
    fields = [
        field.with_metadata(_FOUND) if field.name in marked else field
        for field in schema
    ]
    return pa.schema(fields, schema.metadata)


def is_found(field: pa.Field) -> bool:
    """Whether the type of a column was found in cells."""
    return (field.metadata or {}).items() >= _FOUND.items()


def holds(kind: pa.DataType) -> str:
    """What a column of this type holds, in words that no cell of it decides."""
    types = pa.types
    if types.is_dictionary(kind):
        kind = kind.value_type
    if types.is_boolean(kind):
        return "truth values"
    if types.is_integer(kind) or types.is_floating(kind) or types.is_decimal(kind):
        return "numbers"
    if types.is_date(kind):
        return "days"
    if types.is_timestamp(kind):
        return "times with a zone" if kind.tz else "times"
    if str(kind) in ("string", "large_string", "string_view"):
        return "text"
    return str(kind)
