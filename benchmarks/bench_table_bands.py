"""Coverage of the bands of means with learnt bounds, and their errors: twenty tables, 200 releases each.

The truth is the unclipped mean of every group. GAUSSVEIL_DATA names the folder of the Swiss homes. DRAWS=20 for a
quick look, ONLY=homes for the tables whose name holds that, WORKERS=1 for a single process. With RESUME=FOLDER a run
that was ended goes on there, in steps of twenty releases, and takes what a machine of more cores left there. Each table
is brought to one row for each unit and group first, which leaves every mean as it is.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from gaussveil import Mean, TableRelease, hour_of, weekday_of
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.intervals import Interval
from gaussveil.statistics import as_source
from gaussveil.timeseries import simulate_households
from side_by_side import side_by_side

DRAWS = int(os.environ.get("DRAWS", "200"))
STEP = 20  # releases that are kept together
ONLY = os.environ.get("ONLY", "")
PROMISE: dict[str, Any] = {"unit": "home", "epsilon": 1.0, "delta": 1e-6}
UNTOLD = 2.0**20  # a band that reaches so far says that nothing is known
SWISS = "Swiss homes by hour"
Row = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """A table and its keys."""

    table: pd.DataFrame
    by: dict[str, Any]
    groups_per_unit: int | None = None
    between: dict[str, tuple[float, float]] = field(default_factory=dict)
    """The range of a value that gives `between` the smallest error, of those tried, by law of noise."""

    @property
    def truth(self) -> Any:
        """The mean of the units of every group."""
        return self.table.groupby(list(self.by))["kw"].mean().to_numpy()

    def answers(self, answer: Mean, seed: int, law: str = "auto") -> Iterator[Interval]:
        """The answer again and again; what does not depend on a draw is read once."""
        bounds = {"groups_per_unit": self.groups_per_unit, "law": law}
        asked = TableRelease(**PROMISE, **bounds, by=self.by, answers=answer, generator=SeededGenerator(seed))
        noise = asked.plan().noise
        made = draws_of(noise, as_source(self.table), asked.generator)
        made.prepare()
        for _ in range(STEP):
            made.spent, made.draws = 0.0, 0
            drawn = Drawn(profiles=made.profiles()) if answer.is_profile else made.rows()
            yield Estimates(noise, drawn).answer(answer)[answer.name]


def run() -> list[Row]:
    if not os.environ.get("GAUSSVEIL_DATA"):
        raise SystemExit("bench_table_bands needs the Swiss homes: set GAUSSVEIL_DATA to their folder")
    names = [name for name in JOBS if ONLY in name]
    items = [(name, seed) for name in names for seed in range(max(DRAWS // STEP, 1))]
    found = dict(zip(items, side_by_side(drawn, items)))
    return [row for name in names for row in measured(name, [each for (one, _), each in found.items() if one == name])]


def measured(name: str, steps: list[list[float]]) -> list[Row]:
    """Coverage of a job's bands, the error of its means, and where a range is public that of `between`."""
    held, told, error, *peers = np.mean(steps, axis=0).tolist()
    note = f"{STEP * len(steps)} releases; bands that tell something: {told:.3f}; relative error {error:.4f}"
    rows = [
        row(f"coverage of {name}, less than .93", 0.93 - held, 0.0, note),
        row(f"coverage of {name}, more than .99", held - 0.99, 0.0, note),
    ]
    if name == SWISS:
        rows.append(row(f"relative error of the mean, {name}", error, 0.093))
    for (law, between), peer in zip(made(name).between.items(), peers, strict=True):
        words = f"error of {name} over that within the best public range, {law} noise"
        rows.append(row(words, error / peer, 1.1, f"range {between}, relative error {peer:.4f}"))
    return rows


def drawn(item: tuple[str, int]) -> list[float]:
    """Shares of bands that hold the truth and that tell something, and mean errors: ours, and of public ranges."""
    name, seed = item
    job = made(name)
    truth, size = job.truth, abs(job.truth.mean())
    held, told, errors = [], [], []
    for one in job.answers(Mean("kw", bounds="auto"), seed):
        held.append(float(np.mean((one.low <= truth) & (truth <= one.high))))
        told.append(float(np.mean((one.low > -UNTOLD) & (one.high < UNTOLD))))
        errors.append(math.sqrt(np.mean((one.value - truth) ** 2)) / size)
    figures = [held, told, errors]
    for law, between in job.between.items():
        public = job.answers(Mean("kw", between=between), seed, law)
        figures.append([math.sqrt(np.mean((one.value - truth) ** 2)) / size for one in public])
    return [float(np.mean(one)) for one in figures]


def row(name: str, ours: float, goal: float, note: str = "") -> Row:
    """A figure that must not exceed its goal."""
    return {"name": name, "ours": ours, "peer": 1.0, "ratio": ours, "goal": goal, "met": ours <= goal, "note": note}


@cache
def swiss() -> pd.DataFrame:
    """Readings of the Swiss homes."""
    wide = pd.read_csv(data() / "ch_homes_15min_kw.csv.gz", parse_dates=["time"])
    return clocked(wide.melt(id_vars="time", var_name="home", value_name="kw").dropna())


def data() -> Path:
    """The folder of the Swiss homes."""
    return Path(os.environ["GAUSSVEIL_DATA"])


def heated() -> Job:
    """By what a home is heated with, as far as it is told."""
    meta = pd.read_csv(data() / "ch_homes_meta.csv")
    kind = next(name for name in meta.columns if "heat" in name.lower())
    kinds = dict(zip(meta.iloc[:, 0].astype(str), meta[kind].fillna("unknown")))
    table = swiss().assign(heat=swiss()["home"].astype(str).map(kinds)).dropna()
    by = {"heat": sorted(table["heat"].unique()), **HOUR}
    return Job(reduced(table, "heat", "hour"), by, 24, {"gaussian": (0.0, 3.0)})


def town(homes: int) -> Job:
    """Simulated homes by hour."""
    return Job(reduced(simulated(homes, 1), "hour"), HOUR)


def two_groups() -> Job:
    """People in one of two groups, whose means are far apart."""
    group = np.repeat([0, 1], 10_000)
    kw = np.where(group == 0, 20.0, 80.0) + np.random.default_rng(11).normal(0, 8, 20_000)
    table = pd.DataFrame({"home": np.arange(20_000), "group": group, "kw": kw})
    return Job(table, {"group": range(2)}, 1, {"gaussian": (0.0, 105.0), "laplace": (0.0, 105.0)})


def regions() -> Job:
    """Lognormal incomes."""
    rng = np.random.default_rng(11)
    region = rng.integers(0, 8, 20_000)
    incomes = np.exp(rng.normal(3.5 + region / 10, 0.7))
    return Job(
        pd.DataFrame({"home": np.arange(20_000), "region": region, "kw": incomes}),
        {"region": range(8)},
        1,
        {"gaussian": (0.0, 400.0), "laplace": (0.0, 500.0)},
    )


def zones() -> Job:
    """Few homes in each of ten zones."""
    table = simulated(300, 3)
    table["zone"] = np.random.default_rng(11).integers(0, 10, 300)[table["home"]]
    return Job(reduced(table, "zone", "hour"), {"zone": range(10), **HOUR}, 24, {"gaussian": (0.0, 2.0)})


def sentinels() -> Job:
    """Missing readings that somebody wrote as a number."""
    table = simulated(2000, 4)
    table.loc[np.random.default_rng(11).random(len(table)) < 0.001, "kw"] = -999.0
    return Job(reduced(table, "hour"), HOUR)


def pattern(units: int, key: str, law: str) -> Job:
    """A pattern that all units share, times a level: gamma of shape 4, or lognormal."""
    rng = np.random.default_rng(5)
    moments = {"day": 7, "hour": 24}[key]
    level = rng.gamma(4.0, 1.0, (units, 1)) if law == "gamma" else 4 * rng.lognormal(0, 0.7, (units, 1))
    shape = 1 + 0.3 * np.sin(2 * np.pi * np.arange(moments) / moments)
    kw = level * shape + rng.normal(0, 0.3, (units, moments))
    at = np.tile(np.arange(moments), units)
    table = pd.DataFrame({"home": np.repeat(np.arange(units), moments), key: at, "kw": kw.ravel()})
    after = pd.to_timedelta(at, unit="D" if key == "day" else "h")
    return Job(table.assign(time=pd.Timestamp("2024-01-01") + after), PATTERNED[key])


HOUR = {"hour": hour_of("time")}
PATTERNED = {"day": {"day": weekday_of("time")}, "hour": HOUR}
JOBS: dict[str, Callable[[], Job]] = {
    SWISS: lambda: Job(reduced(swiss(), "hour"), HOUR),
    "Swiss homes by hour and weekday": lambda: Job(
        reduced(swiss(), "day", "hour"), {"day": weekday_of("time"), **HOUR}
    ),
    "Swiss homes by heating type and hour": heated,
    "400 simulated homes by hour": partial(town, 400),
    "2000 simulated homes by hour": partial(town, 2000),
    "10000 simulated homes by hour": partial(town, 10_000),
    "two groups of 10,000 people": two_groups,
    "lognormal incomes in 8 regions": regions,
    "300 homes in 10 zones by hour": zones,
    "2000 homes, .1 % of readings -999, by hour": sentinels,
} | {
    f"{units} units, a pattern times a {law} level, by {key}": partial(pattern, units, key, law)
    for law, sizes in (("gamma", (4000, 10_000)), ("lognormal", (2000, 4000, 10_000)))
    for key in ("day", "hour")
    for units in sizes
}


@lru_cache(maxsize=1)
def made(name: str) -> Job:
    """A job's table, read once for all its steps."""
    return JOBS[name]()


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
