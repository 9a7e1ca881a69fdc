"""One mechanism per file; each releases a value with a certificate and debits its account before it draws.

Names are imported on first use: a gateway that streams readings need not load what fits mixtures.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gaussveil.mechanisms.class_label import ClassLabelNoise
    from gaussveil.mechanisms.class_label_plan import ClassLabelPlan
    from gaussveil.mechanisms.forecast import PrivateForecaster
    from gaussveil.mechanisms.forecast_models import PrivateForecast
    from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
    from gaussveil.mechanisms.gaussian_output import LiftedGaussian, LiftedPlan
    from gaussveil.mechanisms.gp import PrivateGaussianProcessRegressor
    from gaussveil.mechanisms.logistic import PrivateBayesianLogisticRegression
    from gaussveil.mechanisms.meter_stream.stream import MeterStream, StreamPlan
    from gaussveil.mechanisms.mixture.estimator import PrivateGaussianMixture
    from gaussveil.mechanisms.mixture.model import MixtureModel
    from gaussveil.mechanisms.random_projection.estimates import Sketch
    from gaussveil.mechanisms.random_projection.private_sketch import PrivateSketch
    from gaussveil.mechanisms.spectral import PrivateSpectrum, calibrate_ball
    from gaussveil.mechanisms.trajectory import TrajectoryRelease

_HOMES = {
    "ClassLabelNoise": "class_label",
    "ClassLabelPlan": "class_label_plan",
    "GaussianPlan": "gaussian",
    "GaussianRelease": "gaussian",
    "LiftedGaussian": "gaussian_output",
    "LiftedPlan": "gaussian_output",
    "MeterStream": "meter_stream.stream",
    "MixtureModel": "mixture.model",
    "PrivateBayesianLogisticRegression": "logistic",
    "PrivateForecast": "forecast_models",
    "PrivateForecaster": "forecast",
    "PrivateGaussianMixture": "mixture.estimator",
    "PrivateGaussianProcessRegressor": "gp",
    "PrivateSketch": "random_projection.private_sketch",
    "PrivateSpectrum": "spectral",
    "Sketch": "random_projection.estimates",
    "StreamPlan": "meter_stream.stream",
    "TrajectoryRelease": "trajectory",
    "calibrate_ball": "spectral",
}

__all__ = [
    "ClassLabelNoise",
    "ClassLabelPlan",
    "GaussianPlan",
    "GaussianRelease",
    "LiftedGaussian",
    "LiftedPlan",
    "MeterStream",
    "MixtureModel",
    "PrivateBayesianLogisticRegression",
    "PrivateForecast",
    "PrivateForecaster",
    "PrivateGaussianMixture",
    "PrivateGaussianProcessRegressor",
    "PrivateSketch",
    "PrivateSpectrum",
    "Sketch",
    "StreamPlan",
    "TrajectoryRelease",
    "calibrate_ball",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
