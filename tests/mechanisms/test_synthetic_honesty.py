"""Synthetic tables of awkward columns: what they say is right, or the release says that it is not to be trusted."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import ndtr

from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.cells import Cells
from gaussveil.postprocessing.synthetic.columns import column_of
from gaussveil.postprocessing.synthetic.laws import SeenColumn, law_of
from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.postprocessing.synthetic.search import Sought, gap_ends
from gaussveil.postprocessing.synthetic.summary import StatedNumber, beyond_rooms, statements

from .synthetic_people import PROMISE

ROWS = 3000
REPLAYS = {False: 4, True: 8}  # of a release, in each run and with --full
SEEDS = {False: 1, True: 6}


def awkward(seed: int) -> pd.DataFrame:
    """One in ten at -999, two clusters far apart, four in five cells empty, dates of one year, a cost with a tail."""
    generator = np.random.default_rng(seed)
    score = generator.standard_normal(ROWS)
    in_second = generator.random(ROWS) < 0.5
    return pd.DataFrame(
        {
            "pressure": np.where(generator.random(ROWS) < 0.1, -999.0, 50 + 10 * score),
            "meter": np.where(in_second, 10 + score, 10_000 + 50 * score),
            "rare": np.where(generator.random(ROWS) < 0.8, np.nan, np.exp(3 + score)),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(generator.integers(0, 365, ROWS), "D"),
            "cost": generator.lognormal(7, 0.8, ROWS).round(2),
            "plain": score + generator.standard_normal(ROWS),
        }
    )


@cache
def released(seed: int) -> tuple[SyntheticTable, pd.DataFrame]:
    """A release of an awkward table, and rows of it."""
    synthetic = SyntheticTable(**PROMISE, bounds="auto", generator=SeededGenerator(seed + 10))
    synthetic.release(awkward(seed))
    return synthetic, synthetic.sample(seed=seed)


def advice(seed: int) -> str:
    quality = released(seed)[0].model_.quality
    assert quality is not None
    return "\n".join(quality.advice)


def test_what_is_trusted_of_awkward_columns_is_right(full: bool) -> None:
    """Every kind of statement: nine in ten of the trusted ones hold, and none is far off."""
    held = []
    for seed in range(SEEDS[full]):
        table, (synthetic, _) = awkward(seed), released(seed)
        told = synthetic.summary(replays=REPLAYS[full], seed=seed)
        truth = statements(pa.Table.from_pandas(table, preserve_index=False), synthetic.model_.columns)
        told["truth"] = [truth[StatedNumber(*one)] for one in zip(told["column"], told["statistic"], told["other"])]
        trusted = told[told["trusted"]]
        inside = (trusted["low"] <= trusted["truth"] + 1e-9) & (trusted["truth"] <= trusted["high"] + 1e-9)
        far = (trusted["truth"] - trusted["value"]).abs() > 2 * (trusted["high"] - trusted["low"]) + 1e-9
        held += inside.tolist()
        assert not far.any(), trusted[far]
    assert np.mean(held) > 0.9


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tenth_at_minus_999_is_found_or_said(seed: int) -> None:
    """Where noise hides the place, only the side is said: no end of such intervals, no trust."""
    table, (synthetic, rows) = awkward(seed), released(seed)
    if "'pressure' lie far from all others" in advice(seed):
        said = statements(pa.Table.from_pandas(rows, preserve_index=False), synthetic.model_.columns)
        far = synthetic.model_.far_rooms(said)
        assert far[StatedNumber("pressure", "mean")] == (math.inf, 0)
        assert far[StatedNumber("pressure", "quantile 0.05")] == (math.inf, 0)
        assert far[StatedNumber("pressure", "correlation", "plain")] == (math.inf, math.inf)
        assert StatedNumber("pressure", "quantile 0.5") not in far
    else:
        assert rows["pressure"].mean() == pytest.approx(table["pressure"].mean(), abs=40)
        assert (rows["pressure"] < -500).mean() == pytest.approx(0.1, abs=0.04)


@pytest.mark.parametrize("seed", [0, 1])
def test_clusters_far_apart_have_the_correlations_of_their_values(seed: int) -> None:
    """Inside each cluster the numbers follow another column, which is nothing to the correlation of the whole."""
    table, (_, rows) = awkward(seed), released(seed)
    seen = [one[["meter", "plain"]].corr().iloc[0, 1] for one in (table, rows)]
    assert np.abs(seen).max() < 0.08


@pytest.mark.parametrize("seed", [0, 1])
def test_a_learnt_cost_keeps_its_tail_or_the_release_says_so(seed: int) -> None:
    table, (_, rows) = awkward(seed), released(seed)
    spread = rows["cost"].std() / table["cost"].std()
    assert 0.5 < spread < 2
    assert "standard deviation of 'cost'" in advice(seed) or 0.75 < spread < 1.3


@pytest.mark.parametrize("seed", [0, 1])
def test_dates_of_one_year_reach_little_farther(seed: int) -> None:
    days = released(seed)[1]["day"]
    assert ((days < pd.Timestamp("2024-01-01")) | (days > pd.Timestamp("2024-12-30"))).mean() < 0.08
    for level in (0.05, 0.5, 0.95):
        gap = days.quantile(level) - (pd.Timestamp("2024-01-01") + pd.Timedelta(level * 365, "D"))
        assert abs(gap) < pd.Timedelta(25, "D")


def seen(counts: list[float], beyond: list[float], deviation: float) -> SeenColumn:
    cells = Cells.of([0.0, 1.0, 2.0, 3.0, 4.0])
    released = np.array([[*counts, *beyond, 0.0]])
    column = column_of("load", pa.float64())
    return SeenColumn.of(column, cells, released, deviation, np.array(counts))


def test_numbers_beyond_a_learnt_range_are_counted_apart() -> None:
    cells = Cells.of([1.0, 2.0, 4.0])
    numbers = np.array([-5.0, 0.5, 1.5, 3.0, 9.0, np.nan])
    assert cells.codes_or_beyond(numbers, True).tolist() == [2, 0, 0, 1, 3, -1]
    assert cells.codes_or_beyond(numbers, False).tolist() == [2, 2, 0, 1, 3, -1]
    quiet = law_of(seen([300.0, 400.0, 200.0, 100.0], [-20.0, 30.0], 10.0), np.array([1000.0]))
    assert quiet.beyond == (0, 0)
    loud = law_of(seen([300.0, 400.0, 200.0, 100.0], [110.0, 30.0], 10.0), np.array([1110.0]))
    assert loud.beyond == pytest.approx((110 / 1110, 0))
    assert loud.shares[0, 0] == pytest.approx(410 / 1110, abs=0.03)
    assert loud.unplaced[0] >= loud.beyond[0]


def test_statements_that_rest_on_numbers_beyond_have_no_end_there() -> None:
    table = pa.table({"a": np.arange(100.0), "b": np.arange(100.0)[::-1]})
    said = statements(table, [column_of(name, pa.float64()) for name in table.column_names])
    rooms = beyond_rooms(said, {"a": (0.1, 0.0)})
    inf = math.inf
    assert rooms == {
        StatedNumber("a", "mean"): (inf, 0.0),
        StatedNumber("a", "quantile 0.05"): (inf, 0.0),
        StatedNumber("a", "correlation", "b"): (inf, inf),
    }


def test_what_parts_clusters_keeps_its_ends() -> None:
    cells = Cells.of([-1024.0, -512.0, 0.0, 16.0, 32.0, 64.0, 128.0])
    masses = np.array([300.0, 10.0, 0.0, 100.0, 2500.0, 90.0])
    assert gap_ends(cells, masses).tolist() == [-512.0, 16.0]
    assert len(gap_ends(cells, masses[[2, 1, 0, 3, 4, 5]])) == 0, "nothing on the other side"
    sought = Sought(column_of("pressure", pa.float64()), cells, masses).finer(np.arange(1, 6) / 6, 0.0)
    assert {-512.0, 16.0} <= set(sought.cells.edges)


def law(edges: list[float], shares: list[float], **changes: Any) -> Marginal:
    ends = np.array(edges)
    return Marginal(ends[:-1], ends[1:], np.array([shares]), np.zeros(1), **changes)


def test_a_cell_far_from_all_others_is_no_tail() -> None:
    """Halves and quarters of a normal law, and of one with a tenth somewhere in (-1000, 0]."""
    normal = law([-3, -1.28, -0.84, -0.52, -0.25, 0, 0.25, 0.52, 0.84, 1.28, 3], [0.1] * 10)
    assert normal.unplaced == (0, 0)
    assert not normal.is_clustered
    lumped = law([-1000, -1.28, -0.84, -0.52, -0.25, 0, 0.25, 0.52, 0.84, 1.28, 3], [0.1] * 10)
    assert lumped.unplaced == (0, 0), "its inner end is where a tail begins"
    apart = law([-1000, 0, 35, 39, 42, 45, 48, 51, 55, 60, 80], [0.1, 0.06, *[0.105] * 8])
    assert apart.unplaced == (0.1, 0)


def test_how_far_values_are_told_by_normal_scores() -> None:
    edges = np.linspace(-4, 4, 33)
    masses = (np.diff(ndtr(edges)) / (ndtr(4) - ndtr(-4))).tolist()
    assert law(edges.tolist(), masses).hidden < 0.1
    skewed = law(np.exp(edges).tolist(), masses).hidden
    told = (np.exp(1) - 1) ** -0.5  # correlation of a score and its exponential
    assert skewed == pytest.approx(np.sqrt(1 - told**2), abs=0.1)
