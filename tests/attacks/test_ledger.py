"""Whoever can write the ledger's file, or move it: what was changed behind the library's back pays for nothing."""

from __future__ import annotations

import json
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from gaussveil.accounting import Account, Adjacency, Certificate, CertificateDraft, Charge, Ledger, transaction
from gaussveil.accounting.ledger.against import compare
from gaussveil.cli.budget import budget_app
from gaussveil.errors import GaussveilError, LedgerCorruptError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
DRAFT = CertificateDraft(released="mean", mechanism="m", adjacency=HOME, epsilon=1.0, delta=0.1)
FORK = multiprocessing.get_context("fork")


def shift(size: float = 0.3) -> Charge:
    return Charge(GaussianPair.mean_shift(size))


def release(account: Account, charge: Charge | None = None) -> Certificate:
    with transaction(account, charge or shift(), DRAFT) as debit:
        debit.draw(lambda: 0)
    return debit.certificate


def edit(path: Path, *statements: str) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement in statements:
            assert connection.execute(statement).rowcount >= 1


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=1.0, delta=1e-4)


EDITS = {
    "a debit made void": "UPDATE entries SET state = 'void'",
    "a debit removed": "DELETE FROM entries",
    "a cheaper charge": "UPDATE entries SET charge = (SELECT charge FROM plan)",
    "a debit of another account": "UPDATE entries SET account = 2",
    "a larger epsilon": "UPDATE accounts SET epsilon = 10 WHERE name = 'homes'",
    "a larger delta": "UPDATE accounts SET delta = 0.9 WHERE name = 'homes'",
    "a larger share": "UPDATE accounts SET sampler_share = 0.9 WHERE name = 'homes'",
    "an open filter": "UPDATE accounts SET active_filter = NULL WHERE name = 'homes'",
    "an empty filter": "UPDATE balances SET used = NULL WHERE account = 1",
    "a fuller filter emptied": "UPDATE balances SET used = zeroblob(24) WHERE account = 1",
    "a mark wiped": "UPDATE balances SET changes = changes - 1 WHERE account = 1",
    "the last line removed": "DELETE FROM events WHERE seq = (SELECT MAX(seq) FROM events WHERE account = 'homes')",
    "the last line rewritten": "UPDATE events SET account_state = 'x' WHERE account = 'homes'",
    "all lines removed": "DELETE FROM events WHERE account = 'homes'",
}


@pytest.mark.parametrize("statement", EDITS.values(), ids=list(EDITS))
def test_an_edited_account_pays_for_nothing(ledger: Ledger, account: Account, statement: str) -> None:
    ledger.open_account("other", epsilon=1.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[shift(0.01)])
    before = Certificate.from_json(release(account, shift(0.2)).to_json())
    edit(ledger.path, statement)
    entries = sqlite3.connect(ledger.path).execute("SELECT COUNT(*) FROM entries").fetchone()
    for attempt in (
        lambda: release(account, shift(0.01)),
        lambda: ledger.debit("homes", shift(0.01), HOME),
        lambda: ledger.check_affordable("homes", shift(0.01), HOME),
        lambda: ledger.statement("homes"),
        lambda: ledger.mark_released(before.release_id) if "entries" not in statement else ledger.terms("homes"),
        ledger.check,
    ):
        with pytest.raises(LedgerCorruptError, match="restore a backup"):
            attempt()
    assert sqlite3.connect(ledger.path).execute("SELECT COUNT(*) FROM entries").fetchone() == entries


PLANNED = {
    "more places": "UPDATE plan SET count = 9",
    "places freed": "UPDATE plan SET used = 0",
    "another place": "INSERT INTO plan SELECT 1, digest, 5, 0 FROM charges WHERE digest <> (SELECT charge FROM plan)",
    "a draw forgotten": "DELETE FROM draws",
    "a draw renamed": f"UPDATE draws SET identity = '{'1' * 64}'",
}


@pytest.mark.parametrize("statement", PLANNED.values(), ids=list(PLANNED))
def test_an_edited_plan_or_draw_pays_for_nothing(ledger: Ledger, statement: str) -> None:
    drawn = Charge(GaussianPair.mean_shift(0.1), draw_identity="0" * 64)
    ledger.open_account("plan", epsilon=1.0, delta=1e-4, adjacency=HOME, rule="planned", plan=[(shift(0.1), 2)])
    ledger.debit("plan", drawn, HOME)
    ledger.debit(ledger.open_account("other", epsilon=9.0, delta=1e-4).name, shift(0.5), HOME)
    edit(ledger.path, statement)
    for charge in (shift(0.1), shift(0.5), drawn):
        with pytest.raises(LedgerCorruptError, match="do not agree"):
            ledger.debit("plan", charge, HOME)


def test_the_file_alone_holds_every_debit(ledger: Ledger, account: Account, tmp_path: Path) -> None:
    """Moved without its write-ahead log while others have it open, the file has forgotten nothing."""
    with closing(sqlite3.connect(ledger.path)) as other:
        other.execute("SELECT COUNT(*) FROM entries").fetchone()  # keeps the log alive
        for number in range(1, 6):
            release(account, shift(0.01))
            copy = tmp_path / f"copy-{number}"
            shutil.copyfile(ledger.path, copy)
            moved = Ledger(copy)
            moved.check()
            assert len(moved.entries("homes")) == number


def rewritten(path: Path) -> None:
    """Make the file consistent again after an edit, as somebody would who knows the code: a whole new chain."""
    from gaussveil.accounting.ledger.journal import LINE, account_state, chained

    with closing(sqlite3.connect(path)) as connection, connection:
        link, rows = "", connection.execute(f"SELECT seq, {LINE} FROM events ORDER BY seq").fetchall()
        last = {row[2]: row[0] for row in rows}
        for number, *line in rows:
            if last[line[1]] == number and line[1]:
                line[-1] = account_state(connection, line[1])
            link = chained(link, tuple(line))
            row = (line[4], line[5], link, number)
            connection.execute("UPDATE events SET detail = ?, account_state = ?, chain = ? WHERE seq = ?", row)


@pytest.fixture
def app() -> typer.Typer:
    made = typer.Typer()
    made.add_typer(budget_app)
    return made


def check(app: typer.Typer, ledger: Path, folder: Path) -> tuple[int, dict[str, object]]:
    words = ["budget", "check", str(ledger), "--against", str(folder), "--json"]
    found = CliRunner().invoke(app, words)
    return found.exit_code, json.loads(found.stdout)


def test_certificates_prove_that_a_ledger_was_restored_or_rewritten(
    ledger: Ledger, account: Account, tmp_path: Path, app: typer.Typer
) -> None:
    folder = tmp_path / "certificates"
    folder.mkdir()
    for number in range(3):
        release(account, shift(0.1)).write(folder / f"{number}.json")
        if number == 1:
            shutil.copyfile(ledger.path, tmp_path / "yesterday")
    (folder / "notes.json").write_text("{}")
    with transaction(None, shift(0.1), DRAFT) as unrecorded:
        unrecorded.draw(lambda: 0)
    unrecorded.certificate.write(folder / "unrecorded.json")
    code, answer = check(app, ledger.path, folder)
    assert (code, answer["compared"], answer["elsewhere"], answer["contradictions"]) == (0, 3, 1, [])

    code, answer = check(app, tmp_path / "yesterday", folder)
    assert code == 1
    assert [line.split(":")[0] for line in answer["contradictions"]] == ["2.json"]  # type: ignore[attr-defined]
    assert "an older copy was restored" in str(answer["contradictions"])
    # Gone on from the old copy, it has a line of that number again, but not that one.
    release(Account(tmp_path / "yesterday", "homes"), shift(0.1))
    code, answer = check(app, tmp_path / "yesterday", folder)
    assert code == 1
    assert "it was rewritten" in str(answer["contradictions"])

    # An owner who edits the terms and computes the whole chain anew is consistent, and still convicted.
    edit(
        ledger.path,
        "UPDATE accounts SET epsilon = 10 WHERE name = 'homes'",
        """UPDATE events SET detail = replace(detail, '"epsilon":1.0', '"epsilon":10.0') WHERE event = 'opened'""",
    )
    rewritten(ledger.path)
    ledger.check()
    ledger.debit("homes", shift(1.5), HOME)
    code, answer = check(app, ledger.path, folder)
    assert code == 1
    assert len(answer["contradictions"]) == 3  # type: ignore[arg-type]

    anew = Ledger.create(tmp_path / "anew")
    anew.open_account("homes", epsilon=1.0, delta=1e-4)
    code, answer = check(app, anew.path, folder)
    assert code == 1
    assert "made anew" in str(answer["contradictions"])
    stranger = Ledger.create(tmp_path / "stranger")
    stranger.open_account("flats", epsilon=1.0, delta=1e-4)
    assert check(app, stranger.path, folder)[1]["elsewhere"] == 4


def test_a_certificate_of_a_debit_that_was_never_drawn_convicts(ledger: Ledger, account: Account) -> None:
    held = release(account)
    edit(ledger.path, "UPDATE entries SET state = 'void'")
    assert "void" in compare(ledger, {"x": held}).problems[0]


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that other users can enter, which pytest's own are not."""
    folder = Path(tempfile.mkdtemp())
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def as_nobody(function: Callable[[], object]) -> str:
    """What a call returns, or how it fails, for a user who may read but not write."""
    parent, child = FORK.Pipe()

    def run() -> None:
        if os.getuid() == 0:
            os.setuid(65534)
        try:
            child.send(str(function()))
        except GaussveilError as error:
            child.send(f"{error.code} {error}")

    process = FORK.Process(target=run)
    process.start()
    process.join()
    assert process.exitcode == 0
    return str(parent.recv())


def test_a_ledger_can_be_read_in_a_folder_that_cannot_be_written(open_folder: Path, app: typer.Typer) -> None:
    ledger = Ledger.create(open_folder / "spent.ledger")
    account = ledger.open_account("homes", epsilon=1.0, delta=1e-4)
    certificate = release(account)
    ledger.path.chmod(0o444)
    open_folder.chmod(0o555)
    words = ["budget", "show", str(ledger.path), "--account", "homes"]
    assert certificate.release_id in as_nobody(lambda: CliRunner().invoke(app, words).output)
    assert "intact" in as_nobody(lambda: CliRunner().invoke(app, ["budget", "check", str(ledger.path)]).output)
    found = as_nobody(lambda: Ledger(ledger.path).debit("homes", shift(0.01), HOME))
    assert found.startswith("GV402")
    assert "permissions" in found
    assert [entry.id for entry in ledger.entries("homes")] == [certificate.release_id]
