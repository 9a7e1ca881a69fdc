"""Spectra, trajectories and streams under the laws: the fields of their `MechanismCase`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate
from gaussveil.mechanisms import PrivateSpectrum, TrajectoryRelease
from gaussveil.timeseries import welch_psd

Matrix = NDArray[np.float64]

POINTS = 4
_SERIES = 1 + np.random.default_rng(20080107).random(64)
MALFORMED = (_SERIES * np.nan, _SERIES * np.inf, _SERIES[:0], ["a"] * 64, [[1.0], [2.0, 3.0]], None, _SERIES[:, None])


def _psd(series: Any) -> Matrix:
    return welch_psd(np.asarray(series), POINTS, period=1 / 12)


def spectral(name: str) -> dict[str, Any]:
    """`PrivateSpectrum`; the neighbour has the same shape of density, as much larger as the ball allows."""
    # Scaling a series about its mean scales its density, whatever the estimator.
    neighbour = _SERIES.mean() + np.sqrt(1.5) * (_SERIES - _SERIES.mean())
    worst = _psd(neighbour) - _psd(_SERIES)
    ball = float(np.linalg.norm(worst))

    def build(**changes: Any) -> PrivateSpectrum:
        design = {"l2_ball": ball, "points": POINTS, "sample_period": 1 / 12}
        return PrivateSpectrum(**{**design, "smoothing": (0.8, 0.39), **changes})

    def draws(mechanism: PrivateSpectrum, data: Matrix, count: int) -> Matrix:
        plan = mechanism.plan()
        return np.stack([plan.draw(mechanism.density(data), mechanism.generator) for _ in range(count)])

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return noise / float(certificate.parameters["noise_sd"])  # type: ignore[arg-type]

    return {
        "name": name, "build": build, "value": _SERIES, "neighbour": neighbour, "centre": _psd, "draws": draws,
        "residuals": residuals, "score": lambda certificate, noise: noise @ worst, "malformed": MALFORMED,
    }  # fmt: skip


def trajectory(name: str) -> dict[str, Any]:
    """`TrajectoryRelease` of three readings."""
    value, worst = np.array([0.3, 1.7, 1 / 3]), np.array([2.0, 0.0, -1.5])

    def build(**changes: Any) -> TrajectoryRelease:
        return TrajectoryRelease(l2_ball=2.5, **changes)

    def draws(mechanism: TrajectoryRelease, data: Matrix, count: int) -> Matrix:
        plan = mechanism.plan(len(data))
        return np.stack([plan.draw(data, mechanism.generator) for _ in range(count)])

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return noise / np.sqrt(float(certificate.parameters["noise_covariance"]))  # type: ignore[arg-type]

    return {
        "name": name, "build": build, "value": value, "neighbour": value + worst, "centre": np.asarray, "draws": draws,
        "residuals": residuals, "score": lambda certificate, noise: noise @ worst, "malformed": MALFORMED,
    }  # fmt: skip
