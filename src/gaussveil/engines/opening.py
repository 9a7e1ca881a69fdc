"""``open(uri)``: the right Source for a table's address."""

from __future__ import annotations

import os
from typing import Any, Literal

from gaussveil.engines.csv_files import given_form
from gaussveil.engines.location import locate
from gaussveil.errors import ParameterError
from gaussveil.statistics.source import Source
from gaussveil.statistics.unit import as_source


def open(uri: str | os.PathLike[str], *, engine: Literal["duckdb", "spark"] = "duckdb", **options: Any) -> Source:
    """Open a table as a Source: ``open("readings.parquet")``, ``open("meters.sqlite#readings")``.

    See ``gaussveil.engines.location`` for the addresses. ``options`` go to the engine: how a CSV file is written where
    its first lines do not show it (``separator``, ``decimal``, ``encoding``, ``time_format``, ``types``);
    ``memory_limit`` for DuckDB; ``session`` or ``master`` for Spark.
    """
    if engine == "duckdb":
        if (location := locate(uri)).kind == "excel":
            from gaussveil.engines.excel import read_excel

            given_form(location, options.pop("types", None), options)
            return as_source(read_excel(location))
        from gaussveil.engines.duckdb import DuckDBSource

        return DuckDBSource(uri, **options)
    if engine == "spark":
        from gaussveil.engines.spark import SparkSource

        return SparkSource(uri, **options)
    raise ParameterError(f"engine must be 'duckdb' or 'spark'. Got {engine!r}.")
