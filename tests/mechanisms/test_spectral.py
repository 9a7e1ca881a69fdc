from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.stats import norm

from gaussveil.accounting import verify
from gaussveil.errors import GaussveilError, ParameterError
from gaussveil.mechanisms import PrivateSpectrum, TrajectoryRelease, calibrate_ball
from gaussveil.mechanisms.spectral import band_widths
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import welch_psd

RNG = np.random.default_rng(4)
SERIES = 1 + np.abs(np.convolve(RNG.standard_normal(700), 0.8 ** np.arange(20), "valid"))
TABLE_I = {"epsilon": math.log(2), "delta": 0.01, "l2_ball": 0.12, "sample_period": 1 / 12}


def exact_shift(epsilon: float, delta: float) -> float:
    """Independent of the library: the equation of docs/corrections, S1, by bisection."""

    def excess(t: float) -> float:
        return float(norm.cdf(t / 2 - epsilon / t) - math.exp(epsilon) * norm.cdf(-t / 2 - epsilon / t)) - delta

    return float(brentq(excess, 1e-6, 50, xtol=1e-14))


@given(epsilon=st.floats(0.05, 5), log_delta=st.floats(-15, -1.5))
def test_white_noise_is_the_ball_over_the_exact_shift(epsilon: float, log_delta: float) -> None:
    delta = math.exp(log_delta)
    sd = PrivateSpectrum(epsilon=epsilon, delta=delta, l2_ball=0.3, points=4).plan().standard_deviation
    assert sd == pytest.approx(0.3 / exact_shift(epsilon, delta), rel=1e-5)
    assert TrajectoryRelease(epsilon=epsilon, delta=delta, l2_ball=0.3).plan(5).standard_deviation == pytest.approx(sd)


@pytest.mark.parametrize(("epsilon", "ratio"), [(math.log(2), 2.08), (0.1, 6.05)])
def test_published_calibration_is_sound_and_loose(epsilon: float, ratio: float) -> None:
    """Correction S1: SpDP eq. (7) spends this many times the variance that its own promise needs."""
    exact = PrivateSpectrum(**{**TABLE_I, "epsilon": epsilon})
    published = replace(exact, calibration="published")
    sds = [np.asarray(mechanism.plan().standard_deviation) for mechanism in (published, exact)]
    assert (sds[0] / sds[1]) ** 2 == pytest.approx(ratio, rel=3e-3)
    tail = norm.isf(0.01)
    assert sds[0] == pytest.approx(0.12 * (tail + math.sqrt(tail**2 + 2 * epsilon)) / (2 * epsilon), rel=1e-6)
    release = published.release(SERIES)
    assert verify(release.certificate).private
    assert release.certificate.delta_upper < 0.01


@pytest.mark.parametrize("beta", [0.5, -0.3, 0.9])
def test_correlation_never_helps_on_a_ball(beta: float) -> None:
    """Correction S2: the noise is the AR(1) shape with smallest eigenvalue (B/t)^2, so every entry has more of it."""
    noise = PrivateSpectrum(**TABLE_I, correlation=beta, points=40).plan().noise
    needed = (0.12 / exact_shift(TABLE_I["epsilon"], 0.01)) ** 2
    assert np.linalg.eigvalsh(noise.covariance)[0] == pytest.approx(needed, rel=1e-3)
    assert np.diagonal(noise.covariance).min() > needed


def test_output_is_a_valid_density_and_is_clipped_then_smoothed() -> None:
    mechanism = PrivateSpectrum(
        **TABLE_I, correlation=0.5, smoothing=(0.8, 0.39), points=32, generator=SeededGenerator(1)
    )
    value = mechanism.release(SERIES).value
    assert value.shape == (33,)
    assert (value >= 0).all()
    assert np.isfinite(value).all()
    raw = replace(mechanism, smoothing=None, generator=SeededGenerator(1)).release(SERIES).value
    assert (raw == 0).any(), "the noise of Table I swamps small densities"
    # 0.39 per bin: the filter's weights fall like 0.61^|k|; rebuilt on a long periodic extension
    even = np.concatenate([raw, raw[-2:0:-1]])
    lags = np.arange(-200, 201)
    weights = (0.8 * 0.39) ** 2 * 0.61 ** np.abs(lags) / (1 - 0.61**2)
    expected = [np.sum(weights * even[(n + lags) % 64]) for n in range(33)]
    assert np.allclose(value, expected, rtol=1e-9)


def test_ball_from_history_is_the_largest_distance_and_is_marked() -> None:
    pieces = [SERIES[:200], SERIES[200:400], SERIES[400:600]]
    ball = calibrate_ball(pieces, points=16, sample_period=1 / 12)
    spectra = [welch_psd(piece, 16, period=1 / 12) for piece in pieces]
    assert ball == pytest.approx(max(np.linalg.norm(a - b) for a in spectra for b in spectra))
    given_ball = PrivateSpectrum(**{**TABLE_I, "l2_ball": float(ball)}, points=16).release(SERIES)
    measured = PrivateSpectrum(**{**TABLE_I, "l2_ball": ball}, points=16).release(SERIES)
    assert given_ball.certificate.parameters["ball_source"] == "given"
    assert measured.certificate.parameters["ball_source"] == "measured on data declared public or past"
    with pytest.raises(ParameterError, match="at least two"):
        calibrate_ball(pieces[:1], points=16)


def test_certificate_carries_the_ball_and_the_exact_pair() -> None:
    certificate = PrivateSpectrum(**TABLE_I, points=16).release(SERIES).certificate
    assert certificate.adjacency.parameters == {"radius": 0.12, "space": "spectrum"}
    shift = certificate.parameters["mean_shift"]
    assert float(GaussianPair.mean_shift(shift).delta(math.log(2))) == pytest.approx(0.01, rel=1e-6)


@pytest.mark.parametrize(
    "change",
    [
        {"l2_ball": 0.0},
        {"l2_ball": math.nan},
        {"correlation": 1.0},
        {"smoothing": (0.8, 1.2)},
        {"smoothing": (0, 0.5)},
        {"points": 0},
        {"points": 2.5},
        {"points": 400},
        {"sample_period": 0.0},
        {"calibration": "loose"},
        {"calibration": "published", "delta": 0.6},
        {"calibration": "published", "epsilon": 0.0},
    ],
    ids=str,
)
def test_bad_designs_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(GaussveilError):
        PrivateSpectrum(**{**TABLE_I, "points": 16, **change}).release(SERIES)


def test_the_plan_says_when_the_balls_centre_does_as_well() -> None:
    usual = PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.1, points=288)
    assert usual.plan().comparison.endswith("the centre does as well")
    loose = PrivateSpectrum(epsilon=40.0, delta=1e-2, l2_ball=0.1, points=4)
    assert loose.plan().comparison.endswith("the release tells more than the centre")


def test_bands_bring_no_two_spectra_farther_apart_and_leave_less_noise() -> None:
    generator = np.random.default_rng(0)
    for points, bands in ((8, 2), (16, 5), (288, 8), (16, 17)):
        widths = band_widths(points, bands)
        assert (len(widths), widths.sum(), widths.min() >= 1) == (bands, points + 1, True)
    series = 1 + generator.random((2, 256))
    given: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-5, "l2_ball": 0.1, "points": 32}
    plain, banded = PrivateSpectrum(**given), PrivateSpectrum(**given, bands=4)
    one, other = (plain.density(row) for row in series)
    first, second = (banded.density(row) for row in series)
    assert 0 < np.linalg.norm(first - second) < np.linalg.norm(one - other)
    assert banded.plan().noise.shape == (4,)
    # means over bands, and energies kept
    shown = banded.post_process(first)
    assert shown.shape == one.shape
    assert shown.sum() == pytest.approx(one.sum())
    assert len(np.unique(shown)) == 4
    assert calibrate_ball(list(series), points=32, bands=4) == pytest.approx(float(np.linalg.norm(first - second)))
    certificate = banded.release(series[0]).certificate
    assert certificate.parameters["bands"] == 4
    assert "4 bands" in certificate.released
    for wrong in (1, 34, 2.5):
        with pytest.raises(ParameterError, match="bands"):
            PrivateSpectrum(**given, bands=wrong).plan()  # type: ignore[arg-type]


def test_a_prior_draws_as_strongly_as_is_best_against_the_worst_of_the_ball() -> None:
    prior = np.linspace(3.0, 1.0, 9)
    mechanism = PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.5, points=8, prior=prior)
    noise = 9 * float(mechanism.plan().standard_deviation) ** 2
    kept = mechanism.kept()

    def worst(share: float) -> float:
        return (1 - share) ** 2 * 0.25 + share**2 * noise

    assert worst(kept) <= min(worst(share) for share in np.linspace(0, 1, 101)) * (1 + 1e-12)
    assert worst(kept) == pytest.approx(0.25 * noise / (0.25 + noise))
    other = prior + 0.1
    assert mechanism.post_process(other) == pytest.approx(prior + kept * 0.1)
    assert mechanism.release(1 + np.random.default_rng(1).random(64)).certificate.parameters[
        "kept_beside_the_prior"
    ] == pytest.approx(kept)
    for wrong in (prior[:5], -prior, prior * np.nan):
        with pytest.raises(GaussveilError):
            PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.5, points=8, prior=wrong).release(np.arange(64.0) % 3)
