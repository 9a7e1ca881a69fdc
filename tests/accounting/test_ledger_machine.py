"""Random lives of a ledger against a model of twenty lines: never overspent, never forgetful, always intact."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, consumes, invariant, multiple, rule

from gaussveil.accounting import Adjacency, Charge, Ledger
from gaussveil.accounting.ledger.filters import Budget
from gaussveil.errors import BudgetExceededError, LedgerStateError
from gaussveil.spectrum import GaussianPair

BUDGET = Budget(2.0, 1e-5)
CAP = BUDGET.mean_shift_cap()
UNIT = Adjacency.add_remove()


class LedgerMachine(RuleBasedStateMachine):
    """Debits of random sizes, draws, releases and voids in any order."""

    entries = Bundle("entries")
    drawing = Bundle("drawing")

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.ledger = Ledger.create(self.folder / "spent.ledger")
        self.ledger.open_account("a", epsilon=BUDGET.epsilon, delta=BUDGET.delta, filter="mean-shift")
        self.energy: dict[str, float] = {}
        self.state: dict[str, str] = {}

    def teardown(self) -> None:
        self.ledger.check()
        shutil.rmtree(self.folder)

    def spent(self) -> float:
        return sum(energy for entry, energy in self.energy.items() if self.state[entry] != "void")

    @rule(target=entries, share=st.sampled_from([0.1, 0.25, 0.4, 0.7, 1.1]))
    def debit(self, share: float) -> object:
        charge = Charge(GaussianPair.mean_shift((share * CAP) ** 0.5))
        affordable = self.spent() + share * CAP <= CAP * (1 - 1e-9)
        try:
            made = self.ledger.debit("a", charge, UNIT)
        except BudgetExceededError:
            assert not affordable
            return multiple()
        assert affordable
        self.energy[made.id], self.state[made.id] = share * CAP, "debited"
        return made.id

    @rule(target=drawing, entry=consumes(entries))
    def draw(self, entry: str) -> object:
        if self.state[entry] != "debited":
            return multiple()
        self.ledger.mark_drawing(entry)
        self.state[entry] = "drawing"
        return entry

    @rule(entry=drawing)
    def release(self, entry: str) -> None:
        self.ledger.mark_released(entry)
        self.state[entry] = "released"

    @rule(entry=entries | drawing)
    def void(self, entry: str) -> None:
        try:
            self.ledger.void(entry, "changed my mind")
        except LedgerStateError:
            assert self.state[entry] != "debited"
        else:
            assert self.state[entry] == "debited"
            self.state[entry] = "void"

    @invariant()
    def agrees_with_the_model(self) -> None:
        assert {entry.id: entry.state for entry in self.ledger.entries("a")} == self.state
        assert self.spent() <= CAP


TestLedgerMachine = LedgerMachine.TestCase
TestLedgerMachine.settings = settings(derandomize=True, deadline=None, max_examples=8, stateful_step_count=12)
