"""Pictures of exact privacy curves: beside the Renyi bound, and as what any test must accept."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.patheffects import withStroke
from matplotlib.ticker import MaxNLocator

from gaussveil import RenyiBound
from gaussveil.figure_style import FAINT, INK, PAPER, SERIES, drawing, house_style
from gaussveil.report.figures import FLOOR, Named, delta_axes, drawn
from gaussveil.spectrum import PrivacyLoss
from gaussveil.typing import Floats


@dataclass(frozen=True)
class Comparison:
    """One panel of `compared_curves`: a loss and the delta at which the two epsilons are read off."""

    title: str
    subtitle: str
    loss: PrivacyLoss


def tradeoff_curves(losses: Named, points: int = 201) -> Figure:
    """Draw the smallest type II error at each type I error: what any test that tells X from Y must accept (f-DP)."""
    # Denser near both ends, where the curves bend.
    type_one = (1.0 - np.cos(np.linspace(0.0, np.pi, points))) / 2.0
    with drawing(4.6, 4.4) as (figure, axes):
        axes.plot(
            [0.0, 1.0], [1.0, 0.0], color=FAINT, linewidth=0.9, linestyle=(0, (1, 2))
        )
        axes.text(
            0.62,
            0.40,
            "nothing learnt",
            color=FAINT,
            fontsize=8,
            rotation=-45,
            rotation_mode="anchor",
            ha="center",
        )
        for index, (name, loss) in enumerate(losses):
            axes.plot(
                type_one,
                loss.tradeoff(type_one),
                color=SERIES[index % len(SERIES)],
                label=name,
            )
        axes.set(
            xlim=(0.0, 1.0),
            ylim=(0.0, 1.0),
            xlabel="false alarms (type I error)",
            aspect="equal",
        )
        axes.set_title("missed detections (type II error)")
        axes.legend(loc="upper right")
        return figure


def compared_curves(
    panels: Sequence[Comparison], delta: float = 1e-6, labelled: int = 0
) -> Figure:
    """Draw each loss in its own panel, exact both ways, beside the Renyi bound; mark both epsilons at delta.

    The lines are named in one panel only, `labelled`: choose one whose lines lie well apart.
    """
    with house_style():
        columns = 2
        rows = -(-len(panels) // columns)
        figure = Figure(
            figsize=(7.6, 2.95 * rows),
            layout=ConstrainedLayoutEngine(w_pad=0.12, h_pad=0.12),
        )
        grid = figure.subplots(rows, columns, squeeze=False, sharey=True).ravel()
        for index, (axes, panel) in enumerate(zip(grid, panels)):
            lines = _compare(axes, panel, SERIES[index % len(SERIES)], delta)
            if index % columns == 0:
                axes.annotate(
                    "delta",
                    (0.0, 1.0),
                    (-8, 10),
                    "axes fraction",
                    "offset points",
                    ha="right",
                )
            if index == labelled:
                _name_lines(axes, SERIES[index % len(SERIES)], lines)
        for axes in grid[len(panels) :]:
            axes.set_visible(False)
        return figure


def _compare(
    axes: Axes, panel: Comparison, colour: str, delta: float
) -> tuple[Floats, Floats, Floats, Floats]:
    exact = float(panel.loss.dp_epsilon(delta))
    customary = RenyiBound.customary(panel.loss)
    bound = float(customary.epsilon(delta))
    right = max(1.15 * bound, float(panel.loss.dp_epsilon(FLOOR)))
    epsilons = np.linspace(0.0, right, 181)
    forward = panel.loss.delta(epsilons)
    backward = panel.loss.reversed().delta(epsilons)
    worse = drawn(np.maximum(forward, backward))
    better = drawn(np.minimum(forward, backward))
    renyi = drawn(np.asarray(customary.delta(epsilons)))

    axes.fill_between(epsilons, worse, renyi, color=colour, alpha=0.13, linewidth=0)
    axes.plot(epsilons, renyi, color=FAINT, linewidth=1.3, linestyle=(0, (4, 2)))
    axes.plot(epsilons, better, color=colour, linewidth=1.0, linestyle=(0, (1, 1.2)))
    axes.plot(epsilons, worse, color=colour)
    delta_axes(axes, right)

    axes.plot([exact, bound], [delta, delta], color=INK, linewidth=0.9)
    for epsilon, ink in ((exact, colour), (bound, FAINT)):
        axes.plot(
            epsilon,
            delta,
            "o",
            markersize=5,
            color=ink,
            markeredgecolor=INK,
            markeredgewidth=0.8,
            zorder=5,
        )
    _write(axes, f"{exact:.3g}", (exact, delta), (-6, -9), "right", INK, "bold")
    _write(axes, f"{bound:.3g}", (bound, delta), (6, 9), "left", FAINT)
    axes.set_title(panel.title, pad=22.0, color=INK, fontweight="bold")
    axes.annotate(
        panel.subtitle,
        (0.0, 1.0),
        (0, 10),
        "axes fraction",
        "offset points",
        fontsize=8,
        color=FAINT,
    )
    axes.set_xlabel("epsilon")
    axes.xaxis.set_major_locator(MaxNLocator(nbins=6, steps=[1, 2, 5, 10]))
    return epsilons, worse, better, renyi


def _name_lines(
    axes: Axes, colour: str, lines: tuple[Floats, Floats, Floats, Floats]
) -> None:
    """Name the lines where they run, instead of a legend."""
    epsilons, worse, better, renyi = lines
    for text, line, level, shift, side, ink in (
        ("exact", worse, 1e-8, (-6.0, -3.0), "right", colour),
        ("other direction", better, 1e-8, (-6.0, -3.0), "right", colour),
        ("Rényi bound", renyi, 1e-4, (7.0, 2.0), "left", FAINT),
    ):
        _write(
            axes,
            text,
            (float(np.interp(-level, -line, epsilons)), level),
            shift,
            side,
            ink,
        )


def _write(
    axes: Axes,
    text: str,
    at: tuple[float, float],
    shift: tuple[float, float],
    side: str,
    ink: str,
    weight: str = "normal",
) -> None:
    # The halo keeps text readable where it crosses a line.
    halo = [withStroke(linewidth=2.5, foreground=PAPER)]
    axes.annotate(
        text,
        at,
        shift,
        "data",
        "offset points",
        ha=side,
        va="center",
        color=ink,
        weight=weight,
        path_effects=halo,
    )
