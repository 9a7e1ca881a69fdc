"""Figures of the NDIS study: Figure 2 of the paper, its bounds beside the exact curves, the variance that is needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, NullFormatter, StrMethodFormatter

from gaussveil.figure_style import FAINT, INK, SERIES, drawing, legend_above
from gaussveil_studies.ndis.bounds import SPECTRUM, joint_pair, lemma_2, theorem_4_2
from gaussveil_studies.ndis.variances import Variances


def improvement_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Figure 2: how many times more leverage the exact pair allows than bounds on the least singular value."""
    with drawing(6.4, 3.4) as (figure, axes):
        for index, count in enumerate(sorted({row["components"] for row in rows})):
            own = [row for row in rows if row["components"] == count]
            epsilons = [row["epsilon"] for row in own]
            factors = [row["factor"] for row in own]
            axes.plot(
                epsilons,
                factors,
                "o-",
                markersize=3.5,
                color=SERIES[index],
                label=f"r = {count:g}",
            )
        axes.set_xscale("log")
        axes.xaxis.set_major_locator(FixedLocator([0.1, 0.2, 0.5, 1, 2, 5]))
        axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set_ylim(bottom=0)
        axes.set_xlabel("epsilon")
        axes.set_title("leverage allowed, over what singular values allow")
        axes.legend(loc="lower left", ncols=2)
        return figure


def bounds_figure() -> Figure:
    """Lemma 2 and Theorem 4.2 against exact curves."""
    epsilons = np.linspace(0.0, 1.5, 61)
    covariance = lemma_2(epsilons.tolist())
    joint = theorem_4_2(epsilons[::6].tolist())
    with drawing(7.2, 3.4, 1, 2, sharey=True) as (figure, (left, right)):
        for key, label, colour, dashes in (
            ("wide_narrow", "exact, wide against narrow", SERIES[1], "-"),
            ("narrow_wide", "exact, narrow against wide", SERIES[0], "-"),
            ("lemma_2", "Lemma 2", INK, "--"),
        ):
            values = np.array([row[key] for row in covariance])
            shown = values > 0
            left.plot(
                epsilons[shown],
                values[shown],
                color=colour,
                linestyle=dashes,
                label=label,
                linewidth=1.3 if dashes == "--" else 2.0,
            )
        ratios = ", ".join(f"{ratio:g}" for ratio in SPECTRUM)
        left.set_title(f"covariances, ratios {ratios}")
        right.plot(
            epsilons,
            joint_pair().delta(epsilons),
            color=SERIES[2],
            label="exact, one pair",
        )
        right.plot(
            [row["epsilon"] for row in joint],
            [row["two_steps"] for row in joint],
            color=INK,
            linestyle="--",
            linewidth=1.3,
            dashes=(1, 1.5),
            label="Theorem 4.2, sound step",
        )
        right.set_title("mean and covariance")
        for axes in (left, right):
            axes.set_yscale("log")
            axes.set_ylim(1e-4, 1)
            axes.set_xlim(0, 1.5)
            axes.set_xlabel("epsilon")
        left.set_ylabel("delta")
        legend_above(figure, left, right, columns=3)
        return figure


def variances_figure(rows: Sequence[Variances]) -> Figure:
    """Added variance as printed and as needed, case by case."""
    with drawing(6.8, 0.42 * len(rows) + 1.2) as (figure, axes):
        places = np.arange(len(rows))[::-1]
        for row, place in zip(rows, places):
            axes.plot(
                [row.printed, row.exact],
                [place, place],
                color=FAINT,
                linewidth=0.8,
                zorder=1,
            )
        marks = (
            ("printed", "as printed", SERIES[1], "s"),
            (
                "printed_sensitivity",
                "printed sensitivity, right direction",
                SERIES[3],
                "D",
            ),
            ("exact", "needed, exact", SERIES[0], "o"),
        )
        for key, label, colour, marker in marks:
            values = [getattr(row, key) for row in rows]
            axes.plot(
                values,
                places,
                marker,
                color=colour,
                markersize=6,
                linestyle="none",
                label=label,
            )
        axes.set_yticks(places, [row.case for row in rows])
        axes.set_xscale("log")
        axes.grid(axis="x")
        axes.set_ylim(-0.6, len(rows) - 0.4)
        axes.set_xlabel("added variance at (1, 1e-5)")
        axes.legend(loc="lower center", bbox_to_anchor=(0.35, 1.0), ncols=3)
        return figure
