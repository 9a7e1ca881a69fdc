"""``open(uri)``: the right Source for a table's address."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from gaussveil.errors import ParameterError
from gaussveil.statistics.source import Source


def open(
    uri: str | os.PathLike[str],
    *,
    engine: Literal["duckdb", "spark"] = "duckdb",
    schema: str | os.PathLike[str] | Mapping[str, Any] | None = None,
    separator: str | None = None,
    decimal: str | None = None,
    encoding: str | None = None,
    time_format: str | None = None,
    types: Mapping[str, str] | None = None,
    missing: str | float | Sequence[str] | None = None,
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
        schema: a form that was written down (``gaussveil schema``): its file, or what stands in it. With one, every
            cell is read by itself: what does not fit is missing.
        separator, decimal, encoding, time_format, types: how a CSV file is written, where nobody wrote its form down.
            A type is text, whole, number, truth, date, time or instant.
        missing: marks of missing cells and sentinels, such as -999.
        memory_limit, temp_directory: of DuckDB, before tables spill to disk and where to.
        session, master: of Spark.

    Returns:
        A `Source`, which knows the columns and reads the rows when a mechanism asks for them.

    Raises:
        ParameterError: the engine is unknown, or an option is not for it.
        SourceError: the address holds no table that can be read.

    >>> import pathlib, tempfile, gaussveil
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "homes.csv")
    ...     _ = path.write_text("home,kw\\na,0.5\\nb,1.5\\n")
    ...     gaussveil.open(path).schema.names
    ['home', 'kw']
    """
    options: dict[str, Any] = {
        name: value
        for name, value in locals().items()
        if name not in ("uri", "engine") and value is not None
    }
    if engine == "duckdb":
        from gaussveil.engines.duckdb import DuckDBSource

        return DuckDBSource(uri, **options)
    if engine == "spark":
        from gaussveil.engines.spark import SparkSource

        return SparkSource(uri, **options)
    raise ParameterError(f"engine must be 'duckdb' or 'spark'. Got {engine!r}.")
