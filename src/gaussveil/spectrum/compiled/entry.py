"""Compilation: helpers on first use, entry points once per machine, kept in numba's cache."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Callable
from types import CodeType, ModuleType
from typing import Any, TypeVar, cast

from numba import float64, njit, types

Function = TypeVar("Function", bound=Callable[..., Any])

# 1/0 is infinite, as in NumPy; other threads may run meanwhile.
OPTIONS: dict[str, Any] = {"error_model": "numpy", "nogil": True}
# Any strides, and read-only arrays too, so that each entry point is compiled for exactly one signature.
Numbers = types.Array(float64, 1, "A", readonly=True)
Table = types.Array(float64, 2, "A", readonly=True)
Tables = types.Array(float64, 3, "A", readonly=True)


def compiled(function: Function) -> Function:
    """The function, compiled when an entry point that calls it is."""
    return cast(Function, njit(function, **OPTIONS))


def revision_of(*modules: ModuleType) -> int:
    """A number that changes with functions and constants: numba's cache looks only at the file of the entry point.

    Taken from what was loaded, not from the files: those may be newer than this process, and their number must not
    name older code in a cache that all processes share.
    """
    text = []
    for module in modules:
        for name, value in sorted(vars(module).items()):
            function = getattr(value, "py_func", value)
            if inspect.isfunction(function):
                text.append(f"{name} {_described(function.__code__)}")
            elif isinstance(value, int | float | tuple):
                text.append(f"{name} {value!r}")
    return int(hashlib.sha256("\n".join(text).encode()).hexdigest()[:15], 16)


def _described(code: CodeType) -> str:
    constants = [_described(part) if isinstance(part, CodeType) else repr(part) for part in code.co_consts]
    return f"{code.co_code.hex()} {code.co_names} {code.co_varnames} {code.co_freevars} {constants}"


def entry_point(signature: Any, function: Function) -> Function:
    """The function compiled for the signature, from the cache where it is there already.

    Without any folder for a cache every process would compile anew, for longer than most of them run: no such module.
    """
    try:
        return cast(Function, njit(signature, cache=True, **OPTIONS)(function))
    except (RuntimeError, OSError) as reason:
        raise ImportError(f"numba finds no folder for compiled code; NUMBA_CACHE_DIR can name one ({reason})") from None
