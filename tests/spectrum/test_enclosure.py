"""Enclosures hold the truth: reference tables, exact inputs in both forms, compositions, edges, bad input."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import NotFiniteError, NotPositiveDefiniteError, NotSymmetricError, ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.enclosures.ball_integral import BallIntegral, WorkBudget
from gaussveil.spectrum.enclosures.ball_spectrum import exact_spectrum
from gaussveil.spectrum.enclosures.enclosure import Enclosure, enclose_delta
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles, TermDoubles

REFERENCE = Path(__file__).parents[1] / "reference"
Case = dict[str, Any]


def cases(table: str) -> list[Case]:
    return json.loads((REFERENCE / table).read_text())["cases"]


def terms(case: Case) -> TermDoubles:
    return TermDoubles.of([float(x) for x in case["nu"]], mean_gap=[float(x) for x in case["b"]])


def matrices(case: Case) -> MatrixDoubles:
    return MatrixDoubles.of(case["mu1"], case["S1"], case["mu2"], case["S2"])


def doubles_are_exact(case: Case) -> bool:
    return all(Fraction(text) == Fraction(float(text)) for text in case["nu"] + case["b"])


def assert_holds(found: Enclosure, delta_ref: str) -> None:
    """The interval meets [ref (1 - 1e-28), ref (1 + 1e-28)]: the reference has 30 digits."""
    with ctx.workprec(256):
        reference = arb(delta_ref)
        assert 0.0 <= found.lower <= found.upper <= 1.0
        if reference == 0:
            assert found == Enclosure(0.0, 0.0, -math.inf, -math.inf)
            return
        slack = arb("1e-28")
        assert not arb(found.lower) > reference * (1 + slack)
        assert not arb(found.upper) < reference * (1 - slack)
        assert not arb(found.log_lower) > reference.log() + slack
        assert not arb(found.log_upper) < reference.log() - slack
        assert found.log_upper - found.log_lower <= 1e-10 + 4 * math.ulp(found.log_lower)
        if found.lower > 1e-300:
            assert found.upper - found.lower <= 1e-10 * found.lower


GIVEN = cases("gaussian_pairs.json")
EXTRA = cases("extra_pairs.json")


def name(case: Case) -> str:
    return str(case["id"])


@pytest.mark.parametrize("case", [c for c in GIVEN if c["d"] >= 50 or doubles_are_exact(c)], ids=name)
def test_given_table_from_exact_terms(case: Case) -> None:
    assert_holds(enclose_delta([(terms(case), 1)], case["eps"]), case["delta_ref"])


@pytest.mark.parametrize("case", [c for c in GIVEN if "S1" in c], ids=name)
def test_given_table_from_matrices(case: Case) -> None:
    assert_holds(enclose_delta([(matrices(case), 1)], case["eps"]), case["delta_ref"])


@pytest.mark.parametrize("case", EXTRA, ids=name)
def test_extra_table_from_exact_terms(case: Case) -> None:
    assert_holds(enclose_delta([(terms(case), 1)], case["eps"]), case["delta_ref"])


@pytest.mark.parametrize("case", [c for c in EXTRA if "S1" in c], ids=name)
def test_extra_table_from_matrices(case: Case) -> None:
    assert_holds(enclose_delta([(matrices(case), 1)], case["eps"]), case["delta_ref"])


def mean_shift_ball(shift_squared: int, eps: float) -> arb:
    """Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t) at 400 bits."""
    t, e = arb(shift_squared).sqrt(), arb(eps)

    def upper_tail(x: arb) -> arb:
        return (x / arb(2).sqrt()).erfc() / 2

    return upper_tail(e / t - t / 2) - e.exp() * upper_tail(e / t + t / 2)


@pytest.mark.parametrize("eps", [0.0, 4500.0, 5000.0, 6000.0, 8000.0])
def test_ten_thousand_unit_mean_shifts(eps: float) -> None:
    found = enclose_delta([(TermDoubles.of([0.0], mean_gap=[1.0]), 10_000)], eps)
    with ctx.workprec(12_000):
        truth = mean_shift_ball(10_000, eps)
        assert not truth < arb(found.lower)
        assert not truth > arb(found.upper)
        assert not truth.log() < arb(found.log_lower)
        assert not truth.log() > arb(found.log_upper)
    assert found.log_upper - found.log_lower <= 1e-10


def test_many_covariance_releases_compose() -> None:
    # tau = 3/2 twice per release: 2 n chi-squared degrees of freedom, Lemma 4 in integers.
    found = enclose_delta([(TermDoubles.of([-0.5, -0.5]), 500)], 60.0)
    with ctx.workprec(600):
        half, level = arb(500), (60 + 500 * arb("1.5").log()) / arb("0.5")
        truth = level.gamma_upper(half, 1) - arb(60).exp() * (level * arb("1.5")).gamma_upper(half, 1)
        assert not truth < arb(found.lower)
        assert not truth > arb(found.upper)
    assert found.upper - found.lower <= 1e-10 * found.lower


def test_sources_of_both_kinds_agree_with_one_list_of_terms() -> None:
    case = next(c for c in EXTRA if c["id"] == "paired_d12")
    other = TermDoubles.of([0.25, -0.5], multiplicity=[3, 2], energy=[0.5, 0.25])
    apart = enclose_delta([(matrices(case), 2), (other, 1)], 2.0)
    together = enclose_delta([(terms(case), 2), (other, 1)], 2.0)
    assert max(apart.lower, together.lower) <= min(apart.upper, together.upper)
    assert apart.upper - apart.lower <= 1e-10 * apart.lower


def test_energy_and_mean_gap_say_the_same() -> None:
    by_energy = TermDoubles.of([-0.5, 0.0], multiplicity=[4, 1], energy=[4 * 0.0625, 0.25])
    by_gap = TermDoubles.of([-0.5, 0.0], multiplicity=[4, 1], mean_gap=[0.25, -0.5])
    assert enclose_delta([(by_energy, 1)], 1.0) == enclose_delta([(by_gap, 1)], 1.0)


gaps = st.floats(-30.0, 0.96).filter(lambda g: abs(g) > 1e-12 or g == 0.0)
shifts = st.floats(-5.0, 5.0)


@settings(derandomize=True, deadline=None, max_examples=8)
@given(st.lists(st.tuples(gaps, shifts), min_size=1, max_size=4), st.sampled_from([0.0, 0.1, 1.0, 7.0]))
def test_swapped_terms_are_the_reversed_pair(pairs: list[tuple[float, float]], eps: float) -> None:
    """H_a(X||Y) = 1 - a + a H_{1/a}(Y||X) says delta at eps = 0 is symmetric; matrices swap by exchanging arguments."""
    gap, shift = [g for g, _ in pairs], [b for _, b in pairs]
    forward = TermDoubles.of(gap, mean_gap=shift)
    backward = TermDoubles.of(gap, mean_gap=shift, swapped=True)
    ratios = 1.0 - np.array(gap)
    if all(Fraction(r) == 1 - Fraction(g) for r, g in zip(ratios.tolist(), gap)):
        size = np.zeros(len(gap))
        as_matrices = MatrixDoubles.of(size, np.eye(len(gap)), shift, np.diag(ratios))
        one, other = enclose_delta([(backward, 1)], eps), enclose_delta([(as_matrices, 1)], eps)
        assert max(one.log_lower, other.log_lower) <= min(one.log_upper, other.log_upper)
    one, other = enclose_delta([(forward, 1)], 0.0), enclose_delta([(backward, 1)], 0.0)
    assert max(one.lower, other.lower) <= min(one.upper, other.upper)


def test_wide_random_scales_are_all_enclosed_tightly(full: bool) -> None:
    rng = np.random.default_rng(20)
    for _ in range(300 if full else 20):
        size = int(rng.choice([1, 2, 3, 12]))
        gap = 1.0 - np.exp(rng.normal(size=size) * rng.choice([1e-6, 1e-2, 1.0, 5.0]))
        gap[rng.integers(size)] *= rng.integers(2)
        shift = rng.normal(size=size) * 10 ** rng.uniform(-7.0, 2.0)
        eps = float(rng.choice([0.0, rng.uniform(0.0, 5.0), 10 ** rng.uniform(-6.0, 3.0)]))
        found = enclose_delta([(TermDoubles.of(gap, mean_gap=shift), 1)], eps)
        assert 0.0 <= found.lower <= found.upper <= 1.0
        assert found.log_upper < -1e12 or found.log_upper - found.log_lower <= 1e-10 + 4 * math.ulp(found.log_lower)


def test_nothing_to_tell_apart_is_zero() -> None:
    same = MatrixDoubles.of([1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]], [1.0, 2.0], [[2.0, 0.5], [0.5, 1.0]])
    for sources in ([], [(same, 3)], [(TermDoubles.of([0.0, 0.0]), 1)], [(TermDoubles.of([-1.0]), 0)]):
        assert enclose_delta(sources, 0.0).upper == 0.0


def test_largest_loss_reached_from_rank_deficient_matrices() -> None:
    """Shrinking along one axis only: the zero gaps are not known to be zero, the bound is still below any double."""
    base = np.array([[1.0, 0.0], [1.0, 1.0]])
    narrow, wide = base @ np.diag([0.5, 1.0]) @ base.T, base @ base.T
    found = enclose_delta([(MatrixDoubles.of([0.0, 0.0], narrow, [0.0, 0.0], wide), 1)], 0.5)
    assert found.lower == 0.0
    assert found.log_upper < -1e12


def test_barely_positive_definite_is_decided() -> None:
    almost = 1.0 - 2.0**-52
    found = enclose_delta(
        [(MatrixDoubles.of([0.0, 0.0], np.eye(2), [0.0, 0.0], [[1.0, almost], [almost, 1.0]]), 1)], 1.0
    )
    assert found.lower > 0.99
    with pytest.raises(NotPositiveDefiniteError, match="cov_y"):
        enclose_delta([(MatrixDoubles.of([0.0, 0.0], np.eye(2), [0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]]), 1)], 1.0)
    beyond = 1.0 + 2.0**-52
    with pytest.raises(NotPositiveDefiniteError, match="cov_x"):
        enclose_delta([(MatrixDoubles.of([0.0, 0.0], [[1.0, beyond], [beyond, 1.0]], [0.0, 0.0], np.eye(2)), 1)], 1.0)


def test_bad_input_names_the_argument_and_the_rule() -> None:
    good = TermDoubles.of([0.5])
    with pytest.raises(ParameterError, match="epsilon"):
        enclose_delta([(good, 1)], -1.0)
    with pytest.raises(NotFiniteError, match="epsilon"):
        enclose_delta([(good, 1)], math.nan)
    with pytest.raises(ParameterError, match="count"):
        enclose_delta([(good, -1)], 1.0)
    with pytest.raises(NotPositiveDefiniteError, match="variance_gap"):
        TermDoubles.of([1.0])
    with pytest.raises(ParameterError, match="energy"):
        TermDoubles.of([0.5], energy=[-1.0])
    with pytest.raises(ParameterError, match="not both"):
        TermDoubles.of([0.5], energy=[1.0], mean_gap=[1.0])
    with pytest.raises(ShapeError, match="multiplicity"):
        TermDoubles.of([0.5], multiplicity=[1, 2])
    with pytest.raises(ShapeError, match="cov_x"):
        MatrixDoubles.of([0.0], np.eye(2), [0.0], np.eye(1))
    with pytest.raises(NotSymmetricError, match="cov_y"):
        MatrixDoubles.of([0.0, 0.0], np.eye(2), [0.0, 0.0], [[1.0, 0.1], [0.0, 1.0]])
    with pytest.raises(NotFiniteError, match="mean_y"):
        MatrixDoubles.of([0.0], np.eye(1), [math.inf], np.eye(1))


def assert_around(found: Enclosure, values: np.ndarray, slack: float) -> None:
    """The floating-point kernel agrees with the interval to its own accuracy."""
    assert np.shape(found.lower) == np.shape(values)
    assert np.all(np.asarray(found.lower) <= np.asarray(found.upper))
    assert np.all(np.asarray(found.lower) * (1.0 - slack) <= values)
    assert np.all(values <= np.asarray(found.upper) * (1.0 + slack))
    assert np.all(np.asarray(found.relative_width) <= 1e-10)


def test_privacy_losses_in_batches_reversed_and_composed() -> None:
    rng = np.random.default_rng(5)
    root = rng.normal(size=(2, 3, 3))
    cov_x = root @ root.transpose(0, 2, 1) + np.eye(3)
    pairs = GaussianPair(rng.normal(size=(2, 3)), cov_x, np.zeros(3), 2.0 * np.eye(3))
    eps = [[0.5], [2.0], [0.0]]
    for loss in (pairs, pairs.reversed(), compose(pairs, GaussianPair.mean_shift(0.25)) ** 3):
        assert_around(loss.enclose(eps), loss.delta(eps), 1e-11)
    backward = GaussianPair(np.zeros(3), 2.0 * np.eye(3), pairs._sources[0].origin.mean_x, cov_x)
    assert np.array_equal(backward.enclose(0.5).upper, pairs.reversed().enclose(0.5).upper)


def test_stored_terms_are_enclosed_with_their_multiplicities() -> None:
    loss = PrivacyLoss.from_terms([0.25, -0.5], [2, 3], [0.125, 0.25])
    once = loss.enclose(0.5)
    assert isinstance(once.lower, float)
    assert once == enclose_delta([(TermDoubles.of([0.25, -0.5], multiplicity=[2, 3], energy=[0.125, 0.25]), 1)], 0.5)
    assert_around(loss.reversed().enclose(0.5), loss.reversed().delta(0.5), 1e-12)


def test_paths_that_cost_the_same_can_be_ordered() -> None:
    """Where lengths overflow every path costs the same, and directions, being complex, have no order."""
    doubles = TermDoubles.of([-0.5], energy=[1.0])
    integral = BallIntegral([(exact_spectrum([(doubles, 1)]), 1)], 1.0, WorkBudget(1))
    with np.errstate(all="ignore"):
        assert len(integral._paths(arb(1), np.array([0.5]), 1e300, 0.0)) == 5


def test_enclosures_next_to_the_largest_loss_are_tight() -> None:
    """Doubles cannot tell the largest loss from epsilon there; the truth is 0 or positive, never 'anything'."""
    for gap, energy in ((0.5, 0.0), (4.2e-11, 0.0), (0.9184691013542657, 0.03314962126188179), (5.9865e-05, 0.0)):
        loss = PrivacyLoss.from_terms([gap], [3.0], [energy])
        with ctx.workprec(200):
            largest = -(-arb(gap)).log1p() * 3 / 2 + arb(energy) / (2 * arb(gap))
        for steps in range(-3, 4):
            epsilon = float(largest)
            for _ in range(abs(steps)):
                epsilon = math.nextafter(epsilon, math.copysign(math.inf, steps))
            found, value = loss.enclose(epsilon), float(loss.delta(epsilon))
            with ctx.workprec(200):
                positive = bool(largest > epsilon)
            assert (found.lower > 0.0) == positive == (value > 0.0)
            assert found.relative_width < 1e-9
            assert value == pytest.approx(found.upper, rel=1e-9)


def test_a_term_without_weight_is_dropped() -> None:
    with_it = PrivacyLoss.from_terms([0.5, -0.9], [1.0, 0.0], [0.1, 0.0])
    alone = PrivacyLoss.from_terms([0.5], [1.0], [0.1])
    for epsilon in (0.3, 0.6):
        assert with_it.enclose(epsilon) == alone.enclose(epsilon)
        assert with_it.delta(epsilon) == alone.delta(epsilon)
    assert with_it.enclose(0.6).upper == with_it.delta(0.6) == 0.0


@pytest.mark.parametrize("size", [2, 8, 12])
def test_an_equal_shrinking_of_all_directions_is_enclosed(size: int) -> None:
    """cov_x = cov_y / 2: L = d log(2)/2 - |x|^2/2, so that both probabilities are those of a chi-squared variable."""
    root = np.random.default_rng(size).normal(size=(size, size)) / size + np.eye(size)
    cov = root @ root.T
    found = GaussianPair(np.zeros(size), cov / 2, np.zeros(size), cov).enclose(0.25)
    with ctx.workprec(300):
        half, radius = arb(size) / 2, size * arb(2).log() - arb(0.5)
        truth = radius.gamma_lower(half, 1) - arb(0.25).exp() * (radius / 2).gamma_lower(half, 1)
        assert not truth < arb(found.lower)
        assert not truth > arb(found.upper)
    assert found.relative_width < 1e-14


def test_what_cannot_be_decided_ends_soon() -> None:
    """A thousandth of a thousandth ... of a coordinate that grows: an interval, or a refusal, in bounded work."""
    found = PrivacyLoss.from_terms([0.5, -0.9], [1.0, 1e-30], [0.1, 0.0]).enclose(0.6)
    assert found.lower <= found.upper < 1e-18


@pytest.mark.parametrize("gap", [-5e-324, -1e-150, -1e-30, 1e-150, 5e-324])
def test_the_smallest_gaps_are_enclosed_like_none(gap: float) -> None:
    found = PrivacyLoss.from_terms([gap], [1.0], [0.5]).enclose(2.0)
    with ctx.workprec(200):
        shift = (arb(1) / 2).sqrt()
        tails = [((2 / shift + sign * shift / 2) / arb(2).sqrt()).erfc() / 2 for sign in (-1, 1)]
        truth = tails[0] - arb(2).exp() * tails[1]
        assert abs(arb(found.upper) / truth - 1) < 1e-14
    assert found.relative_width < 1e-14
