"""What a mixture is fitted to: which columns are features, which classes are public, whose records count."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.exceptions import DataConversionWarning

from gaussveil.containers import uncoerced
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.mechanisms.records import cells_as_numbers
from gaussveil.statistics import Labels, Reader, Source, as_source
from gaussveil.statistics.block import numbers, require_columns, require_numbers
from gaussveil.statistics.unit import Unit
from gaussveil.typing import Floats, Integers

NO_LABEL = "\ue000 no label"  # a private character of Unicode: nobody names a class so


@dataclass(frozen=True)
class ClassedRecords:
    """A source, its feature columns, its label column (None without labels) and the public classes."""

    source: Source
    columns: tuple[str, ...]
    label: str | None
    classes: tuple[Any, ...]
    classes_declared: bool

    @property
    def group(self) -> Labels | None:
        """How records are grouped, where they have labels."""
        if self.label is None:
            return None
        return Labels(self.label, self.classes)

    def features_and_codes(self) -> tuple[Floats, Integers]:
        """Records with complete features, and the indices of their classes, -1 where a label is none of them."""
        if self.group is None:
            raise ParameterError("requires y to be passed, but the target y is None.")
        reader = Reader(self.columns, self.group)
        reader.check(self.source.schema)
        rows = [np.empty((len(self.columns), 0))]
        codes = [np.empty(0, dtype=np.int64)]
        for batch in self.source.batches(reader.needed):
            values = np.stack(
                [
                    numbers(batch.column(name)).astype(np.float64)
                    for name in self.columns
                ]
            )
            finite = np.isfinite(values).all(axis=0)
            rows.append(values[:, finite])
            codes.append(self.group.codes(batch.column(self.group.column))[finite])
        return np.concatenate(rows, axis=1).T, np.concatenate(codes)


def read_records(
    data: Any,
    labels: Any,
    *,
    classes: Sequence[Any] | int | None,
    columns: Sequence[str] | None,
    unit: Any = None,
    rows_per_unit: int | None = None,
) -> ClassedRecords:
    """Accept arrays, frames and Sources; refuse what the schema shows to be wrong, before anything is spent.

    `labels` is an array beside the data, the name of a column, or None. `unit` may be an array beside the data too.
    """
    if hasattr(data, "toarray"):
        raise SchemaError(
            "sparse input is not supported: pass a dense array, a frame or a Source."
        )
    data = _plain_array(data)
    beside = None
    label = labels
    if labels is not None and not isinstance(labels, str):
        beside = _label_array(labels, classes)
        label = "label"
    bound = Unit.of(unit, rows_per_unit)
    source = as_source(data, label=beside)
    protected = source.view.unit
    if bound is not None:
        source = bound.beside(source)
        protected = bound.column
    aside = [name for name in (label, protected) if name is not None]
    features = tuple(columns or _others(source.schema.names, aside))
    if not features:
        raise ShapeError(
            "X has 0 feature(s) (shape=(, 0)) while a minimum of 1 is required."
        )
    require_columns(source.schema, [*features, *aside])
    require_numbers(source.schema, features)
    public, declared = _public_classes(classes, beside, label)
    chosen = _chosen_rows(source, [*features, *_others(aside, features)], bound)
    records = ClassedRecords(chosen, features, label, public, declared)
    if records.group is not None:
        # refuses labels of another type
        records.group.value_set(chosen.schema.field(records.group.column).type)
    return records


def _chosen_rows(source: Source, columns: Sequence[str], bound: Unit | None) -> Source:
    """The columns that are read, and of each unit as many rows as it may have."""
    # else rows were chosen already, by all columns
    if source.view.unit is None and source.view.rate is None:
        source = source.select(columns)
    if bound is not None:
        return source.bounded(bound.column, bound.rows)
    return source


def _others(names: Sequence[str], left_out: Sequence[str]) -> list[str]:
    return [name for name in names if name not in left_out]


def classes_from_words(
    schema: pa.Schema, label: str, words: Sequence[str]
) -> list[Any]:
    """Declared classes, written as text, in the label column's own type."""
    if label not in schema.names:
        raise SchemaError(
            f"column {label!r} is missing; the table has {', '.join(schema.names)}."
        )
    kind = schema.field(label).type
    try:
        classes: list[Any] = (
            pa.array(words)
            .cast(kind.value_type if pa.types.is_dictionary(kind) else kind)
            .to_pylist()
        )
    except pa.ArrowException:
        raise SchemaError(
            f"the classes cannot be read as {kind}, the type of column {label!r}"
        ) from None
    return classes


def _holds_rows(array: NDArray[Any]) -> bool:
    return any(isinstance(row, list | tuple) for row in array)


def _plain_array(data: Any) -> Any:
    """A list or array of objects as one of numbers, what is none missing, not refused; others as they are."""
    if isinstance(data, Source) or hasattr(data, "__arrow_c_stream__"):
        return data
    array = uncoerced(data)
    if array.dtype == object and array.ndim == 1 and _holds_rows(array):
        raise ShapeError("X must be rectangular: every row of the same length.")
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported: X must hold real numbers.")
    # One cell may have made a list text; whoever hands over an array of text has told its type.
    if array.dtype.kind in ("O" if array is data else "OUS"):
        array = cells_as_numbers(array)
    if array.ndim != 2:
        raise ShapeError(
            f"X must be a table of rows and columns. Got {array.ndim} dimensions: Reshape your data."
        )
    return array


def _is_whole(array: NDArray[Any]) -> bool:
    return bool(np.equal(np.floor(array), array)[np.isfinite(array)].all())


def _of_label_type(
    array: NDArray[Any], classes: Sequence[Any] | int | None
) -> NDArray[Any]:
    """Objects in the type of the classes, or of their own; text as numbers where the classes are numbers."""
    if array.dtype == object:
        if classes is None:
            return _of_one_type(array)
        return _of_the_classes_type(array, classes)
    if array.dtype.kind != "U":
        return array
    listed = np.asarray(classes)
    if listed.ndim == 1 and listed.dtype.kind in "biuf":
        # one text among numbers made an array of text of them
        return cells_as_numbers(array)
    return array


def _label_array(labels: Any, classes: Sequence[Any] | int | None) -> NDArray[Any]:
    array = uncoerced(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected.",
            DataConversionWarning,
            stacklevel=4,
        )
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"y must be one label per row. Got {array.ndim} dimensions.")
    array = _of_label_type(array, classes)
    if array.dtype.kind == "c":
        raise SchemaError("Complex data not supported: y must hold labels.")
    if classes is None and array.dtype.kind == "f" and not _is_whole(array):
        raise SchemaError(
            "Unknown label type: continuous. Give the list of classes if these are labels."
        )
    if array.dtype.kind not in "biufU":
        raise SchemaError(
            f"Unknown label type: y must hold numbers or text of one type. Got dtype {array.dtype}."
        )
    return array


def _of_one_type(labels: NDArray[Any]) -> NDArray[Any]:
    """Objects as text or numbers, a missing one as `NO_LABEL` or NaN: it is left out, since a refusal would tell of it.

    Objects of several types stay objects.
    """
    try:
        column = pa.array(labels, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return labels
    if pa.types.is_string(column.type):
        return np.asarray(
            column.fill_null(NO_LABEL).to_numpy(zero_copy_only=False), dtype=str
        )
    if pa.types.is_boolean(column.type) and column.null_count:
        column = column.cast(pa.float64())
    return np.asarray(column.to_numpy(zero_copy_only=False))


def _of_the_classes_type(
    labels: NDArray[Any], classes: Sequence[Any] | int
) -> NDArray[Any]:
    """Objects as text or numbers, whichever the public classes are; one of another type, or missing, is no label."""
    if np.asarray(classes).dtype.kind == "U":
        return np.array(
            [label if isinstance(label, str) else NO_LABEL for label in labels],
            dtype=str,
        )
    return cells_as_numbers(
        np.array(
            [one if isinstance(one, Real) else None for one in labels], dtype=object
        )
    )


def _public_classes(
    classes: Sequence[Any] | int | None, beside: NDArray[Any] | None, label: str | None
) -> tuple[tuple[Any, ...], bool]:
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        return _numbered_classes(int(classes), label), True
    if classes is not None:
        return _listed_classes(classes), True
    if beside is None:
        if label is None:
            raise ParameterError(
                "requires y to be passed, but the target y is None. Without labels, give the number of classes."
            )
        raise ParameterError(
            "classes must be given with labels in a column: they are public and are never looked up."
        )
    if beside.dtype.kind == "f":
        beside = beside[np.isfinite(beside)]
    elif beside.dtype.kind == "U":
        beside = beside[beside != NO_LABEL]
    labels = np.unique(beside)
    if len(labels) == 0:
        raise ParameterError("classes must be given: y holds none.")
    return tuple(labels.tolist()), False


def _numbered_classes(count: int, label: str | None) -> tuple[int, ...]:
    if label is not None:
        raise ParameterError(
            "classes must be the list of labels where there are labels. Got a number."
        )
    if count < 1:
        raise ParameterError(f"classes must be at least 1. Got {count}.")
    return tuple(range(count))


def _listed_classes(classes: Any) -> tuple[Any, ...]:
    listed: tuple[Any, ...] = ()
    if not isinstance(classes, str):
        listed = tuple(np.asarray(classes).tolist())
    if not listed or len(set(listed)) != len(listed) or NO_LABEL in listed:
        raise ParameterError("classes must be a nonempty list of distinct labels.")
    return listed
