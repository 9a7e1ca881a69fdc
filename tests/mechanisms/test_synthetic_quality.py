"""Synthetic tables: what a plan foresees, what a release says of itself, bands, tails, and evenly spread rows."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.special import ndtr
from scipy.stats import binom, ks_2samp

from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.cells import Cells, trimmed
from gaussveil.postprocessing.synthetic.columns import column_of
from gaussveil.postprocessing.synthetic.copulas import correlation_room
from gaussveil.postprocessing.synthetic.laws import counts_of_classes, tilted
from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.postprocessing.synthetic.quality import Quality
from gaussveil.postprocessing.synthetic.search import (
    FOUND_CHANCE,
    ROUNDS,
    Sought,
    looked_for,
    records_to_stand_out,
    standing_out,
)
from gaussveil.postprocessing.synthetic.summary import StatedNumber, banded, statements, tail_rooms

from .synthetic_people import PROMISE, RANGES, VALUES, drawn, people


@pytest.mark.parametrize("count", [150, 10_000])
def test_a_plan_foresees_how_far_off_columns_will_be(count: int) -> None:
    data = people(count).drop(columns="who")
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, label="ill", generator=SeededGenerator(2))
    foreseen = table.plan(data).parameters
    assert list(foreseen["expected_distance"]) == ["1000", "10000", "100000"]
    assert 0 < foreseen["expected_clipped"]["10000"] < 0.2
    told = replace(table, rows=count)
    if count < 1000:
        with pytest.raises(GaussveilError, match=r"150 rows are too few for 5 columns.*fewer columns"):
            told.release(data)
        with pytest.raises(GaussveilError, match="anyway=True"):
            table.release(data).value.sample(10)
        assert table.model_.sample(10, anyway=True).num_rows == 10
        return
    expected = told.plan(data).parameters["expected_distance"][f"{count}"]
    quality = told.release(data).value.quality
    assert quality is not None
    assert quality.usable
    assert quality.mean_gap == pytest.approx(expected, rel=0.5)
    rows = told.sample(count, 1)
    seen = np.mean([ks_2samp(data[name].dropna(), rows[name].dropna()).statistic for name in ("income", "height")])
    assert 0.2 * expected < seen < 2 * expected


def test_a_range_that_cuts_numbers_off_is_told() -> None:
    data = people(5000).drop(columns="who")
    table, _ = drawn(data, between={**RANGES, "income": (0, 15_000)}, values=VALUES)
    assert table.model_.quality is not None
    assert any("'income' are the ends" in one for one in table.model_.quality.advice)
    wide, _ = drawn(data, between=RANGES, values=VALUES)
    assert wide.model_.quality is not None
    assert wide.model_.quality.advice == ()


def test_bands_hold_the_private_table(full: bool) -> None:
    """Means, quantiles, shares and correlations of tables, in intervals from replays of their own releases."""
    held, width = [], []
    by_kind: dict[str, list[bool]] = {}
    for seed in range(12 if full else 2):
        data = people(2000, seed).drop(columns="who")
        table, _ = drawn(data, between=RANGES, values=VALUES, label="ill", generator=SeededGenerator(seed))
        told = table.summary(replays=6, seed=seed)
        truth = statements(pa.Table.from_pandas(data), table.model_.columns)
        for column, statistic, other, low, high, trusted in zip(
            *(told[name] for name in ("column", "statistic", "other", "low", "high", "trusted"))
        ):
            value = truth[StatedNumber(column, statistic, other)]
            held.append(low - 1e-9 <= value <= high + 1e-9)
            if trusted:
                by_kind.setdefault(statistic.split()[0], []).append(held[-1])
            if statistic.startswith("share"):
                width.append(high - low)
                assert trusted
    assert 0.9 <= np.mean(held) <= 1
    assert np.median(width) < 0.1, "intervals that say something"
    assert set(by_kind) >= {"missing", "mean", "quantile", "share"}  # a correlation of 2,000 rows is barely known
    if full:
        for kind, found in by_kind.items():
            assert binom.cdf(sum(found), len(found), 0.93) > 1e-3, (kind, len(found))


def test_a_summary_reads_no_private_row_and_repeats_itself() -> None:
    data = people(1500).drop(columns="who")
    table, _ = drawn(data, between=RANGES, values=VALUES, label="ill")
    before = table.summary(replays=4, seed=1)
    data.loc[:, "income"] = 7.0
    assert before.equals(table.summary(replays=4, seed=1))
    with pytest.raises(GaussveilError, match="replays"):
        table.summary(replays=3)


def test_columns_that_noise_drowns_are_not_trusted() -> None:
    """Of 40 people whose shares noise moves by a third, nothing is to be believed, and the summary says so."""
    data = people(120).drop(columns="who")
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, generator=SeededGenerator(1))
    table.release(data)
    told = table.summary(replays=4)
    assert not told[told["statistic"].str.startswith("share")]["trusted"].any()


def test_noise_over_an_empty_range_is_no_tail() -> None:
    """Numbers below 30 in a range up to 10,000: drawn ones stay near them, and so do their correlations."""
    generator = np.random.default_rng(4)
    first = generator.lognormal(1, 0.8, 6000)
    table = pd.DataFrame({"stay": first, "cost": first * generator.lognormal(3, 0.3, 6000)})
    _, rows = drawn(table, between={"stay": (0, 10_000), "cost": (0, 1e7)})
    assert rows["stay"].max() < 6 * table["stay"].max()
    assert abs(rows.corr().iloc[0, 1] - table.corr().iloc[0, 1]) < 0.08


def test_a_law_leans_until_its_mean_is_as_told() -> None:
    scores = np.array([-1.5, -0.2, 0.4, 2.0])
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    for mean in (-1.2, 0.0, 1.7):
        law = tilted(shares, scores, mean)
        assert law @ scores == pytest.approx(mean, abs=1e-9)
        slopes = np.diff(np.log(law / shares)) / np.diff(scores)
        assert slopes == pytest.approx(np.full(3, slopes[0])), "nothing else is changed"
    assert tilted(shares, scores, 9.0) @ scores <= 2.0


def test_outermost_cells_are_put_together_until_they_stand_out() -> None:
    cells = Cells.of([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], [0.0])
    counts = np.array([[500.0, 400.0, 300.0, 5.0, -3.0, 30.0, 9.0]])
    fewer, summed, prior = trimmed(cells, counts, np.arange(6.0), 10.0)
    assert fewer.low.tolist() == [0.0, 0.0, 1.0]
    assert fewer.high.tolist() == [0.0, 1.0, 5.0]
    assert summed.tolist() == [[500.0, 400.0, 332.0, 9.0]]
    assert prior.tolist() == [0.0, 1.0, 14.0]
    same, kept, _ = trimmed(cells, np.array([[500.0, 400, 300, 200, 100, 90, 9]]), np.arange(6.0), 10.0)
    assert (same.size, kept.shape) == (6, (1, 7))


def test_rows_are_spread_evenly() -> None:
    """As many rows of each class as its weight says, and columns as near to their laws as rows can be."""
    data = people(4000).drop(columns="who")
    table, _ = drawn(data, between=RANGES, values=VALUES, label="ill")
    first, second = (table.sample(2000, seed) for seed in (1, 2))
    assert not first.equals(second)
    weights = dict(zip(table.model_.classes, table.model_.weights))
    for rows in (first, second):
        assert abs((rows["ill"] == "yes").sum() - 2000 * weights["yes"]) <= 2
    assert ks_2samp(first["height"], second["height"], method="asymp").statistic < 0.02


@pytest.mark.parametrize("most", [1, 2, 3, 7])
@pytest.mark.parametrize("sign", [1, -1])
def test_counts_whose_range_is_learnt_are_never_negative(most: int, sign: int) -> None:
    """Cells are looked at together, beyond 0 as well; a range that is learnt has room beyond, of the same sign."""
    counts = sign * np.arange(0, most + 1).repeat(800)
    data = pd.DataFrame({"count": counts, "amount": np.linspace(1, 2, len(counts))})
    for seed in range(2):
        _, rows = drawn(data, bounds="auto", generator=SeededGenerator(seed))
        assert (sign * rows["count"]).min() >= 0
        assert rows["amount"].min() > 0
        assert (sign * rows["count"]).mean() == pytest.approx(most / 2, abs=0.15)


def test_texts_that_nobody_shares_are_told() -> None:
    """A column of remarks is 'other' throughout: the release says so, and what to do."""
    data = people(4000).drop(columns="who").assign(remark=[f"remark {number}" for number in range(4000)])
    table, rows = drawn(data, bounds="auto")
    assert set(rows["remark"]) == {"other"}
    assert table.model_.quality is not None
    assert [one.split(":")[0] for one in table.model_.quality.advice if "'other'" in one] == [
        "100% of 'remark' are 'other', values that too few rows share for them to show"
    ]


def meters(homes: int, days: int) -> pd.DataFrame:
    """A sheet that is wide for its homes: each counts with all of its days."""
    generator = np.random.default_rng(1)
    loads = 0.5 * generator.lognormal(0, 0.4, (homes * days, 2)).clip(0.1, 3.7)
    table = pd.DataFrame(loads.round(2), columns=["morning", "evening"])
    table["meter"] = [f"m{home}" for home in np.repeat(np.arange(homes), days)]
    return table


def test_octaves_are_never_made_of_noise() -> None:
    """20 rows of each of 150 homes: a load is found where it is, or left empty and said to be."""
    data = meters(150, 20)
    unit = {"unit": "meter", "rows_per_unit": 20, "bounds": "auto"}
    emptied = 0
    for seed in range(6):
        table = SyntheticTable(**PROMISE, **unit, generator=SeededGenerator(seed))
        quality = table.release(data).value.quality
        assert quality is not None
        rows = table.sample(seed=1, anyway=True)
        for name in ("morning", "evening"):
            if name in quality.unknown:
                emptied += 1
                assert rows[name].isna().all()
                assert any(f"{name!r} is left empty" in one for one in quality.advice)
                assert quality.gaps[name] == 1
            else:
                assert rows[name].between(0.01, 10).all()
    assert 0 < emptied < 12
    told = table.summary(replays=4)
    known = told[~told["column"].isin(quality.unknown)]
    assert np.isfinite(known["high"]).all()
    assert not told[told["column"].isin(quality.unknown)]["trusted"].any()
    foreseen = table.plan(data).parameters["rows_for_ranges"]
    assert foreseen > 3000
    with pytest.raises(GaussveilError, match=r"too few to learn the range of morning, evening: with \d+ all are found"):
        replace(table, rows=3000).plan(data)
    replace(table, rows=foreseen).plan(data)


def test_noise_alone_stands_out_once_in_a_million() -> None:
    """Thresholds hold for all windows together: by their tails, and counts of nothing stay below them."""
    column = column_of("load", pa.float64())
    sought = Sought.first(column)
    looks = looked_for(4)
    assert 6 < standing_out(sought.cells.size, looks) < 7
    generator = np.random.default_rng(3)
    for _ in range(200):
        seen = sought
        for _ in range(3):
            seen = seen.seen(50 * generator.standard_normal(sought.cells.size), 50.0, looks)
        assert seen.masses is None
        assert seen.variance == pytest.approx(2500 / 3)


def test_counts_of_the_same_cells_are_put_together_until_records_stand_out() -> None:
    column = column_of("load", pa.float64())
    sought = Sought.first(column)
    place = int(sought.cells.codes(np.array([3.0]))[0])
    counts = np.zeros(sought.cells.size)
    counts[place] = 50 * standing_out(sought.cells.size, 12) / 1.2
    once = sought.seen(counts, 50.0, 12)
    assert once.masses is None
    twice = once.seen(counts, 50.0, 12)
    assert twice.masses is not None
    assert twice.cells.low[0] == 0.5
    assert twice.cells.high[-1] == 16.0


def test_learnt_ages_reach_no_octave_farther_than_people() -> None:
    generator = np.random.default_rng(0)
    ages = generator.normal(57, 18, 10_000).clip(18, 90).round().astype(int)
    data = pd.DataFrame({"age": ages, "even": generator.integers(18, 91, 10_000)})
    for seed in range(3):
        _, rows = drawn(data, bounds="auto", generator=SeededGenerator(seed))
        assert rows.max().max() <= 97
        assert rows.min().min() >= 8


def test_cells_add_up_to_better_counts_of_classes() -> None:
    seen = [np.array([[30.0, 12.0], [8.0, 0.0]]), np.array([[20.0, 20.0, 2.0], [5.0, 2.0, 3.0]])]
    counts, deviation = counts_of_classes(np.array([50.0, 20.0]), 2.0, seen, 1.0)
    weights = np.array([1 / 4, 1 / 2, 1 / 3])
    assert counts == pytest.approx([weights @ [50, 42, 42] / weights.sum(), weights @ [20, 8, 10] / weights.sum()])
    assert deviation == pytest.approx(weights.sum() ** -0.5)


def test_an_interval_that_nobody_looked_into_counts_for_its_distance() -> None:
    law = Marginal(np.array([0.0, 1.0, 5.0]), np.array([0.0, 5.0, 6.0]), np.array([[0.2, 0.5, 0.3]]), np.zeros(1))
    assert law.largest_interval(0.0) == 0.5
    assert law.largest_interval(4.0) == 0.0


def test_correlations_of_normal_columns_have_little_room_and_of_skewed_ones_much() -> None:
    edges = np.linspace(-4, 4, 65)
    shares = np.diff(ndtr(edges))[None] / np.diff(ndtr(edges)).sum()
    plain = Marginal(edges[:-1], edges[1:], shares, np.zeros(1))
    skewed = Marginal(np.exp(edges[:-1]), np.exp(edges[1:]), shares, np.zeros(1))
    for correlation in (0.5, -0.5):
        normal, lognormal = (correlation_room(one, one, np.array([correlation]), np.ones(1)) for one in (plain, skewed))
        assert max(normal) < 0.06
        assert max(lognormal) > 2 * max(normal)
    assert correlation_room(plain, plain, np.zeros(1), np.ones(1)) == (0, 0)


def test_columns_that_are_left_empty_count_as_wrong() -> None:
    """A sheet with 21 of 22 columns left empty was said to be off by 20 % by noise alone, and no more."""
    laws = Quality(150.0, {"a": 0.2, "b": 1.0, "c": 1.0}, {}, 0.0, (), ("b", "c"))
    assert laws.mean_gap == pytest.approx(2.2 / 3)
    assert laws.on_distance.endswith("73.3% of their rows, the 2 of 3 that are left empty wholly")
    assert not laws.usable
    assert laws.verdict is not None
    assert laws.verdict.startswith("2 of 3 columns are left empty")
    half = Quality(150.0, {"a": 0.1, "b": 1.0}, {}, 0.0, (), ("b",))
    assert half.usable
    assert half.verdict is None
    whole = Quality(150.0, {"a": 0.2, "b": 0.4}, {}, 0.0, ())
    assert whole.on_distance.endswith("30.0% of their rows")
    assert whole.verdict is not None
    assert "off by 30%" in whole.verdict


def test_ranges_are_found_from_the_number_of_rows_on_that_a_plan_names() -> None:
    """Of a column of which half lies within a factor of four, the rest far apart, in three counts with their noise."""
    generator = np.random.default_rng(0)
    column = column_of("load", pa.float64())
    looks = looked_for(12)
    first = Sought.first(column)
    rows = records_to_stand_out(column, looks, 12)
    parts = np.full(first.cells.size, 0.0)
    middle = int(first.cells.codes(np.array([3.0]))[0])
    parts[[middle - 1, middle]] = 0.25
    parts[middle + 5 :: 4][:10] = 0.05
    missed = 0
    for _ in range(400):
        seen = first
        for part in ROUNDS:
            noise = part**-0.5
            if seen.masses is None:
                seen = seen.seen(rows * parts + noise * generator.standard_normal(len(parts)), noise, looks)
        missed += seen.masses is None
    assert missed <= 400 * (1 - FOUND_CHANCE) / 12 + 4
    few = first.seen(rows * parts / 2, 1.0, looks)
    assert few.masses is None


def test_a_plan_says_column_by_column_what_to_expect() -> None:
    data = people(100).drop(columns="who")
    plan = SyntheticTable(**PROMISE, bounds="auto", between={"height": (100, 220)}).plan(data)
    told = "\n".join(plan.expectations)
    for size in ("1000", "10000", "100000"):
        shares = plan.parameters["expected_distances"][size]
        assert f"of {size} rows columns would be off by about {np.mean(list(shares.values())):.1%}" in told
        assert all(f"{name} {gap:.1%}" in told for name, gap in shares.items())
    assert f"from {plan.parameters['rows_for_ranges']} rows on all ranges" in told
    assert "whose values are not listed" in told
    few = SyntheticTable(epsilon=0.2, delta=1e-6, bounds="auto").plan(data)
    assert "of 1000 rows these might be left empty: " in "\n".join(few.expectations)
    assert few.parameters["expected_distance"]["1000"] > 0.5


def test_statements_have_room_for_where_numbers_lie_in_the_outermost_cells() -> None:
    """One in ten lies beyond 1, and how far is not counted: the mean and the largest quantile may be that far off."""
    numbers = np.concatenate([np.linspace(0, 1, 900), np.linspace(1, 5, 100)])
    table = pa.table({"a": numbers, "b": numbers[::-1]})
    columns = [column_of(name, pa.float64()) for name in table.column_names]
    ends = {"a": (-np.inf, 1.0), "b": (-np.inf, np.inf)}
    rooms = tail_rooms(table, columns, ends, [["a", "b"]])
    assert rooms[StatedNumber("a", "mean")] == pytest.approx((0.2, 0.2))
    assert rooms[StatedNumber("a", "quantile 0.95")] == pytest.approx((2.0, 2.0), rel=0.02)
    assert rooms[StatedNumber("a", "quantile 0.75")] == (0, 0)
    assert rooms[StatedNumber("b", "mean")] == (0, 0)
    drawn, near = (np.corrcoef(one, numbers[::-1])[0, 1] for one in (numbers, numbers.clip(max=1)))
    assert rooms[StatedNumber("a", "correlation", "b")] == pytest.approx((abs(drawn - near),) * 2)
    bands = banded(statements(table, columns), [{}], 0.0, columns, {}, (), rooms).to_pandas()
    assert not bands["trusted"].any()
    exact = [dict.fromkeys(statements(table, columns), 0.0)] * 4
    told = banded(statements(table, columns), exact, 0.0, columns, {}, (), rooms).to_pandas()
    (mean,) = told[(told["column"] == "a") & (told["statistic"] == "mean")].itertuples()
    assert mean.high - mean.value == pytest.approx(0.2)
    trusted = told[told["column"] == "a"].set_index("statistic")["trusted"]
    assert trusted["mean"]
    assert not trusted["quantile 0.95"]


def test_whole_numbers_have_room_beyond_cells_of_several_and_intervals_end_at_whole_ones() -> None:
    table = pa.table({"age": np.arange(100).repeat(5)})
    columns = [column_of("age", pa.int64())]
    said = statements(table, columns)
    exact = [dict.fromkeys(said, 0.2)] * 4
    told = banded(said, exact, 0.0, columns, None, (), {StatedNumber("age", "quantile 0.05"): (2.5, math.inf)})
    ends = {row["statistic"]: (row["low"], row["high"]) for row in told.to_pylist()}
    assert ends["quantile 0.05"] == (1, math.inf)
    assert ends["quantile 0.5"] == (48, 51)
    lone = Marginal(np.array([0.5, 1.5, 5.5]), np.array([1.5, 5.5, 9.5]), np.full((1, 3), 1 / 3), np.zeros(1))
    assert lone.tails_wider_than(1.0) == (-math.inf, 5.5)
    assert lone.tails == (1.5, 5.5)


def test_edges_beyond_the_last_one_lie_near_it_whatever_the_range() -> None:
    """A tenth of the records lie beyond 4.5, of a range up to 100: where, the next count can tell."""
    cells = Cells.of([0.0, 1.0, 2.0, 3.0, 4.5, 100.0])
    masses = np.array([0.0, 4000.0, 3000.0, 2000.0, 1000.0])
    column = replace(column_of("load", pa.float64()), low=0.0, high=100.0)
    finer = Sought(column, cells, masses).finer(np.array([0.5, 0.91, 0.93, 0.95, 0.97]), 0.0)
    assert finer.masses is not None
    assert finer.masses.sum() == pytest.approx(10_000)
    inner = finer.cells.edges[1:-1]
    assert ((inner > 4.5) & (inner < 7.5)).sum() == 4
