"""A command that was killed after its debit finds its release again: one entry, one value, whatever fails between."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Adjacency, Ledger
from gaussveil.cli.main import app
from gaussveil.mechanisms import TableRelease

# Ends the process, as kill -9 does, when everything is drawn and nothing is written; what was drawn is noted for us.
KILLED = """
import os, sys
from gaussveil.cli.main import main
from gaussveil.mechanisms import release_path
from gaussveil.mechanisms.table.release import TableRelease
published = TableRelease._publish
def killed(self, *given, **more):
    release = published(self, *given, **more)
    with open("drawn", "w") as file:
        file.write(repr(release.value.to_pydict()))
    os.kill(os.getpid(), 9)
TableRelease._publish = killed
main()
"""
ASKED = ("--unit", "home", "--mean", "kw", "--between", "0,3", "--epsilon", "1", "--delta", "1e-6")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    table = pa.table({"home": [f"h{k % 60}" for k in range(600)], "kw": np.arange(600) / 300})
    pa.csv.write_csv(table, tmp_path / "t.csv")
    pq.write_table(table, tmp_path / "t.parquet")
    ledger = Ledger.create(tmp_path / "b.ledger")
    ledger.open_account("a", epsilon=5, delta=1e-4, adjacency=Adjacency.add_remove("home"))
    return tmp_path


def words(table: str, out: str, *more: str) -> list[str]:
    return ["query", table, *ASKED, "--ledger", "b.ledger", "--account", "a", "--out", out, *more]


def killed(*asked: str) -> str:
    """What a process had drawn when it was killed."""
    ended = subprocess.run([sys.executable, "-c", KILLED, *asked], capture_output=True, check=False, timeout=300)
    assert ended.returncode == -9, ended.stderr
    return Path("drawn").read_text()


def states() -> list[str]:
    return [entry.state for entry in Ledger("b.ledger").entries("a")]


def notes() -> list[Path]:
    return sorted(Path().glob("b.ledger-unfinished-*"))


def test_the_release_of_a_killed_process_is_found_again(folder: Path) -> None:
    drawn = [killed(*words("t.csv", "o.csv")) for _ in range(2)]
    assert drawn[0] == drawn[1]  # killed twice, and paid once
    assert states() == ["drawing"] or states() == ["released"]
    (note,) = notes()
    assert stat.S_IMODE(note.stat().st_mode) == 0o600
    found = CliRunner().invoke(app, words("t.csv", "o.csv"))
    assert found.exit_code == 0, found.output
    assert "found again" in found.output
    assert states() == ["released"]
    assert notes() == []
    assert repr(pa.csv.read_csv("o.csv").to_pydict()) == drawn[0]
    certificate = json.loads(Path("o.csv.certificate.json").read_text())
    assert certificate["release"]["id"] == Ledger("b.ledger").entries("a")[0].id
    assert certificate["guarantee"]["kind"] == "worst case"


def test_another_table_option_or_file_is_another_release(folder: Path) -> None:
    killed(*words("t.csv", "o.csv"))
    with open("t.csv", "a") as file:
        file.write("V,1\n")
    assert CliRunner().invoke(app, words("t.csv", "o.csv")).exit_code == 0
    assert CliRunner().invoke(app, words("t.csv", "other.csv")).exit_code == 0
    assert len(states()) == 3
    values = [Path(name).read_text() for name in ("o.csv", "other.csv")]
    assert values[0] != values[1]


def test_an_id_that_was_asked_for_is_kept_and_refused_to_others(folder: Path) -> None:
    killed(*words("t.csv", "o.csv", "--release-id", "june"))
    refused = CliRunner().invoke(app, words("t.csv", "other.csv", "--release-id", "june"))
    assert "debited once" in str(refused.exception)
    assert CliRunner().invoke(app, words("t.csv", "o.csv", "--release-id", "june")).exit_code == 0
    assert [entry.id for entry in Ledger("b.ledger").entries("a")] == ["june"]


def test_what_was_refused_before_its_debit_leaves_nothing(folder: Path) -> None:
    refused = CliRunner().invoke(app, [*words("t.csv", "o.csv"), "--epsilon", "50"])
    assert refused.exit_code != 0
    assert states() == []
    assert notes() == []


@pytest.mark.full
def test_a_driver_of_spark_that_was_killed_leaves_nothing_but_its_release(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With processes of its own: Java ends with its driver, and the next start sweeps what was left on disk."""
    place = folder / "spilled"
    place.mkdir()
    monkeypatch.setenv("TMPDIR", str(place))
    asked = words("t.csv", "o.csv", "--engine", "spark")
    drawn = killed(*asked)
    left = {path.name for path in place.glob("gaussveil-spill-*")}
    assert left
    assert all(stat.S_IMODE(path.stat().st_mode) == 0o700 for path in place.glob("gaussveil-spill-*"))
    again = subprocess.run(
        [sys.executable, "-c", "from gaussveil.cli.main import main; main()", *asked],
        capture_output=True,
        check=False,
        timeout=300,
        text=True,
    )
    assert again.returncode == 0, again.stderr
    assert "found again" in again.stderr
    assert repr(pa.csv.read_csv("o.csv").to_pydict()) == drawn
    assert states() == ["released"]
    assert not left & {path.name for path in place.glob("gaussveil-spill-*")}


@pytest.mark.xdist_group("spark")
@pytest.mark.parametrize("name", ["t.csv", "t.parquet"])
def test_a_driver_of_spark_finds_its_release_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch, spark: Any, name: str
) -> None:
    asked = words(name, "o.csv", "--engine", "spark")
    publish, drawn = TableRelease._publish, []

    def interrupted(self: TableRelease, *given: Any, **more: Any) -> Any:
        drawn.append(publish(self, *given, **more).value)
        raise KeyboardInterrupt

    monkeypatch.setattr(TableRelease, "_publish", interrupted)
    assert CliRunner().invoke(app, asked).exit_code != 0
    assert not os.path.exists("o.csv")
    monkeypatch.setattr(TableRelease, "_publish", publish)
    found = CliRunner().invoke(app, asked)
    assert found.exit_code == 0, found.output
    assert pa.csv.read_csv("o.csv").to_pydict() == drawn[0].to_pydict()
    assert len(states()) == 1
