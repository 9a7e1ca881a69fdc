"""From an Arrow batch to blocks of finite numbers with group codes: where bad records are dropped.

The public rule, applied to each record by itself: a record with a null, NaN or infinite value in a column that is read,
or with a label outside the public list, is left out. Nobody is told how many.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import ArrayLike, NDArray

from gaussveil.errors import NotFiniteError, ParameterError, SchemaError, ShapeError
from gaussveil.statistics.column_types import holds
from gaussveil.typing import Floats

_BLOCK_ROWS = 2**12  # per group: a group's share of a block stays inside a core's cache
_MAX_BLOCK_ROWS = 2**16
EXACT = 2**53  # up to which a float holds every whole number
_EXACT_POWER = 22  # up to which it holds every power of ten


@dataclass(frozen=True, repr=False)
class Block:
    """Records as columns: ``values`` is d x n, finite, in either memory order; ``codes`` says each record's group."""

    values: Floats
    codes: NDArray[np.int64] | None = None
    groups: int = 1

    @property
    def rows(self) -> int:
        """Number of records."""
        return int(self.values.shape[1])

    def by_group(self) -> Iterator[tuple[int, Floats]]:
        """The values of every group that occurs. They may be overwritten: a block is used once."""
        if self.codes is None:
            yield 0, self.values
            return
        order = np.argsort(
            self.codes.astype(np.int16 if self.groups < 2**15 else np.int64),
            kind="stable",
        )  # radix sort
        ends = np.cumsum(np.bincount(self.codes, minlength=self.groups))
        by_record = bool(
            self.values.flags.f_contiguous
        )  # whole records are gathered faster than their columns
        if by_record:
            values = self.values.T
        else:
            values = np.ascontiguousarray(self.values)
        for group, (start, end) in enumerate(zip([0, *ends[:-1]], ends)):
            if end > start:
                part = np.take(values, order[start:end], axis=0 if by_record else 1)
                yield group, np.ascontiguousarray(part.T) if by_record else part


@dataclass(frozen=True)
class Labels:
    """Group records by a column with a public list of values; any other value means: left out."""

    column: str
    values: Sequence[object]

    def __post_init__(self) -> None:
        try:
            kind = self._plain().type
            distinct = len(set(self.values))
        except (pa.ArrowException, TypeError, ValueError, OverflowError):
            kind = pa.list_(pa.null())
            distinct = 0
        if pa.types.is_nested(kind):
            raise ParameterError(
                f"the labels of {self.column!r} must be of one type: numbers, texts, days or times."
            )
        if distinct == 0 or distinct != len(self.values):
            raise ParameterError(
                f"values must be a non-empty list of distinct labels. Got {len(self.values)} values."
            )

    def _plain(self) -> pa.Array:
        return pa.array(
            [
                value.item() if isinstance(value, np.generic) else value
                for value in self.values
            ]
        )

    def value_set(self, kind: pa.DataType) -> pa.Array:
        """The public labels in the column's own type; a number that the type cannot hold is missing.

        Numbers are labels of numbers of every type: 0.5 is none of a column of whole numbers, and is not refused there.
        """
        kind = _plain_type(kind)
        labels = self._plain()
        try:
            if holds(kind) != "numbers":
                return labels.cast(kind)
            if holds(labels.type) not in ("numbers", "truth values"):
                labels = _read_numbers(labels)
        except pa.ArrowException as error:
            raise SchemaError(
                f"column {self.column!r} holds {holds(kind)}, which cannot hold the declared labels: "
                "declare labels of the column's type."
            ) from error
        _require_exact(labels, self.column)
        return _as_held(labels, kind)

    def codes(self, labels: pa.Array) -> NDArray[np.int64]:
        """Place of every label among the public ones, -1 where it is none of them."""
        labels = plain(labels)
        public = self.value_set(labels.type)
        places = pc.index_in(labels, value_set=public, skip_nulls=True)
        return np.asarray(
            places.fill_null(-1).to_numpy(zero_copy_only=False), dtype=np.int64
        )


@dataclass(frozen=True)
class Nearest:
    """Group records by the nearest of public centres (K x d, in the columns that are read); ties to the first."""

    centres: ArrayLike

    def __post_init__(self) -> None:
        centres = np.asarray(self.centres, dtype=np.float64)
        if centres.ndim != 2:
            raise ShapeError(
                f"centres must be a groups x columns matrix. Got {centres.ndim} dimensions."
            )
        if not np.isfinite(centres).all():
            raise NotFiniteError("centres must be finite: they are public parameters.")

    def codes(self, values: Floats) -> NDArray[np.int64]:
        """Index of the nearest centre of every column."""
        centres = np.asarray(self.centres, dtype=np.float64)
        distances = np.zeros((len(centres), values.shape[1]))
        with np.errstate(over="ignore"):
            for distance, centre in zip(distances, centres):
                for row, coordinate in zip(values, centre):
                    distance += (row - coordinate) ** 2
        return np.asarray(np.argmin(distances, axis=0), dtype=np.int64)


Grouping = Labels | Nearest | None


@dataclass(frozen=True)
class Reader:
    """What one pass reads of each batch: number columns, and how records are grouped."""

    columns: tuple[str, ...]
    group: Grouping = None
    log: float | None = None
    """Read logarithms, of values below this one those of it."""

    @property
    def needed(self) -> tuple[str, ...]:
        """Columns that must be scanned."""
        extra = (
            (self.group.column,)
            if isinstance(self.group, Labels) and self.group.column not in self.columns
            else ()
        )
        return (*self.columns, *extra)

    @property
    def groups(self) -> int:
        """Number of groups."""
        if isinstance(self.group, Labels):
            return len(self.group.values)
        if self.group is None:
            return 1
        return len(np.asarray(self.group.centres))

    def check(self, schema: pa.Schema) -> None:
        """Refuse missing columns, columns that are not numbers, labels of another type: before anything is read."""
        require_columns(schema, self.needed)
        if len(set(self.columns)) != len(self.columns):
            raise SchemaError("a column is named twice: name each once.")
        require_numbers(schema, self.columns)
        if isinstance(self.group, Labels):
            self.group.value_set(schema.field(self.group.column).type)
        elif isinstance(self.group, Nearest) and np.shape(self.group.centres)[1] != len(
            self.columns
        ):
            raise ShapeError(
                f"centres must have {len(self.columns)} columns. Got {np.shape(self.group.centres)[1]}."
            )

    @property
    def block_rows(self) -> int:
        """How many records make a block."""
        return min(_BLOCK_ROWS * self.groups, _MAX_BLOCK_ROWS)

    def blocks(self, batch: pa.RecordBatch) -> Iterator[Block]:
        """The good records of a batch, in blocks."""
        columns = [numbers(batch.column(name)) for name in self.columns]
        if isinstance(self.group, Labels):
            labels = batch.column(self.group.column)
        else:
            labels = None
        for start in range(0, batch.num_rows, self.block_rows):
            end = min(start + self.block_rows, batch.num_rows)
            values = np.empty((len(columns), end - start))
            for row, column in zip(values, columns):
                row[:] = column[start:end]
            yield self.block(
                values, None if labels is None else labels.slice(start, end - start)
            )

    def block(self, values: Floats, labels: pa.Array | None) -> Block:
        """The good records among these columns of numbers."""
        codes = None
        if self.log is not None:
            values = np.log(np.maximum(values, self.log))
        if isinstance(self.group, Labels):
            codes = self.group.codes(labels)
        with np.errstate(over="ignore", invalid="ignore"):
            clean = np.isfinite(
                values.sum()
            )  # one bad value makes the sum bad; a false alarm costs time only
        if not clean or (codes is not None and (codes < 0).any()):
            keep = np.isfinite(values).all(axis=0)
            if codes is not None:
                keep = keep & (codes >= 0)
            values = np.compress(keep, values, axis=1)
            if codes is None:
                codes = None
            else:
                codes = codes[keep]
        if isinstance(self.group, Nearest):
            codes = self.group.codes(values)
        return Block(values, codes, self.groups)


def require_columns(schema: pa.Schema, names: Sequence[str]) -> None:
    """Refuse columns that the table does not have (or has twice), all of them in one sentence."""
    missing = [
        repr(name) for name in dict.fromkeys(names) if schema.get_field_index(name) < 0
    ]
    if missing:
        if len(missing) == 1:
            told = f"column {missing[0]} is"
        else:
            told = f"columns {', '.join(missing)} are"
        alike = [get_close_matches(name[1:-1], schema.names, 1) for name in missing]
        meant = ", ".join(dict.fromkeys(one for found in alike for one in found))
        if meant:
            also = f" Did you mean {meant}?"
        else:
            also = ""
        raise SchemaError(
            f"{told} missing or not unique; the table has {', '.join(schema.names)}.{also}"
        )


def require_numbers(
    schema: pa.Schema, names: Sequence[str], *, asked: bool = False
) -> None:
    """Refuse columns that are missing or hold no numbers; one that a question is about cannot be left out."""
    require_columns(schema, names)
    advice = "convert it" if asked else "convert or leave it out (--columns)"
    for name in names:
        if not is_number(kind := schema.field(name).type):
            raise SchemaError(
                f"column {name!r} must hold numbers. Got {holds(kind)}: {advice}."
            )


def is_number(kind: pa.DataType) -> bool:
    """Whether a column of this type can be summed."""
    kind = _plain_type(kind)
    types = pa.types
    plainly = (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_decimal(kind)
        or types.is_boolean(kind)
    )
    return bool(
        plainly or types.is_null(kind)
    )  # of a column without any cell nobody knows better


def numbers(column: pa.Array) -> NDArray[np.generic]:
    """A column as NumPy numbers, nulls as NaN."""
    column = plain(column)
    if not (pa.types.is_floating(column.type) or pa.types.is_integer(column.type)):
        if pa.types.is_boolean(column.type):
            column = column.cast(pa.int8())
        else:
            column = floats(column)
    return np.asarray(column.to_numpy(zero_copy_only=False))


def floats(column: pa.Array) -> pa.Array:
    """A column as 64-bit floats, decimals as those nearest to them: as text and databases have the same numbers.

    Arrow multiplies by a power of ten that no float holds, and 9.213 becomes 9.213000000000001.
    """
    kind = column.type
    if not pa.types.is_decimal(kind) or kind.scale == 0:
        return column.cast(pa.float64())
    if pa.types.is_decimal256(kind) or not 0 < kind.scale <= _EXACT_POWER:
        return pa.array(
            [None if cell is None else float(cell) for cell in column.to_pylist()],
            pa.float64(),
        )
    low, high = words(column).T
    exact = (high == low >> 63) & (np.abs(low) <= EXACT)
    values = (
        np.where(exact, low, 0) / 10.0**kind.scale
    )  # one rounding of two floats that are what they say
    for place in np.flatnonzero(~exact):
        values[place] = float(column[int(place)].as_py())
    return pa.array(
        values, mask=np.asarray(column.is_null().to_numpy(zero_copy_only=False))
    )


def words(column: pa.Array) -> NDArray[np.int64]:
    """Low and high word of the digits of decimals, as integers of 16 bytes; those of missing ones 0."""
    whole = column.cast(pa.decimal128(38, column.type.scale)).fill_null(0)
    hashes = np.frombuffer(whole.buffers()[1], dtype="<i8")[
        2 * whole.offset : 2 * (whole.offset + len(whole))
    ]
    return hashes.reshape(-1, 2)


def plain(column: pa.Array) -> pa.Array:
    """The column without dictionary or view encoding, in a type that Arrow can sort."""
    kind = _plain_type(column.type)
    if kind == column.type:
        return column
    return column.cast(kind)


def _read_numbers(labels: pa.Array) -> pa.Array:
    """The numbers that texts say; Arrow refuses what is no text, and text that is no number."""
    if not pa.types.is_string(labels.type):
        raise pa.ArrowInvalid("neither numbers nor text")
    try:
        return labels.cast(pa.int64())
    except pa.ArrowInvalid:
        return labels.cast(pa.float64())


def _require_exact(labels: pa.Array, column: str) -> None:
    """Refuse numbers that doubles do not tell from their neighbours: one fraction in a column makes doubles of all."""
    for label in labels.to_pylist():
        if EXACT <= abs(label) < float("inf"):
            raise SchemaError(
                f"labels of numbers must lie below 2^53. Got {label} for {column!r}: read the column as text "
                f"(types={{{column!r}: 'text'}})."
            )


def _as_held(labels: pa.Array, kind: pa.DataType) -> pa.Array:
    """Numbers in another type of numbers, those that it cannot hold missing."""
    try:
        if not pa.types.is_decimal(kind):
            return labels.cast(kind)
    except pa.ArrowException:
        pass
    return pa.concat_arrays([_one_held(label, kind) for label in labels])


def _one_held(label: pa.Scalar, kind: pa.DataType) -> pa.Array:
    try:
        if pa.types.is_decimal(kind) and label.is_valid:
            return pa.array([Decimal(str(label.as_py()))], kind)
        return pa.array([label.cast(kind).as_py()], kind)
    except (pa.ArrowException, ArithmeticError):
        return pa.nulls(1, kind)


def _plain_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_dictionary(kind):
        kind = kind.value_type
    if kind == pa.float16():
        return pa.float32()
    if pa.types.is_string_view(kind) or pa.types.is_large_string(kind):
        return pa.string()
    return kind
