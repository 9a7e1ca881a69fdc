"""How much Gaussian noise an (epsilon, delta) promise needs: the analytic Gaussian mechanism, on the private side.

One number carries the promise, the mean shift t: N(t, 1) against N(0, 1) has the delta asked for. Noise N(0, N) keeps
the promise for every difference v of neighbouring values with v' N^-1 v <= t^2. So there are three designs: white noise
for a ball of differences, a given shape scaled to the ball or to a finite set of differences, and the shape of smallest
trace for a finite set. Everything returned is proven for the very doubles returned: by ball arithmetic, by rationals,
or by Cholesky factorisations with a margin for rounding.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gaussveil import checks, errors
from gaussveil.calibration.ellipsoid import covering_ellipsoid, covers
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.turns import surrounded, turn
from gaussveil.typing import Floats

FLOOR_RATIO = (
    2.0**-12
)  # smallest to largest standard deviation of noise for shifts: costs d 2^-24 of the trace
LARGEST_SCALE = 2.0**1000
LOG_NOISE = (
    -14.0,
    700.0,
)  # from a delta of 1 at all epsilons that are asked for to one that no double tells


def mean_shift_for(epsilon: float, delta: float) -> float:
    """Largest double t such that N(t, 1) against N(0, 1) has delta(epsilon) <= `delta`, proven by an Arb enclosure.

    Inverts Balle and Wang (2018), Theorem 8. The proof covers t itself and the pair as certificates store it, by its
    energy t^2 rounded to a double.
    """
    return _mean_shift_for(checks.epsilon(epsilon), checks.delta(delta))


@lru_cache(maxsize=256)
def _mean_shift_for(epsilon: float, delta: float) -> float:
    def leaks(shift: float) -> bool:
        return not _is_private(shift, epsilon, delta)

    rough = approximate_mean_shift(epsilon, delta)
    near = surrounded(
        leaks, rough, factor=1 + 4 * ULP, squared=True, least=0.0, most=LARGEST_SCALE
    )
    return turn(leaks, *near).before


def approximate_mean_shift(epsilon: float, delta: float) -> float:
    """The same in floating point alone, to 1e-14 and not proven."""
    goal = math.log(delta)

    def look(log_noise: float) -> Trial:
        noise = math.exp(log_noise)
        pair = GaussianPair.mean_shift(1.0 / noise)
        excess = float(pair.log_delta(epsilon)) - goal
        if abs(excess) < 1.0:
            return Trial(excess)
        # the tail of delta is about e^(-z^2/2), z = epsilon noise - 1/(2 noise)
        edge = abs(epsilon * noise - 0.5 / noise)
        fall = edge * (epsilon * noise + 0.5 / noise) + 1.0
        return Trial(excess, log_noise + max(-2.0, min(excess / fall, 2.0)))

    log_noise = private_end(look, 0.0, *LOG_NOISE, rtol=1e-15, tolerance=1e-14)
    return math.exp(-log_noise)


def _is_private(shift: float, epsilon: float, delta: float) -> bool:
    exact = GaussianPair.mean_shift(shift)
    stored = PrivacyLoss.from_terms([0.0], [1.0], [shift * shift])
    return all(pair.enclose(epsilon).upper <= delta for pair in (exact, stored))


def white_noise_scale(l2_sensitivity: float, epsilon: float, delta: float) -> float:
    """Smallest double sigma with l2_sensitivity <= sigma t, t = `mean_shift_for(epsilon, delta)`, exactly."""
    radius = Fraction(checks.positive("l2_sensitivity", l2_sensitivity))
    shift = Fraction(mean_shift_for(epsilon, delta))
    if radius > shift * Fraction(LARGEST_SCALE):
        raise errors.ParameterError(
            f"l2_sensitivity must be small enough for doubles. Got {l2_sensitivity!r}: change the unit."
        )
    scale = float(radius / shift)
    if Fraction(scale) * shift >= radius:
        return scale
    return math.nextafter(scale, math.inf)


def covariance_for_ball(radius: float, mean_shift: float, shape: ArrayLike) -> Floats:
    """Smallest multiple N of `shape` with v' N^-1 v <= mean_shift^2 for every |v| <= radius: N >= (radius/shift)^2."""
    smallest = (
        checks.positive("radius", radius)
        / checks.positive("mean_shift", mean_shift)
        * (1 + 4 * ULP)
    )
    matrix = _checked_shape(shape)
    return _scaled(matrix, np.zeros((1, len(matrix))), smallest * smallest)


def smallest_deviation(
    shifts: ArrayLike, mean_shift: float, shape: ArrayLike | None = None
) -> float:
    """Smallest standard deviation, over all directions, of noise for `shifts`: what their grid is chosen from."""
    rows = _checked_shifts(shifts)
    checks.positive("mean_shift", mean_shift)
    if shape is None:
        return FLOOR_RATIO * _longest(rows) / mean_shift
    matrix = _checked_shape(shape, len(rows[0]))
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    return math.sqrt(_largest_distance(matrix, rows) * smallest) / mean_shift


def covariance_for_shifts(
    shifts: ArrayLike,
    mean_shift: float,
    *,
    shape: ArrayLike | None = None,
    rounding_l2: float = 0.0,
) -> Floats:
    """Noise N with w' N^-1 w <= mean_shift^2 for every w within `rounding_l2` of a row of `shifts`.

    The smallest multiple of `shape`; without one, the covariance of smallest trace whose standard deviations are at
    least 2^-12 of the longest shift's (`covering_ellipsoid`).

    In the norm of N^-1 a row v, divided by t' = t - r/s, has length at most 1 and the rest of w at most r/s, where N >=
    s^2 I and r is `rounding_l2` plus what the division loses: together t' + r/s = t.
    """
    checks.real("rounding_l2", rounding_l2, "[0, inf)")
    rows = _checked_shifts(shifts)
    floor = smallest_deviation(rows, mean_shift, shape)
    reach = rounding_l2 + 2 * ULP * _longest(rows)
    left = (mean_shift - reach / floor * (1 + 8 * ULP)) * (1 - 4 * ULP)
    if left <= 0:
        raise errors.ParameterError(
            f"rounding_l2 must be small against the noise, below {mean_shift * floor:.3g}. "
            f"Got {rounding_l2:.3g}: choose a finer grid."
        )
    if shape is None:
        return covering_ellipsoid(rows / left, floor=floor * floor).covariance
    return _scaled(_checked_shape(shape, len(rows[0])), rows / left, floor * floor)


def _scaled(shape: Floats, rows: Floats, floor: float) -> Floats:
    """Smallest multiple S of `shape` for which S >= floor I and S >= vv' for every row v are proven."""
    factor = max(
        floor / float(np.linalg.eigvalsh(shape)[0]), _largest_distance(shape, rows)
    )
    raised = 16 * len(shape) * (len(shape) + 8) * ULP
    while raised < 1e-3:
        candidate = shape * (factor * (1 + raised))
        if covers(candidate, rows, floor):
            return candidate
        raised *= 4
    raise errors.NumericalError(
        "the shape is too close to singular to prove a guarantee in double precision. "
        "Add a multiple of the identity to it, or bring the coordinates to one unit."
    )


def _largest_distance(shape: Floats, rows: Floats) -> float:
    """Largest v' shape^-1 v over the rows, in floating point."""
    image = scipy.linalg.solve_triangular(np.linalg.cholesky(shape), rows.T, lower=True)
    return float(np.max(np.einsum("ij,ij->j", image, image)))


def _longest(rows: Floats) -> float:
    return math.sqrt(float(np.max(np.einsum("ij,ij->i", rows, rows)))) * (
        1 + int(rows.shape[1]) * ULP
    )


def _checked_shape(shape: ArrayLike, size: int | None = None) -> Floats:
    matrix = _matrix("covariance_shape", shape)
    if (
        matrix.ndim != 2
        or matrix.shape[0] != matrix.shape[1]
        or len(matrix) == 0
        or (size and len(matrix) != size)
    ):
        if size is None:
            form = "square"
        else:
            form = f"of shape ({size}, {size}), like the shifts"
        raise errors.ShapeError(
            f"covariance_shape must be a matrix, {form}. Got shape {matrix.shape}."
        )
    if np.max(np.abs(matrix - matrix.T)) > 1e-12 * np.max(np.abs(matrix)):
        raise errors.NotSymmetricError(
            "covariance_shape must be symmetric. Pass (S + S.T) / 2."
        )
    symmetric = (matrix + matrix.T) / 2
    smallest = float(np.linalg.eigvalsh(symmetric)[0])
    if not smallest > len(matrix) * ULP * float(np.max(np.abs(symmetric))):
        raise errors.NotPositiveDefiniteError(
            f"covariance_shape must be positive definite. Its smallest eigenvalue is {smallest:.3g}: "
            "add a multiple of the identity."
        )
    return np.asarray(symmetric)


def _checked_shifts(shifts: ArrayLike) -> Floats:
    rows = _matrix("shifts", shifts)
    if rows.ndim != 2 or rows.size == 0:
        raise errors.ShapeError(
            f"shifts must be a matrix, one row per shift. Got shape {rows.shape}."
        )
    if not np.any(rows):
        raise errors.ParameterError(
            "shifts must hold a vector other than zero; otherwise there is nothing to hide."
        )
    return rows


def _matrix(name: str, value: ArrayLike) -> Floats:
    matrix: Floats = float_array(name, value)
    if not np.all(np.isfinite(matrix)):
        raise errors.NotFiniteError(f"{name} must be finite. Got NaN or infinity.")
    return matrix


def noise_scales(
    mean_shift: float, weights: Floats, squared_sensitivities: Floats
) -> Floats:
    """Standard deviations that minimise sum w_j s_j^2 subject to sum b_j / s_j^2 = mean_shift^2 (Lagrange).

    The squared mean shifts b_j / s_j^2 of releases add up; w_j says what a unit of variance of release j costs.
    """
    roots = np.sqrt(weights * squared_sensitivities)
    return np.asarray(
        np.sqrt(np.sqrt(squared_sensitivities / weights) * roots.sum()) / mean_shift
    )
