"""A synthetic table: rows with the columns, order and types of a private table, drawn from what was released of it.

Released: noisy counts of classes, of cells of every column by class, noisy second moments of the cells' normal scores
by class, how far every pair of columns is from what these say, and counts of the pairs that are far; everything else,
rows included, is post-processing of these.

Adjacency: one privacy unit (a row, or a person with at most m rows) is added or removed. Columns, types, public ranges
and values, and the label's classes are public.

Theorem (derived: docs/mechanisms/synthetic.md). A row lies in one cell of each of d columns and in one class, so with
noise of variance v its squared loss in a draw of counts is d/v; scores are public functions of a row's cells once the
marginals are released, and their moments are those of a private mixture. A unit of m rows loses at most m^2 times as
much. Draws whose design rests on earlier outputs have mean shifts fixed beforehand, whose squares add up to mu^2: the
whole is dominated by the single pair N(mu, 1) against N(0, 1), and its delta(epsilon) is exact.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import checks
from gaussveil.accounting import Adjacency, Charge, Release
from gaussveil.calibration import mean_shift_for
from gaussveil.containers import library_of
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.stages import STAGES_RESERVE, for_stages
from gaussveil.mechanisms.noisy_sums import ROUNDING_SHIFT, SAMPLER_RESERVE
from gaussveil.mechanisms.release_path import Mechanism, Plan
from gaussveil.mechanisms.synthetic.budget import Shares, sampler_error
from gaussveil.mechanisms.synthetic.draws import SyntheticDraws
from gaussveil.mechanisms.synthetic.foreseen import (
    expectations,
    foreseen,
    require_enough,
)
from gaussveil.mechanisms.synthetic.records import TableRecords, read_table
from gaussveil.mechanisms.synthetic.replays import replayed_errors
from gaussveil.mechanisms.table.laws import key_error_of
from gaussveil.mechanisms.table.noise import MOST_COORDINATES
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.model import SyntheticModel
from gaussveil.postprocessing.synthetic.summary import (
    banded,
    statements,
    tail_rooms,
)
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics import as_source
from gaussveil.statistics.unit import unit_of

REPLAYS = 16


@dataclass(kw_only=True, eq=False, repr=False)
class SyntheticTable(Mechanism):
    """A table that may be published beside one that may not: same columns, same types, rows of nobody.

    >>> import pandas
    >>> from gaussveil import SyntheticTable
    >>> table = pandas.DataFrame({"age": [30, 40, 50] * 500, "ward": ["A", "B", "A"] * 500})
    >>> synthetic = SyntheticTable(epsilon=1, delta=1e-6, between={"age": (0, 120)}, values={"ward": ["A", "B"]})
    >>> rows = synthetic.release(table).value.sample(100, seed=1)
    >>> rows.column_names
    ['age', 'ward']

    Args:
        epsilon, delta: the promise for one release.
        columns: which columns (default: all but the unit's).
        between: public range of columns of numbers, dates, times: `{"age": (0, 120)}`.
        values: public values of columns of categories: `{"ward": ["A", "B"]}`.
        bounds: "auto" learns, inside the budget, the ranges and values that are not given.
        label: a column of few listed values by which all others are described; it makes the table good to learn from.
        series: patterns of names (`["h*"]`) of columns that are one quantity at successive times, in the table's order:
            neighbours then follow each other in their largest values, too.
        unit, rows_per_unit: column that says who is protected, and how many rows each may contribute.
        rows: about how many rows there are, where that is public: a table too small for its columns is then refused
            before anything is spent, and the plan says how good it will be.
        account: where the release is debited before anything is drawn.
        generator: a `SeededGenerator` for studies (no guarantee then).
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "synthetic table"
    columns: Sequence[str] | None = None
    between: Mapping[str, Any] | None = None
    values: Mapping[str, Sequence[Any]] | None = None
    bounds: str | None = None
    label: str | None = None
    series: Sequence[str] | None = None
    unit: Any = None
    rows_per_unit: int | None = None
    rows: int | None = None
    model_: SyntheticModel = field(init=False, repr=False)

    def plan(self, data: Any) -> Plan:
        """What `release` would debit and certify; only the columns' names and types are looked at.

        Args:
            data: the table, or a `Source`.

        Returns:
            Charge, guarantee and noise of the release.

        Raises:
            ParameterError: a parameter is out of range, or does not fit the columns.
        """
        return self._plan(self._records(data))

    def release(self, data: Any) -> Release[SyntheticModel]:
        """Debit, draw, certify; `value.sample(n)` draws rows, as many and as often as you like.

        Every refusal comes before the debit and depends on public knowledge only: types, columns, parameters.

        Args:
            data: the table, or a `Source`.

        Returns:
            The model, with its `quality`, and its certificate.

        Raises:
            ParameterError: a parameter is out of range, or does not fit the columns.
            BudgetExceededError: the account cannot pay.
        """
        records = self._records(data)
        plan = self._plan(records)
        shift = self._mean_shift(records)
        draws = SyntheticDraws(
            records,
            shift,
            self._shares(records),
            self.generator,
            self._key_error(records),
        )
        release = self._publish(plan, draws.model, records.source)
        self._unit = records.source.view.unit
        self._series = records.series
        self.model_ = replace(release.value, certificate=release.certificate)
        self._library = library_of(data)
        return Release(self.model_, release.certificate)

    def sample(
        self, count: int | None = None, seed: int | None = None, *, anyway: bool = False
    ) -> Any:
        """Rows of the last release, in a frame of the library that the table came in.

        Args:
            count: how many rows.
            seed: of the draws; the system's generator by default.
            anyway: draw also where the release says that its rows are of no use.

        Returns:
            A frame with the columns of the table; as many rows as it has, about, where `count` is left out.
        """
        return self._framed(self.model_.sample(count, seed, anyway=anyway))

    def summary(
        self, data: Any = None, *, replays: int = REPLAYS, seed: int = 0
    ) -> Any:
        """What synthetic rows say of the private table, with 95 % intervals: means, shares, quantiles, correlations.

        The intervals hold the drawing of rows, what the model smooths away, and the noise: the release is made again,
        `replays` times, from rows that it drew, and compared with them. Free, since nothing private is read.

        Args:
            data: rows that were drawn (default: as many as the private table has, about).
            replays: how often the release is made again; each takes about as long as the release.
            seed: of the rows and replays.

        Returns:
            A frame with the columns column, statistic, other, value, low, high, and trusted: False where the interval
            is so wide that the number says little.

        Raises:
            ParameterError: replays is not a whole number above 3.
        """
        checks.whole("replays", replays, "[4, inf)")
        if data is None:
            rows = self.model_.sample(None, seed, anyway=True)
        else:
            rows = as_source(data).table()
        quality = self.model_.quality
        assert quality is not None
        errors = replayed_errors(self.model_, self._remade, replays, len(rows), seed)
        columns = self.model_.columns
        said = statements(rows, columns)
        tails = tail_rooms(rows, columns, self.model_.tails, self._series)
        return self._framed(
            banded(
                said,
                errors,
                quality.least_share,
                columns,
                self.model_.rooms(self._series),
                self.model_.unknown,
                tails | self.model_.far_rooms(said),
                self.model_.model_errors(said),
            )
        )

    def _remade(self, rows: pa.Table, generator: SeededGenerator) -> SyntheticModel:
        """The model of a table of drawn rows, where each unit has as many as it may."""
        if self._unit is not None:
            units = np.arange(len(rows)) // (self.rows_per_unit or 1)
            rows = rows.append_column(self._unit, pa.array(units))
        records = self._records(rows)
        key_error = self._key_error(records)
        shares = self._shares(records)
        return SyntheticDraws(
            records, self._mean_shift(records), shares, generator, key_error
        ).model()

    def _framed(self, rows: pa.Table) -> Any:
        if self._library == "pandas":
            return rows.to_pandas()
        if self._library == "polars":
            import polars

            return polars.from_arrow(rows)
        return rows

    def _records(self, data: Any) -> TableRecords:
        return read_table(
            data,
            columns=self.columns,
            between=self.between,
            values=self.values,
            bounds=self.bounds,
            label=self.label,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
            series=self.series,
        )

    def _mean_shift(self, records: TableRecords) -> float:
        error = self._sampler_error(records)
        shift = mean_shift_for(
            self.promise.epsilon, self.promise.ideal_delta(error, STAGES_RESERVE)
        )
        if shift <= 4 * ROUNDING_SHIFT * records.source.rows_per_unit:
            raise ParameterError(
                f"epsilon and delta allow a mean shift of {shift:.3g} only: raise them, or use fewer rows per unit."
            )
        return shift

    def _plan(self, records: TableRecords) -> Plan:
        shift = self._mean_shift(records)
        rows = records.source.rows_per_unit
        unit = unit_of(records.source)
        if self.rows is None:
            size = None
        else:
            size = checks.whole("rows", self.rows)
        require_enough(records, self._shares(records), shift, size)
        error = self._sampler_error(records)
        touched = {
            "counts": 1 + sum(bool(one.grains) for one in records.features),
            "search": len(records.searched),
            "cells": len(records.features),
            "choice": math.comb(len(records.features), 2),
        }
        return Plan(
            charge=Charge(GaussianPair.mean_shift(shift), sampler_error=error),
            released=f"synthetic table of {len(records.columns)} columns",
            adjacency=Adjacency.add_remove(unit),
            assumptions=(
                "columns, their types, given ranges and values, and the label's classes are public knowledge",
                "rows without one of the label's values are left out; numbers beyond a range are moved to its end",
                *(
                    (f"at most {rows} rows of each {unit} are used",)
                    if records.source.view.unit
                    else ()
                ),
            ),
            parameters={
                "columns": [one.name for one in records.columns],
                "label": records.label or "none",
                **_told_series(records),
                "rows_per_unit": rows,
                "mean_shift": shift,
                "shares": vars(self._shares(records)),
                **foreseen(records, self._shares(records), shift, size),
                "noise": self._shares(records).deviations(
                    for_stages(shift / rows), touched
                ),
            },
            expectations=expectations(
                records, self._shares(records), shift, size, self._key_error(records)
            ),
        )

    def _key_error(self, records: TableRecords) -> float:
        """The chance that a value which one unit alone has may show."""
        if records.finding:
            return key_error_of(self.promise)
        return 0.0

    def _sampler_error(self, records: TableRecords) -> float:
        """Total variation of all draws and of showing a value: public, whatever the data."""
        if records.finding:
            found = SAMPLER_RESERVE * MOST_COORDINATES
        else:
            found = 0.0
        return (
            sampler_error(records.most_classes, len(records.features))
            + found
            + self._key_error(records)
        )

    @staticmethod
    def _shares(records: TableRecords) -> Shares:
        return Shares.of(
            len(records.searched),
            len(records.finding),
            len(records.features),
            records.label is not None,
            sum(one.is_category for one in records.features),
            len(records.series),
        )


def _told_series(records: TableRecords) -> dict[str, Any]:
    """Columns of series, where there are any."""
    if not records.series:
        return {}
    return {"series": [list(one) for one in records.series]}
