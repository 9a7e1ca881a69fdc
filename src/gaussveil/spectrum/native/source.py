"""The sources of the kernel, the number that names them, and the jobs that it reads."""

from __future__ import annotations

import ctypes
import hashlib
from functools import cache
from pathlib import Path
from typing import ClassVar

FOLDER = Path(__file__).parent


@cache
def source() -> str:
    """kernel.c with what it includes in its place."""
    text = (FOLDER / "kernel.c").read_text(encoding="utf-8")
    for name in ("formulas.h", "proofs.h", "steps.h"):
        text = text.replace(
            f'#include "{name}"', (FOLDER / name).read_text(encoding="utf-8")
        )
    return text


def revision() -> str:
    """A number that changes with the sources."""
    return hashlib.sha256(source().encode()).hexdigest()[:16]


class Integrals(ctypes.Structure):
    """A batch of integrals as kernel.c reads it."""

    _fields_: ClassVar = [
        *(
            (name, ctypes.c_void_p)
            for name in ("gap", "log_ratio", "multiplicity", "energy", "threshold")
        ),
        *((name, ctypes.c_void_p) for name in ("log_value", "slope", "log_error")),
        *((name, ctypes.c_longlong) for name in ("rows", "stride")),
        *((name, ctypes.c_int) for name in ("terms", "tail")),
        *((name, ctypes.c_double) for name in ("pole", "direction")),
    ]


class GradientIntegrals(ctypes.Structure):
    """A batch of integrals for gradients as kernel.c reads it."""

    _fields_: ClassVar = [
        *(
            (name, ctypes.c_void_p)
            for name in ("gap", "log_ratio", "multiplicity", "energy", "threshold")
        ),
        *(
            (name, ctypes.c_void_p)
            for name in ("log_value", "first", "plain", "tilted", "settled")
        ),
        ("rows", ctypes.c_longlong),
        *((name, ctypes.c_int) for name in ("terms", "parts")),
    ]


class Reductions(ctypes.Structure):
    """A batch of pairs of matrices as kernel.c reads it."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in ("mean_x", "cov_x", "mean_y", "cov_y")),
        *((name, ctypes.c_void_p) for name in ("gap", "log_ratio", "mean_gap")),
        *((name, ctypes.c_void_p) for name in ("strain", "left")),
        ("rows", ctypes.c_longlong),
        ("size", ctypes.c_int),
    ]


class Hyperbolas(ctypes.Structure):
    """A contour of one loss as kernel.c reads it."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in ("gap", "number", "shift", "found")),
        ("terms", ctypes.c_longlong),
        *(
            (name, ctypes.c_double)
            for name in (
                "slope",
                "size",
                "flat",
                "level",
                "c",
                "width",
                "limit",
                "goal",
            )
        ),
    ]


class Diagonalisers(ctypes.Structure):
    """Pairs of matrices with what should make both diagonal, as proofs.h reads it."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in ("mean_x", "cov_x", "mean_y", "cov_y")),
        *((name, ctypes.c_void_p) for name in ("scale", "rows", "rows_low")),
        *((name, ctypes.c_void_p) for name in ("found", "gram", "gap")),
        *((name, ctypes.c_longlong) for name in ("pairs", "size")),
    ]


class Turns(ctypes.Structure):
    """Products of matrices that are sums of two doubles, as proofs.h reads it."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in ("change", "change_low")),
        *((name, ctypes.c_void_p) for name in ("rows", "rows_low")),
        *((name, ctypes.c_longlong) for name in ("pairs", "size")),
    ]


STEP_NUMBERS = (
    *(
        "noise",
        "rate",
        "replace",
        "backward",
        "log_rest",
        "knee",
        "edge",
        "cap",
        "first",
        "order",
    ),
    *(
        "low_cap",
        "tilt",
        "missing",
        "between",
        "peak",
        "epsilon",
        "log_delta",
        "steps",
        "digits",
        "ending",
    ),
    *("negligible", "start", "reach"),
)


class StepSums(ctypes.Structure):
    """Columns of points, and numbers, of a step as steps.h reads them; each entry reads those that it names."""

    _fields_: ClassVar = [
        *((name, ctypes.c_void_p) for name in ("points", "orders", "found")),
        *((name, ctypes.c_longlong) for name in ("rows", "size", "count")),
        *((name, ctypes.c_double) for name in STEP_NUMBERS),
    ]
