from __future__ import annotations

import itertools
from collections.abc import Callable
from fractions import Fraction
from math import exp, sqrt

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    NumericalError,
    ParameterError,
    ShapeError,
)
from gaussveil.noise import GaussianNoise, SeededGenerator
from gaussveil.noise.discrete_gaussian import smoothing_error, smoothing_total_variation
from gaussveil.spectrum.positive_definite import certainly_positive_definite


def random_covariance(seed: int, size: int, condition: float) -> np.ndarray:
    rng = np.random.default_rng(seed)
    basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
    covariance = (basis * np.geomspace(1, condition, size)) @ basis.T * rng.uniform(0.01, 100)
    return (covariance + covariance.T) / 2


def exactly_positive_definite(matrix: list[list[Fraction]]) -> bool:
    """Elimination in rationals."""
    rows = [list(row) for row in matrix]
    for i, pivot_row in enumerate(rows):
        if pivot_row[i] <= 0:
            return False
        for row in rows[i + 1 :]:
            factor = row[i] / pivot_row[i]
            for j in range(i, len(rows)):
                row[j] -= factor * pivot_row[j]
    return True


def drawn_covariance(noise: GaussianNoise) -> list[list[Fraction]]:
    """M in squared grids, exactly, from the integers of the design."""
    colouring = noise._colouring
    assert colouring is not None
    rows = [[int(entry) for entry in row] for row in colouring.multipliers]
    return [
        [
            colouring.inner.variance * sum(a * b for a, b in zip(row, other)) + (i == j) * colouring.outer.variance
            for j, other in enumerate(rows)
        ]
        for i, row in enumerate(rows)
    ]


def gaussian_delta(epsilon: float, shift: float, sd: float) -> float:
    """Hockey-stick divergence of two normals of one variance (Balle and Wang 2018, equation 6)."""
    m = shift / sd
    return float(stats.norm.cdf(m / 2 - epsilon / m) - exp(epsilon) * stats.norm.cdf(-m / 2 - epsilon / m))


def lattice_delta(masses: list[int], shift: int, epsilon: float) -> float:
    """Hockey-stick divergence of an integer law shifted against itself, summed exactly but for e^epsilon."""
    ratio = Fraction(exp(epsilon)) * (1 - Fraction(1, 2**50))  # a little smaller, so the divergence is a little larger
    law = dict(enumerate(masses))
    total = sum(max(Fraction(0), law.get(x - shift, 0) - ratio * law.get(x, 0)) for x in range(len(masses) + shift))
    return float(total / sum(masses))


@pytest.mark.parametrize("sd", [4.0, 7.3, 30.0])
@pytest.mark.parametrize("sensitivity", [0.7, 4.0, 25.5])
def test_the_law_drawn_is_no_less_private_than_the_continuous_one(sd: float, sensitivity: float) -> None:
    noise = GaussianNoise(sd, grid=1.0)
    masses = noise.white.table.masses()
    assert noise.white.multipliers == ()
    shifts = {round(offset + sensitivity) - round(offset) for offset in np.linspace(0, 1, 41)}
    for shift, epsilon in itertools.product(shifts - {0}, (0.0, 0.1, 0.5, 1.0, 2.0, 4.0)):
        drawn = lattice_delta(masses, shift, epsilon)
        assert drawn <= gaussian_delta(epsilon, shift, sd) + 1e-14  # sampling on the lattice is post-processing
        assert drawn <= gaussian_delta(epsilon, sensitivity + noise.rounding_l2, sd) + 1e-14
    assert noise.rounding_l2 == pytest.approx(1.0)


def test_without_the_lattice_variance_the_law_would_be_less_private() -> None:
    narrow = GaussianNoise(sqrt(4.0**2 - 4), grid=1.0)  # draws variance 16 exactly
    assert narrow.white.variance == pytest.approx(16)
    worse = [
        lattice_delta(narrow.white.table.masses(), shift, epsilon) > gaussian_delta(epsilon, shift, 4.0) * (1 + 1e-6)
        for shift in (1, 2, 4)
        for epsilon in np.linspace(0.05, 1.5, 12)
    ]
    assert any(worse)


@given(st.integers(0, 10**6), st.integers(1, 6), st.floats(0, 6))
@settings(derandomize=True, deadline=None, max_examples=40)
def test_coloured_covariance_covers_what_was_asked_exactly(seed: int, size: int, log_condition: float) -> None:
    covariance = random_covariance(seed, size, 10.0**log_condition)
    noise = GaussianNoise(covariance)
    grid = Fraction(noise.grid)
    margin = [
        [m - 4 * (i == j) - Fraction(covariance[i, j]) / grid**2 for j, m in enumerate(row)]
        for i, row in enumerate(drawn_covariance(noise))
    ]
    assert exactly_positive_definite(margin)
    excess = np.linalg.eigvals(np.linalg.solve(covariance, noise.covariance - covariance)).real
    assert np.max(excess) < 1e-5 * 10 ** (log_condition / 2) * sqrt(size) + 1e-5
    assert noise.total_variation < 1e-31
    assert (
        noise.grid * sqrt(size) <= 2.0**-20 * sqrt(np.linalg.eigvalsh(covariance)[0]) < 2.01 * noise.grid * sqrt(size)
    )


def test_coloured_convolution_error_is_within_its_bound_by_summation() -> None:
    multipliers = np.array([[2, 1], [0, 1]])
    inner, outer = 3.0, 4.0
    covariance = inner * multipliers @ multipliers.T + outer * np.eye(2)
    conditional = np.linalg.eigvalsh(np.linalg.inv(np.eye(2) / inner + multipliers.T @ multipliers / outer))[0]
    reach = 60
    axis = np.arange(-reach, reach + 1)
    white = np.exp(-np.add.outer(axis**2, axis**2) / (2 * outer))
    drawn = np.zeros_like(white)
    for z in itertools.product(range(-14, 15), repeat=2):
        move = multipliers @ z
        drawn += exp(-(z[0] ** 2 + z[1] ** 2) / (2 * inner)) * np.roll(white, move, axis=(0, 1))
    points = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1)
    ideal = np.exp(-0.5 * np.einsum("xyi,ij,xyj->xy", points, np.linalg.inv(covariance), points))
    distance = np.abs(drawn / drawn.sum() - ideal / ideal.sum()).sum() / 2
    bound = smoothing_total_variation(conditional, 2)
    assert 1e-9 < distance <= bound < 1e-3


@pytest.mark.parametrize("size", [1, 2, 5, 12])
def test_coloured_draws_have_the_law_declared(size: int, full: bool) -> None:
    copies = 10**5 if full else 10**4
    covariance = random_covariance(size, size, 100.0)
    noise = GaussianNoise(covariance, shape=(copies, size))
    centre = np.linspace(-3, 3, size)
    draws = noise.add(np.tile(centre, (copies, 1)), SeededGenerator(21)) - centre
    white = np.linalg.solve(np.linalg.cholesky(covariance), draws.T)
    for coordinate in white:
        assert stats.kstest(coordinate, "norm").pvalue > 1e-4
        assert stats.cramervonmises(coordinate, "norm").pvalue > 1e-4
    assert stats.kstest(np.sum(white**2, axis=0), "chi2", args=(size,)).pvalue > 1e-4
    cross = (white @ white.T / copies - np.eye(size)) * sqrt(copies)
    assert np.max(np.abs(cross)) < 6.5


def test_white_draws_have_the_law_declared(full: bool) -> None:
    noise = GaussianNoise(3.0, shape=(10**6 if full else 10**5,))
    draws = noise.add(np.full(noise.shape, 0.1), SeededGenerator(22))
    assert stats.kstest((draws - 0.1) / 3.0, "norm").pvalue > 1e-3
    assert noise.covariance == pytest.approx(9.0, rel=1e-5)
    assert noise.covariance - 4 * noise.grid**2 >= 9.0 * (1 - 1e-15)


def test_floating_point_product_is_the_integer_product() -> None:
    noise = GaussianNoise(random_covariance(3, 7, 1e6), shape=(50, 7))
    colouring = noise._colouring
    assert colouring is not None
    generator = SeededGenerator(23)
    outer = colouring.outer.draw((50, 7), generator)
    factors = colouring.inner.draw((50, 7), generator)
    integers = np.array([[int(a) for a in row] for row in colouring.multipliers], dtype=object)
    expected = outer.astype(object) + factors.astype(object) @ integers.T
    assert np.array_equal(noise.draw(SeededGenerator(23)), expected)


def test_a_matrix_may_colour_the_whole_array_or_its_last_axis() -> None:
    covariance = random_covariance(4, 6, 10)
    whole = GaussianNoise(covariance, shape=(2, 3))
    flat = GaussianNoise(covariance)
    assert np.array_equal(whole.draw(SeededGenerator(1)).ravel(), flat.draw(SeededGenerator(1)))
    rows = GaussianNoise(covariance, shape=(4, 6))
    assert rows.differing == 24
    assert rows.total_variation == pytest.approx(4 * flat.total_variation, rel=1e-6, abs=0.0)


@pytest.mark.parametrize("coloured", [False, True])
def test_low_bits_do_not_depend_on_the_value(coloured: bool) -> None:
    """The precision attack: outputs for 0, 1 and 0.1 lie on one lattice, and their low bits have one law."""
    law = random_covariance(5, 3, 30) if coloured else 2.0
    noise = GaussianNoise(law, shape=(4000, 3))
    for value in (0.0, 1.0, 0.1, -1e6):
        steps = noise.add(np.full((4000, 3), value), SeededGenerator(31)) / noise.grid
        assert np.array_equal(steps, np.rint(steps))
        low = steps.astype(np.int64).ravel() % 64
        assert stats.chisquare(np.bincount(low, minlength=64)).pvalue > 1e-4
    shifted = noise.add(np.ones((4000, 3)), SeededGenerator(32)) - noise.add(np.zeros((4000, 3)), SeededGenerator(32))
    assert np.all(shifted == 1.0)  # the noise itself is the same integers whatever the value


def test_a_family_betrays_no_label_by_grid_tables_or_bytes(counting: Callable[[int], SeededGenerator]) -> None:
    covariances = [np.eye(3), random_covariance(6, 3, 1e3), np.diag([50.0, 60.0, 1e4])]
    family = GaussianNoise.family(covariances)
    requests = []
    for member, covariance in zip(family, covariances):
        generator = counting(1)
        member.add(np.zeros(3), generator)
        requests.append(generator.requests)  # type: ignore[attr-defined]
        assert np.linalg.eigvalsh(member.continuous_covariance - covariance)[0] > 0
        assert (member.grid, member.total_variation) == (family[0].grid, family[0].total_variation)
        assert member.white is family[0].white
        assert member._colouring.inner is family[0]._colouring.inner  # type: ignore[union-attr]
    assert requests[0] == requests[1] == requests[2]


def test_certainly_positive_definite_never_says_so_in_vain() -> None:
    rng = np.random.default_rng(8)
    for size in (1, 3, 20):
        basis, _ = np.linalg.qr(rng.standard_normal((size, size)))
        for smallest, expected in ((1e-3, True), (1e-17, False), (-1e-12, False), (-1e-3, False)):
            matrix = (basis * np.array([smallest, *[1.0] * (size - 1)])) @ basis.T * 1e6
            matrix = (matrix + matrix.T) / 2
            assert certainly_positive_definite(matrix, 1e-12 * np.abs(matrix)) is (
                expected or (size == 1 and smallest > 0)
            )
    assert not certainly_positive_definite(np.eye(2), np.full((2, 2), 0.6))


@pytest.mark.parametrize(
    ("law", "options", "error", "words"),
    [
        (0.0, {}, ParameterError, "positive standard deviation"),
        (float("nan"), {}, NotFiniteError, "finite"),
        (1.0, {"grid": 0.3}, ParameterError, "power of two"),
        (1.0, {"grid": 2.0**-60}, ParameterError, "variance must lie"),
        (1.0, {"shape": (0,)}, ShapeError, "nonempty"),
        (1.0, {"shape": 3, "differing": 4}, ParameterError, "differing"),
        ([1.0, 2.0], {}, ShapeError, "square"),
        ([[1.0, 0.5], [0.4, 1.0]], {}, NotSymmetricError, "symmetric"),
        ([[1.0, 2.0], [2.0, 1.0]], {}, NotPositiveDefiniteError, "positive definite"),
        (np.eye(2), {"shape": (3,)}, ShapeError, "fit a covariance"),
        (np.eye(2), {"grid": 1.0}, ParameterError, "grid"),
        (np.eye(2), {"grid": 0.125}, NumericalError, "finer grid"),
        (np.eye(12) + 100.0, {"grid": 2.0**-46}, ParameterError, "coarser grid"),
        (np.diag([1.0, 1e20]), {}, NumericalError, "condition number"),
    ],
)
def test_bad_designs_are_refused(law, options, error, words) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=words):
        GaussianNoise(law, **options)


@pytest.mark.parametrize(
    ("value", "error"),
    [
        ([1.0], ShapeError),
        ([1.0, float("nan")], NotFiniteError),
        ([1.0, float("inf")], NotFiniteError),
        ([1.0, 2.0**40], ParameterError),
        (np.array([1, 2**60]), ParameterError),
        (np.array([1.0, 2.0], dtype=np.longdouble), ParameterError),
        (np.array([1j, 2.0]), ParameterError),
    ],
)
def test_bad_values_are_refused_before_anything_is_drawn(value, error, counting) -> None:  # type: ignore[no-untyped-def]
    generator = counting(1)
    with pytest.raises(error):
        GaussianNoise(1.0, shape=2).add(value, generator)
    assert generator.requests == []


@pytest.mark.parametrize("sd", [4.0, 20.0])
def test_rounding_a_random_centre_costs_no_more_than_stated(sd: float) -> None:
    noise = GaussianNoise(sd, grid=1.0)
    points = np.arange(-400, 401)
    rounded = np.exp(-(points**2) / (2 * sd**2 + 8))
    for offset in (0.1, 0.3, 0.5):
        centred = np.exp(-((points - offset) ** 2) / (2 * sd**2 + 8))
        distance = np.abs(rounded / rounded.sum() - centred / centred.sum()).sum() / 2
        assert distance <= noise.centre_total_variation
    assert distance > noise.centre_total_variation / 1.2


def test_differing_coordinates_alone_pay_for_rounding() -> None:
    all_differ = GaussianNoise(1.0, shape=100)
    one_differs = GaussianNoise(1.0, shape=100, differing=1)
    assert one_differs.rounding_l2 >= one_differs.grid == 2.0**-20
    assert all_differ.rounding_l2 >= 10 * all_differ.grid
    assert all_differ.rounding_l2 <= 2.0**-20 * (1 + 1e-12)


def test_every_draw_adds_its_total_variation() -> None:
    """Of n white draws n times that of one, and n times the lattice's; of n coloured rows n times that of one row."""
    one, many = GaussianNoise(3.0, shape=(1,), grid=2.0**-20), GaussianNoise(3.0, shape=(7, 11), grid=2.0**-20)
    assert one.total_variation >= one.white.total_variation + smoothing_error(4, 1) > 0.0
    assert many.total_variation / one.total_variation == pytest.approx(77.0, rel=1e-9)
    covariance = random_covariance(4, 6, 10)
    row, rows = GaussianNoise(covariance, grid=2.0**-30), GaussianNoise(covariance, shape=(9, 6), grid=2.0**-30)
    assert row.total_variation > 6 * row.white.total_variation
    assert rows.total_variation / row.total_variation == pytest.approx(9.0, rel=1e-9)
