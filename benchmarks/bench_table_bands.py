"""Coverage of the bands of means with learnt bounds, and their errors: ten tables, 200 releases each.

The truth is the unclipped mean of every group. GAUSSVEIL_DATA names the folder of the Swiss homes. DRAWS=20 for a
quick look. Each table is brought to one row for each unit and group first, which leaves every mean as it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gaussveil import Mean, TableRelease, hour_of, weekday_of
from gaussveil.mechanisms.table.draws import Drawn, TableDraws
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.intervals import Interval
from gaussveil.statistics import as_source
from gaussveil.timeseries import simulate_households

DRAWS = int(os.environ.get("DRAWS", "200"))
PROMISE: dict[str, Any] = {"unit": "home", "epsilon": 1.0, "delta": 1e-6}
UNTOLD = 2.0**20  # a band that reaches so far says that nothing is known
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A table, its keys, and the best public range of a value where `between` is compared."""

    name: str
    table: pd.DataFrame
    by: dict[str, Any]
    groups_per_unit: int | None = None
    between: tuple[float, float] | None = None

    @property
    def truth(self) -> Any:
        """The mean of the units of every group."""
        return self.table.groupby(list(self.by))["kw"].mean().to_numpy()

    def answers(self, answer: Mean, draws: int) -> Iterator[Interval]:
        """The answer again and again; what does not depend on a draw is read once."""
        asked = TableRelease(
            **PROMISE, by=self.by, answers=answer, groups_per_unit=self.groups_per_unit, generator=SeededGenerator(1)
        )
        noise = asked.plan().noise
        made = TableDraws(as_source(self.table), noise, noise.mean_shift, asked.generator)
        made.prepare()
        for _ in range(draws):
            made.spent, made.draws = 0.0, 0
            drawn = Drawn(profiles=made.profiles()) if answer.is_profile else made.rows()
            yield Estimates(noise, drawn).answer(answer)[answer.name]


def run() -> list[Row]:
    folder = os.environ.get("GAUSSVEIL_DATA")
    if not folder:
        raise SystemExit("bench_table_bands needs the Swiss homes: set GAUSSVEIL_DATA to their folder")
    return [row for job in jobs(Path(folder)) for row in measured(job)]


def measured(job: Job) -> list[Row]:
    """Coverage of a job's bands, the error of its means, and where a range is public that of `between`."""
    truth, size = job.truth, abs(job.truth.mean())
    held, told, errors = [], [], []
    for one in job.answers(Mean("kw", bounds="auto"), DRAWS):
        held.append(np.mean((one.low <= truth) & (truth <= one.high)))
        told.append(np.mean((one.low > -UNTOLD) & (one.high < UNTOLD)))
        errors.append(math.sqrt(np.mean((one.value - truth) ** 2)) / size)
    coverage, error = float(np.mean(held)), float(np.median(errors))
    note = f"bands that tell something: {np.mean(told):.3f}; median relative error {error:.4f}"
    rows = [
        row(f"coverage of {job.name}, less than .93", 0.93 - coverage, 0.0, note),
        row(f"coverage of {job.name}, more than .99", coverage - 0.99, 0.0, note),
    ]
    if job.name == "Swiss homes by hour":
        rows.append(row(f"relative error of the mean, {job.name}", error, 0.093))
    if job.between:
        beside = [
            math.sqrt(np.mean((one.value - truth) ** 2)) / size
            for one in job.answers(Mean("kw", between=job.between), DRAWS)
        ]
        peer = float(np.median(beside))
        rows.append(row(f"error of {job.name} over that within the best public range", error / peer, 1.1))
    return rows


def row(name: str, ours: float, goal: float, note: str = "") -> Row:
    """A figure that must not exceed its goal."""
    return {"name": name, "ours": ours, "peer": 1.0, "ratio": ours, "goal": goal, "met": ours <= goal, "note": note}


def jobs(folder: Path) -> Iterator[Job]:
    """The ten tables."""
    hour, week = {"hour": hour_of("time")}, {"day": weekday_of("time"), "hour": hour_of("time")}
    wide = pd.read_csv(folder / "ch_homes_15min_kw.csv.gz", parse_dates=["time"])
    swiss = clocked(wide.melt(id_vars="time", var_name="home", value_name="kw").dropna())
    yield Job("Swiss homes by hour", reduced(swiss, "hour"), hour)
    yield Job("Swiss homes by hour and weekday", reduced(swiss, "day", "hour"), week)
    meta = pd.read_csv(folder / "ch_homes_meta.csv")
    kind = next(name for name in meta.columns if "heat" in name.lower())
    kinds = dict(zip(meta.iloc[:, 0].astype(str), meta[kind].fillna("unknown")))
    heated = swiss.assign(heat=swiss["home"].astype(str).map(kinds)).dropna()
    by_heat = {"heat": sorted(heated["heat"].unique()), **hour}
    yield Job("Swiss homes by heating type and hour", reduced(heated, "heat", "hour"), by_heat, 24)
    for homes in (400, 2000, 10_000):
        yield Job(f"{homes} simulated homes by hour", reduced(simulated(homes, 1), "hour"), hour)
    rng = np.random.default_rng(11)
    two = pd.DataFrame({"home": np.arange(20_000), "group": np.repeat([0, 1], 10_000)})
    two["kw"] = np.where(two["group"] == 0, 20.0, 80.0) + rng.normal(0, 8, 20_000)
    yield Job("two groups of 10,000 people", two, {"group": range(2)}, 1, (0.0, 105.0))
    region = rng.integers(0, 8, 20_000)
    incomes = pd.DataFrame(
        {"home": np.arange(20_000), "region": region, "kw": np.exp(rng.normal(3.5 + region / 10, 0.7))}
    )
    yield Job("lognormal incomes in 8 regions", incomes, {"region": range(8)}, 1, (0.0, 350.0))
    zoned = simulated(300, 3)
    zoned["zone"] = rng.integers(0, 10, 300)[zoned["home"]]
    yield Job("300 homes in 10 zones by hour", reduced(zoned, "zone", "hour"), {"zone": range(10), **hour}, 24)
    odd = simulated(2000, 4)
    odd.loc[rng.random(len(odd)) < 0.001, "kw"] = -999.0
    yield Job("2000 homes, .1 % of readings -999, by hour", reduced(odd, "hour"), hour)


def simulated(homes: int, seed: int) -> pd.DataFrame:
    """A week of hourly readings."""
    town = simulate_households(homes, 7, step_minutes=60, seed=seed)
    time = np.tile(town.times.astype("datetime64[us]"), len(town))
    home = np.repeat(np.arange(len(town)), town.count)
    return clocked(pd.DataFrame({"home": home, "time": time, "kw": town.values.ravel().astype(float)}))


def clocked(table: pd.DataFrame) -> pd.DataFrame:
    """With day of the week and hour."""
    return table.assign(hour=table["time"].dt.hour, day=table["time"].dt.weekday)


def reduced(table: pd.DataFrame, *keys: str) -> pd.DataFrame:
    """One row for each unit and group, at a time of that group."""
    means = table.groupby(["home", *keys], as_index=False, sort=False)["kw"].mean()
    day = means["day"] if "day" in keys else 0
    return means.assign(time=pd.Timestamp("2024-01-01") + pd.to_timedelta(day * 24 + means["hour"], unit="h"))
