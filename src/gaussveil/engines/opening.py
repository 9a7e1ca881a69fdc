"""``open(uri)``: the right Source for a table's address."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, Literal

from gaussveil.engines.csv_files import given_form
from gaussveil.engines.location import locate
from gaussveil.errors import ParameterError
from gaussveil.statistics.source import Source
from gaussveil.statistics.unit import as_source


def open(
    uri: str | os.PathLike[str],
    *,
    engine: Literal["duckdb", "spark"] = "duckdb",
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    types: Mapping[str, str] | None = None,
    memory_limit: str | None = None,
    temp_directory: str | None = None,
    session: Any = None,
    master: str | None = None,
) -> Source:
    """Open a table as a Source: ``open("readings.parquet")``, ``open("meters.sqlite#readings")``.

    See ``gaussveil.engines.location`` for the addresses.

    Args:
        uri: a file, a folder, ``database#table`` or a URL.
        engine: what reads it.
        separator, decimal, encoding, time_format, types: how a CSV file is written, where its first lines do not show.
        memory_limit, temp_directory: of DuckDB, before tables spill to disk and where to.
        session, master: of Spark.
    """
    options: dict[str, Any] = {
        name: value for name, value in locals().items() if name not in ("uri", "engine") and value is not None
    }
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
