"""Synthetic tables: what a plan foresees, what a release says of itself, bands, tails, and evenly spread rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from scipy.stats import ks_2samp

from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.cells import Cells, trimmed
from gaussveil.postprocessing.synthetic.laws import tilted
from gaussveil.postprocessing.synthetic.summary import Told, statements

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
    for seed in range(4 if full else 2):
        data = people(2000, seed).drop(columns="who")
        table, _ = drawn(data, between=RANGES, values=VALUES, label="ill", generator=SeededGenerator(seed))
        told = table.summary(replays=6, seed=seed)
        truth = statements(pa.Table.from_pandas(data), table.model_.columns)
        for column, statistic, other, low, high, trusted in zip(
            *(told[name] for name in ("column", "statistic", "other", "low", "high", "trusted"))
        ):
            value = truth[Told(column, statistic, other)]
            held.append(low - 1e-9 <= value <= high + 1e-9)
            if statistic.startswith("share"):
                width.append(high - low)
                assert trusted
    assert 0.9 <= np.mean(held) <= 1
    assert np.median(width) < 0.1, "intervals that say something"


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
