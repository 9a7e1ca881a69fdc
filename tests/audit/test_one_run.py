"""An audit from one run never accuses too often, and its bound is the optimum of the linear program it solves."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import scipy

from gaussveil import GaussianPair, audit_one_run
from gaussveil.accounting.accountant import Accountant
from gaussveil.audit.growth import LineGrowth, ShiftGrowth
from gaussveil.audit.one_run import Guessed, binomial_chance, is_rarer, right_guesses_chance
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError


def largest_tail(found: Guessed, growth: LineGrowth) -> float:
    """The most that the inequalities of the docstring allow, by linear programming."""
    numbers = np.arange(found.guesses + 1)
    above, below = numbers / found.canaries, (found.guesses - numbers) / found.canaries
    rows, limits = [np.ones(len(numbers))], [1.0]
    for least in range(1, found.guesses + 1):
        for slope, start in zip(growth.slopes, growth.starts):
            rows.append(above * (numbers >= least) - slope * below * (numbers >= least - 1))
            limits.append(start)
    solved = scipy.optimize.linprog(-(numbers >= found.right).astype(float), A_ub=np.array(rows), b_ub=limits)
    assert solved.status == 0
    return float(-solved.fun)


@pytest.mark.parametrize(
    "growth",
    [
        LineGrowth.of_pair(1.0, 0.0),
        LineGrowth.of_pair(0.5, 1e-3),
        LineGrowth.of_pair(0.0, 0.05),
        LineGrowth.of_curve(lambda epsilon: float(GaussianPair.mean_shift(1.0).dp_delta(epsilon))),
    ],
)
def test_the_recursion_finds_the_optimum(growth: LineGrowth) -> None:
    for canaries, guesses, right in ((12, 12, 10), (20, 12, 12), (30, 15, 13), (16, 16, 9)):
        found = Guessed(canaries, guesses, right)
        assert right_guesses_chance(found, growth) == pytest.approx(largest_tail(found, growth), rel=1e-6)


def test_the_lines_of_a_curve_bound_the_closed_form_of_a_shift() -> None:
    lines = LineGrowth.of_curve(lambda epsilon: float(GaussianPair.mean_shift(1.3).dp_delta(epsilon)))
    from_lines, exact = lines.least_before(), ShiftGrowth(1.3).least_before()
    for grown in np.geomspace(1e-9, 1.0, 200).tolist():
        assert from_lines(grown) <= exact(grown) * (1 + 1e-6) + 1e-12
        assert from_lines(grown) == pytest.approx(exact(grown), rel=1e-2, abs=1e-8)


def test_randomised_response_stays_within_every_bound() -> None:
    """Each canary answers truly with chance e/(1 + e): the number of right guesses is binomial, whatever else."""
    epsilon, guesses = 1.0, 200
    for right in (150, 160, 170):
        truth = float(scipy.stats.binom.sf(right - 1, guesses, 1 / (1 + math.exp(-epsilon))))
        found = Guessed(guesses, guesses, right)
        assert right_guesses_chance(found, LineGrowth.of_pair(epsilon, 0.0)) >= truth
        assert binomial_chance(found, epsilon, 0.0) == pytest.approx(truth, rel=1e-8)
        assert is_rarer(found, LineGrowth.of_pair(0.2, 0.0), 1e-3)


def scores_of(generator: np.random.Generator, canaries: int, shift: float) -> tuple[np.ndarray, np.ndarray]:
    coins = generator.random(canaries) < 0.5
    return coins * shift + generator.normal(size=canaries), coins


def test_true_claims_are_not_refuted_too_often() -> None:
    """At a level of .2, of 60 honest runs more than 26 would be accused with a probability of 2e-5."""
    generator = np.random.default_rng(5)
    claim = GaussianPair.mean_shift(1.0)
    true_epsilon = float(claim.dp_epsilon(1e-5))
    accused = too_high = gaussian_too_high = 0
    for _ in range(60):
        audit = audit_one_run(*scores_of(generator, 200, 1.0), claim, delta=1e-5, confidence=0.8, guesses=(200, 60))
        accused += audit.refuted
        too_high += audit.epsilon_lower > true_epsilon
        gaussian_too_high += audit.gaussian_epsilon_lower > true_epsilon
    assert max(accused, too_high, gaussian_too_high) <= 26


def test_false_claims_are_refuted_and_lower_ends_grow_with_the_canaries() -> None:
    generator = np.random.default_rng(2)
    for canaries in (1_000, 10_000, 100_000):
        audit = audit_one_run(*scores_of(generator, canaries, 2.0), (1.0, 1e-5), delta=1e-5)
        assert audit.refuted
        assert audit.epsilon_lower < audit.gaussian_epsilon_lower < float(GaussianPair.mean_shift(2.0).dp_epsilon(1e-5))
        assert audit.gaussian_epsilon_lower > 4.0


def test_a_training_run_is_a_claim() -> None:
    run = Accountant().add(GaussianPair.mean_shift(0.5), 4)  # a shift of 1
    scores, coins = scores_of(np.random.default_rng(3), 2_000, 1.0)
    as_run = audit_one_run(scores, coins, run, delta=1e-5)
    as_shift = audit_one_run(scores, coins, GaussianPair.mean_shift(1.0), delta=1e-5)
    assert as_run.p_value == pytest.approx(as_shift.p_value, rel=1e-6)
    assert not as_run.refuted
    assert audit_one_run(2 * scores + 1, coins, GaussianPair.mean_shift(0.2), delta=1e-5).refuted


def test_equal_scores_tell_nothing() -> None:
    coins = np.random.default_rng(4).random(1_000) < 0.5
    audit = audit_one_run(np.zeros(1_000), coins, (0.1, 1e-6), delta=1e-6)
    assert not audit.refuted
    assert audit.epsilon_lower < 0.3


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"scores": np.full(40, np.nan)}, NotFiniteError),
        ({"scores": np.zeros((40, 2))}, ShapeError),
        ({"included": np.ones(40, dtype=bool)}, ParameterError),
        ({"included": np.full(40, 0.5)}, ParameterError),
        ({"guesses": 41}, ParameterError),
        ({"guesses": 1}, ParameterError),
        ({"confidence": 1.0}, ParameterError),
        ({"delta": -1e-5}, ParameterError),
        ({"claim": (1.0,)}, ParameterError),
        ({"claim": "private"}, ParameterError),
    ],
)
def test_what_makes_no_sense_is_refused(change: dict[str, Any], error: type[Exception]) -> None:
    given: dict[str, Any] = {
        "scores": np.arange(40.0),
        "included": np.arange(40) % 2 == 0,
        "claim": (1.0, 1e-6),
        "delta": 1e-6,
    }
    with pytest.raises(error):
        audit_one_run(**(given | change))
