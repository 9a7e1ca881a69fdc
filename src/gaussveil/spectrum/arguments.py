"""What callers may pass: lists, integers, float32 and any array-API array become float64 arrays, or a clear error."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import is_array_api_obj

from gaussveil.errors import InputError, NotFiniteError, ParameterError, ShapeError
from gaussveil.spectrum.selection import array_namespace, every
from gaussveil.typing import Array


def float_array(name: str, value: Any, like: Array | None = None) -> Array:
    """`value` as a float64 array, on the namespace and device of `like` unless it already is an array elsewhere."""
    recognised = type(value) is float or (
        type(value) is np.ndarray and value.dtype == np.float64
    )
    if recognised and (like is None or type(like) is np.ndarray):  # as nearly always
        return np.asarray(value)
    if is_array_api_obj(value) and not isinstance(value, np.ndarray | np.generic):
        return _in_its_namespace(name, value, like)
    array = _in_numpy(name, value)
    if like is None or isinstance(like, np.ndarray):
        return array
    xp = array_namespace(like)
    return xp.asarray(array, dtype=xp.float64, device=like.device)


def _in_its_namespace(name: str, value: Any, like: Array | None) -> Array:
    """An array of another library as float64, where it is."""
    if like is None:
        xp = array_namespace(value)
    else:
        xp = array_namespace(value, like)
    if "sparse" in str(getattr(value, "layout", "")):
        raise InputError(
            f"'{name}' must be dense. Got a sparse tensor; pass its to_dense()."
        )
    if getattr(value, "requires_grad", False):
        raise InputError(
            f"'{name}' must carry no gradient. Got a tensor that requires one; pass its detach()."
        )
    if not xp.isdtype(value.dtype, ("real floating", "integral")):
        raise InputError(
            f"'{name}' must be an array of real numbers. Got dtype {value.dtype}."
        )
    return xp.astype(value, xp.float64, copy=False)


def _in_numpy(name: str, value: Any) -> Array:
    """Numbers, lists and arrays of NumPy as float64."""
    if isinstance(
        value, np.ma.MaskedArray
    ):  # NumPy would drop the mask and take what lies under it
        raise InputError(f"'{name}' must not be masked: fill what is missing first.")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ShapeError(
            f"'{name}' must be rectangular: every row of the same length."
        ) from None
    if array.dtype.kind not in "fiu":
        raise InputError(
            f"'{name}' must be an array of real numbers. Got {type(value).__name__} that is not one."
        )
    return array.astype(np.float64, copy=False)


def require_finite(name: str, array: Array) -> None:
    """Refuse NaN and infinities."""
    if not every(array_namespace(array).isfinite(array)):
        raise NotFiniteError(
            f"'{name}' must be finite. Got NaN or infinity; remove or impute such entries first."
        )


def epsilon_array(epsilon: Any, like: Array) -> Array:
    """A privacy parameter epsilon >= 0."""
    array = float_array("epsilon", epsilon, like)
    if not every((array >= 0) & (array < np.inf)):
        require_finite("epsilon", array)
        raise ParameterError("'epsilon' must be >= 0. Got a negative value.")
    return array


def probability_array(name: str, value: Any, like: Array) -> Array:
    """A probability in [0, 1]."""
    array = float_array(name, value, like)
    if not bool(array_namespace(array).all((array >= 0) & (array <= 1))):
        raise ParameterError(
            f"'{name}' must lie in [0, 1]. Got a value outside, or NaN."
        )
    return array
