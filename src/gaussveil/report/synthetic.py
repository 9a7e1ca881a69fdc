"""Rows of nobody beside the private ones, column by column and pair by pair: for the owner alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from gaussveil.figure_style import INK, SERIES, drawing
from gaussveil.postprocessing.synthetic.columns import NUMBER, WHOLE, Column
from gaussveil.typing import Floats

ACROSS = 4
BINS = 24
MOST_VALUES = 10
MOST_COLUMNS = 24  # that are drawn


def beside_figure(
    private: pa.Table, rows: pa.Table, columns: Sequence[Column]
) -> Figure:
    """One panel for every column, the private table filled, the synthetic one a line; then all pairs of columns.

    In the last panel the private rank correlations lie below the diagonal and the synthetic ones above it: what is as
    it should be looks the same on both sides.

    Args:
        private: the table itself; the picture shows it as it is, and no promise covers that.
        rows: rows that were drawn.
        columns: what is public of the columns (`model_.columns`).
    """
    shown = tuple(columns)[:MOST_COLUMNS]
    down = math.ceil((len(shown) + 1) / ACROSS)
    with drawing(2.6 * ACROSS, 2.1 * down, down, ACROSS, squeeze=False) as (
        figure,
        panels,
    ):
        every = list(panels.ravel())
        for axes, column in zip(every, shown):
            _draw_column(
                axes,
                column,
                *(
                    table.column(column.name).combine_chunks()
                    for table in (private, rows)
                ),
            )
        _draw_pairs(every[len(shown)], private, rows, shown)
        spare = every[len(shown) + 1 :]
        for axes in spare:
            axes.set_axis_off()
        named = every[0].get_legend_handles_labels()
        if spare:
            spare[0].legend(*named, loc="upper left")
        else:
            every[0].legend(*named, loc="best")
        return figure


def _draw_column(axes: Axes, column: Column, private: pa.Array, rows: pa.Array) -> None:
    axes.set_title(column.name)
    axes.set_yticks([])
    if column.is_category:
        _draw_shares(axes, column, private, rows)
    else:
        _draw_densities(axes, column, private, rows)


def _draw_shares(axes: Axes, column: Column, private: pa.Array, rows: pa.Array) -> None:
    """Each value's share of the cells, private and synthetic."""
    values = list(column.values or ())[:MOST_VALUES]
    shares = [_value_shares(cells, values) for cells in (private, rows)]
    places = np.arange(len(values))
    axes.bar(places, shares[0], color=SERIES[0], alpha=0.35, label="private")
    axes.plot(places, shares[1], "o", color=INK, markersize=4, label="synthetic")
    axes.set_xticks(
        places, [str(value)[:8] for value in values], rotation=45, ha="right"
    )


def _value_shares(cells: pa.Array, values: list[Any]) -> Floats:
    listed = cells.to_pylist()
    counts = np.array([listed.count(value) for value in values])
    return np.asarray(counts / max(len(listed), 1))


def _draw_densities(
    axes: Axes, column: Column, private: pa.Array, rows: pa.Array
) -> None:
    """Histograms of the numbers, private and synthetic, over the middle 99 percent of both; of few whole ones, each."""
    columns = [column.numbers(cells) for cells in (private, rows)]
    numbers = [values[~np.isnan(values)] for values in columns]
    if not min(map(len, numbers)):
        return
    low, high = np.quantile(np.concatenate(numbers), [0.005, 0.995])
    if column.is_whole and high - low < BINS:
        edges = np.arange(np.floor(low), np.ceil(high) + 2) - 0.5
    else:
        edges = np.linspace(low, max(high, np.nextafter(low, np.inf)), BINS + 1)
    heights = [
        np.histogram(np.clip(values, low, high), edges)[0] / len(values)
        for values in numbers
    ]
    axes.stairs(
        heights[0], edges, color=SERIES[0], alpha=0.35, fill=True, label="private"
    )
    axes.stairs(heights[1], edges, color=INK, label="synthetic")
    ends = axes.get_xlim()
    axes.set_xticks([low, high], [_tick(column, float(end)) for end in (low, high)])
    axes.set_xlim(ends)


def _tick(column: Column, number: float) -> str:
    """An end of an axis: dates and times as they are written, numbers to three digits."""
    if column.kind not in (NUMBER, WHOLE):
        return column.written(np.asarray(number))
    return f"{float(f'{number:.3g}'):.12g}"


def _draw_pairs(
    axes: Axes, private: pa.Table, rows: pa.Table, columns: Sequence[Column]
) -> None:
    below, above = (_correlations(table, columns) for table in (private, rows))
    both = np.tril(below, -1) + np.triu(above, 1)
    axes.grid(False)
    axes.imshow(both, cmap="RdBu_r", vmin=-1, vmax=1)
    axes.set_title("pairs: private below,\nsynthetic above")
    axes.set_xticks([])
    axes.set_yticks(np.arange(len(columns)), [column.name[:10] for column in columns])


def _correlations(table: pa.Table, columns: Sequence[Column]) -> Floats:
    """Rank correlations of all columns; values of categories in their listed order, missing cells in the middle."""
    ranks = []
    for column in columns:
        cells = table.column(column.name).combine_chunks()
        if column.is_category:
            place = {
                value: float(index) for index, value in enumerate(column.values or ())
            }
            numbers = np.array(
                [place.get(value, np.nan) for value in cells.to_pylist()]
            )
        else:
            numbers = column.numbers(cells)
        present = ~np.isnan(numbers)
        ranked = np.zeros(len(numbers))
        if present.any():
            ranked[present] = rankdata(numbers[present]) - (present.sum() + 1) / 2
        ranks.append(ranked)
    lengths = [max(float(np.linalg.norm(rank)), 1e-12) for rank in ranks]
    unit = np.array([rank / length for rank, length in zip(ranks, lengths)])
    return np.asarray(unit @ unit.T)
