"""Which arrays the kernel in C takes over: NumPy's where it was built, a GPU's where NVIDIA's driver is; unless off."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np
from array_api_compat import is_cupy_array, is_torch_array

from gaussveil.typing import Array

SWITCH = "GAUSSVEIL_COMPILED"  # 0: leave everything to the array libraries


def compiled_contour(threshold: Array, terms: int) -> ModuleType | None:
    """The integrals of losses with so many terms in C, or None where the array library does the work."""
    native = _native(threshold)
    fits = native is not None and (native.MOST_TERMS is None or terms <= native.MOST_TERMS)
    return native if fits and threshold.shape[0] else None


def compiled_reduction(cov: Array) -> ModuleType | None:
    """The reduction of such matrices in C, or None where the array library does the work."""
    native = _native(cov)
    fits = native is not None and cov.shape[-1] <= native.MOST_DIMENSIONS
    return native if fits and cov.shape[0] else None


def _native(array: Array) -> ModuleType | None:
    if os.environ.get(SWITCH) == "0":
        return None
    if isinstance(array, np.ndarray):
        return _module("gaussveil.spectrum.native.cpu")
    on_gpu = is_cupy_array(array) or (is_torch_array(array) and array.is_cuda)
    return _module("gaussveil.spectrum.native.gpu") if on_gpu else None


@cache
def _module(name: str) -> ModuleType | None:
    try:
        return import_module(name)
    except ImportError:  # not built, or no driver
        return None
