"""Calibration: inverses of the spectrum that return the private endpoint, and the design of noise shapes."""

from gaussveil.calibration.ellipsoid import CoveringEllipsoid, covering_ellipsoid

__all__ = ["CoveringEllipsoid", "covering_ellipsoid"]
