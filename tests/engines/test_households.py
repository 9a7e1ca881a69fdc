"""A release per household: at most one debit and one value that anybody sees, whatever fails in between."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from gaussveil.accounting import Account, Adjacency, Ledger, Release, verify
from gaussveil.accounting.certificates.values import digest_of
from gaussveil.engines import open, release_households
from gaussveil.engines.households import ReleaseStore, release_id
from gaussveil.errors import AssumptionError, BudgetExceededError, ParameterError, SourceError
from gaussveil.mechanisms import GaussianRelease
from gaussveil.statistics import Source

pytestmark = pytest.mark.xdist_group("spark")

Opener = Callable[[Path], Source]
HOMES = ["a", "b", "c", "d"]


@pytest.fixture(scope="module")
def readings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("homes") / "readings.parquet"
    pq.write_table(pa.table({"home": HOMES * 6, "hour": np.arange(24), "kw": np.arange(24) / 10}), path)
    return path


@pytest.fixture
def one_task(spark: Any) -> Iterator[Any]:
    """A session that runs all households as one task: what dies is started again as rarely as possible."""
    spark.conf.set("spark.sql.shuffle.partitions", "1")
    yield spark
    spark.conf.set("spark.sql.shuffle.partitions", "8")


@pytest.fixture
def account(tmp_path: Path) -> Account:
    """One account for each home; the handle's name stands for all of them."""
    ledger = Ledger.create(tmp_path / "homes.ledger")
    for home in HOMES:
        ledger.open_account(f"home {home}", epsilon=1.1, delta=1e-5, adjacency=Adjacency.add_remove("day"))
    return Account(ledger.path, "home {household}")


def noisy_mean(mark: Path | None = None) -> Callable[[pa.Table], Release[Any]]:
    """What runs on the workers; with a mark, the worker of home c dies once, after it has drawn."""

    def release(rows: pa.Table) -> Release[Any]:
        value = [float(np.mean(rows["kw"].to_numpy()))]
        mechanism = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=0.5, adjacency=Adjacency.add_remove("day"))
        drawn = mechanism.release(value)
        if mark is not None and rows["home"][0].as_py() == "c" and not mark.exists():
            mark.touch()
            os._exit(1)
        return drawn

    return release


def entries(account: Account) -> dict[str, list[str]]:
    ledger = Ledger(account.ledger)
    return {home: [entry.state for entry in ledger.entries(f"home {home}")] for home in HOMES}


def test_each_household_pays_once_and_a_second_run_gives_the_same_bytes(
    opener: Opener, readings: Path, account: Account, tmp_path: Path
) -> None:
    source = opener(readings)

    def run(job: str) -> list[tuple[str, Release[Any]]]:
        terms = {"by": "home", "job": job, "store": tmp_path / "store", "order": ["hour"], "account": account}
        return list(release_households(source, noisy_mean(), **terms))

    first = run("mean of June")
    assert [home for home, _ in first] == HOMES
    assert all(verify(release.certificate).private for _, release in first)
    assert [release.certificate.account for _, release in first] == [f"home {home}" for home in HOMES]
    assert [release.certificate.values for _, release in first] == [digest_of(release.value) for _, release in first]
    assert len({float(release.value[0]) for _, release in first}) == 4
    again = run("mean of June")
    assert [release.value.tobytes() for _, release in again] == [release.value.tobytes() for _, release in first]
    assert [release.certificate.release_id for _, release in again] == [
        release_id(ReleaseStore(tmp_path / "store").name, Account(account.ledger, f"home {home}"), "mean of June", home)
        for home in HOMES
    ]
    assert entries(account) == {home: ["released"] for home in HOMES}
    with pytest.raises(BudgetExceededError):
        run("mean of July")
    assert entries(account) == {home: ["released"] for home in HOMES}
    assert (tmp_path / "store").stat().st_mode & 0o077 == 0


def test_a_task_that_dies_after_its_draw_is_repeated_without_a_second_debit(
    one_task: Any, readings: Path, account: Account, tmp_path: Path
) -> None:
    source, mark = open(readings, engine="spark", session=one_task), tmp_path / "died"
    terms = {"by": "home", "job": "mean", "store": tmp_path / "store", "account": account}
    first = list(release_households(source, noisy_mean(mark=mark), **terms))
    assert mark.exists()
    assert entries(account) == {home: ["released"] for home in HOMES}
    again = list(release_households(source, noisy_mean(), **terms))
    assert [release.value.tobytes() for _, release in again] == [release.value.tobytes() for _, release in first]
    assert entries(account) == {home: ["released"] for home in HOMES}


def test_a_job_that_fails_for_good_spends_and_shows_nothing(one_task: Any, readings: Path, account: Account) -> None:
    def fails(rows: pa.Table) -> Release[Any]:
        noisy_mean()(rows)
        raise ValueError("after the draw")

    source = open(readings, engine="spark", session=one_task)
    store = Path(account.ledger).parent / "store"
    with pytest.raises(SourceError, match="a task failed"):
        list(release_households(source, fails, by="home", job="mean", store=store, account=account))
    assert entries(account) == {home: [] for home in HOMES}
    assert ReleaseStore(store).identifiers() == frozenset()


def test_a_driver_that_died_between_debit_and_store_goes_on_under_the_same_debit(
    readings: Path, account: Account, tmp_path: Path
) -> None:
    source, ledger = open(readings), Ledger(account.ledger)
    certificate = noisy_mean()(pq.read_table(readings).slice(0, 1)).certificate
    name = ReleaseStore(tmp_path / "store").name
    for home in "ab":
        paying = Account(account.ledger, f"home {home}")
        identifier = release_id(name, paying, "m", home)
        ledger.debit(paying.name, certificate.charge, certificate.adjacency, release_id=identifier)
    ledger.mark_drawing(release_id(name, paying, "m", "b"))  # a is debited, b was being drawn, nothing was stored
    terms = {"by": "home", "job": "m", "store": tmp_path / "store", "account": account}
    found = dict(release_households(source, noisy_mean(), **terms))
    assert sorted(found) == HOMES
    assert entries(account) == {home: ["released"] for home in HOMES}


def test_another_store_is_another_release(readings: Path, account: Account, tmp_path: Path) -> None:
    """What a lost or another store gave out is not known: a second value is never drawn under the first one's debit."""
    source, terms = open(readings), {"by": "home", "job": "m", "account": account}
    list(release_households(source, noisy_mean(), store=tmp_path / "store", **terms))
    with pytest.raises(BudgetExceededError):
        list(release_households(source, noisy_mean(), store=tmp_path / "other", **terms))
    assert entries(account) == {home: ["released"] for home in HOMES}


def test_the_first_stored_value_wins(tmp_path: Path) -> None:
    one, other = ReleaseStore(tmp_path / "store"), ReleaseStore(tmp_path / "store")
    assert one.keep("id", (b"first", "{}")) == (b"first", "{}")
    assert other.keep("id", (b"second", "{}")) == (b"first", "{}")
    (tmp_path / "broken").write_bytes(b"no database" * 100)
    with pytest.raises(SourceError, match="store"):
        ReleaseStore(tmp_path / "broken")


def test_mistakes_are_refused_before_anything_is_spent(readings: Path, account: Account, tmp_path: Path) -> None:
    source, store = open(readings), tmp_path / "store"

    def paid(rows: pa.Table) -> Release[Any]:
        own = Account(account.ledger, "home a")
        return GaussianRelease(
            epsilon=1.0, delta=1e-6, l2_sensitivity=1.0, account=own, adjacency=Adjacency.add_remove("day")
        ).release([0.0])

    with pytest.raises(ParameterError, match="Release"):
        list(release_households(source, lambda rows: 1.0, by="home", job="m", store=store, account=account))  # type: ignore[arg-type, return-value]
    with pytest.raises(ParameterError, match="job"):
        list(release_households(source, noisy_mean(), by="home", job=" ", store=store))
    assert entries(account) == {home: [] for home in HOMES}
    with pytest.raises(AssumptionError, match="must not pay by itself"):
        list(release_households(source, paid, by="home", job="m", store=store, account=account))
