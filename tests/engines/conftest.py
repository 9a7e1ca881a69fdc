"""One table in every place."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.engines import open
from gaussveil.statistics import Source, as_source

Opener = Callable[[Path], Source]


@pytest.fixture(
    scope="session",
    params=["memory", "duckdb", "spark"],
)
def opener(request: pytest.FixtureRequest) -> Opener:
    """How each engine opens a Parquet file."""
    if request.param == "memory":
        return lambda path: as_source(pq.read_table(path))
    if request.param == "duckdb":
        return lambda path: open(path)
    session = request.getfixturevalue("spark")
    return lambda path: open(path, engine="spark", session=session)


@pytest.fixture(scope="session")
def table() -> pa.Table:
    rng = np.random.default_rng(5)
    n = 3_000
    kw = rng.gamma(2.0, 3.0, size=n)
    kw[::97] = np.nan
    kw[5] = np.inf
    return pa.table(
        {
            "home": pa.array(
                [None if i % 211 == 0 else f"home {h}" for i, h in enumerate(rng.integers(0, 80, size=n))]
            ),
            "hour": pa.array(rng.integers(0, 24, size=n).astype(np.int32)),
            "kw": pa.array(kw, mask=np.arange(n) % 89 == 0),
            "volt": rng.normal(230.0, 2.0, size=n).astype(np.float32),
            "class": rng.integers(0, 4, size=n),
        }
    )


@pytest.fixture(scope="session")
def parquet(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("table") / "readings.parquet"
    pq.write_table(table, path, row_group_size=700)
    return path
