"""Sources elsewhere than in memory: DuckDB (embedded, the default) and Spark (distributed)."""

from __future__ import annotations

from gaussveil.engines.open import open

__all__ = ["open"]
