"""Divergences of released mixtures along one knob: epsilon, records, classes or columns (GMM paper, Figures 1 to 9).

Ours under record and label adjacency, Algorithm 1 as printed and the paper's three baselines, which count label flips
as the paper does; none of those four is private as printed (docs/corrections G-a to G-h).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import norm

from gaussveil.figure_style import GRID, INK, SERIES, drawing
from gaussveil.mechanisms.mixture.model import MixtureModel
from gaussveil.typing import Progress
from gaussveil_studies.gmm.releases import DELTA, Release, as_printed, by_label, by_record
from gaussveil_studies.gmm.settings import Setting
from gaussveil_studies.published.gmm_kl import Parameters, draw_coloured, draw_independent
from gaussveil_studies.study import Row


def _baseline(
    draw: Callable[..., Parameters], setting: Setting, epsilon: float, seed: int, **more: str
) -> MixtureModel:
    """One of the paper's baselines."""
    generator = np.random.default_rng(seed)
    known = (setting.rows, setting.codes, setting.classes)
    drawn = draw(*known, epsilon, DELTA, setting.radius, generator=generator, **more)
    return MixtureModel(*drawn, tuple(range(setting.classes)), setting.fitted.columns)


RELEASES: dict[str, Release] = {
    "ours, record": by_record,
    "ours, label": by_label,
    "Algorithm 1": as_printed,
    "coloured Gaussian": partial(_baseline, draw_coloured),
    "iid Gaussian": partial(_baseline, draw_independent, law="gaussian"),
    "iid Laplace": partial(_baseline, draw_independent, law="laplace"),
}
OURS = ("ours, record", "ours, label")
KNOBS = {"N": "records N", "K": "classes K", "d": "columns d"}


def sweep(
    knob: str,
    cases: Sequence[tuple[float, Sequence[Setting], float]],
    repeats: int,
    seed: int,
    progress: Progress,
    releases: Sequence[str] = tuple(RELEASES),
) -> list[Row]:
    """One row per (value, settings, epsilon) and release: both divergences, mean, standard error and median over draws.

    Divergences have heavy tails: where one draw in ten goes wrong the mean is that draw's, so the median stands beside.
    """
    rows: list[Row] = []
    for place, (value, settings, epsilon) in enumerate(cases):
        fits = [setting.fitted for setting in settings]
        for number, name in enumerate(releases):
            progress(f"{knob} {value:g}, {name}", (place + number / len(releases)) / len(cases))
            found = []
            for repeat in range(repeats):
                setting, fitted = settings[repeat % len(settings)], fits[repeat % len(settings)]
                made = RELEASES[name](setting, epsilon, 1000 * (seed + 1) + repeat)
                found.append((made.joint_divergence(fitted), fitted.joint_divergence(made)))
            table = np.array(found)
            errors = table.std(axis=0, ddof=1) / math.sqrt(repeats) if repeats > 1 else (None, None)
            rows.append(
                {
                    knob: value,
                    "release": name,
                    "there": float(table[:, 0].mean()),
                    "there_error": errors[0],
                    "median": float(np.median(table[:, 0])),
                    "back": float(table[:, 1].mean()),
                    "back_error": errors[1],
                }
            )
    return rows


def columns_of(knob: str) -> str:
    """Headings of a sweep's table."""
    return (
        f"{knob}; release; there: released || fitted; there_error: standard error; median; "
        "back: fitted || released; back_error: standard error "
    )


def figure_of(sweeps: Mapping[str, Sequence[Row]]) -> Figure:
    """Median KL(released || fitted), one panel per knob; ours solid, what is not private dashed."""
    columns = min(len(sweeps), 2)
    lines = -(-len(sweeps) // columns)
    with drawing(7.6 if columns > 1 else 6.2, 2.7 * lines + 0.3, lines, columns, squeeze=False) as (figure, grid):
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
        style = "o-" if name in OURS else "s--"
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


def marginals_figure(setting: Setting, models: Mapping[str, MixtureModel], columns: Sequence[int]) -> Figure:
    """Figures 6 and 8: histogram of each class in some columns beside the marginal densities of models."""
    size = (1.7 * setting.classes + 0.6, 1.5 * len(columns) + 0.9)
    with drawing(*size, len(columns), setting.classes, squeeze=False, sharex="row") as (figure, grid):
        for line, column in zip(grid, columns):
            everything = setting.rows[:, column]
            margin = 0.25 * float(np.ptp(everything))
            places = np.linspace(everything.min() - margin, everything.max() + margin, 160)
            for label, axes in enumerate(line):
                rows = everything[setting.codes == label]
                axes.hist(rows, bins=18, density=True, color=GRID, zorder=0)
                top = axes.get_ylim()[1]
                for index, (name, model) in enumerate(models.items()):
                    mean, deviation = model.means[label, column], math.sqrt(model.covariances[label, column, column])
                    ink, dashes = (INK, "--") if name == "fitted" else (SERIES[index - 1], "-")
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
                axes.set_title(f"class {label + 1}, {len(rows)} rows" if column == columns[0] else "", fontsize=8)
        handles, labels = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside lower center", ncols=len(models))
        return figure
