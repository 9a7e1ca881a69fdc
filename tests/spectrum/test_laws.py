"""Laws by atoms and pieces beside Gaussians and steps, against references that know nothing of contours.

Composing a law with a curve is a mean of that curve over the law's losses, which quadrature finds; grids of
dp_accounting are above the truth.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
import scipy

from gaussveil import (
    DPSGD,
    Accountant,
    ApproximatePoint,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    Laplace,
    PrivacyCurve,
    RandomisedResponse,
    verify,
)
from gaussveil.spectrum.laws.has_law import HasLaw
from gaussveil.spectrum.laws.loss_law import law_of
from gaussveil.spectrum.profiles import ResponseOrNoise, profile_from_dict

LAWS = [
    Laplace(0.5),
    Laplace(0.0),
    DiscreteLaplace(3, 4.0),
    RandomisedResponse(0.7, 4),
    ResponseOrNoise(0.4, 3),
    ResponseOrNoise(0.4, 3, backward=True),
    Exponential(0.8),
    ApproximatePoint(0.6, 1e-6),
    DiscreteGaussian(3.0, 2),
]


def at_any(curve: PrivacyCurve, epsilon: float) -> float:
    """Delta also at an epsilon below 0, where it is known from the other direction."""
    if epsilon >= 0.0:
        return float(curve.delta(epsilon))
    return -math.expm1(epsilon) + math.exp(epsilon) * float(curve.reversed().delta(-epsilon))


def mean_over(law: HasLaw, curve: PrivacyCurve, epsilon: float) -> float:
    """Delta of both together: the mean of the curve's over the law's losses, which it draws from their moments."""
    found = law_of(law)
    total = sum(mass * at_any(curve, epsilon - loss) for loss, mass in zip(found.losses, found.masses))
    for middle, half, tilt, weight in found.pieces.T:
        x, w = np.polynomial.legendre.leggauss(60)
        for low, high in ((-1.0, 0.0), (0.0, 1.0)):
            place = half * (low + 0.5 * (high - low) * (1.0 + x))
            height = weight * np.exp(tilt * place) / (2.0 * half) if half else 0.0 * place
            values = np.array([at_any(curve, epsilon - middle - one) for one in place])
            total += 0.5 * (high - low) * half * float(w @ (values * height))
    finite = math.exp(found.log_finite)
    return float(finite * total + (1.0 - finite))


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_moments_are_those_of_the_divergences(law: HasLaw) -> None:
    # e^K = 1 + s(s+1) [ int_1^inf a^(s-1) H_a(X||Y) + a^(-s-2) H_a(Y||X) da ], of the finite losses
    found, order = law_of(law.finite), 1.7

    def weighted(x: float) -> float:
        ahead, back = (float(side.delta(x)) for side in (law.finite, law.finite.reversed()))
        return float(math.exp(order * x) * ahead + math.exp(-(order + 1.0) * x) * back)

    breaks = sorted({abs(loss) for loss in found.losses.tolist()} | {0.0, found.largest_loss})
    parts = [scipy.integrate.quad(weighted, low, high, epsabs=1e-13)[0] for low, high in itertools.pairwise(breaks)]
    expected = math.log1p(order * (order + 1.0) * math.fsum(parts))
    log_moment, mean, variance = found.real_moments(np.array([order]))[:, 0]
    assert log_moment == pytest.approx(expected, rel=1e-9, abs=1e-9)
    alike = float(found.moments(np.array([order + 0.0j])).log_moment[0].real)
    assert alike == pytest.approx(log_moment, rel=1e-14)  # sums in another order
    step = 1e-4
    ahead, back = found.real_moments(np.array([order + step, order - step]))[0]
    assert mean == pytest.approx((ahead - back) / (2.0 * step), rel=1e-6, abs=1e-9)
    assert variance == pytest.approx((ahead - 2.0 * log_moment + back) / step**2, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("law", LAWS, ids=repr)
def test_balls_and_doubles_agree(law: HasLaw) -> None:
    from flint import acb, arb, ctx

    orders = np.array([0.3 + 0.0j, 2.0 + 5.0j, -0.5 + 1e-9j, -0.4 + 30.0j, 40.0 + 200.0j])
    found = law_of(law.finite).moments(orders)
    with ctx.workprec(200):
        balls = law.finite.ball_law()
        for order, log_moment, rounding in zip(orders, *found):
            moment = balls.moment(acb(arb(order.real), arb(order.imag)))
            ratio = complex(acb(log_moment.real, log_moment.imag).exp() / moment)
            assert abs(ratio - 1.0) <= rounding + 1e-15
        assert float((balls.moment(acb(0)).real - 1).abs_upper()) < 1e-50


@pytest.mark.parametrize("law", LAWS, ids=repr)
@pytest.mark.parametrize("noise", [0.7, 3.0])
def test_a_law_beside_a_gaussian(law: HasLaw, noise: float) -> None:
    curve = Gaussian(noise_multiplier=noise).parts_for("add-remove")[0][0]
    both = curve.compose(law)
    for epsilon in (0.0, 0.4, 1.5):
        expected = mean_over(law, curve, epsilon)
        ends = both.enclose(epsilon)
        assert ends.proven
        assert expected * (1.0 - 1e-11) <= float(both.delta(epsilon)) <= expected * (1.0 + 1e-9)
        assert float(ends.lower) * (1.0 - 1e-9) <= expected <= float(ends.upper) * (1.0 + 1e-9)
        assert ends.relative_width < 1e-6


@pytest.mark.parametrize("law", [Laplace(0.5), RandomisedResponse(0.7, 4), ResponseOrNoise(0.4, 3)], ids=repr)
@pytest.mark.parametrize("steps", [1, 400])
def test_a_law_beside_training(law: HasLaw, steps: int) -> None:
    step = DPSGD(noise_multiplier=1.0, sampling_rate=0.02)
    alone = Accountant().add(step, steps).loss
    both = Accountant().add(step, steps).add(law).loss
    for side, whole, other in ((alone, both, law), (alone.reversed(), both.reversed(), law.reversed())):
        expected = mean_over(other, side, 0.8)
        assert expected * (1.0 - 1e-10) <= float(whole.delta(0.8)) <= expected * (1.0 + 1e-8)


def test_laplace_beside_a_gaussian_to_thirty_digits() -> None:
    with mpmath.workdps(30):
        e, shift, epsilon = mpmath.mpf("0.5"), mpmath.mpf("0.25"), mpmath.mpf(1)

        def gaussian(x: mpmath.mpf) -> mpmath.mpf:
            return mpmath.ncdf(shift / 2 - x / shift) - mpmath.exp(x) * mpmath.ncdf(-shift / 2 - x / shift)

        between = mpmath.quad(lambda x: gaussian(epsilon - x) * mpmath.exp((x - e) / 2) / 4, [-e, 0, e])
        truth = float(gaussian(epsilon - e) / 2 + gaussian(epsilon + e) * mpmath.exp(-e) / 2 + between)
    found = Accountant().add(Gaussian(noise_multiplier=4.0)).add(Laplace(0.5))
    assert truth <= found.delta(1.0) <= truth * (1.0 + 1e-10)
    ends = found.enclose(1.0)
    assert ends.lower <= truth <= ends.upper
    assert found.epsilon(truth) == pytest.approx(1.0, rel=1e-11)


RUNS: list[tuple[Callable[[], Accountant], float]] = [
    # epsilons of dp_accounting's grid of 1e-5 at delta 1e-5, which are above the truth
    (lambda: Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 100).add(Laplace(0.5)), 1.1588707038),
    (lambda: Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 1000).add(Laplace(0.5)), 2.2439032241),
    (lambda: Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 5000).add(Laplace(0.5)), 4.5580881127),
]


@pytest.mark.parametrize(("run", "grid"), RUNS)
def test_no_more_than_a_fine_grid_finds(run: Callable[[], Accountant], grid: float) -> None:
    found = run().epsilon(1e-5)
    assert grid * (1.0 - 3e-8 - 6e-8) <= found <= grid  # the finer of two grids is this close


def test_losses_that_may_be_infinite_are_a_floor() -> None:
    whole = Accountant().add(Gaussian(noise_multiplier=2.0)).add(ApproximatePoint(0.5, 1e-6), 3)
    finite = Accountant().add(Gaussian(noise_multiplier=2.0)).add(RandomisedResponse(0.5), 3)
    kept = (1.0 - 1e-6) ** 3
    for epsilon in (0.0, 1.0, 30.0):
        assert whole.delta(epsilon) == pytest.approx(1.0 - kept + kept * finite.delta(epsilon), rel=1e-10)
    assert whole.epsilon(1e-6) == math.inf
    assert whole.epsilon(1e-3) == pytest.approx(finite.epsilon((1e-3 - (1.0 - kept)) / kept), rel=1e-10)
    assert whole.renyi(2.0) == math.inf
    assert whole.loss.infinity == pytest.approx(3e-6, rel=1e-5)


def test_little_noise_beside_atoms() -> None:
    curve = Gaussian(noise_multiplier=2000.0).parts_for("add-remove")[0][0]
    law = RandomisedResponse(0.5)
    both = curve.compose(law)
    for epsilon in (0.3, 0.4995, 0.5003):
        expected = mean_over(law, curve, epsilon)
        assert expected * (1.0 - 1e-9) <= float(both.delta(epsilon)) <= expected * (1.0 + 1e-7)


def test_beyond_the_largest_loss_nothing_is_left() -> None:
    back = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.02), 3).add(Laplace(0.5)).loss.reversed()
    assert back.largest_loss == pytest.approx(0.5 - 3.0 * math.log1p(-0.02), rel=1e-12)
    assert float(back.delta(back.largest_loss)) == 0.0
    assert float(back.delta(back.largest_loss - 1e-3)) > 0.0


@pytest.mark.parametrize("law", [Exponential(0.8), DiscreteGaussian(3.0, 2)], ids=repr)
def test_new_laws_are_stored_and_verified(law: Exponential | DiscreteGaussian) -> None:
    assert profile_from_dict(law.to_dict()) == law
    run = Accountant().add(Gaussian(noise_multiplier=3.0)).add(law)
    certificate = run.certify(delta=1e-5)
    assert certificate.epsilon == pytest.approx(run.epsilon(1e-5), rel=1e-9)
    assert verify(certificate).ok


def test_the_exponential_mechanism_is_below_its_curve() -> None:
    random = np.random.default_rng(5)
    for _ in range(200):
        scores = random.uniform(-1.0, 1.0, size=5)
        moved = scores + random.choice([-1.0, 0.0, 1.0], size=5)
        first, second = (np.exp(0.5 * 0.9 * one) for one in (scores, moved))
        first, second = first / first.sum(), second / second.sum()
        for epsilon in (0.0, 0.3, 0.8):
            largest = float(np.maximum(first - math.exp(epsilon) * second, 0.0).sum())
            assert largest <= float(Exponential(0.9).delta(epsilon)) + 1e-15


@pytest.mark.parametrize(
    "laws",
    [
        [(RandomisedResponse(0.4), 9)],
        [(RandomisedResponse(0.7, 4), 3), (DiscreteLaplace(2, 3.0), 3)],
        [(ResponseOrNoise(0.4, 3), 4), (ApproximatePoint(0.3, 1e-6), 1)],
    ],
    ids=["alike", "of two kinds", "with infinite losses"],
)
def test_laws_alone_are_enclosed(laws: list[tuple[HasLaw, int]]) -> None:
    run = Accountant()
    for law, count in laws:
        run.add(law, count)
    found = [law_of(law) for law, count in laws for _ in range(count)]
    finite = math.exp(math.fsum(law.log_finite for law in found))
    sums: dict[float, float] = {0.0: 1.0}
    for law in found:
        longer: dict[float, float] = {}
        for (so_far, share), (loss, mass) in itertools.product(sums.items(), zip(law.losses, law.masses)):
            place = round(so_far + float(loss), 12)
            longer[place] = longer.get(place, 0.0) + share * float(mass)
        sums = longer
    for epsilon in (0.0, 1.1):
        expected = 1.0 - finite + finite * sum(m * max(-math.expm1(epsilon - loss), 0.0) for loss, m in sums.items())
        ends = run.loss.enclose(epsilon)
        assert float(ends.lower) <= expected * (1.0 + 1e-11)
        assert expected <= float(ends.upper) * (1.0 + 1e-11)
        assert ends.relative_width < 1e-8
    assert run.delta(run.epsilon(1e-4)) <= 1e-4 * (1.0 + 1e-9)


def test_pieces_alone_are_enclosed() -> None:
    twice, law = Accountant().add(Laplace(0.5), 2), law_of(Laplace(0.5))
    ((middle, half, tilt, weight),) = law.pieces.T
    for epsilon in (0.3, 0.8):
        expected = sum(mass * at_any(Laplace(0.5), epsilon - loss) for loss, mass in zip(law.losses, law.masses))
        expected += scipy.integrate.quad(
            lambda x, level=epsilon - middle: weight / half / 2 * math.exp(tilt * x) * at_any(Laplace(0.5), level - x),
            -half,
            half,
            points=[epsilon - 0.5] if epsilon < 1.0 else None,
            epsabs=1e-12,
        )[0]
        ends = twice.enclose(epsilon)
        assert float(ends.lower) <= expected * (1.0 + 1e-9)
        assert expected * (1.0 - 1e-9) <= float(ends.upper)
        assert ends.relative_width < 1e-6
    assert twice.loss.reversed() is twice.loss


def test_many_uses_are_not_listed_one_by_one() -> None:
    many = Accountant().add(RandomisedResponse(0.001), 100_000)
    normal = float(Gaussian(noise_multiplier=1.0 / (0.001 * math.sqrt(100_000))).curve().delta(0.5))
    ends = many.enclose(0.5)
    assert float(ends.lower) <= normal * 1.05
    assert normal * 0.95 <= float(ends.upper) <= normal * 1.05
