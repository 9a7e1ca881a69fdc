"""The ledger: rules, states, statements, integrity, export."""

from __future__ import annotations

import csv
import json
import math
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from gaussveil.accounting import Account, Adjacency, Charge, Ledger
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.export import account_csv, account_json
from gaussveil.accounting.ledger.filters import Budget
from gaussveil.accounting.ledger.journal import accounts_of_people
from gaussveil.accounting.ledger.records import find_account
from gaussveil.errors import (
    AccountNotFoundError,
    AssumptionError,
    BudgetExceededError,
    FormatError,
    LedgerCorruptError,
    LedgerStateError,
    LedgerUnavailableError,
    ParameterError,
)
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.profiles import DiscreteLaplace, Laplace, RandomisedResponse, ResponseOrNoise

HOME = Adjacency.add_remove("home")


def shift(size: float, eta: float = 0.0) -> Charge:
    return Charge(GaussianPair.mean_shift(size), sampler_error=eta)


def spread(gap: float) -> Charge:
    return Charge(PrivacyLoss.from_terms([gap], [1], [0.0]))


def fill(ledger: Ledger, name: str, charge: Charge, adjacency: Adjacency = HOME) -> int:
    """Debit until refused; the number of debits."""
    for count in range(10**4):
        try:
            ledger.debit(name, charge, adjacency)
        except BudgetExceededError:
            return count
    raise AssertionError("never refused")


def test_mean_shifts_fill_the_budget_exactly(ledger: Ledger, account: Account) -> None:
    cap = Budget(3.0, 1e-5).mean_shift_cap()
    assert fill(ledger, "homes", shift(0.2)) == math.floor(cap / 0.04)
    # What is left can still be spent by smaller releases.
    left = cap - 0.04 * math.floor(cap / 0.04)
    ledger.debit("homes", shift(math.sqrt(left) * 0.999), HOME)
    statement = ledger.statement("homes")
    assert statement.filter_used == pytest.approx(1.0, abs=1e-3)
    assert statement.spent_delta <= 1e-5
    assert statement.spent_epsilon <= 3.0
    assert statement.spent_epsilon == pytest.approx(3.0, rel=1e-2)


def test_refusal_changes_nothing_and_says_why(ledger: Ledger, account: Account) -> None:
    ledger.debit("homes", shift(0.2), HOME)
    before = [ledger.entries("homes"), ledger.history("homes"), ledger.terms("homes")]
    with pytest.raises(BudgetExceededError, match="nothing was drawn or spent"):
        ledger.debit("homes", shift(1.0), HOME)
    assert [ledger.entries("homes"), ledger.history("homes"), ledger.terms("homes")] == before


def test_asking_whether_a_charge_is_affordable_records_nothing(ledger: Ledger, account: Account) -> None:
    ledger.check_affordable("homes", shift(0.2), HOME)
    assert (ledger.entries("homes"), ledger.terms("homes").adjacency) == ([], None)
    fill(ledger, "homes", shift(0.2))
    before = ledger.history()
    with pytest.raises(BudgetExceededError):
        ledger.check_affordable("homes", shift(0.2), HOME)
    with pytest.raises(AssumptionError):
        ledger.check_affordable("homes", shift(1e-9), Adjacency.replace_one("home"))
    assert ledger.history() == before


def test_one_release_may_use_the_whole_budget(ledger: Ledger) -> None:
    """A release calibrated to the account's own (epsilon, delta) fits, and closes the account."""
    largest = math.sqrt(Budget(1.0, 1e-6, 1e-9).mean_shift_cap())
    ledger.open_account("one", epsilon=1.0, delta=1e-6)
    ledger.debit("one", shift(largest), HOME)
    assert "exact delta" in ledger.terms("one").composition
    with pytest.raises(BudgetExceededError, match=r"used up.*To go on, open another account"):
        ledger.debit("one", shift(1e-6), HOME)


def test_the_first_entry_settles_filter_and_adjacency(ledger: Ledger) -> None:
    ledger.open_account("shifts", epsilon=3.0, delta=1e-5)
    ledger.debit("shifts", shift(0.1), HOME)
    with pytest.raises(BudgetExceededError, match="none dominates"):
        ledger.debit("shifts", spread(-0.01), HOME)
    ledger.debit("shifts", Charge(DiscreteLaplace(1, 8.0)), HOME)
    with pytest.raises(AssumptionError, match="added or removed"):
        ledger.debit("shifts", shift(0.1), Adjacency.replace_one("home"))
    ledger.open_account("mixed", epsilon=3.0, delta=1e-5)
    ledger.debit("mixed", spread(-0.01), HOME)
    ledger.debit("mixed", shift(0.1), HOME)
    ledger.debit("mixed", Charge(Laplace(0.1)), HOME)
    assert ledger.terms("mixed").composition.startswith("adaptive: Renyi filter at s = ")
    assert ledger.statement("mixed").spent_delta <= 1e-5
    ledger.open_account("wide", epsilon=3.0, delta=1e-3)
    assert fill(ledger, "wide", spread(-0.3)) > 3
    ledger.open_account("chosen", epsilon=3.0, delta=1e-5, filter="renyi", order=5.0)
    ledger.debit("chosen", shift(0.1), HOME)
    assert ledger.terms("chosen").composition.endswith("s = 5")


def test_an_account_of_delta_0_adds_epsilons_up(ledger: Ledger, tmp_path: Path) -> None:
    ledger.open_account("pure", epsilon=1.0, delta=0.0)
    assert fill(ledger, "pure", Charge(DiscreteLaplace(1, 4.0))) == 4
    found = ledger.statement("pure")
    assert (found.spent_epsilon, found.spent_delta, found.filter_used) == (1.0, 0.0, 1.0)
    assert ledger.terms("pure").composition == "adaptive: epsilons add up, at delta 0"
    with pytest.raises(BudgetExceededError, match=r"bring it to 100 % \(epsilons add up\)"):
        ledger.debit("pure", Charge(DiscreteLaplace(1, 1e12)), HOME)
    ledger.open_account("other", epsilon=1.0, delta=0.0)
    for unbounded in (shift(1e-6), Charge(Laplace(0.1), sampler_error=1e-30), spread(-0.01)):
        with pytest.raises(BudgetExceededError, match="noise of bounded loss alone"):
            ledger.debit("other", unbounded, HOME)
    assert not ledger.statement("other").charges
    # Neighbours are exchanged: the larger loss of both directions counts.
    ledger.open_account("exchanged", epsilon=1.0, delta=0.0)
    lopsided = Charge(ResponseOrNoise(0.7, 3))
    both = [one.source.largest_loss for one in (lopsided.parts[0],)] + [ResponseOrNoise(0.7, 3, True).largest_loss]
    exchanged = Adjacency.replace_one("home")
    assert fill(ledger, "exchanged", lopsided, exchanged) == math.floor(1 / max(both))
    # The rule is kept in the file as the others are.
    ledger.check()
    assert Ledger(ledger.path).statement("pure").spent_epsilon == 1.0
    for words in ({"filter": "renyi"}, {"order": 2.0}, {"filter": "mean-shift"}):
        with pytest.raises(ParameterError, match="left out where delta is 0"):
            ledger.open_account("refused", epsilon=1.0, delta=0.0, **words)


def test_a_plan_of_delta_0_is_held_exactly(ledger: Ledger) -> None:
    charge = Charge(DiscreteLaplace(1, 4.0))
    ledger.open_account("four", epsilon=1.0, delta=0.0, rule="planned", plan=[(charge, 4)], adjacency=HOME)
    assert fill(ledger, "four", charge) == 4
    with pytest.raises(BudgetExceededError, match="shorten the plan"):
        ledger.open_account("five", epsilon=1.0, delta=0.0, rule="planned", plan=[(charge, 5)], adjacency=HOME)


def test_every_filled_account_keeps_its_promise(ledger: Ledger) -> None:
    for number, (charge, adjacency) in enumerate(
        [
            (spread(-0.05) * 25, HOME),
            (spread(0.05) * 25, HOME),
            (spread(-0.05) * 25, Adjacency.replace_one("home")),
            (Charge(RandomisedResponse(0.5, 3)), Adjacency.replace_one("home")),
            (Charge(DiscreteLaplace(1, 4.0)), HOME),
            (shift(0.21, 1e-16), HOME),
        ]
    ):
        ledger.open_account(str(number), epsilon=3.0, delta=1e-4)
        assert fill(ledger, str(number), charge, adjacency) >= 1
        assert ledger.statement(str(number)).composition.delta_upper(3.0) <= 1e-4


def test_sampler_errors_have_their_own_share(ledger: Ledger, account: Account) -> None:
    ledger.debit("homes", shift(0.01), HOME)
    with pytest.raises(BudgetExceededError, match="sampler"):
        ledger.debit("homes", shift(0.01, 1e-9), HOME)


def test_a_plan_is_composed_when_it_opens(ledger: Ledger) -> None:
    whole = math.sqrt(Budget(3.0, 1e-5, 1e-6).mean_shift_cap())
    part = whole / 2 * (1 - 1e-6)
    ledger.open_account("plan", epsilon=3.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[(shift(part), 4)])
    assert fill(ledger, "plan", shift(part)) == 4
    assert ledger.statement("plan").spent_delta == pytest.approx(1e-5, rel=1e-3)
    with pytest.raises(BudgetExceededError, match="shorten"):
        ledger.open_account(
            "long", epsilon=3.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[(shift(part), 4), shift(0.05)]
        )
    assert ledger.accounts() == ["plan"]


def test_a_plan_takes_only_what_it_lists(ledger: Ledger) -> None:
    plan = [(shift(0.2), 2), spread(-0.01)]
    ledger.open_account("plan", epsilon=3.0, delta=1e-5, adjacency=HOME, rule="planned", plan=plan)
    with pytest.raises(BudgetExceededError, match="no free place"):
        ledger.debit("plan", spread(-0.009), HOME)
    ledger.debit("plan", shift(0.1), HOME)
    ledger.debit("plan", spread(-0.01), HOME)
    ledger.debit("plan", shift(0.2), HOME)
    with pytest.raises(BudgetExceededError, match="Left in the plan: nothing"):
        ledger.debit("plan", shift(0.1), HOME)


def test_a_plan_over_label_edges_adds_edge_by_edge(ledger: Ledger) -> None:
    graph = Adjacency.label_graph([("a", "b"), ("b", "a")])
    first = Charge(PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[0.4], [0.01]]))
    second = Charge(PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[0.01], [0.4]]))
    # Worst edge of each would be 0.8; edge by edge it is 0.41 and fits.
    ledger.open_account("graph", epsilon=3.0, delta=1e-5, adjacency=graph, rule="planned", plan=[first, second])
    ledger.debit("graph", second, graph)
    ledger.debit("graph", first, graph)
    with pytest.raises(BudgetExceededError):
        ledger.open_account("twice", epsilon=3.0, delta=1e-5, adjacency=graph, rule="planned", plan=[(first, 2)])
    with pytest.raises(AssumptionError, match="label edges"):
        ledger.open_account("homes", epsilon=3.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[first])


def test_states(ledger: Ledger, account: Account) -> None:
    first = ledger.debit("homes", shift(0.2), HOME).id
    with pytest.raises(LedgerStateError, match="must be drawing"):
        ledger.mark_released(first)
    ledger.mark_drawing(first)
    with pytest.raises(LedgerStateError, match="must be debited"):
        ledger.mark_drawing(first)
    with pytest.raises(LedgerStateError, match="must be debited to become void"):
        ledger.void(first, "too late")
    ledger.mark_released(first)
    ledger.mark_released(first)
    with pytest.raises(LedgerStateError):
        ledger.void(first, "much too late")
    second = ledger.debit("homes", shift(0.3), HOME).id
    used = ledger.statement("homes").filter_used
    with pytest.raises(ParameterError, match="reason"):
        ledger.void(second, " ")
    ledger.void(second, "cancelled before the draw")
    assert ledger.statement("homes").filter_used < used  # type: ignore[operator]
    assert [event.event for event in ledger.history("homes")] == [
        "opened",
        "debited",
        "drawing",
        "released",
        "debited",
        "void",
    ]
    assert ledger.history("homes")[-1].detail == "cancelled before the draw"
    assert ledger.statement("homes").states == {"released": 1, "void": 1}
    with pytest.raises(LedgerStateError, match="no entry"):
        ledger.mark_drawing("nothing")
    ledger.check()


def test_voiding_everything_reopens_the_choice_of_filter(ledger: Ledger, account: Account) -> None:
    ledger.void(ledger.debit("homes", spread(-0.2), HOME).id, "cancelled")
    assert ledger.terms("homes").order is None
    ledger.void(ledger.debit("homes", shift(0.2), HOME).id, "cancelled")
    ledger.debit("homes", spread(-0.01), HOME)
    # But not once something may have been seen.
    entry = ledger.debit("homes", shift(0.1), HOME).id
    ledger.void(entry, "cancelled")
    assert ledger.terms("homes").active_filter == "renyi"


def test_the_same_release_id_debits_once(ledger: Ledger, account: Account) -> None:
    first = ledger.debit("homes", shift(0.2), HOME, release_id="batch-7")
    second = ledger.debit("homes", shift(0.2), HOME, release_id="batch-7")
    assert first == second
    assert (first.created, second.created) == (True, False)
    assert ledger.entries("homes") == [ledger.entry("batch-7")]
    assert ledger.entry("batch-8") is None
    with pytest.raises(LedgerStateError, match="another account or charge"):
        ledger.debit("homes", shift(0.1), HOME, release_id="batch-7")
    ledger.open_account("others", epsilon=3.0, delta=1e-5)
    with pytest.raises(LedgerStateError, match="another account or charge"):
        ledger.debit("others", shift(0.2), HOME, release_id="batch-7")
    ledger.void("batch-7", "cancelled")
    with pytest.raises(LedgerStateError, match="voided"):
        ledger.debit("homes", shift(0.2), HOME, release_id="batch-7")


def test_identical_entries_fold(ledger: Ledger, account: Account) -> None:
    for _ in range(5):
        ledger.debit("homes", shift(0.1), HOME)
    statement = ledger.statement("homes")
    assert [count for _, count in statement.charges] == [5]
    expected = float(GaussianPair.mean_shift(math.sqrt(0.05)).delta(3.0))
    assert statement.spent_delta == pytest.approx(expected, rel=1e-9)


def test_exports(ledger: Ledger, account: Account) -> None:
    ledger.debit("homes", shift(0.1), HOME, what='mean, "quoted"')
    record = json.loads(account_json(ledger, "homes"))
    assert record["version"] == 1
    assert Charge.from_dict(record["charges"][0]["charge"]) == shift(0.1)
    assert record["statement"]["spent_epsilon"] > 0
    rows = list(csv.DictReader(account_csv(ledger, "homes").splitlines()))
    assert [(row["state"], row["what"]) for row in rows] == [("debited", 'mean, "quoted"')]


@pytest.mark.parametrize(
    "keywords",
    [
        {"epsilon": -1.0},
        {"delta": -1e-9},
        {"rule": "greedy"},
        {"filter": "best"},
        {"rule": "planned"},
        {"plan": [shift(0.1)]},
        {"rule": "planned", "plan": [shift(0.1)]},
        {"order": -1.0},
        {"order": 1e-3},
        {"rule": "planned", "adjacency": HOME, "plan": [(shift(0.1), 0)]},
    ],
)
def test_refuses_bad_terms(ledger: Ledger, keywords: dict[str, object]) -> None:
    with pytest.raises(ParameterError):
        ledger.open_account("x", **{"epsilon": 3.0, "delta": 1e-5, **keywords})  # type: ignore[arg-type]
    assert ledger.accounts() == []


def test_terms_can_be_refused_before_there_is_a_file() -> None:
    for epsilon in (-1.0, math.nan, 500.5, math.inf):
        with pytest.raises(ParameterError, match=r"epsilon must be a number in \[0, 500\]"):
            Ledger.check_terms("x", epsilon=epsilon, delta=1e-5)
    assert Ledger.check_terms("x", epsilon=500.0, delta=1e-5)[0] == Budget(500.0, 1e-5)


def test_an_empty_file_is_met_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "empty.ledger"
    path.touch()
    with pytest.raises(FormatError, match="delete it, or name another"):
        Ledger(path)
    assert path.stat().st_size == 0


def test_names_are_unique_and_known(ledger: Ledger, account: Account, tmp_path: Path) -> None:
    with pytest.raises(LedgerStateError, match="has 'homes' already; use it"):
        ledger.open_account("homes", epsilon=1.0, delta=1e-5)
    with pytest.raises(AccountNotFoundError, match="it has homes"):
        ledger.statement("home")
    with pytest.raises(ParameterError, match="exist"):
        Ledger.create(ledger.path)
    with pytest.raises(LedgerUnavailableError, match="no ledger"):
        Ledger(tmp_path / "nothing.ledger")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("DELETE FROM entries WHERE id = 'one'", "do not agree"),
        ("UPDATE entries SET state = 'void' WHERE id = 'one'", "do not agree"),
        ("DELETE FROM events WHERE event = 'debited'", "altered"),
        ("UPDATE events SET detail = 'x' WHERE event = 'opened' AND account = 'homes'", "altered"),
        ("UPDATE charges SET body = replace(body, '0.04', '0.01') WHERE body LIKE '%0.04%'", "does not fit its digest"),
        ("UPDATE charges SET body = '{' WHERE body LIKE '%0.04%'", "damaged"),
        ("UPDATE accounts SET epsilon = 100 WHERE name = 'homes'", "accounts.*do not agree"),
        ("UPDATE accounts SET delta = 0.5 WHERE name = 'homes'", "accounts.*do not agree"),
        ("UPDATE accounts SET sampler_share = 0.5 WHERE name = 'homes'", "accounts.*do not agree"),
        ("UPDATE accounts SET active_filter = NULL WHERE name = 'homes'", "accounts.*do not agree"),
        ("UPDATE accounts SET adjacency = NULL WHERE name = 'homes'", "accounts.*do not agree"),
        ("UPDATE accounts SET name = 'houses' WHERE name = 'homes'", "do not agree"),
        ("UPDATE plan SET count = 9", "accounts.*do not agree"),
        (
            "INSERT INTO accounts SELECT 9, 'new', '', NULL, 9.0, 0.1, 0.1, 'adaptive', 'auto', NULL, NULL, NULL, 'x'",
            "accounts.*do not agree",
        ),
        (
            "UPDATE entries SET account = (SELECT id FROM accounts WHERE name = 'other') WHERE id = 'one'",
            "entries.*do not agree",
        ),
        ("UPDATE entries SET charge = (SELECT charge FROM plan) WHERE id = 'one'", "entries.*do not agree"),
        ("UPDATE entries SET guarantee = 'none' WHERE id = 'one'", "entries.*do not agree"),
        ("UPDATE entries SET what = 'nothing' WHERE id = 'one'", "entries.*do not agree"),
    ],
)
def test_alterations_show(ledger: Ledger, account: Account, statement: str, words: str) -> None:
    ledger.open_account("other", epsilon=1.0, delta=1e-5, adjacency=HOME, rule="planned", plan=[shift(0.01)])
    ledger.debit("homes", Charge(PrivacyLoss.from_terms([0.0], [1], [0.04])), HOME, release_id="one")
    ledger.mark_drawing("one")
    ledger.check()
    with closing(sqlite3.connect(ledger.path)) as connection, connection:
        assert connection.execute(statement).rowcount == 1
    with pytest.raises(LedgerCorruptError, match=words):
        ledger.check()


def test_what_an_account_settles_and_gives_back_is_in_the_log(ledger: Ledger, account: Account) -> None:
    for charge in (spread(-0.05), shift(0.1)):
        for _ in range(2):
            ledger.debit("homes", charge, HOME)
            ledger.check()
        for entry in ledger.entries("homes"):
            if entry.state == "debited":
                ledger.void(entry.id, "cancelled")
                ledger.check()
        assert ledger.terms("homes").active_filter is None


def test_a_repeated_id_speaks_of_the_same_neighbours_and_guarantee(ledger: Ledger, account: Account) -> None:
    ledger.debit("homes", shift(0.1), HOME, release_id="once")
    assert not ledger.debit("homes", shift(0.1), HOME, release_id="once").created
    with pytest.raises(AssumptionError, match="neighbours"):
        ledger.debit("homes", shift(0.1), Adjacency.replace_one("home"), release_id="once")
    with pytest.raises(LedgerStateError, match="guarantee"):
        ledger.debit("homes", shift(0.1), HOME, release_id="once", guarantee="none")


def test_a_plan_counts_the_way_round_that_follows_outputs(ledger: Ledger) -> None:
    plan = [(spread(-3.0), 2)]
    fixed = Composition.of(plan, symmetric=True).delta_upper(1.0)
    adjacency = Adjacency.replace_one("home")
    with pytest.raises(BudgetExceededError):
        ledger.open_account("tight", epsilon=1.0, delta=fixed, adjacency=adjacency, rule="planned", plan=plan)
    ledger.open_account("wide", epsilon=1.0, delta=1.1 * fixed, adjacency=adjacency, rule="planned", plan=plan)


@pytest.mark.parametrize("name", ["", " ", "a\nb", "a\u2028b", "a\0", "\ud800", 3])
def test_names_that_no_log_can_show_are_refused(ledger: Ledger, name: str) -> None:
    with pytest.raises(ParameterError):
        ledger.open_account(name, epsilon=1.0, delta=1e-6)
    assert ledger.accounts() == []


@pytest.mark.parametrize("name", ["../../etc/passwd", "Straße 7", "家", "a'; DROP TABLE entries; --", " padded "])
def test_any_other_name_is_a_name(ledger: Ledger, name: str) -> None:
    ledger.debit(ledger.open_account(name, epsilon=1.0, delta=1e-6).name, shift(0.01), HOME)
    ledger.check()
    assert ledger.accounts() == [name.strip()]
    assert [entry.account for entry in ledger.entries(name)] == [name.strip()]


def test_tiny_losses_do_not_refill_an_account(ledger: Ledger) -> None:
    ledger.open_account("a", epsilon=1.0, delta=1e-6, adjacency=HOME, filter="renyi", order=25.0)
    ledger.debit("a", Charge(PrivacyLoss.from_terms([-0.01], [1], [0.0]), count=700), HOME)
    before = ledger.statement("a").filter_used
    ledger.debit("a", Charge(Laplace(1e-8), count=10**12), HOME)  # K = s(s+1)/2 1e-16 each, 0.03 together
    after = ledger.statement("a").filter_used
    assert before is not None
    assert after is not None
    assert after - before == pytest.approx(0.0325 / Budget(1.0, 1e-6).renyi_cap(25.0), rel=1e-3)


class Interleaved(Ledger):
    """A ledger that lets others act between what a debit computes and what it writes."""

    meanwhile: Callable[[], None] | None = None

    def _prepared(self, name: str, charge: Charge, adjacency: Adjacency, *, people: str = "") -> Any:
        found = super()._prepared(name, charge, adjacency, people=people)
        act, self.meanwhile = self.meanwhile, None
        if act is not None:
            act()
        return found


def test_what_others_debit_meanwhile_counts_though_the_sum_was_forgotten(ledger: Ledger, account: Account) -> None:
    """Voiding makes the account add up its entries anew: a sum from before another's debit must not be used."""
    most = Budget(3.0, 1e-5).mean_shift_cap()
    third = shift(math.sqrt(0.4 * most))

    def voided() -> None:
        ledger.void(ledger.debit("homes", shift(0.01), HOME).id, "cancelled")

    def others() -> None:
        ledger.debit("homes", third, HOME)
        voided()

    ledger.debit("homes", third, HOME)
    voided()
    own = Interleaved(ledger.path)
    own.meanwhile = others
    with pytest.raises(BudgetExceededError):
        own.debit("homes", third, HOME)
    assert ledger.statement("homes").spent_delta <= 1e-5


def test_a_long_account_is_found_in_as_many_steps_as_a_new_one(ledger: Ledger) -> None:
    """Whether it names its people or not: who looked for them in all that it released took ever longer."""
    ledger.open_account("plain", epsilon=3.0, delta=1e-5)
    ledger.open_account("named", epsilon=3.0, delta=1e-5, people="homes of Aarau")

    def steps(name: str) -> int:
        taken: list[int] = []
        with ledger._database.reading() as connection:
            connection.set_progress_handler(lambda: taken.append(1), 1)
            assert find_account(connection, name)[1].people == ("homes of Aarau" if name == "named" else "")
            assert list(accounts_of_people(connection)) == ["homes of Aarau"]
            connection.set_progress_handler(None, 0)
        return len(taken)

    for name in ("plain", "named"):
        more = {"people": "homes of Aarau"} if name == "named" else {}
        ledger.debit(name, shift(1e-3), HOME, **more)
    before = {name: steps(name) for name in ("plain", "named")}
    for name in before:
        more = {"people": "homes of Aarau"} if name == "named" else {}
        for _ in range(40):
            ledger.debit(name, shift(1e-3), HOME, **more)
    assert {name: steps(name) for name in before} == before
