"""Whether the compiled kernel is at hand: NumPy arrays, numba installed (extra `fast`), and not switched off."""

from __future__ import annotations

import os
from functools import cache
from importlib import import_module
from types import ModuleType

import numpy as np

from gaussveil.typing import Array

SWITCH = "GAUSSVEIL_COMPILED"  # 0: leave everything to the array libraries


def compiled_contour(array: Array) -> ModuleType | None:
    """The compiled integrals for such an array, or None where the array library does the work."""
    return _compiled("contour_rows") if _wanted(array) else None


def compiled_reduction(array: Array) -> ModuleType | None:
    """The compiled reduction of matrices for such an array, or None where the array library does the work."""
    return _compiled("matrix_rows") if _wanted(array) else None


def _wanted(array: Array) -> bool:
    return isinstance(array, np.ndarray) and os.environ.get(SWITCH) != "0"


@cache
def _compiled(name: str) -> ModuleType | None:
    try:
        return import_module(f"gaussveil.spectrum.compiled.{name}")
    except ImportError:  # numba is absent, does not go with this NumPy, or has no folder for its cache
        return None
