"""Named profiles against their definitions: sums over outcomes and quadrature of the positive part."""

from __future__ import annotations

import json
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from gaussveil.errors import FormatError, InputError, NotFiniteError, ParameterError
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.curve import mean_shift_delta
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    PrivacyProfile,
    RandomisedResponse,
    ResponseOrNoise,
    profile_from_dict,
)

EPSILONS = np.array([0.0, 0.01, 0.3, 0.7, 1.0, 1.9, 2.5, 6.0])
ASYMMETRIC = GaussianPair.from_reduced([-3.0], [0.5])  # X ~ N(1/2, 4), Y ~ N(0, 1)
PROFILES: list[PrivacyProfile] = [
    RandomisedResponse(1.2),
    RandomisedResponse(0.7, 5),
    ResponseOrNoise(0.4, 5),
    Laplace(1.7),
    DiscreteLaplace(3, 2.5),
    ApproximatePoint(0.8, 1e-3),
    PoissonSubsampled(RandomisedResponse(2.0, 3), 0.3),
    PoissonSubsampled(PoissonSubsampled(Laplace(1.0), 0.5), 0.25),
    PoissonSubsampled(GaussianPair.mean_shift(0.8), 0.1),
    PoissonSubsampled(ASYMMETRIC, 0.2).reversed(),
]


def hockey_stick(p: np.ndarray, q: np.ndarray, epsilon: float) -> float:
    return float(np.sum(np.maximum(p - np.exp(epsilon) * q, 0.0)))


def response(epsilon: float, classes: int, truth: int) -> np.ndarray:
    law = np.ones(classes)
    law[truth] = np.exp(epsilon)
    return law / law.sum()


@pytest.mark.parametrize(("epsilon", "classes"), [(0.0, 2), (1.1, 2), (0.4, 7), (3.0, 3)])
def test_randomised_response_is_the_sum_over_answers(epsilon: float, classes: int) -> None:
    p, q = response(epsilon, classes, 0), response(epsilon, classes, 1)
    expected = [hockey_stick(p, q, e) for e in EPSILONS]
    np.testing.assert_allclose(RandomisedResponse(epsilon, classes).delta(EPSILONS), expected, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("noise", "classes"), [(1.0, 2), (0.3, 2), (0.05, 20), (0.999, 7)])
def test_answers_against_one_at_random_are_sums_over_answers(noise: float, classes: int) -> None:
    truth, alike = np.full(classes, noise / classes), np.full(classes, 1.0 / classes)
    truth[0] += 1.0 - noise
    profile = ResponseOrNoise(noise, classes)
    for side, p, q in ((profile, truth, alike), (profile.reversed(), alike, truth)):
        np.testing.assert_allclose(side.delta(EPSILONS), [hockey_stick(p, q, e) for e in EPSILONS], 1e-12, 1e-15)
        assert side.delta(side.largest_loss) == 0.0


@pytest.mark.parametrize(("shift", "scale"), [(1, 1.0), (2, 0.8), (5, 3.3), (12, 4.0), (40, 50.0)])
def test_discrete_laplace_is_the_sum_over_integers(shift: int, scale: float) -> None:
    points = np.arange(-2000, 2000)
    rate = 1.0 / scale
    constant = -np.expm1(-rate) / (1.0 + np.exp(-rate))
    p, q = constant * np.exp(-rate * np.abs(points - shift)), constant * np.exp(-rate * np.abs(points))
    grid = np.concatenate([EPSILONS, np.arange(shift + 1) * rate])
    expected = [hockey_stick(p, q, e) for e in grid]
    np.testing.assert_allclose(DiscreteLaplace(shift, scale).delta(grid), expected, rtol=1e-11, atol=2e-14)


def test_laplace_is_the_integral_and_the_limit_of_the_discrete_one() -> None:
    profile = Laplace(1.7)
    for epsilon in EPSILONS[:5]:
        found, _ = integrate.quad(
            lambda x, e=epsilon: max(np.exp(-abs(x - 1.7)) - np.exp(e - abs(x)), 0.0) / 2,
            -40,
            60,
            points=[0, 1.7],
            limit=200,
        )
        assert profile.delta(epsilon) == pytest.approx(found, rel=1e-6)
    np.testing.assert_allclose(DiscreteLaplace(170_000, 100_000.0).delta(EPSILONS), profile.delta(EPSILONS), atol=1e-5)


@pytest.mark.parametrize("rate", [1e-3, 0.1, 0.6, 1.0])
@pytest.mark.parametrize("pair", [GaussianPair.mean_shift(1.3), ASYMMETRIC], ids=["shift", "asymmetric"])
def test_poisson_subsampling_is_the_integral_of_the_mixture(rate: float, pair) -> None:
    wide = not np.all(pair.variance_gap == 0)
    x, y = (stats.norm(0.5, 2.0), stats.norm()) if wide else (stats.norm(1.3), stats.norm())
    grid = np.linspace(-30, 30, 400_001)
    with_row, without = rate * x.pdf(grid) + (1 - rate) * y.pdf(grid), y.pdf(grid)
    profile = PoissonSubsampled(pair, rate)
    for epsilon in (0.0, 0.002, 0.2, 0.9, 2.0):
        a = np.exp(epsilon)
        removed = integrate.simpson(np.maximum(with_row - a * without, 0.0), x=grid)
        added = integrate.simpson(np.maximum(without - a * with_row, 0.0), x=grid)
        assert profile.delta(epsilon) == pytest.approx(removed, rel=1e-5, abs=1e-9)
        assert profile.reversed().delta(epsilon) == pytest.approx(added, rel=1e-5, abs=1e-9)
        assert profile.dp_delta(epsilon) == max(profile.delta(epsilon), profile.reversed().delta(epsilon))


def test_poisson_subsampling_of_a_discrete_law_is_the_sum_over_answers() -> None:
    p, q, rate = response(2.0, 4, 0), response(2.0, 4, 1), 0.35
    mixture = rate * p + (1 - rate) * q
    profile = PoissonSubsampled(RandomisedResponse(2.0, 4), rate)
    for epsilon in EPSILONS:
        assert profile.delta(epsilon) == pytest.approx(hockey_stick(mixture, q, epsilon), rel=1e-12, abs=1e-15)
        assert profile.reversed().delta(epsilon) == pytest.approx(
            hockey_stick(q, mixture, epsilon), rel=1e-12, abs=1e-15
        )
    assert profile.largest_loss == pytest.approx(np.log(np.max(mixture / q)), rel=1e-13)
    assert profile.reversed().largest_loss == pytest.approx(np.log(np.max(q / mixture)), rel=1e-13)


def test_closed_form_of_mean_shifts_agrees_with_the_contour() -> None:
    for shift in (1e-3, 0.3, 1.0, 7.0):
        epsilon = np.array([0.0, 0.2, 1.0, 4.0, 9.0]) * shift
        contour = GaussianPair.mean_shift(shift).delta(epsilon)
        np.testing.assert_allclose(mean_shift_delta(shift, epsilon), contour, rtol=1e-11)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_every_curve_falls_and_is_convex_in_exp_epsilon(profile: PrivacyProfile) -> None:
    for side in (profile, profile.reversed()):
        a = np.linspace(1.0, 12.0, 600)
        delta = side.delta(np.log(a))
        assert np.all(np.diff(delta) <= 1e-15)
        assert np.all(np.diff(delta, 2) >= -1e-14)
        assert np.all((delta >= 0) & (delta <= 1))
        assert side.delta(0.0) == pytest.approx(side.reversed().delta(0.0), rel=1e-12)


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_epsilon_is_the_private_end(profile: PrivacyProfile) -> None:
    for side in (profile, profile.reversed()):
        for target in (0.5, 0.1, 2e-3):
            epsilon = side.epsilon(target)
            assert side.delta(epsilon) <= target
            if epsilon > 0:
                assert side.delta(epsilon * (1 - 1e-9)) > target * (1 - 1e-6)
    assert profile.dp_epsilon(0.01) == max(profile.epsilon(0.01), profile.reversed().epsilon(0.01))


def test_epsilon_at_the_limits() -> None:
    assert RandomisedResponse(1.5).epsilon(0.0) == 1.5
    assert ApproximatePoint(0.8, 1e-3).epsilon(1e-4) == np.inf
    assert ApproximatePoint(0.8, 1e-3).epsilon(1e-3) == 0.8
    assert PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.5).epsilon(0.0) == np.inf
    # Seen without the row, its absence is never a surprise of more than 1/(1-q).
    assert PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.5).reversed().epsilon(0.0) == pytest.approx(
        np.log(2.0), rel=1e-12
    )
    np.testing.assert_array_equal(Laplace(1.0).epsilon([1.0, 0.0]), [0.0, 1.0])


@pytest.mark.parametrize("profile", PROFILES, ids=lambda p: p.name)
def test_json_round_trip_keeps_every_bit(profile: PrivacyProfile) -> None:
    again = profile_from_dict(json.loads(json.dumps(profile.to_dict())))
    assert type(again) is type(profile)
    assert again.to_dict() == profile.to_dict()
    np.testing.assert_array_equal(again.delta(EPSILONS), profile.delta(EPSILONS))
    np.testing.assert_array_equal(again.reversed().delta(EPSILONS), profile.reversed().delta(EPSILONS))


@given(st.floats(0.0, 50.0), st.integers(2, 1000))
@settings(derandomize=True, deadline=None)
def test_equal_parameters_are_equal_profiles(epsilon: float, classes: int) -> None:
    profile = RandomisedResponse(epsilon, classes)
    again = profile_from_dict(json.loads(json.dumps(profile.to_dict())))
    assert again == profile
    assert hash(again) == hash(profile)
    assert profile.parameters == {"epsilon": epsilon, "classes": classes}


@pytest.mark.parametrize(
    "record",
    [
        {},
        {"profile": "laplace", "version": 1},
        {"profile": "laplace", "version": 2, "parameters": {"shift_over_scale": 1.0}},
        {"profile": "unknown", "version": 1, "parameters": {}},
        {"profile": ["laplace"], "version": 1, "parameters": {}},
        {"profile": "laplace", "version": 1, "parameters": {"scale": 1.0}},
        {"profile": "laplace", "version": 1, "parameters": {"shift_over_scale": 1.0, "extra": 2}},
    ],
)
def test_unknown_records_are_refused(record: dict) -> None:
    with pytest.raises(FormatError):
        profile_from_dict(record)


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: RandomisedResponse(-1.0), ParameterError),
        (lambda: RandomisedResponse(float("nan")), NotFiniteError),
        (lambda: RandomisedResponse(1.0, 1), ParameterError),
        (lambda: RandomisedResponse(1.0, 2.0), ParameterError),
        (lambda: RandomisedResponse("one"), InputError),
        (lambda: RandomisedResponse([1.0, 2.0]), ParameterError),
        (lambda: Laplace(-0.1), ParameterError),
        (lambda: DiscreteLaplace(0, 1.0), ParameterError),
        (lambda: DiscreteLaplace(1, 0.0), ParameterError),
        (lambda: ApproximatePoint(1.0, 1.5), ParameterError),
        (lambda: PoissonSubsampled(Laplace(1.0), 0.0), ParameterError),
        (lambda: PoissonSubsampled(Laplace(1.0), 1.1), ParameterError),
        (lambda: PoissonSubsampled(3.0, 0.5), InputError),
        (lambda: PoissonSubsampled(Laplace(1.0), 0.5, 1), ParameterError),
        (lambda: Laplace(1.0).delta(-0.1), ParameterError),
        (lambda: Laplace(1.0).delta(np.nan), NotFiniteError),
        (lambda: Laplace(1.0).epsilon(1.1), ParameterError),
    ],
)
def test_bad_input_is_refused(build, error: type[Exception]) -> None:
    with pytest.raises(error):
        build()


@settings(max_examples=25)
@given(st.floats(0.05, 3.0), st.floats(0.001, 1.0), st.booleans(), st.sampled_from([1e-12, 1e-6, 1e-2]))
def test_epsilon_is_private_whatever_rounding_did(shift: float, rate: float, backward: bool, target: float) -> None:
    profile = PoissonSubsampled(GaussianPair.mean_shift(shift), rate, backward)
    epsilon = profile.epsilon(target)
    assert profile.delta(epsilon) * (1 + profile.relative_error) <= target


def test_the_largest_loss_of_the_discrete_laplace_law_is_not_rounded_down() -> None:
    for shift, scale in ((1, 3.0), (7, 0.3), (5, 11.0)):
        largest = DiscreteLaplace(shift, scale).largest_loss
        assert Fraction(largest) >= Fraction(shift) / Fraction(scale)
        assert largest == pytest.approx(shift / scale, rel=1e-15)
