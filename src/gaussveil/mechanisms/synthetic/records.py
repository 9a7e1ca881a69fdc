"""What a synthetic table reads: columns with their public ranges and values, and the rows of the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.synthetic.budget import MOST_CLASSES, MOST_VALUES, SHORT_RANGE
from gaussveil.postprocessing.synthetic.columns import (
    Column,
    column_of,
    number_of,
    spelled_clock,
)
from gaussveil.statistics import Labels, Source, as_source
from gaussveil.statistics.block import plain, require_columns
from gaussveil.statistics.unit import Unit
from gaussveil.typing import Integers

SHORTEST_SERIES = 3  # columns


@dataclass(frozen=True, eq=False)
class TableRecords:
    """A source and what is public of its columns; of numbers without a range it is learnt, of values they are found."""

    source: Source
    columns: tuple[Column, ...]
    label: str | None
    series: tuple[tuple[str, ...], ...] = ()
    """Names of columns that are one quantity at successive times."""

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns but the label."""
        return tuple(one for one in self.columns if one.name != self.label)

    @property
    def most_classes(self) -> int:
        """The number of the label's values, 1 without a label; a bound of it where they have to be found."""
        (found,) = [one.values for one in self.columns if one.name == self.label] or [
            (None,)
        ]
        if found is None:
            return MOST_CLASSES
        return len(found)

    @property
    def searched(self) -> tuple[Column, ...]:
        """Columns of numbers whose cells have to be looked for."""
        return tuple(
            one for one in self.features if not one.is_category and not is_short(one)
        )

    @property
    def finding(self) -> tuple[Column, ...]:
        """Categories whose values have to be found."""
        return tuple(
            one for one in self.columns if one.is_category and one.values is None
        )

    def read(self) -> dict[str, Any]:
        """The columns: numbers, or categories as Arrow has them. Private."""
        table = self.source.table([one.name for one in self.columns])
        whole = {
            one.name: plain(_one_chunk(table.column(one.name))) for one in self.columns
        }
        return {
            one.name: whole[one.name]
            if one.is_category
            else one.numbers(whole[one.name])
            for one in self.columns
        }

    def counted_values(
        self, column: Column, cells: pa.Array
    ) -> tuple[pa.Array, Integers]:
        """Values of a column, and how many units have each; private, both of them."""
        unit = self.source.view.unit
        if unit is not None:
            return self.source.units_per_value(
                unit, column.name, self.source.rows_per_unit
            )
        encoded = cells.drop_null().dictionary_encode()
        places = encoded.indices.to_numpy(zero_copy_only=False)
        return encoded.dictionary, np.bincount(
            places, minlength=len(encoded.dictionary)
        ).astype(np.int64)


def is_short(column: Column) -> bool:
    """Whether every whole number of the range is a cell."""
    if not column.is_whole or column.low is None or column.high is None:
        return False
    return column.high - column.low < SHORT_RANGE


def place_of(column: Column, cells: pa.Array) -> Integers:
    """Place of every cell among the public values of its column, -1 of a missing or unlisted one."""
    if not column.values:
        return np.full(len(cells), -1, dtype=np.int64)
    if not column.others:
        return Labels(column.name, column.values).codes(cells)
    if len(column.values) > 1:
        found = Labels(column.name, column.values[:-1]).codes(cells)
    else:
        found = np.full(len(cells), -1)
    known = cells.is_valid().to_numpy(zero_copy_only=False)
    return np.where((found < 0) & known, len(column.values) - 1, found).astype(np.int64)


def read_table(
    data: Any,
    *,
    columns: Sequence[str] | None,
    between: Mapping[str, Any] | None,
    values: Mapping[str, Sequence[Any]] | None,
    bounds: str | None,
    label: str | None,
    unit: Any,
    rows_per_unit: int | None,
    series: Sequence[str] | None = None,
) -> TableRecords:
    """Accept frames and Sources; refuse what the schema shows to be wrong, before anything is read or spent."""
    bound = Unit.of(unit, rows_per_unit)
    source = as_source(data)
    protected = source.view.unit
    if bound is not None:
        source = bound.beside(source)
        protected = bound.column
    if bounds not in (None, "auto"):
        raise ParameterError(
            f"bounds must be 'auto', to learn ranges and values, or None. Got {bounds!r}."
        )
    between = dict(between or {})
    values = dict(values or {})
    names = _asked_names(source, columns, protected, label, (*between, *values))
    made = tuple(
        _described(source.schema.field(name), between, values) for name in names
    )
    _require_known(made, bounds, label)
    followed = series_of(made, series, label)
    if source.view.unit is None and source.view.rate is None:
        aside = [] if bound is None else [bound.column]
        source = source.select([*names, *aside])
    if bound is not None:
        source = source.bounded(bound.column, bound.rows)
    return TableRecords(source, made, label, followed)


def series_of(
    columns: Sequence[Column], patterns: Sequence[str] | None, label: str | None
) -> tuple[tuple[str, ...], ...]:
    """Names, in the order of the table, that match each pattern; refused where they are no series of numbers."""
    if isinstance(patterns, str):
        patterns = [patterns]
    made: list[tuple[str, ...]] = []
    for pattern in patterns or ():
        matching = [one for one in columns if fnmatchcase(one.name, pattern)]
        names = tuple(one.name for one in matching)
        if len(names) < SHORTEST_SERIES:
            raise ParameterError(
                f"series must name at least {SHORTEST_SERIES} columns, such as 'h*'. {pattern!r} names {len(names)}."
            )
        odd = [one.name for one in matching if one.is_category or one.name == label]
        if odd:
            raise ParameterError(
                f"columns of a series must be numbers, dates or times beside the label. {pattern!r} names {odd[0]!r}."
            )
        if any(set(names) & set(other) for other in made):
            raise ParameterError(
                f"a column may belong to one series only. {pattern!r} names one of another."
            )
        made.append(names)
    return tuple(made)


def _asked_names(
    source: Source,
    columns: Sequence[str] | None,
    protected: str | None,
    label: str | None,
    described: Sequence[str],
) -> list[str]:
    """The columns to be synthesised, the label's among them; refused where one is missing, or names people."""
    if columns is not None:
        names = list(columns)
    else:
        names = [name for name in source.schema.names if name != protected]
    labels = [] if label is None else [label]
    require_columns(source.schema, [*names, *described, *labels])
    if protected in names:
        raise SchemaError(
            f"the unit {protected!r} cannot be a column of the synthetic table: it names people."
        )
    if label is not None and label not in names:
        names.append(label)
    if len(set(names)) != len(names) or set(names) <= {label}:
        raise SchemaError(
            "columns must name at least one column beside the label, each once."
        )
    return names


def _described(
    field: pa.Field, between: Mapping[str, Any], values: Mapping[str, Sequence[Any]]
) -> Column:
    column = column_of(field.name, field.type)
    if column.name in values:
        if column.name in between:
            raise ParameterError(
                f"column {column.name!r} must have a range or a list of values, not both."
            )
        return _listed(column, tuple(values[column.name]), field)
    if column.name not in between:
        return column
    given = between[column.name]
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != 2:
        raise ParameterError(
            f"the range of {column.name!r} must be two numbers, low and high. Got {given!r}."
        )
    column = spelled_clock(column, given)
    if column.is_category:
        raise ParameterError(
            f"column {column.name!r} holds {field.type}: list its values instead of a range, or give two times of day."
        )
    low, high = (number_of(column, end) for end in given)
    if column.is_whole:
        low = float(np.ceil(low))
        high = float(np.floor(high))
    if not low < high:
        raise ParameterError(
            f"the range of {column.name!r} must go from low to high. Got {given!r}."
        )
    return replace(column, low=low, high=high)


def _listed(column: Column, values: tuple[Any, ...], field: pa.Field) -> Column:
    if not values or len(values) > MOST_VALUES:
        raise ParameterError(
            f"values of {column.name!r} must be a list of 1 to {MOST_VALUES}. Got {len(values)}."
        )
    Labels(column.name, values).value_set(field.type)
    return replace(column, kind="category", values=values)


def _require_known(
    columns: Sequence[Column], bounds: str | None, label: str | None
) -> None:
    for column in columns:
        if column.name == label:
            _check_label(column)
    if bounds is not None:
        return
    wanted = []
    unknown = [
        column.name
        for column in columns
        if not column.is_category and column.low is None
    ]
    unlisted = [
        column.name
        for column in columns
        if column.is_category and column.values is None
    ]
    if unknown:
        wanted.append(f"a range for {', '.join(unknown)}")
    if unlisted:
        wanted.append(f"values for {', '.join(unlisted)}")
    if wanted:
        raise ParameterError(
            f"bounds must be 'auto', to learn them inside the budget, or give {' and '.join(wanted)} "
            "(between={'age': (0, 120)}, values={'ward': ['A', 'B']})."
        )


def _check_label(column: Column) -> None:
    """Refuse a label that is a number of many, or has too many values."""
    label = column.name
    if not column.is_category:
        raise ParameterError(
            f"the label {label!r} holds {column.type}: list its values, of which there are few (values={{{label!r}: "
            "[0, 1]})."
        )
    if column.values is not None and not 1 <= len(column.values) <= MOST_CLASSES:
        raise ParameterError(
            f"the label {label!r} must have 1 to {MOST_CLASSES} values. Got {len(column.values)}: leave the label out."
        )


def _one_chunk(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.Array):
        return whole
    return pa.concat_arrays(whole.chunks)
