"""What mechanisms accept: numbers, arrays in and arrays out, frames in and frames out with the same labels."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, ShapeError


def real_array(name: str, value: Any) -> NDArray[Any]:
    """The numbers of an array, list, or pandas or polars frame or series, in their own type; missing ones are NaN."""
    if isinstance(value, np.ma.MaskedArray):
        raise ParameterError(f"{name} must not be masked: fill what is missing by a public rule first.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(f"{name} must be rectangular: every row of the same length.") from None
    if array.dtype.kind not in "biuf":
        raise ParameterError(f"{name} must hold real numbers only. Got dtype {array.dtype} instead.")
    return array


def real_number(name: str, value: Any) -> float:
    """A parameter as a float; refuses text, arrays and truth values."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise ParameterError(f"{name} must be a real number. Got {type(value).__name__} instead.")
    return float(value)


def like(value: Any, numbers: NDArray[np.float64]) -> Any:
    """`numbers` in the container of `value`: a list, a pandas or polars frame or series, otherwise an array."""
    kind = type(value)
    library, name = kind.__module__.partition(".")[0], kind.__name__
    if kind is list:
        return numbers.tolist()
    if library == "pandas" and name == "DataFrame":
        return kind(numbers, index=value.index, columns=value.columns)
    if library == "pandas" and name == "Series":
        return kind(numbers, index=value.index, name=value.name)
    if library == "polars" and name == "DataFrame":
        return kind(numbers, schema=value.columns, orient="row")
    if library == "polars" and name == "Series":
        return kind(value.name, numbers)
    return numbers
