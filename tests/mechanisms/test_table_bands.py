"""Bands of means with learnt bounds hold the unclipped mean: the law of norms, what clipping takes, coverage."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

from gaussveil import Mean, Quantile, Sum, TableRelease, hour_of, weekday_of
from gaussveil.mechanisms.table.curves import OCTAVES, octave
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.mechanisms.table.means import ProfileDraw, interval
from gaussveil.mechanisms.table.profile import centre_of
from gaussveil.mechanisms.table.radii import Clipping, NormLaw, radii
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.intervals import Interval, Variances, Z
from gaussveil.statistics import as_source

NOISE = 16.0
DRAWS = 25


def histogram(norms: Any, seed: int) -> Any:
    noise = np.random.default_rng(seed).normal(0, NOISE, len(OCTAVES))
    return np.bincount(octave(norms), minlength=len(OCTAVES)) + noise


@pytest.mark.parametrize("units", [400, 20_000])
def test_what_a_radius_loses_is_known_within_its_deviation(units: int) -> None:
    """Of norms that follow no law of the grid: gamma, and a mixture with a heavier tail."""
    rng = np.random.default_rng(5)
    heavy = rng.gamma(3.0, 1.0, units) * np.where(rng.random(units) < 0.1, 2.5, 1.0)
    for norms in (rng.gamma(4.0, 0.25, units), heavy):
        errors = []
        for seed in range(DRAWS):
            clipping = Clipping(20.0, 1.0, 0.35, 1e6)
            radius, (lost,) = clipping.best([NormLaw(histogram(norms, seed), NOISE)])
            truth = float(np.maximum(norms - radius, 0.0).sum())
            errors.append((lost.expected - truth) / math.hypot(lost.deviation, 20.0 * radius))
            assert clipping.given([NormLaw(histogram(norms, seed), NOISE)], radius) == [lost]
        assert np.mean(np.abs(errors) < 2) > 0.9


@pytest.mark.parametrize(("units", "most"), [(4000, 0.28), (10_000, 0.52)])
def test_short_tails_are_not_taken_for_long_ones(units: int, most: float) -> None:
    """What a radius takes of a gamma law, in deviations of noise; log-normal laws alone told .35 and .69 too much."""
    norms = np.random.default_rng(5).gamma(4.0, 0.25, units)
    truth = float(np.maximum(norms - 2.0, 0.0).sum())
    found = [Clipping(20.0, 1.0, 0.35, 1e6).given([NormLaw(histogram(norms, seed), NOISE)], 2.0) for seed in range(12)]
    assert abs(np.mean([lost.expected - truth for (lost,) in found])) < most * 20.0 * 2.0


def test_what_stands_far_out_is_not_clipped_and_of_few_units_nothing_is_believed() -> None:
    rng = np.random.default_rng(6)
    norms = np.append(np.exp(rng.normal(0, 0.5, 3000)), np.full(150, 3000.0))
    few = np.exp(rng.normal(0, 0.5, 6))
    wide = 0
    for seed in range(DRAWS):
        radius, _ = Clipping(20.0, 1.0, 0.35, 1e6).best([NormLaw(histogram(norms, seed), NOISE)])
        assert 3000 < radius <= 4096
        radius, (lost,) = Clipping(20.0, 1.0, 0.35, 1e6).best([NormLaw(histogram(few, seed), NOISE)])
        wide += radius > 8 * few.max() or lost.deviation > few.sum()
    assert wide >= 0.9 * DRAWS
    assert radii()[-1] == 2.0 ** OCTAVES[-1]


def test_what_stands_out_is_lost_too_where_a_radius_leaves_it_outside() -> None:
    """Numbers that somebody wrote for missing ones: of the whole vectors, and of their differences on one side."""
    rng = np.random.default_rng(7)
    usual, odd = np.exp(rng.normal(0, 0.5, 3000)), np.full(300, 90.0)
    for seed in range(1, 4):
        whole = NormLaw(histogram(np.append(usual, odd), seed), NOISE)
        below, above = (NormLaw(histogram(one, 10 * seed + side), NOISE) for side, one in enumerate((odd, usual)))
        radius, _ = Clipping(20.0, 1.0, 0.35, 1e6, whole, 0.5).best([below, above])
        assert 90 <= radius <= 128
        (lost,) = Clipping(20.0, 1.0, 0.35, 1e6).given([whole], 10.0)
        assert abs(lost.expected - 300 * 80.0) < 300 * 13.0
        assert lost.deviation < 0.55 * lost.expected


def test_a_centre_far_from_all_units_does_not_make_their_loss_small() -> None:
    """A radius below the centre's length: a vector of next to nothing loses of its difference what is missing there."""
    many, apart, radius = 150, 7000.0, 3444.0
    near = np.exp(np.random.default_rng(4).normal(0, 0.3, many))
    truth = float(np.maximum(apart - near - radius, 0.0).sum()), float(np.maximum(apart + near - radius, 0.0).sum())
    for seed in range(5):
        whole = NormLaw(histogram(near, seed), NOISE, (float(many), 30.0))
        sides = [NormLaw(histogram(np.full(many // 2, apart), 10 * seed + k), NOISE, (75.0, 80.0)) for k in range(2)]
        lost = Clipping(20.0, 1.0, 0.35, 1e6, whole, apart).given(sides, radius)
        together = sum(one.expected for one in lost)
        unsure = math.hypot(*(one.deviation for one in lost))
        assert truth[0] - 2 * unsure < together < truth[1] + 2 * unsure
        assert together > truth[0] / 2


def answers_again(
    table: pd.DataFrame, by: dict[str, Any], answers: list[Any], times: int, epsilon: float = 1.0
) -> Iterator[dict[str, Interval]]:
    """The answers again and again; what does not depend on a draw is read once."""
    asked = TableRelease(unit="u", epsilon=epsilon, delta=1e-6, by=by, answers=answers, generator=SeededGenerator(2))
    noise = asked.plan().noise
    draws = draws_of(noise, as_source(table), asked.generator)
    draws.prepare()
    for _ in range(times):
        draws.spent, draws.draws = 0.0, 0
        yield Estimates(noise, Drawn(profiles=draws.profiles())).columns()


def incomes() -> tuple[pd.DataFrame, dict[str, Any], str]:
    rng = np.random.default_rng(11)
    region = rng.integers(0, 4, 8000)
    return (
        pd.DataFrame({"u": np.arange(8000), "g": region, "x": np.exp(rng.normal(3 + region / 8, 0.7))}),
        {"g": range(4)},
        "g",
    )


def homes() -> tuple[pd.DataFrame, dict[str, Any], str]:
    rng = np.random.default_rng(12)
    kw = rng.lognormal(0, 0.7, (1500, 1)) * (1 + 0.4 * np.sin(np.arange(24) / 4)) * rng.gamma(3.0, 1 / 3, (1500, 24))
    hour = np.tile(np.arange(24), 1500)
    table = pd.DataFrame({"u": np.repeat(np.arange(1500), 24), "g": hour, "x": kw.ravel()})
    return table.assign(time=pd.Timestamp("2024-01-01") + pd.to_timedelta(hour, unit="h")), {"g": hour_of("time")}, "g"


def patterns() -> tuple[pd.DataFrame, dict[str, Any], str]:
    """A week that all units share, times a level that is spread widely: who is clipped has more of its shape, too."""
    rng = np.random.default_rng(5)
    week = 1 + 0.3 * np.sin(2 * np.pi * np.arange(7) / 7)
    kw = 4 * rng.lognormal(0, 0.7, (8000, 1)) * week + rng.normal(0, 0.3, (8000, 7))
    day = np.tile(np.arange(7), 8000)
    table = pd.DataFrame({"u": np.repeat(np.arange(8000), 7), "g": day, "x": kw.ravel()})
    return (
        table.assign(time=pd.Timestamp("2024-01-01") + pd.to_timedelta(day, unit="D")),
        {"g": weekday_of("time")},
        "g",
    )


@pytest.mark.parametrize("made", [incomes, homes, patterns])
def test_bands_hold_the_unclipped_answer(made: Any) -> None:
    """Noise alone covered .6 and .4 of the first two; of the last .3 was held where shapes were not given back.

    What all moments of one release share makes coverage of few releases coarse (all of the last are held): so errors
    are held against the bands' widths, too, in deviations that a band of 95 % would have.
    """
    table, by, key = made()
    truth = {"mean_x": table.groupby(key).x.mean().to_numpy(), "sum_x": table.groupby(key).x.sum().to_numpy()}
    answers = [Mean("x", bounds="auto"), Sum("x", bounds="auto")]
    held: dict[str, list[float]] = {name: [] for name in truth}
    squares: dict[str, list[float]] = {name: [] for name in truth}
    for columns in answers_again(table, by, answers, DRAWS, epsilon=1.5):
        for name, one in columns.items():
            held[name].append(float(np.mean((one.low <= truth[name]) & (truth[name] <= one.high))))
            deviations = (one.high - one.low) / (2 * Z)
            squares[name].append(float(np.mean(((one.value - truth[name]) / deviations) ** 2)))
            assert np.median(one.high - one.low) < 0.3 * truth[name].mean()
    for name, shares in held.items():
        assert np.mean(shares) > 0.92, name
        assert 0.45 < np.mean(squares[name]) < 1.3, name


def test_of_many_places_a_radius_is_the_best_for_one_of_them() -> None:
    """Each has noise of its own and a part of what is lost: less noise is worth more."""
    law = NormLaw(histogram(np.exp(np.random.default_rng(8).normal(0, 0.8, 20_000)), 4), NOISE)
    alone, divided = (Clipping(20.0, 1.0, 0.35, 1e6, places=places).best([law])[0] for places in (1.0, 16.0))
    cautious, (lost,) = Clipping(20.0, 1.0, 0.35, 1e6, places=16.0, differing=1.0).best([law])
    assert divided < cautious < alone
    assert lost.expected > 0


def test_a_centre_is_not_far_off_where_counts_might_be_nothing() -> None:
    """Rough sums of ten places whose noisy counts add up to nothing, or hold one that is next to nothing."""
    rough = 30 + 200 * np.random.default_rng(9).normal(size=(10, 1))
    for counts in (np.linspace(-40, 40, 10), np.full(10, -3.0), np.append(np.full(9, 30.0), 0.01)):
        centre = centre_of(rough, 200.0**2, counts, Variances(100.0, 900.0), 1e6)
        assert np.abs(centre).max() <= 10


def test_few_units_at_ten_places_have_no_narrow_bands_about_a_number_that_is_far_off() -> None:
    """Ten zones of thirty homes that use about 1.4 kW: an error of more than 3 kW stays within its band."""
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"u": np.arange(300), "g": rng.integers(0, 10, 300), "x": rng.lognormal(0.2, 0.5, 300)})
    truth = table.groupby("g").x.mean().to_numpy()
    far = 0
    for one in answers_again(table, {"g": range(10)}, [Mean("x", unit_norm=0.8)], 100):
        wrong = np.abs(one["mean_x"].value - truth) > 3
        far += bool(wrong.any())
        assert np.all((one["mean_x"].low <= truth) & (truth <= one["mean_x"].high) | ~wrong)
    assert far <= 8


def test_means_of_few_units_are_told_apart_as_far_as_noise_allows() -> None:
    """Ten places, whose means differ by .2 about their centres: with little noise as drawn, with much half as wrong."""
    by = {"zone": range(10), "hour": hour_of("time")}
    plan = TableRelease(unit="home", epsilon=1.0, delta=1e-6, by=by, answers=Mean("kw", bounds="auto")).plan()
    layout = plan.request.layout
    rng = np.random.default_rng(8)
    truth = np.repeat(rng.normal(0, 0.2, (10, 1)), 24, axis=1)
    for units, most in ((10_000.0, 1.0001), (25.0, 0.5)):
        ratios = []
        for _ in range(DRAWS):
            smooth = rng.normal(0, 15.0, (10, layout.functions)) @ layout.basis
            rest = rng.normal(0, 15.0, truth.shape)
            rest -= rest @ layout.basis.T @ layout.basis
            counts = np.full(truth.shape, units)
            drawn = units * truth + smooth + rest
            draw = ProfileDraw(layout, counts, 0 * truth, drawn, Variances(1.0), 0.0, 15.0**2, 15.0**2)
            found = interval(Mean("kw", bounds="auto"), draw, False)
            assert np.all((found.low <= found.value) & (found.value <= found.high))
            wrong = (found.value - layout.grouped(truth), layout.grouped(drawn / units - truth))
            ratios.append(math.sqrt(np.mean(wrong[0] ** 2) / np.mean(wrong[1] ** 2)))
        assert np.mean(ratios) < most, units


@pytest.mark.parametrize(("mark", "share"), [(-999.0, 0.05), (99_999.0, 0.05), (-999.0, 0.02)])
def test_bands_hold_marks_of_missing_cells_or_the_plan_says_how_many_go_unseen(mark: float, share: float) -> None:
    """Values of 50 or so beside marks that somebody left in: the mean of both is what is asked for."""
    many = 8000
    rng = np.random.default_rng(1)
    marked = rng.random(many) < share
    values = np.where(marked, mark, rng.lognormal(math.log(50), 0.3, many))
    zones = rng.choice(["a", "b"], many)
    table = pd.DataFrame({"home": np.arange(many), "zone": zones, "kw": values})
    truth = table.groupby("zone")["kw"].mean().to_numpy()
    plan = TableRelease(
        unit="home", epsilon=1.0, delta=1e-6, by={"zone": ["a", "b"]}, answers=Mean("kw", bounds="auto")
    ).plan()
    if marked.sum() <= plan.unseen(many):
        assert share == 0.02
        return
    made = draws_of(plan.noise, as_source(table), SeededGenerator(3))
    made.prepare()
    held = []
    for _ in range(20):
        made.spent = 0.0
        (answer,) = Estimates(plan.noise, Drawn(profiles=made.profiles())).columns().values()
        held.append((answer.low <= truth) & (truth <= answer.high))
    assert np.mean(held) >= 0.9


def test_the_deviation_of_a_quantile_is_that_of_its_error() -> None:
    """Over the range, where a band may end with it: its width over 3.92 was up to ten times the error."""
    many = 20_000
    shares = tuple(np.arange(1, 9) / 9)
    values = np.random.default_rng(0).normal(50, 12, many).clip(0, 100)
    table = pd.DataFrame({"home": np.arange(many), "kw": values})
    truth = np.quantile(values, shares, method="inverted_cdf")
    answer = Quantile("kw", shares, between=(0, 100))
    plan = TableRelease(unit="home", epsilon=1.0, delta=1e-6, answers=answer).plan()
    made = draws_of(plan.noise, as_source(table), SeededGenerator(0))
    made.prepare()
    errors, stated = [], []
    for _ in range(30):
        made.spent, made.draws = 0.0, 0
        (search,) = made.searched()
        errors.append(search.found.value[0] - truth)
        stated.append(search.found.deviation[0])
    ratio = np.sqrt(np.mean(np.square(errors), axis=0) / np.mean(np.square(stated), axis=0))
    assert np.all(ratio > 0.6)
    assert np.all(ratio < 1.7)


def test_what_may_go_unseen_is_told_of_learnt_bounds_alone() -> None:
    asked = {"unit": "home", "epsilon": 1.0, "delta": 1e-6, "by": {"zone": ["a", "b"]}}
    learnt = TableRelease(**asked, answers=Mean("kw", bounds="auto")).plan()
    assert TableRelease(**asked, answers=Mean("kw", between=(0, 9))).plan().unseen(4000) == 0
    assert learnt.unseen(10) == 10
    richer = TableRelease(**{**asked, "epsilon": 4.0}, answers=Mean("kw", bounds="auto")).plan()
    assert 0 < richer.unseen(4000) < learnt.unseen(4000) / 2 < 200
