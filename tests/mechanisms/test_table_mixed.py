"""Laplace and Gaussian noise in one account: what both cost, by sums of their own; eight quantiles as before."""

from __future__ import annotations

import math
import subprocess
import sys
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import scipy

from gaussveil import Count, Histogram, Ledger, Mean, Quantile, TableRelease, verify
from gaussveil.accounting import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.errors import BudgetExceededError
from gaussveil.spectrum.profiles import DiscreteLaplace
from gaussveil.typing import Floats

ZONES = ["a", "b", "c", "d"]
VERIFIER = Path(__file__).parents[2] / "verifier" / "gaussveil_verifier.py"


def asked(answers: Any, **changes: Any) -> TableRelease:
    design = {"unit": "home", "epsilon": 0.5, "delta": 1e-6, "by": {"zone": ZONES}, "groups_per_unit": 1}
    return TableRelease(answers=answers, **{**design, **changes})


def losses(charge: Charge) -> tuple[Floats, Floats]:
    """Every loss of a charge of Laplace noise and its probability, from the geometric law itself."""
    (part,) = charge.parts
    noise = part.source
    assert isinstance(noise, DiscreteLaplace)
    rate = 1 / noise.scale
    place = np.arange(noise.shift + 1)
    masses = np.exp(-place * rate) * math.tanh(rate / 2)
    masses[[0, -1]] = np.array([1, math.exp(-noise.shift * rate)]) / (1 + math.exp(-rate))
    assert masses.sum() == pytest.approx(1, abs=1e-9)
    return (noise.shift - 2 * place) * rate, masses


def delta_of(epsilon: float, known: tuple[Floats, Floats], shift: float) -> float:
    """Of a mean shift beside these losses: the normal law's own divergence at what each leaves of epsilon."""
    left = epsilon - known[0]
    ahead, behind = (scipy.special.ndtr(end * shift / 2 - left / shift) for end in (1, -1))
    return float(known[1] @ np.maximum(ahead - np.exp(left) * behind, 0.0))


def test_both_laws_in_one_account_cost_what_sums_of_their_own_say(tmp_path: Path) -> None:
    """A count and learnt bounds with Laplace noise, a mean by hour with Gaussian: registered, debited, verified."""
    rng = np.random.default_rng(4)
    table = pa.table({"home": np.arange(400), "zone": rng.choice(ZONES, 400).tolist(), "kw": rng.gamma(2.0, 1.0, 400)})
    requests: list[dict[str, Any]] = [
        {"answers": Count(), "law": "laplace"},
        {"answers": Mean("kw", between=(0.0, 8.0)), "law": "gaussian", "groups_per_unit": 4},
        {"answers": Mean("kw", bounds="auto"), "law": "laplace"},
    ]
    plans = [asked(**one).plan() for one in requests]
    counted, meant, learnt = (one.charge for one in plans)
    shift = math.sqrt(float(np.asarray(meant.mean_shift_energy)))
    for laplace, further in ((counted, 1e-9), (learnt, 1e-3)):
        together = Composition.of([(laplace, 1), (meant, 1)], symmetric=False)
        for epsilon in (0.1, 0.8):
            exact = delta_of(epsilon, losses(laplace), shift)
            low, high = together.delta_bounds(epsilon)
            assert low <= exact * (1 + 1e-9)
            assert exact * (1 - 1e-9) <= high <= exact * (1 + further)
    (one, its), (other, others) = losses(counted), losses(learnt)
    exact = delta_of(1.2, (np.add.outer(one, other).ravel(), np.multiply.outer(its, others).ravel()), shift)
    book = Ledger.create(tmp_path / "town.ledger")
    terms: dict[str, Any] = {"epsilon": 1.2, "rule": "planned", "plan": [counted, meant, learnt]}
    terms["adjacency"] = plans[0].adjacency
    with pytest.raises(BudgetExceededError, match="the plan needs delta"):
        book.open_account("spring", delta=0.99 * exact, **terms)
    account = book.open_account("winter", delta=1.01 * exact, **terms)
    for request in requests:
        certificate = asked(account=account, **request).release(table).certificate
        assert verify(certificate).private
        path = certificate.write(tmp_path / "certificate.json")
        told = subprocess.run([sys.executable, VERIFIER, path], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stdout
    assert len(book.entries("winter")) == 3


def test_eight_quantiles_are_searched_for_as_without_a_choice_of_laws() -> None:
    eight = Quantile("kw", tuple(np.arange(1, 9) / 10), (0.0, 8.0))
    for answers in (eight, [Count(), eight]):
        auto, gaussian = (asked(answers, law=law, epsilon=1.0).plan() for law in ("auto", "gaussian"))
        assert auto.law == "gaussian"
        assert auto.charge == gaussian.charge
        assert auto.deviations() == gaussian.deviations()


@pytest.mark.parametrize(("groups", "touched", "rows"), [(1, 1, 1), (5, 4, 1), (8, 3, 2), (24, 8, 1)])
def test_the_law_taken_for_mixed_requests_is_never_worse_than_either_alone(
    groups: int, touched: int, rows: int
) -> None:
    """Counts, means, histograms and learnt means in all pairs and triples, by the plan's own error."""
    between = (0.0, 8.0)
    kinds = [Count(), Mean("kw", between=between), Histogram("kw", (0.0, 2.0, 8.0)), Mean("age", bounds="auto")]
    kinds.append(Quantile("kw", (0.1, 0.5, 0.9), between=between))
    bounds: dict[str, Any] = {"groups_per_unit": touched, "rows_per_group": rows, "by": {"zone": list(range(groups))}}
    for size in (2, 3):
        for answers in combinations(kinds, size):
            errors = {}
            for law in ("auto", "gaussian", "laplace")[: 3 - (kinds[-1] in answers)]:
                made = TableRelease(unit="home", epsilon=1.0, delta=1e-6, answers=answers, law=law, **bounds)
                errors[law] = float(np.mean(np.log(list(made.plan().deviations().values()))))
            assert errors.pop("auto") <= min(errors.values()) + 1e-9
