"""A mechanism built by the steps of docs/architecture.md, "Adding a mechanism": discrete, pure epsilon, not normal."""

from __future__ import annotations

import math
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
            assumptions=(),
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
