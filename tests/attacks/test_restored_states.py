"""Whoever restores an older copy of a durable state and runs again: no second value for one debit."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import gaussveil
from gaussveil import GaussianRelease
from gaussveil.accounting import Account, Adjacency, Ledger, Release
from gaussveil.accounting.debits import release_id_given
from gaussveil.engines import release_households
from gaussveil.engines.households import ReleaseStore
from gaussveil.errors import AssumptionError, LedgerStateError, SourceError
from gaussveil.mechanisms import MeterFleet, MeterStream
from gaussveil.streaming import FleetGateway, Message, Meter, write_meters
from gaussveil.streaming.replay import MeterReplay
from gaussveil.streaming.service import open_gateway

DAY = Adjacency.add_remove("day")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return Ledger.create(tmp_path / "homes.ledger").open_account("homes", epsilon=20.0, delta=1e-3, adjacency=DAY)


def mean(rows: pa.Table) -> Release[Any]:
    mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, adjacency=DAY)
    return mechanism.release([float(np.mean(rows["kw"].to_numpy()))])


def table(folder: Path, columns: dict[str, Any]) -> Any:
    pq.write_table(pa.table(columns), folder / "readings.parquet")
    return gaussveil.open(folder / "readings.parquet")


def run(folder: Path, account: Account | None) -> list[tuple[str, Release[Any]]]:
    source = table(folder, {"home": ["a", "b"] * 3, "kw": np.arange(6.0)})
    terms = {"by": "home", "job": "mean", "store": folder / "store", "account": account}
    return list(release_households(source, mean, **terms))


@pytest.mark.parametrize("before", ["an empty store", "some other job", "half of the job"])
def test_an_older_store_of_households_draws_nothing_anew(tmp_path: Path, account: Account, before: str) -> None:
    if before == "an empty store":
        ReleaseStore(tmp_path / "store")
    elif before == "some other job":
        source = table(tmp_path, {"home": ["a", "b"], "kw": [1.0, 2.0]})
        list(release_households(source, mean, by="home", job="other", store=tmp_path / "store", account=account))
    else:
        source = table(tmp_path, {"home": ["a"] * 3, "kw": [0.0, 2.0, 4.0]})
        list(release_households(source, mean, by="home", job="mean", store=tmp_path / "store", account=account))
    backup = shutil.copyfile(tmp_path / "store", tmp_path / "backup")
    first = {home: release.value.tobytes() for home, release in run(tmp_path, account)}
    newest = shutil.copyfile(tmp_path / "store", tmp_path / "newest")
    spent = len(Ledger(account.ledger).entries("homes"))
    for _ in range(5):
        shutil.copyfile(backup, tmp_path / "store")
        with pytest.raises(LedgerStateError, match="paid for another value"):
            run(tmp_path, account)
    shutil.copyfile(newest, tmp_path / "store")
    assert {home: release.value.tobytes() for home, release in run(tmp_path, account)} == first
    assert len(Ledger(account.ledger).entries("homes")) == spent
    Ledger(account.ledger).check()


@pytest.fixture(scope="module")
def meter() -> Meter:
    stream = MeterStream.design(
        sample_period="1h", epsilon=1.0, delta=1e-5, event=(0.5, "2h"), purpose="energy", substitute=0.5
    )
    return Meter("meter", stream.design_, stream.open())


@pytest.fixture
def meters_file(meter: Meter, tmp_path: Path) -> Path:
    (tmp_path / "gateway").mkdir()
    return write_meters((meter,), tmp_path / "gateway" / "meter.json")


def answered(file: Path, *numbers: int, folder: Path | None = None) -> list[float]:
    gateway = open_gateway(file, folder)
    try:
        answers = gateway.answer([Message("meter", number, np.array([1.0])) for number in numbers])
        return [float(value) for answer in answers for _, values in answer.runs for value in values]
    finally:
        gateway.state.abandon()  # as a crash does


def test_a_gateway_answers_no_reading_from_an_older_state(meters_file: Path) -> None:
    state, backup = meters_file.with_suffix(".state"), meters_file.with_name("backup")
    answered(meters_file, 0)
    shutil.copytree(state, backup)
    first = answered(meters_file, 1, 2)
    newest = shutil.copytree(state, meters_file.with_name("newest"))
    for _ in range(3):
        shutil.rmtree(state)
        shutil.copytree(backup, state)
        with pytest.raises(AssumptionError, match="older copy"):
            answered(meters_file, 1, 2)
    shutil.rmtree(state)
    shutil.copytree(newest, state)
    assert answered(meters_file, 1, 2) == first


def test_a_gateway_answers_nothing_from_copies(meters_file: Path, tmp_path: Path) -> None:
    answered(meters_file, 0)
    for name, left_out in (("whole", []), ("without its mark", ["meter.json.started"])):
        folder = tmp_path / name
        shutil.copytree(meters_file.parent, folder, ignore=shutil.ignore_patterns(*left_out))
        with pytest.raises(AssumptionError, match="cop"):
            answered(folder / "meter.json", 1)
    gateway = open_gateway(meters_file)
    shutil.copytree(meters_file.with_suffix(".state"), tmp_path / "other.state")
    with pytest.raises(SourceError, match="another state folder"):
        answered(meters_file, 1, folder=tmp_path / "other.state")
    gateway.state.close()


def summed(folder: Path, *numbers: int, fleet: MeterFleet | None = None) -> list[float]:
    gateway = FleetGateway(folder, fleet=fleet, meters=("a", "b") if fleet is not None else ())
    try:
        given = [Message(meter, number, np.array([0.5])) for number in numbers for meter in "ab"]
        return [float(value) for answer in gateway.answer(given) for _, values in answer.runs for value in values]
    finally:
        gateway.state.close()


def test_a_fleet_draws_no_sum_from_an_older_folder_or_a_copy(tmp_path: Path) -> None:
    folder, backup = tmp_path / "fleet", tmp_path / "backup"
    made = MeterFleet.design(sample_period="1h", epsilon=5.0, delta=1e-5, home="1h", limits=(0.0, 1.0))
    summed(folder, 0, fleet=made)
    shutil.copytree(folder, backup)
    assert summed(folder, 1, 2)
    with pytest.raises(AssumptionError, match="copy"):
        summed(backup, 1, 2)
    shutil.rmtree(folder)
    shutil.copytree(backup, folder)
    with pytest.raises(AssumptionError, match="older copy"):
        summed(folder, 1, 2)


def test_an_older_checkpoint_of_spark_gives_the_same_bytes(meter: Meter) -> None:
    """Spark's state is restored by Spark itself: the noise is a function of what was answered, not drawn again."""
    secret, replay = bytes(range(32)), MeterReplay(meter)
    checkpoint, _ = replay.answer(secret, None, [(0, 1.0)])
    runs = [replay.answer(secret, checkpoint, [(1, 2.0), (2, 3.0)]) for _ in range(3)]
    values = [[value for answer in answers for _, run in answer.runs for value in run.tolist()] for _, answers in runs]
    assert values[0] == values[1] == values[2]
    assert len(values[0]) == 2
    assert runs[0][0] == runs[1][0] == runs[2][0]


def test_a_job_of_the_studio_is_drawn_once_whatever_its_folder_says(account: Account) -> None:
    """Its folder names jobs by the ids of their debits; restored, it asks for an id that was drawn already."""
    mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, adjacency=DAY, account=account)
    with release_id_given("job"):
        mechanism.release([1.0])
    with release_id_given("job"), pytest.raises(LedgerStateError, match="fresh noise"):
        mechanism.release([1.0])
