"""What a mixture is fitted to: which columns are features, which classes are public, whose records count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.statistics import Labels, Source, as_source
from gaussveil.statistics.block import is_number


@dataclass(frozen=True)
class Records:
    """A source, its feature columns, its label column (None without labels) and the public classes."""

    source: Source
    columns: tuple[str, ...]
    label: str | None
    classes: tuple[Any, ...]
    classes_declared: bool

    @property
    def group(self) -> Labels | None:
        """How records are grouped, where they have labels."""
        return None if self.label is None else Labels(self.label, self.classes)


def read_records(
    data: Any,
    labels: Any,
    *,
    classes: Sequence[Any] | int | None,
    columns: Sequence[str] | None,
    privacy_unit: str | None,
    max_rows_per_unit: int | None,
) -> Records:
    """Accept arrays, frames and Sources; refuse what the schema shows to be wrong, before anything is spent.

    `labels` is an array beside the data, the name of a column, or None.
    """
    if hasattr(data, "toarray"):
        raise SchemaError("sparse input is not supported: pass a dense array, a frame or a Source.")
    beside = None if labels is None or isinstance(labels, str) else _label_array(labels)
    source = as_source(data, label=beside)
    label = "label" if beside is not None else labels
    names = source.schema.names
    features = tuple(columns or (name for name in names if name not in (label, privacy_unit)))
    if not features:
        raise ShapeError(
            "X must have at least one feature column. Found 0 feature(s) while a minimum of 1 is required."
        )
    for name in (*features, *(one for one in (label, privacy_unit) if one is not None)):
        if names.count(name) != 1:
            raise SchemaError(f"column {name!r} is missing or not unique; the table has {', '.join(names)}.")
    for name in features:
        kind = source.schema.field(name).type
        if not is_number(kind):
            raise SchemaError(f"column {name!r} must hold numbers. Got {kind}: convert it or leave it out of columns.")
    public, declared = _public_classes(classes, beside, label)
    kept = [*features, *(one for one in (label, privacy_unit) if one is not None and one not in features)]
    source = source.select(kept)
    if (privacy_unit is None) != (max_rows_per_unit is None):
        raise ParameterError("privacy_unit and max_rows_per_unit go together: give both or neither.")
    if privacy_unit is not None and max_rows_per_unit is not None:
        source = source.bounded(privacy_unit, max_rows_per_unit)
    records = Records(source, features, label, public, declared)
    if records.group is not None:
        records.group.value_set(source.schema.field(records.group.column).type)  # refuses labels of another type
    return records


def _label_array(labels: Any) -> NDArray[Any]:
    array = np.asarray(labels)
    if array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array.ndim != 1:
        raise ShapeError(f"y must be one label per row. Got {array.ndim} dimensions.")
    if array.dtype == object and all(isinstance(value, str) for value in array.tolist()):
        array = array.astype(str)
    if array.dtype.kind not in "biufU":
        raise SchemaError(f"y must hold numbers or text, one type for all. Got dtype {array.dtype}.")
    return array


def _public_classes(
    classes: Sequence[Any] | int | None, beside: NDArray[Any] | None, label: str | None
) -> tuple[tuple[Any, ...], bool]:
    if isinstance(classes, int | np.integer) and not isinstance(classes, bool):
        if label is not None:
            raise ParameterError("classes must be the list of labels where there are labels. Got a number instead.")
        if classes < 1:
            raise ParameterError(f"classes must be at least 1. Got {classes} instead.")
        return tuple(range(int(classes))), True
    if classes is not None:
        listed = tuple(np.asarray(classes).tolist()) if not isinstance(classes, str) else ()
        if not listed or len(set(listed)) != len(listed):
            raise ParameterError("classes must be a nonempty list of distinct labels.")
        return listed, True
    if beside is None:
        where = "labels in a column" if label is not None else "no labels"
        raise ParameterError(f"classes must be given with {where}: the classes are public and are never looked up.")
    found = np.unique(beside[np.isfinite(beside)] if beside.dtype.kind == "f" else beside)
    if len(found) == 0:
        raise ParameterError("classes must be given: y holds none.")
    return tuple(found.tolist()), False
