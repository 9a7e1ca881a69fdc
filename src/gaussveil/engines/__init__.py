"""Sources elsewhere than in memory: DuckDB (embedded, the default) and Spark (distributed); a release per household."""

from __future__ import annotations

from gaussveil.engines.households import release_households
from gaussveil.engines.open import open

__all__ = ["open", "release_households"]
