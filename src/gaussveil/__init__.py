"""Exact differential privacy for Gaussian releases.

Everything public is exported here and imported on first use, so ``import gaussveil`` costs milliseconds and never loads
NumPy by itself. Adding a name means adding one line to the table and its twin under ``TYPE_CHECKING``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gaussveil.errors import GaussveilError
    from gaussveil.spectrum import Enclosure, GaussianPair, PrivacyLoss, compose

    __version__: str

_EXPORTS = {
    "Enclosure": "gaussveil.spectrum",
    "GaussianPair": "gaussveil.spectrum",
    "GaussveilError": "gaussveil.errors",
    "PrivacyLoss": "gaussveil.spectrum",
    "compose": "gaussveil.spectrum",
}

__all__ = [
    "Enclosure",
    "GaussianPair",
    "GaussveilError",
    "PrivacyLoss",
    "__version__",
    "compose",
]


def __getattr__(name: str) -> object:
    """Import an exported name the first time it is asked for (PEP 562)."""
    if name == "__version__":
        from importlib.metadata import version

        value: object = version("gaussveil")
    elif name in _EXPORTS:
        from importlib import import_module

        value = getattr(import_module(_EXPORTS[name]), name)
    else:
        raise AttributeError(f"module 'gaussveil' has no attribute {name!r}; it exports {', '.join(__all__)}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """List the exports, loaded or not."""
    return sorted({*globals(), *__all__})
