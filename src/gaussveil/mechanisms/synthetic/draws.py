"""The private draws of a synthetic table: nothing but noisy counts and moments of bounded records leaves them.

Each draw is of exact sums over records, in public cells or of public scores; which, may depend on what earlier draws
released. A record lies in one cell of each column, so its squared loss in a draw of counts is the number of columns
over the variance. The squared losses add up within the mean shift that was charged (`NoisySums`).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.mechanisms.mixture.budget import centre_scales
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.stages import Surroundings, for_stages, run_stages
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.synthetic.budget import WITHIN_BALL, Shares
from gaussveil.mechanisms.synthetic.pair_draws import counted_pairs
from gaussveil.mechanisms.synthetic.records import TableRecords, place_of
from gaussveil.mechanisms.synthetic.search_draws import searched
from gaussveil.mechanisms.synthetic.series_draws import linked_series
from gaussveil.mechanisms.synthetic.value_draws import found_columns
from gaussveil.noise import Generator
from gaussveil.postprocessing.class_guess import Guess
from gaussveil.postprocessing.clipped_moments import mean_gain, radius_from_quantile
from gaussveil.postprocessing.synthetic.cells import Cells, each_whole
from gaussveil.postprocessing.synthetic.columns import NUMBER, WHOLE, Column
from gaussveil.postprocessing.synthetic.dependence import latent_correlations
from gaussveil.postprocessing.synthetic.laws import (
    SeenColumn,
    counts_of_classes,
    law_of,
    pooled_scores,
    ranged,
)
from gaussveil.postprocessing.synthetic.marginals import Marginal, simplex
from gaussveil.postprocessing.synthetic.model import SyntheticModel
from gaussveil.postprocessing.synthetic.quality import expected_gap, quality_of
from gaussveil.statistics import ExactSum, Labels, MemorySource
from gaussveil.statistics.fixed_point import scaled
from gaussveil.typing import Floats, Integers

GRAIN_DEVIATIONS = 3.0  # of its noise that numbers finer than a grain may be
KNOWN_MEAN = 1e-6  # variance of a mean score, which the marginals make zero
SCORE_REACH = 4.0  # deviations, per column, within which scores lie


class SyntheticDraws:
    """One release's access to the rows."""

    def __init__(
        self,
        records: TableRecords,
        mean_shift: float,
        shares: Shares,
        generator: Generator | None,
        key_error: float = 0.0,
    ) -> None:
        self.records = records
        self.shares = shares
        self.key_error = key_error
        self.rows = records.source.rows_per_unit
        names = tuple(one.name for one in records.features)
        self.passes = PrivatePasses(
            records.source, names, None, 1, self.rows, self.rows, mean_shift, generator
        )
        self.allowed = for_stages(mean_shift / self.rows)  # what one record may lose
        self.cells = records.read()

    def model(self) -> SyntheticModel:
        """All draws in order, and what they make."""
        columns = found_columns(self, self.key_error)
        label = next((one for one in columns if one.name == self.records.label), None)
        columns = [one for one in columns if one is not label]
        self._group_by(label)
        columns, counts, deviation = self._counts(columns)
        columns, known = searched(self, columns, max(float(counts.sum()), 1.0))
        cells, seen = self._cell_counts(columns, known)
        counts, deviation = counts_of_classes(counts, deviation, seen, self.cell_noise)
        weights = simplex(counts, max(float(counts.sum()), 1.0))
        total = max(float(weights.sum()), 1.0)
        weights = np.maximum(weights, deviation)
        means = self._means(known, weights)
        marginals = [
            self._law(
                SeenColumn.of(
                    column,
                    cells.get(column.name),
                    noisy,
                    self.cell_noise,
                    known.get(column.name, (None, None))[1],
                    means.get(column.name),
                ),
                weights,
            )
            for column, noisy in zip(columns, seen)
        ]
        places = [self._places(*one) for one in zip(columns, marginals)]
        correlations = np.broadcast_to(
            np.eye(len(columns)), (self.classes, len(columns), len(columns))
        )
        if self.shares.dependence:
            correlations = self._correlations(
                columns, marginals, places, counts, deviation
            )
        chain = None
        if self.shares.series:
            chain = linked_series(self, columns, marginals, correlations, weights)
        found = {
            one.name: ranged(one, marginal) for one, marginal in zip(columns, marginals)
        }
        every = tuple(found.get(one.name, label or one) for one in self.records.columns)
        named = {column.name: marginal for column, marginal in zip(columns, marginals)}
        gaps = {
            column.name: expected_gap(
                total,
                one.shares.size,
                self.cell_noise,
                one.largest_interval(float(column.is_whole)),
            )
            for column, one in zip(columns, marginals)
        }
        model = SyntheticModel(
            every,
            self.records.label,
            self.names,
            weights / weights.sum(),
            tuple(marginals),
            correlations,
            total,
            chain=chain,
        )
        quality = quality_of(
            total,
            gaps,
            named,
            self.cell_noise * math.sqrt(self.classes),
            columns,
            model.unknown,
        )
        model = replace(model, quality=quality)
        if self.shares.pairs:
            return replace(model, pairs=counted_pairs(self, model, places))
        return model

    def _group_by(self, label: Column | None) -> None:
        """Classes from now on, and the rows that have one."""
        if label is None:
            self.names = (None,)
        else:
            self.names = label.values or (None,)
        self.classes = len(self.names)
        if label is None or not label.values:
            self.group = np.zeros(len(next(iter(self.cells.values()))), dtype=np.int64)
            return
        group = place_of(label, self.cells[label.name])
        kept = group >= 0
        self.group = group[kept]
        for name, one in self.cells.items():
            self.cells[name] = (
                one.filter(pa.array(kept)) if isinstance(one, pa.Array) else one[kept]
            )

    # The draws.

    def _shift(self, share: float) -> float:
        return math.sqrt(share) * self.allowed

    def counted(
        self, parts: Sequence[Integers], share: float, touched: int
    ) -> tuple[list[Floats], float]:
        """Noisy counts of the cells of several columns; a record lies in one cell of `touched` of them."""
        deviation = math.sqrt(touched) / self._shift(share)
        self.passes.spend(self.rows**2 * touched / deviation**2)
        flat = np.concatenate([part.ravel() for part in parts]).astype(np.int64)
        design = noise_design(
            deviation, flat.shape, min(len(flat), self.rows * touched)
        )
        noisy = self.passes.noisy(design, ExactSum(scaled(flat, 0), 1.0))
        ends = np.cumsum([part.size for part in parts])
        return [
            one.reshape(part.shape)
            for one, part in zip(np.split(noisy, ends[:-1]), parts)
        ], deviation

    def _counts(self, columns: Sequence[Column]) -> tuple[list[Column], Floats, float]:
        """Noisy counts of classes, and of the steps in which numbers are written: whole ones, hundredths, days."""
        grained = [one for one in columns if one.grains]
        places = [
            one.coarsest(self.cells[one.name][~np.isnan(self.cells[one.name])])
            for one in grained
        ]
        parts = [np.bincount(self.group, minlength=self.classes)]
        parts += [
            np.bincount(place, minlength=len(one.grains) + 1)
            for one, place in zip(grained, places)
        ]
        (counts, *steps), deviation = self.counted(
            parts, self.shares.counts, 1 + len(grained)
        )
        found = {}
        for one, seen in zip(grained, steps):
            finer = np.cumsum(seen[::-1])[::-1][
                1:
            ]  # numbers that are no multiples of each grain
            doubt = deviation * np.sqrt(np.arange(len(finer), 0, -1))
            fits = np.flatnonzero(
                (finer < GRAIN_DEVIATIONS * doubt)
                & (seen.sum() > 3 * GRAIN_DEVIATIONS * doubt)
            )
            if len(fits):
                found[one.name] = one.with_grain(one.grains[fits[0]])
        return [found.get(one.name, one) for one in columns], counts, deviation

    def _means(
        self, known: dict[str, tuple[Cells, Floats]], weights: Floats
    ) -> dict[str, Floats]:
        """Mean scores, by class, of the columns whose cells were looked for; of all classes together they are 0."""
        if not known or not self.shares.means:
            return {}
        scores = {}
        for name, (cells, masses) in known.items():
            table = np.append(pooled_scores(masses), 0.0)
            scores[name] = table[cells.codes(self.cells[name])]
        d = len(scores)
        radius = float(radius_from_quantile(WITHIN_BALL, d))
        passes = self._passes_over(scores, self.group, self.classes)
        _, sums = passes.counts_and_sums(
            np.zeros(d),
            radius,
            centre_scales(self._shift(self.shares.means), radius, d),
        )
        means = sums / (
            weights[:, None] * radius * mean_gain(np.asarray(radius), np.ones(()), d)
        )
        means -= np.average(means, axis=0, weights=weights)
        return dict(zip(known, means.T))

    def summed(
        self, vectors: dict[str, Floats], radius: float, share: float
    ) -> tuple[Floats, float]:
        """Noisy sums, over all classes, of vectors of records clipped to a ball, and the noise's deviation."""
        passes = self._passes_over(vectors, np.zeros_like(self.group), 1)
        deviation = radius / self._shift(share)
        return passes.sums(radius, deviation)[0], deviation

    def _passes_over(
        self, scores: Mapping[str, Floats], group: Integers, classes: int
    ) -> PrivatePasses:
        """The passes of a mixture over public scores of records, by class."""
        label = "\ue000 class"
        passes = self.passes
        passes.source = MemorySource(pa.table({**scores, label: group}))
        passes.columns = tuple(scores)
        passes.group = Labels(label, tuple(range(classes)))
        passes.groups = classes
        return passes

    def _cell_counts(
        self, columns: Sequence[Column], known: dict[str, tuple[Cells, Floats]]
    ) -> tuple[dict[str, Cells], list[Floats]]:
        """Cells of the columns of numbers; noisy counts of every column's cells by class, missing ones beside them.

        Numbers beyond a learnt range are counted apart: they were not looked for, and may lie anywhere.
        """
        parts = []
        cells = {}
        for column in columns:
            if column.is_category:
                place = place_of(column, self.cells[column.name])
                size = len(column.values or ())
            else:
                cells[column.name] = (
                    known[column.name][0]
                    if column.name in known
                    else each_whole(*_ends(column))
                )
                found = cells[column.name]
                if column.low is None:
                    sized = column.kind in (NUMBER, WHOLE)
                    place = found.codes_or_beyond(self.cells[column.name], sized)
                    size = found.size + 2
                else:
                    place = found.codes(self.cells[column.name])
                    size = found.size
            place = np.where(place < 0, size, place)
            parts.append(
                np.bincount(
                    self.group * (size + 1) + place, minlength=self.classes * (size + 1)
                )
            )
            parts[-1] = parts[-1].reshape(self.classes, size + 1)
        counts, self.cell_noise = self.counted(parts, self.shares.cells, len(columns))
        return cells, counts

    def _law(self, seen: SeenColumn, weights: Floats) -> Marginal:
        """The law of a column by class, and what correlations are read off.

        Of series scores alone, since values have their draw; of clusters far apart values alone, since a correlation
        inside clusters is in the scores as much as one between them, and is nothing to the values.
        """
        law = law_of(seen, weights)
        if any(seen.column.name in one for one in self.records.series):
            return replace(law, value_part=0.0)
        if law.partition is not None and law.is_clustered:
            return replace(law, value_part=1.0)
        return law

    def _places(self, column: Column, marginal: Marginal) -> Integers:
        """Cell of every row in a column; of a missing one, the number of cells."""
        if column.is_category:
            place = place_of(column, self.cells[column.name])
        else:
            place = _codes(marginal, self.cells[column.name])
        return np.where(place < 0, marginal.shares.shape[1], place)

    def _correlations(
        self,
        columns: Sequence[Column],
        marginals: Sequence[Marginal],
        places: Sequence[Integers],
        counts: Floats,
        deviation: float,
    ) -> Floats:
        """Covariances of the cells' mean scores by class: the refinements of a mixture whose means are zero."""
        scores: dict[str, Any] = {}
        for column, marginal, place in zip(columns, marginals, places):
            table = np.concatenate(
                [marginal.signals, np.zeros((self.classes, 1))], axis=1
            )
            scores[column.name] = table[self.group, place]
        d = len(columns)
        radius = SCORE_REACH * math.sqrt(len(columns))
        passes = self._passes_over(scores, self.group, self.classes)
        start = Guess(
            counts,
            np.full(self.classes, deviation**2),
            np.zeros((self.classes, d)),
            np.broadcast_to(KNOWN_MEAN * np.eye(d), (self.classes, d, d)),
            np.broadcast_to(np.eye(d), (self.classes, d, d)),
        )
        size = max(round(float(np.maximum(counts, 0.0).sum())), 1)
        known = Surroundings(radius, np.zeros(d), size)
        found = run_stages(passes, known, self._shift(self.shares.dependence), start)
        return latent_correlations(found.covariances, marginals)


def _ends(column: Column) -> tuple[float, float]:
    assert column.low is not None
    assert column.high is not None
    return column.low, column.high


def _codes(marginal: Marginal, numbers: Floats) -> Integers:
    assert marginal.partition is not None
    return marginal.partition.codes(numbers)
