"""`gaussveil study peers`: our numbers beside other libraries': promises kept or not, accuracy, failures, speed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict

from matplotlib.figure import Figure

from gaussveil.figure_style import INK, SERIES, drawing, legend_above
from gaussveil.typing import Progress
from gaussveil_studies.peers import questions
from gaussveil_studies.peers.environments import Peer
from gaussveil_studies.study import (
    Claim,
    Options,
    Part,
    Picture,
    Step,
    Study,
    Table,
    Verdict,
    judged,
    shown,
)
from gaussveil_studies.summaries import SUMMARIES


def promises(options: Options, progress: Progress) -> Part:
    """Noise calibrated by each library, audited exactly."""
    progress("calibrating", 0.1)
    rows = questions.calibrations(
        promises=options.pick(
            questions.PROMISES[1:2], questions.PROMISES, questions.PROMISES
        )
    )
    claims = [
        _calibration_claim(name, [row for row in rows if row.peer == name])
        for name in _names(questions.CALIBRATORS)
    ]
    columns = (
        "peer: library; version; epsilon; delta; sigma; exact_delta: exact delta; times_too_much: times the promise; "
        "verdict: audit"
    )
    pictures = (
        Picture.of(
            "promises",
            _promises_figure(rows),
            "Exact delta of the noise each library calibrates, over "
            "the delta promised: above one the promise is broken.",
        ),
    )
    return Part(
        "Calibrated noise against the auditor",
        (
            "Gaussian noise for sensitivity 1 as each library calibrates it. The auditor evaluates the delta it has "
            "and refutes with a rigorous lower end only.",
        ),
        (Table.of("calibrations", [asdict(row) for row in rows], columns),),
        pictures,
        tuple(claims),
    )


def _calibration_claim(name: str, rows: Sequence[questions.Calibration]) -> Claim:
    text = f"{name} calibrates Gaussian noise that keeps its promise"
    answered = [row for row in rows if row.times_too_much is not None]
    if not answered:
        return Claim(
            f"calibration-{name}",
            text,
            "delta kept",
            "",
            Verdict.NOT_SHOWN,
            rows[0].verdict,
        )
    worst = max(answered, key=lambda row: row.times_too_much or 0.0)
    times = worst.times_too_much or 0.0
    at = f"at epsilon {worst.epsilon:g}, delta {worst.delta:g}"
    return judged(
        f"calibration-{name}",
        text,
        "delta kept",
        f"{times:.4g} times the promised delta",
        refuted=any(row.verdict == "refuted" for row in answered),
        agrees=True,
        because=at,
    )


def _promises_figure(rows: Sequence[questions.Calibration]) -> Figure:
    names = ["gaussveil", *_names(questions.CALIBRATORS)]
    points = sorted({(row.epsilon, row.delta) for row in rows})
    with drawing(6.4, 0.45 * len(names) + 1.1) as (figure, axes):
        for index, (epsilon, delta) in enumerate(points):
            own = [
                row
                for row in rows
                if (row.epsilon, row.delta) == (epsilon, delta) and row.times_too_much
            ]
            aside = 0.2 * (
                index - (len(points) - 1) / 2
            )  # points that agree stay visible
            heights = [len(names) - 1 - names.index(row.peer) - aside for row in own]
            axes.plot(
                [row.times_too_much or 1.0 for row in own],
                heights,
                "o",
                color=SERIES[index],
                markersize=7,
                label=f"({epsilon:g}, {delta:g})",
                alpha=0.85,
            )
        axes.axvline(1.0, color=INK, linewidth=1.0)
        axes.set_xscale("log")
        axes.set_yticks(range(len(names)), names[::-1])
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.grid(axis="x")
        axes.set_xlabel("exact delta over promised delta")
        axes.set_title("left of the line: kept")
        legend_above(figure, axes)
        return figure


def accountants(options: Options, progress: Progress) -> Part:
    """Composed Gaussians, where the closed form is known."""
    progress("composing", 0.1)
    rows = questions.compositions(
        cases=options.pick(
            questions.COMPOSITIONS[:1], questions.COMPOSITIONS, questions.COMPOSITIONS
        )
    )
    claims = [
        _accountant_claim(name, [row for row in rows if row.peer == name], rows)
        for name in _names(questions.ACCOUNTANTS)
    ]
    columns = (
        "peer: library; sigma; count: composed; epsilon; delta; "
        "over_exact: over exact; seconds: CPU seconds; remark"
    )
    return Part(
        "Accountants on composed Gaussian mechanisms",
        (
            "Gaussian mechanisms of sensitivity 1, composed; the last case is one where accountants on grids fail. CPU "
            "seconds are of a second call, measured in this run.",
        ),
        (Table.of("compositions", [asdict(row) for row in rows], columns),),
        (),
        tuple(claims),
    )


def _accountant_claim(
    name: str,
    rows: Sequence[questions.Composition],
    everything: Sequence[questions.Composition],
) -> Claim:
    text = f"{name} composes Gaussian mechanisms soundly and closely"
    if all("absent" in row.remark for row in rows):
        return Claim(
            f"accountant-{name}", text, "delta", "", Verdict.NOT_SHOWN, rows[0].remark
        )
    exact = {
        (row.sigma, row.count): row.seconds or 0.0
        for row in everything
        if row.peer == "gaussveil"
    }
    ratios = [
        row.seconds / max(exact[row.sigma, row.count], 1e-6)
        for row in rows
        if row.seconds is not None
    ]
    failures = [row for row in rows if row.over_exact is None]
    loose = max(
        (row.over_exact for row in rows if row.over_exact is not None),
        default=float("nan"),
    )
    low = any(row.remark == "too small" for row in rows)
    return judged(
        f"accountant-{name}",
        text,
        "delta",
        f"{len(rows) - len(failures)} of {len(rows)} answered, at most {shown(loose, 4)} times exact",
        refuted=low or any(row.seconds is not None for row in failures),
        agrees=not failures and loose < 1.1,
        because="; ".join(
            [f"{row.count} composed: {row.remark}" for row in failures]
            + (["a delta below the exact one"] if low else [])
            + (
                [
                    f"{shown(min(ratios), 2)} to {shown(max(ratios), 2)} times our CPU time"
                ]
                if ratios
                else []
            )
        ),
    )


def distributions(options: Options, progress: Progress) -> Part:
    """gx2 and Davies on named and on random pairs."""
    progress("named pairs", 0.1)
    rows = questions.quadratic_forms(count=options.pick(1, 3, 3))
    progress("random pairs", 0.4)
    surveyed = questions.survey(options.pick(4, 40, 200), options.seed)
    claims = []
    for row in surveyed[1:]:
        key = f"forms-{str(row['method']).lower()}"
        text = f"{row['method']} gives delta from two quadratic forms"
        if row["answered"] is None:
            claims.append(
                Claim(key, text, "delta", "", Verdict.NOT_SHOWN, str(row["remark"]))
            )
            continue
        wrong = int(row["wrong"])
        silent = int(row["pairs"]) - int(row["answered"])
        claims.append(
            judged(
                key,
                text,
                "delta",
                f"{wrong} of {row['pairs']} wrong by over 1 %, {silent} refused",
                refuted=wrong > 0,
                agrees=silent == 0,
                because=f"worst relative error {shown(row['worst'])}, ours {shown(surveyed[0]['worst'], 1)}; "
                f"{shown(row['seconds'] / surveyed[0]['seconds'], 2)} times our CPU time",
            )
        )
    named = "pair; epsilon; lower: enclosure from; upper: to; gaussveil; gx2; davies: Davies (mgcv)"
    overall = (
        "method; version; pairs; answered; wrong: wrong by over 1 %; median: median error; worst: worst error; "
        "seconds: CPU s per pair; remark"
    )
    return Part(
        "Distributions of quadratic forms",
        (
            "delta as a difference of two tail probabilities of generalised chi-squares: what one does without an "
            "exact spectrum. The truth is a rigorous enclosure.",
        ),
        (
            Table.of("named", rows, named),
            Table.of("survey", surveyed, overall, "Seeded ordinary pairs, d = 2 to 12"),
        ),
        (),
        tuple(claims),
    )


def _names(peers: Iterable[Peer]) -> list[str]:
    return [peer.name for peer in peers]


STUDY = Study(
    "peers",
    "Beside other privacy libraries",
    SUMMARIES["peers"],
    (
        Step(
            "promises", "calibrations", promises, surroundings=questions.peers_present
        ),
        Step(
            "accountants",
            "accountants",
            accountants,
            surroundings=questions.peers_present,
        ),
        Step(
            "distributions",
            "quadratic forms",
            distributions,
            surroundings=questions.peers_present,
        ),
    ),
)
