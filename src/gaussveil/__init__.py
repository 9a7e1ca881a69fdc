"""Exact differential privacy for Gaussian releases.

Everything public is exported here and imported on first use, so ``import gaussveil`` costs milliseconds and never loads
NumPy by itself. Adding a name means adding one line to the table and its twin under ``TYPE_CHECKING``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaussveil.accounting import Account, Certificate, Ledger, PrivateDiagnostics, Release, verify
    from gaussveil.calibration import covering_ellipsoid
    from gaussveil.engines import open
    from gaussveil.errors import GaussveilError
    from gaussveil.mechanisms import (
        ClassLabelNoise,
        GaussianRelease,
        LiftedGaussian,
        MeterStream,
        MixtureModel,
        PrivateBayesianLogisticRegression,
        PrivateForecaster,
        PrivateGaussianMixture,
        PrivateGaussianProcessRegressor,
        PrivateSketch,
        PrivateSpectrum,
        TrajectoryRelease,
        calibrate_ball,
    )
    from gaussveil.spectrum import Enclosure, GaussianPair, PrivacyLoss, compose
    from gaussveil.timeseries import simulate_households, smooth

    __version__: str

_EXPORTS = {
    "Account": "gaussveil.accounting",
    "Certificate": "gaussveil.accounting",
    "ClassLabelNoise": "gaussveil.mechanisms",
    "Enclosure": "gaussveil.spectrum",
    "GaussianPair": "gaussveil.spectrum",
    "GaussianRelease": "gaussveil.mechanisms",
    "GaussveilError": "gaussveil.errors",
    "Ledger": "gaussveil.accounting",
    "LiftedGaussian": "gaussveil.mechanisms",
    "MeterStream": "gaussveil.mechanisms",
    "MixtureModel": "gaussveil.mechanisms",
    "PrivacyLoss": "gaussveil.spectrum",
    "PrivateBayesianLogisticRegression": "gaussveil.mechanisms",
    "PrivateDiagnostics": "gaussveil.accounting",
    "PrivateForecaster": "gaussveil.mechanisms",
    "PrivateGaussianMixture": "gaussveil.mechanisms",
    "PrivateGaussianProcessRegressor": "gaussveil.mechanisms",
    "PrivateSketch": "gaussveil.mechanisms",
    "PrivateSpectrum": "gaussveil.mechanisms",
    "Release": "gaussveil.accounting",
    "TrajectoryRelease": "gaussveil.mechanisms",
    "calibrate_ball": "gaussveil.mechanisms",
    "compose": "gaussveil.spectrum",
    "covering_ellipsoid": "gaussveil.calibration",
    "open": "gaussveil.engines",
    "simulate_households": "gaussveil.timeseries",
    "smooth": "gaussveil.timeseries",
    "verify": "gaussveil.accounting",
}

__all__ = [
    "Account",
    "Certificate",
    "ClassLabelNoise",
    "Enclosure",
    "GaussianPair",
    "GaussianRelease",
    "GaussveilError",
    "Ledger",
    "LiftedGaussian",
    "MeterStream",
    "MixtureModel",
    "PrivacyLoss",
    "PrivateBayesianLogisticRegression",
    "PrivateDiagnostics",
    "PrivateForecaster",
    "PrivateGaussianMixture",
    "PrivateGaussianProcessRegressor",
    "PrivateSketch",
    "PrivateSpectrum",
    "Release",
    "TrajectoryRelease",
    "__version__",
    "calibrate_ball",
    "compose",
    "covering_ellipsoid",
    "open",
    "simulate_households",
    "smooth",
    "verify",
]


def __getattr__(name: str) -> object:
    """Import an exported name the first time it is asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("gaussveil")
    elif name in _EXPORTS:
        from importlib import import_module

        value = getattr(import_module(_EXPORTS[name]), name)
    else:
        raise AttributeError(f"module 'gaussveil' has no attribute {name!r}; it exports {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the exports, loaded or not."""
    return sorted({*globals(), *__all__})
