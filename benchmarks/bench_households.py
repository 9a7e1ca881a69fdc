"""An ARMA fit and a forecast for every household, in the embedded pool and on Spark. FULL=1 for 10^4 households.

Two workers each. CPU seconds are of all processes, Java included: other load on the machine does not enter. Seconds by
the clock also see cores that wait, and need a quiet machine. Starting either, and its first tasks, is apart.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from bench_engines import row
from gaussveil.engines import open
from gaussveil.timeseries import fit_arma, mmse_forecast, simulate_households
from process_tree import cpu_seconds

HOMES = int(os.environ.get("HOMES") or (10**4 if os.environ.get("FULL") else 500))


def both(work: Callable[[], Any]) -> tuple[float, float]:
    """CPU seconds of everything, and seconds by the clock."""
    used, begin = cpu_seconds(), time.perf_counter()
    work()
    return cpu_seconds() - used, time.perf_counter() - begin


def run() -> list[dict[str, Any]]:
    from gaussveil.engines.spark_session import start_session

    def forecast_home(rows: pa.Table) -> Any:  # inside, so that workers need not import this file
        series = np.log(np.maximum(rows["kw"].to_numpy(), 0.01))[None]
        series -= series.mean()
        return mmse_forecast(fit_arma(series), series, 24)

    town = simulate_households(HOMES, 16, step_minutes=60, seed=0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "readings.parquet"
        few = path.with_name("few.parquet")
        home, hour = np.repeat(np.arange(HOMES), town.count), np.tile(np.arange(town.count), HOMES)
        readings = pa.table({"home": home, "hour": hour, "kw": town.values.ravel()})
        pq.write_table(readings, path)
        pq.write_table(readings.slice(0, 32 * town.count), few)

        def forecast(source: Any, homes: int) -> None:
            assert len(source.map_groups(forecast_home, by="home", order=["hour"], jobs=2)) == homes

        begin = time.perf_counter()
        session = start_session("local[2]")
        forecast(open(few, engine="spark", session=session), 32)
        start = time.perf_counter() - begin
        forecast(open(few), 32)
        pool = both(lambda: forecast(open(path), HOMES))
        spark = both(lambda: forecast(open(path, engine="spark", session=session), HOMES))
        session.stop()
    name = f"{HOMES} households, ARMA fit and forecast each: Spark local[2] / embedded pool of 2"
    return [
        row(f"{name}, CPU seconds", spark[0], pool[0], 2.0),
        row(f"{name}, by the clock", spark[1], pool[1], 2.0, f"load of the machine {os.getloadavg()[1]:.1f}"),
        row("Spark local[2]: start and first tasks / this work, by the clock", start, spark[1], None),
    ]


if __name__ == "__main__":
    for result in run():
        print(result)
