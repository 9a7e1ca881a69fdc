"""What callers may pass: lists, integers, float32 and any array-API array become float64 arrays, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from gaussveil.errors import InputError, NotFiniteError, ParameterError
from gaussveil.spectrum.selection import array_namespace

Array = Any


def float_array(name: str, value: Any, like: Array | None = None) -> Array:
    """`value` as a float64 array, on the namespace and device of `like` unless it already is an array elsewhere."""
    if is_array_api_obj(value) and not isinstance(value, np.ndarray | np.generic):
        xp = array_namespace(value)
        return xp.astype(value, xp.float64, copy=False)
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "fiu":
            raise TypeError
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError):
        raise InputError(
            f"'{name}' must be an array of real numbers. Got {type(value).__name__} that is not one."
        ) from None
    if like is None or isinstance(like, np.ndarray):
        return array
    xp = array_namespace(like)
    return xp.asarray(array, dtype=xp.float64, device=like.device)


def require_finite(name: str, array: Array) -> None:
    """Refuse NaN and infinities."""
    xp = array_namespace(array)
    if not bool(xp.all(xp.isfinite(array))):
        raise NotFiniteError(f"'{name}' must be finite. Got NaN or infinity; remove or impute such entries first.")


def epsilon_array(epsilon: Any, like: Array) -> Array:
    """A privacy parameter epsilon >= 0."""
    array = float_array("epsilon", epsilon, like)
    require_finite("epsilon", array)
    if not bool(array_namespace(array).all(array >= 0)):
        raise ParameterError("'epsilon' must be >= 0. Got a negative value.")
    return array


def probability_array(name: str, value: Any, like: Array) -> Array:
    """A probability in [0, 1]."""
    array = float_array(name, value, like)
    if not bool(array_namespace(array).all((array >= 0) & (array <= 1))):
        raise ParameterError(f"'{name}' must lie in [0, 1]. Got a value outside, or NaN.")
    return array
