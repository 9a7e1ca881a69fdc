from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy.stats import beta, binom
from sklearn.ensemble import HistGradientBoostingClassifier

from gaussveil import GaussianPair
from gaussveil.audit import audit_mechanism, audit_samples, audit_scores, draws_needed
from gaussveil.audit.binomial import delta_lower, lower_end, upper_end
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError


def shifted(seed: int, count: int, shift: float) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    return rng.normal(size=count) + shift, rng.normal(size=count)


def test_ends_are_those_of_clopper_and_pearson() -> None:
    hits = np.array([0, 1, 7, 19, 20])
    np.testing.assert_allclose(lower_end(hits, 20, 1e-3)[1:], beta.ppf(1e-3, hits[1:], 21 - hits[1:]))
    np.testing.assert_allclose(upper_end(hits, 20, 1e-3)[:-1], beta.isf(1e-3, hits[:-1] + 1, 20 - hits[:-1]))
    assert (lower_end(0, 20, 1e-3), upper_end(20, 20, 1e-3)) == (0.0, 1.0)
    # Exact coverage, summed over the binomial distribution instead of drawn.
    for rate in (0.01, 0.3, 0.9):
        outcomes = np.arange(41)
        assert binom.pmf(outcomes, 40, rate) @ (lower_end(outcomes, 40, 0.05) > rate) <= 0.05
        assert binom.pmf(outcomes, 40, rate) @ (upper_end(outcomes, 40, 0.05) < rate) <= 0.05


def test_lower_end_of_delta_is_too_high_no_more_often_than_promised() -> None:
    hits = np.arange(31)
    for rate, false_rate in ((0.5, 0.1), (0.9, 0.3), (0.2, 0.0)):
        joint = np.outer(binom.pmf(hits, 30, rate), binom.pmf(hits, 30, false_rate))
        bound = delta_lower(hits[:, None], hits[None, :], 30, 0.4, 0.1)
        assert np.sum(joint * (bound > rate - math.exp(0.4) * false_rate)) <= 0.1


@pytest.mark.parametrize("shift", [0.5, 1.0, 2.0])
def test_a_true_claim_is_not_refuted_and_a_third_of_it_is(shift: float) -> None:
    exact = float(GaussianPair.mean_shift(shift).dp_delta(0.5))
    x, y = shifted(5, 40_000, shift)
    honest = audit_scores(x, y, claim=(0.5, exact))
    assert not honest.refuted
    assert honest.delta_lower > 0.3 * exact
    assert audit_scores(x, y, claim=(0.5, exact / 3)).refuted


def test_false_alarms_are_as_rare_as_promised() -> None:
    """At confidence 0.8 a claim that just holds is refuted in at most a fifth of audits; 300 audits, seeded."""
    exact = float(GaussianPair.mean_shift(1.0).dp_delta(0.3))
    audits = [audit_scores(*shifted(seed, 400, 1.0), claim=(0.3, exact), confidence=0.8) for seed in range(300)]
    assert sum(found.refuted for found in audits) <= 60


def test_draws_needed_are_enough_and_not_far_too_many() -> None:
    pair = GaussianPair.mean_shift(1.5)
    count = draws_needed(pair, claim=(1.0, 0.1), power=0.9)
    assert sum(audit_scores(*shifted(seed, count, 1.5), claim=(1.0, 0.1)).refuted for seed in range(40)) >= 32
    few = [audit_scores(*shifted(seed, count // 5, 1.5), claim=(1.0, 0.1)).refuted for seed in range(40)]
    assert sum(few) <= 20
    assert draws_needed(pair, claim=(1.0, 0.2), power=0.9) > count
    assert draws_needed(pair, claim=(1.0, 0.1), power=0.999) > count


def test_both_directions_are_tested() -> None:
    """N(0,1) against N(0,4) is told apart far better in one direction than in the other, whichever comes first."""
    rng = np.random.default_rng(3)
    narrow, wide = rng.normal(size=(2, 20_000)) * [[1.0], [2.0]]
    pair = GaussianPair([0.0], [[1.0]], [0.0], [[4.0]])
    assert pair.delta(0.6) < 0.06 < 0.2 < pair.reversed().delta(0.6)
    for x, y, direction in ((-(narrow**2), -(wide**2), "y_x"), (wide**2, narrow**2, "x_y")):
        found = audit_scores(x, y, claim=(0.6, 0.2))
        assert found.refuted
        assert max(found.events, key=lambda event: event.delta_lower).direction == direction


def test_infinite_scores_tell_disjoint_supports() -> None:
    x = np.where(np.arange(2000) % 4 == 0, np.inf, 0.0)
    found = audit_scores(x, np.zeros(2000), claim=(20.0, 0.0))
    # 375 of 1500 untouched outputs; e^20 times the upper end of a frequency of 0 swallows everything.
    assert found.events[0].hits == 375
    assert not found.refuted
    assert audit_scores(x, np.zeros(2000), claim=(1.0, 0.1)).refuted


@pytest.mark.parametrize("test", ["learned", HistGradientBoostingClassifier(max_iter=30, random_state=0)], ids=type)
def test_a_learnt_test_finds_a_difference_of_covariances(test: Any) -> None:
    rng = np.random.default_rng(8)
    x, y = 2.0 * rng.normal(size=(8000, 2)), rng.normal(size=(8000, 2))
    exact = float(GaussianPair([0, 0], 4.0 * np.eye(2), [0, 0], np.eye(2)).dp_delta(0.5))
    found = audit_samples(x, y, claim=(0.5, 0.5 * exact), test=test)
    assert found.refuted
    assert not audit_samples(x, y, claim=(0.5, exact), test=test).refuted
    # Nothing can be learnt where nothing differs.
    same = audit_samples(y[:4000], y[4000:], claim=(0.0, 0.02), test=test)
    assert not same.refuted


def test_mechanism_by_its_likelihood_ratio_and_power_of_a_repetition() -> None:
    rng = np.random.default_rng(2)

    def draw(data: float, count: int) -> Any:
        return data + rng.normal(size=count)

    found = audit_mechanism(draw, 2.0, 0.0, draws=4000, claim=(1.0, 0.2), test=lambda out: 2.0 * out - 2.0)
    assert found.refuted
    assert found.power_lower() >= 0.99
    assert found["verdict"] == "refuted"
    assert audit_mechanism(draw, 0.1, 0.0, draws=400, claim=(1.0, 0.2)).power_lower() == 0.0


def test_bad_input_is_refused() -> None:
    with pytest.raises(NotFiniteError, match="scores_y"):
        audit_scores(np.zeros(10), np.full(10, np.nan), claim=(1.0, 0.1))
    with pytest.raises(ShapeError, match="equally many"):
        audit_scores(np.zeros(10), np.zeros(11), claim=(1.0, 0.1))
    with pytest.raises(ShapeError, match="one shape"):
        audit_samples(np.zeros((10, 2)), np.zeros((10, 3)), claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="confidence"):
        audit_scores(np.zeros(10), np.zeros(10), claim=(1.0, 0.1), confidence=1.0)
    with pytest.raises(ParameterError, match="pilot"):
        audit_scores(np.zeros(10), np.zeros(10), claim=(1.0, 0.1), pilot=0.0)
    with pytest.raises(ParameterError, match="test"):
        audit_samples(np.zeros((10, 2)), np.zeros((10, 2)), claim=(1.0, 0.1), test="guess")
    with pytest.raises(ShapeError, match="learnt"):
        audit_samples(np.zeros((10, 2)), np.zeros((10, 2)), claim=(1.0, 0.1))
    with pytest.raises(NotFiniteError, match="finite"):
        audit_samples(np.full((100, 2), np.inf), np.zeros((100, 2)), claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="holds"):
        draws_needed(GaussianPair.mean_shift(0.1), claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="single pair"):
        draws_needed(GaussianPair.mean_shift([0.1, 2.0]), claim=(1.0, 0.1))
