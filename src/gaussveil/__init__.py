"""Exact differential privacy for Gaussian releases.

Everything public is listed in the stub beside this file and imported on first use, so ``import gaussveil`` costs
milliseconds and never loads NumPy by itself. Adding a name means adding one line to the stub.
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
