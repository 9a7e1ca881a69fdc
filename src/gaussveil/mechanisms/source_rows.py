"""Where the order of rows matters: a Source as a table sorted by public columns.

Sums do not care about the order of rows, and a folder, a database or a cluster has none. A mechanism that releases the
rows themselves therefore asks for an `order`: columns that are public, are not released, and tell every two rows apart.
Among equal keys private values would decide the order, and neighbours could lie further apart than was promised.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from gaussveil.containers import FOUND_IN_OBJECTS, form_notes
from gaussveil.errors import ParameterError, SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def ordered_table(value: Any, order: Sequence[str]) -> Any:
    """The value itself or, of a Source, the columns beside `order` as an Arrow table of floats, sorted by `order`."""
    if not is_source(value):
        if order:
            raise ParameterError(
                "order is for a Source only: the rows of an array or a frame have their own."
            )
        return value
    if isinstance(order, str) or not order:
        raise ParameterError(
            "order must be a list of public columns that decide the order of the rows: a Source has none by itself."
        )
    return sorted_columns(value, order, leave_out=order)


def ordered_vector(name: str, value: Any, order: Sequence[str]) -> Any:
    """The same where one vector is asked for: of a Source, the one column beside `order` as an array."""
    table = ordered_table(value, order)
    if table is value:
        return value
    if table.num_columns != 1:
        raise ParameterError(
            f"{name} must be one column beside the order: select it first. Got {table.num_columns} columns."
        )
    return table.column(0).to_numpy()


def sorted_columns(
    source: Any, order: Sequence[str], leave_out: Sequence[str] = ()
) -> pa.Table:
    """The columns of a Source that are not left out, as floats sorted by `order`; what is left out must be a key."""
    import pyarrow as pa

    from gaussveil.statistics.block import floats, require_columns, require_numbers

    require_columns(source.schema, order)
    order = tuple(dict.fromkeys(order))
    leave_out = tuple(dict.fromkeys(leave_out))
    names = [name for name in source.schema.names if name not in leave_out]
    if not names:
        raise SchemaError("the table holds no columns of numbers beside the order.")
    require_numbers(source.schema, names)
    found = source.table([*names, *leave_out], order=order)
    keys = pa.table({name: _comparable(found[name]) for name in leave_out})
    if any(column.null_count for column in keys.columns):
        raise SchemaError(
            "a column of the order has missing values: rows need a public order."
        )
    if leave_out and len(keys.group_by(keys.column_names).aggregate([])) != len(found):
        raise SchemaError(
            "two rows agree in all columns of the order: name columns that tell every two rows apart."
        )
    try:
        kept = {name: floats(found[name].combine_chunks()) for name in names}
        return pa.table(kept, metadata=found.schema.metadata)
    except pa.ArrowInvalid:  # its words quote a value
        raise ParameterError(
            "integer values must be at most 2^53. Clip them by a public rule first."
        ) from None


def form_assumption(read: Any) -> str:
    """What a guarantee assumes of a table whose form nobody wrote down; nothing of one with a pinned form."""
    return assumed_form(form_notes(read).found)


def assumed_form(found: tuple[str, ...]) -> str:
    """The same of what of a form nobody wrote down."""
    if not found:
        return ""
    if found == (FOUND_IN_OBJECTS,):
        place = "frame"
    else:
        place = "file"
    return f"the form was read off the {place}: an assumption is that it is public ({', '.join(found)})"


def _comparable(key: pa.ChunkedArray) -> pa.ChunkedArray:
    """Keys as a sort sees them: to it -0.0 and 0.0 are equal, to Arrow's groups they are not."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(key.type):
        return pc.add(key, pa.scalar(0, key.type))
    return key


def is_source(value: Any) -> bool:
    """Whether this is a Source; before their module is loaded nothing is, and a gateway never loads it."""
    module = sys.modules.get("gaussveil.statistics.source")
    return module is not None and isinstance(value, module.Source)
