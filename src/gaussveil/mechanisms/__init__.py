"""One mechanism per file; each releases a value with a certificate and debits its account before it draws."""

from gaussveil.mechanisms.class_label import ClassLabelNoise
from gaussveil.mechanisms.class_label_plan import ClassLabelPlan
from gaussveil.mechanisms.forecast import PrivateForecaster
from gaussveil.mechanisms.forecast_models import PrivateForecast
from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
from gaussveil.mechanisms.gaussian_output import LiftedGaussian, LiftedPlan
from gaussveil.mechanisms.gp import PrivateGaussianProcessRegressor
from gaussveil.mechanisms.logistic import PrivateBayesianLogisticRegression
from gaussveil.mechanisms.meter_stream import MeterStream, StreamPlan
from gaussveil.mechanisms.mixture import PrivateGaussianMixture
from gaussveil.mechanisms.mixture_model import MixtureModel
from gaussveil.mechanisms.random_projection import PrivateSketch
from gaussveil.mechanisms.sketch_estimates import Sketch
from gaussveil.mechanisms.spectral import PrivateSpectrum, calibrate_ball
from gaussveil.mechanisms.trajectory import TrajectoryRelease

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
