"""Adversaries that every mechanism meets by being a law case: reuse, refusals, interrupts, forks, edited ledgers."""

from __future__ import annotations

import copy
import importlib.util
import json
import multiprocessing
import random
import shutil
import sqlite3
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.accounting import Account, Adjacency, Certificate, Ledger, Release, verify
from gaussveil.accounting.debits import release_id_given
from gaussveil.errors import AssumptionError, GaussveilError, LedgerCorruptError, LedgerStateError
from gaussveil.noise import SecureGenerator
from gaussveil.noise.generator import default_generator
from gaussveil.noise.keyed import KeyedGenerator

from ..laws.registry import CASES, MechanismCase
from ..new_accounts import new_account

pytestmark = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name, scope="module")

PROMISE = {"epsilon": 1.0, "delta": 0.2}
FORK = multiprocessing.get_context("fork")
VERIFIER = Path(__file__).parents[2] / "verifier" / "gaussveil_verifier.py"


@pytest.fixture
def account(tmp_path: Path) -> Account:
    return new_account(tmp_path)


def states(account: Account) -> list[str]:
    return [entry.state for entry in Ledger(account.ledger).entries(account.name)]


class Watched(SecureGenerator):
    """Counts what is drawn; on request breaks off in the middle."""

    def __init__(self, broken: bool = False) -> None:
        super().__init__()
        self.reads, self.broken = 0, broken

    def _read(self, count: int) -> bytearray:
        self.reads += 1
        if self.broken:
            raise KeyboardInterrupt
        return super()._read(count)


@dataclass(frozen=True)
class Paid:
    """One release of a case, and what there was before and after it."""

    account: Account
    release: Release[Any]
    data: Any
    before: Any


@pytest.fixture(scope="module")
def paid(case: MechanismCase, tmp_path_factory: pytest.TempPathFactory) -> Paid:
    account, data = new_account(tmp_path_factory.mktemp("paid")), copy.deepcopy(case.value)
    with release_id_given("once"):
        release = case.release(case.build(**PROMISE, account=account), data)
    return Paid(account, release, data, copy.deepcopy(case.value))


def test_an_edited_ledger_releases_nothing(case: MechanismCase, paid: Paid, tmp_path: Path) -> None:
    account = Account(shutil.copy(paid.account.ledger, tmp_path / "edited.ledger"), paid.account.name)
    assert states(account) == ["released"]
    with closing(sqlite3.connect(account.ledger)) as connection, connection:
        connection.execute("UPDATE entries SET state = 'void'")
        connection.execute("UPDATE accounts SET epsilon = 100.0")
    generator = Watched()
    with pytest.raises(LedgerCorruptError):
        case.release(case.build(**PROMISE, account=account, generator=generator), case.neighbour)
    assert generator.reads == 0


def test_an_interrupted_draw_stays_paid_and_certifies_nothing(case: MechanismCase, account: Account) -> None:
    mechanism = case.build(**PROMISE, account=account, generator=Watched(broken=True))
    with pytest.raises(KeyboardInterrupt):
        case.release(mechanism, case.value)
    assert states(account) == ["drawing"]
    assert not hasattr(mechanism, "certificate_")
    ledger = Ledger(account.ledger)
    with pytest.raises(LedgerStateError):
        ledger.void(ledger.entries("homes")[0].id, "I did not look")


def test_one_id_is_drawn_once_whatever_the_data(case: MechanismCase, paid: Paid) -> None:
    generator = Watched()
    with release_id_given("once"):
        for data in (case.value, case.neighbour):
            with pytest.raises(LedgerStateError):
                case.release(case.build(**PROMISE, account=paid.account, generator=generator), data)
    assert generator.reads == 0
    assert states(paid.account) == ["released"]


def test_noise_under_a_key_is_marked(case: MechanismCase) -> None:
    certificate = case.release(case.build(**PROMISE, generator=KeyedGenerator(bytes(32))), case.value).certificate
    assert certificate.guarantee.kind == "none"
    assert not verify(certificate).private


@pytest.fixture(scope="module")
def forked(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, tuple[str, bytes]]]:
    """What two children that were forked with one generator released: by case its id, and what was drawn next."""
    mechanisms = [case.build(**PROMISE, account=new_account(tmp_path_factory.mktemp("fork"))) for case in CASES]
    parent, child = FORK.Pipe()

    def run() -> None:
        found = {}
        for case, mechanism in zip(CASES, mechanisms):
            release_id = case.release(mechanism, case.value).certificate.release_id
            found[case.name] = release_id, default_generator().random_bytes(16)
        child.send(found)

    processes = [FORK.Process(target=run) for _ in range(2)]
    for process in processes:
        process.start()
    found = [parent.recv() for _ in processes if parent.poll(120)]
    for process in processes:
        process.join()
    return found


def test_forked_releases_share_neither_noise_nor_ids(
    case: MechanismCase, forked: list[dict[str, tuple[str, bytes]]]
) -> None:
    """Equal noise would show the difference of two data sets."""
    assert len(forked) == 2
    assert all(one != other for one, other in zip(*(found[case.name] for found in forked)))


def test_refusals_say_the_same_of_a_data_set_and_its_neighbour(case: MechanismCase, tmp_path: Path) -> None:
    """A refusal is an output: it must follow from public parameters alone."""
    poor = new_account(tmp_path, epsilon=0.1, delta=1e-9)
    for changes in ({"epsilon": 600.0}, {"delta": 0.0}, {"account": poor}, {"epsilon": "1"}):
        said = []
        for data in (case.value, case.neighbour):
            with pytest.raises(GaussveilError) as caught:
                case.release(case.build(**{**PROMISE, **changes}), data)
            said.append((type(caught.value), str(caught.value)))
        assert said[0] == said[1]
    assert states(poor) == []


def test_an_account_of_other_units_pays_for_nothing(case: MechanismCase, tmp_path: Path) -> None:
    """A release that hides one unit must not be paid from the budget of another, which it may not hide at all."""
    ledger = Ledger.create(tmp_path / "units.ledger")
    for number, other in enumerate((Adjacency.add_remove("nobody's unit"), Adjacency.event(1, 1e-3))):
        account = ledger.open_account(str(number), epsilon=3.0, delta=0.5, adjacency=other)
        generator = Watched()
        with pytest.raises(AssumptionError):
            case.release(case.build(**PROMISE, account=account, generator=generator), case.value)
        assert generator.reads == 0
        assert states(account) == []


def test_a_release_leaves_its_data_alone_and_shares_nothing_with_them(paid: Paid) -> None:
    given, taken = list(arrays(paid.data)), list(arrays(paid.release.value))
    before = arrays(paid.before)
    assert all(np.array_equal(one, other, equal_nan=True) for one, other in zip(given, before, strict=True))
    assert not any(np.shares_memory(one, other) for one in given for other in taken)


def test_a_design_changed_after_a_release_is_charged_as_changed(case: MechanismCase, account: Account) -> None:
    """Noise planned for one promise must not go out under another: the change counts, does not count, or is refused."""
    mechanism = case.build(**PROMISE, account=account)
    first = case.release(mechanism, case.value).certificate
    try:
        mechanism.epsilon = 0.5
        second = case.release(mechanism, case.value).certificate
    except (AttributeError, AssumptionError):
        assert states(account) == ["released"]
        return
    assert verify(second).outcome == "verified"
    assert second.epsilon in (0.5, PROMISE["epsilon"])
    assert (second.charge == first.charge) == (second.epsilon == PROMISE["epsilon"])
    paid = {entry.id: entry.charge for entry in Ledger(account.ledger).entries("homes")}  # of a stream once, by design
    assert paid == {one.release_id: one.charge.digest for one in (first, second)}


def arrays(value: Any, depth: int = 0) -> Iterator[np.ndarray[Any, Any]]:
    """Every array of numbers that a value holds."""
    if isinstance(value, np.ndarray):
        yield from (value,) if value.dtype.kind in "fiu" else ()
    elif isinstance(value, Mapping):
        yield from (found for item in value.values() for found in arrays(item, depth + 1))
    elif isinstance(value, list | tuple):
        yield from (found for item in value for found in arrays(item, depth + 1))
    elif hasattr(value, "to_numpy"):
        yield from arrays(value.to_numpy(), depth + 1)
    elif depth < 4 and hasattr(value, "__dict__"):
        yield from arrays(vars(value), depth + 1)


def test_forged_figures_never_divide_the_two_verifiers(paid: Paid) -> None:
    record = json.loads(paid.release.certificate.to_json())
    chance = random.Random(11)
    for _ in range(4):
        forged = json.loads(json.dumps(record))
        name = chance.choice(("epsilon", "delta", "delta_upper"))
        forged[name] = float(np.clip(forged[name] * chance.choice((0.5, 0.99, 1 - 1e-9, 1.01, 1e-3)), 0.0, 1.0))
        body = json.dumps(forged)
        assert {ours(body), independent().verify(body.encode(), None, 2.0).outcome} != {"verified", "refuted"}


def ours(body: str) -> str:
    try:
        return verify(Certificate.from_json(body)).outcome
    except GaussveilError:
        return "refuted"


def independent() -> Any:
    """The independent verifier, from its file."""
    if "gaussveil_verifier" not in sys.modules:
        specification = importlib.util.spec_from_file_location("gaussveil_verifier", VERIFIER)
        assert specification is not None
        assert specification.loader is not None
        sys.modules["gaussveil_verifier"] = importlib.util.module_from_spec(specification)
        specification.loader.exec_module(sys.modules["gaussveil_verifier"])
    return sys.modules["gaussveil_verifier"]
