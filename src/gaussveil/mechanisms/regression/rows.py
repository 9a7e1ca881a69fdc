"""Rows for regressions: tables as Sources of numbers, and the exact sums over their bounded rows.

A row x, y in public units becomes z = w (1, x, y): y clipped to [-1, 1], w = min(1, r/|x|). Scaling the whole row is a
weight that depends on its features alone, so that a linear relation stays what it is, and however wild a record, its z
has |x-part| <= r and no other entry beyond 1. A last entry, sqrt(1 - w^2), has what its weight lacks as its square.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from sklearn.utils.validation import check_array, check_consistent_length, validate_data

from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.records import (
    as_cells,
    cells_as_numbers,
    no_values_quoted,
    unit_apart,
)
from gaussveil.statistics import (
    Block,
    ExactSum,
    FixedPoint,
    Source,
    Statistic,
    as_source,
)
from gaussveil.statistics.block import require_columns, require_numbers
from gaussveil.statistics.fixed_point import (
    PRODUCT_BITS,
    add_parts,
    column_norms,
    cross_products,
    scaled,
)
from gaussveil.statistics.statistic import State
from gaussveil.statistics.unit import unit_of
from gaussveil.typing import Floats


@dataclass(frozen=True)
class GivenTable:
    """A Source, which of its columns are features and targets, and what they and the unit are called."""

    source: Source
    features: tuple[str, ...]
    targets: tuple[str, ...]
    feature_names: tuple[str, ...]
    target_names: tuple[str, ...]
    unit: str

    @property
    def columns(self) -> tuple[str, ...]:
        """All columns that are read, features first."""
        return self.features + self.targets

    @classmethod
    def of(
        cls,
        estimator: Any,
        X: Any,
        y: Any = None,
        *,
        supervised: bool = False,
        labelled: bool = False,
    ) -> GivenTable:
        """What `fit` was given. Of a `Source` the estimator's `target` names the target column or columns.

        Where it is `labelled` the target of a Source may hold anything.
        """
        if isinstance(X, Source):
            return cls._of_source(estimator, X, supervised, labelled)
        if supervised and y is None:
            raise ParameterError(
                f"requires y to be passed, but the target y is None: {type(estimator).__name__} fits."
            )
        X, unit = unit_apart(X, estimator.unit)
        with no_values_quoted("X"):
            validated = validate_data(
                estimator,
                as_cells(X),
                dtype=None,
                ensure_all_finite=False,
                ensure_min_samples=0,
            )
            rows = cells_as_numbers(validated)
        columns = {f"x{j}": column for j, column in enumerate(rows.T)}
        if supervised:
            columns |= _targets(y, rows)
        table = pa.table(
            {name: np.ascontiguousarray(column) for name, column in columns.items()}
        )
        source = as_source(table, unit=unit, rows_per_unit=estimator.rows_per_unit)
        targets = tuple(name for name in columns if name.startswith("y"))
        features = tuple(name for name in columns if name.startswith("x"))
        names = tuple(map(str, getattr(estimator, "feature_names_in_", features)))
        named = _names_of(y)
        if len(named) != len(targets):
            named = targets
        unit_name = estimator.unit
        if not isinstance(unit_name, str):
            unit_name = unit_of(source)
        return cls(source, features, targets, names, named, unit_name)

    @classmethod
    def _of_source(
        cls, estimator: Any, source: Source, supervised: bool, labelled: bool
    ) -> GivenTable:
        source = as_source(
            source, unit=estimator.unit, rows_per_unit=estimator.rows_per_unit
        )
        if supervised:
            named = getattr(estimator, "target", ())
        else:
            named = ()
        if isinstance(named, str):
            targets = (named,)
        else:
            targets = tuple(named)
        require_columns(source.schema, targets)
        features = tuple(
            name
            for name in source.view.columns
            if name not in (*targets, source.view.unit)
        )
        require_numbers(source.schema, features if labelled else (*features, *targets))
        if not features:
            raise SchemaError("the Source must have at least one column of features.")
        estimator.n_features_in_, estimator.feature_names_in_ = (
            len(features),
            np.asarray(features, dtype=object),
        )
        return cls(source, features, targets, features, targets, unit_of(source))


@dataclass(frozen=True, kw_only=True)
class WeightedRows(Statistic[ExactSum]):
    """Sum of z z' over all rows, z = (w, wx, wy, sqrt(1 - w^2)) in fixed point; the last `targets` columns are y."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    row_norm: float
    targets: int

    @property
    def fixed_point(self) -> FixedPoint:
        """The public number format of z."""
        return FixedPoint(
            (1.0 + self.row_norm**2 + self.targets) ** 0.5 * (1 + 2.0**-40),
            PRODUCT_BITS,
        )

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """One matrix."""
        return {"gram": (dimension + 2, dimension + 2)}

    def weighted(self, values: Floats) -> Floats:
        """z of each column of `values`: the x-part no longer than row_norm, the others within [-1, 1]."""
        size = len(values) - self.targets
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            standard = (values - np.asarray(self.centre)[:, None]) / np.asarray(
                self.scale
            )[:, None]
            norm = column_norms(standard[:size])
            limit = self.row_norm * (1.0 - (size + 8) * 2.0**-52)
            weight = np.where(norm > limit, limit / norm, 1.0)
            ones = np.ones((1, values.shape[1]))
            within = np.clip(standard[size:], -1.0, 1.0)
            rows = np.concatenate((ones, standard[:size], within, ones))
            rows[:-1] *= weight
            rows[-1] = np.sqrt(1.0 - weight**2)
        rows[:, ~np.isfinite(norm + rows.sum(axis=0))] = (
            0.0  # a range of no width divides by zero
        )
        return rows

    def partial(self, block: Block) -> State:
        """Sum one block."""
        integers = np.trunc(self.weighted(block.values) / self.fixed_point.unit)
        return {"gram": add_parts(cross_products(integers, self.fixed_point))}

    def finish(self, state: State) -> ExactSum:
        """The matrix."""
        return ExactSum(state["gram"], self.fixed_point.unit**2)


@dataclass(frozen=True)
class ColumnHistograms(Statistic[ExactSum]):
    """For every column how many records fall into each of its bins; beyond the edges they fall into the outer bins."""

    edges: tuple[tuple[float, ...], ...]

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """Columns x bins."""
        return {"histogram": (dimension, len(self.edges[0]) - 1)}

    def partial(self, block: Block) -> State:
        """Count one block."""
        bins = len(self.edges[0]) - 1
        counts = [
            np.bincount(
                np.searchsorted(edges[1:-1], column, side="right"), minlength=bins
            )
            for column, edges in zip(block.values, np.asarray(self.edges))
        ]
        return {"histogram": scaled(np.asarray(counts, dtype=np.int64), 0)}

    def finish(self, state: State) -> ExactSum:
        """The counts."""
        return ExactSum(state["histogram"], 1.0)


def _targets(y: Any, rows: NDArray[Any]) -> dict[str, NDArray[Any]]:
    """Targets beside the rows, by the names that their columns get."""
    with no_values_quoted("y"):
        labels = check_array(
            as_cells(y),
            dtype=None,
            ensure_2d=False,
            ensure_all_finite=False,
            ensure_min_samples=0,
        )
        check_consistent_length(rows, labels)
        columns = np.atleast_2d(cells_as_numbers(labels).T)
        return {f"y{place}": column for place, column in enumerate(columns)}


def _names_of(y: Any) -> tuple[str, ...]:
    """What a frame or series calls its columns."""
    names = tuple(map(str, getattr(y, "columns", ())))
    if names:
        return names
    return (str(getattr(y, "name", None) or "y"),)
