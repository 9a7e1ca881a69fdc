"""Pessimistic composition: never below an independent exact value, and close to it."""

from __future__ import annotations

from fractions import Fraction
from itertools import permutations
from math import comb, log

import numpy as np
import pytest
from dp_accounting.pld import privacy_loss_distribution as peer
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf
from scipy import integrate

from gaussveil.errors import InputError, ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.curve import mean_shift_delta
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.discrete.masses import LossMasses, chord_masses
from gaussveil.spectrum.discrete.tilted_convolution import ConvolutionPlan, convolved
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    DiscreteLaplace,
    Laplace,
    PoissonSubsampled,
    RandomisedResponse,
)

EPSILONS = np.array([0.0, 0.05, 0.4, 1.0, 2.3, 4.0])
ASYMMETRIC = GaussianPair.from_reduced([-3.0], [0.0])  # X ~ N(0, 4), Y ~ N(0, 1)


def as_profile(pair: PrivacyLoss) -> PoissonSubsampled:
    """The same pair as a profile, so that it is convolved numerically and not composed exactly."""
    return PoissonSubsampled(pair, 1.0)


def response_delta(steps: int, classes: int, uses: int, threshold: int) -> Fraction:
    """Randomised response with e^epsilon = 3, exactly: losses are +1, 0, -1 times log 3; delta at threshold * log 3."""
    total, others = classes + 2, classes - 2
    value = Fraction(0)
    for up in range(uses + 1):
        for down in range(uses + 1 - up):
            level = up - down
            if level > threshold:
                ways = comb(uses, up) * comb(uses - up, down) * 3**up * others ** (uses - up - down)
                value += Fraction(ways, total**uses) * (1 - Fraction(3) ** (threshold - level))
    return value


@pytest.mark.parametrize(("classes", "uses"), [(2, 3), (2, 60), (4, 25)])
def test_randomised_response_dominates_the_exact_rational_value(classes: int, uses: int) -> None:
    composed = compose_pessimistic([RandomisedResponse(log(3.0), classes)], [uses])
    for threshold in (0, 1, 2, uses // 3, uses // 2, uses - 1):
        exact = response_delta(1, classes, uses, threshold)
        found = Fraction(float(composed.delta(threshold * log(3.0))))
        assert found >= exact * (1 - Fraction(1, 10**13))
        assert float(found) <= float(exact) * (1 + 1e-5) + 1.01 * composed.infinity


@pytest.mark.parametrize(("shift", "uses"), [(1.0, 2), (0.5, 16), (0.05, 1000)])
def test_gaussian_shifts_dominate_the_closed_form_down_to_1e_minus_30(shift: float, uses: int) -> None:
    composed = compose_pessimistic([as_profile(GaussianPair.mean_shift(shift))], [uses])
    total = shift * np.sqrt(uses)
    epsilon = total * np.array([0.0, 0.5, 2.0, 5.0, 8.0, 12.0])
    exact = mean_shift_delta(total, epsilon)
    assert exact[-1] < 1e-28
    found = composed.delta(epsilon)
    assert np.all(found >= exact)
    np.testing.assert_allclose(found, exact, rtol=2e-4)
    np.testing.assert_allclose(composed.reversed().delta(epsilon), found, rtol=1e-12)


def laplace_twice(shift: float, epsilon: float) -> float:
    """Divergence of two Laplace releases: that of one at epsilon minus the loss of the other, averaged over its law."""

    def one(level: float) -> float:
        if level < -shift:
            return 1.0 - np.exp(level)
        return 1.0 - np.exp((level - shift) / 2) if level < shift else 0.0

    def negative(level: float) -> float:
        return one(level) if level >= 0 else 1.0 - np.exp(level) + np.exp(level) * one(-level)

    kinks = [epsilon - shift, epsilon, epsilon + shift]
    inner = [kink for kink in kinks if -shift < kink < shift]
    middle, _ = integrate.quad(
        lambda loss: negative(epsilon - loss) * np.exp((loss - shift) / 2) / 4,
        -shift,
        shift,
        points=inner or None,
        epsabs=1e-13,
    )
    return 0.5 * negative(epsilon - shift) + 0.5 * np.exp(-shift) * negative(epsilon + shift) + middle


def test_laplace_twice_dominates_quadrature() -> None:
    composed = compose_pessimistic([Laplace(0.9), Laplace(0.9)])
    for epsilon in (0.0, 0.3, 0.9, 1.2, 1.7):
        exact = laplace_twice(0.9, epsilon)
        assert composed.delta(epsilon) >= exact - 1e-12
        assert composed.delta(epsilon) == pytest.approx(exact, rel=1e-6)
    assert composed.delta(1.81) <= 1e-11


def test_points_compose_by_the_optimal_theorem() -> None:
    point, uses, total = ApproximatePoint(log(3.0), 1e-4), 12, Fraction(10**4 - 1, 10**4) ** 12
    composed = compose_pessimistic([point], [uses])
    for threshold in (0, 3, 8, 12):
        exact = float(1 - total + total * response_delta(1, 2, uses, threshold))
        assert composed.delta(threshold * log(3.0)) >= exact * (1 - 1e-12)
        assert composed.delta(threshold * log(3.0)) == pytest.approx(exact, rel=1e-6)
    assert composed.epsilon(1e-4) == np.inf


def test_orientation_is_kept() -> None:
    """Two N(0,4) against N(0,1) at epsilon 1: 0.338 the same way round, 0.236 when one is reversed."""
    exact = compose(ASYMMETRIC, ASYMMETRIC)
    one, other = as_profile(ASYMMETRIC), as_profile(ASYMMETRIC.reversed())
    same = compose_pessimistic([one], [2], tail_mass=1e-15, interval=1e-3)
    for found, reference in ((same, exact), (same.reversed(), exact.reversed())):
        values = reference.delta(EPSILONS)
        assert np.all(found.delta(EPSILONS) >= values * (1 - 1e-11))
        np.testing.assert_allclose(found.delta(EPSILONS), values, rtol=2e-3, atol=1e-15)
    mixed = compose_pessimistic([one, other], tail_mass=1e-15, interval=1e-3)
    assert same.delta(1.0) == pytest.approx(0.338, abs=1e-3)
    assert mixed.delta(1.0) == pytest.approx(0.236, abs=1e-3)
    assert same.dp_delta(1.0) == max(same.delta(1.0), same.reversed().delta(1.0))
    assert same.delta(1.0) != pytest.approx(float(same.reversed().delta(1.0)), rel=0.05)


def test_gaussian_parts_are_composed_exactly_before_they_are_discretised() -> None:
    shifts = [GaussianPair.mean_shift(t) for t in (0.3, 0.4, 1.2)]
    single = compose_pessimistic([GaussianPair.mean_shift(1.3)])
    np.testing.assert_allclose(compose_pessimistic(shifts).delta(EPSILONS), single.delta(EPSILONS), rtol=1e-11)
    # With a profile in between: the same as the profile and the one composed Gaussian.
    mixed = compose_pessimistic([*shifts, RandomisedResponse(0.5)])
    np.testing.assert_allclose(
        mixed.delta(EPSILONS),
        compose_pessimistic([RandomisedResponse(0.5), GaussianPair.mean_shift(1.3)]).delta(EPSILONS),
        rtol=1e-10,
    )
    # Randomised response adds +-1/2 to the loss: the exact mixture of two shifted Gaussian curves.
    p, epsilon = 1 / (1 + np.exp(-0.5)), np.array([0.5, 1.0, 2.3, 4.0])
    exact = p * mean_shift_delta(1.3, epsilon - 0.5) + (1 - p) * mean_shift_delta(1.3, epsilon + 0.5)
    found = mixed.delta(epsilon)
    assert np.all(found >= exact * (1 - 1e-13))
    np.testing.assert_allclose(found, exact, rtol=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "classes", "uses", "shift", "leak", "interval"),
    [(0.37, 3, 9, 0.8, 1e-9, 1e-4), (1.3, 2, 6, 2.1, 0.0, 3e-3), (0.05, 5, 20, 0.2, 1e-5, 1e-3)],
)
def test_all_kinds_together_dominate_a_reference_of_100_digits(
    epsilon: float, classes: int, uses: int, shift: float, leak: float, interval: float
) -> None:
    mp.dps = 100
    items = [RandomisedResponse(epsilon, classes), GaussianPair.mean_shift(shift), ApproximatePoint(epsilon, leak)]
    composed = compose_pessimistic(items, [uses, 1, 1], interval=interval)
    power, law = mp.exp(mpf(epsilon)), {0: mpf(1)}
    answers = [(1, power), (-1, mpf(1)), (0, mpf(classes - 2))]
    for steps in [answers] * uses + [[(1, power), (-1, mpf(1))]]:
        total, new = sum(weight for _, weight in steps), {}
        for level, mass in law.items():
            for step, weight in steps:
                new[level + step] = new.get(level + step, mpf(0)) + mass * weight / total
        law = new

    def gaussian(at: mpf) -> mpf:
        return mp.ncdf(-at / shift + mpf(shift) / 2) - mp.exp(at) * mp.ncdf(-at / shift - mpf(shift) / 2)

    for sigmas in (0.0, 0.3, 1.0, 3.0, 6.0, 9.0):
        at = sigmas * float(np.hypot(epsilon * np.sqrt(uses), shift))
        finite = sum(mass * gaussian(mpf(at) - level * mpf(epsilon)) for level, mass in law.items())
        exact = mpf(leak) + (1 - mpf(leak)) * finite
        found = mpf(float(composed.delta(at)))
        # The chords cost interval^2 times the squared slope of log delta, which is steep at 1e-29.
        assert exact <= found <= exact * (1 + mpf("1e-4" if exact < 1e-12 else "2e-6"))


def test_a_batch_is_dominated_member_by_member() -> None:
    batch = GaussianPair.from_reduced([[0.0], [-1.0]], [[1.0], [0.2]])
    found = compose_pessimistic([batch], tail_mass=1e-12)
    for member in (GaussianPair.mean_shift(1.0), GaussianPair.from_reduced([-1.0], [0.2])):
        assert np.all(found.delta(EPSILONS) >= member.delta(EPSILONS) * (1 - 1e-12))
        assert np.all(found.reversed().delta(EPSILONS) >= member.reversed().delta(EPSILONS) * (1 - 1e-12))


@pytest.mark.parametrize(
    ("profile", "reference", "uses"),
    [
        (
            PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.02),
            lambda: peer.from_gaussian_mechanism(1.0, sampling_prob=0.02),
            200,
        ),
        (Laplace(0.25), lambda: peer.from_laplace_mechanism(4.0), 50),
        (PoissonSubsampled(Laplace(1.0), 0.1), lambda: peer.from_laplace_mechanism(1.0, sampling_prob=0.1), 50),
        (
            DiscreteLaplace(3, 10.0),
            lambda: peer.from_discrete_laplace_mechanism(0.1, sensitivity=3, use_connect_dots=True),
            20,
        ),
        (RandomisedResponse(1.0, 4), lambda: peer.from_randomized_response(4 / (np.e + 3), 4), 20),
    ],
    ids=["subsampled gaussian", "laplace", "subsampled laplace", "discrete laplace", "randomised response"],
)
def test_agrees_with_dp_accounting(profile, reference, uses: int) -> None:
    theirs = reference().self_compose(uses)
    ours = compose_pessimistic([profile], [uses])
    for epsilon in (0.3, 1.0, 2.5):
        assert ours.dp_delta(epsilon) == pytest.approx(theirs.get_delta_for_epsilon(epsilon), rel=2e-3, abs=1e-11)
    assert ours.dp_epsilon(1e-6) == pytest.approx(theirs.get_epsilon_for_delta(1e-6), rel=1e-3)


def test_order_and_grouping_do_not_matter() -> None:
    items = [RandomisedResponse(0.3), GaussianPair.mean_shift(0.5), Laplace(0.4)]
    curves = [compose_pessimistic(order, interval=1e-3).delta(EPSILONS) for order in permutations(items)]
    for curve in curves[1:]:
        np.testing.assert_array_equal(curve, curves[0])
    listed = compose_pessimistic([Laplace(0.4), RandomisedResponse(0.3), Laplace(0.4)], interval=1e-3)
    counted = compose_pessimistic([RandomisedResponse(0.3), Laplace(0.4)], [1, 2], interval=1e-3)
    np.testing.assert_array_equal(listed.delta(EPSILONS), counted.delta(EPSILONS))


def test_a_composition_composes_further() -> None:
    twice = compose_pessimistic([Laplace(0.5)], [2])
    four = compose_pessimistic([twice], [2])
    direct = compose_pessimistic([Laplace(0.5)], [4])
    assert np.all(four.delta(EPSILONS[:4]) >= direct.delta(EPSILONS[:4]) * (1 - 1e-6))
    np.testing.assert_allclose(four.delta(EPSILONS[:4]), direct.delta(EPSILONS[:4]), rtol=1e-5)


@given(st.floats(0.01, 3.0), st.floats(0.05, 1.0), st.floats(0.0, 1e-3), st.sampled_from([1e-2, 1e-3]))
@settings(derandomize=True, deadline=None, max_examples=20)
def test_discretising_never_loses_delta(size: float, rate: float, leak: float, interval: float) -> None:
    for profile in (PoissonSubsampled(Laplace(size), rate), PoissonSubsampled(ApproximatePoint(size, leak), rate)):
        found = compose_pessimistic([profile], interval=interval)
        epsilon = np.linspace(0.0, 1.2 * size, 997)
        for ours, exact in ((found, profile), (found.reversed(), profile.reversed())):
            assert np.all(ours.delta(epsilon) >= exact.delta(epsilon) * (1 - 1e-13) - 1e-15)
            np.testing.assert_allclose(ours.delta(epsilon), exact.delta(epsilon), atol=interval)
            assert np.all(np.diff(ours.delta(epsilon)) <= 0)


def test_epsilon_is_the_private_end() -> None:
    composed = compose_pessimistic([Laplace(0.3), GaussianPair.mean_shift(0.5)], [3, 2])
    target = np.array([0.3, 1e-3, 1e-9, 1e-30])
    epsilon = composed.epsilon(target)
    assert np.all(composed.delta(epsilon) <= target)
    assert np.all(composed.delta(epsilon * (1 - 1e-9)) >= target * (1 - 1e-6))
    assert composed.epsilon(composed.infinity / 2) == np.inf


def exact_convolution(parts: list[tuple[LossMasses, int]]) -> list[mpf]:
    """Masses of the sum by schoolbook multiplication with 60 digits."""
    total = [mpf(1)]
    for part, count in parts:
        for _ in range(count):
            product = [mpf(0)] * (len(total) + part.mass.size - 1)
            for i, left in enumerate(total):
                for j, right in enumerate(part.mass):
                    product[i + j] += left * mpf(float(right))
            total = product
    return total


@pytest.mark.parametrize("seed", [1, 2, 3, 4, 5])
def test_convolution_gives_upper_ends_with_relative_precision(seed: int) -> None:
    mp.dps = 60
    generator = np.random.default_rng(seed)
    first = LossMasses(0.25, -6, generator.dirichlet(np.full(14, 0.3)), 0.0)
    decay = np.exp(-4.0 * np.arange(9.0))  # probabilities down to 1e-14, of which sums reach 1e-28
    second = LossMasses(0.25, -1, decay / decay.sum(), 1e-33)
    parts = [(first, 3), (second, 2)]
    found = convolved(parts, ConvolutionPlan.of(parts, 1e-60))
    masses = exact_convolution(parts)
    bottom = 3 * first.first + 2 * second.first
    finite = sum(mpf(float(m)) for m in first.mass), sum(mpf(float(m)) for m in second.mass)
    infinite = finite[0] ** 3 * ((finite[1] + mpf(1e-33)) ** 2 - finite[1] ** 2)
    for k in range(found.last):
        exact = infinite + sum(m * (1 - mp.exp((k - j) * mpf(0.25))) for j, m in enumerate(masses, bottom) if j > k)
        ours = mpf(float(found.delta(np.array(0.25 * k))))
        assert ours >= min(exact, 1)
        assert ours <= exact * (1 + mpf("1e-6")) or exact >= 1
    assert found.infinity >= infinite


def test_chords_survive_noise_in_the_values() -> None:
    epsilon = 1e-3 * np.arange(6001)
    noise = 1 + 1e-6 * np.random.default_rng(5).random(epsilon.size)
    up = np.maximum.accumulate((mean_shift_delta(1.0, epsilon) * noise)[::-1])[::-1]
    masses = chord_masses(up, up, 1e-3)
    assert np.all(masses.mass >= 0)
    assert masses.mass.sum() + masses.infinity >= 1
    assert np.all(masses.curve.delta(epsilon) >= up)
    strided = chord_masses(up[::50], up[::50], 1e-3, 50)
    assert np.all(strided.curve.delta(epsilon) >= mean_shift_delta(1.0, epsilon))


def test_nothing_and_everything_revealed() -> None:
    for items in ([RandomisedResponse(0.0)], [RandomisedResponse(0.0), GaussianPair.mean_shift(0.0)]):
        nothing = compose_pessimistic(items, [5] * len(items))
        assert np.all(nothing.delta(EPSILONS[1:]) < 1e-30)
        assert nothing.delta(0.0) < 1e-12
    half = compose_pessimistic([ApproximatePoint(0.0, 0.5)], [3])
    np.testing.assert_allclose(half.delta(EPSILONS), 0.875, rtol=1e-10)
    assert np.all(half.delta(EPSILONS) >= 0.875)
    everything = compose_pessimistic([ApproximatePoint(1.0, 1.0), Laplace(0.5)], [2, 2])
    np.testing.assert_array_equal(everything.delta(EPSILONS), 1.0)
    assert everything.epsilon(0.5) == np.inf


def test_many_uses_fit_into_few_bins() -> None:
    composed = compose_pessimistic([RandomisedResponse(0.5)], [10_000], max_bins=2**16)
    assert composed.interval > 1e-4
    assert composed.forward.height.size <= 2**16 * 1.1
    mean = 10_000 * 0.5 * np.tanh(0.25)
    assert composed.delta(mean + 400) < 1e-10
    assert composed.delta(mean - 400) > 1 - 1e-10
    assert composed.delta(0.0) <= 1.0


@pytest.mark.parametrize(
    ("build", "error"),
    [
        (lambda: compose_pessimistic([]), InputError),
        (lambda: compose_pessimistic([1.0]), InputError),
        (lambda: compose_pessimistic([Laplace(1.0)], [1, 2]), ShapeError),
        (lambda: compose_pessimistic([Laplace(1.0)], [0]), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)], [1.5]), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)], [True]), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)], interval=0.0), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)], tail_mass=0.0), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)], max_bins=10), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)]).delta(-1.0), ParameterError),
        (lambda: compose_pessimistic([Laplace(1.0)]).epsilon(2.0), ParameterError),
    ],
)
def test_bad_input_is_refused(build, error: type[Exception]) -> None:
    with pytest.raises(error):
        build()
