"""`gaussveil study gmm`, what our release reaches: goals, households, private directions, synthetic profiles."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from scipy.stats import ks_2samp

from gaussveil.figure_style import INK, SERIES, drawing
from gaussveil.typing import Progress
from gaussveil_studies.gmm import releases
from gaussveil_studies.gmm.settings import Setting, profiles
from gaussveil_studies.gmm.uses import (
    digits_with_private_directions,
    households,
    synthetic_profiles,
)
from gaussveil_studies.study import (
    Claim,
    Options,
    Part,
    Picture,
    Row,
    Table,
    judged,
    shown,
)

TOLERANCE = 1.1  # of the design's measured prototype
QUANTILES = (0.05, 0.5, 0.95)
GOAL_COLUMNS = (
    "setting; epsilon; release; released_fitted: released || fitted; released_fitted_error: standard error; median; "
    "fitted_released: fitted || released; fitted_released_error: standard error ; held_out: held-out log-likelihood; "
    "held_out_fitted: of the fit; goal: design; draws"
)


def public_goals(options: Options, progress: Progress) -> Part:
    """Both divergences and held-out likelihood beside Algorithm 1's, on settings that need no real data."""
    cases = releases.public_cases(
        options, options.pick(2, 20, 200), options.pick(2, 20, 200)
    )
    return _goals("Goals: synthetic and Iris", cases, options, progress)


def real_goals(options: Options, progress: Progress) -> Part:
    """The same on real profiles and digits."""
    cases = releases.real_cases(options, options.pick(2, 6, 40), options.pick(2, 3, 20))
    return _goals("Goals: profiles and MNIST", cases, options, progress)


def _goals(
    title: str, cases: Sequence[releases.Case], options: Options, progress: Progress
) -> Part:
    rows: list[Row] = []
    epsilons = options.pick((4.0,), releases.EPSILONS, releases.EPSILONS)
    chosen = options.pick(
        ("record",), releases.RECORD_RELEASES, releases.RECORD_RELEASES
    )
    for place, (name, settings, repeats) in enumerate(cases):
        progress(name, place / len(cases))
        for row in releases.compare(name, settings, repeats, epsilons, chosen):
            there, back = releases.TARGETS[name][
                releases.EPSILONS.index(float(row["epsilon"]))
            ]
            if row["release"] == "record":
                goal = f"{there:g} / {back:g}"
            else:
                goal = ""
            rows.append({**row, "goal": goal})
    return Part(
        title,
        (
            "Means over seeded draws. Record adjacency hides whole records, Algorithm 1 nothing (G-a to G-h). The "
            "synthetic setting's Wishart covariances have inverses of infinite mean, so the mean over data sets rests "
            "on a few of them: the median stands beside.",
        ),
        (Table.of("divergences", rows, GOAL_COLUMNS), releases.summary(rows)),
        (),
        tuple(_reached(name, rows) for name, _, _ in cases),
    )


def _reached(name: str, rows: Sequence[Row]) -> Claim:
    """Whether every epsilon is at the design's figures, both ways, up to two standard errors."""
    ratios: list[float] = []
    for row in rows:
        if row["setting"] == name and row["release"] == "record":
            goals = releases.TARGETS[name][
                releases.EPSILONS.index(float(row["epsilon"]))
            ]
            for key, goal in zip(releases.FIGURES, goals):
                ratios.append((float(row[key]) - 2 * float(row[f"{key}_error"])) / goal)
    worst = float(
        np.max(ratios)
    )  # NaN, where an error is unknown, stays NaN and agrees with nothing
    return judged(
        f"goal-{name}",
        f"record adjacency within 10 % of the design, both ways: {name}",
        f"{TOLERANCE:g} times",
        f"at most {shown(worst)} times, two standard errors allowed",
        agrees=worst <= TOLERANCE,
    )


def uses(options: Options, progress: Progress) -> Part:
    """Households as the privacy unit, directions from a private Gram matrix, synthetic profiles."""
    folder, load = options.folder(), profiles(options.folder())
    epsilons = options.pick((2.0,), releases.EPSILONS, releases.EPSILONS)
    progress("households", 0.0)
    homes = households(load, epsilons, options.seed, options.pick(1, 12, 40))
    drawn = [synthetic_profiles(load, epsilon, options.seed) for epsilon in epsilons]
    progress("private directions", 0.3)
    sizes = options.pick((2000,), (5000, 60_000), (5000, 60_000))
    found = [
        digits_with_private_directions(folder, size, seed=options.seed)
        for size in sizes
    ]
    hours = two_samples(load, 1.0, options.seed)
    return Part(
        "Households, private directions, synthetic profiles",
        (
            "A household has up to four rows, and all of them are hidden: four times the noise. By the rules one class "
            "is released, of as many rows as help. Directions from a "
            "private Gram matrix are paid for by the same epsilon 1. Synthetic profiles are drawn from the model "
            "released.",
        ),
        (
            Table.of(
                "households",
                homes,
                (
                    "epsilon; unit: privacy unit; released_fitted: released || fitted; released_fitted_error: "
                    "standard error; fitted_released: fitted || released; fitted_released_error: standard error ; "
                    "held_out: held-out log-likelihood; by_rule: by the rules; by_rule_error: standard error  ; "
                    "classes: their classes; draws"
                ),
            ),
            Table.of("private-directions", found, "size: images; epsilon; accuracy"),
            Table.of(
                "synthetic-profiles",
                drawn,
                (
                    "epsilon; largest_quantile_gap: largest gap of quantiles; largest_correlation_gap: largest gap of "
                    "correlations; mean_kolmogorov_distance: mean Kolmogorov distance"
                ),
            ),
            Table.of(
                "two-samples", hours, "hour; distance: Kolmogorov distance; p: p-value"
            ),
        ),
        (
            Picture.of(
                "two-samples",
                two_samples_figure(hours),
                "Synthetic against real profiles at epsilon 1: quantiles "
                "5, 50 and 95 % of the logarithm of power by hour, and the two samples' Kolmogorov distance.",
            ),
        ),
    )


def two_samples(setting: Setting, epsilon: float, seed: int) -> list[Row]:
    """Synthetic rows of the released model against the real ones, hour by hour."""
    drawn, _ = releases.by_record(setting, epsilon, seed).sample(
        len(setting.rows), seed
    )
    rows: list[Row] = []
    for hour, (ours, real) in enumerate(zip(drawn.T, setting.rows.T), start=12):
        test = ks_2samp(ours, real)
        rows.append(
            {
                "hour": hour,
                "distance": float(test.statistic),
                "p": float(test.pvalue),
                "synthetic": np.quantile(ours, QUANTILES).tolist(),
                "real": np.quantile(real, QUANTILES).tolist(),
            }
        )
    return rows


def two_samples_figure(rows: Sequence[Row]) -> Figure:
    """Quantiles by hour above, distances below."""
    with drawing(6.2, 4.2, 2, 1, sharex=True, height_ratios=(2, 1)) as (
        figure,
        (above, below),
    ):
        hours = [row["hour"] for row in rows]
        for place in range(len(QUANTILES)):
            for name, ink, style in (
                ("real", INK, "--"),
                ("synthetic", SERIES[0], "o-"),
            ):
                above.plot(
                    hours,
                    [row[name][place] for row in rows],
                    style,
                    color=ink,
                    markersize=3,
                    label=name if place == 0 else None,
                )
        above.set_ylabel("log kW")
        figure.legend(
            *above.get_legend_handles_labels(), loc="outside upper right", ncols=2
        )
        below.bar(hours, [row["distance"] for row in rows], color=SERIES[0])
        below.set(xlabel="hour", ylabel="Kolmogorov distance")
        return figure
