"""Sums over many meters: what is hidden, how large the error of a window is, and against what."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.linalg import toeplitz

from gaussveil.accounting import verify
from gaussveil.errors import AssumptionError, FormatError, ParameterError
from gaussveil.mechanisms import MeterFleet, MeterStream
from gaussveil.mechanisms.meter_fleet import best_balance, window_variance
from gaussveil.noise import SeededGenerator
from gaussveil.noise.stream_filter import fourier


def made(**changes: Any) -> MeterFleet:
    given = {"sample_period": "15min", "epsilon": 1.0, "delta": 1e-5, "home": "1d", "limits": (0.0, 5.0), **changes}
    return MeterFleet.design(**given)


def test_one_home_in_a_day_is_hidden_exactly() -> None:
    """The pair of all outputs, a home present all day or absent, and other shapes of a day."""
    design = made().design_
    covariance = toeplitz(fourier(design.filter.noise_power, 400))
    present = np.concatenate([np.zeros(150), np.full(96, 5.0), np.zeros(154)])
    reached = present @ np.linalg.solve(covariance, present)
    assert reached <= design.mean_shift**2 * (1 + 1e-9)
    assert reached > 0.9 * design.mean_shift**2
    for seed in range(20):
        day = np.zeros(400)
        day[150:246] = np.random.default_rng(seed).uniform(-5, 5, 96)
        assert day @ np.linalg.solve(covariance, day) <= reached


def test_sums_are_exact_but_for_the_noise_and_windows_say_their_error() -> None:
    readings = np.random.default_rng(3).uniform(-1.0, 7.0, (96 * 14, 40))
    readings[5, 3] = np.nan
    one, other = made(generator=SeededGenerator(4)), made(generator=SeededGenerator(4))
    kept = np.nan_to_num(np.clip(readings, 0.0, 5.0))
    noise = one.push_many(readings) - kept.sum(axis=1)
    quiet = other.push_many(np.zeros_like(readings))
    assert np.abs(noise - quiet).max() < 1e-6  # kW: the lattice's rounding of forty readings
    assert one.window(96, 192).kwh == pytest.approx((noise + kept.sum(axis=1))[96:192].sum() / 4)
    errors = [one.window(k, k + 4).kwh - kept[k : k + 4].sum() / 4 for k in range(0, 96 * 14, 4)]
    sd = one.window(0, 4).sd
    assert np.std(errors) == pytest.approx(sd, rel=6 / math.sqrt(2 * len(errors)))
    assert verify(made().open()).private


@pytest.mark.parametrize(("length", "period"), [(4, 0.25), (96, 0.25), (24, 1.0), (1, 24.0)])
def test_windows_in_closed_form_are_the_integrals_and_the_balance_is_best(length: int, period: float) -> None:
    given = {"event": (1.0, length * period), "home": None, "sample_period": period}
    design = made(**given).design_
    for hours in (period, 24.0, 168.0):
        periods = round(hours / period)
        closed = period * math.sqrt(window_variance(design.filter, periods))
        assert closed == pytest.approx(design.energy_sd(hours), rel=1e-6)
    rho, share = best_balance(length, period)

    def product(balance: tuple[float, float]) -> float:
        found = made(**given, balance=balance).design_
        windows = sorted({period, max(period, 1.0), 24.0, 168.0, 672.0})
        return sum(math.log(found.energy_sd(one)) for one in windows)

    best = product((rho, share))
    for factor, moved in ((0.5, 0.0), (2.0, 0.0), (1.0, 0.1), (1.0, -0.1)):
        gap = min(0.9, factor * (1 - rho))
        assert best <= product((1 - gap, min(0.95, max(0.001, share + moved)))) + 1e-6


def test_windows_are_better_than_square_root_and_tree_and_over_weeks_than_white_noise() -> None:
    """For all windows from an hour to a week: the other ways of counting on and on, at the same promise and horizon.

    White noise is the best for single periods; up to a day we stay within a sixth of it.
    """
    design = made().design_
    scale = 5.0 * 0.25 / design.mean_shift
    horizon, length = design.sample_limit, 96
    steps = np.arange(1, horizon)
    root = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])
    moved = np.cumsum(root)
    moved[length:] -= moved[:-length].copy()
    for hours in (1.0, 24.0, 168.0):
        periods = round(4 * hours)
        window = math.fsum(root[:periods] ** 2) + math.fsum((root[periods:] - root[:-periods]) ** 2)
        square_root = scale * float(np.linalg.norm(moved)) * math.sqrt(window)
        levels = 2 ** np.arange(math.ceil(math.log2(horizon)) + 1)
        tree = scale * math.sqrt(np.minimum(levels, length).sum() * length)  # of a window that is a node
        assert design.energy_sd(hours) < 0.6 * min(square_root, tree)
    for hours, ratio in ((1.0, 1.15), (24.0, 1.08), (168.0, 0.9), (28 * 24.0, 0.7)):
        assert design.energy_sd(hours) < ratio * scale * math.sqrt(length * 4 * hours)


def test_blocks_saved_fleets_and_meters_do_not_mix(tmp_path: Path) -> None:
    readings = np.random.default_rng(5).random((50, 7))
    whole, part = (made(generator=SeededGenerator(1)) for _ in range(2))
    expected = whole.push_many(readings)
    first = [part.push(row) for row in readings[:20].tolist()]
    again = MeterFleet.load(part.save(tmp_path / "fleet.json"), generator=part.generator)
    assert np.array_equal([*first, *again.push_many(readings[20:])], expected)
    assert isinstance(again, MeterFleet)
    assert again.window(3, 40) == whole.window(3, 40)
    with pytest.raises(FormatError, match="certificate"):
        MeterStream.load(tmp_path / "fleet.json")
    with pytest.raises(ParameterError, match="last must be"):
        whole.window(3, 51)
    energies = made(purpose="registers")
    energies.push_many(np.ones((96, 3)))
    assert [energy.name for energy in energies.energies] == ["day"]
    with pytest.raises(AssumptionError, match="energies"):
        energies.window(0, 1)
    energies.save(tmp_path / "energies.json")


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"event": (1.0, "1h")}, "one of home"), ({"home": None}, "exactly one"), ({"limits": (5.0, 0.0)}, "limits")],
)
def test_bad_promises_are_refused(changes: dict[str, Any], word: str) -> None:
    with pytest.raises(ParameterError, match=word):
        made(**changes)


def test_too_many_meters_for_the_lattice_are_refused() -> None:
    fine = made(home=None, event=(1e-3, "15min"))
    with pytest.raises(ParameterError, match="number of meters"):
        fine.push_many(np.zeros((1, 10**6)))


def test_a_feeders_forecast_is_the_mean_season_and_says_its_noise() -> None:
    """From released sums alone: beside the plain forecast, which is not private, and the mean of all hours."""
    days, homes = 14, 200
    shape = 1 + np.sin(np.arange(24) / 24 * 2 * np.pi)
    readings = np.random.default_rng(3).gamma(1.0, 0.5, (days * 24, homes)) * np.tile(shape, days)[:, None]
    fleet = made(sample_period="1h", generator=SeededGenerator(2))
    released = fleet.push_many(readings[:-24])
    found = fleet.forecast("1d")
    assert found.kw == pytest.approx(released.reshape(-1, 24).mean(axis=0))
    assert fleet.forecast("6h", "2d").kw == pytest.approx(
        np.stack([*released[24:].reshape(-1, 48)])[:, :6].mean(axis=0)
    )
    # its noise, over fresh noises of nothing
    empty = np.zeros((13 * 24, 1))
    spread = []
    for seed in range(60):
        silent = made(sample_period="1h", generator=SeededGenerator(100 + seed))
        silent.push_many(empty)
        spread.append(silent.forecast("1d").kw)
    assert float(np.sqrt(np.mean(np.square(spread)))) == pytest.approx(found.sd, rel=0.1)
    for wrong in ({"horizon": "2d"}, {"horizon": "1h", "season": "30d"}, {"horizon": "1s"}):
        with pytest.raises(ParameterError, match="periods must be"):
            fleet.forecast(**wrong)
    with pytest.raises(AssumptionError, match="energies"):
        made(purpose="registers").forecast("1h")


def test_no_size_of_one_reading_refuses_the_others() -> None:
    fleet, stream = made(), MeterStream.design(sample_period="15min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))
    for large in (2**64, -(2**70), 10**400, None):
        assert np.isfinite(fleet.push_many([[0.5, large], [large, 1]])).all()
        assert np.isfinite(fleet.push([0.5, large]))
        assert np.isfinite(stream.push_many([0.5, large])).all()
