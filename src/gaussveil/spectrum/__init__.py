"""Exact divergence of Gaussians: pair -> reduced terms -> privacy loss -> delta, with closed forms, bounds and
enclosures.
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
