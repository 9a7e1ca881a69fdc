"""The only room that draws for releases: secure bytes, exact lattice noise, exact coins."""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
