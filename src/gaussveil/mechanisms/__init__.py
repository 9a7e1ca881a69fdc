"""One mechanism per file; each releases a value with a certificate and debits its account before it draws."""

from gaussveil.mechanisms.gaussian import GaussianPlan, GaussianRelease
from gaussveil.mechanisms.mixture import PrivateGaussianMixture
from gaussveil.mechanisms.mixture_model import MixtureModel
from gaussveil.mechanisms.spectral import PrivateSpectrum, calibrate_ball
from gaussveil.mechanisms.trajectory import TrajectoryRelease

__all__ = [
    "GaussianPlan",
    "GaussianRelease",
    "MixtureModel",
    "PrivateGaussianMixture",
    "PrivateSpectrum",
    "TrajectoryRelease",
    "calibrate_ball",
]
