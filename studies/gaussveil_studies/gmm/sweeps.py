"""Divergences of released mixtures along one knob: epsilon, records, classes or columns (GMM paper, Figures 1 to 9).

Ours under record and label adjacency, Algorithm 1 as printed and the paper's three baselines, which count label flips
as the paper does; none of those four is private as printed (docs/corrections G-a to G-h).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from gaussveil.figure_style import GRID, INK, SERIES, drawing
from gaussveil.postprocessing.mixture_model import MixtureModel
from gaussveil.typing import Progress
from gaussveil_studies.gmm.releases import (
    Release,
    as_coloured,
    as_independent,
    as_printed,
    by_label_drawn,
    by_record,
)
from gaussveil_studies.gmm.settings import Setting, setting_of
from gaussveil_studies.gmm.uses import accuracy
from gaussveil_studies.study import Options, Row, spread
from gaussveil_studies.trials import Rows, Task, run_trials

RELEASES: dict[str, Release] = {
    "ours, record": by_record,
    "ours, label": by_label_drawn,
    "Algorithm 1": as_printed,
    "coloured Gaussian": as_coloured,
    "iid Gaussian": partial(as_independent, law="gaussian"),
    "iid Laplace": partial(as_independent, law="laplace"),
}
OURS = ("ours, record", "ours, label")
BASELINES = ("coloured Gaussian", "iid Gaussian", "iid Laplace")  # the paper's
PIECE = 25  # draws of one setting in one piece of work
Key = tuple[Any, ...]
KNOBS = {"N": "records N", "K": "classes K", "d": "columns d"}


def trial(task: Task) -> Rows:
    """Divergences both ways, and the accuracy on held-out records where there are labels, of some draws."""
    key, release, epsilon, seeds = task
    setting = setting_of(tuple(key))
    rows = []
    for seed in seeds:
        made = RELEASES[release](setting, epsilon, seed)
        if setting.name == "mnist":
            right = accuracy(made, setting)
        else:
            right = math.nan
        rows.append(
            [
                made.joint_divergence(setting.fitted),
                setting.fitted.joint_divergence(made),
                right,
            ]
        )
    return rows


def sweep(
    knob: str,
    cases: Sequence[tuple[float, Sequence[Key], float]],
    repeats: int,
    options: Options,
    progress: Progress,
) -> list[Row]:
    """One row per (value, settings, epsilon) and release: both divergences over draws, which go round the settings.

    Divergences have heavy tails: where one draw in ten goes wrong the mean is that draw's, so median and deciles stand
    beside.
    """
    pieces: list[tuple[tuple[float, str], Task]] = []
    for value, keys, epsilon in cases:
        for name in RELEASES:
            for place, key in enumerate(keys):
                seeds = [
                    1000 * (options.seed + 1) + repeat
                    for repeat in range(place, repeats, len(keys))
                ]
                pieces += [
                    ((value, name), (key, name, epsilon, seeds[at : at + PIECE]))
                    for at in range(0, len(seeds), PIECE)
                ]
    pieces.sort(
        key=lambda piece: str(piece[1][0])
    )  # what draws of one setting share is computed once
    found = run_trials(
        trial,
        [task for _, task in pieces],
        progress,
        workers=options.workers,
        kept=options.kept,
    )
    lines: dict[tuple[float, str], Rows] = {
        (value, name): [] for value, _, _ in cases for name in RELEASES
    }
    for (line, _), drawn in zip(pieces, found):
        lines[line] += drawn
    rows: list[Row] = []
    for (value, name), drawn in lines.items():
        table = np.array(drawn)
        there, back, right = (spread(column) for column in table.T)
        rows.append(
            {
                knob: value,
                "release": name,
                "there": there["mean"],
                "there_error": there["error"],
                "median": there["median"],
                "low": there["low"],
                "high": there["high"],
                "back": back["mean"],
                "back_error": back["error"],
                "accuracy": right["mean"],
                "accuracy_error": right["error"],
                "draws": len(table),
            }
        )
    return rows


def columns_of(knob: str) -> str:
    """Headings of a sweep's table."""
    return (
        f"{knob}; release; there: released || fitted; there_error: standard error; median; low: 10 %; high: 90 %; "
        "back: fitted || released; back_error: standard error ; draws"
    )


def figure_of(sweeps: Mapping[str, Sequence[Row]]) -> Figure:
    """Median KL(released || fitted), one panel per knob; ours solid, what is not private dashed."""
    columns = min(len(sweeps), 2)
    lines = -(-len(sweeps) // columns)
    with drawing(
        7.6 if columns > 1 else 6.2, 2.7 * lines + 0.3, lines, columns, squeeze=False
    ) as (figure, grid):
        for axes, (knob, rows) in zip(grid.flat, sweeps.items()):
            _panel(axes, knob, rows)
        for axes in grid[:, 0]:
            axes.set_ylabel("median KL(released || fitted)")
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside right center")
        return figure


def _panel(axes: Axes, knob: str, rows: Sequence[Row]) -> None:
    names = list(dict.fromkeys(str(row["release"]) for row in rows))
    for index, name in enumerate(names):
        own = [row for row in rows if row["release"] == name]
        if name in OURS:
            style = "o-"
        else:
            style = "s--"
        axes.plot(
            [row[knob] for row in own],
            [row["median"] for row in own],
            style,
            color=SERIES[index],
            label=name,
            markersize=4,
            linewidth=2.0 if name in OURS else 1.3,
        )
    values = sorted({float(row[knob]) for row in rows})
    if values[-1] > 4 * values[0]:
        axes.set_xscale("log")
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_yscale("log")
    axes.set_xlabel(KNOBS.get(knob, knob))


def marginals_figure(
    setting: Setting, models: Mapping[str, MixtureModel], columns: Sequence[int]
) -> Figure:
    """Figures 6 and 8: histogram of each class in some columns beside the marginal densities of models."""
    size = (1.7 * setting.classes + 0.6, 1.5 * len(columns) + 0.9)
    with drawing(*size, len(columns), setting.classes, squeeze=False, sharex="row") as (
        figure,
        grid,
    ):
        for line, column in zip(grid, columns):
            everything = setting.rows[:, column]
            margin = 0.25 * float(np.ptp(everything))
            places = np.linspace(
                everything.min() - margin, everything.max() + margin, 160
            )
            for label, axes in enumerate(line):
                rows = everything[setting.codes == label]
                axes.hist(rows, bins=18, density=True, color=GRID, zorder=0)
                top = axes.get_ylim()[1]
                for index, (name, model) in enumerate(models.items()):
                    mean = model.means[label, column]
                    deviation = math.sqrt(model.covariances[label, column, column])
                    ink, dashes = (
                        (INK, "--") if name == "fitted" else (SERIES[index - 1], "-")
                    )
                    axes.plot(
                        places,
                        norm.pdf(places, mean, deviation),
                        color=ink,
                        linestyle=dashes,
                        linewidth=1.3,
                        label=name,
                    )
                axes.set(ylim=(0, 1.15 * top), yticks=[])
                axes.grid(visible=False)
                axes.set_title(
                    f"class {label + 1}, {len(rows)} rows"
                    if column == columns[0]
                    else "",
                    fontsize=8,
                )
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(models))
        return figure
