"""Registers alone: nested energies with one correlated noise."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.accounting import verify
from gaussveil.errors import FormatError, ParameterError
from gaussveil.mechanisms import MeterStream
from gaussveil.mechanisms.meter_stream.design import check_hides
from gaussveil.mechanisms.meter_stream.record import design_from_dict, design_to_dict
from gaussveil.mechanisms.meter_stream.register_tree import gains, largest_square, levels_for
from gaussveil.noise import SeededGenerator
from gaussveil.streaming import Meter
from gaussveil.typing import Floats

NESTED = st.lists(st.integers(2, 4), min_size=1, max_size=3).map(
    lambda factors: [int(n) for n in np.cumprod([1, *factors])]
)


def made(event: tuple[float, str] | None = (0.5, "1h"), **changes: Any) -> MeterStream:
    given = {"sample_period": "1h", "epsilon": 1.0, "delta": 1e-5, "purpose": "registers", "event": event, **changes}
    return MeterStream.design(**given)


def precision(windows: list[int], levels: Floats, length: int) -> Floats:
    """Of readings: sum over levels of (A_l - A_{l+1})/u_l, each A_l an average over windows, as dense matrices."""
    place = np.arange(length)
    averages = [(place[:, None] // n == place // n) / n for n in windows] + [np.zeros((length, length))]
    return sum((averages[k] - averages[k + 1]) / level for k, level in enumerate(levels))


@settings(max_examples=30)
@given(NESTED, st.integers(1, 40), st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4), st.integers(0, 2**32 - 1))
def test_the_worst_event_is_the_one_said(windows: list[int], length: int, weights: list[float], seed: int) -> None:
    """At every place, against all its signs where they are few and random ones where not."""
    levels = levels_for(length, windows, weights[: len(windows)])
    reach = windows[-1] * (length // windows[-1] + 3)
    matrix = precision(windows, levels, reach)
    said = largest_square(length, windows, levels)
    rng = np.random.default_rng(seed)
    signs = np.concatenate([np.ones((1, length)), rng.choice([-1.0, 1.0], (64, length)), rng.random((64, length))])
    found = 0.0
    for first in range(reach - length + 1):
        part = matrix[first : first + length, first : first + length]
        found = max(found, float(np.einsum("ij,ij->i", signs @ part, signs).max()))
    assert found == pytest.approx(said, rel=1e-9)
    event = np.concatenate([np.ones(length), np.zeros(reach - length)])
    covariance = precision(windows, 1 / levels, reach)  # eigenvalues inverted
    assert float(event @ covariance @ event) == pytest.approx(float(np.sum(gains(length, windows) * levels)), rel=1e-9)


@settings(max_examples=30)
@given(NESTED, st.integers(1, 40), st.lists(st.floats(1e-3, 1e3), min_size=4, max_size=4), st.integers(0, 2**32 - 1))
def test_no_other_levels_have_a_smaller_weighted_error(
    windows: list[int], length: int, weights: list[float], seed: int
) -> None:
    """Random levels that fall with the window, scaled to the same distance."""
    weights = weights[: len(windows)]
    levels = levels_for(length, windows, weights)

    def cost(u: Floats) -> float:
        said = largest_square(length, windows, u)
        return said * sum(w / n**2 * float(np.sum(gains(n, windows) * u)) for w, n in zip(weights, windows))

    rng = np.random.default_rng(seed)
    for spread in (0.1, 1.0, 3.0):
        other = np.sort(levels * np.exp(spread * rng.standard_normal(len(windows))))[::-1]
        assert cost(levels) <= cost(other) * (1 + 1e-9)


def test_a_day_costs_what_one_register_would() -> None:
    """The goal of the design: 1.9 kWh a day at 0.5 kW for an hour, epsilon 1, where readings and registers have 4."""
    design = made(sample_period="5min").design_
    assert design.energy_sd(24.0) <= 1.9
    assert design.energy_sd(28 * 24.0) < 0.9 * math.sqrt(28) * design.energy_sd(24.0)
    plan = made(sample_period="5min").plan()
    assert [row.purpose for row in plan.compared] == ["shape", "energy", "billing", "registers"]
    assert plan.daily_energy_sd < 0.5 * plan.compared[2].daily_energy_sd
    assert "registers  -           -        1.87" in str(plan)
    alone = made(sample_period="5min", registers=("hour",)).design_
    assert alone.energy_sd(1.0) == pytest.approx(0.5 / alone.mean_shift, rel=1e-5)
    assert alone.energy_sd(1.5) == math.inf


@pytest.mark.parametrize("event", [(3.0, "1d"), (3.0, "28d"), (3.0, "3d"), None])
def test_a_home_may_be_hidden_for_as_long_as_one_likes(event: tuple[float, str] | None) -> None:
    design = made(event, l2_ball=None if event else 4.0, registers=("hour", "day", "month")).design_
    check_hides(design)
    if event:
        hours = design.hidden.samples
        least = 3.0 * min(24, hours) / design.mean_shift  # of the day alone: no release could have less
        assert least * 0.999 <= design.energy_sd(24.0)
    assert (np.diff(design.levels) <= 1e-9 * design.levels[0]).all()


DAILY: dict[str, Any] = {"sample_period": 24.0, "event": (0.5, "1d"), "registers": ("day", "week", "month")}


def test_noise_adds_up_and_is_as_declared() -> None:
    stream = made(**DAILY, generator=SeededGenerator(8))
    readings = np.random.default_rng(2).random(28 * 50)
    assert np.isnan(stream.push_many(readings)).all()
    by_name = {name: np.array([e.kwh for e in stream.energies if e.name == name]) for name in DAILY["registers"]}
    assert by_name["day"].reshape(-1, 7).sum(axis=1) == pytest.approx(by_name["week"], rel=1e-12)
    assert by_name["week"].reshape(-1, 4).sum(axis=1) == pytest.approx(by_name["month"], rel=1e-12)
    noise = (by_name["day"] / 24 - readings).reshape(50, 4, 7)
    spreads = [register.noise_sd**2 for register in stream.design_.registers]
    weeks = noise.sum(axis=2)
    for part, spread, count in (
        (noise - noise.mean(axis=2, keepdims=True), spreads[0], 200 * 6),
        (weeks - weeks.mean(axis=1, keepdims=True), spreads[1], 50 * 3),
        (weeks.sum(axis=1), spreads[2], 50),
    ):
        assert np.sum(part**2) / spread == pytest.approx(count, abs=6 * math.sqrt(2 * count))


def test_blocks_single_readings_and_saved_streams_agree_and_restarts_withhold(tmp_path: Path) -> None:
    readings = np.random.default_rng(4).random(24 * 30)
    whole, single, saved = (made(registers=("hour", "day", "month"), generator=SeededGenerator(1)) for _ in range(3))
    whole.push_many(readings)
    for value in readings:
        single.push(value)
    saved.push_many(readings[:301])
    again = MeterStream.load(saved.save(tmp_path / "meter.json"), generator=saved.generator)
    again.push_many(readings[301:])
    assert whole.energies == single.energies == saved.energies + again.energies
    assert verify(whole.certificate).private is False  # seeded
    assert verify(made().open()).private
    again.restart()
    again.push_many(readings[: 24 * 28])
    assert [e.first for e in again.energies if e.name == "month"] == [0]
    assert len(again.noisy_sums()) == len(again.energies)


def test_noise_after_a_restart_in_mid_month_is_as_declared() -> None:
    errors, generator = [], SeededGenerator(3)
    design = made(**DAILY, generator=generator).design_
    for _ in range(150):
        stream = MeterStream(design=design, generator=generator)
        stream.push_many(np.zeros(17))
        stream.restart()
        stream.push_many(np.zeros(11))
        errors.append([energy.kwh / 24 for energy in stream.energies if energy.name == "day"])
    noise = np.array(errors)
    expected = precision([1, 7, 28], 1 / design.levels, 28)
    expected[:17, 17:] = expected[17:, :17] = 0
    assert np.abs(noise.T @ noise / 150 - expected).max() < 6 * math.sqrt(2 / 150) * expected[0, 0]


@pytest.mark.parametrize(
    ("changes", "word"),
    [
        ({"registers": ("year",)}, "registers must be one of"),
        ({"registers": "day"}, "registers must be names"),
        ({"registers": ()}, "registers must be names"),
        ({"registers": {"day": 0.0}}, "weight of 'day'"),
        ({"sample_period": 0.7}, "must divide"),
        ({"event": (0.5, "1000d"), "sample_limit": 24}, "number of samples"),
    ],
)
def test_what_cannot_be_is_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        made(**changes)


def test_files_may_not_promise_more() -> None:
    design = design_to_dict(made().design_)
    check_hides(design_from_dict(design))
    for level, factor in ((0, 0.99), (1, 0.9)):
        changed = {**design, "registers": [dict(register) for register in design["registers"]]}
        changed["registers"][level]["noise_sd"] *= factor
        with pytest.raises(FormatError, match="hide"):
            check_hides(design_from_dict(changed))
    with pytest.raises(ParameterError, match="registers alone"):
        Meter("m", made().design_, made().open())
