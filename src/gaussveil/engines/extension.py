"""DuckDB's own extensions for other databases: where `INSTALL` put them, or out of a wheel.

A wheel brings the file that DuckDB publishes, for networks that reach a package index and no more. DuckDB loads it only
if it bears DuckDB's signature and was built for this very version.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import duckdb

WHEELS = {"postgres": "duckdb_extension_postgres_scanner"}


def loaded(connection: duckdb.DuckDBPyConnection, name: str) -> bool:
    """Load an extension; False where there is none."""
    for file in (name, *_from_wheel(name)):
        try:
            connection.load_extension(file)
        except duckdb.Error:
            continue
        return True
    return False


def _from_wheel(name: str) -> list[str]:
    found = importlib.util.find_spec(WHEELS[name])
    folders = [] if found is None else list(found.submodule_search_locations or ())
    fitting = f"extensions/v{duckdb.__version__}/*.duckdb_extension"
    return [str(file) for folder in folders for file in Path(folder).glob(fitting)]
