"""Columns that are one quantity at successive times: the cost of linking them, what links are, what rows follow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

from gaussveil.errors import ParameterError
from gaussveil.mechanisms import SyntheticTable
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.series import (
    EDGES,
    WIDTHS,
    Chain,
    Link,
    anchors_of,
    correlations_of,
    followed,
    mean_scores,
    partial_correlations,
)

from .synthetic_people import PROMISE
from .test_synthetic import Replay, squared_loss

HOURS = [f"h{hour}" for hour in range(5)]
PUBLIC = {"between": dict.fromkeys(HOURS, (0.0, 20.0))}


def loads(count: int, seed: int = 0) -> pd.DataFrame:
    """One home in eight heats: its load stays as it is; that of others is new every hour."""
    generator = np.random.default_rng(seed)
    heats = generator.random((count, 1)) < 0.125
    level = np.exp(1.5 + 0.3 * generator.standard_normal((count, 1)))
    hourly = np.exp(-1 + 0.7 * generator.standard_normal((count, len(HOURS))))
    return pd.DataFrame(np.where(heats, level, 0.0) + hourly, columns=HOURS).clip(0, 20)


def near(table: pd.DataFrame) -> NDArray[np.float64]:
    return np.asarray(np.diag(table.corr().to_numpy(), 1))


def gap(series: list[str] | None) -> float:
    table = loads(6_000)
    synthetic = SyntheticTable(**PROMISE, **PUBLIC, series=series, generator=SeededGenerator(4))
    synthetic.release(table)
    return float(np.abs(near(synthetic.sample(6_000, seed=1)) - near(table)).max())


def test_neighbours_of_a_series_are_correlated_as_in_the_table() -> None:
    plain, linked = gap(None), gap(["h*"])
    assert linked < plain / 2


def test_neighbours_differ_by_no_more_than_what_is_charged() -> None:
    table = loads(2000, seed=3)
    table.loc[::7, "h2"] = np.nan
    row = pd.DataFrame([[20.0] * len(HOURS)], columns=HOURS)
    with_it = pd.concat([table, row], ignore_index=True)
    synthetic = SyntheticTable(**PROMISE, **PUBLIC, series=["h*"])
    one = Replay(synthetic, with_it)
    other = Replay(synthetic, table, one.outputs)
    lost = squared_loss(one, other)
    assert 0.5 * one.made.shares.series * one.shift**2 < lost <= one.shift**2
    assert one.made.passes.spent <= one.shift**2


def test_a_link_keeps_scores_and_has_the_mean_product() -> None:
    signal = np.exp(1.2 * mean_scores())
    signal = (signal - WIDTHS @ signal) / np.sqrt(WIDTHS @ (signal - WIDTHS @ signal) ** 2)
    plain = Link.alike(0.5)
    wanted = plain.mean_product(signal, signal) + 0.2
    link = plain.tilted(signal, signal, wanted)
    assert link.mean_product(signal, signal) == pytest.approx(wanted, abs=1e-3)
    assert link.mean_product(mean_scores(), mean_scores()) == pytest.approx(
        plain.mean_product(mean_scores(), mean_scores()), abs=1e-3
    )
    np.testing.assert_allclose(link.masses().sum(axis=1), WIDTHS, rtol=1e-3)


def test_scores_of_a_link_fill_its_cells() -> None:
    signal = mean_scores()
    ratios = np.exp(0.4 * np.outer(signal**2, signal**2).clip(0, 4))
    link = Link(0.3, Link(0.3, ratios).masses() / Link.alike(0.3).masses())
    generator = np.random.default_rng(0)
    first = generator.standard_normal(60_000)
    second = link.following(generator.random(60_000), first)
    seen = np.histogram2d(ndtr(first), ndtr(second), [EDGES[::4], EDGES[::4]])[0] / 60_000
    starts = np.arange(0, len(WIDTHS), 4)
    wanted = np.add.reduceat(np.add.reduceat(link.masses(), starts, 0), starts, 1)
    np.testing.assert_allclose(seen, wanted, atol=0.003)
    left = link.before(first, second)
    assert np.abs(np.quantile(left, [0.1, 0.5, 0.9]) - [0.1, 0.5, 0.9]).max() < 0.01
    assert abs(np.corrcoef(left, second)[0, 1]) < 0.02


def test_plain_links_give_correlated_normal_scores() -> None:
    generator = np.random.default_rng(1)
    matrix = np.corrcoef(generator.standard_normal((6, 40)) + generator.standard_normal(40))
    places = [1, 4, 5]
    links = [Link.alike(matrix[1, 4]), Link.alike(matrix[4, 5])]
    scores = Chain.of(6, [places], links).scores(generator, 40_000, matrix)
    np.testing.assert_allclose(np.corrcoef(scores.T), matrix, atol=0.02)


def test_partial_correlations_are_those_given_what_lies_between() -> None:
    matrix = 0.6 ** np.abs(np.subtract.outer(np.arange(4), np.arange(4)))
    found = partial_correlations(matrix)
    np.testing.assert_allclose(found, np.diag([0.6] * 3, 1), atol=1e-12)


def test_departures_and_squares_tell_correlations() -> None:
    generator = np.random.default_rng(2)
    matrix = 0.7 ** np.abs(np.subtract.outer(np.arange(3), np.arange(3)))
    rows = generator.standard_normal((50_000, 3)) @ np.linalg.cholesky(matrix).T * np.array([1.0, 2.0, 0.7])
    for expected in (0.7, 0.0, -0.9):
        anchors = anchors_of(np.full(2, expected))
        told = (one.mean(axis=0) for one in followed(rows, anchors))
        np.testing.assert_allclose(correlations_of(*told, anchors), [0.7, 0.7], atol=0.01)


def test_near_its_anchor_a_correlation_bears_wrong_squares() -> None:
    """Noise in the squares of a tenth of them moves a correlation by its distance from the anchor, and no more."""
    anchors = anchors_of(np.array([0.6]))
    found = correlations_of(np.zeros(1), np.array([0.2, 0.2]), anchors)
    moved = correlations_of(np.zeros(1), np.array([0.22, 0.22]), anchors)
    assert found == pytest.approx(anchors)
    assert moved == pytest.approx(anchors)
    apart = correlations_of(np.array([-0.1]), np.array([0.22, 0.22]), anchors)
    assert anchors - apart == pytest.approx(0.1 / 1.1)


def test_large_values_that_go_on_count_little() -> None:
    row = np.full((1, 6), 5.0)
    departures, _ = followed(row, anchors_of(np.full(5, 0.6)))
    plain, _ = followed(row, np.full(5, 0.6))
    assert 0 < departures.max() < 0.75 * plain.max()


@pytest.mark.parametrize("series", [["x*"], ["h0"], ["*"], ["h*", "h[0-3]"]])
def test_what_is_no_series_is_refused(series: list[str]) -> None:
    table = pa.table({**{name: [1.0, 2.0] for name in HOURS}, "town": ["a", "b"]})
    with pytest.raises(ParameterError, match=r"series|column"):
        SyntheticTable(**PROMISE, **PUBLIC, values={"town": ["a", "b"]}, series=series).plan(table)


def test_a_series_beside_a_label_categories_and_missing_cells_is_drawn() -> None:
    table = loads(3000, seed=5).assign(town=np.where(np.arange(3000) % 3, "a", "b"))
    table["flat"] = np.where(table["h0"] > 1, "yes", "no")
    table.loc[::5, "h1"] = np.nan
    public = PUBLIC | {"values": {"town": ["a", "b"], "flat": ["yes", "no"]}, "label": "town"}
    synthetic = SyntheticTable(**PROMISE, **public, series=["h*"], generator=SeededGenerator(6))
    synthetic.release(table)
    rows = synthetic.sample(2000, seed=2)
    assert list(rows) == list(table)
    assert rows["h1"].isna().mean() == pytest.approx(0.2, abs=0.05)
    assert rows[HOURS].min().min() >= 0
