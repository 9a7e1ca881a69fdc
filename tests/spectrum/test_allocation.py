"""Random allocation against integrals written from the definition."""

from itertools import combinations, pairwise, product
from math import comb

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.allocation_below import sum_laws
from gaussveil.spectrum.subsampled.allocation_draws import shared_steps


def two_steps(sigma, ratio, exchanged):
    """E((w1 + w2)/2 - ratio)_+, or E(1 - (w1 + w2)/(2 ratio))_+, the inner integral in closed form."""
    kink = sigma * np.log(2 * ratio) + 0.5 / sigma

    def inner(z):
        strike = 2 * ratio - np.exp(z / sigma - 0.5 / sigma**2)
        if strike <= 0:
            return 0.0 if exchanged else norm.pdf(z) * (1 - strike) / 2
        edge = sigma * np.log(strike) + 0.5 / sigma
        if exchanged:
            return norm.pdf(z) * (strike * norm.cdf(edge) - norm.cdf(edge - 1 / sigma)) / 2 / ratio
        return norm.pdf(z) * (norm.sf(edge - 1 / sigma) - strike * norm.sf(edge)) / 2

    ends = [-13.0, -4.0, 0.0, kink - 1, kink - 1e-2, kink - 1e-5, kink, kink + 1, kink + 14 + 1 / sigma]
    ends = sorted(ends)
    return sum(quad(inner, *piece, epsabs=0, epsrel=1e-11, limit=400)[0] for piece in pairwise(ends))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.7, 2.0])
@pytest.mark.parametrize("exchanged", [False, True])
def test_two_steps_are_enclosed(sigma, epsilon, exchanged):
    truth = two_steps(sigma, np.exp(-epsilon if exchanged else epsilon), exchanged)
    law = RandomAllocation(sigma, 2, 1, exchanged)
    upper, lower = float(law.delta(epsilon)), law.lower(epsilon)
    assert truth * (1 - 1e-10) <= upper <= truth * (1 + 1e-5) + 1e-20
    assert 0.0 <= lower <= truth * (1 + 1e-10)
    assert exchanged or lower > 0.5 * truth


def symmetric_mean(points, takes):
    """The density ratio of `takes` of the steps, on rows of outputs over sigma."""
    chosen = list(combinations(range(points.shape[0]), takes))
    return sum(np.prod(points[list(pick)], axis=0) for pick in chosen) / len(chosen)


@pytest.mark.parametrize(("steps", "takes"), [(3, 1), (3, 2)])
@pytest.mark.parametrize("exchanged", [False, True])
def test_several_of_few_steps_are_enclosed(steps, takes, exchanged):
    sigma, epsilon = 1.2, 0.4
    axis = np.linspace(-8.0, 9.0, 100)
    grid = np.stack(np.meshgrid(*[axis] * steps, indexing="ij")).reshape(steps, -1)
    weight = np.exp(-0.5 * (grid**2).sum(axis=0)) * ((axis[1] - axis[0]) / np.sqrt(2 * np.pi)) ** steps
    ratio = symmetric_mean(np.exp(grid / sigma - 0.5 / sigma**2), takes)
    level = np.exp(epsilon)
    truth = weight @ np.maximum(1 - level * ratio if exchanged else ratio - level, 0.0)
    law = RandomAllocation(sigma, steps, takes, exchanged)
    assert law.lower(epsilon) <= truth * 1.01
    assert truth * 0.99 <= float(law.delta(epsilon))
    assert law.lower(epsilon) > 0.3 * truth


@pytest.mark.parametrize(("sigma", "steps", "width"), [(1.0, 30, 2**-7), (2.0, 100, 2**-8), (0.7, 10, 2**-6)])
@pytest.mark.parametrize("epsilon", [0.0, 0.2, 0.8])
def test_many_steps_against_sums_on_a_plain_grid(sigma, steps, width, epsilon):
    value = width * np.arange(2**18)
    edges = np.concatenate([[0.0], value[:-1] + width / 2, [np.inf]])
    with np.errstate(divide="ignore"):
        mass = np.diff(norm.cdf(sigma * np.log(edges) + 0.5 / sigma))
    mean = np.fft.irfft(np.fft.rfft(mass) ** steps, n=value.size) @ np.maximum(value / steps - np.exp(epsilon), 0.0)
    back = np.fft.irfft(np.fft.rfft(mass) ** steps, n=value.size) @ np.maximum(1 - np.exp(epsilon) * value / steps, 0.0)
    for truth, exchanged in ((mean, False), (back, True)):
        law = RandomAllocation(sigma, steps, 1, exchanged)
        assert truth * (1 - 1e-3) - 1e-12 <= float(law.delta(epsilon)) <= truth * (1 + 1e-3) + 1e-12
        assert law.lower(epsilon) <= truth * (1 + 1e-3) + 1e-12


@pytest.mark.parametrize(("sigma", "steps"), [(1.0, 1000), (0.3, 30), (20.0, 1000), (0.1, 5), (1000.0, 10)])
@pytest.mark.parametrize("exchanged", [False, True])
def test_lower_ends_are_below_upper_ones(sigma, steps, exchanged):
    epsilons = np.array([0.0, 0.1, 1.0, 5.0, 30.0])
    law = RandomAllocation(sigma, steps, 1, exchanged)
    upper = law.delta(epsilons)
    assert np.all(np.diff(upper) <= 1e-12)
    assert all(0.0 <= law.lower(epsilon) <= bound for epsilon, bound in zip(epsilons, upper))


def test_one_of_one_and_all_of_all_are_mean_shifts():
    for steps in (1, 4):
        shift = GaussianPair.mean_shift(np.sqrt(steps) / 2.0)
        for epsilon in (0.0, 1.0):
            law, truth = RandomAllocation(2.0, steps, steps), float(shift.delta(epsilon))
            assert law.lower(epsilon) <= truth <= float(law.delta(epsilon)) <= 1.01 * truth


@pytest.mark.parametrize("sigma", [0.3, pytest.param(1.2, marks=pytest.mark.full), 5.0])
@pytest.mark.parametrize("exchanged", [False, True])
def test_one_step_is_never_below_the_mean_shift(sigma, exchanged, full):
    epsilons = np.concatenate([np.linspace(0.0, 12.0, 25), [20.0, 50.0, 100.0, 500.0]])
    truth = np.asarray(GaussianPair.mean_shift(1.0 / sigma).delta(epsilons))
    some = slice(None, None, 1 if full else 4)  # one by one; all of them at once
    each = [float(RandomAllocation(sigma, 1, 1, exchanged).delta(epsilon)) for epsilon in epsilons[some]]
    for wanted, found in ((truth[some], each), (truth, RandomAllocation(sigma, 1, 1, exchanged).delta(epsilons))):
        assert np.all(wanted <= np.asarray(found))
        assert np.all(np.asarray(found) <= np.where(wanted > 1e-12, 1.02 * wanted, 1.0))


def test_passes_cost_more_than_one_pass():
    law = RandomAllocation(1.0, 20, 1)
    assert law.lower(0.5, 4) > law.lower(0.5)


@pytest.mark.parametrize(("sigma", "steps", "takes"), [(0.1, 10, 2), (0.12, 20, 3), (0.1, 100, 1), (0.06, 5, 2)])
def test_little_noise_is_answered_and_bracketed(sigma: float, steps: int, takes: int) -> None:
    """Sums of likelihood ratios leave the grid; at worst the steps are known, and a few large outputs show them."""
    known = GaussianPair.mean_shift(np.sqrt(takes) / sigma)
    for law in (RandomAllocation(sigma, steps, takes), RandomAllocation(sigma, steps, takes, True)):
        for epsilon in (1.0, 40.0, 200.0):
            upper = float(law.delta(epsilon))
            assert law.lower(epsilon) <= upper * (1 + 1e-9)
            assert upper <= float(known.delta(epsilon)) * (1 + 1e-6)


def test_little_noise_and_large_epsilons_have_deltas():
    """A logarithm of nothing, and a step's delta below all doubles, which is not 0."""
    assert RandomAllocation(0.05, 2).delta(0.0) == pytest.approx(1.0, abs=1e-20)
    assert 0.0 < float(RandomAllocation(1.0, 2).delta(80.0)) < 1e-250


@pytest.mark.parametrize("sigma", [0.7, 2.0])
@pytest.mark.parametrize("exchanged", [False, True])
def test_both_ends_of_two_steps_are_near(sigma: float, exchanged: bool) -> None:
    law = RandomAllocation(sigma, 2, 1, exchanged)
    for epsilon in (0.1, 0.6):
        truth = two_steps(sigma, np.exp(-epsilon if exchanged else epsilon), exchanged)
        assert truth * (1 - 1e-4) <= law.lower(epsilon) <= truth * (1 + 1e-10)
        assert truth * (1 - 1e-10) <= float(law.delta(epsilon)) <= truth * (1 + 1e-5)


@pytest.mark.parametrize(("steps", "epsilon"), [(1000, 0.139), (100_000, 0.005)])
def test_both_ends_of_many_steps_are_near(steps: int, epsilon: float) -> None:
    for law in (RandomAllocation(1.0, steps), RandomAllocation(1.0, steps, 1, True)):
        upper = float(law.delta(epsilon))
        assert (1 - 0.05) * upper <= law.lower(epsilon) <= upper


def test_epsilons_of_many_steps_are_private_and_no_larger_than_they_must() -> None:
    for steps, exchanged in ((100, False), (100, True), (20_000, False)):
        law = RandomAllocation(1.0, steps, 1, exchanged)
        epsilon = float(law.epsilon(1e-5))
        assert float(law.delta(epsilon)) <= 1e-5
        assert law.lower(0.98 * epsilon) > 1e-5
    assert float(RandomAllocation(1.0, 10).epsilon(1.0)) == 0.0


def test_several_takes_of_many_steps_have_both_ends() -> None:
    for setting, epsilon in (((3.0, 1000, 10), 0.37), ((2.0, 100, 3), 0.57)):
        law = RandomAllocation(*setting)
        upper = float(law.delta(epsilon))
        assert (1 - 1e-3) * upper <= law.lower(epsilon) <= upper
        assert float(law.dp_epsilon(upper)) <= epsilon * (1 + 1e-6)
    some, known = RandomAllocation(1.2, 3, 2), GaussianPair.mean_shift(2**0.5 / 1.2)
    assert some.lower(1.0) <= float(some.delta(1.0)) <= 0.7 * float(known.delta(1.0))


def three_steps(sigma: float, ratio: float, exchanged: bool) -> float:
    """Two of three: R = (w1 w2 + c w1 + c w2)/3 given w3 = c, affine in w2, over which the mean is a closed form."""
    axis = np.linspace(-7.5, 9.5, 341)
    weight = np.exp(-0.5 * axis**2) * (axis[1] - axis[0]) / np.sqrt(2 * np.pi)
    w = np.exp(axis / sigma - 0.5 / sigma**2)
    first, third = np.meshgrid(w, w)
    slope, start = (first + third) / 3, first * third / 3
    edge = sigma * np.log(np.maximum(ratio - start, 1e-300) / slope) + 0.5 / sigma
    if exchanged:
        inner = (ratio - start) * norm.cdf(edge) - slope * norm.cdf(edge - 1 / sigma)
        return float(weight @ np.where(start < ratio, inner, 0.0) @ weight) / ratio
    inner = slope * norm.sf(edge - 1 / sigma) - (ratio - start) * norm.sf(edge)
    return float(weight @ np.where(start < ratio, inner, slope + start - ratio) @ weight)


@pytest.mark.parametrize("exchanged", [False, True])
def test_sums_that_tell_most_of_several_takes_enclose_them(exchanged: bool) -> None:
    for sigma, epsilon, near in ((1.2, 1.0, 0.8), (4.0, 0.9, 0.993), (10.0, 0.3, 0.9995)):
        truth = three_steps(sigma, np.exp(-epsilon if exchanged else epsilon), exchanged)
        law = RandomAllocation(sigma, 3, 2, exchanged)
        assert near * float(law.delta(epsilon)) <= truth <= float(law.delta(epsilon)) * (1 + 1e-9)
        assert 0.99 * truth <= law.lower(epsilon) <= truth * (1 + 1e-9)


def test_a_sum_of_all_steps_is_the_ratio_of_products() -> None:
    """In all of its steps, the log ratios add up: the lower end is that of the mean shift."""
    for epsilon in (0.2, 1.5):
        truth = float(GaussianPair.mean_shift(1.0).delta(epsilon))
        laws = sum_laws(2.0, 4, 4, 1)
        assert truth * (1 - 1e-5) <= laws.lower(epsilon, backward=False) <= truth
        assert truth * (1 - 1e-5) <= laws.lower(epsilon, backward=True) <= truth


def test_draws_share_steps_as_counted_one_by_one() -> None:
    """Of two, three and four draws of two of five steps, all 10^4 of them; what is left out is what is charged."""
    draws = np.array([[step in pick for step in range(5)] for pick in combinations(range(5), 2)], dtype=int)
    for shared, number in zip(shared_steps(5, 2, (1.0, 2.0, 3.0)), (2, 3, 4)):
        inside = np.array([sum(draws[one] for one in chosen) for chosen in product(range(10), repeat=number)])
        counts = np.stack([(inside == times).sum(axis=1) for times in range(number + 1)], axis=1)
        rows, often = np.unique(counts, axis=0, return_counts=True)
        assert np.array_equal(rows, shared.counts)
        assert np.allclose(np.exp(shared.log_chances), often / 10**number, rtol=1e-13)
        assert shared.missing == 0.0
    fewer, more = shared_steps(2000, 6, (0.01, 0.03, 0.06))[1], shared_steps(2000, 6, (9.0, 27.0, 54.0))[1]
    kept = {tuple(row) for row in fewer.counts.tolist()}
    left = [place for place, row in enumerate(more.counts.tolist()) if tuple(row) not in kept]
    assert 0.0 < float(np.exp(more.log_chances[left]).sum()) <= fewer.missing < 1e-18


def four_steps(sigma: float, takes: int, ratio: float, exchanged: bool) -> float:
    """R is affine in the last step's w, over which the mean is a closed form; sums over the other three."""
    axis = np.linspace(-7.0, 8.5, 71)
    weight = np.exp(-0.5 * axis**2) * (axis[1] - axis[0]) / np.sqrt(2 * np.pi)
    w = np.exp(axis / sigma - 0.5 / sigma**2)
    three = np.stack(np.meshgrid(w, w, w))
    whole = len(list(combinations(range(4), takes)))
    start, slope = (
        sum(np.prod(three[list(pick)], axis=0) for pick in combinations(range(3), n)) / whole
        for n in (takes, takes - 1)
    )
    edge = sigma * np.log(np.maximum(ratio - start, 1e-300) / slope) + 0.5 / sigma
    if exchanged:
        inner = (
            np.where(start < ratio, (ratio - start) * norm.cdf(edge) - slope * norm.cdf(edge - 1 / sigma), 0.0) / ratio
        )
    else:
        inner = slope * norm.sf(edge - 1 / sigma) - (ratio - start) * norm.sf(edge)
        inner = np.where(start < ratio, inner, slope + start - ratio)
    return float(np.einsum("ijk,i,j,k->", inner, weight, weight, weight))


@pytest.mark.parametrize("takes", [2, 3])
@pytest.mark.parametrize("exchanged", [False, True])
def test_fourth_moments_enclose_four_steps(takes: int, exchanged: bool) -> None:
    for sigma, epsilon in ((1.5, 1.5), (5.0, 0.8)):
        truth = four_steps(sigma, takes, np.exp(-epsilon if exchanged else epsilon), exchanged)
        law = RandomAllocation(sigma, 4, takes, exchanged)
        assert law.lower(epsilon) <= truth * (1 + 1e-6)
        assert truth <= float(law.delta(epsilon)) * (1 + 1e-6)


def sampled(law: RandomAllocation, epsilon: float, tilt: float) -> tuple[float, float]:
    """Delta and its standard error from outputs that are drawn more often as e^(tilt log(1 + l (w - 1))) is large."""
    sigma, steps, takes = law.noise_multiplier, law.steps, law.takes
    generator = np.random.default_rng(11)
    edges = np.linspace(-9.0, 12.0, 20_001)
    width = edges[1] - edges[0]
    middle = edges[:-1] + 0.5 * width
    chance = np.exp(tilt * np.log1p((takes - 1) / (steps - 1) * np.expm1(middle / sigma - 0.5 / sigma**2)))
    chance *= np.exp(-0.5 * middle**2)
    chance /= chance.sum()
    cells = generator.choice(chance.size, size=(steps, 8_000), p=chance)
    outputs = edges[cells] + width * generator.random(cells.shape)
    weight = np.exp(np.sum(norm.logpdf(outputs) - np.log(chance[cells] / width), axis=0))
    sums = np.zeros((takes + 1, outputs.shape[1]))  # elementary symmetric polynomials
    sums[0] = 1.0
    for w in np.exp(outputs / sigma - 0.5 / sigma**2):
        sums[1:] += w * sums[:-1]
    ratio = sums[takes] / comb(steps, takes)
    level = np.exp(epsilon)
    gains = weight * np.maximum(1 - level * ratio if law.backward else ratio - level, 0.0)
    return float(gains.mean()), float(gains.std() / np.sqrt(gains.size))


@pytest.mark.parametrize(("exchanged", "epsilon", "tilt"), [(False, 5.83, 3.0), (True, 5.26, -8.0)])
def test_ten_of_a_hundred_steps_agree_with_samples(exchanged: bool, epsilon: float, tilt: float) -> None:
    law = RandomAllocation(1.0, 100, 10, exchanged)
    mean, error = sampled(law, epsilon, tilt)
    assert error < 0.05 * mean
    assert law.lower(epsilon) - 4 * error < mean < float(law.delta(epsilon)) + 4 * error


def test_both_ends_of_ten_of_a_thousand_steps_are_near() -> None:
    for exchanged, epsilon in ((False, 1.69), (True, 1.545)):
        law = RandomAllocation(1.0, 1000, 10, exchanged)
        upper = float(law.delta(epsilon))
        assert 0.997 * upper <= law.lower(epsilon) <= upper <= 1.002e-5
