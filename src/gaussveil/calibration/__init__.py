"""Calibration: inverses of the spectrum that return the private endpoint, and the design of noise shapes."""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
