"""Time series of meter readings: seasonal split, ARMA, forecasts, spectra and a household simulator.

Domain code only. Nothing here is private and nothing here draws noise for a release: the simulator takes a seed,
and every other function is deterministic.
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
