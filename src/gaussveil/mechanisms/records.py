"""Records for estimators: features and target out of arrays, frames and Sources, and the public rules for bad ones.

Refusals depend on shapes and types alone. A cell that is no number is a missing one, and a record with a missing cell
is left out by its estimator; of each unit one row is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import (
    check_array,
    check_consistent_length,
    column_or_1d,
    validate_data,
)

from gaussveil.containers import cell_numbers, uncoerced
from gaussveil.errors import GaussveilError, ParameterError, SchemaError
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import (
    is_number,
    numbers,
    plain,
    require_columns,
    require_numbers,
)
from gaussveil.statistics.row_hash import BOUND_KEY, hash_rows
from gaussveil.statistics.unit import BESIDE, unit_of
from gaussveil.typing import Floats

# How messages of NumPy and scikit-learn begin that quote what they could not use, and what is said instead.
_QUOTING = {
    "Complex data": "Complex data not supported: only real numbers are",
    "Expected 2D array": "Expected 2D array, got another one. Reshape your data: one row per record",
    "inconsistent numbers of samples": "X and y have inconsistent numbers of samples",
    "1d array, got an array of shape": "y should be a 1d array, got one of another shape",
    "feature(s) (shape=": "X must have at least one feature. Got 0 feature(s)",
    "setting an array element": "rows must be of the same length and hold numbers only",
}


@dataclass(frozen=True, eq=False, repr=False)
class Records:
    """Rows of features and one number of each as target, both NaN where missing; what one unit is called."""

    rows: Floats
    target: Floats
    unit: str

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any,
        *,
        read_target: Callable[[NDArray[Any]], Floats] | None = None,
    ) -> Records:
        """What `fit` was given, one row of each of the estimator's `unit`s; `read_target` turns labels into numbers.

        Of a `Source` the column `estimator.target` is the target and every other column of the view, but the unit, is a
        feature; the table is read into memory.
        """
        read = read_target or cells_as_numbers
        if isinstance(X, Source):
            if y is not None:
                raise SchemaError(
                    "y must be a column of the Source, not an array beside it: name it as target."
                )
            return cls._of_source(estimator, X, read)
        if y is None:
            raise ParameterError(
                f"requires y to be passed, but the target y is None: {type(estimator).__name__} fits."
            )
        X, unit = unit_apart(X, estimator.unit)
        with no_values_quoted("X"):
            given = validate_data(
                estimator,
                as_cells(X),
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
            )
        with no_values_quoted("y"):
            labels = check_array(
                as_cells(y),
                dtype=None,
                ensure_2d=False,
                ensure_all_finite=False,
                ensure_min_samples=0,
            )
            check_consistent_length(given, labels)
            made = cls(
                cells_as_numbers(given), read(column_or_1d(labels, warn=True)), "row"
            )
        if unit is None:
            return made
        return made._one_of_each(unit, estimator.unit)

    @classmethod
    def _of_source(
        cls, estimator: Any, source: Source, read: Callable[[NDArray[Any]], Floats]
    ) -> Records:
        source = as_source(
            source,
            unit=estimator.unit,
            rows_per_unit=None if estimator.unit is None else 1,
        )
        target = estimator.target
        names = [
            name
            for name in source.view.columns
            if name not in (target, source.view.unit)
        ]
        require_columns(source.schema, [target])
        if not names:
            raise SchemaError(
                "the Source must have at least one column of features beside the target."
            )
        require_numbers(source.schema, names)
        if source.rows_per_unit != 1:
            raise SchemaError(
                f"rows_per_unit must be 1 here. Got a Source bounded to {source.rows_per_unit}."
            )
        table = source.table([*names, target])
        labels = plain(table.column(target).combine_chunks())
        if is_number(labels.type):
            values = numbers(labels)
        else:
            values = np.asarray(labels.to_pylist(), dtype=object)
        estimator.n_features_in_, estimator.feature_names_in_ = (
            len(names),
            np.asarray(names, dtype=object),
        )
        return cls(_columns(table, names), read(values), unit_of(source))

    def _one_of_each(self, unit: Any, name: Any) -> Records:
        columns = {f"x{j}": column for j, column in enumerate(self.rows.T)} | {
            "y": self.target
        }
        source = as_source(pa.table(columns), unit=unit, rows_per_unit=1)
        kept = source.table([*columns])
        rows = _columns(kept, [*columns])
        return Records(
            rows[:, :-1], rows[:, -1], name if isinstance(name, str) else BESIDE
        )

    def usable(self) -> Records:
        """The records without a missing or infinite number."""
        return self[np.all(np.isfinite(self.rows), axis=1) & np.isfinite(self.target)]

    def first(self, count: int) -> Records:
        """At most so many records, those of the smallest public hash, in the hash's order."""
        columns = [
            pa.array(np.ascontiguousarray(column))
            for column in (*self.rows.T, self.target)
        ]
        return self[np.argsort(hash_rows(columns, BOUND_KEY), kind="stable")[:count]]

    def __getitem__(self, chosen: NDArray[Any]) -> Records:
        return Records(self.rows[chosen], self.target[chosen], self.unit)


def new_rows(estimator: Any, X: Any) -> Floats:
    """Rows to predict for, a missing feature counting as 0."""
    with no_values_quoted("X"):
        rows = validate_data(
            estimator, X, reset=False, dtype=None, ensure_all_finite=False
        )
        return np.asarray(np.nan_to_num(cells_as_numbers(rows)))


def cells_as_numbers(values: NDArray[Any]) -> Floats:
    """Cells as numbers; one that is none is missing. Text is read, since a single cell makes a list one of text."""
    if values.dtype.kind in "biuf":
        return np.asarray(values, dtype=np.float64)
    if values.dtype.kind not in "OUS":
        raise SchemaError(
            f"only numbers are supported. Got cells of type {values.dtype}."
        )
    return cell_numbers(values)


def as_cells(given: Any) -> Any:
    """A list or series as an array in which no cell changes what others are; whatever else as it is."""
    if isinstance(given, list | tuple) or type(given).__name__ == "Series":
        return uncoerced(given)
    return given


def clipped_rows(rows: Floats, row_norm: float) -> Floats:
    """Each row scaled down to `row_norm` if it is longer: record by record, known without the data."""
    largest = np.max(np.abs(rows), axis=1, keepdims=True, initial=0.0)
    safe = np.where(
        largest > 0, largest, 1.0
    )  # squares of huge numbers overflow, of tiny ones vanish
    length = safe * np.sqrt(np.sum((rows / safe) ** 2, axis=1, keepdims=True))
    limit = row_norm * (1 - (rows.shape[1] + 8) * 2.0**-52)
    return np.asarray(
        rows
        / safe
        * np.minimum(safe, limit * (safe / np.where(length > 0, length, 1.0)))
    )


def _columns(table: pa.Table, names: list[str]) -> Floats:
    return np.stack(
        [
            numbers(table.column(name).combine_chunks()).astype(np.float64)
            for name in names
        ],
        axis=1,
    )


def unit_apart(X: Any, unit: Any) -> tuple[Any, Any]:
    """The features without the unit's column, and the identifiers."""
    if not isinstance(unit, str):
        return X, unit
    if unit not in getattr(X, "columns", ()):
        raise SchemaError(
            f"unit must be a column of X, or one identifier per row. X has no column {unit!r}."
        )
    rest = [name for name in X.columns if name != unit]
    return X[rest], X[unit]


@contextmanager
def no_values_quoted(name: str) -> Iterator[None]:
    """Our error for what other libraries refuse, and our words where theirs quote cells or whole arrays."""
    try:
        yield
    except GaussveilError:
        raise
    except ValueError as error:
        words = next(
            (words for sign, words in _QUOTING.items() if sign in str(error)), None
        )
        raise SchemaError(f"{words} (in {name})" if words else str(error)) from None
