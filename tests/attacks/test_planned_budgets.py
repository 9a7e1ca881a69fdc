"""A year's budget in weeks: what is told fits the budget with nothing wasted, and a retry pays nothing."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mpmath import erfc, exp, mp, mpf, sqrt
from typer.testing import CliRunner

from gaussveil.accounting import Ledger
from gaussveil.accounting.even_plan import EvenPlan
from gaussveil.calibration import mean_shift_for
from gaussveil.cli.main import app
from gaussveil.errors import BudgetExceededError, LedgerError, ParameterError


def run(*words: object) -> str:
    return CliRunner().invoke(app, list(map(str, words)), catch_exceptions=False).stdout


@pytest.mark.parametrize(
    ("epsilon", "delta", "releases", "own"), [(3.0, 1e-5, 52, None), (1.0, 1e-9, 365, 1e-12), (0.1, 1e-4, 2, None)]
)
def test_all_releases_together_keep_the_budget_and_use_it(
    epsilon: float, delta: float, releases: int, own: float | None
) -> None:
    """Balle and Wang 2018, Theorem 8, of the sum of squares, in 40 digits."""
    plan = EvenPlan.of(epsilon, delta, releases, release_delta=own)
    shift = mpf(mean_shift_for(plan.epsilon, plan.delta))
    with mp.workdps(40):
        total, level = shift * sqrt(mpf(releases)), mpf(epsilon)
        near, far = (level / total + sign * total / 2 for sign in (-1, 1))
        truth = (erfc(near / sqrt(mpf(2))) - exp(level) * erfc(far / sqrt(mpf(2)))) / 2
    assert 0.99 * delta < truth < delta
    assert mpf(plan.charge.mean_shift_energy) >= shift**2


def test_a_week_that_promises_nothing_is_refused() -> None:
    with pytest.raises(ParameterError, match="release_delta must be smaller"):
        EvenPlan.of(0.01, 1e-6, 10, release_delta=0.5)


def test_weeks_are_paid_once_each_and_a_retry_under_another_name_pays_nothing(tmp_path: Path) -> None:
    table, ledger = tmp_path / "in.csv", tmp_path / "y.ledger"
    lines = [f"h{place},{'ab'[place % 2]}" for place in range(200)]
    table.write_text("\n".join(["home,zone", *lines]))
    told = run(
        "budget", "new", ledger, "--account", "a", "--epsilon", 3, "--delta", 1e-5, "--releases", 2, "--unit", "home"
    )
    assert "2 releases of --epsilon 2.1" in told
    each = json.loads(run("budget", "plan", "--epsilon", 3, "--delta", 1e-5, "--releases", 2, "--json"))["each"]

    def query(week: str, out: str) -> str:
        promise = ("--epsilon", each["epsilon"], "--delta", each["delta"], "--ledger", ledger, "--account", "a")
        asked = ("query", table, "--unit", "home", "--by", "zone=a|b", "--count", *promise)
        return run(*asked, "--release-id", week, "--out", tmp_path / out)

    assert "wrote" in query("week 1", "one.csv")
    with pytest.raises(LedgerError, match="debited once"):
        query("week 1", "again.csv")
    assert not (tmp_path / "again.csv").exists()
    assert [entry.id for entry in Ledger(ledger).entries("a")] == ["week 1"]
    assert "wrote" in query("week 2", "two.csv")
    with pytest.raises(BudgetExceededError, match="no free place"):
        query("week 3", "three.csv")
    assert np.isclose(Ledger(ledger).statement("a").spent_delta, 1e-5, rtol=0.01)


def test_a_release_id_needs_an_account_that_remembers_it(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text("home\n1\n2\n")
    promise = ("--epsilon", 1, "--delta", 1e-6, "--release-id", "week 1", "--out", tmp_path / "out.csv")
    with pytest.raises(ParameterError, match="--release-id must be a name"):
        run("query", tmp_path / "in.csv", "--unit", "home", "--count", *promise)
