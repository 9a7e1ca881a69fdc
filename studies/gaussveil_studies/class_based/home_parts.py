"""Two smaller questions about the Swiss homes: which kind of noise hides one best, and what season a forecast needs."""

from __future__ import annotations

from dataclasses import asdict

from gaussveil.typing import Progress
from gaussveil_studies.class_based import kinds, seasons
from gaussveil_studies.class_based.homes import HORIZON, TRAINING_DAYS, read_homes
from gaussveil_studies.study import Options, Paper, Part, Table, shown

PAPER = Paper("class-based")


def kinds_of_noise(options: Options, progress: Progress) -> Part:
    """Every kind of noise at the same error, on the homes nearest to the median one."""
    progress("reading", 0.05)
    found = kinds.forecasts(read_homes(options.folder(), options.pick(12, 100, 100)))
    sets: dict[int, tuple[float, ...]] = options.pick(
        {5: (0.5,)}, {17: (0.5,)}, kinds.SETS
    )
    shares = options.pick(kinds.SHARES[1:2], kinds.SHARES, kinds.SHARES)
    total = len(shares) * sum(len(epsilons) for epsilons in sets.values())
    rows: list[kinds.DeltasByKind] = []
    for count, epsilons in sets.items():
        for row in kinds.compared(kinds.nearest(found, count), shares, epsilons):
            rows.append(row)
            progress(f"{count} homes", 0.1 + 0.9 * len(rows) / total)
    columns = (
        "homes; share: share of R²/k; epsilon; white; covariance_only: one covariance, no means; shrink; common: one "
        "covariance; own: one covariance per home; retained: variance kept"
    )
    return Part(
        "Kinds of noise at the same error",
        (
            f"Forecasts of {HORIZON} steps with the week left in, constants to who knows the past, of the homes "
            "nearest to the median one. R is the radius of the ball around them: an error of R²/k "
            "releases its centre alone.",
        ),
        (
            Table.of(
                "worst",
                [asdict(row) for row in rows],
                columns,
                "Worst exact delta over all pairs of homes",
            ),
        ),
    )


def season_of_a_forecast(options: Options, progress: Progress) -> Part:
    """Plain forecasts under several weights of the weekday."""
    progress("reading", 0.05)
    readings = read_homes(
        options.folder(), options.pick(6, 50, 50), days=TRAINING_DAYS + 9
    )
    rows = list(
        seasons.compared(
            readings,
            options.pick(seasons.WEIGHTS[:2], seasons.WEIGHTS, seasons.WEIGHTS),
        )
    )
    columns = "weight: weekday weight; error: squared error of log power; coverage: 90 % band held"
    low = min(row.coverage for row in rows)
    high = max(row.coverage for row in rows)
    return Part(
        "What a season from two weeks is worth",
        (
            f"{len(readings)} homes, models of {TRAINING_DAYS} days, {seasons.ORIGINS} origins, {HORIZON} steps ahead, "
            "no noise. A weekday's own profile from two weeks is itself uncertain: drawn to the mean day it errs less.",
        ),
        (Table.of("weights", [asdict(row) for row in rows], columns),),
        (),
        (
            PAPER.judged(
                "season-coverage",
                f"{shown(100 * low)} to {shown(100 * high)} %",
                borne_out=low > 0.85,
            ),
        ),
    )
