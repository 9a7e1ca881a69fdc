"""Three pairs of Gaussians and their composition, exact beside the Renyi bound: what the whole library rests on."""

from __future__ import annotations

from gaussveil import RenyiBound
from gaussveil.report.figures import svg
from gaussveil.report.html import Section, Table
from gaussveil.spectrum import GaussianPair, compose
from gaussveil_town.curve_figures import Comparison, compared_curves, tradeoff_curves

DELTA = 1e-6
TIMES = 10
LABELLED = 2  # the panel whose lines lie well apart


def example_panels() -> list[Comparison]:
    """A mean that moves, a covariance that grows, both at once, and all of them ten times."""
    shift = GaussianPair.mean_shift(0.25)
    sketch = GaussianPair.from_reduced([-0.05] * 8, [0.0] * 8)
    forecast = GaussianPair(
        mean_x=[0.15, 0.05, -0.10],
        cov_x=[[1.08, 0.24, 0.00], [0.24, 1.00, 0.20], [0.00, 0.20, 0.97]],
        mean_y=[0.00, 0.00, 0.00],
        cov_y=[[1.00, 0.20, 0.00], [0.20, 1.00, 0.20], [0.00, 0.20, 1.00]],
    )
    together = compose(shift, sketch, forecast) ** TIMES
    return [
        Comparison("A mean moves", "N(0.25, 1) against N(0, 1)", shift),
        Comparison(
            "A covariance grows", "8 coordinates, variance 1.05 against 1", sketch
        ),
        Comparison("Both at once", "3 correlated coordinates", forecast),
        Comparison("All three, ten times", "30 releases composed exactly", together),
    ]


def compared_epsilons(panels: list[Comparison]) -> list[tuple[str, float, float]]:
    """Title, exact epsilon and Renyi bound of every panel, at `DELTA`, the worse of both directions."""
    return [
        (
            panel.title,
            float(panel.loss.dp_epsilon(DELTA)),
            float(RenyiBound.customary(panel.loss).epsilon(DELTA)),
        )
        for panel in panels
    ]


def curve_sections() -> tuple[Section, ...]:
    """The curves and what an attacker can do, as parts of a report."""
    panels = example_panels()
    delta = f"{DELTA:g}".replace("e-0", "e-")
    curves = svg(
        compared_curves(panels, DELTA, labelled=LABELLED),
        "curves",
        "Four panels of delta against epsilon: the exact curve lies below the Rényi bound in each.",
    )
    tradeoff = svg(
        tradeoff_curves([(panel.title, panel.loss) for panel in panels]),
        "tradeoff",
        "Trade-off curves: smallest type II error against type I error.",
    )
    table = Table(
        columns=("", "exact epsilon", "Rényi bound", "overstated by"),
        rows=[
            (t, f"{e:.4f}", f"{b:.4f}", f"{b / e - 1:.0%}")
            for t, e, b in compared_epsilons(panels)
        ],
        caption=f"Epsilon at delta = {delta}, the worse of both directions",
    )
    return (
        Section(
            heading="Why exact: privacy curves",
            paragraphs=(
                "Each panel shows the smallest delta at every epsilon. The solid line is exact, the worse of both "
                "directions; the dotted line is the other direction. The dashed grey line is the Rényi bound with "
                "the customary list of orders, which most libraries report; the shaded gap is privacy that such an "
                "accountant charges for nothing.",
            ),
            figure=curves,
            caption=f"The dots mark epsilon at delta = {delta}.",
            table=table,
        ),
        Section(
            heading="What an attacker can do",
            paragraphs=(
                "Whoever tries to tell X from Y must accept one of these pairs of errors. On the diagonal nothing "
                "can be learnt; the closer a curve comes to the lower left corner, the more is lost.",
            ),
            figure=tradeoff,
        ),
    )
