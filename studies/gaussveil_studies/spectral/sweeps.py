"""SpDP section IV-C on the single home: the printed stream over epsilon, delta and B; and a collection of users.

Beside the printed stream stand the paper's trajectory noise for one week and, where epsilon and delta are swept, ours
for the load shape (an event of 0.5 kW for an hour at the same promise).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussveil.mechanisms import MeterStream, TrajectoryRelease
from gaussveil.noise import SeededGenerator
from gaussveil.typing import Progress
from gaussveil_studies.spectral.single_home import read_home
from gaussveil_studies.spectral.stream_receiver import PERIOD, WEEK, Home
from gaussveil_studies.spectral.stream_tables import (
    OUR_EVENT_KW,
    PAPER_BALL,
    TABLE_I,
    AsPrinted,
    trajectory_balls,
)
from gaussveil_studies.study import Options, Paper, Part, Row, Table, shown

PAPER = Paper("SpDP")

KNOBS: dict[str, tuple[float, ...]] = {
    "epsilon": (0.1, 0.35, TABLE_I["epsilon"], 1.1),
    "delta": (0.001, 0.01, 0.1),
    "ball": (0.03, 0.06, PAPER_BALL, 0.24),
}
USERS = (1, 4, 16)


def sweeps(options: Options, progress: Progress) -> Part:
    """One knob at a time, the others as in Table I."""
    home = Home.of(read_home(options.folder()))
    seeds = range(1, options.pick(2, 6, 101))
    week = trajectory_balls(home)["1 week"]
    rows: list[Row] = []
    for knob, values in KNOBS.items():
        for value in options.pick(values[-2:], values, values):
            progress(f"{knob} {value:g}", len(rows) / sum(map(len, KNOBS.values())))
            rows.append(
                {
                    "knob": knob,
                    "value": value,
                    **_printed(home, seeds, {knob: value}),
                    **_others(week, knob, value),
                }
            )
    progress("users", 0.9)
    users = _users(home, options.pick(USERS[:1], USERS, USERS), seeds)
    falls = {
        knob: [float(row["noise"]) for row in rows if row["knob"] == knob]
        for knob in KNOBS
    }
    grows = [falls["epsilon"][::-1], falls["delta"][::-1], falls["ball"]]
    columns = (
        "knob; value; gain: F's gain; noise: printed, noise kW; error: standard error; correlation: printed, "
        "correlation; trajectory: TrDP week, kW; ours: ours, shape, kW"
    )
    return Part(
        "Section IV-C: epsilon, delta, B, and a collection of users",
        (
            "The printed stream with F's gain lowered in steps of ten per cent until it is feasible, means over "
            f"{len(seeds)} private spectra. Users are weeks of this one home, each with noise of its own.",
        ),
        (
            Table.of("knobs", rows, columns),
            Table.of(
                "users",
                users,
                "users; printed: SpDP, % of the sum; trajectory: TrDP week, %; ours: ours, shape, %",
                "Root mean square error of the sum of users, in per cent of its mean",
            ),
        ),
        (),
        (
            PAPER.judged(
                "section-4-c",
                "; ".join(
                    f"{knob} {shown(found[0])} to {shown(found[-1])} kW"
                    for knob, found in falls.items()
                ),
                borne_out=all(
                    first < last
                    for found in grows
                    for first, last in [(found[0], found[-1])]
                ),
            ),
            PAPER.judged(
                "section-4-users",
                "; ".join(
                    f"{row['users']}: {shown(row['printed'])} against {shown(row['trajectory'])} %"
                    for row in users
                ),
                borne_out=all(row["printed"] < row["trajectory"] for row in users),
            ),
        ),
    )


def _printed(home: Home, seeds: Sequence[int], change: dict[str, float]) -> Row:
    promise: dict[str, Any] = {
        key: value for key, value in change.items() if key != "ball"
    }
    found = []
    for seed in seeds:
        made = AsPrinted.of(home, change.get("ball", PAPER_BALL), seed, **promise)
        noise = math.sqrt(made.stream.noise_variance)
        found.append(
            (made.gain, noise, float(np.corrcoef(home.protected, made.released)[0, 1]))
        )
    table = np.array(found)
    if len(seeds) > 1:
        error = float(table[:, 1].std(ddof=1)) / math.sqrt(len(seeds))
    else:
        error = None
    means = dict(zip(("gain", "noise", "correlation"), table.mean(axis=0).tolist()))
    return {**means, "error": error}


def _others(week: float, knob: str, value: float) -> Row:
    if knob == "ball":
        return {"trajectory": None, "ours": None}
    promise = {"epsilon": TABLE_I["epsilon"], "delta": TABLE_I["delta"], knob: value}
    noise = float(
        TrajectoryRelease(**promise, l2_ball=week, calibration="published")
        .plan(4)
        .standard_deviation
    )
    ours = MeterStream.design(
        **promise, sample_period=PERIOD, event=(OUR_EVENT_KW, "1h"), purpose="shape"
    )
    return {"trajectory": noise, "ours": ours.design_.noise_sd}


def _users(home: Home, counts: Sequence[int], seeds: Sequence[int]) -> list[Row]:
    """Errors of released minus true, week by week, summed over users."""
    week = trajectory_balls(home)["1 week"]
    promise = {"epsilon": TABLE_I["epsilon"], "delta": TABLE_I["delta"]}
    rows: list[Row] = []
    for count in counts:
        parts = home.protected[: count * WEEK].reshape(count, WEEK)
        totals: dict[str, list[float]] = {"printed": [], "trajectory": [], "ours": []}
        for seed in seeds:
            streams = [
                AsPrinted.of(home, PAPER_BALL, 1000 * seed + user)
                for user in range(count)
            ]
            mean = home.protected.mean()
            generator = np.random.default_rng(seed)
            sums = {
                "printed": sum(
                    one.stream.run(part - mean, generator) + mean
                    for one, part in zip(streams, parts)
                ),
                "trajectory": parts.sum(axis=0)
                + sum(
                    TrajectoryRelease(
                        **promise,
                        l2_ball=week,
                        calibration="published",
                        generator=SeededGenerator(1000 * seed + user),
                    )
                    .release(part)
                    .value
                    - part
                    for user, part in enumerate(parts)
                ),
                "ours": sum(
                    MeterStream.design(
                        **promise,
                        sample_period=PERIOD,
                        event=(OUR_EVENT_KW, "1h"),
                        purpose="shape",
                        generator=SeededGenerator(2000 * seed + user),
                    ).push_many(part)
                    for user, part in enumerate(parts)
                ),
            }
            truth = parts.sum(axis=0)
            for name, total in sums.items():
                miss = np.asarray(total) - truth
                totals[name].append(
                    100 * float(np.sqrt(np.mean(miss**2)) / truth.mean())
                )
        rows.append(
            {
                "users": count,
                **{name: float(np.mean(found)) for name, found in totals.items()},
            }
        )
    return rows
