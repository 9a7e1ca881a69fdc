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
from gaussveil.engines import release_households
from gaussveil.engines.households import ReleaseStore
from gaussveil.errors import LedgerStateError

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
