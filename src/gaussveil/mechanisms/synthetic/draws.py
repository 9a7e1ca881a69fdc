"""The private draws of a synthetic table: nothing but noisy counts and moments of bounded records leaves them.

Each draw is of exact sums over records, in public cells or of public scores; which, may depend on what earlier draws
released. A record lies in one cell of each column, so its squared loss in a draw of counts is the number of columns
over the variance. The squared losses add up within the mean shift that was charged (`NoisySums`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.stages import Surroundings, for_stages, run_stages
from gaussveil.mechanisms.noisy_sums import SAMPLER_RESERVE, noise_design
from gaussveil.mechanisms.synthetic.budget import (
    FIRST_CELLS_MOST,
    MOST_CELLS,
    MOST_CLASSES,
    MOST_VALUES,
    ROUNDS,
    Shares,
    cell_shares,
)
from gaussveil.mechanisms.synthetic.records import TableRecords, is_short, place_of
from gaussveil.mechanisms.table.draws import LARGEST_KEY_COUNT
from gaussveil.mechanisms.table.noise import key_threshold
from gaussveil.noise import Generator
from gaussveil.postprocessing.class_guess import Guess
from gaussveil.postprocessing.synthetic.cells import (
    Cells,
    each_whole,
    finer_cells,
    first_cells,
    learning_cells,
    trimmed,
    with_single_values,
)
from gaussveil.postprocessing.synthetic.columns import DATE, DAY_SECONDS, MOMENT, Column
from gaussveil.postprocessing.synthetic.dependence import latent_correlations
from gaussveil.postprocessing.synthetic.marginals import MISSING_DEVIATIONS, Marginal, shrunk, simplex, smoothed
from gaussveil.postprocessing.synthetic.model import SyntheticModel
from gaussveil.statistics import ExactSum, Labels, MemorySource
from gaussveil.statistics.fixed_point import scaled
from gaussveil.typing import Floats, Integers

GRAIN_DEVIATIONS = 3.0  # of its noise that numbers finer than a grain may be
WINDOWS = (1, 2, 4, 8)  # cells that are looked at together for the ends of a range
RANGE_DEVIATIONS = 5.0  # of its noise that the records beyond an end of a learnt range are worth
KNOWN_MEAN = 1e-6  # variance of a mean score, which the marginals make zero
SCORE_REACH = 4.0  # deviations, per column, within which scores lie


def sampler_error(classes: int, columns: int) -> float:
    """Total variation of all draws: a bound that no release changes."""
    cells = columns * (3 * FIRST_CELLS_MOST + classes * (2 * MOST_CELLS + MOST_VALUES + FIRST_CELLS_MOST))
    moments = classes * (16 + 4 * (2 + 2 * columns + columns**2))
    return SAMPLER_RESERVE * (cells + moments + classes)


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
        self.records, self.shares, self.key_error = records, shares, key_error
        self.rows = records.source.rows_per_unit
        names = tuple(one.name for one in records.features)
        self.passes = PrivatePasses(records.source, names, None, 1, self.rows, self.rows, mean_shift, generator)
        self.allowed = for_stages(mean_shift / self.rows)  # what one record may lose
        self.cells = records.read()
        self.values = {one.name: records.counted_values(one, self.cells[one.name]) for one in records.finding}

    def model(self) -> SyntheticModel:
        """All draws in order, and what they make."""
        columns = [self._found(one) for one in self.records.columns]
        label = next((one for one in columns if one.name == self.records.label), None)
        columns = [one for one in columns if one is not label]
        self._group_by(label)
        columns, counts, deviation = self._counts(columns)
        weights = simplex(counts, max(float(counts.sum()), 1.0))
        total = max(float(weights.sum()), 1.0)
        known = self._searched(columns, total)
        marginals = self._marginals(columns, known, np.maximum(weights, deviation))
        correlations = np.broadcast_to(np.eye(len(columns)), (self.classes, len(columns), len(columns)))
        if self.shares.dependence:
            correlations = self._correlations(columns, marginals, counts, deviation)
        ranged = {one.name: _ranged(one, marginal) for one, marginal in zip(columns, marginals)}
        every = tuple(ranged.get(one.name, label or one) for one in self.records.columns)
        return SyntheticModel(
            every, self.records.label, self.names, weights / weights.sum(), tuple(marginals), correlations, total
        )

    def _group_by(self, label: Column | None) -> None:
        """Classes from now on, and the rows that have one."""
        self.names = (None,) if label is None else label.values or (None,)
        self.classes = len(self.names)
        if label is None or not label.values:
            self.group = np.zeros(len(next(iter(self.cells.values()))), dtype=np.int64)
            return
        group = place_of(label, self.cells[label.name])
        kept = group >= 0
        self.group = group[kept]
        for name, one in self.cells.items():
            self.cells[name] = one.filter(pa.array(kept)) if isinstance(one, pa.Array) else one[kept]

    # The draws.

    def _shift(self, share: float) -> float:
        return math.sqrt(share) * self.allowed

    def _counted(self, parts: Sequence[Integers], share: float, touched: int) -> tuple[list[Floats], float]:
        """Noisy counts of the cells of several columns; a record lies in one cell of `touched` of them."""
        deviation = math.sqrt(touched) / self._shift(share)
        self.passes.spend(self.rows**2 * touched / deviation**2)
        flat = np.concatenate([part.ravel() for part in parts]).astype(np.int64)
        design = noise_design(deviation, flat.shape, min(len(flat), self.rows * touched))
        noisy = self.passes.noisy(design, ExactSum(scaled(flat, 0), 1.0))
        ends = np.cumsum([part.size for part in parts])
        return [one.reshape(part.shape) for one, part in zip(np.split(noisy, ends[:-1]), parts)], deviation

    def _counts(self, columns: Sequence[Column]) -> tuple[list[Column], Floats, float]:
        """Noisy counts of classes, and of the steps in which numbers are written: whole ones, hundredths, days."""
        grained = [one for one in columns if one.grains]
        places = [one.coarsest(self.cells[one.name][~np.isnan(self.cells[one.name])]) for one in grained]
        parts = [np.bincount(self.group, minlength=self.classes)]
        parts += [np.bincount(place, minlength=len(one.grains) + 1) for one, place in zip(grained, places)]
        (counts, *steps), deviation = self._counted(parts, self.shares.counts, 1 + len(grained))
        found = {}
        for one, seen in zip(grained, steps):
            finer = np.cumsum(seen[::-1])[::-1][1:]  # numbers that are no multiples of each grain
            doubt = deviation * np.sqrt(np.arange(len(finer), 0, -1))
            fits = np.flatnonzero((finer < GRAIN_DEVIATIONS * doubt) & (seen.sum() > 3 * GRAIN_DEVIATIONS * doubt))
            if len(fits):
                found[one.name] = one.with_grain(one.grains[fits[0]])
        return [found.get(one.name, one) for one in columns], counts, deviation

    def _found(self, column: Column) -> Column:
        """The column with values that enough units share, where nobody listed any."""
        if column.name not in self.values:
            return column
        loss = self.rows**2 * self.shares.found * self.allowed**2 / len(self.values)
        self.passes.spend(loss)
        values, counts = self.values[column.name]
        deviation = math.sqrt(self.rows / loss)
        padded = np.zeros(max(len(counts), self.rows), dtype=np.int64)
        padded[: len(counts)] = np.minimum(counts, LARGEST_KEY_COUNT)
        design = noise_design(deviation, padded.shape, self.rows)
        noisy = self.passes.noisy(design, ExactSum(scaled(padded, 0), 1.0))[: len(counts)]
        most = MOST_CLASSES - 1 if column.name == self.records.label else MOST_VALUES - 1
        largest = np.argsort(-noisy, kind="stable")[:most]
        threshold = key_threshold(deviation, self.key_error / (len(self.values) * self.rows))
        shown = []
        for one in values.take(pa.array(largest[noisy[largest] > threshold])):
            with suppress(UnicodeDecodeError):  # bytes that are no text are no value, whoever shares them
                shown.append(one.as_py())
        return column.with_found(sorted(shown), column.name != self.records.label)

    def _searched(self, columns: Sequence[Column], total: float) -> dict[str, tuple[Cells, Floats]]:
        """Cells of about equal mass of the columns of numbers, and counts in them: looked for in rounds."""
        wanted = [one for one in columns if not one.is_category and not is_short(one)]
        if not wanted:
            return {}
        cells = [_first(one) for one in wanted]
        estimates: list[Floats] = []
        finest = math.sqrt(len(columns) * self.classes) / self._shift(self.shares.cells)
        for number, part in enumerate(ROUNDS):
            parts = [_bincount(one.codes(self.cells[column.name]), one.size) for one, column in zip(cells, wanted)]
            counts, deviation = self._counted(parts, part * self.shares.search, len(self.records.searched))
            last = number == len(ROUNDS) - 1
            shares = cell_shares(total, finest if last else deviation)
            estimates = []
            for place, (column, one, noisy) in enumerate(zip(wanted, cells, counts)):
                kept = _seen(noisy, deviation)
                if number == 0 and column.low is None:
                    one, kept = _range(one, kept)
                    noisy, kept = noisy[kept], slice(None)
                masses = np.zeros(one.size)
                masses[kept] = simplex(noisy[kept], max(float(noisy[kept].sum()), 1.0))
                least = RANGE_DEVIATIONS * deviation if last else 0.0
                cells[place] = finer_cells(one, masses, shares, column.is_whole, least)
                estimates.append(_moved(one, masses, cells[place]) if last else masses)
        return {column.name: (one, masses) for column, one, masses in zip(wanted, cells, estimates)}

    def _marginals(
        self, columns: Sequence[Column], known: dict[str, tuple[Cells, Floats]], weights: Floats
    ) -> list[Marginal]:
        """Noisy counts of every column's cells by class, missing ones beside them, as laws."""
        parts, cells = [], {}
        for column in columns:
            if column.is_category:
                place = place_of(column, self.cells[column.name])
                size = len(column.values or ())
            else:
                cells[column.name] = known[column.name][0] if column.name in known else each_whole(*_ends(column))
                place, size = cells[column.name].codes(self.cells[column.name]), cells[column.name].size
            place = np.where(place < 0, size, place)
            parts.append(np.bincount(self.group * (size + 1) + place, minlength=self.classes * (size + 1)))
            parts[-1] = parts[-1].reshape(self.classes, size + 1)
        counts, deviation = self._counted(parts, self.shares.cells, len(columns))
        made = []
        for column, noisy in zip(columns, counts):
            partition = cells.get(column.name)
            prior = None
            if partition is not None and column.name in known:
                partition, noisy, prior = trimmed(partition, noisy, known[column.name][1], deviation)
            made.append(_marginal(column, partition, noisy, prior, deviation, weights))
        return made

    def _correlations(
        self, columns: Sequence[Column], marginals: Sequence[Marginal], counts: Floats, deviation: float
    ) -> Floats:
        """Covariances of the cells' mean scores by class: the refinements of a mixture whose means are zero."""
        scores: dict[str, Any] = {}
        for column, marginal in zip(columns, marginals):
            if column.is_category:
                place = place_of(column, self.cells[column.name])
            else:
                place = _codes(marginal, self.cells[column.name])
            table = np.concatenate([marginal.scores, np.zeros((self.classes, 1))], axis=1)
            scores[column.name] = table[self.group, np.where(place < 0, table.shape[1] - 1, place)]
        label = "\ue000 class"
        scores[label] = self.group
        d, radius = len(columns), SCORE_REACH * math.sqrt(len(columns))
        passes = self.passes
        passes.source = MemorySource(pa.table(scores))
        passes.group, passes.groups = Labels(label, tuple(range(self.classes))), self.classes
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


def _first(column: Column) -> Cells:
    if column.low is not None and column.high is not None:
        return first_cells(column.low, column.high, column.is_whole)
    day = column.kind in (DATE, MOMENT)
    return learning_cells(column.is_whole, day, DAY_SECONDS if column.kind == MOMENT else 1.0)


def _ends(column: Column) -> tuple[float, float]:
    assert column.low is not None
    assert column.high is not None
    return column.low, column.high


def _bincount(place: Integers, size: int) -> Integers:
    return np.bincount(place[place >= 0], minlength=size)


def _seen(counts: Floats, deviation: float) -> slice:
    """From the first to the last cell where records stand out of the noise, alone or with neighbours together."""
    widths = [width for width in WINDOWS if width <= len(counts)]
    sums = {width: np.convolve(counts, np.ones(width), "valid") / math.sqrt(width) for width in widths}
    core = max(widths, key=lambda width: float(sums[width].max()))
    first = int(np.argmax(sums[core]))
    last = first + core - 1
    for width in widths:
        told = np.flatnonzero(sums[width] > RANGE_DEVIATIONS * deviation)
        below, above = told[told + width <= first], told[told > last]
        if len(below):
            first = int(below[0])
        if len(above):
            last = int(above[-1]) + width - 1
    return slice(first, last + 1)


def _range(cells: Cells, kept: slice) -> tuple[Cells, slice]:
    """The cells that are kept, a neighbour beside a single value, and their place among all."""
    first, last = kept.start, kept.stop
    if cells.low[first] == cells.high[last - 1]:
        first, last = max(first - 1, 0), min(last + 1, cells.size)
    low, high = cells.low[first:last], cells.high[first:last]
    return Cells.of(np.concatenate([low, high]), low[low == high]), slice(first, last)


def _moved(cells: Cells, masses: Floats, finer: Cells) -> Floats:
    """Masses of cells, evenly spread, as those of other cells."""
    below = np.concatenate([[0.0], np.cumsum(masses)])
    found = np.zeros(finer.size)
    for place, (low, high) in enumerate(zip(finer.low, finer.high)):
        start, end = (_below(cells, below, edge, low == high, upper) for edge, upper in ((low, False), (high, True)))
        found[place] = end - start
    return np.maximum(found, 0.0)


def _below(cells: Cells, below: Floats, edge: float, single: bool, upper: bool) -> float:
    """Mass below an edge; a single value counts where the cell asked for is that value, at its upper end."""
    at = np.flatnonzero((cells.low == edge) & (cells.high == edge))
    if len(at):
        # The interval above the value starts after it, the interval below ends before it.
        after = upper if single else not upper
        return float(below[at[0] + 1] if after else below[at[0]])
    place = int(np.clip(np.searchsorted(cells.high, edge, side="left"), 0, cells.size - 1))
    width = cells.high[place] - cells.low[place]
    part = (edge - cells.low[place]) / width if width > 0 else 1.0
    return float(below[place] + np.clip(part, 0.0, 1.0) * (below[place + 1] - below[place]))


def _marginal(
    column: Column, cells: Cells | None, noisy: Floats, prior: Floats | None, deviation: float, weights: Floats
) -> Marginal:
    """The law of a column in every class from noisy counts (K x (C + 1), missing ones last)."""
    missing = noisy[:, -1] / weights
    pooled = noisy[:, -1].sum()
    if pooled < MISSING_DEVIATIONS * deviation * math.sqrt(len(noisy)):
        missing = np.zeros(len(noisy))
    missing = np.clip(missing, 0.0, 0.999)
    counts = noisy[:, :-1]
    size = counts.shape[1]
    if column.others and counts[:, -1].sum() < MISSING_DEVIATIONS * deviation * math.sqrt(len(noisy)):
        counts = np.concatenate([counts[:, :-1], np.zeros((len(noisy), 1))], axis=1)
    together = counts.sum(axis=0)
    whole = weights.sum() * float(1 - np.average(missing, weights=weights))
    if prior is not None and prior.sum() > 0:
        together = smoothed(together, prior * whole / prior.sum(), deviation * math.sqrt(len(noisy)))
    base = simplex(together, max(whole, 1.0)) + 1e-9
    base /= base.sum()
    denoise = shrunk if column.is_category else smoothed
    shares = np.empty((len(noisy), size))
    for k, row in enumerate(counts):
        records = max(float(weights[k] * (1 - missing[k])), 1.0)
        law = denoise(row, records * base, deviation) if len(noisy) > 1 else records * base
        shares[k] = simplex(law, records)
    shares = np.maximum(shares, 1e-9 * shares.sum(axis=1, keepdims=True))
    shares /= shares.sum(axis=1, keepdims=True)
    if cells is None:
        ends = np.arange(size, dtype=np.float64)
        return Marginal(ends, ends, shares, missing, _ordered(shares, weights))
    low, high = with_single_values(cells, base) if not column.is_whole else (cells.low, cells.high)
    return Marginal(low, high, shares, missing, None, cells, base)


def _ordered(shares: Floats, weights: Floats) -> Integers:
    """Values of a category from those of the first classes to those of the last; as listed where there are none."""
    if len(shares) < 2:
        return np.arange(shares.shape[1])
    joint = shares * weights[:, None]
    logs = np.log(np.maximum(joint / joint.sum(axis=0), 1e-6))
    centred = logs - np.average(logs, axis=1, weights=joint.sum(axis=0))[:, None]
    _, _, axes = np.linalg.svd(centred * np.sqrt(joint.sum(axis=0)), full_matrices=False)
    score = axes[0] / np.sqrt(np.maximum(joint.sum(axis=0), 1e-9))
    return np.argsort(score, kind="stable")


def _codes(marginal: Marginal, numbers: Floats) -> Integers:
    assert marginal.partition is not None
    return marginal.partition.codes(numbers)


def _ranged(column: Column, marginal: Marginal) -> Column:
    """The column with the range that its cells have, where it was learnt."""
    if column.is_category or column.low is not None:
        return column
    least, most = column.limits
    low, high = max(float(marginal.low[0]), least), min(float(marginal.high[-1]), most)
    if column.is_whole:
        low, high = math.ceil(low), math.floor(high)
    return replace(column, low=float(low), high=float(high))
