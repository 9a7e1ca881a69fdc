"""A whole executor of a cluster is killed in the middle of its work: the same sums to the bit, one debit, one value."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.mark.full  # three machines of Java; lost workers of one machine are in every run
def test_a_lost_executor_changes_nothing_and_one_lost_again_and_again_costs_nothing(tmp_path: Path, full: bool) -> None:
    rng = np.random.default_rng(5)
    (tmp_path / "readings").mkdir()
    for part in range(2):  # a task for either executor
        homes = [f"home {number}" for number in np.arange(400) % 4]
        numbers = {"kw": rng.gamma(2.0, 3.0, 400), "volt": rng.normal(230.0, 2.0, 400), "class": np.arange(400) % 5}
        pq.write_table(pa.table({"home": homes, **numbers}), tmp_path / "readings" / f"{part}.parquet")
    # A task that fails twice has failed for good, and no JVM lives long enough to be worth compiling well.
    brief = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
    options = f"--conf spark.task.maxFailures=2 --driver-java-options '{brief}' "
    options += f"--conf 'spark.executor.extraJavaOptions={brief}' pyspark-shell"
    settings = {**os.environ, "PYSPARK_SUBMIT_ARGS": options}
    program = Path(__file__).with_name("lost_executor.py")
    done = subprocess.run(
        [sys.executable, str(program), str(tmp_path), *(["for-good"] if full else [])],
        env=settings,
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    outcome = json.loads((tmp_path / "outcome.json").read_text(encoding="utf-8"))
    assert outcome["killed"] == ["killed-while-drawing", "killed-while-summing"]
    assert outcome["same_sums"]
    assert outcome["homes"] == ["home 0", "home 1", "home 2", "home 3"]
    assert outcome["values"] == 4
    assert outcome["same_values"]
    assert outcome["debits"] == [1, 1, 1, 1]
    assert ("a task failed on a worker" in outcome["refused"]) == full
    assert outcome["debits_after_failure"] == outcome["debits"]
