"""Backups of a ledger and a gateway in use, and what a restored one may not do."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Account, Ledger
from gaussveil.cli.main import app
from gaussveil.errors import AssumptionError, FormatError, ParameterError
from gaussveil.mechanisms import MeterStream
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.backup import restore_backup, verify_backup, write_backup
from gaussveil.streaming.service import open_gateway

from .test_gateway import outputs, say


@pytest.fixture
def served(tmp_path: Path) -> tuple[Path, Path]:
    """A ledger with one account, and a file of one meter that it paid for."""
    ledger = Ledger.create(tmp_path / "homes.ledger")
    ledger.open_account("m1", epsilon=3.0, delta=1e-4)
    return ledger.path, write_meters([paid(ledger.path)], tmp_path / "meter.json")


def paid(ledger: Path) -> Meter:
    account = Account(ledger, "m1")
    stream = MeterStream.design(
        sample_period="1h", epsilon=1.0, delta=1e-5, event=(0.5, "2h"), purpose="billing", account=account
    )
    return Meter("m1", stream.design_, stream.open())


def test_a_restored_gateway_answers_only_what_was_never_answered(served: tuple[Path, Path], tmp_path: Path) -> None:
    ledger, meters = served
    gateway = open_gateway(meters)
    first = outputs(gateway, say("m1", 0, *np.ones(40)))
    made = write_backup(tmp_path / "b.tar", ledger, meters)  # while it runs
    assert (tmp_path / "b.tar").stat().st_mode & 0o077 == 0
    outputs(gateway, say("m1", 40, *np.ones(10)))
    gateway.state.close()
    assert verify_backup(tmp_path / "b.tar", ledger=ledger).ledger_head == made.ledger_head
    restore_backup(tmp_path / "b.tar", tmp_path / "anew")
    restored = tmp_path / "anew" / "meters.json"
    with pytest.raises(AssumptionError, match="answered since is not known"):
        open_gateway(restored)
    with pytest.raises(ParameterError, match="40 or later"):
        open_gateway(restored, reset_from=39)
    after = open_gateway(restored, reset_from=50)
    assert outputs(after, say("m1", 45, 1.0), say("m1", 50, 1.0))[0] == []
    after.state.close()
    restore_backup(tmp_path / "b.tar", tmp_path / "moved", moved=True)
    moved = open_gateway(tmp_path / "moved" / "meters.json")
    assert outputs(moved, say("m1", 0, *np.ones(40))) == first
    moved.state.close()
    Ledger(tmp_path / "moved" / "ledger").check()
    with pytest.raises(ParameterError, match="new or empty"):
        restore_backup(tmp_path / "b.tar", tmp_path / "moved")


def test_a_rollback_of_the_ledger_is_seen(served: tuple[Path, Path], tmp_path: Path) -> None:
    ledger, _ = served
    write_backup(tmp_path / "b.tar", ledger, None)
    later = paid(ledger).certificate
    (tmp_path / "later.json").write_text(later.to_json())
    with pytest.raises(AssumptionError, match=r"later\.json among them"):
        verify_backup(tmp_path / "b.tar", [tmp_path / "later.json"])
    verify_backup(tmp_path / "b.tar", ledger=ledger)
    write_backup(tmp_path / "newer.tar", ledger, None)
    restore_backup(tmp_path / "b.tar", tmp_path / "old")
    with pytest.raises(AssumptionError, match="rolled back"):
        verify_backup(tmp_path / "newer.tar", ledger=tmp_path / "old" / "ledger")


@pytest.mark.parametrize("name", ["a#b.ledger", "a?b.ledger", "50%25.ledger"])
def test_a_ledger_of_any_name_is_backed_up(name: str, tmp_path: Path) -> None:
    Ledger.create(tmp_path / name).open_account("a", epsilon=1.0, delta=1e-5)
    assert write_backup(tmp_path / "b.tar", tmp_path / name, None).ledger_events == 1


def test_damaged_and_foreign_archives_are_refused(served: tuple[Path, Path], tmp_path: Path) -> None:
    ledger, meters = served
    open_gateway(meters).state.close()
    archive = tmp_path / "b.tar"
    write_backup(archive, ledger, meters)
    body = archive.read_bytes()
    for place in range(600, len(body) - 10240, len(body) // 25):
        if body[place]:
            archive.write_bytes(body[:place] + bytes([body[place] ^ 4]) + body[place + 1 :])
            with pytest.raises(FormatError):
                verify_backup(archive)
    for harm in (body[: len(body) // 2], b"", b"no archive"):
        archive.write_bytes(harm)
        with pytest.raises(FormatError):
            verify_backup(archive)
    with tarfile.open(archive, "w") as opened:
        opened.add(meters, "../outside")
    with pytest.raises(FormatError, match="not a backup"):
        restore_backup(archive, tmp_path / "x")
    assert not (tmp_path / "outside").exists()


def test_the_commands(served: tuple[Path, Path], tmp_path: Path) -> None:
    ledger, meters = served
    archive = tmp_path / "b.tar"

    def run(*words: object) -> dict[str, object]:
        done = CliRunner().invoke(app, [*map(str, words), "--json"], catch_exceptions=False)
        return dict(json.loads(done.stdout))

    assert run("backup", archive, "--ledger", ledger, "--meters", meters)["ledger_events"]
    assert run("restore", archive, "--verify", "--ledger", ledger)["to"] is None
    assert run("restore", archive, "--verify", "--to", tmp_path / "anew")["to"] == str(tmp_path / "anew")
    for words in (("restore", archive), ("backup", archive, "--ledger", ledger), ("backup", tmp_path / "c.tar")):
        done = CliRunner().invoke(app, [*map(str, words)])
        assert isinstance(done.exception, ParameterError)
