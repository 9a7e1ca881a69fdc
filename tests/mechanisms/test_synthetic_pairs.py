"""Pairs of columns that no correlation describes: what counting them costs, which are counted, how rows follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray

from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.pairs import (
    MOST_PAIRS,
    all_pairs,
    denoised,
    low_rank,
    raked,
    worth_counting,
)

from .synthetic_people import PROMISE
from .test_synthetic import Replay, squared_loss

SIZE = 5
WORDS = ["a", "b", "c", "d", "e"]
PUBLIC = {"between": {"height": (100, 220)}, "values": {"first": WORDS, "second": WORDS}}


def round_table(count: int, seed: int = 0) -> pd.DataFrame:
    """The second word follows the first, the last one the first again: scores of the words are not correlated."""
    generator = np.random.default_rng(seed)
    first = generator.choice(SIZE, count)
    second = np.where(generator.random(count) < 0.8, (first + 1) % SIZE, generator.choice(SIZE, count))
    height = np.rint(generator.normal(170, 9, count)).astype(int)
    words = np.array(WORDS)
    return pd.DataFrame({"first": words[first], "second": words[second], "height": height})


def gap(one: pd.DataFrame, other: pd.DataFrame, columns: list[str]) -> float:
    """Total variation."""
    shares = [table.groupby(columns).size() / len(table) for table in (one, other)]
    return float(shares[0].sub(shares[1], fill_value=0).abs().sum() / 2)


def test_words_that_follow_each_other_in_a_ring_come_through() -> None:
    data = round_table(10_000)
    table = SyntheticTable(**PROMISE, **PUBLIC, generator=SeededGenerator(3))
    model = table.release(data).value
    assert model.pairs is not None
    assert list(model.pairs.shares) == [(0, 1)]
    rows = table.sample(10_000, 1)
    model.__dict__["pairs"] = None
    without = table.sample(10_000, 1)
    assert gap(data, without, ["first", "second"]) > 0.3
    assert gap(data, rows, ["first", "second"]) < 0.03
    for name in ("first", "second"):
        assert gap(data, rows, [name]) < 0.02
    assert abs(rows["height"].mean() - data["height"].mean()) < 0.5


@pytest.mark.parametrize("count", [0, 1, 2, 7])
def test_few_rows_are_drawn_all_the_same(count: int) -> None:
    table = SyntheticTable(**PROMISE, **PUBLIC, generator=SeededGenerator(3))
    model = table.release(round_table(10_000)).value
    assert model.pairs is not None
    if count:
        assert len(table.sample(count, 1)) == count


@pytest.mark.parametrize("word", ["a", "e", None])
def test_counting_pairs_costs_no_more_than_was_charged(word: str | None) -> None:
    """The attack: five equal rows of one unit, of which three are used, every draw given what the other table gave."""
    data = round_table(6000).assign(who=np.arange(6000) // 3)
    somebody = pd.DataFrame([{"first": word, "second": word, "height": 100, "who": 10**6}] * 5)
    table = SyntheticTable(**PROMISE, **PUBLIC, unit="who", rows_per_unit=3)
    without = Replay(table, data)
    assert without.model.pairs is not None
    neighbour = Replay(table, pd.concat([data, somebody], ignore_index=True), without.outputs)
    loss = squared_loss(without, neighbour)
    assert 0.4 * without.shift**2 < loss <= without.shift**2
    assert np.sqrt(without.made.passes.spent) <= without.shift


def test_columns_of_numbers_pay_nothing_for_pairs() -> None:
    table = SyntheticTable(**PROMISE, between={"height": (100, 220), "age": (0, 120)})
    numbers = pd.DataFrame({"height": [170], "age": [30]})
    shares = table.plan(numbers).parameters["shares"]
    assert shares["choice"] == shares["pairs"] == 0
    named = table.plan(numbers.assign(member=True)).parameters
    assert named["shares"]["choice"] > 0
    assert named["noise"]["choice"] > named["noise"]["counts"]


def test_a_column_without_any_value_has_no_pairs() -> None:
    data = round_table(4000)
    table = pa.Table.from_pandas(data).append_column("empty", pa.nulls(len(data)))
    made = SyntheticTable(**PROMISE, **PUBLIC, generator=SeededGenerator(1))
    rows = made.release(table).value.sample(100, 1)
    assert rows.column("empty").null_count == 100


def test_pairs_are_counted_that_are_off_by_more_than_chance_and_noise() -> None:
    generator = np.random.default_rng(5)
    expected = [generator.dirichlet(np.ones(30)).reshape(5, 6) * 10_000 for _ in range(MOST_PAIRS + 30)]
    chance = np.array([np.abs(generator.poisson(one) - one).sum() for one in expected])
    assert worth_counting(chance, 200.0, expected, 0.01) == []
    assert worth_counting(chance + 3000 * (np.arange(len(chance)) == 4), 200.0, expected, 0.01) == [4]
    every = worth_counting(chance + 1e6, 200.0, expected, 0.01)
    assert len(every) == MOST_PAIRS
    assert every == sorted(set(every))
    assert worth_counting(chance + 3000, 4000.0, expected, 0.01) == [], "noise explains them"


def test_all_pairs_are_each_pair_once() -> None:
    assert sorted(all_pairs(4)) == [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    assert all_pairs(1) == []


@pytest.mark.parametrize("shape", [(12, 12), (12, 4), (3, 13)])
def test_singular_values_are_shrunk_to_what_tells_most(shape: tuple[int, int]) -> None:
    """Of a true value x noise makes y; the best multiple of the seen vectors is x times both their cosines."""
    few = min(shape)
    many = max(shape)
    ratio = few / many
    true = np.linspace(1.05, 4, few) * ratio**0.25
    seen = np.sqrt((true + 1 / true) * (true + ratio / true))
    cosines = np.sqrt((true**4 - ratio) / (true**4 + ratio * true**2) * (true**4 - ratio) / (true**4 + true**2))
    generator = np.random.default_rng(0)
    left, right = (np.linalg.qr(generator.normal(size=(side, few)))[0] for side in shape)
    unit = 7.0 * np.sqrt(many)
    made = low_rank((left * seen * unit) @ right.T, 7.0)
    assert made == pytest.approx((left * true * cosines * unit) @ right.T, abs=1e-9)


def test_noise_alone_is_taken_away() -> None:
    generator = np.random.default_rng(1)
    gone = [not low_rank(3 * generator.standard_normal((12, 10)), 3.0).any() for _ in range(200)]
    assert np.mean(gone) > 0.6
    expected = generator.dirichlet(np.ones(120)).reshape(12, 10) * 30_000
    errors: list[NDArray[np.float64]] = []
    for _ in range(50):
        noisy = expected + 30 * generator.standard_normal(expected.shape)
        shares = denoised(noisy, expected, 30.0)
        assert shares.min() >= 0
        assert shares.sum() == pytest.approx(1.0)
        errors.append(shares * 30_000 - expected)
    assert np.sqrt(np.mean(np.square(errors))) < 0.4 * 30


def test_weights_give_cells_the_counts_that_are_wanted() -> None:
    """Counts that some product of factors has are found again; the last table's exactly."""
    generator = np.random.default_rng(2)
    cells = [generator.integers(0, size, 5000) for size in (4, 6, 3)]
    truth = np.prod([generator.uniform(0.5, 2, 6)[one] for one in cells], axis=0)
    wanted = [np.bincount(one, truth) for one in cells]
    weights = raked(cells, wanted)
    for one, counts in zip(cells, wanted, strict=True):
        assert np.bincount(one, weights) == pytest.approx(counts, rel=1e-3)
    assert np.bincount(cells[-1], weights) == pytest.approx(wanted[-1], rel=1e-9)
