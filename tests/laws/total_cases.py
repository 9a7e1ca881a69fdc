"""Running totals under the laws: the fields of their `MechanismCase`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import toeplitz

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import RunningTotal
from gaussveil.mechanisms.running_total.noise import TotalNoise
from gaussveil.noise import default_generator
from gaussveil.noise.filter_bank import to_steps

Matrix = NDArray[np.float64]
STEPS = 14


def running_total(name: str) -> dict[str, Any]:
    """`RunningTotal` of fourteen readings; of the neighbour the first and the eighth are half a unit more."""
    value = np.random.default_rng(5).random(STEPS)
    worst = np.zeros(STEPS)
    worst[[0, 7]] = 0.5

    def build(**changes: Any) -> RunningTotal:
        return RunningTotal(
            steps=100 * STEPS, every=STEPS, limits=(-100.0, 100.0), size=0.5, takes=2, separation=7, **changes
        )

    def draws(mechanism: RunningTotal, data: Matrix, count: int) -> Matrix:
        design, generator = mechanism.design_, mechanism.generator or default_generator()
        steps = to_steps(np.asarray(data), design.filter.grid, -100.0, 100.0, 0.0)
        found = []
        for _ in range(count):
            noise = TotalNoise(design).draw(len(steps), generator)
            found.append(np.cumsum(steps + np.array(noise)) * design.filter.grid)
        return np.array(found)

    def whitened(certificate: Certificate, noise: Matrix) -> Matrix:
        known: Any = certificate.parameters
        decays, scales = np.array(known["decays"]), np.array(known["scales"])
        column = np.concatenate([[1.0], (decays ** np.arange(STEPS - 1)[:, None]) @ scales])
        increments = np.diff(noise, axis=-1, prepend=0.0)
        return np.asarray(increments @ np.tril(toeplitz(column)).T) / known["noise_sd"]

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(whitened(certificate, noise) @ whitened(certificate, np.cumsum(worst)))

    def release(mechanism: RunningTotal, data: Any) -> Release[Any]:
        outputs = mechanism.push_many(data)
        return Release(outputs, mechanism.certificate_)

    return {
        "name": name,
        "build": build,
        "value": value,
        "neighbour": value + worst,
        "centre": lambda data: np.cumsum(np.asarray(data)),
        "draws": draws,
        "residuals": lambda certificate, noise: whitened(certificate, noise).T,
        "score": score,
        "release": release,
        "grid": lambda certificate: _grid(certificate),
        "malformed": ([[1.0], [2.0, 3.0]], None, np.zeros(100 * STEPS + 1), np.zeros((2, 0)), np.zeros((2, 2, 2))),
        "bad_records": (value * np.nan, value * np.inf, value * 1e300, ["a"] * STEPS),
    }


def _grid(certificate: Certificate) -> float:
    known: Any = certificate.parameters["filter"]
    return float(2.0 ** (np.floor(np.log2(known["white"])) - known["width"]))
