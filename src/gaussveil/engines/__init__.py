"""Sources elsewhere than in memory: DuckDB (embedded, the default) and Spark (distributed); a release per household.

Names are imported on first use: every worker of a cluster imports this package, and few of them need accounting.
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
