"""Records for estimators: features and target out of arrays, frames and Sources, and the public rule of clipping."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, column_or_1d, validate_data

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.statistics import Source
from gaussveil.statistics.block import plain, require_columns
from gaussveil.typing import Floats

# How messages of NumPy and scikit-learn begin that quote what they could not use, and what is said instead.
_QUOTING = {
    "could not convert": "a cell could not be read as a number: only numbers are supported",
    "Complex data": "Complex data not supported: only real numbers are",
    "Expected 2D array": "Expected 2D array, got another one. Reshape your data: one row per record",
    "setting an array element": "rows must be of the same length and hold numbers only",
}


def features_and_target(estimator: Any, X: Any, y: Any, target: str) -> tuple[Floats, NDArray[Any]]:
    """Rows of features as float64, missing ones as NaN, and the target beside them, for scikit-learn's `fit`.

    From a `Source` the column `target` is the target and every other column of the view, but the privacy unit, is a
    feature; the table is read into memory.
    """
    if isinstance(X, Source):
        if y is not None:
            raise SchemaError("y must be a column of the Source, not an array beside it: name it as target.")
        return _from_source(estimator, X, target)
    if y is None:
        raise ParameterError(
            f"requires y to be passed, but the target y is None: {type(estimator).__name__} is supervised."
        )
    with _no_values_quoted("X"):
        rows = validate_data(estimator, X, dtype=np.float64, ensure_all_finite=False)
    # a missing label is left out later: refusing it would tell of one record
    with _no_values_quoted("y"):
        labels = check_array(y, dtype=None, ensure_2d=False, ensure_all_finite=False, input_name="y")
        check_consistent_length(rows, labels)
        return rows, column_or_1d(labels, warn=True)


def _from_source(estimator: Any, source: Source, target: str) -> tuple[Floats, NDArray[Any]]:
    names = [name for name in source.view.columns if name not in (target, source.view.unit)]
    require_columns(source.schema, [target])
    if not names:
        raise SchemaError("the Source must have at least one column of features beside the target.")
    for name in names:
        kind = source.schema.field(name).type
        if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
            raise SchemaError(f"the feature {name!r} must be a column of numbers. Got {kind}.")
    if source.rows_per_unit != 1:
        raise SchemaError("one row per privacy unit is protected here. Bound the Source to max_rows 1.")
    table = pa.Table.from_batches(
        list(source.batches([*names, target])),
        schema=pa.schema([source.schema.field(name) for name in (*names, target)]),
    )
    source.watch.check(source.fingerprint())
    columns = [_numbers(table.column(name)) for name in names]
    labels = table.column(target)
    numeric = pa.types.is_integer(labels.type) or pa.types.is_floating(labels.type)
    values = _numbers(labels) if numeric else np.asarray(plain(labels.combine_chunks()).to_pylist(), dtype=object)
    estimator.n_features_in_, estimator.feature_names_in_ = len(names), np.asarray(names, dtype=object)
    return np.stack(columns, axis=1), values


def _numbers(column: pa.ChunkedArray) -> Floats:
    return np.asarray(column.cast(pa.float64()).fill_null(float("nan")).to_numpy())


def new_rows(estimator: Any, X: Any) -> Floats:
    """Rows to predict for, a missing feature counting as 0."""
    with _no_values_quoted("X"):
        rows = validate_data(estimator, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan")
    return np.asarray(np.nan_to_num(rows))


def numeric_target(labels: NDArray[Any]) -> Floats:
    """Labels as numbers."""
    with _no_values_quoted("y"):
        return np.asarray(labels, dtype=np.float64)


@contextmanager
def _no_values_quoted(name: str) -> Iterator[None]:
    """Our error for what other libraries refuse, and our words where theirs quote cells or whole arrays."""
    try:
        yield
    except ValueError as error:
        words = next((words for sign, words in _QUOTING.items() if sign in str(error)), None)
        raise SchemaError(f"{words} (in {name})" if words else str(error)) from None


def clipped_rows(rows: Floats, row_norm: float) -> Floats:
    """Each row scaled down to `row_norm` if it is longer: record by record, known without the data."""
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    safe = np.where(largest > 0, largest, 1.0)  # squares of huge numbers overflow, of tiny ones vanish
    length = safe * np.sqrt(np.sum((rows / safe) ** 2, axis=1, keepdims=True))
    limit = row_norm * (1 - (rows.shape[1] + 8) * 2.0**-52)
    return np.asarray(rows / safe * np.minimum(safe, limit * (safe / np.where(length > 0, length, 1.0))))
