"""Mergeable statistics in exact integers, bounded contributions, and the Source protocol."""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
