"""`gaussveil study ndis`: the NDIS paper's Figure 2, its bounds, its sketches and posteriors, and what is refuted."""

from __future__ import annotations

from gaussveil.typing import Progress
from gaussveil_studies.ndis import bounds, refutations
from gaussveil_studies.ndis.figures import bounds_figure
from gaussveil_studies.ndis.posterior_parts import posteriors
from gaussveil_studies.ndis.projection_parts import figure_2, sketches
from gaussveil_studies.study import Options, Paper, Part, Picture, Step, Study, Table, shown
from gaussveil_studies.summaries import SUMMARIES

PAPER = Paper(__file__)


def _bounds(options: Options, progress: Progress) -> Part:
    """Exact curves against Lemma 2 and Theorem 4.2; Lemma 3 on random spectra."""
    epsilons = (0.1, 0.25, 0.5, 1.0)
    rows, joint = bounds.lemma_2(epsilons), bounds.theorem_4_2(epsilons)
    progress("Lemma 3", 0.4)
    count = options.pick(40, 700, 5000)
    violations = bounds.lemma_3_violations(count, options.seed)
    looseness = max(row["two_steps"] / row["exact"] for row in joint)
    claims = (
        PAPER.judged(
            "lemma-2", "holds at every epsilon", agrees=all(row["narrow_wide"] <= row["lemma_2"] for row in rows)
        ),
        PAPER.judged(
            "lemma-2-reverse",
            f"{shown(rows[2]['wide_narrow'])}",
            printed=f"delta <= {shown(rows[2]['lemma_2'])} at epsilon 0.5",
            refuted=rows[2]["wide_narrow"] > rows[2]["lemma_2"],
        ),
        PAPER.judged(
            "lemma-3",
            f"{violations} violations in {count} random spectra",
            agrees=violations == 0,
            refuted=violations > 0,
        ),
        PAPER.judged("theorem-4-2", f"up to {shown(looseness)} times the exact delta", agrees=looseness >= 1),
    )
    return Part(
        "The exact spectrum against the paper's bounds",
        (
            "Lemma 2 is right where it is stated. Definition 6 and Theorem 6.1 use it for the other direction, which "
            "is the larger one.",
        ),
        (
            Table.of(
                "lemma-2",
                rows,
                "epsilon; lemma_2: Lemma 2; narrow_wide: narrow || wide, exact; wide_narrow: wide || narrow, exact",
            ),
            Table.of("theorem-4-2", joint, "epsilon; two_steps: Theorem 4.2; exact"),
        ),
        (
            Picture.of(
                "bounds",
                bounds_figure(),
                "Left: Lemma 2 lies above the exact delta of its own direction and below "
                "that of the reverse. Right: Theorem 4.2 with a sound step against the exact joint delta.",
            ),
        ),
        claims,
    )


def _refutations(options: Options, progress: Progress) -> Part:
    """N2, N5 and N7 with their numbers."""
    epsilons = options.pick((1.0,), (0.5, 1.0, 2.0), (0.25, 0.5, 1.0, 2.0, 4.0))
    rows = []
    for place, epsilon in enumerate(epsilons):
        progress(f"Figure 5 at epsilon {epsilon:g}", place / len(epsilons))
        rows.append(refutations.figure_5(epsilon))
    one = next(row for row in rows if row["epsilon"] == 1.0)
    moved = refutations.moved_eigenvalues(60, 10, 1.0, 0.1, options.seed)
    wrong = refutations.auditor_that_accuses_wrongly()
    claims = (
        PAPER.judged(
            "n2-delta",
            shown(one["exact"]),
            refuted=bool(one["refuted"]),
            because=f"Lemma 2 bounds the other direction only, where delta is {shown(one['other_direction'])} (N2)",
        ),
        PAPER.judged(
            "n2-variance", shown(one["needed"]), printed=shown(one["printed"]), refuted=one["printed"] < one["needed"]
        ),
        PAPER.judged("n5-rank", str(moved), refuted=moved != 10),
        PAPER.judged(
            "n7-auditor",
            f"lower end {shown(wrong['lower_end'], 4)}",
            printed=f"{shown(wrong['estimate'], 4)} > {shown(wrong['claimed'], 4)}",
            refuted=wrong["estimate"] > wrong["claimed"] >= wrong["lower_end"] * (1 - 1e-12),
        ),
    )
    columns = (
        "epsilon; claimed: claimed delta; exact: exact delta; other_direction: other direction; printed: variance "
        "printed; needed: variance needed"
    )
    return Part(
        "Refuted: the calibrated mechanism of Figure 5",
        (
            "One record at the queried point, kernel variance 1, observation variance 1e-4, labels within 1e-6; "
            "neighbours are the empty data set and that record.",
        ),
        (Table.of("figure-5", rows, columns),),
        (),
        claims,
    )


STUDY = Study(
    "ndis",
    "Indistinguishability spectrum of Gaussians, recomputed",
    SUMMARIES["ndis"],
    (
        Step("figure-2", "Figure 2", figure_2),
        Step("bounds", "bounds", _bounds),
        Step("sketches", "sketches", sketches),
        Step("posteriors", "posteriors", posteriors),
        Step("refutations", "refutations", _refutations),
    ),
)
