"""``open(uri)``: the right Source for a table's address."""

from __future__ import annotations

import os
from typing import Any, Literal

from gaussveil.errors import ParameterError
from gaussveil.statistics.source import Source


def open(uri: str | os.PathLike[str], *, engine: Literal["duckdb", "spark"] = "duckdb", **options: Any) -> Source:
    """Open a table as a Source: ``open("readings.parquet")``, ``open("meters.sqlite#readings")``.

    See ``gaussveil.engines.location`` for the addresses. ``options`` go to the engine: ``types`` of CSV columns and
    ``memory_limit`` for DuckDB; ``session`` or ``master`` for Spark.
    """
    if engine == "duckdb":
        from gaussveil.engines.duckdb import DuckDBSource

        return DuckDBSource(uri, **options)
    if engine == "spark":
        from gaussveil.engines.spark import SparkSource

        return SparkSource(uri, **options)
    raise ParameterError(f"engine must be 'duckdb' or 'spark'. Got {engine!r}.")
