"""The kernel in C for NumPy arrays: kernel.c, built with the package (hatch_build.py), called pair by pair.

Importing fails where it was not built, or was built from other sources than those beside it: `acceleration` then leaves
the work to the array libraries.
"""

from __future__ import annotations

import ctypes

import numpy as np

from gaussveil.spectrum.native import source
from gaussveil.spectrum.native.source import (
    FOLDER,
    Diagonalisers,
    GradientIntegrals,
    Hyperbolas,
    Integrals,
    Reductions,
    Turns,
    revision,
)
from gaussveil.spectrum.rules import Region
from gaussveil.spectrum.terms import Terms
from gaussveil.typing import Array

MOST_TERMS = None  # any number of terms
MOST_DIMENSIONS = 64  # above it LAPACK's blocked algorithms win


def _library() -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(FOLDER / "kernel.so"))
    except OSError as missing:
        raise ImportError(f"the compiled kernel is not at hand: {missing}") from None
    library.gaussveil_revision.restype = ctypes.c_char_p
    if library.gaussveil_revision().decode() != revision():
        raise ImportError(
            "the compiled kernel was built from other sources; `make native` builds it anew"
        )
    return library


_LIBRARY = _library()
_STEP_NUMBERS = frozenset(source.STEP_NUMBERS)
_NO_ORDERS = np.zeros(0)


def log_hockey_stick(terms: Terms, threshold: Array) -> Array:
    """`contour.log_hockey_stick`: rows of values, slopes and errors."""
    return _integrals(terms, threshold, False, 0.0, 0.0)


def integrate(terms: Terms, threshold: Array, region: Region) -> Array:
    """`contour.integrate` for regions next to their only pole."""
    (pole,) = region.poles
    return _integrals(terms, threshold, True, pole, region.direction)


def _integrals(
    terms: Terms, threshold: Array, tail: bool, pole: float, direction: float
) -> Array:
    integrals = np.empty((3, threshold.shape[0]))
    columns = [np.ascontiguousarray(column) for column in (*terms.columns(), threshold)]
    rows, count = columns[0].shape
    *inputs, first = _places(*columns, integrals)
    outputs = range(first, first + integrals.nbytes, integrals.strides[0])
    if rows > 1:
        steps = count
    else:
        steps = 0
    job = Integrals(
        *inputs, *outputs, threshold.shape[0], steps, count, tail, pole, direction
    )
    _run(_LIBRARY.gaussveil_integrals, job)
    return integrals


def moments(terms: Terms, threshold: Array, parts: int) -> list[Array]:
    """log delta, J, C0 and C1 of `gradient._moments_of`, by the first rule that settles or the last."""
    columns = [np.ascontiguousarray(column) for column in (*terms.columns(), threshold)]
    rows, count = columns[0].shape
    size = count // parts
    arrays = [
        np.empty(shape)
        for shape in ((rows,), (rows, count), *[(rows, parts, size, size)] * 2)
    ]
    settled = np.empty(rows, dtype=np.bool_)
    job = GradientIntegrals(*_places(*columns, *arrays, settled), rows, count, parts)
    _run(_LIBRARY.gaussveil_moments, job)
    return arrays


def reduce_rows(*matrices: Array) -> tuple[Array, ...]:
    """Variance gaps, logs of variance ratios, mean gaps, strains, and a mask of the rows that are left alone."""
    inputs = [np.ascontiguousarray(matrix) for matrix in matrices]
    rows, size = inputs[0].shape
    columns = tuple(np.empty((rows, size)) for _ in range(3))
    reduced = (*columns, np.empty(rows), np.empty(rows, dtype=np.bool_))
    places = _places(*inputs, *reduced)
    _run(_LIBRARY.gaussveil_reductions, Reductions(*places, rows, size))
    return reduced


def hyperbola(columns: tuple[Array, Array, Array], *numbers: float) -> list[float]:
    """A trapezoid rule: b, rho, angle, half its strip, step, last node, error; its sum, rounding, level (proofs.h)."""
    inputs = [np.ascontiguousarray(column) for column in columns]
    rule = np.empty(11)
    job = Hyperbolas(*_places(*inputs, rule), len(inputs[0]), *numbers)
    _run(_LIBRARY.gaussveil_hyperbola, job)
    return rule.tolist()


def diagonalise(*columns: Array) -> tuple[Array, Array, Array]:
    """Of means, covariances, scales and rows of T (two doubles), what T makes of each pair.

    First gaps and means as hi, lo, error, then the residuals' two norms and their errors; then M2 - I; then N.
    """
    inputs = [np.ascontiguousarray(column) for column in columns]
    pairs, size = inputs[0].shape
    found = np.empty((pairs, 6 * size + 4))
    gram = np.empty((pairs, size, size))
    gap = np.empty((pairs, size, size))
    places = _places(*inputs, found, gram, gap)
    _run(_LIBRARY.gaussveil_diagonalisers, Diagonalisers(*places, pairs, size))
    return found, gram, gap


def turn(change: Array, change_low: Array, rows: Array, rows_low: Array) -> None:
    """Put the product of both sums of two doubles, `change` from the left, in the place of the rows."""
    changes = [np.ascontiguousarray(part) for part in (change, change_low)]
    pairs, size, _ = change.shape
    places = _places(*changes, rows, rows_low)
    _run(_LIBRARY.gaussveil_turns, Turns(*places, pairs, size))


def step_sums(
    entry: str,
    points: Array,
    count: int,
    rows: int,
    *,
    orders: Array = _NO_ORDERS,
    **numbers: float,
) -> Array:
    """Rows of numbers that an entry of steps.h finds from rows of points, orders, and numbers by their names."""
    if not numbers.keys() <= _STEP_NUMBERS:
        raise TypeError(f"steps.h knows no {sorted(numbers.keys() - _STEP_NUMBERS)}")
    points = np.ascontiguousarray(points)
    orders = np.ascontiguousarray(orders)
    answer = np.empty((rows, count))
    job = source.StepSums(
        *_places(points, orders, answer), *points.shape, count, **numbers
    )
    _run(_LIBRARY[f"gaussveil_{entry}"], job)
    return answer


def _places(*arrays: Array) -> list[int]:
    """Where arrays lie in memory, told faster than by their `ctypes`; a buffer must not be read-only or empty."""
    held = ctypes.c_char.from_buffer
    place = ctypes.addressof
    return [
        place(held(a))
        if a.flags.writeable and a.size
        else a.__array_interface__["data"][0]
        for a in arrays
    ]


def _run(entry: ctypes._FuncPointer, job: ctypes.Structure) -> None:
    if entry(ctypes.byref(job)):
        raise MemoryError("no memory is left for the terms of one loss")
