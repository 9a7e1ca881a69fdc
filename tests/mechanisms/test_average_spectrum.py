"""Average spectra of many homes: how far one home moves the sums, what is left out, and what averages are worth."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.signal import welch

from gaussveil import calibration
from gaussveil.accounting import Ledger, verify
from gaussveil.errors import BudgetExceededError, ParameterError, ShapeError
from gaussveil.mechanisms import AverageSpectrum
from gaussveil.noise import SeededGenerator

from ..new_accounts import new_account

Array = NDArray[np.float64]
DESIGN: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "norm": 0.3, "points": 12, "bands": 5, "sample_period": 0.5}


def town(homes: int, seed: int = 0, steps: int = 96) -> Array:
    return np.random.default_rng(seed).gamma(2.0, 0.3, size=(steps, homes))


def band_energies(series: Array, widths: Array) -> Array:
    """By scipy alone: the two-sided density of windows of 24, in bands; each number is the band's share of the norm."""
    _, density = welch(series - series.mean(), fs=2.0, nperseg=24, return_onesided=False, detrend=False)
    ends = np.concatenate([[0], np.cumsum(widths)])
    return np.array([density[a:b].sum() / math.sqrt(b - a) for a, b in pairwise(ends)])


def test_sums_are_those_of_shortened_band_energies() -> None:
    mechanism = AverageSpectrum(**DESIGN)
    readings = town(7)
    widths = np.array([1, 1, 2, 3, 6])  # of 13 frequencies, growing evenly on a log scale
    rows = np.array([band_energies(home, widths) for home in readings.T])
    lengths = np.linalg.norm(rows, axis=1)
    assert lengths.min() < DESIGN["norm"] < lengths.max()
    short = rows * np.minimum(1, DESIGN["norm"] / lengths)[:, None]
    found = mechanism.sums(readings)
    np.testing.assert_allclose(found[0, :-1], short.sum(axis=0), rtol=3e-6)
    assert found[0, -1] == 7 * mechanism.release(readings).certificate.parameters["count_mark"]


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32 - 1),
    st.floats(-6, 6),
    st.sampled_from([math.nan, math.inf, -math.inf, 1e200, -1e300, 0.0, 3.0]),
    st.integers(0, 24),
)
def test_no_home_moves_the_sums_by_more_than_the_reach(seed: int, size: float, odd: float, many: int) -> None:
    """Whatever its readings, one home is in one group and moves it by at most what noise is made for."""
    mechanism = AverageSpectrum(**DESIGN, groups=("a", "b"))
    readings = town(3, seed, 24) * 10**size
    readings[:many, 1] = odd
    with_home = mechanism.sums(readings, ["a", "b", "a"])
    without = mechanism.sums(readings[:, [0, 2]], ["a", "a"])
    apart = with_home - without
    reach = float(mechanism.release(town(1), ["a"]).certificate.parameters["l2_sensitivity"])  # type: ignore[arg-type]
    assert np.linalg.norm(apart) <= reach
    assert np.all(apart[0] == 0)
    assert np.all(apart[1] >= 0)


def test_who_is_beside_a_home_does_not_move_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """In units near a double's last bits: transforms of many rows at once round differently from those of one."""
    monkeypatch.setattr("gaussveil.mechanisms.average_spectrum.UNITS", 52)
    mechanism = AverageSpectrum(**DESIGN, groups=("a", "b"))
    for seed in range(6):
        readings = town(9, seed)
        together = mechanism.sums(readings, ["a", *["b"] * 8])[0]
        np.testing.assert_array_equal(together, mechanism.sums(readings[:, :1], ["a"])[0])


def test_groups_may_be_numbers() -> None:
    readings = town(3)
    counted = AverageSpectrum(**DESIGN, groups=(1, 2)).sums(readings, [1, 2, 1])
    np.testing.assert_array_equal(counted, AverageSpectrum(**DESIGN, groups=("1", "2")).sums(readings, ["1", "2", "1"]))
    assert np.all(counted > 0)


def test_noise_is_the_least_for_the_reach_and_averages_have_the_error_they_state(full: bool) -> None:
    mechanism = AverageSpectrum(**DESIGN, groups=("all", "none"))
    plan = mechanism.plan()
    reach = float(mechanism.release(town(2), ["all"] * 2).certificate.parameters["l2_sensitivity"])  # type: ignore[arg-type]
    least = calibration.white_noise_scale(reach, 1.0, 1e-6)
    assert least <= float(plan.standard_deviation) <= least * 1.001
    homes = 300 if full else 100
    readings = town(homes, seed=3)
    true = mechanism.sums(readings, ["all"] * homes)[0]
    mark = float(mechanism.release(town(2), ["all"] * 2).certificate.parameters["count_mark"])  # type: ignore[arg-type]
    widths = np.array([1, 1, 2, 3, 6])
    exact = np.repeat(true[:-1] / homes / np.sqrt(widths), widths)
    scores = []
    for seed in range(60 if full else 30):
        drawn = AverageSpectrum(**DESIGN, groups=("all", "none"), generator=SeededGenerator(seed))
        value = drawn.release(readings, ["all"] * homes).value
        scores.append((value[0] - exact) / drawn.standard_error_[0])
        assert abs(drawn.homes_[0] - homes) < 6 * float(plan.standard_deviation) / mark
        assert np.all(value >= 0)
    assert 0.85 < math.sqrt(np.mean(np.square(scores))) < 1.15


def test_gaps_are_a_homes_own_average_and_homes_with_little_are_left_out() -> None:
    mechanism = AverageSpectrum(**DESIGN)
    readings = town(3)
    gaps = readings.copy()
    gaps[::3, 0] = math.nan
    filled = gaps.copy()
    filled[::3, 0] = np.nanmean(gaps[:, 0])
    np.testing.assert_allclose(mechanism.sums(gaps), mechanism.sums(filled), rtol=1e-6)
    gaps[:60, 0] = math.nan
    np.testing.assert_array_equal(mechanism.sums(gaps), mechanism.sums(readings[:, 1:]))
    np.testing.assert_array_equal(mechanism.sums(np.full((96, 2), math.nan)), np.zeros((1, 6)))
    assert np.all(np.isfinite(mechanism.release(np.zeros((96, 0))).value))


def test_homes_of_other_groups_are_left_out_and_names_are_needed() -> None:
    mechanism = AverageSpectrum(**DESIGN, groups=("north", "south"))
    readings = town(4)
    found = mechanism.sums(readings, ["south", "west", "south", "north"])
    alone = AverageSpectrum(**DESIGN)
    np.testing.assert_array_equal(found[0], alone.sums(readings[:, 3:])[0])
    np.testing.assert_array_equal(found[1], alone.sums(readings[:, [0, 2]])[0])
    for given_groups in (None, ["north"] * 3):
        with pytest.raises((ParameterError, ShapeError), match="groups"):
            mechanism.release(readings, given_groups)
    with pytest.raises(ParameterError, match="groups"):
        alone.release(readings, ["north"] * 4)


def test_the_account_pays_once_and_the_certificate_verifies_from_its_parameters(tmp_path: Path) -> None:
    account = new_account(tmp_path, epsilon=1.5, delta=1e-5)
    mechanism = AverageSpectrum(**DESIGN, groups=("north", "south"), account=account)
    release = mechanism.release(town(40), ["north"] * 40)
    assert release.value.shape == (2, 13)
    assert release.certificate.adjacency.unit == "home"
    checked = verify(release.certificate)
    assert checked.private
    assert "sensitivity" not in " ".join(checked.problems)
    assert AverageSpectrum(**DESIGN, groups=("north", "south")).release(
        town(20), ["north"] * 20
    ).certificate.parameters == (release.certificate.parameters)
    with pytest.raises(ShapeError):
        mechanism.release(town(40, steps=20), ["north"] * 40)
    mechanism.epsilon = 1.45
    with pytest.raises(BudgetExceededError):
        mechanism.release(town(40), ["north"] * 40)
    assert [entry.state for entry in Ledger(account.ledger).entries(account.name)] == ["released"]


def test_the_homes_named_are_just_enough() -> None:
    plan = AverageSpectrum(**DESIGN).plan()
    needed = plan.useful(10).needed
    assert needed is not None
    assert plan.useful(needed)
    assert not plan.useful(needed - 1)
    assert "needs about" in str(plan.useful(10))
    assert plan.noise_of(2 * needed) == pytest.approx(plan.noise_of(needed) / 2)


@pytest.mark.parametrize(
    "change", [{"norm": 0.0}, {"norm": math.inf}, {"norm": 5e-324}, {"points": 0}, {"bands": 1}, {"groups": ()},
               {"groups": ("a", "a")}, {"groups": "ab"}, {"epsilon": -1.0}, {"delta": 0.0}, {"sample_period": 0.0}]
)  # fmt: skip
def test_bad_parameters_are_refused(change: dict[str, Any]) -> None:
    mechanism = AverageSpectrum(**{**DESIGN, **change})
    with pytest.raises(ParameterError):
        mechanism.release(town(4), ["a"] * 4 if "groups" in change else None)
