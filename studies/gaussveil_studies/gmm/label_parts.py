"""`gaussveil study gmm`, label adjacency: ours beside corrections F3 and F4 as they are worded, on the same draws."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from gaussveil.typing import Progress
from gaussveil_studies.gmm import releases
from gaussveil_studies.study import Claim, Options, Part, Row, Table, judged

ALLOWED = 2.0  # standard errors of a difference
COLUMNS = (
    "setting; epsilon; release; released_fitted: released || fitted; released_fitted_error: standard error; median: "
    "its median; fitted_released: fitted || released; fitted_released_error: standard error ; median_back: its "
    "median, back; held_out: held-out log-likelihood; draws"
)


def public_labels(options: Options, progress: Progress) -> Part:
    """Synthetic sets and Iris."""
    cases = releases.public_cases(
        options, options.pick(2, 10, 100), options.pick(2, 12, 200)
    )
    return _beside_plain(
        "Label adjacency: synthetic and Iris", cases, options, progress
    )


def real_labels(options: Options, progress: Progress) -> Part:
    """Real profiles and digits."""
    cases = releases.real_cases(options, options.pick(2, 4, 20), options.pick(2, 2, 10))
    return _beside_plain(
        "Label adjacency: profiles and MNIST", cases, options, progress
    )


def _beside_plain(
    title: str, cases: Sequence[releases.Case], options: Options, progress: Progress
) -> Part:
    rows: list[Row] = []
    epsilons = options.pick((4.0,), releases.EPSILONS, releases.EPSILONS)
    for place, (name, settings, repeats) in enumerate(cases):
        progress(name, place / len(cases))
        rows += releases.compare(
            name, settings, repeats, epsilons, releases.LABEL_RELEASES
        )
    return Part(
        title,
        (
            "One label changes; the features are not protected. F3 shares out the records of a cluster as its noisy "
            "counts say (as many clusters as classes, and four times as many); F4 is EM from randomised labels as they "
            "were given. Both are as private as ours. The same seeds throughout: where ours draws answers alone, they "
            "are F4's.",
        ),
        (Table.of("divergences", rows, COLUMNS), releases.summary(rows)),
        (),
        tuple(no_worse_than_plain(name, rows) for name, _, _ in cases),
    )


def no_worse_than_plain(name: str, rows: Sequence[Row]) -> Claim:
    """Whether ours is at the better of F3 and F4 at every epsilon, both ways, up to the noise of the means."""
    own = [row for row in rows if row["setting"] == name]
    excesses = [
        excess_over_plain([row for row in own if row["epsilon"] == epsilon], figure)
        for epsilon in dict.fromkeys(row["epsilon"] for row in own)
        for figure in releases.FIGURES
    ]
    ratio = max(ratio for ratio, _ in excesses)
    worst = float(
        np.max([errors for _, errors in excesses])
    )  # NaN, where an error is unknown, agrees with nothing
    return judged(
        f"label-{name}",
        f"label adjacency no worse than the better of F3 and F4, both ways: {name}",
        "no worse than the better",
        f"at most {ratio:.3g} times the better, {max(worst, 0.0):.1f} standard errors above",
        agrees=worst <= ALLOWED,
    )


def excess_over_plain(rows: Sequence[Row], figure: str) -> tuple[float, float]:
    """Ours over the better plain release at one epsilon: the ratio, and the difference in standard errors."""
    ours = next(row for row in rows if row["release"] == "label")
    best = min(
        (row for row in rows if row["release"] in releases.PLAIN_RELEASES),
        key=lambda row: float(row[figure]),
    )
    error = math.hypot(float(ours[f"{figure}_error"]), float(best[f"{figure}_error"]))
    gap = float(ours[figure]) - float(best[figure])
    return float(ours[figure]) / float(best[figure]), gap / error
