"""The class-based paper's synthetic data: four classes on a line in the plane, Wishart covariances.

The noise as printed is white, since the step it prints is zero (K4); with the line search that Appendix C permits it is
better on average.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Ellipse

from gaussveil.calibration.class_noise import design_class_noise
from gaussveil.figure_style import FAINT, INK, SERIES, drawing
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.typing import Floats, Progress
from gaussveil_studies.published.class_based import algorithm_1

LINE = np.outer(np.linspace(-1.0, 1.0, 4), (1.0, 0.75))
EDGES = np.array([(one, other) for one in range(4) for other in range(one)])
EPSILON = 1.0
CURVE = np.linspace(0.0, 2.0, 21)
KINDS = (
    "none",
    "white",
    "as printed",
    "Algorithm 1 repaired",
    "ours, zero means",
    "ours",
)
DRAWN = ("none", "white", "Algorithm 1 repaired", "ours")


@dataclass(frozen=True, eq=False)
class Draw:
    """One draw of covariances at one accuracy: noise means and covariances by kind of noise."""

    rho: float
    covariances: Floats
    noises: dict[str, tuple[Floats, Floats]]

    def pairs(self, kind: str) -> PrivacyLoss:
        """All ordered edges as one batch."""
        shift, spread = self.noises[kind]
        first, second = np.concatenate([EDGES, EDGES[:, ::-1]]).T
        centres = LINE + shift
        total = self.covariances + spread
        return GaussianPair(
            centres[first], total[first], centres[second], total[second]
        )

    def worst(self, kind: str, epsilon: float = EPSILON) -> float:
        """Exact delta of the worst ordered edge."""
        return float(np.max(np.asarray(self.pairs(kind).delta(epsilon))))


def wishart_covariances(seed: int) -> Floats:
    """Four covariances from a Wishart law with two degrees of freedom and identity scale."""
    roots = np.random.default_rng(seed).normal(size=(4, 2, 2))
    return np.asarray(roots @ roots.transpose(0, 2, 1))


def draws(
    rhos: Sequence[float], count: int, seed: int, progress: Progress
) -> list[Draw]:
    """Every kind of noise for `count` draws at each accuracy, of trace 2 rho each (K3)."""
    made = []
    zero = np.zeros_like(LINE)
    for place, rho in enumerate(rhos):
        for number in range(count):
            progress(
                f"rho {rho:g}, draw {number + 1} of {count}",
                (place * count + number) / (len(rhos) * count),
            )
            spreads = wishart_covariances(seed + number)
            white = np.broadcast_to(rho * np.eye(2), spreads.shape)
            noises = {
                "none": (zero, np.zeros_like(spreads)),
                "white": (zero, np.asarray(white)),
                "as printed": (zero, algorithm_1(LINE, spreads, EDGES, rho)),
                "Algorithm 1 repaired": (
                    zero,
                    algorithm_1(LINE, spreads, EDGES, rho, repaired=True),
                ),
            }
            for kind, free in (("ours, zero means", False), ("ours", True)):
                found = design_class_noise(
                    LINE,
                    spreads,
                    EDGES,
                    epsilon=EPSILON,
                    accuracy=rho,
                    noise_means=free,
                )
                noises[kind] = (
                    np.asarray(found.noise_means),
                    np.asarray(found.noise_covariances),
                )
            made.append(Draw(rho, spreads, noises))
    return made


def contour_figure(draw: Draw) -> Figure:
    """Figure 1: the four classes before noise, and with ours."""
    with drawing(6.4, 3.2, 1, 2, sharex=True, sharey=True) as (figure, panels):
        for axes, kind, title in zip(
            panels, ("none", "ours"), ("the query", f"released, rho = {draw.rho:g}")
        ):
            shift, spread = draw.noises[kind]
            for label in range(len(LINE)):
                values, vectors = np.linalg.eigh(
                    draw.covariances[label] + spread[label]
                )
                angle = float(np.degrees(np.arctan2(vectors[1, 1], vectors[0, 1])))
                centre = LINE[label] + shift[label]
                for level in (1.0, 2.0):
                    width = 2 * level * np.sqrt(values[1])
                    height = 2 * level * np.sqrt(max(values[0], 0.0))
                    line = {
                        "fill": False,
                        "edgecolor": SERIES[label],
                        "linewidth": 2.4 - 0.7 * level,
                    }
                    axes.add_patch(
                        Ellipse(
                            (float(centre[0]), float(centre[1])),
                            width,
                            height,
                            angle=angle,
                            **line,
                        )
                    )
                axes.plot(*centre, "o", color=SERIES[label], markersize=4)
            axes.set_aspect("equal")
            axes.set(xlim=(-6, 6), ylim=(-5, 5), xticks=(-4, -2, 0, 2, 4))
            axes.set_title(title)
            axes.grid(visible=False)
        return figure


def curves_figure(found: Sequence[Draw]) -> Figure:
    """Figure 2: exact worst delta against epsilon, one panel per accuracy; noise designed for epsilon 1."""
    inks = dict(zip(DRAWN, (FAINT, SERIES[1], SERIES[3], SERIES[0])))
    with drawing(2.4 * len(found) + 0.8, 3.1, 1, len(found), sharey=True) as (
        figure,
        panels,
    ):
        panels = np.atleast_1d(panels)
        for axes, draw in zip(panels, found):
            for kind in DRAWN:
                batch = draw.pairs(kind)
                worst = [
                    float(np.max(np.asarray(batch.delta(epsilon)))) for epsilon in CURVE
                ]
                axes.plot(
                    CURVE,
                    worst,
                    color=inks[kind],
                    label=kind,
                    linestyle="--" if kind == "none" else "-",
                )
            axes.axvline(EPSILON, color=INK, linewidth=0.6, linestyle=":")
            axes.set(
                ylim=(0, 1),
                xlim=(0, CURVE[-1]),
                xticks=(0.5, 1.0, 1.5),
                xlabel="epsilon",
            )
            axes.set_title(f"rho = {draw.rho:g}")
        panels[0].set_ylabel("worst exact delta")
        handles, labels = panels[0].get_legend_handles_labels()
        figure.legend(handles, labels, loc="outside upper center", ncols=len(DRAWN))
        return figure
