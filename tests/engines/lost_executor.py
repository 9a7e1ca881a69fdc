"""Run as a program: a cluster of separate executors, one of which is killed in the middle of each job.

    python lost_executor.py FOLDER [for-good]

FOLDER holds a table in readings/; outcome.json is written there. A process of its own: there is one Spark session per
process and this one has another master.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from gaussveil.accounting import Account, Adjacency, Ledger, Release
from gaussveil.engines import open, release_households
from gaussveil.engines.spark_session import start_session
from gaussveil.errors import SourceError
from gaussveil.mechanisms import GaussianRelease
from gaussveil.statistics import Labels, Moments, MomentSums, Source, as_source
from gaussveil.statistics.statistic import State

FOLDER = Path(sys.argv[1])
COLUMNS = ["kw", "volt"]


def kill_executor(mark: Path | None) -> None:
    """Kill the executor that this worker belongs to, JVM and all; with a mark, by the first worker that comes only."""
    if mark is not None:
        try:
            os.close(os.open(mark, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return
    daemon = os.getppid()
    executor = int(Path(f"/proc/{daemon}/stat").read_text().rpartition(")")[2].split()[1])
    assert b"CoarseGrainedExecutorBackend" in Path(f"/proc/{executor}/cmdline").read_bytes()
    os.kill(executor, signal.SIGKILL)
    os._exit(1)  # with its JVM gone nobody would hear the answer anyway


class KillingMoments(Moments):
    """Moments whose first worker takes its executor down when its own sums are ready."""

    def fold(self, *arguments: Any) -> State:
        state = super().fold(*arguments)
        kill_executor(FOLDER / "killed-while-summing")
        return state


def limbs(moments: MomentSums) -> list[Any]:
    assert moments.second is not None
    return [part.limbs.tolist() for part in (moments.count, moments.total, moments.second)]


def mean_load(rows: pa.Table) -> Release[Any]:
    load = float(rows["volt"].to_numpy().mean())
    return GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=5.0, adjacency=Adjacency.add_remove("day")).release(
        [load]
    )


def dies_once(rows: pa.Table) -> Release[Any]:
    released = mean_load(rows)
    if rows["home"][0].as_py() == "home 3":
        kill_executor(FOLDER / "killed-while-drawing")
    return released


def dies_always(rows: pa.Table) -> Release[Any]:
    if rows["home"][0].as_py() == "home 3":
        kill_executor(None)
    return mean_load(rows)


def households(source: Source, function: Any, job: str) -> list[tuple[str, float]]:
    paying = Account(FOLDER / "ledger", "{household}")
    found = release_households(source, function, by="home", job=job, store=FOLDER / "store", account=paying)
    return [(home, float(release.value[0])) for home, release in found]


def main() -> None:
    session = start_session("local-cluster[2,1,1024]")
    source = open(FOLDER / "readings", engine="spark", session=session)
    here = as_source(pq.read_table(FOLDER / "readings"))
    classes = Labels("class", [0, 1, 2])
    sums = source.aggregate(KillingMoments(clip=240.0), columns=COLUMNS, group=classes)
    reference = here.aggregate(Moments(clip=240.0), columns=COLUMNS, group=classes)

    ledger = Ledger.create(FOLDER / "ledger")
    homes = [f"home {number}" for number in range(4)]
    for home in homes:
        ledger.open_account(home, epsilon=2, delta=1e-5, adjacency=Adjacency.add_remove("day"))
    first = households(source, dies_once, "June")
    again = households(here, mean_load, "June")  # what is stored is given again, wherever the job runs
    debits = [len(ledger.entries(home)) for home in homes]
    refused = ""
    if "for-good" in sys.argv:
        try:
            households(source, dies_always, "July")
        except SourceError as error:
            refused = str(error)
    outcome = {
        "killed": sorted(path.name for path in FOLDER.glob("killed-*")),
        "same_sums": limbs(sums) == limbs(reference),
        "homes": [home for home, _ in first],
        "values": len({value for _, value in first}),
        "same_values": first == again,
        "debits": debits,
        "refused": refused,
        "debits_after_failure": [len(ledger.entries(home)) for home in homes],
    }
    (FOLDER / "outcome.json").write_text(json.dumps(outcome), encoding="utf-8")
    session.stop()


if __name__ == "__main__":
    main()
