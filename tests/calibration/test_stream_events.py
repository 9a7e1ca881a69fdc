from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import matmul_toeplitz, toeplitz

from gaussveil.calibration.stream_events import _dual_bound, largest_event, largest_ratio, repeated_events
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.noise.stream_filter import fourier, turn

TAPS = st.lists(st.floats(-1, 1), min_size=2, max_size=5).filter(lambda taps: max(map(abs, taps)) > 0.1)


def coefficients(taps: list[float], lags: int) -> np.ndarray:
    full = np.correlate(taps, taps, "full")[len(taps) - 1 :]
    return np.concatenate([full, np.zeros(lags)])[:lags]


@given(taps=TAPS, length=st.integers(1, 8))
def test_short_events_are_exact_against_all_signs(taps: list[float], length: int) -> None:
    lags = coefficients(taps, length)
    every = max(np.array(s) @ toeplitz(lags) @ np.array(s) for s in product((-1.0, 1.0), repeat=length))
    assert largest_event(lags) == pytest.approx(every, rel=1e-9)


@given(taps=TAPS, length=st.integers(2, 11))
def test_the_dual_bound_covers_the_maximum_and_is_close(taps: list[float], length: int) -> None:
    matrix = toeplitz(coefficients(taps, length))
    every = max(np.array(s) @ matrix @ np.array(s) for s in product((-1.0, 1.0), repeat=length))
    assert every <= _dual_bound(matrix) <= 1.35 * every


def test_long_events_between_their_bounds() -> None:
    lags = coefficients([1.0, -0.4, 0.7, 0.2], 96)
    found = largest_event(lags)
    signs = np.sign(np.random.default_rng(0).standard_normal((2000, 96)))
    assert np.einsum("ij,jk,ik->i", signs, toeplitz(lags), signs).max() < found
    assert found <= 96 * np.linalg.eigvalsh(toeplitz(lags))[-1] * (1 + 1e-9)


@given(taps=st.lists(st.floats(0.01, 1), min_size=1, max_size=4), count=st.integers(1, 5), spacing=st.integers(3, 9))
def test_repeated_events_against_the_sum_over_all_pairs(taps: list[float], count: int, spacing: int) -> None:
    size = (count - 1) * spacing + 3
    pattern = np.zeros(size)
    for event in range(count):
        pattern[event * spacing : event * spacing + 3] = 1
    lags = coefficients(taps, size)
    assert repeated_events(lags, 3, spacing, count) == pytest.approx(pattern @ toeplitz(lags) @ pattern)


@given(signal=TAPS, noise=TAPS)
def test_the_largest_ratio_is_never_understated(signal: list[float], noise: list[float]) -> None:
    def power(taps: list[float], floor: float, angles: np.ndarray) -> np.ndarray:
        return np.abs(np.polyval(taps, np.exp(1j * angles))) ** 2 + floor

    found = largest_ratio(lambda w: power(signal, 0.0, w), lambda w: power(noise, 0.01, w), 5, 1 << 12)
    fine = np.linspace(0, np.pi, 200_001)
    truth = np.max(power(signal, 0.0, fine) / power(noise, 0.01, fine))
    assert truth <= found <= 1.01 * truth


def test_fourier_of_a_known_spectrum_and_of_one_too_peaked() -> None:
    lags = fourier(lambda w: (1 - 0.9**2) / np.abs(1 - 0.9 * np.exp(-1j * w)) ** 2, 50)
    assert np.allclose(lags, 0.9 ** np.arange(50), atol=1e-12)
    with pytest.raises(NumericalError):
        fourier(lambda w: 1 / np.abs(1 - (1 - 1e-9) * np.exp(-1j * w)) ** 2, 5)
    assert turn(4)[-1] == pytest.approx(np.pi)


@pytest.mark.parametrize("bad", [[], [0.0, 1.0], [np.nan], [[1.0]]])
def test_bad_coefficients_are_refused(bad: list[float]) -> None:
    with pytest.raises(ParameterError):
        largest_event(np.array(bad))


def test_the_longest_events_between_their_bounds() -> None:
    """The dual bound would be solved for a matrix of 4096 rows; the spectrum's maximum is nearly as good."""
    lags = coefficients([1.0, -0.4, 0.7, 0.2], 4096)
    found = largest_event(lags)
    signs = np.sign(np.random.default_rng(0).standard_normal((20, 4096)))
    for _ in range(30):
        signs = np.sign(matmul_toeplitz(lags, signs.T).T + 1e-9)
    reached = np.einsum("ij,ij->i", signs, matmul_toeplitz(lags, signs.T).T).max()
    power = np.abs(np.polyval([1.0, -0.4, 0.7, 0.2], np.exp(1j * turn(5000)))) ** 2
    assert reached <= found <= 4096 * power.max() * (1 + 1e-6)


def test_lags_beyond_the_grid_are_zero_where_the_spectrum_is_smooth() -> None:
    lags = fourier(lambda w: (1 - 0.9**2) / np.abs(1 - 0.9 * np.exp(-1j * w)) ** 2, 3_000_000)
    assert lags.size == 3_000_000
    assert np.allclose(lags[:200], 0.9 ** np.arange(200), atol=1e-12)
    assert np.abs(lags[1000:]).max() < 1e-12
    with pytest.raises(NumericalError):
        fourier(lambda w: 1 / np.abs(1 - (1 - 1e-6) * np.exp(-1j * w)) ** 2, 3_000_000)
