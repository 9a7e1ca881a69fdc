"""`gaussveil study ndis`: the NDIS paper's Figure 2, its bounds, its sketches and posteriors; every claim."""

from __future__ import annotations

from gaussveil.typing import Progress
from gaussveil_studies.errata.part import errata_step
from gaussveil_studies.ndis import bounds, refutations
from gaussveil_studies.ndis.figures import bounds_figure
from gaussveil_studies.ndis.posterior_parts import posteriors
from gaussveil_studies.ndis.projection_parts import figure_2, sketches
from gaussveil_studies.study import (
    Options,
    Paper,
    Part,
    Picture,
    Step,
    Study,
    Table,
    shown,
)
from gaussveil_studies.summaries import SUMMARIES

PAPER = Paper("NDIS")


def _bounds(options: Options, progress: Progress) -> Part:
    """Exact curves against Lemma 2 and Theorem 4.2; Lemma 3 on random spectra."""
    epsilons = (0.1, 0.25, 0.5, 1.0)
    rows = bounds.lemma_2(epsilons)
    joint = bounds.theorem_4_2(epsilons)
    progress("Lemma 3", 0.4)
    count = options.pick(40, 700, 5000)
    violations = bounds.lemma_3_violations(count, options.seed)
    looseness = max(row["two_steps"] / row["exact"] for row in joint)
    claims = (
        PAPER.judged(
            "lemma-2",
            "holds at every epsilon",
            borne_out=all(row["narrow_wide"] <= row["lemma_2"] for row in rows),
        ),
        PAPER.judged(
            "lemma-3",
            f"{violations} violations in {count} random spectra",
            borne_out=violations == 0,
        ),
        PAPER.judged(
            "theorem-4-2",
            f"up to {shown(looseness)} times the exact delta",
            borne_out=looseness >= 1,
        ),
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


def _figure_5(options: Options, progress: Progress) -> Part:
    """N2: what Figure 5 adds, what that spends, what is needed."""
    epsilons = options.pick((1.0,), (0.5, 1.0, 2.0), (0.25, 0.5, 1.0, 2.0, 4.0))
    rows = []
    for place, epsilon in enumerate(epsilons):
        progress(f"Figure 5 at epsilon {epsilon:g}", place / len(epsilons))
        rows.append(refutations.figure_5(epsilon))
    one = next(row for row in rows if row["epsilon"] == 1.0)
    columns = (
        "epsilon; claimed: claimed delta; exact: exact delta; other_direction: other direction; printed: variance "
        "printed; needed: variance needed"
    )
    return Part(
        "The calibrated mechanism of Figure 5",
        (
            "One record at the queried point, kernel variance 1, observation variance 1e-4, labels within 1e-6; "
            "neighbours are the empty data set and that record.",
        ),
        (Table.of("figure-5", rows, columns),),
        (),
        (
            PAPER.judged(
                "figure-5-variance",
                shown(one["needed"]),
                printed=shown(one["printed"]),
                borne_out=one["printed"] < one["needed"] and bool(one["refuted"]),
            ),
        ),
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
        Step("refutations", "Figure 5", _figure_5),
        errata_step("NDIS"),
    ),
)
