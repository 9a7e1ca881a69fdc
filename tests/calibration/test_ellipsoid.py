from __future__ import annotations

from typing import Any

import flint
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import minimize_scalar

from gaussveil.calibration import CoveringEllipsoid, covering_ellipsoid
from gaussveil.calibration.ellipsoid_dual import _unscreened
from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)

Array = NDArray[np.float64]


def exact(matrix: Array) -> flint.fmpq_mat:
    rows, columns = matrix.shape
    return flint.fmpq_mat(rows, columns, [flint.fmpq(*float(value).as_integer_ratio()) for value in matrix.flat])


def covers_exactly(covariance: Array, vectors: Array) -> bool:
    """v' S^-1 v <= 1 in rational arithmetic, and S positive definite (Sylvester)."""
    matrix = exact(covariance)
    dim = covariance.shape[0]
    minors = (exact(covariance[:k, :k]).det() for k in range(1, dim + 1))
    columns = exact(vectors.T)
    solved = matrix.solve(columns)
    forms = (sum(columns[i, j] * solved[i, j] for i in range(dim)) for j in range(vectors.shape[0]))
    return all(minor > 0 for minor in minors) and all(form <= 1 for form in forms)


def dual_bound(vectors: Array, weights: Array, floor: float = 0.0) -> float:
    """Largest dual value over the multiples of the weights, from singular values alone."""
    singular = np.zeros(vectors.shape[1])
    found = np.linalg.svd(np.sqrt(weights)[:, None] * vectors, compute_uv=False)
    singular[: found.size] = found
    if floor == 0.0:
        return float(singular.sum()) ** 2

    def value(root: float) -> float:
        s = root * singular
        return float(np.where(s < floor, floor + s**2 / floor, 2 * s).sum()) - root**2

    top = 2 * np.sqrt(vectors.shape[1] * ((vectors**2).sum(axis=1).max() + floor))
    return -float(minimize_scalar(lambda r: -value(r), bounds=(0, top), method="bounded", options={"xatol": 1e-12}).fun)


def check(result: CoveringEllipsoid, vectors: Array, gap: float = 1e-9) -> None:
    assert covers_exactly(result.covariance, vectors)
    assert result.trace == pytest.approx(float(np.trace(result.covariance)), rel=1e-14)
    assert result.weights.min() >= 0
    assert result.weights.sum() == pytest.approx(1, abs=1e-12)
    assert np.array_equal(result.active, np.flatnonzero(result.weights))
    assert result.relative_gap <= gap
    assert result.trace <= dual_bound(vectors, result.weights) * (1 + gap) * (1 + 1e-12)


def mixture(count: int, dim: int, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    centres, factors = 3 * rng.normal(size=(5, dim)), rng.normal(size=(5, dim, dim))
    label = rng.integers(5, size=count)
    return np.asarray(centres[label] + np.einsum("nij,nj->ni", factors[label], rng.normal(size=(count, dim))))


@pytest.mark.parametrize(("count", "dim"), [(1, 1), (7, 1), (3, 7), (40, 2), (200, 4), (600, 6)])
def test_covering_is_exact_and_the_gap_recomputed_from_the_weights_is_small(count: int, dim: int) -> None:
    vectors = mixture(count, dim, seed=count)
    check(covering_ellipsoid(vectors), vectors)


def test_kkt_active_vectors_touch_and_the_stationarity_equation_holds() -> None:
    vectors = mixture(500, 4, seed=3)
    result = covering_ellipsoid(vectors)
    form = np.einsum("ij,ij->i", vectors @ np.linalg.inv(result.covariance), vectors)
    heavy = result.weights > 1e-6
    np.testing.assert_allclose(form[heavy], 1, atol=1e-7)
    # S^2 = trace(S) * sum p v v'
    second = np.einsum("n,ni,nj->ij", result.weights, vectors, vectors)
    np.testing.assert_allclose(
        result.covariance @ result.covariance, result.trace * second, rtol=1e-6, atol=1e-8 * result.trace**2
    )


def test_orthogonal_vectors_have_the_sum_of_their_projections() -> None:
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(5, 5)))[0]
    vectors = np.array([3.0, 1.0, 0.5, 2.0, 0.01])[:, None] * basis
    result = covering_ellipsoid(vectors)
    np.testing.assert_allclose(result.covariance, vectors.T @ vectors, atol=1e-8)
    np.testing.assert_allclose(result.weights, (vectors**2).sum(axis=1) / (vectors**2).sum(), atol=1e-7)


@pytest.mark.parametrize(
    ("lengths", "angle"), [((1.0, 1.0), 0.7), ((2.0, 1.0), 1.3), ((1.0, 5.0), 0.2), ((1.0, 1.0), 1e-3)]
)
def test_two_vectors_have_the_perron_root_as_trace(lengths: tuple[float, float], angle: float) -> None:
    # nuclear norm of two columns squared = |.|_F^2 + 2 |det|: a quadratic form in (sqrt p, sqrt(1-p))
    a, b = lengths
    vectors = np.array([[a, 0.0], [b * np.cos(angle), b * np.sin(angle)]])
    cross = a * b * np.sin(angle)
    expected = np.linalg.eigvalsh([[a * a, cross], [cross, b * b]])[-1]
    assert covering_ellipsoid(vectors).trace == pytest.approx(expected, rel=2e-9)


@pytest.mark.parametrize("corners", [3, 5, 8, 360])
def test_regular_polygon_needs_its_circle(corners: int) -> None:
    turn = 2 * np.pi * np.arange(corners) / corners
    result = covering_ellipsoid(np.stack([np.cos(turn), np.sin(turn)], axis=1))
    np.testing.assert_allclose(result.covariance, np.eye(2), atol=1e-4)
    assert result.trace == pytest.approx(2, rel=2e-9)


def test_dense_sphere_needs_the_sphere() -> None:
    points = np.random.default_rng(1).normal(size=(3000, 3))
    points /= np.linalg.norm(points, axis=1)[:, None]
    result = covering_ellipsoid(points)
    assert 3 * (1 - 1e-3) < result.trace <= 3 * (1 + 1e-9)


def test_one_dimension_is_the_largest_square() -> None:
    result = covering_ellipsoid([[0.5], [-3.0], [2.0]])
    assert result.trace == pytest.approx(9, rel=2e-9)
    assert result.active.tolist() == [1]


def test_single_vector_is_completed_by_a_negligible_variance() -> None:
    vector = np.array([[1.0, 2.0, 2.0]])
    result = covering_ellipsoid(vector)
    check(result, vector)
    assert result.trace == pytest.approx(9, rel=1e-9)
    assert np.linalg.eigvalsh(result.covariance)[0] > 0


def test_vectors_in_a_subspace_are_solved_there() -> None:
    rng = np.random.default_rng(2)
    basis = np.linalg.qr(rng.normal(size=(6, 6)))[0][:, :2]
    flat = rng.normal(size=(100, 2))
    result = covering_ellipsoid(flat @ basis.T)
    check(result, flat @ basis.T)
    assert result.trace == pytest.approx(covering_ellipsoid(flat).trace, rel=2e-9)


def test_duplicates_signs_and_zeros_change_nothing() -> None:
    rng = np.random.default_rng(4)
    vectors = rng.normal(size=(30, 3))
    crowd = np.vstack([np.zeros((40, 3)), np.repeat(vectors, 50, axis=0) * rng.choice([-1, 1], size=(1500, 1))])
    plain, crowded = covering_ellipsoid(vectors), covering_ellipsoid(crowd)
    check(crowded, crowd)
    assert crowded.trace == pytest.approx(plain.trace, rel=2e-9)
    np.testing.assert_allclose(crowded.covariance, plain.covariance, atol=1e-4 * plain.trace)


def test_badly_scaled_columns_and_rows() -> None:
    rng = np.random.default_rng(5)
    columns = rng.normal(size=(150, 5)) * 10.0 ** np.array([-8, -5, -1, 2, 5])
    turned = columns @ np.linalg.qr(rng.normal(size=(5, 5)))[0]
    rows = rng.normal(size=(150, 5)) * 10.0 ** rng.uniform(-8, 5, size=(150, 1))
    for vectors in (columns, turned, rows):
        check(covering_ellipsoid(vectors), vectors)


def test_weight_is_a_change_of_coordinates_and_keeps_small_units() -> None:
    rng = np.random.default_rng(6)
    plain = rng.normal(size=(200, 4))
    units = 10.0 ** np.array([-8, -2, 1, 5])
    result = covering_ellipsoid(plain * units, weight=np.diag(units**-2.0))
    same = covering_ellipsoid(plain)
    assert covers_exactly(result.covariance, plain * units)
    assert result.trace == pytest.approx(same.trace, rel=2e-9)
    np.testing.assert_allclose(result.covariance / np.outer(units, units), same.covariance, atol=1e-4)

    mix = rng.normal(size=(4, 6))
    weight = mix @ mix.T
    weight = (weight + weight.T) / 2
    result = covering_ellipsoid(plain, weight=weight)
    assert result.trace == pytest.approx(float(np.trace(weight @ result.covariance)), rel=1e-12)
    assert covers_exactly(result.covariance, plain)
    assert result.trace <= dual_bound(plain @ np.linalg.cholesky(weight), result.weights) * (1 + 2e-9)


def test_floor_of_orthogonal_vectors_is_the_larger_of_the_two() -> None:
    lengths = np.array([3.0, 1.0, 0.5, 0.1])
    result = covering_ellipsoid(np.diag(lengths), floor=0.3)
    np.testing.assert_allclose(result.covariance, np.diag(np.maximum(lengths**2, 0.3)), atol=1e-7)
    assert result.relative_gap <= 1e-9


@pytest.mark.parametrize("share", [1e-4, 0.03, 0.2, 0.6, 0.99, 0.9999])
def test_floor_is_kept_and_certified(share: float) -> None:
    vectors = mixture(120, 4, seed=8)
    floor = share * float((vectors**2).sum(axis=1).max())
    result = covering_ellipsoid(vectors, floor=floor)
    assert covers_exactly(result.covariance, vectors)
    lifted = exact(result.covariance) - exact(floor * np.eye(4))
    leading = [[[lifted[i, j] for j in range(k)] for i in range(k)] for k in range(1, 5)]
    assert all(flint.fmpq_mat(block).det() >= 0 for block in leading)
    assert result.relative_gap <= 1e-9
    assert result.trace <= dual_bound(vectors, result.weights, floor) * (1 + 2e-9)


def test_floor_with_a_weight_is_sound_and_its_gap_is_honest() -> None:
    vectors = mixture(80, 3, seed=9)
    weight = np.diag([1.0, 10.0, 100.0])
    floor = 0.1 * float((vectors**2).sum(axis=1).max())
    result = covering_ellipsoid(vectors, weight=weight, floor=floor)
    assert covers_exactly(result.covariance, vectors)
    assert np.linalg.eigvalsh(result.covariance)[0] >= floor * (1 - 1e-12)
    free = covering_ellipsoid(vectors, weight=weight)
    assert free.lower_bound <= result.lower_bound * (1 + 1e-9) <= result.trace * (1 + 1e-9)
    assert result.relative_gap == pytest.approx(result.trace / result.lower_bound - 1)


def test_floor_above_every_vector_is_white_noise() -> None:
    result = covering_ellipsoid([[1.0, 0.0], [0.0, 0.5]], floor=2.0)
    assert np.array_equal(result.covariance, 2 * np.eye(2))
    assert (result.relative_gap, result.active.size) == (0.0, 0)
    assert covering_ellipsoid(np.zeros((3, 2)), floor=2.0).trace == 4.0


def test_scaling_rotation_and_order_carry_over() -> None:
    vectors = mixture(300, 4, seed=10)
    base = covering_ellipsoid(vectors)
    turn = np.linalg.qr(np.random.default_rng(11).normal(size=(4, 4)))[0]
    order = np.random.default_rng(12).permutation(300)
    turned = covering_ellipsoid(vectors @ turn.T)
    close = {"rtol": 0, "atol": 1e-5 * base.trace}
    np.testing.assert_allclose(turned.covariance, turn @ base.covariance @ turn.T, **close)
    np.testing.assert_allclose(covering_ellipsoid(vectors[order]).covariance, base.covariance, **close)
    for factor in (1e-100, 1e-8, 1e5, 1e100):
        scaled = covering_ellipsoid(factor * vectors)
        assert scaled.trace == pytest.approx(factor**2 * base.trace, rel=2e-9)


def test_same_input_same_bits() -> None:
    vectors = mixture(700, 5, seed=13)
    one, two = covering_ellipsoid(vectors), covering_ellipsoid(vectors.copy())
    assert np.array_equal(one.covariance, two.covariance)
    assert np.array_equal(one.weights, two.weights)


def test_many_vectors(full: bool) -> None:
    vectors = mixture(100_000 if full else 8_000, 12, seed=14)
    result = covering_ellipsoid(vectors)
    assert result.relative_gap <= 1e-9
    form = np.einsum("ij,ij->i", vectors @ np.linalg.inv(result.covariance), vectors)
    assert form.max() <= 1 + 1e-11
    assert result.trace <= dual_bound(vectors, result.weights) * (1 + 1e-9)
    assert covers_exactly(result.covariance, vectors[result.active])


@pytest.mark.parametrize("floor", [1e-12, 0.05])
def test_screening_never_drops_a_vector_that_is_active(floor: float) -> None:
    vectors = mixture(300, 3, seed=15)
    vectors /= np.linalg.norm(vectors, axis=1).max()
    best = covering_ellipsoid(vectors, floor=floor)
    active = best.weights > 1e-7
    rng = np.random.default_rng(16)
    dropped = 0
    for share in (0.5, 0.1, 1e-2, 1e-3, 1e-4):
        x = best.trace * ((1 - share) * best.weights + share * rng.dirichlet(np.ones(300)))
        squares, basis = np.linalg.eigh(np.einsum("n,ni,nj->ij", x, vectors, vectors))
        keep = _unscreened(np.sqrt(squares), (vectors @ basis) ** 2, float(x.sum()), floor)
        assert keep[active].all()
        dropped += int((~keep).sum())
    assert dropped > 300


finite = st.floats(-1e3, 1e3, allow_nan=False).map(lambda value: value if abs(value) > 1e-3 else 0.0)
families = st.integers(1, 4).flatmap(
    lambda dim: arrays(np.float64, st.tuples(st.integers(1, 12), st.just(dim)), elements=finite)
)


@settings(derandomize=True, deadline=None, max_examples=60)
@given(families, st.integers(0, 2**32 - 1))
def test_any_family_is_covered_and_another_vector_never_lowers_the_trace(vectors: Array, seed: int) -> None:
    extra = np.random.default_rng(seed).normal(size=(1, vectors.shape[1])) * (1 + np.abs(vectors).max())
    more = covering_ellipsoid(np.vstack([vectors, extra]))
    check(more, np.vstack([vectors, extra]))
    if vectors.any():
        fewer = covering_ellipsoid(vectors)
        check(fewer, vectors)
        assert more.trace >= fewer.lower_bound * (1 - 1e-12)
        assert more.trace >= float((extra**2).sum()) * (1 - 1e-12)


@pytest.mark.parametrize(
    "vectors", [[], [1.0, 2.0], 3.0, np.zeros((0, 3)), np.zeros((3, 0)), np.zeros((2, 2, 2)), [[1, 2], [3]]]
)
def test_wrong_shapes_are_refused(vectors: Any) -> None:
    with pytest.raises(ShapeError, match=r"vectors.? must be"):
        covering_ellipsoid(vectors)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(NotFiniteError, match="vectors"):
        covering_ellipsoid([[1.0, bad]])
    with pytest.raises(NotFiniteError, match="weight"):
        covering_ellipsoid([[1.0, 2.0]], weight=[[1.0, 0.0], [0.0, bad]])


def test_other_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="give floor"):
        covering_ellipsoid(np.zeros((4, 2)))
    with pytest.raises(ParameterError, match="relative_gap"):
        covering_ellipsoid([[1.0]], relative_gap=0.0)
    with pytest.raises(ParameterError, match="floor"):
        covering_ellipsoid([[1.0]], floor=-1.0)
    with pytest.raises(ParameterError, match="change the unit"):
        covering_ellipsoid([[1e-200, 0.0]])
    with pytest.raises(ShapeError, match="weight"):
        covering_ellipsoid([[1.0, 2.0]], weight=np.eye(3))
    with pytest.raises(NotSymmetricError, match="weight"):
        covering_ellipsoid([[1.0, 2.0]], weight=[[1.0, 0.1], [0.0, 1.0]])
    with pytest.raises(NotPositiveDefiniteError, match="weight"):
        covering_ellipsoid([[1.0, 2.0]], weight=[[1.0, 2.0], [2.0, 1.0]])


@pytest.mark.parametrize("weighted", [False, True])
def test_a_floor_that_covers_all_but_a_few_long_vectors(weighted: bool) -> None:
    """The vectors looked at first are all covered by the floor, so that none of them carries weight."""
    rng = np.random.default_rng(0)
    size = np.exp(3 * rng.normal(size=500))
    vectors = np.concatenate([size[:, None], rng.normal(size=(500, 8)), size[:, None]], axis=1)
    floor = float(np.quantile(2 * size**2, 0.97))
    found = covering_ellipsoid(vectors, np.eye(10) if weighted else None, floor=floor)
    image = np.linalg.solve(np.linalg.cholesky(found.covariance), vectors.T)
    assert np.sum(image**2, axis=0).max() <= 1 + 1e-12
    assert found.weights.sum() == pytest.approx(1.0)
    assert found.relative_gap < 1e-6
    longest = float(np.max(np.sum(vectors**2, axis=1)))
    assert found.trace == pytest.approx(longest + 9 * floor, rel=1e-6)
