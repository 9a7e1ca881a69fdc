"""Proven bounds: balls, intervals and exact sums where doubles cancel."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Ball arithmetic, loaded where it is needed first: a delta in doubles needs none."""
    if name not in ("dominate", "enclose_at", "enclose_loss", "sharper"):
        raise AttributeError(name)
    return getattr(import_module("gaussveil.spectrum.enclosures.enclosure"), name)
