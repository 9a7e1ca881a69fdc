from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.errors import NumericalError, ParameterError
from gaussveil.timeseries import (
    Filter,
    minimum_phase_factor,
    one_pole_one_zero,
)
from gaussveil.timeseries.arma_process import spectral_radius
from gaussveil.timeseries.spectral_factor import grid_angles
from gaussveil.typing import Floats


def minimum_phase(found: Filter) -> bool:
    """Poles and zeros inside the unit circle: then the inverse is stable and causal too."""
    return roots_inside(found.a) and roots_inside(found.b)


def roots_inside(coefs: Floats) -> bool:
    """Whether all roots of sum_k c[k] z^-k lie strictly inside the unit circle: eigenvalues, or for long filters the
    winding number, which is 0 exactly then."""
    if coefs[0] == 0:
        return False
    if coefs.size <= 48:
        return bool(spectral_radius(-coefs[1:] / coefs[0]) < 1)
    size = 1 << (16 * coefs.size - 1).bit_length()
    while size <= 1 << 20:
        turn = np.fft.fft(coefs, size)
        if (turn == 0).any():
            return False
        steps = np.angle(np.roll(turn, -1) / turn)
        if np.abs(steps).max() < 1.0:  # fine enough that no turn is missed
            return bool(abs(steps.sum()) < 1.0)
        size *= 2
    return False


def test_minimum_phase_factor_of_a_known_filter_is_that_filter() -> None:
    truth = Filter(1.7 * np.convolve([1, -0.5], [1, 0.3]), np.ones(1))
    found = minimum_phase_factor(truth.power(grid_angles(256)), 3, tolerance=1e-3)
    np.testing.assert_allclose(found.b, truth.b, atol=1e-3)
    assert minimum_phase(found)


@given(st.integers(0, 2**32 - 1))
def test_factor_of_a_random_smooth_spectrum_reproduces_it(seed: int) -> None:
    weights = np.random.default_rng(seed).standard_normal(6) / (1 + np.arange(6)) ** 1.5
    angles = grid_angles(128)
    psd = np.exp(np.cos(np.outer(angles, np.arange(6))) @ weights)
    found = minimum_phase_factor(psd, 128, tolerance=2e-3)
    np.testing.assert_allclose(found.power(angles), psd, rtol=2e-3)
    assert minimum_phase(found)
    assert np.sum(found.b**2) == pytest.approx(np.fft.irfft(psd)[0], rel=2e-3)


def test_too_few_coefficients_are_reported_not_returned() -> None:
    psd = 1 / np.abs(1 - 0.99 * np.exp(-1j * grid_angles(128))) ** 2
    with pytest.raises(NumericalError, match="misses the PSD by"):
        minimum_phase_factor(psd, 8)
    assert minimum_phase_factor(psd, 8, tolerance=None).b.size == 8


@given(st.floats(0.3, 0.9995), st.floats(0.01, 10), st.floats(0, 10))
def test_one_pole_filter_has_the_promised_ratio_at_every_frequency(rho: float, white: float, low: float) -> None:
    found = one_pole_one_zero(rho, white, low)
    angles = np.r_[0, np.geomspace(1e-5, np.pi, 40)]
    ratio = white + low * (1 - rho**2) / np.abs(1 - rho * np.exp(-1j * angles)) ** 2
    np.testing.assert_allclose(1 / found.power(angles), ratio, rtol=1e-7)
    assert minimum_phase(found)


def test_design_b_meets_its_event_budget_exactly() -> None:
    """stream.md item 4: the all-ones event of T samples costs exactly 1/u^2 of the mean shift, so D = t."""
    rho, share, length, u = 0.99803, 0.42, 12, 1.6
    overlap = length + 2 * sum((length - m) * rho**m for m in range(1, length))
    noise = one_pole_one_zero(rho, (1 - share) / (length * u**2), share / (overlap * u**2))
    energy = np.fft.irfft(1 / noise.power(grid_angles(1 << 14)))[:length]
    assert (energy > 0).all()
    distance = length * energy[0] + 2 * sum((length - m) * energy[m] for m in range(1, length))
    assert distance == pytest.approx(1 / u**2, rel=1e-9)


def test_long_filters_are_judged_by_their_winding() -> None:
    inside = minimum_phase_factor(np.exp(np.cos(grid_angles(64))), 100)
    assert inside.b.size > 48
    assert minimum_phase(inside)
    assert not minimum_phase(Filter(inside.b[::-1], np.ones(1)))
    assert not minimum_phase(Filter(np.convolve(inside.b, [1, -1.01]), np.ones(1)))
    assert not minimum_phase(Filter(np.convolve(inside.b, [1, -1.0]), np.ones(1)))
    assert minimum_phase(Filter(np.convolve(inside.b, [1, -0.99]), np.ones(1)))


def test_filters_run_as_they_say() -> None:
    noise = one_pole_one_zero(0.9, 1.0, 2.0)
    pulse = np.zeros(4000)
    pulse[0] = 1
    response = noise.apply(pulse)
    np.testing.assert_allclose(np.abs(np.fft.rfft(response)) ** 2, noise.power(grid_angles(2000)), rtol=1e-9)


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match="positive at every frequency"):
        minimum_phase_factor([1.0, 0.0, 1.0], 3)
    with pytest.raises(ParameterError, match="taps"):
        minimum_phase_factor([1.0, 1.0], 0)
    with pytest.raises(ParameterError, match=r"rho must be a number in \(0, 1\)"):
        one_pole_one_zero(1.0, 1.0, 1.0)
    with pytest.raises(ParameterError, match="white must be a finite number, above 0"):
        one_pole_one_zero(0.5, 0.0, 1.0)
    with pytest.raises(ParameterError, match=r"a\[0\] = 1"):
        Filter(np.ones(1), np.array([2.0]))
