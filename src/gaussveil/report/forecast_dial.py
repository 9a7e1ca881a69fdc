"""The dial of a forecast as a figure and as lines: what is kept, and its error beside the group's and the plain one."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from gaussveil.figure_style import FAINT, INK, SERIES, drawing, legend_above
from gaussveil.mechanisms.forecast_dial import DialPoint, chosen

HEADINGS = (
    "groups at most",
    "homes in each",
    "epsilon",
    "delta",
    "kept",
    "error",
    "of its group",
    "plain",
)


def dial_figure(points: Sequence[DialPoint]) -> Figure:
    """Left the share kept, right the error of log power, by promise; a line for every number of groups."""
    promises = list(dict.fromkeys((point.epsilon, point.delta) for point in points))
    places = np.arange(len(promises))
    with drawing(8.6, 3.4, 1, 2) as (figure, (kept, error)):
        for index, number in enumerate(sorted({point.clusters for point in points})):
            own = [point for point in points if point.clusters == number]
            colour = SERIES[index % len(SERIES)]
            name = f"groups of {own[0].group:.0f}"
            kept.plot(
                places,
                [point.kept for point in own],
                color=colour,
                marker="o",
                markersize=3,
                label=name,
            )
            error.plot(
                places,
                [point.private for point in own],
                color=colour,
                marker="o",
                markersize=3,
            )
            error.axhline(own[0].centre, color=colour, linestyle="--", linewidth=1.0)
        error.axhline(points[0].plain, color=INK, linewidth=1.0)
        error.annotate(
            "plain", (0, points[0].plain), fontsize=8, color=FAINT, va="bottom"
        )
        kept.set_title("share of the homes' differences that is kept")
        error.set_title("error of log power; dashed: the group's average")
        for axes in (kept, error):
            axes.set_xticks(
                places, [f"{epsilon:g}\n{delta:g}" for epsilon, delta in promises]
            )
            axes.set_xlabel("epsilon, and delta below")
        kept.set_ylim(0.0, 1.0)
        legend_above(figure, kept)
        return figure


def dial_lines(points: Sequence[DialPoint]) -> tuple[list[tuple[str, ...]], str]:
    """Rows of a table, and a sentence on which setting pays."""
    rows: list[tuple[str, ...]] = [
        (
            str(point.clusters),
            f"{point.group:.0f}",
            f"{point.epsilon:g}",
            f"{point.delta:g}",
            f"{point.kept:.2g}",
            *(
                "-" if math.isnan(error) else f"{error:.3g}"
                for error in (point.private, point.centre, point.plain)
            ),
        )
        for point in points
    ]
    best = chosen(points)
    if best is None:
        return (
            rows,
            "at none of these settings does a forecast of one home tell more than its group's average",
        )
    if math.isnan(best.private):
        return rows, (
            f"a forecast of one home keeps {best.kept:.2g} of the variance between homes' forecasts "
            f"at epsilon {best.epsilon:g}, delta {best.delta:g}, in groups of {best.group:.0f}; "
            "errors are known only with readings that followed (--at)"
        )
    return rows, (
        f"a forecast of one home first pays at epsilon {best.epsilon:g}, delta {best.delta:g}, in groups of "
        f"{best.group:.0f}: it keeps {best.kept:.2g}"
    )
