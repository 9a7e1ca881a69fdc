"""Auditors: exact where the mechanism's output distribution is known, statistical where it can only be called."""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
