"""Tables on which synthetic tables are measured: skewed columns, Gaussian ones, an Adult-like mixed table, profiles.

Each set is a function of (rows, seed); public ranges and values are beside it. Nothing here imports gaussveil.
"""

from __future__ import annotations

import gzip
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

LABEL = "label"


@dataclass(frozen=True)
class PublicRanges:
    """What is public of a set: ranges of its numbers, values of its categories, its label."""

    between: dict[str, tuple[float, float]]
    values: dict[str, list[Any]]
    label: str | None
    series: list[str] | None = None


SKEWED = PublicRanges(
    {
        "income": (0, 500_000),
        "stay": (0, 400),
        "height": (120, 220),
        "pulse": (30, 220),
        "donation": (0, 5000),
        "fines": (0, 10_000),
        "score": (0, 1),
        "share": (0, 1),
    },
    {},
    LABEL,
)


def skewed(rows: int, seed: int) -> pd.DataFrame:
    """Two lognormal, two bimodal, two zero-inflated and two bounded columns of one Gaussian dependence; a label."""
    generator = np.random.default_rng(seed)
    mixing = np.random.default_rng(42).normal(size=(8, 3))
    mixing /= np.linalg.norm(mixing, axis=1, keepdims=True)
    latent = 0.8 * generator.standard_normal((rows, 3)) @ mixing.T + 0.6 * generator.standard_normal((rows, 8))
    income = np.exp(10 + 0.8 * latent[:, 0])
    stay = np.exp(1 + latent[:, 1])
    height = np.where(latent[:, 2] > 0, 177, 163) + 6 * latent[:, 2]
    pulse = np.where(generator.random(rows) < 0.4, 62, 95) + 5 * latent[:, 3]
    donation = np.where(latent[:, 4] > 0.3, np.exp(4 + latent[:, 4]), 0.0)
    fines = np.where(generator.random(rows) < 0.25, np.exp(5 + 0.7 * latent[:, 5]), 0.0)
    score = 1 / (1 + np.exp(-2 * latent[:, 6]))
    share = np.clip(0.5 + 0.4 * latent[:, 7], 0, 1)
    columns = [income, stay, height, pulse, donation, fines, score, share]
    table = pd.DataFrame(dict(zip(SKEWED.between, columns, strict=True))).clip(
        *np.array(list(SKEWED.between.values())).T, axis=1
    )
    tilt = 0.9 * latent[:, 0] - 0.7 * latent[:, 6] + 0.9 * (pulse > 80) + 0.7 * (fines > 0) - 0.8 * (height > 170)
    chance = 1 / (1 + np.exp(-(1.03 * tilt - 0.5)))
    return table.assign(label=(generator.random(rows) < chance).astype(int))


GAUSSIAN = PublicRanges({f"x{j}": (-12.0, 12.0) for j in range(6)}, {}, LABEL)


def gaussian(rows: int, seed: int) -> pd.DataFrame:
    """Three Gaussian classes in six columns."""
    public = np.random.default_rng(7)
    centres = 1.6 * public.normal(size=(2, 6))
    roots = np.linalg.cholesky([np.cov(public.normal(size=(12, 6)).T) for _ in range(2)])
    generator = np.random.default_rng(seed)
    group = generator.integers(0, 2, rows)
    points = centres[group] + np.einsum("nij,nj->ni", roots[group], generator.standard_normal((rows, 6)))
    return pd.DataFrame(points, columns=list(GAUSSIAN.between)).assign(label=group)


ADULT = PublicRanges(
    {
        "age": (17, 90),
        "weight": (10_000, 1_500_000),
        "years": (1, 16),
        "gain": (0, 100_000),
        "loss": (0, 5000),
        "hours": (1, 99),
    },
    {
        "work": ["private", "self", "self inc", "federal", "state", "local", "none"],
        "marital": ["married", "never", "divorced", "separated", "widowed"],
        "job": [
            "manager", "expert", "craft", "office", "sales", "service", "machines", "transport", "cleaner", "farm",
            "technician", "guard",
        ],
        "relation": ["husband", "wife", "own child", "no family", "unmarried", "other"],
        "race": ["a", "b", "c", "d", "e"],
        "sex": ["female", "male"],
        "region": ["north", "south", "east", "west", "abroad"],
        "income": ["low", "high"],
    },
    "income",
)  # fmt: skip


def _chosen(logits: np.ndarray, generator: np.random.Generator) -> np.ndarray:
    return np.asarray((logits + generator.gumbel(size=logits.shape)).argmax(axis=1))


def adult(rows: int, seed: int) -> pd.DataFrame:
    """Six numbers and eight categories that hang together as in a census: by table, by step and by slope."""
    public, generator = np.random.default_rng(11), np.random.default_rng(seed)
    male = generator.random(rows) < 0.67
    age = np.clip(np.rint(17 + 60 * generator.beta(1.6, 2.9, rows)), 17, 90)
    region = _chosen(np.log([0.35, 0.3, 0.15, 0.12, 0.08]) + np.zeros((rows, 1)), generator)
    race = _chosen(np.log([0.82, 0.1, 0.04, 0.02, 0.02]) + 0.8 * public.normal(size=(5, 5))[region], generator)
    years = np.clip(np.rint(10 + 2.4 * generator.standard_normal(rows) - 1.5 * (age < 22) - (region == 4)), 1, 16)
    young = np.clip((28 - age) / 8, -1.5, 1.5)
    married = np.stack(
        [1.2 - 1.6 * young, 2 * young, 0.1 - 0.8 * young, -1.2 + 0 * young, -3 + 0.09 * np.maximum(age - 40, 0)], axis=1
    )
    married[male, 0] += 0.8
    marital = _chosen(married, generator)
    relation = np.full((rows, 6), -3.0)
    relation[(marital == 0) & male, 0] = 4
    relation[(marital == 0) & ~male, 1] = 4
    relation[marital != 0, 3] = 1
    relation[:, 2] += np.where(marital == 1, 3 + 2 * young, 0)
    relation[:, 4] += np.where(marital > 1, 3.6, 0.5)
    relation[:, 5] += 1
    relation = _chosen(relation, generator)
    tables = public.normal(size=(3, 12))
    job = _chosen(
        0.45 * (years - 10)[:, None] * tables[0] + 1.1 * male[:, None] * tables[1] + 0.4 * tables[2], generator
    )
    work = _chosen(
        np.log([0.7, 0.08, 0.04, 0.03, 0.04, 0.07, 0.04]) + public.normal(size=(12, 7))[job] * 0.9, generator
    )
    hours = np.where(generator.random(rows) < 0.47, 40, 38 + 11 * generator.standard_normal(rows))
    hours = np.clip(np.rint(hours + 4 * male - 6 * (relation == 2) + 5 * (work == 2)), 1, 99)
    tilt = 0.35 * (years - 10) + 1.9 * (marital == 0) + 0.04 * (np.minimum(age, 55) - 40) + 0.03 * (hours - 40)
    tilt += 0.5 * tables[0][job] + 0.2 * male - 2.7
    gain = np.where(
        generator.random(rows) < 0.05 + 0.05 * (tilt > 0), np.exp(8.3 + 0.9 * generator.normal(size=rows)), 0
    )
    loss = np.where((generator.random(rows) < 0.047) & (gain == 0), 1870 + 350 * generator.normal(size=rows), 0)
    high = generator.random(rows) < 1 / (1 + np.exp(-(tilt + 2.5 * (gain > 5000) + 0.8 * (loss > 1700))))
    weight = np.exp(12 + 0.5 * generator.normal(size=rows) - 0.1 * (region == 3))
    numbers = {"age": age, "weight": weight, "years": years, "gain": gain, "loss": loss, "hours": hours}
    table = pd.DataFrame({name: np.rint(column).astype(int) for name, column in numbers.items()})
    for name, ends in ADULT.between.items():
        table[name] = table[name].clip(*ends)
    codes = {"work": work, "marital": marital, "job": job, "relation": relation, "race": race, "sex": male.astype(int)}
    codes |= {"region": region, "income": high.astype(int)}
    for name, code in codes.items():
        table[name] = np.array(ADULT.values[name])[code]
    return table


PROFILES = PublicRanges({f"h{hour:02d}": (0.0, 20.0) for hour in range(24)}, {}, None, ["h*"])


def profiles(rows: int = 0, seed: int = 0) -> pd.DataFrame:
    """Days of Swiss homes by hour, in kW: every home and day is a row. What is asked for is drawn of them, 0 is all."""
    path = Path(os.environ["GAUSSVEIL_DATA"]) / "ch_homes_15min_kw.csv.gz"
    with gzip.open(path) as file:
        homes = pd.read_csv(file).drop(columns="time").to_numpy()
    hours = homes.reshape(-1, 24, 4, homes.shape[1]).mean(axis=2)
    table = pd.DataFrame(np.moveaxis(hours, 2, 0).reshape(-1, 24), columns=list(PROFILES.between))
    return table.sample(rows, random_state=seed) if rows else table


HOMES = PROFILES
DAYS = 80  # of a simulated home


def homes(rows: int, seed: int) -> pd.DataFrame:
    """Days of simulated homes by hour, in kW: some heat at night, some all day, some load a car, by the season."""
    generator = np.random.default_rng(seed)
    season = np.sin(np.linspace(0, np.pi, DAYS))[:, None]
    days = [_days_of_home(generator, season) for _ in range(rows // DAYS)]
    return pd.DataFrame(np.concatenate(days).clip(0, 20), columns=list(HOMES.between))


def _days_of_home(generator: np.random.Generator, season: np.ndarray) -> np.ndarray:
    hours = np.arange(24)
    usual = 0.15 + 0.25 * np.exp(-((hours - 7.5) ** 2) / 4) + 0.6 * np.exp(-((hours - 19) ** 2) / 6)
    usual += 0.2 * np.exp(-((hours - 12) ** 2) / 3)
    size, kind = generator.lognormal(0, 0.5), generator.random()
    moods = generator.standard_normal((DAYS, 24))
    for hour in range(1, 24):
        moods[:, hour] = 0.5 * moods[:, hour - 1] + np.sqrt(0.75) * moods[:, hour]
    load = size * usual * np.exp(0.5 * moods + 0.2 * generator.standard_normal((DAYS, 1)))
    if kind < 0.15:
        heats = generator.random((DAYS, 1)) < 0.3 + 0.6 * season
        load += heats * generator.uniform(2, 6) * ((hours < 5) | (hours > 22))
    elif kind < 0.4:
        load += generator.uniform(0.4, 1.5) * season * np.exp(0.2 * generator.standard_normal((DAYS, 24)))
    if generator.random() < 0.15:
        starts, drives = generator.integers(17, 24, (DAYS, 1)), generator.random((DAYS, 1)) < 0.4
        load += drives * ((hours >= starts) & (hours < starts + 3)) * generator.uniform(2.5, 7, (DAYS, 1))
    return np.asarray(load)
