"""Whole units bounded and summed: the same integers in every engine."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.engines.spark import SparkSource
from gaussveil.mechanisms import Count, Histogram, Mean, Quantile, TableRelease, Variance
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import as_source
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.keys import Bins, discover, hour_of, value_of
from gaussveil.statistics.unit_cells import Feature, UnitCells, UnitTotals
from gaussveil.typing import Integers

pytestmark = pytest.mark.xdist_group("spark")


class Everything(UnitTotals):
    """The bounded cells, and means of units, which divide."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        return {"rows": (72,), "features": (1, 72), "bins": (72, 3), "means": (72,)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        bounded = cells.bounded(2, 9)
        means = np.trunc(cells.features[0] / np.maximum(cells.rows, 1) * 0.3).astype(np.int64)
        return {
            "rows": bounded.rows,
            "features": np.moveaxis(bounded.features, 0, 1),
            "bins": bounded.bins[0],
            "means": means,
        }


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(7)
    n = 5_000
    kw = rng.gamma(1.0, 2.0, n)
    kw[::53], kw[7] = np.nan, np.inf
    times = np.datetime64("2024-03-30T00:00", "us") + rng.integers(0, 5 * 1440, n) * np.timedelta64(1, "m")
    table = pa.table(
        {
            "meter": pa.array(
                [None if k % 301 == 0 else f"m\u00e9ter {m}" for k, m in enumerate(rng.integers(0, 60, n))]
            ),
            "zone": [("a", "b", "\u03b6", "elsewhere")[k] for k in rng.integers(0, 4, n)],
            "time": pa.array(times).cast(pa.timestamp("us", "UTC")),
            "kw": kw,
        }
    )
    path = tmp_path_factory.mktemp("units") / "readings.parquet"
    pq.write_table(table, path, row_group_size=900)
    return path


def test_every_engine_has_the_same_integers(readings: Path, opener: Any) -> None:
    keys = (value_of("zone", ["a", "b", "\u03b6"]), hour_of("time", time_zone="Europe/Zurich"))
    reader = CellReader("meter", keys, (Feature("kw", 0.0, 5.0),), (Bins("kw", (0.0, 1.0, 3.0, 9.0)),))
    here = as_source(pq.read_table(readings)).fold_units(reader, Everything(), [])
    there = opener(readings).fold_units(reader, Everything(), [])
    assert here["rows"].any()
    for name in here:
        assert np.array_equal(here[name], there[name]), name


def test_every_engine_counts_the_same_units_of_a_value(readings: Path, opener: Any) -> None:
    values, counts = opener(readings).units_per_value("meter", "zone", 2)
    here = as_source(pq.read_table(readings)).units_per_value("meter", "zone", 2)
    assert dict(zip(values.to_pylist(), counts.tolist())) == dict(zip(here[0].to_pylist(), here[1].tolist()))
    assert counts.sum() == 120


def test_every_engine_releases_the_same_answers(readings: Path, opener: Any, full: bool) -> None:
    """One seed, one answer: keys that are found, counts, means, quantiles, learnt profiles and ranges.

    On Spark, without --full, the first request alone: the others ask for more sums of the same kind.
    """
    hours = {"hour": hour_of("time", time_zone="Europe/Zurich")}
    requests = (
        {"by": {"zone": discover("zone", per_unit=4)}, "answers": [Count(), Mean("kw", between=(0, 5))]},
        {"by": hours, "answers": [Quantile("kw", 0.5, between=(0, 9)), Mean("kw", bounds="auto")]},
        {"by": hours, "answers": [Quantile("kw", 0.5), Variance("kw"), Histogram("kw", (0, 1, 3))], "bounds": "auto"},
    )
    source = opener(readings)
    for asked in requests if full or not isinstance(source, SparkSource) else requests[:1]:
        make = partial(TableRelease, unit="meter", epsilon=8.0, delta=1e-3, **asked)
        here = make(generator=SeededGenerator(3)).release(pq.read_table(readings)).value
        there = make(generator=SeededGenerator(3)).release(source).value
        assert here.num_rows > 0
        assert here.equals(there)
