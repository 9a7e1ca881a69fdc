"""Whoever opens the same account a second time, under a name that people or programs read as the first."""

from __future__ import annotations

import contextlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gaussveil.accounting import Account, Adjacency, Charge, Ledger
from gaussveil.accounting.ledger.journal import record_event
from gaussveil.cli.main import app
from gaussveil.errors import AccountNotFoundError, GaussveilError, ParameterError
from gaussveil.spectrum import GaussianPair

HOME = Adjacency.add_remove("home")
TERMS = {"epsilon": 1.0, "delta": 1e-4}
CYRILLIC_O, NO_WIDTH = "\u043e", "\u200b"
LOOK_ALIKE = {
    "a space behind": "caf\u00e9 homes ",
    "a space before": "\u3000caf\u00e9 homes",
    "two spaces": "caf\u00e9  homes",
    "a hard space": "caf\u00e9\u00a0homes",
    "capitals": "CAF\u00c9 HOMES",
    "a capital": "Caf\u00e9 homes",
    "another script": f"caf\u00e9 h{CYRILLIC_O}mes",
    "no width": f"caf\u00e9 ho{NO_WIDTH}mes",
    "a soft hyphen": "caf\u00e9 ho\u00admes",
    "a joiner": "caf\u00e9 ho\u034fmes",
    "a mark of direction": "caf\u00e9 homes\u200e",
    "a variant": "caf\u00e9 homes\ufe0f",
    "composed otherwise": "cafe\u0301 homes",
    "full width": "caf\u00e9 \uff48\uff4f\uff4d\uff45\uff53",
    "two letters for one": "caf\u00e9 hornes",
    "a digit": "caf\u00e9 h0mes",
    "phonetic": "caf\u00e9 hom\u0250s",
}


def shift(size: float = 0.3) -> Charge:
    return Charge(GaussianPair.mean_shift(size))


@pytest.mark.parametrize("name", LOOK_ALIKE.values(), ids=list(LOOK_ALIKE))
def test_one_name_one_budget(tmp_path: Path, name: str) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("caf\u00e9 homes", **TERMS)
    with pytest.raises(GaussveilError):
        ledger.open_account(name, **TERMS)
    ledger.open_account("flats", **TERMS)
    assert len(ledger.accounts()) == 2


PUNCTUATION = (
    "-\u2013\u2212\u30fc",
    "'\u2019\u2032",
    ".\u00b7\u2027",
    ":\ua789\u2236",
    "*\u2217\u204e",
    "~\u02dc\u223c",
    "l1I|\u05c0",
    "o0O",
)


@pytest.mark.parametrize("alike", PUNCTUATION)
def test_signs_that_look_alike_make_no_second_name(tmp_path: Path, alike: str) -> None:
    for one in alike:
        for other in alike:
            ledger = Ledger.create(tmp_path / f"{ord(one):x} {ord(other):x}.ledger")
            with contextlib.suppress(ParameterError):  # letters that no name may hold
                ledger.open_account(f"a{one}b", **TERMS)
                with pytest.raises(GaussveilError):
                    ledger.open_account(f"a{other}b", **TERMS)
                assert len(ledger.accounts()) == 1


def test_a_whole_name_in_another_script_is_told_from_the_first(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    ledger.open_account("HOPE", **TERMS)
    with pytest.raises(GaussveilError, match=r"'HOPE' already"):
        ledger.open_account("\u041d\u041e\u0420\u0415", **TERMS)
    for name in (
        "\u0434\u043e\u043c\u0430",
        "\u03c3\u03c0\u03af\u03c4\u03b9\u03b1",
        "\u5bb6\u5ead",
        "\u30b5\u30fc\u30d0\u30fc",
        "Stra\u00dfe 7",
        "homes 1",
        "homes 2",
        "homes 11",
    ):
        assert ledger.open_account(name, **TERMS).name == name


def test_every_spelling_pays_from_the_one_account(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    opened = ledger.open_account(" caf\u00e9  homes", **TERMS)
    assert ledger.accounts() == ["caf\u00e9 homes"]
    for name in ("caf\u00e9 homes", "cafe\u0301 homes ", "caf\u00e9\u00a0homes"):
        assert Account(ledger.path, name) == opened
        ledger.debit(name, shift(0.01), HOME)
        assert {event.account for event in ledger.history(name)} == {"caf\u00e9 homes"}
    assert len(ledger.entries("cafe\u0301 homes")) == 3
    ledger.check()


def test_an_older_ledger_keeps_its_names_and_shows_them_apart(tmp_path: Path) -> None:
    """Opened before names had one spelling: each is read and pays as before, and is printed as no other is."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    odd = [f"h{CYRILLIC_O}mes", f"ho{NO_WIDTH}mes", "cafe\u0301 "]
    ledger.open_account("homes", **TERMS)
    for number, name in enumerate(odd):
        ledger.open_account(f"new {number}", **TERMS)
        with closing(sqlite3.connect(ledger.path)) as connection, connection:
            connection.execute("UPDATE accounts SET name = ? WHERE name = ?", (name, f"new {number}"))
            connection.execute("UPDATE events SET account = ? WHERE account = ?", (name, f"new {number}"))
            record_event(connection, name, "", "renamed")
    for name in odd:
        ledger.debit(Account(ledger.path, name).name, shift(0.01), HOME)
        assert [entry.account for entry in ledger.entries(name)] == [name]
    listed = CliRunner().invoke(app, ["budget", "show", str(ledger.path)]).output
    with pytest.raises(AccountNotFoundError) as refused:
        ledger.terms("flats")
    for text in (listed, str(refused.value), str(ledger._facts())):
        for spelt in ("h\\u043emes", "ho\\u200bmes", "cafe\\u0301"):
            assert spelt in text.replace("\\\\", "\\")
        assert NO_WIDTH not in text
        assert CYRILLIC_O not in text


def test_the_command_refuses_a_second_name(tmp_path: Path) -> None:
    path = str(tmp_path / "spent.ledger")
    words = ["--epsilon", "1", "--delta", "1e-4", "--json"]
    first = CliRunner().invoke(app, ["budget", "new", path, "--account", "homes ", *words])
    assert json.loads(first.stdout)["account"] == "homes"
    for name in ("HOMES", f"ho{NO_WIDTH}mes", f"h{CYRILLIC_O}mes"):
        found = CliRunner().invoke(app, ["budget", "new", path, "--account", name, *words])
        assert found.exit_code != 0
    assert Ledger(path).accounts() == ["homes"]
