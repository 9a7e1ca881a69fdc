"""Smaller questions about the Swiss homes: which noise hides one best, what season a forecast needs, what it keeps."""

from __future__ import annotations

from dataclasses import asdict

from gaussveil.mechanisms import PrivateForecaster
from gaussveil.mechanisms.forecast_dial import CLUSTERS, DIAL_PROMISES, DialPoint
from gaussveil.typing import Progress
from gaussveil_studies.class_based import kinds, seasons
from gaussveil_studies.class_based.homes import HORIZON, TRAINING_DAYS, read_homes
from gaussveil_studies.study import Options, Paper, Part, Table, shown

PAPER = Paper("class-based")
AT_HOUR = 17  # forecasts of the dial begin here, after the training days
DIAL_HOURS = 3


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


def dial_of_a_forecast(options: Options, progress: Progress) -> Part:
    """What forecasts of homes keep at which promise, their errors beside the group's average and the plain forecast."""
    progress("reading", 0.05)
    count = options.pick(12, 54, 54)
    readings = read_homes(options.folder(), count, days=TRAINING_DAYS + 1).resample(60)
    begin = TRAINING_DAYS * 24 + AT_HOUR
    forecaster = PrivateForecaster(
        horizon=f"{DIAL_HOURS}h", epsilon=1.0, delta=1e-5, clusters=1
    )
    progress("models", 0.1)
    forecaster.fit(readings.window(0, begin))
    progress("noise at every promise", 0.3)
    points = forecaster.dial(
        readings.window(begin, DIAL_HOURS),
        promises=options.pick(DIAL_PROMISES[:2], DIAL_PROMISES, DIAL_PROMISES),
        clusters=options.pick(CLUSTERS[:1], CLUSTERS, CLUSTERS),
    )
    columns = (
        "group: homes in a group; epsilon; delta; kept; private: error; centre: error of the group's average; plain: "
        "error of the plain forecast"
    )
    return Part(
        "What a forecast of one home keeps, and what that is worth",
        (
            f"{count} homes, hourly, {DIAL_HOURS} hours from {AT_HOUR}:00; errors are root mean squares of the "
            "logarithm of power. Kept is the share of the variance between the homes of a group.",
        ),
        (Table.of("promises", [_dial_row(point) for point in points], columns),),
    )


def _dial_row(point: DialPoint) -> dict[str, str | float]:
    """A setting as it is shown."""
    return {
        **asdict(point),
        "group": f"{point.group:.0f}",
        "delta": f"{point.delta:g}",
        "kept": f"{point.kept:.2f}",
    }
