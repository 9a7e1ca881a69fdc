"""A mechanism built by the steps of docs/architecture.md, "Adding a mechanism": discrete, pure epsilon, not normal."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy.stats import binom

from gaussveil import Ledger, verify
from gaussveil.accounting import Adjacency, Charge, Release
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms.release_path import Mechanism, Plan
from gaussveil.noise import SeededGenerator, randomised_response
from gaussveil.spectrum.profiles import RandomisedResponse

from ..laws import test_laws as laws
from ..laws.registry import MechanismCase
from ..new_accounts import new_account


def dominating(epsilon: float) -> RandomisedResponse:
    """The pair of answers of two people who differ: the truth is e^epsilon times as likely as the other answer."""
    return RandomisedResponse(epsilon)


@dataclass(kw_only=True, eq=False, repr=False)
class Answer(Mechanism):
    """One person's yes or no, told truly with probability e^epsilon / (1 + e^epsilon)."""

    mechanism: ClassVar[str] = "toy answer"
    pure: ClassVar[bool] = True
    epsilon: float
    delta: float = 0.0

    def plan(self) -> Plan:
        """All that is known without the answer."""
        return Plan(
            charge=Charge(dominating(self.promise.epsilon)),
            released="one answer",
            adjacency=Adjacency.replace_one("person"),
            assumptions=("who was asked is public",),
            parameters={},
        )

    def release(self, answer: bool) -> Release[int]:
        """The answer, or the other one."""
        if not isinstance(answer, bool):
            raise GaussveilError(f"answer must be True or False. Got {answer!r}.")
        plan = self.plan()
        return self._publish(plan, lambda: int(self.draw(answer, 1)[0]), whole=False)

    def draw(self, answer: bool, count: int) -> np.ndarray:
        """As many answers to the same question as are asked for."""
        return np.asarray(randomised_response(np.full(count, int(answer)), 2, self.epsilon, self.generator))


def test_it_is_charged_certified_and_proven(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "toy.ledger").open_account("answers", epsilon=1.0, delta=1e-9)
    release = Answer(epsilon=0.7, account=account).release(True)
    assert release.value in (0, 1)
    certificate = release.certificate
    assert (certificate.epsilon, certificate.delta, certificate.delta_upper) == (0.7, 0.0, 0.0)
    assert certificate.proven
    assert verify(certificate).ok
    with pytest.raises(GaussveilError, match="cannot afford"):
        Answer(epsilon=0.7, account=account).release(True)


def test_plans_need_no_data_and_refusals_come_before_the_debit(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "toy.ledger")
    mechanism = Answer(epsilon=0.7, account=ledger.open_account("answers", epsilon=1.0, delta=1e-9))
    assert mechanism.dry_run(True) is not None
    wrong: Any = "yes"
    with pytest.raises(GaussveilError, match="True or False"):
        mechanism.release(wrong)
    assert ledger.entries("answers") == []


def test_what_is_drawn_is_the_pair_that_is_charged_and_half_of_it_is_not() -> None:
    """Shares of true answers lie where the claim has them; those of a mechanism with twice the epsilon do not."""
    count, truth = 100_000, math.exp(0.7) / (1 + math.exp(0.7))
    low, high = binom.interval(1 - 1e-9, count, truth)
    honest = Answer(epsilon=0.7, generator=SeededGenerator(1)).draw(True, count).sum()
    assert low <= honest <= high
    dishonest = Answer(epsilon=1.4, generator=SeededGenerator(2)).draw(True, count).sum()
    assert dishonest > high


def outputs(mechanism: Answer, truth: bool, count: int) -> np.ndarray:
    return mechanism.draw(truth, count)[:, None].astype(float)


def outputs_of_half_the_noise(mechanism: Answer, truth: bool, count: int) -> np.ndarray:
    return outputs(Answer(epsilon=2 * mechanism.epsilon, generator=mechanism.generator), truth, count)


LAW_CASE = MechanismCase(
    name="toy answer",
    build=Answer,
    value=True,
    neighbour=False,
    centre=lambda truth: np.zeros(1),
    draws=outputs,
    halved_draws=outputs_of_half_the_noise,
    score=lambda certificate, answers: -answers[:, 0],
    malformed=("yes", None, 1),
)


def test_the_laws_of_all_mechanisms_hold_for_its_case(tmp_path: Path) -> None:
    for number, law in enumerate(
        (
            laws.test_certificate_is_there_and_verifies,
            laws.test_account_is_debited_before_the_first_draw,
            laws.test_malformed_input_is_refused_with_nothing_spent,
        )
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        law(LAW_CASE, new_account(folder))
    laws.test_seeded_noise_carries_no_guarantee(LAW_CASE)


def test_our_auditor_finds_its_case_true_and_half_its_noise_false(full: bool) -> None:
    laws.test_audit_finds_no_violation(LAW_CASE, full)
    laws.test_audit_finds_secretly_halved_noise(LAW_CASE, full)


PLACES = ("`mechanisms/x.py`", "`tests/mechanisms/test_x.py`", "`tests/laws/registry.py`", "`docs/mechanisms`")


@pytest.mark.parametrize(
    ("page", "begins", "ends"),
    [
        ("docs/architecture.md", "## Adding a mechanism", "## Where a number"),
        ("CONTRIBUTING.md", "A new mechanism touches five places", "By contributing"),
    ],
)
def test_both_pages_name_the_same_five_places(page: str, begins: str, ends: str) -> None:
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    steps = text.partition(begins)[2].partition(ends)[0]
    assert all(place in steps for place in PLACES)
    assert "changelog" in steps.lower()
    named = {path for path in re.findall(r"`((?:src|tests|docs|mechanisms)/[\w./]+)`", steps) if "toy" not in path}
    assert named == {place.strip("`") for place in PLACES}
