"""Reduced terms from outside: a caller's columns, checked, and those of a stored loss."""

from __future__ import annotations

from typing import Any

from gaussveil.errors import FormatError, ParameterError, ShapeError
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.selection import array_namespace
from gaussveil.typing import Array


def checked_columns(
    variance_gap: Any, multiplicity: Any, energy: Any
) -> tuple[Array, Array, Array]:
    """Copies of the columns of reduced terms, broadcast to one shape; refused where no pair has them."""
    gap = float_array("variance_gap", variance_gap)
    columns = [
        float_array(name, value, like=gap)
        for name, value in (("multiplicity", multiplicity), ("energy", energy))
    ]
    xp = array_namespace(gap)
    for name, column in zip(
        ("variance_gap", "multiplicity", "energy"), (gap, *columns)
    ):
        require_finite(name, column)
    try:
        gap, count, energies = xp.broadcast_arrays(gap, *columns)
    except (ValueError, RuntimeError):
        raise ShapeError(
            "'variance_gap', 'multiplicity' and 'energy' must broadcast to one shape."
        ) from None
    if gap.ndim < 1 or gap.shape[-1] < 1:
        raise ShapeError(
            "'variance_gap' must have shape (..., terms) with at least one term."
        )
    if not bool(xp.all(gap < 1)):
        raise ParameterError(
            "'variance_gap' must be < 1: X has variance 1 - variance_gap. Got a value >= 1."
        )
    if not bool(xp.all((count >= 0) & (energies >= 0))):
        raise ParameterError(
            "'multiplicity' and 'energy' must be >= 0. Got a negative value."
        )
    copies = [xp.asarray(column, copy=True) for column in (gap, count, energies)]
    return copies[0], copies[1], copies[2]


def stored_columns(record: Any) -> tuple[Any, Any, Any]:
    """The columns that a stored loss holds, as they were written."""
    if not isinstance(record, dict):
        raise FormatError(
            f"A stored privacy loss must be a JSON object. Got {type(record).__name__}."
        )
    waiting = list(record.values())
    while waiting:  # NumPy would take true for 1
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, bool) or not isinstance(value, int | float):
            raise FormatError(
                f"A stored privacy loss must hold numbers. Got {type(value).__name__}."
            )
    try:
        return record["variance_gap"], record["multiplicity"], record["energy"]
    except KeyError as missing:
        raise FormatError(f"A stored privacy loss needs the key {missing}.") from None
