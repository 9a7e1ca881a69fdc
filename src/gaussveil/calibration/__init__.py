"""Calibration: inverses of the spectrum that return the private endpoint, and the design of noise shapes."""

from gaussveil.calibration.class_noise import ClassNoise, design_class_noise
from gaussveil.calibration.ellipsoid import CoveringEllipsoid, covering_ellipsoid
from gaussveil.calibration.gaussian import (
    covariance_for_ball,
    covariance_for_shifts,
    mean_shift_for,
    smallest_deviation,
    white_noise_scale,
)
from gaussveil.calibration.several import noise_scales

__all__ = [
    "ClassNoise",
    "CoveringEllipsoid",
    "covariance_for_ball",
    "covariance_for_shifts",
    "covering_ellipsoid",
    "design_class_noise",
    "mean_shift_for",
    "noise_scales",
    "smallest_deviation",
    "white_noise_scale",
]
