"""Mechanisms of one's own, by the laws of their answers, against closed forms and plain sums."""

from __future__ import annotations

import itertools
import json
import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import scipy

from gaussveil import DPSGD, Accountant, Gaussian, GaussianPair, Laplace, Pair, RandomisedResponse, verify
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.spectrum.group_curve import GroupCurve
from gaussveil.spectrum.profiles import profile_from_dict
from gaussveil.typing import Floats

EPSILONS = (0.0, 0.2, 0.45, 0.7)


def run() -> Accountant:
    return Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), steps=300)


def truncated_laplace(mean: float) -> Any:
    """Noise of scale 2 on -10..10, about a mean between."""
    size = 2.0 * (2.0 - math.exp(-(10.0 - mean) / 2.0) - math.exp(-(10.0 + mean) / 2.0))
    return lambda x: np.exp(-np.abs(x - mean) / 2.0) / size


def test_probabilities_are_exact_beside_training() -> None:
    answer = Pair({"yes": 0.75, "no": 0.25}, {"no": 0.75, "yes": 0.25})
    known = RandomisedResponse(math.log(3.0))
    assert run().add(answer).epsilon(1e-5) == pytest.approx(run().add(known).epsilon(1e-5), rel=1e-9)
    ends = run().add(answer).enclose(2.0)
    assert ends.proven
    assert ends.relative_width < 1e-9
    assert answer.reversed() is answer


@pytest.mark.parametrize("seed", range(3))
def test_any_probabilities_against_a_plain_sum(seed: int) -> None:
    generator = np.random.default_rng(seed)
    p, q = generator.dirichlet(np.ones(7), size=2)
    q[0] = 0.0
    q /= q.sum()
    pair = Pair(p, q)
    for epsilon in EPSILONS:
        for side, (one, other) in ((pair, (p, q)), (pair.reversed(), (q, p))):
            expected = float(np.maximum(one - math.exp(epsilon) * other, 0.0).sum())
            assert expected <= float(side.delta(epsilon)) <= expected * (1.0 + 1e-12) + 1e-15
            ends = side.enclose(epsilon)
            assert float(ends.lower) <= expected * (1.0 + 1e-12)
            assert expected <= float(ends.upper) * (1.0 + 1e-12)
    both = Accountant().add(pair).add(Gaussian(noise_multiplier=2.0))
    curve = GaussianPair.mean_shift(0.5)
    mixed = p[0]
    for one, other in zip(p[1:], q[1:]):
        level = 1.0 - math.log(one / other)
        at = float(curve.delta(level)) if level >= 0.0 else -math.expm1(level) + math.exp(level) * curve.delta(-level)
        mixed += one * at
    ahead = both.loss
    assert float(ahead.delta(1.0)) == pytest.approx(mixed, rel=1e-8)


def test_densities_are_bounded_from_both_sides() -> None:
    pair = Pair(truncated_laplace(1.0), truncated_laplace(0.0), support=(-10, 10), breaks=(0, 1))
    places = np.linspace(-10.0, 10.0, 2_000_001)
    middle = 0.5 * (places[1:] + places[:-1])
    for side, (first, second) in ((pair, (1.0, 0.0)), (pair.reversed(), (0.0, 1.0))):
        for epsilon in EPSILONS[:3]:
            gap = truncated_laplace(first)(middle) - math.exp(epsilon) * truncated_laplace(second)(middle)
            expected = 1e-5 * float(np.maximum(gap, 0.0).sum())
            assert expected * (1.0 - 1e-9) <= float(side.delta(epsilon)) <= expected * (1.0 + 1e-5)
            below = side.fainter()
            assert float(below.delta(epsilon)) - 4.0 * below.rounded_by <= expected * (1.0 + 1e-9)
    whole = run().add(pair).enclose(1.5)
    assert 0.0 < whole.lower <= whole.upper <= whole.lower * (1.0 + 1e-5)


def test_distributions_of_scipy_need_no_support() -> None:
    noise = Pair(scipy.stats.laplace(1, 2), scipy.stats.laplace(0, 2))
    for epsilon in EPSILONS[:3]:
        known = float(Laplace(0.5).delta(epsilon))
        assert known <= float(noise.delta(epsilon)) <= known * (1.0 + 1e-5)
    normal = Pair(scipy.stats.norm(1, 2), scipy.stats.norm(0, 2))
    for epsilon in (0.0, 1.0, 2.0):
        known = float(GaussianPair.mean_shift(0.5).delta(epsilon))
        assert known <= float(normal.delta(epsilon)) <= known * (1.0 + 1e-3)


def test_what_a_density_lacks_is_charged_or_refused() -> None:
    half = scipy.stats.norm(0, 1)
    with pytest.raises(ParameterError, match="integrates to 1"):
        Pair(scipy.stats.norm(1, 1).pdf, half.pdf, support=(-3, 4))
    open_ = Pair(scipy.stats.norm(1, 1).pdf, half.pdf, support=(-3, 4), error=0.01)
    missing = float(half.cdf(-3.0) + half.sf(4.0))
    assert float(open_.reversed().delta(20.0)) >= missing
    assert float(open_.delta(1.0)) >= float(GaussianPair.mean_shift(1.0).delta(1.0))
    with pytest.raises(ParameterError, match="support"):
        Pair(half.pdf, half.pdf)


def test_losses_by_a_table() -> None:
    pair = Pair.of_losses([1.0, 0.0, -1.0, math.inf], [0.4, 0.4, 0.15, 0.05])
    for epsilon in (0.0, 0.5, 1.0, 2.0):
        expected = 0.05 + 0.4 * max(-math.expm1(epsilon - 1.0), 0.0)
        assert expected <= float(pair.delta(epsilon)) <= expected * (1.0 + 1e-12) + 1e-15
    with pytest.raises(ParameterError, match="at most 1"):
        Pair.of_losses([-1.0], [1.0])


def table(losses: dict[int, float], infinity: float, *, pessimistic: bool = True) -> Any:
    return SimpleNamespace(
        _loss_probs=losses, _infinity_mass=infinity, _discretization=0.5, _pessimistic_estimate=pessimistic
    )


def test_a_distribution_of_privacy_losses_keeps_its_pessimism() -> None:
    ahead = table({1: 0.6, 0: 0.1, -1: 0.2}, 0.1)
    back = table({1: 0.5, 0: 0.24, -1: 0.25}, 0.01)
    pair = Pair(SimpleNamespace(_pmf_remove=ahead, _pmf_add=back))
    for epsilon in (0.0, 0.3, 1.0):
        assert float(pair.delta(epsilon)) == pytest.approx(0.1 + 0.6 * max(-math.expm1(epsilon - 0.5), 0.0), rel=1e-12)
        other = 0.01 + 0.5 * max(-math.expm1(epsilon - 0.5), 0.0)
        assert float(pair.reversed().delta(epsilon)) == pytest.approx(other, rel=1e-12)
    assert pair.reversed().reversed() == pair
    optimistic = table({1: 0.6, -1: 0.4}, 0.0, pessimistic=False)
    with pytest.raises(ParameterError, match="optimistic"):
        Pair(SimpleNamespace(_pmf_remove=optimistic, _pmf_add=back))


def test_it_is_stored_charged_and_certified() -> None:
    pair = Pair([0.7, 0.2, 0.1], [0.5, 0.2, 0.3])
    assert profile_from_dict(json.loads(json.dumps(pair.to_dict()))) == pair
    certificate = Accountant().add(pair, 2).add(Gaussian(noise_multiplier=3.0)).certify(delta=1e-5)
    assert certificate.proven
    assert verify(certificate).outcome == "verified"


@pytest.mark.parametrize(
    ("p", "q", "error"),
    [
        ([0.5, 0.6], [0.5, 0.5], ParameterError),
        ([1.5, -0.5], [0.5, 0.5], ParameterError),
        ([1.0], [0.5, 0.5], ShapeError),
        ([[0.5, 0.5]], [0.5, 0.5], ShapeError),
        ({"a": 1.0}, [1.0], ParameterError),
        ([1.0], None, ParameterError),
    ],
)
def test_what_is_no_pair_is_refused(p: Any, q: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        Pair(p, q)


def test_groups_of_gaussians_are_exact_and_others_are_never_below_the_truth() -> None:
    both = Accountant().add(Gaussian(noise_multiplier=6.0), 4).add(Laplace(0.1)).group(3)
    known = Accountant().add(Gaussian(noise_multiplier=2.0), 4).add(Laplace(0.3))
    assert both.epsilon(1e-5) == pytest.approx(known.epsilon(1e-5), rel=1e-12)
    shift = GaussianPair.mean_shift(0.5)
    for members, epsilon in itertools.product((1, 2, 5), (0.0, 0.5, 2.0)):
        truth = float(GaussianPair.mean_shift(0.5 * members).delta(epsilon))
        assert truth <= float(GroupCurve(shift, members).delta(epsilon)) <= truth * (1.0 + 2e-3)
    answers = Accountant().add(RandomisedResponse(0.5)).group(3)
    apart = Pair(*_independent(3, 0.5))  # three answers, of three people
    for epsilon in (0.0, 0.5, 1.4):
        assert float(apart.delta(epsilon)) <= answers.delta(epsilon)
    assert answers.epsilon(0.0) == pytest.approx(1.5, rel=1e-9)
    batch = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.1)).group(2)
    place = np.linspace(-12.0, 14.0, 200_001)
    density = sum(
        share * scipy.stats.norm(j, 1).pdf(place) for j, share in enumerate(scipy.stats.binom(2, 0.1).pmf([0, 1, 2]))
    )
    excess = np.maximum(density - math.exp(0.3) * scipy.stats.norm(0, 1).pdf(place), 0.0)
    assert float(excess.sum() * (place[1] - place[0])) <= batch.delta(0.3)
    with pytest.raises(ParameterError, match="members"):
        Accountant().group(0)


def _independent(people: int, epsilon: float) -> tuple[list[float], list[float]]:
    true = math.exp(epsilon) / (1.0 + math.exp(epsilon))
    counts = np.arange(people + 1)
    shares = scipy.stats.binom(people, true).pmf(counts)
    return shares.tolist(), shares[::-1].tolist()


def test_groups_are_never_below_tests_in_a_row_where_answers_reveal() -> None:
    """Tests of all answers of three uses in their order, one after the other, against what is promised for two."""
    with_record = [0.01, 0.5, 0.49, 0.0]
    without = [0.0, 0.2, 0.7, 0.1]
    p = q = np.ones(1)
    for _ in range(3):
        p = np.outer(p, with_record).ravel()
        q = np.outer(q, without).ravel()

    def found(null: Floats, other: Floats, rates: Floats) -> Floats:
        order = np.argsort(np.where(other > 0.0, null / np.maximum(other, 1e-300), np.inf))
        ends = [np.append(0.0, np.cumsum(column[order])) for column in (null, other)]
        return np.interp(rates, *ends)

    rates = np.linspace(0.0, 1.0, 1001)
    twice = rates
    for _ in range(2):
        twice = np.maximum(found(q, p, twice), found(p, q, twice))
    group = Accountant().add(Pair(with_record, without), 3).group(2)
    for epsilon in (0.0, 0.2, 1.0):
        truth = float(np.max(twice - math.exp(epsilon) * rates))
        assert truth <= group.delta(epsilon) <= 1.1 * truth


def test_ends_of_densities_are_not_called_proven() -> None:
    """Those of probabilities are."""
    answer = Pair([0.7, 0.3], [0.4, 0.6])
    density = Pair(scipy.stats.logistic(0.5), scipy.stats.logistic(0.0))
    exact = math.tanh(0.125)
    found = Accountant().add(density).enclose(0.0)
    assert exact - 1e-9 <= found.lower <= exact + 1e-15 < found.upper
    assert (found.proven, Accountant().add(answer).enclose(0.0).proven) == (False, True)


def test_groups_of_what_surely_reveals_have_a_delta_of_one() -> None:
    revealing = Accountant().add(Pair([1.0, 0.0], [0.0, 1.0])).group(2)
    assert revealing.delta(3.0) == 1.0
