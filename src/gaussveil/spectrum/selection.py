"""What the kernel needs of an array library, rows of a batch and contractions; and which arrays the one in C takes."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType
from typing import Any

import array_api_compat
import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from gaussveil.errors import InputError
from gaussveil.typing import Array

SWITCH = "GAUSSVEIL_COMPILED"  # 0: leave everything to the array libraries
_ANY = np.zeros(0)


def array_namespace(*arrays: Array) -> Any:
    """The array-API namespace of the arrays; NumPy's own, which conforms, without the cost of a wrapper."""
    for array in arrays:
        if not isinstance(array, (np.ndarray, np.generic)):
            break
    else:
        return np
    try:
        namespace = array_api_compat.array_namespace(*arrays)
    except TypeError:
        kinds = sorted(
            {
                f"{type(array).__module__.partition('.')[0]}.{type(array).__name__}"
                for array in arrays
            }
        )
        raise InputError(
            f"Arrays must all come from one library. Got {' and '.join(kinds)}."
        ) from None
    if (
        len(arrays) > 1
        and len(devices := {str(array.device) for array in arrays if array.ndim}) > 1
    ):
        raise InputError(
            f"Arrays must all lie on one device. Got {' and '.join(sorted(devices))}."
        )
    return namespace


def every(mask: Array) -> bool:
    """Whether a mask holds everywhere; of NumPy's arrays by their method, at half the cost of the function."""
    return bool(
        mask.all()
        if isinstance(mask, (np.ndarray, np.generic))
        else array_namespace(mask).all(mask)
    )


def where(mask: Array) -> Array:
    """Ascending indices at which a one-dimensional mask holds."""
    return array_namespace(mask).nonzero(mask)[0]


def take_rows(array: Array, index: Array) -> Array:
    """The rows of `array` that an ascending index array selects."""
    if index.shape[0] == array.shape[0]:
        return array
    return array_namespace(array).take(array, index, axis=0)


def put_rows(array: Array, index: Array, rows: Array) -> Array:
    """`array` with the rows at an ascending index array replaced."""
    xp = array_namespace(array)
    if index.shape[0] == 0:
        return array
    if index.shape[0] == array.shape[0]:
        return rows
    places = xp.arange(array.shape[0], dtype=index.dtype, device=index.device)
    source = xp.clip(xp.searchsorted(index, places), max=index.shape[0] - 1)
    chosen = xp.take(index, source) == places
    return xp.where(
        xp.reshape(chosen, (-1, *(1,) * (array.ndim - 1))),
        xp.take(rows, source, axis=0),
        array,
    )


def contract(weights: Array, values: Array) -> Array:
    """sum_i weights[b, i] values[b, i, n]: a matrix product where that is fastest, elementwise on devices."""
    xp = array_namespace(weights, values)
    if xp is np:
        return (weights[:, None, :] @ values)[:, 0, :]
    return xp.sum(weights[:, :, None] * values, axis=1)


def compiled_contour(threshold: Array, terms: int) -> ModuleType | None:
    """The integrals of losses with so many terms in C, or None where the array library does the work."""
    native = _native(threshold)
    fits = native is not None and (
        native.MOST_TERMS is None or terms <= native.MOST_TERMS
    )
    if fits and threshold.shape[0]:
        return native
    return None


def compiled_reduction(cov: Array) -> ModuleType | None:
    """The reduction of such matrices in C, or None where the array library does the work."""
    native = _native(cov)
    fits = native is not None and cov.shape[-1] <= native.MOST_DIMENSIONS
    if fits and cov.shape[0]:
        return native
    return None


def compiled_steps() -> ModuleType | None:
    """The sums over outputs of steps on random batches in C, or None where NumPy does the work."""
    return _native(_ANY)


def _native(array: Array) -> ModuleType | None:
    if os.environ.get(SWITCH) == "0":
        return None
    if isinstance(array, np.ndarray):
        return _module("gaussveil.spectrum.native.cpu")
    on_gpu = is_cupy_array(array) or (is_torch_array(array) and array.is_cuda)
    if on_gpu:
        return _module("gaussveil.spectrum.native.gpu")
    return None


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:  # not built, or no driver
        return None
