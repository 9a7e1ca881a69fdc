"""Figure of a white-box audit: how private each neighbour is, beside what was claimed. Private, like the audit."""

from __future__ import annotations

import numpy as np
from matplotlib.figure import Figure

from gaussveil.audit import Audit
from gaussveil.figure_style import INK, SERIES, drawing

_FLOOR = 1e-300


def audit_curve(found: Audit) -> Figure:
    """Draw delta of the neighbours, sorted from the worst on, against their share; the claim is a line."""
    share, delta = found.curve()
    shown = np.maximum(delta, _FLOOR)
    with drawing(6.4, 4.0) as (figure, axes):
        axes.plot(
            100.0 * share,
            shown,
            color=SERIES[0],
            marker="o" if len(share) < 20 else "",
            markersize=4,
        )
        if found.claim.delta > 0:
            above = found.claim.delta < shown
            axes.fill_between(
                100.0 * share,
                found.claim.delta,
                shown,
                where=above,
                color=SERIES[1],
                alpha=0.2,
            )
            axes.axhline(found.claim.delta, color=INK, linewidth=1.0)
            axes.annotate(
                "claimed",
                (1.0, found.claim.delta),
                (-4, 4),
                ("axes fraction", "data"),
                "offset points",
                ha="right",
            )
        axes.set_yscale("log")
        lowest = max(float(np.min(shown)), float(np.max(shown)) * 1e-12)
        # The claim stays in sight even where every neighbour lies far above it.
        axes.set_ylim(max(min(lowest, found.claim.delta or lowest), _FLOOR) / 2.0, 1.5)
        axes.set(
            xlim=(0.0, 100.0), xlabel="per cent of the neighbours, the worst first"
        )
        title = f"exact delta at epsilon {found.claim.epsilon:g}, {len(found.log_delta)} neighbours: {found.verdict}"
        axes.set_title(title)
        return figure
