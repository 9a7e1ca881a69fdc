"""Properties that every privacy loss has."""

from __future__ import annotations

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import norm

from gaussveil.errors import NumericalError, ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose, contour

GAPS = st.floats(-20.0, 0.95)
MEANS = st.floats(-6.0, 6.0)
PAIRS = st.integers(1, 6).flatmap(
    lambda d: st.tuples(st.lists(GAPS, min_size=d, max_size=d), st.lists(MEANS, min_size=d, max_size=d))
)


def random_covariance(generator: np.random.Generator, d: int) -> np.ndarray:
    root = generator.standard_normal((d, d + 3))
    return root @ root.T / d


@settings(max_examples=60)
@given(PAIRS, st.floats(0.0, 6.0))
def test_curve_falls_and_is_convex_in_exp_epsilon(pair: tuple, top: float) -> None:
    loss = GaussianPair.from_reduced(*pair)
    factors = np.linspace(1.0, np.exp(top) + 0.5, 9)
    delta = loss.delta(np.log(factors))
    slack = 1e-11 * delta[0]
    assert np.all((delta >= 0) & (delta <= 1))
    assert np.all(np.diff(delta) <= slack)
    assert np.all(np.diff(delta, 2) >= -4 * slack)


@settings(max_examples=60)
@given(PAIRS)
def test_total_variation_is_symmetric(pair: tuple) -> None:
    loss = GaussianPair.from_reduced(*pair)
    assert loss.delta(0.0) == pytest.approx(loss.reversed().delta(0.0), rel=1e-10, abs=1e-14)


@settings(max_examples=40)
@given(PAIRS, st.floats(0.0, 8.0))
def test_delta_is_the_difference_of_two_tails(pair: tuple, epsilon: float) -> None:
    """delta = Pr_X[L > eps] - e^eps Pr_Y[L > eps]; the tail under Y is the reversed loss below -eps."""
    loss = GaussianPair.from_reduced(*pair)
    assume(loss.delta(0.0) > 1e-6)  # identical Gaussians have an atom at loss zero
    under_y = 1 - loss.reversed().loss_tail(-epsilon)
    expected = loss.loss_tail(epsilon) - np.exp(epsilon) * under_y
    assert loss.delta(epsilon) == pytest.approx(expected, abs=1e-12 * np.exp(epsilon) + 1e-12)


@settings(max_examples=40)
@given(PAIRS, st.floats(1e-9, 0.3))
def test_epsilon_is_private_and_tight(pair: tuple, target: float) -> None:
    loss = GaussianPair.from_reduced(*pair)
    epsilon = loss.epsilon(target)
    assert loss.enclose(epsilon).upper <= target
    if epsilon > 0:
        assert loss.delta(epsilon * (1 - 1e-7)) > target * (1 - 1e-6)


@settings(max_examples=30)
@given(PAIRS, st.floats(0.02, 0.98))
def test_tradeoff_is_dual_to_delta(pair: tuple, level: float) -> None:
    """1 - delta(eps) - e^eps * alpha is a lower line of the trade-off curve, for every eps, and touches it
    somewhere.
    """
    loss = GaussianPair.from_reduced(*pair)
    missed = loss.tradeoff(level)
    assert 0 <= missed <= 1 - level + 1e-12
    lines = 1 - loss.delta(np.linspace(0, 8, 33)) - np.exp(np.linspace(0, 8, 33)) * level
    assert missed >= lines.max() - 1e-10


def test_tradeoff_of_a_mean_shift_is_gaussian() -> None:
    levels = np.array([0.0, 1e-6, 0.05, 0.5, 0.9, 1.0])
    expected = norm.cdf(norm.ppf(1 - levels) - 1.3)
    np.testing.assert_allclose(GaussianPair.mean_shift(1.3).tradeoff(levels), expected, rtol=1e-10, atol=1e-13)


def test_data_processing() -> None:
    """A linear channel with added noise never raises delta."""
    generator = np.random.default_rng(3)
    for _ in range(40):
        d, k = int(generator.integers(2, 8)), 2
        mean_x, mean_y = generator.standard_normal((2, d))
        cov_x, cov_y = random_covariance(generator, d), random_covariance(generator, d)
        channel, noise = (
            generator.standard_normal((k, d)),
            random_covariance(generator, k) * generator.choice([0.0, 1.0]),
        )
        before = GaussianPair(mean_x, cov_x, mean_y, cov_y)
        after = GaussianPair(
            channel @ mean_x, channel @ cov_x @ channel.T + noise, channel @ mean_y, channel @ cov_y @ channel.T + noise
        )
        epsilon = np.array([0.0, 0.5, 2.0, 5.0])
        assert np.all(after.delta(epsilon) <= before.delta(epsilon) * (1 + 1e-9))
        assert np.all(after.reversed().delta(epsilon) <= before.reversed().delta(epsilon) * (1 + 1e-9))


def test_renyi_divergences() -> None:
    shift = GaussianPair.mean_shift(0.7)
    np.testing.assert_allclose(
        shift.renyi([0.5, 1.0, 1 + 1e-12, 2.0, 30.0]), np.array([0.5, 1.0, 1.0, 2.0, 30.0]) * 0.49 / 2, rtol=1e-9
    )
    wide = GaussianPair.from_reduced([-1.0], [0.0])  # N(0, 2) against N(0, 1): exists below order 2
    assert np.isinf(wide.renyi(2.5))
    assert wide.renyi(1.0) == pytest.approx(0.5 * (2 - 1 - np.log(2)))
    narrow = GaussianPair.from_reduced([0.5], [1.0])
    assert narrow.renyi(np.inf) == pytest.approx(0.5 * np.log(2) + 1.0)
    assert narrow.delta(narrow.renyi(np.inf) + 1e-9) == 0


def test_identical_and_extreme_pairs() -> None:
    same = GaussianPair([1.0, 2.0], np.eye(2), [1.0, 2.0], np.eye(2))
    assert same.delta(0.0) == 0
    assert same.epsilon(0.0) == 0
    assert same.tradeoff(0.25) == pytest.approx(0.75)
    assert GaussianPair.mean_shift(1.0).epsilon(0.0) == np.inf
    assert GaussianPair.mean_shift(1.0).epsilon(1.0) == 0
    assert GaussianPair.mean_shift(1.0).loss_tail([-np.inf, np.inf]).tolist() == [1.0, 0.0]


@pytest.mark.parametrize("energy", [1e-6, 1.7e-19, 1e-40])
def test_hardly_any_loss_exceeds_nothing(energy: float) -> None:
    """Where the saddle's first place was the difference of two equal numbers no tail was found."""
    loss = PrivacyLoss.from_terms([0.0], [1.0], [energy])
    assert loss.loss_tail([1.0, -1.0]).tolist() == [0.0, 1.0]
    assert float(loss.log_delta(1.0)) == pytest.approx(-0.5 / energy, rel=1e-3)


def test_many_random_pairs_behave(full: bool) -> None:
    """Scales across 14 decades, d = 1..200, eps = 0..1000: never negative, never above one, never NaN."""
    generator = np.random.default_rng(11)
    sizes = (
        {1: 3000, 2: 2000, 5: 2000, 12: 2000, 60: 700, 200: 300} if full else {1: 400, 2: 300, 12: 200, 60: 30, 200: 10}
    )
    for d, count in sizes.items():
        spread = 10.0 ** generator.uniform(-7, 1.2, (count, 1))
        logs = np.clip(spread * generator.standard_normal((count, d)), -32, 32)
        means = generator.standard_normal((count, d)) * 10.0 ** generator.uniform(-7, 3, (count, 1))
        epsilon = generator.choice([0.0, 0.1, 1.0, 5.0, 30.0, 100.0, 1000.0], count)
        pair = GaussianPair.from_reduced(np.minimum(-np.expm1(logs), 1 - 1e-14), means)
        for loss in (pair, pair.reversed()):
            delta, log_delta = loss.delta(epsilon), loss.log_delta(epsilon)
            assert np.all((delta >= 0) & (delta <= 1))
            assert np.all(log_delta <= 0)
            assert not np.any(np.isnan(log_delta))


def test_batches_broadcast() -> None:
    batch = GaussianPair.from_reduced(np.array([[0.5, -1.0], [0.0, 0.0], [-3.0, 0.2]]), np.array([0.3, 1.0]))
    assert batch.batch_shape == (3,)
    table = batch.delta(np.array([[0.0], [1.0]]))
    assert table.shape == (2, 3)
    assert table[1, 2] == pytest.approx(GaussianPair.from_reduced([-3.0, 0.2], [0.3, 1.0]).delta(1.0), rel=1e-12)
    with pytest.raises(ShapeError, match="broadcast"):
        batch.delta(np.zeros(4))


def test_composition_of_mean_shifts_is_a_mean_shift() -> None:
    epsilon = np.array([0.0, 1.0, 30.0, 4000.0, 6000.0])
    composed = GaussianPair.mean_shift(1.0) ** 10_000
    np.testing.assert_allclose(
        composed.log_delta(epsilon), GaussianPair.mean_shift(100.0).log_delta(epsilon), rtol=1e-12
    )
    parts = compose(GaussianPair.mean_shift(0.6), GaussianPair.mean_shift(0.8))
    np.testing.assert_allclose(
        parts.delta([0.0, 1.0, 3.0]), GaussianPair.mean_shift(1.0).delta([0.0, 1.0, 3.0]), rtol=1e-12
    )


def test_composition_is_the_product_pair_in_any_order() -> None:
    generator = np.random.default_rng(5)
    pairs = [
        GaussianPair(
            generator.standard_normal(3) * 0.2,
            random_covariance(generator, 3),
            np.zeros(3),
            random_covariance(generator, 3),
        )
        for _ in range(4)
    ]
    gaps, energy = (np.concatenate([getattr(pair, name) for pair in pairs]) for name in ("variance_gap", "energy"))
    product = GaussianPair.from_reduced(gaps, np.sqrt(energy))
    together = compose(*pairs)
    np.testing.assert_allclose(together.delta([0.0, 1.0, 5.0]), product.delta([0.0, 1.0, 5.0]), rtol=1e-12)
    assert compose(*reversed(pairs)).log_delta(2.0) == together.log_delta(2.0)
    assert compose(compose(*pairs[:2]), compose(*pairs[2:])).log_delta(2.0) == together.log_delta(2.0)
    np.testing.assert_allclose(
        together.reversed().delta(1.0), compose(*(pair.reversed() for pair in pairs)).delta(1.0), rtol=1e-12
    )


def test_a_thousand_different_pairs() -> None:
    generator = np.random.default_rng(8)
    means = generator.standard_normal((1000, 12)) * 0.01
    gaps = generator.uniform(-0.02, 0.02, (1000, 12))
    pairs = [GaussianPair.from_reduced(gap, mean) for gap, mean in zip(gaps, means)]
    together = compose(*pairs)
    product = PrivacyLoss.from_terms(gaps.ravel(), np.ones(12_000), means.ravel() ** 2)
    np.testing.assert_allclose(together.log_delta([0.5, 3.0]), product.log_delta([0.5, 3.0]), rtol=1e-12)
    assert compose(*reversed(pairs)).delta(1.0) == together.delta(1.0)


def test_orientation_matters_in_a_composition() -> None:
    """Two entries with variance ratio 4 at eps = 1: 0.338 together, 0.236 when one of them is stored the wrong way
    round.
    """
    wide = GaussianPair.from_reduced([-3.0], [0.0])
    assert compose(wide, wide).dp_delta(1.0) == pytest.approx(0.338, abs=1e-3)
    assert compose(wide, wide.reversed()).dp_delta(1.0) == pytest.approx(0.236, abs=1e-3)


def test_round_trip_through_json_form() -> None:
    loss = compose(GaussianPair.from_reduced([0.1, -7.0], [1e-5, 3.0]) ** 7, GaussianPair.mean_shift(0.3))
    again = PrivacyLoss.from_dict(loss.to_dict())
    assert again.log_delta(1.5) == loss.log_delta(1.5)
    assert again.to_dict() == loss.to_dict()


@pytest.mark.parametrize("count", [0, -1, 2.5, True])
def test_only_whole_repetitions(count: object) -> None:
    with pytest.raises(ParameterError, match="whole number"):
        GaussianPair.mean_shift(1.0) ** count


def test_a_trace_of_mean_at_an_equal_variance_changes_nothing() -> None:
    """Such traces come from rounding in rank-one differences; the loss is then unbounded, but only in theory."""
    expected = GaussianPair.from_reduced([0.168, 0.0], [0.275, 0.0]).epsilon(1e-6)
    assert GaussianPair.from_reduced([0.168, 0.0], [0.275, 1e-12]).epsilon(1e-6) == pytest.approx(expected, rel=1e-9)
    rank_one = GaussianPair([0.3, 0], [[1.2, 0.1], [0.1, 1]], [0, 0], [[1, 0.1], [0.1, 1]])
    assert rank_one.reversed().delta(1.0) == 0
    assert rank_one.reversed().enclose(1.0).upper < 1e-300


def test_a_loss_cannot_be_changed_after_the_fact() -> None:
    covariance = np.eye(2)
    pair = GaussianPair([1.0, 0.0], covariance, [0.0, 0.0], np.eye(2))
    before = pair.delta(1.0)
    covariance[0, 0] = 9.0
    with pytest.raises(ValueError, match="read-only"):
        pair.energy[...] = 0.0
    assert pair.delta(1.0) == before
    assert pair.enclose(1.0).lower <= before * (1 + 1e-12)


@pytest.mark.parametrize("shift", [1e-150, 1e-163, 1e-200, 1e-300, 5e-324])
def test_a_faint_shift_costs_too_much_rather_than_nothing(shift: float) -> None:
    truth = shift / math.sqrt(2 * math.pi)  # delta at epsilon 0, to first order
    for pair in (
        GaussianPair.mean_shift(shift),
        GaussianPair([shift], [[1.0]], [0.0], [[1.0]]),
        GaussianPair([0.0, shift], np.eye(2), [0.0, 0.0], np.eye(2)),
    ):
        assert truth * (1 - 1e-12) <= pair.delta(0.0) < 1e-100


def test_a_mean_in_a_wide_gaussian_is_bounded_or_refused_at_any_scale() -> None:
    for variance in (1e200, 1e290, 0.9e300):
        assert np.all(GaussianPair([1e140], [[variance]], [0.0], [[1.0]]).delta([0.0, 1.0, 50.0]) > 0.99)
    for variance in (1e301, 1e305, 1e308):
        with pytest.raises(NumericalError, match="far apart"):
            GaussianPair([0.0], [[variance]], [0.0], [[1.0]])


def test_delta_falls_to_zero_however_large_epsilon() -> None:
    curve = GaussianPair.from_reduced([0.1, -0.2], [0.5, 0.1]).delta([1e3, 1e10, 1e100, 1e153, 1e158, 1e300])
    assert np.all(curve == 0)


@settings(max_examples=40)
@given(
    st.lists(st.floats(1e-6, 0.95), min_size=1, max_size=4),
    st.floats(0.0, 3.0),
    st.sampled_from([0.0, 1e-300, 1e-100, 1e-30]),
)
def test_epsilon_next_to_the_largest_loss_is_private(gaps: list[float], mean: float, target: float) -> None:
    loss = GaussianPair.from_reduced(gaps, mean)
    epsilon = float(loss.epsilon(target))
    found = loss.enclose(epsilon)
    assert found.lower <= target
    assert target > 0.0 or found.log_lower == -math.inf


@pytest.mark.parametrize("gap", [1e-10, 1.4555e-05, 0.005685517764970434, 0.31711729125552746, 0.8187225019933846])
def test_no_test_is_worse_than_a_blind_one(gap: float) -> None:
    """Type II error <= 1 - alpha, also where the loss ends and thresholds in doubles are too coarse."""
    level = 1.0 - np.array([1e-4, 1e-8, 1e-9, 1e-10, 1e-12, 1e-14])
    for loss in (PrivacyLoss.from_terms([gap], [1.0], [0.0]), PrivacyLoss.from_terms([gap], [1.0], [5e-5])):
        for side in (loss, loss.reversed()):
            assert np.all(side.tradeoff(level) <= 1.0 - level)


def test_an_epsilon_takes_three_evaluations_of_delta(monkeypatch: pytest.MonkeyPatch) -> None:
    """By a good first guess; a few more where the error bound jumps, many only where a bounded loss ends."""
    rng = np.random.default_rng(5)
    counts: list[int] = []
    evaluate = contour.log_hockey_stick

    def counted(*arguments: Any) -> Any:
        counts[-1] += 1
        return evaluate(*arguments)

    monkeypatch.setattr(contour, "log_hockey_stick", counted)
    for _ in range(150):
        size = int(rng.integers(1, 13))
        gaps = np.minimum(-np.expm1(rng.normal(size=size) * 10 ** rng.uniform(-4, 0)), 0.999) * (rng.random() > 0.2)
        loss = PrivacyLoss.from_terms(gaps, np.full(size, 1.0), rng.random(size) * 10 ** rng.uniform(-4, 1.5))
        delta = 10 ** rng.uniform(-12, -0.1)
        counts.append(0)
        epsilon, spent = float(loss.epsilon(delta)), counts[-1]
        found = float(loss.delta(epsilon))
        assert found <= delta
        assert epsilon == 0 or found >= delta * (1 - 1e-9) or loss.delta(epsilon * (1 - 1e-14)) > delta
        counts[-1] = spent
    assert np.quantile(counts, 0.9) <= 4
    assert statistics.median(counts) == 3
