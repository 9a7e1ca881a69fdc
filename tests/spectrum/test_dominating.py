"""What accounts, epsilons and audits trust of a pair of matrices is proven, however ill-conditioned they are."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp, mpf

from gaussveil.accounting import Charge
from gaussveil.audit.white_box import audit
from gaussveil.errors import NotPositiveDefiniteError
from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.dominated import QUICK_BITS
from gaussveil.spectrum.positive_definite import is_positive_definite
from gaussveil.spectrum.verified import dp_delta_upper

# Nearly singular: doubles may reduce it to a mean shift that is 8 % too short, as the order of operations falls.
COVARIANCE = np.array([[0.4402413549771794, 0.49641605971708447], [0.49641605971708447, 0.5597586450228216]])
SHIFT = np.array([-2.365921902816788e-09, 2.098192924821688e-09])


def squared_shift(mean: np.ndarray, cov: np.ndarray) -> mpf:
    """v' C^-1 v of the exact doubles, to 60 digits."""
    mp.dps = 80
    v = mp.matrix([mpf(float(x)) for x in mean])
    return (v.T * mp.lu_solve(mp.matrix([[mpf(float(x)) for x in row] for row in cov]), v))[0]


def reduced(mean_x: np.ndarray, cov_x: np.ndarray, cov_y: np.ndarray) -> list[tuple[mpf, mpf]]:
    """Variance gaps and squared mean gaps of the exact doubles against N(0, cov_y), to 60 digits, ascending."""
    mp.dps = 100
    s1, s2 = (mp.matrix([[mpf(float(x)) for x in row] for row in cov]) for cov in (cov_x, cov_y))
    whiten = mp.inverse(mp.cholesky(s2))
    gaps, axes = mp.eigsy(whiten * (s2 - s1) * whiten.T)
    shift = axes.T * (whiten * mp.matrix([mpf(float(x)) for x in mean_x]))
    return sorted((gaps[i], shift[i] ** 2) for i in range(len(mean_x)))


def conditioned(rng: np.random.Generator, size: int, condition: float) -> np.ndarray:
    axes, _ = np.linalg.qr(rng.normal(size=(size, size)))
    cov = axes * np.geomspace(1.0, 1.0 / condition, size) @ axes.T
    return (cov + cov.T) / 2


def worst_upper(loss: PrivacyLoss, epsilon: float) -> float:
    return max(float(side.enclose(epsilon).upper) for side in (loss, loss.reversed()))


def test_epsilon_of_a_nearly_singular_pair_is_private() -> None:
    pair = GaussianPair(SHIFT, COVARIANCE, [0.0, 0.0], COVARIANCE)
    assert worst_upper(pair, float(pair.dp_epsilon(1e-5))) <= 1e-5
    assert worst_upper(pair, float(pair.epsilon(1e-9))) <= 1e-9


@pytest.mark.parametrize("way", ["forward", "back"])
def test_gaps_that_rounding_made_cost_nothing(way: str) -> None:
    """Covariances that differ in one direction, up to 1e-17 in the others: 10.1 was the epsilon of the way back."""
    axes = np.random.default_rng(0).normal(size=(6, 6))
    cov = axes @ axes.T + 0.1 * np.eye(6)
    pair = GaussianPair(np.zeros(6), cov, np.full(6, 0.1), cov + 0.05 * np.outer(axes[0], axes[0]))
    side = pair if way == "forward" else pair.reversed()
    found = float(side.epsilon(1e-10))
    assert side.enclose(found).upper <= 1e-10
    assert side.enclose(found * (1 - 1e-8)).lower > 1e-10


def test_charge_of_a_nearly_singular_pair_costs_its_true_shift() -> None:
    charge = Charge(GaussianPair(SHIFT / 4, COVARIANCE, [0.0, 0.0], COVARIANCE))
    stored = Charge.from_json(charge.to_json())
    energy = stored.mean_shift_energy
    assert energy is not None
    true = squared_shift(SHIFT / 4, COVARIANCE)
    assert true <= Fraction(float(energy)) <= true * (1 + mpf(10) ** -14)
    assert stored.sampler_error == 0.0


def test_audit_of_a_nearly_singular_pair_is_not_deceived() -> None:
    pair = GaussianPair(SHIFT, COVARIANCE, [0.0, 0.0], COVARIANCE)
    in_floats = GaussianPair.mean_shift(0.92 * float(mp.sqrt(squared_shift(SHIFT, COVARIANCE))))
    claim = (float(in_floats.dp_epsilon(1e-5)), 1.5e-5)
    assert worst_upper(pair, claim[0]) > 1.7e-5
    assert audit(pair, claim=claim).refuted
    many = GaussianPair(SHIFT * np.linspace(1.0, 1.001, 200)[:, None], COVARIANCE, [0.0, 0.0], COVARIANCE)
    assert audit(many, claim=claim).verdict != "holds-on-these-neighbours"


@pytest.mark.parametrize("condition", [1e1, 1e6, 1e9, 1e12, 1e14])
def test_epsilon_is_private_at_every_condition_number(condition: float) -> None:
    rng = np.random.default_rng(int(math.log10(condition)))
    for _ in range(3):
        size = int(rng.integers(2, 5))
        cov_y = conditioned(rng, size, condition)
        root = np.linalg.cholesky(cov_y)
        cov_x = root @ (np.eye(size) + 0.2 * np.diag(rng.uniform(-1, 1, size))) @ root.T
        pair = GaussianPair(root @ rng.normal(size=size) * 0.1, (cov_x + cov_x.T) / 2, np.zeros(size), cov_y)
        for delta in (1e-5, 1e-12):
            epsilon = float(pair.dp_epsilon(delta))
            assert delta * (1 - 1e-9) <= worst_upper(pair, epsilon) <= delta


@pytest.mark.parametrize("condition", [1e2, 1e8, 1e14])
def test_stored_terms_dominate_the_exact_ones(condition: float) -> None:
    """|g'| >= |g|, b'^2 >= b^2 g'/g for each coordinate, against mpmath; and next to nothing is given away."""
    rng = np.random.default_rng(3)
    for size in (2, 3, 5):
        cov_y, cov_x = conditioned(rng, size, condition), conditioned(rng, size, condition) + 0.3 * np.eye(size)
        mean = rng.normal(size=size) * 0.1
        loss, variation = GaussianPair(mean, cov_x, np.zeros(size), cov_y).dominating()
        assert variation == 0
        found = sorted(zip(loss.variance_gap.tolist(), loss.energy.tolist()))
        for (gap, energy), (true_gap, true_energy) in zip(found, reduced(mean, cov_x, cov_y), strict=True):
            growth = mpf(gap) / true_gap
            assert 1 <= growth <= 1 + mpf(10) ** -15
            assert 1 <= mpf(energy) / (true_energy * growth) <= 1 + mpf(10) ** -14


def pairs_of_all_kinds() -> list[PrivacyLoss]:
    rng = np.random.default_rng(8)
    cov, other = conditioned(rng, 4, 30.0), conditioned(rng, 4, 5.0)
    mean, zero = rng.normal(size=4) * 0.2, np.zeros(4)
    return [
        GaussianPair(mean, other, zero, cov),
        GaussianPair(mean, cov / 2, zero, cov),
        GaussianPair(mean, cov + np.multiply.outer(mean, mean), zero, cov),
        GaussianPair(mean, cov, zero, cov),
        GaussianPair([0.0, 0.5], np.diag([2.0, 1.0]), [0.0, 0.0], np.eye(2)),
        GaussianPair(mean, cov * (1 + 2.0**-40), zero, cov),
        compose(GaussianPair(mean, other, zero, cov).reversed(), GaussianPair.mean_shift(0.3)) ** 3,
    ]


@pytest.mark.parametrize("loss", pairs_of_all_kinds())
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 3.0])
def test_dominating_loss_is_no_better_and_hardly_worse(loss: PrivacyLoss, epsilon: float) -> None:
    stored, variation = loss.dominating()
    for exact, kept in ((loss, stored), (loss.reversed(), stored.reversed())):
        truth, cost = exact.enclose(epsilon), kept.enclose(epsilon)
        allowed = (1 + math.exp(epsilon)) * variation
        assert truth.lower <= cost.upper + allowed
        assert cost.lower <= truth.upper * (1 + 1e-11) + 1e-60


def test_repeated_and_mixed_losses_are_charged_with_their_counts() -> None:
    # A difference of rank one: what is next to no gap is left out.
    pair = GaussianPair([1.0, 0.0], [[1.25, 0.5], [0.5, 2.0]], [0.0, 0.0], np.eye(2))
    stored, variation = compose(pair**3, PrivacyLoss.from_terms([0.25], [2.0], [0.1])).dominating()
    assert sorted(stored.multiplicity.tolist()) == [2.0, 3.0, 3.0]
    assert (
        stored.enclose(1.0).upper >= compose(pair**3, PrivacyLoss.from_terms([0.25], [2.0], [0.1])).enclose(1.0).lower
    )
    assert variation > 0
    charge = Charge(pair, count=5)
    assert charge.sampler_error >= 5 * pair.dominating()[1] > 0


@pytest.mark.parametrize(
    "condition", [1e1, pytest.param(1e5, marks=pytest.mark.full), pytest.param(1e10, marks=pytest.mark.full), 1e15]
)
def test_fast_upper_ends_hold(condition: float) -> None:
    rng = np.random.default_rng(17)
    cov_y = np.stack([conditioned(rng, 3, condition) for _ in range(6)])
    cov_x = cov_y * rng.uniform(0.7, 1.4, size=(6, 1, 1))
    roots = np.linalg.cholesky(cov_y)
    mean = (roots @ rng.normal(size=(6, 3, 1)))[..., 0] * 0.3
    pairs = GaussianPair(mean, cov_x, np.zeros(3), cov_y)
    for loss in (pairs, pairs.reversed() ** 2):
        upper = dp_delta_upper(loss, 1.0)
        truth = np.maximum(loss.enclose(1.0).lower, loss.reversed().enclose(1.0).lower)
        assert np.all(upper >= truth)
        if condition <= 1e5:
            assert np.all(upper <= truth * (1 + 1e-6) + 1e-9)


def determinants_positive(matrix: list[list[Fraction]]) -> bool:
    """Sylvester's criterion by elimination in fractions."""
    rows = [row[:] for row in matrix]
    for i, pivot_row in enumerate(rows):
        if pivot_row[i] <= 0:
            return False
        for row in rows[i + 1 :]:
            factor = row[i] / pivot_row[i]
            row[:] = [a - factor * b for a, b in zip(row, pivot_row)]
    return True


@settings(derandomize=True, deadline=None, max_examples=60)
@given(st.integers(1, 5), st.integers(0, 10**6), st.sampled_from([0.0, 1e-13, -1e-13, 2.0**-52, 1.0]))
def test_positive_definiteness_is_decided_exactly(size: int, seed: int, lift: float) -> None:
    rng = np.random.default_rng(seed)
    root = rng.integers(-3, 4, size=(size, size - 1 if size > 1 else 1)).astype(float) * 2.0 ** rng.integers(-9, 9)
    scale = 2.0 ** rng.integers(-40, 40, size=size)
    matrix = (root @ root.T + lift * np.eye(size)) * np.multiply.outer(scale, scale)
    exact = [[Fraction(float(x)) for x in row] for row in matrix]
    assert is_positive_definite(matrix.tolist()) == determinants_positive(exact)


def test_singular_matrices_are_refused_by_name() -> None:
    good = GaussianPair([0.0, 0.0], np.eye(2), [0.0, 0.0], np.eye(2))
    assert good.dominating()[1] == 0.0
    with pytest.raises(NotPositiveDefiniteError, match="cov_x"):
        GaussianPair([0.0, 0.0], [[1.0, 1.0], [1.0, 1.0]], [0.0, 0.0], np.eye(2)).dominating()


@pytest.mark.parametrize("spread", [0.0, pytest.param(3.0, marks=pytest.mark.full), 6.0])
def test_many_pairs_are_reduced_together_and_epsilon_stays_private(spread: float, full: bool) -> None:
    draw = np.random.default_rng(11)
    pairs = []
    for _ in range(12 if full else 6):
        scales = 10.0 ** np.linspace(0, spread / 2, 6)
        root = draw.normal(size=(6, 20)) * scales[:, None]
        other = root * (1 + 0.05 * draw.normal(size=root.shape))
        mean = 0.2 * scales * draw.normal(size=6)
        pairs.append(GaussianPair(mean, other @ other.T, np.zeros(6), root @ root.T))
    composed = compose(*pairs)
    alone = sum(pair.dominating()[1] for pair in pairs)
    _, left = composed.dominating(QUICK_BITS)
    assert alone == 0 <= left < 1e-15
    for loss in (composed, composed.reversed()):
        for delta in (1e-3, 1e-9, 1e-60):
            epsilon = float(loss.epsilon(delta))
            assert loss.enclose(epsilon).upper <= delta
            assert loss.enclose(epsilon * (1 - 1e-9)).lower > delta * (1 - 1e-6)
