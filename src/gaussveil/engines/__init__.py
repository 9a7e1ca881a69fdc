"""Sources elsewhere than in memory: DuckDB (embedded, the default) and Spark (distributed); a release per household."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gaussveil.engines.open import open

if TYPE_CHECKING:
    from gaussveil.engines.households import release_households

__all__ = ["open", "release_households"]


def __getattr__(name: str) -> Any:
    """Load accounting only where it is used: every worker of a cluster imports this package."""
    if name == "release_households":
        from gaussveil.engines.households import release_households

        return release_households
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
