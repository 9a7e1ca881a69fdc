from __future__ import annotations

from fractions import Fraction
from math import inf, nextafter

import numpy as np
import pytest
from flint import arb, ctx
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gaussveil.calibration import (
    covariance_for_ball,
    covariance_for_shifts,
    covering_ellipsoid,
    design_class_noise,
    mean_shift_for,
    smallest_deviation,
    white_noise_scale,
)
from gaussveil.errors import (
    GaussveilError,
    InputError,
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)
from gaussveil.noise import GaussianNoise
from gaussveil.spectrum import GaussianPair

Matrix = NDArray[np.float64]


def delta_ball(shift: float | arb, epsilon: float) -> arb:
    """Balle and Wang (2018), Theorem 8, in ball arithmetic: independent of the contour integral."""
    t, e = arb(shift), arb(epsilon)

    def upper_tail(x: arb) -> arb:
        return (x / arb(2).sqrt()).erfc() / 2

    return upper_tail(e / t - t / 2) - e.exp() * upper_tail(e / t + t / 2)


@pytest.mark.parametrize(
    ("epsilon", "delta"),
    [
        (1.0, 1e-6),
        (0.0, 0.1),
        (0.1, 1e-12),
        (10.0, 1e-12),
        (100.0, 1e-5),
        (1.0, 0.9),
        (0.01, 1e-3),
        (500.0, 1e-100),
        (0.0, 1e-100),
    ],
)
def test_mean_shift_is_the_largest_private_double(epsilon: float, delta: float) -> None:
    shift = mean_shift_for(epsilon, delta)
    with ctx.workprec(400):
        assert delta_ball(shift, epsilon) <= arb(delta)
        # A few units further and it is private no more: the enclosure's width and the rounded energy cost that much.
        assert delta_ball(shift * (1 + 1e-14), epsilon) > arb(delta)


@given(st.floats(0.0, 20.0), st.floats(-30.0, -0.1))
@settings(derandomize=True, deadline=None, max_examples=15)
def test_mean_shift_is_private_also_as_certificates_store_it(epsilon: float, log10_delta: float) -> None:
    delta = 10.0**log10_delta
    shift = mean_shift_for(epsilon, delta)
    with ctx.workprec(400):
        assert delta_ball(shift, epsilon) <= arb(delta)
        assert delta_ball(arb(shift * shift).sqrt(), epsilon) <= arb(delta)


def test_mean_shift_grows_with_the_promise() -> None:
    shifts = [mean_shift_for(epsilon, 1e-6) for epsilon in (0.1, 0.5, 1.0, 2.0)]
    assert shifts == sorted(shifts)
    assert mean_shift_for(1.0, 1e-7) < mean_shift_for(1.0, 1e-6)


@pytest.mark.parametrize("sensitivity", [1.0, 1 / 3, 7e-20, 3.3e15])
def test_white_scale_is_the_smallest_double_that_reaches(sensitivity: float) -> None:
    scale, shift = white_noise_scale(sensitivity, 1.0, 1e-6), Fraction(mean_shift_for(1.0, 1e-6))
    assert Fraction(scale) * shift >= Fraction(sensitivity)
    assert Fraction(nextafter(scale, -inf)) * shift < Fraction(sensitivity)


def exactly_semidefinite(matrix: list[list[Fraction]]) -> bool:
    """Elimination in rationals; a positive definite matrix has positive pivots."""
    rows = [row[:] for row in matrix]
    for k, pivot_row in enumerate(rows):
        if pivot_row[k] <= 0:
            return False
        for row in rows[k + 1 :]:
            factor = row[k] / pivot_row[k]
            for j in range(k, len(rows)):
                row[j] -= factor * pivot_row[j]
    return True


def rationals(matrix: Matrix) -> list[list[Fraction]]:
    return [[Fraction(float(entry)) for entry in row] for row in matrix]


def random_shape(seed: int, size: int) -> Matrix:
    factor = np.random.default_rng(seed).normal(size=(size, size))
    return np.asarray(factor @ factor.T + 1e-4 * np.eye(size))


@pytest.mark.parametrize("size", [1, 3, 6])
def test_ball_is_covered_in_rationals_and_tightly(size: int) -> None:
    radius, shift = 2.0, 0.3
    covariance = covariance_for_ball(radius, shift, random_shape(size, size))
    least = (Fraction(radius) / Fraction(shift)) ** 2
    lowered = rationals(covariance)
    for i in range(size):
        lowered[i][i] -= least
    assert exactly_semidefinite(lowered)
    assert np.linalg.eigvalsh(covariance)[0] == pytest.approx(float(least), rel=1e-6)
    ratio = covariance / random_shape(size, size)
    assert np.ptp(ratio) <= 1e-12 * ratio.max()


@pytest.mark.parametrize("coloured", [False, True])
@pytest.mark.parametrize("size", [1, 2, 5])
def test_every_shift_and_its_rounding_is_covered_in_rationals(size: int, coloured: bool) -> None:
    rng = np.random.default_rng(size)
    shifts, shift = rng.normal(size=(12, size)), 0.25
    shape = random_shape(7, size) if coloured else None
    rounding = 1e-3 * smallest_deviation(shifts, shift, shape) * shift
    covariance = covariance_for_shifts(shifts, shift, shape=shape, rounding_l2=rounding)
    noise = rationals(covariance)
    for row in shifts:
        for direction in rng.normal(size=(3, size)):
            moved = row + rounding * (1 - 1e-12) * direction / np.linalg.norm(direction)
            w = [Fraction(float(entry)) for entry in moved]
            # w' N^-1 w <= t^2 if and only if t^2 N - ww' is semidefinite
            gap = [[Fraction(shift) ** 2 * noise[i][j] - w[i] * w[j] for j in range(size)] for i in range(size)]
            assert exactly_semidefinite(gap)
    distances = np.einsum("ij,jk,ik->i", shifts, np.linalg.inv(covariance), shifts)
    assert distances.max() == pytest.approx(shift**2, rel=3e-3)


def test_smallest_trace_beats_white_noise_for_shifts_of_one_direction() -> None:
    shifts = [[3.0, 0.0, 0.0], [0.0, 0.1, 0.0]]
    covariance = covariance_for_shifts(shifts, 0.5)
    white = (3.0 / 0.5) ** 2
    assert np.trace(covariance) < 0.4 * 3 * white
    assert np.sqrt(np.linalg.eigvalsh(covariance)[0]) >= 2.0**-12 * 3.0 / 0.5 * (1 - 1e-9)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: mean_shift_for(-1.0, 1e-6), ParameterError),
        (lambda: mean_shift_for(float("nan"), 1e-6), ParameterError),
        (lambda: mean_shift_for(1e9, 1e-6), ParameterError),
        (lambda: mean_shift_for(1.0, 0.0), ParameterError),
        (lambda: mean_shift_for(1.0, 1.0), ParameterError),
        (lambda: mean_shift_for("1", 1e-6), ParameterError),  # type: ignore[arg-type]
        (lambda: white_noise_scale(0.0, 1.0, 1e-6), ParameterError),
        (lambda: white_noise_scale(inf, 1.0, 1e-6), ParameterError),
        (lambda: covariance_for_ball(1.0, 0.5, [[1.0, 2.0]]), ShapeError),
        (lambda: covariance_for_ball(1.0, 0.5, [[1.0, 0.0], [0.5, 1.0]]), NotSymmetricError),
        (lambda: covariance_for_ball(1.0, 0.5, [[1.0, 1.0], [1.0, 1.0]]), NotPositiveDefiniteError),
        (lambda: covariance_for_ball(1.0, 0.5, [[np.nan]]), NotFiniteError),
        (lambda: covariance_for_shifts([1.0, 2.0], 0.5), ShapeError),
        (lambda: covariance_for_shifts([[1.0], [1.0, 2.0]], 0.5), ShapeError),  # type: ignore[list-item]
        (lambda: covariance_for_shifts([[0.0, 0.0]], 0.5), ParameterError),
        (lambda: covariance_for_shifts([[inf, 0.0]], 0.5), NotFiniteError),
        (lambda: covariance_for_shifts([[1.0, 0.0]], 0.5, shape=np.eye(3)), ShapeError),
        (lambda: covariance_for_shifts([[1.0, 0.0]], 0.5, rounding_l2=1.0), ParameterError),
    ],
)
def test_bad_arguments_are_refused(call: object, error: type[GaussveilError]) -> None:
    with pytest.raises(error, match=r"must"):
        call()  # type: ignore[operator]


@pytest.mark.parametrize("rounding", [-1e-3, inf, float("nan")])
def test_rounding_must_be_a_length(rounding: float) -> None:
    with pytest.raises(ParameterError, match="rounding_l2"):
        covariance_for_shifts([[1.0, 0.0]], 0.1, rounding_l2=rounding)


@pytest.mark.parametrize("shift", [-1.0, 0.0, inf, float("nan")])
def test_mean_shifts_must_be_positive(shift: float) -> None:
    with pytest.raises(ParameterError, match="mean_shift"):
        covariance_for_shifts([[1.0, 0.0]], shift)


@pytest.mark.parametrize(
    "matrix",
    [
        np.array([[1.0, 2.0j], [-2.0j, 1.0]]),
        np.ma.array(np.eye(2), mask=[[False, True], [True, False]]),
        np.array([["1", "0"], ["0", "1"]]),
        np.array([[1.0, 0.0], [0.0, 1.0]], dtype=object),
    ],
    ids=["complex", "masked", "text", "object"],
)
def test_only_real_numbers_make_a_shape_or_shifts(matrix: Matrix) -> None:
    calls = (
        lambda: covariance_for_ball(1.0, 0.1, matrix),
        lambda: covariance_for_shifts(matrix, 0.1),
        lambda: covariance_for_shifts(np.eye(2), 0.1, shape=matrix),
        lambda: covering_ellipsoid(matrix, floor=1e-3),
        lambda: covering_ellipsoid(np.eye(2), weight=matrix, floor=1e-3),
        lambda: design_class_noise(matrix, None, [[0, 1]], epsilon=1.0, accuracy=0.5),
        lambda: design_class_noise(np.eye(2), np.stack([matrix, matrix]), [[0, 1]], epsilon=1.0, accuracy=0.5),
        lambda: GaussianNoise(matrix, 2),
        lambda: GaussianPair([0.0, 0.0], matrix, [0.0, 0.0], np.eye(2)),
    )
    for call in calls:
        with pytest.raises(InputError):
            call()


def test_units_beyond_doubles_are_refused() -> None:
    with pytest.raises(ParameterError, match="unit"):
        white_noise_scale(1.7e308, 1.0, 1e-5)
    with pytest.raises(ParameterError, match="grid"):
        GaussianNoise(5e-324)
