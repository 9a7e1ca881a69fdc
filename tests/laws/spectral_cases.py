"""Spectra, trajectories and streams under the laws: the fields of their `MechanismCase`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from gaussveil.accounting import Certificate, Release
from gaussveil.accounting.canonical import decoded
from gaussveil.mechanisms import AverageSpectrum, MeterFleet, MeterStream, PrivateSpectrum, TrajectoryRelease
from gaussveil.mechanisms.meter_stream.registers import NestedRegisters
from gaussveil.noise import default_generator
from gaussveil.noise.filter_bank import FilterBank, to_steps
from gaussveil.noise.stream_filter import StreamFilter, fourier
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
        "name": name,
        "build": build,
        "value": _SERIES,
        "neighbour": neighbour,
        "centre": _psd,
        "draws": draws,
        "residuals": residuals,
        "score": lambda certificate, noise: noise @ worst,
        "malformed": MALFORMED,
    }


def average(name: str) -> dict[str, Any]:
    """`AverageSpectrum` of two groups; of the neighbour a home as large as the norm is gone from the second."""
    value = np.column_stack([_SERIES, 100 * np.roll(_SERIES, 7), _SERIES[::-1]])
    groups = ("north", "south")
    norm = 0.05

    def build(**changes: Any) -> AverageSpectrum:
        return AverageSpectrum(norm=norm, groups=groups, points=POINTS, bands=2, sample_period=1 / 12, **changes)

    def homes(data: Any) -> tuple[str, ...]:
        """Whose group each column is in; the columns of the neighbour are those that stay."""
        whole = isinstance(data, np.ndarray) and data.shape[1:] == (3,)
        return ("north", "south", "north") if whole else ("north", "north")

    def sums(data: Any) -> Matrix:
        return np.asarray(build(epsilon=1.0, delta=0.2).sums(data, homes(data))).ravel()

    worst = sums(value) - sums(np.delete(value, 1, axis=1))

    def draws(mechanism: AverageSpectrum, data: Any, count: int) -> Matrix:
        plan = mechanism.plan()
        exact = mechanism.sums(data, homes(data))
        return np.stack([plan.draw(exact, mechanism.generator).ravel() for _ in range(count)])

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": np.delete(value, 1, axis=1),
        "centre": sums,
        "draws": draws,
        "residuals": lambda certificate, noise: noise / np.sqrt(float(certificate.parameters["noise_covariance"])),  # type: ignore[arg-type]
        "score": lambda certificate, noise: -noise @ worst,
        "release": lambda mechanism, data: mechanism.release(data, homes(data)),
        "malformed": ([[1.0], [2.0, 3.0]], None, np.zeros((7, 2)), np.zeros(64), np.zeros((64, 2, 2))),
        "bad_records": tuple(np.where([True, True, False], bad, value) for bad in (np.nan, np.inf, 1e300)),
    }


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
        "name": name,
        "build": build,
        "value": value,
        "neighbour": value + worst,
        "centre": np.asarray,
        "draws": draws,
        "residuals": residuals,
        "score": lambda certificate, noise: noise @ worst,
        "malformed": MALFORMED,
    }


def stream(name: str, **design: Any) -> dict[str, Any]:
    """`MeterStream` of fourteen readings with an event of ten in the middle; missing and extreme ones are allowed."""
    value = 1 + np.random.default_rng(5).random(14)
    worst = np.concatenate([np.zeros(2), np.full(10, 0.5), np.zeros(2)])

    def build(**changes: Any) -> MeterStream:
        return MeterStream.design(
            sample_period="5min", event=(0.5, "50min"), sample_limit=1000, **{**design, **changes}
        )

    def draws(mechanism: MeterStream, data: Matrix, count: int) -> Matrix:
        filters, generator = mechanism.design_.filter, mechanism.generator or default_generator()
        bank = FilterBank([filters] * count)
        bank.start(generator)
        steps = to_steps(np.asarray(data), filters.input_grid, -100.0, 100.0, 0.0)
        outputs = bank.push(np.repeat(steps[:, None], count, axis=1), generator)[0].T
        return np.asarray(outputs * filters.grid)

    def covariance(certificate: Certificate) -> Matrix:
        filters = decoded(StreamFilter, certificate.parameters["filter"], "the filter")
        return toeplitz(fourier(filters.noise_power, len(value)))

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(noise @ np.linalg.solve(covariance(certificate), worst))

    def release(mechanism: MeterStream, data: Any) -> Release[Any]:
        outputs = mechanism.push_many(data)
        return Release(outputs, mechanism.certificate_)

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": value + worst,
        "centre": np.asarray,
        "draws": draws,
        "residuals": residuals,
        "score": score,
        "release": release,
        "malformed": (np.array(["a"] * 14), [[1.0], [2.0, 3.0]], None, value[:, None], np.zeros(1001)),
        "bad_records": (value * np.nan, value * np.inf, value * 1e300, ["a"] * 14),
    }


def registers(name: str) -> dict[str, Any]:
    """`MeterStream` of a day's energies, hour by hour, and of the day; an event of ten hours begins with the day."""
    value = 1 + np.random.default_rng(6).random(24)
    worst = np.concatenate([np.full(10, 0.5), np.zeros(14)])

    def build(**changes: Any) -> MeterStream:
        return MeterStream.design(
            sample_period="1h", event=(0.5, "10h"), purpose="registers", registers=("hour", "day"), **changes
        )

    def energies(mechanism: MeterStream, data: Any) -> Matrix:
        steps = to_steps(np.asarray(data), mechanism.design_.filter.input_grid, -100.0, 100.0, 0.0)
        generator = mechanism.generator or default_generator()
        bank = NestedRegisters(mechanism.design_)
        bank.start(0, generator)
        found = [bank.push(hour + 1, steps[hour : hour + 1], generator)[0].kwh for hour in range(24)]
        return np.array(found)

    def covariance(certificate: Certificate) -> Matrix:
        hour, day = (register["noise_sd"] ** 2 for register in certificate.parameters["registers"])  # type: ignore
        return np.asarray(hour * (np.eye(24) - 1 / 24) + day / 24**2)

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.linalg.solve(np.linalg.cholesky(covariance(certificate)), noise.T)

    def release(mechanism: MeterStream, data: Any) -> Release[Any]:
        mechanism.push_many(data)
        return Release(np.array([energy.kwh for energy in mechanism.energies[:24]]), mechanism.certificate_)

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": value + worst,
        "centre": np.asarray,
        "draws": lambda mechanism, data, count: np.stack([energies(mechanism, data) for _ in range(count)]),
        "residuals": residuals,
        "score": lambda certificate, noise: np.asarray(noise @ np.linalg.solve(covariance(certificate), worst)),
        "release": release,
        "malformed": (np.array(["a"] * 24), [[1.0], [2.0, 3.0]], None, value[:, None], np.zeros(90_000)),
        "bad_records": (value * np.nan, value * np.inf, value * 1e300, ["a"] * 24),
    }


def fleet(name: str) -> dict[str, Any]:
    """`MeterFleet` of three meters and fourteen periods: one of them has an event of ten in the middle."""
    alone = stream(name, purpose="energy", balance=(0.3, 0.4))
    value, text = np.random.default_rng(7).random((14, 3)), np.full((14, 3), "a")
    neighbour = value.copy()
    neighbour[2:12, 1] += 0.5

    def build(**changes: Any) -> MeterFleet:
        return MeterFleet.design(
            sample_period="5min",
            event=(0.5, "50min"),
            sample_limit=1000,
            limits=(-100.0, 100.0),
            **{"balance": (0.3, 0.4), **changes},
        )

    return {
        **alone,
        "build": build,
        "value": value,
        "neighbour": neighbour,
        "centre": lambda data: np.asarray(data).sum(axis=1),
        "draws": lambda mechanism, data, count: alone["draws"](mechanism, np.asarray(data).sum(axis=1), count),
        "malformed": (text, [[1.0], [2.0, 3.0]], None, value[:, 0], np.zeros((1001, 3)), np.zeros((2, 0))),
        "bad_records": (value * np.nan, value * np.inf, value * 1e300, text.tolist()),
    }
