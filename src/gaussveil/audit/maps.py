"""Gaussian-output mechanisms whose leave-one-out neighbours need no matrices: each loss is one term or two.

Removing one record moves a Gram matrix by rank one, so that in the right basis only one coordinate differs, and its
variance and mean follow from the record's leverage (derived: docs/audit.md). That is not only faster: two covariances
that differ by one record in a million, each rounded to doubles, would have lost six digits of their difference.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from gaussveil import checks
from gaussveil.audit.neighbours import Batch
from gaussveil.errors import NotPositiveDefiniteError, ParameterError, ShapeError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.arguments import float_array
from gaussveil.typing import Array


@dataclass(frozen=True, kw_only=True)
class GaussianSum:
    """Sum of the rows plus N(0, covariance): a row moves the mean by itself."""

    covariance: Any

    def __call__(self, data: Any) -> tuple[Array, Array]:
        """Mean and covariance of the output."""
        rows = _rows(data)
        return array_namespace(rows).sum(rows, axis=0), self.covariance

    def leave_one_out(self, data: Any) -> Batch:
        """Mean shifts of squared length x' covariance^-1 x."""
        rows = _rows(data)
        xp = array_namespace(rows)
        factor = _cholesky("covariance", _like(rows, self.covariance))

        def batch(start: int, stop: int) -> PrivacyLoss:
            energy = _squared_norms(rows[start:stop, ...], factor)[:, None]
            return PrivacyLoss.from_terms(xp.zeros_like(energy), 1.0, energy)

        return batch


@dataclass(frozen=True, kw_only=True)
class LinearPosterior:
    """One draw from the posterior of Bayesian linear regression; the last column of the data is the target.

    Precision P = regularization I + X'X / noise_variance, mean P^-1 X'y / noise_variance.
    """

    regularization: float
    noise_variance: float

    def __post_init__(self) -> None:
        checks.positive("regularization", self.regularization)
        checks.positive("noise_variance", self.noise_variance)

    def __call__(self, data: Any) -> tuple[Array, Array]:
        """Mean and covariance of the posterior."""
        rows = _rows(data)
        xp = array_namespace(rows)
        features = rows[:, :-1]
        target = rows[:, -1]
        covariance = xp.linalg.inv(self._precision(features))
        return covariance @ (
            xp.matrix_transpose(features) @ target
        ) / self.noise_variance, covariance

    def _precision(self, features: Array) -> Array:
        xp = array_namespace(features)
        eye = xp.eye(features.shape[-1], dtype=features.dtype, device=features.device)
        return (
            self.regularization * eye
            + xp.matrix_transpose(features) @ features / self.noise_variance
        )

    def leave_one_out(self, data: Any) -> Batch:
        """With q = x'Cx and s the noise variance: variance gap q/s, energy (y - x'm)^2 q / (s (s - q))."""
        rows = _rows(data)
        mean, _ = self(rows)
        factor = _cholesky("posterior precision", self._precision(rows[:, :-1]))

        def batch(start: int, stop: int) -> PrivacyLoss:
            features = rows[start:stop, :-1]
            target = rows[start:stop, -1]
            gap = _squared_norms(features, factor) / self.noise_variance
            energy = (
                (target - features @ mean) ** 2
                * gap
                / (self.noise_variance * (1 - gap))
            )
            return PrivacyLoss.from_terms(gap[:, None], 1.0, energy[:, None])

        return batch


@dataclass(frozen=True, kw_only=True)
class GaussianSketch:
    """Random projection of the rows onto `n_components` Gaussian columns after a ridge (NDIS section 5).

    Its columns are N(0, D'D + ridge I). A row of leverage p = x'(D'D + ridge I)^-1 x makes the variance of one
    coordinate 1/(1-p) times larger, in every column (NDIS Lemma 4).
    """

    n_components: int
    ridge: float = 0.0

    def __post_init__(self) -> None:
        checks.whole("n_components", self.n_components)
        checks.real("ridge", self.ridge, "[0, inf)")

    def leverages(self, data: Any) -> Array:
        """Leverage of every row in the ridged data."""
        rows = _rows(data)
        return _squared_norms(rows, _cholesky("ridged Gram matrix", self._gram(rows)))

    def _gram(self, rows: Array) -> Array:
        xp = array_namespace(rows)
        eye = xp.eye(rows.shape[-1], dtype=rows.dtype, device=rows.device)
        return xp.matrix_transpose(rows) @ rows + self.ridge * eye

    def leave_one_out(self, data: Any) -> Batch:
        """One variance gap -p/(1-p) in each of the columns."""
        rows = _rows(data)
        factor = _cholesky("ridged Gram matrix", self._gram(rows))

        def batch(start: int, stop: int) -> PrivacyLoss:
            leverage = _squared_norms(rows[start:stop, ...], factor)
            _require_below_one(leverage)
            return PrivacyLoss.from_terms(
                (-leverage / (1 - leverage))[:, None], float(self.n_components), 0.0
            )

        return batch


@dataclass(frozen=True, kw_only=True)
class FittedGaussian:
    """`draws` synthetic records from the Gaussian fitted to the rows, N(sample mean, sample covariance)."""

    draws: int = 1

    def __post_init__(self) -> None:
        checks.whole("draws", self.draws)

    def leave_one_out(self, data: Any) -> Batch:
        """Two terms. With u = x - m, a = n/(n-1) and h = u'S^-1u/(n-1), the covariance without x is a (S - uu'/(n-1)):
        variances 1/(a(1-h)) along u and 1/a elsewhere, and the mean moves by u/(n-1).
        """
        rows = _rows(data)
        xp = array_namespace(rows)
        count, columns = rows.shape
        if count < 2:
            raise ShapeError(f"a fitted Gaussian needs at least two rows. Got {count}.")
        centred = rows - xp.mean(rows, axis=0)
        factor = _cholesky(
            "sample covariance", xp.matrix_transpose(centred) @ centred / count
        )

        def batch(start: int, stop: int) -> PrivacyLoss:
            share = _squared_norms(centred[start:stop, ...], factor) / (count - 1)
            _require_below_one(share)
            growth = count / (count - 1) * (1 - share)
            # 1 - 1/growth without cancellation: growth - 1 = (1 - n share)/(n-1).
            along = (1 - count * share) / (count - 1) / growth
            gap = xp.stack([along, xp.full_like(share, 1 / count)], axis=-1)
            energy = xp.stack(
                [share / (count - 1) / growth, xp.zeros_like(share)], axis=-1
            )
            multiplicity = xp.asarray(
                [1.0, columns - 1.0], dtype=rows.dtype, device=rows.device
            )
            return PrivacyLoss.from_terms(
                gap, multiplicity * self.draws, energy * self.draws
            )

        return batch


MAPS = {
    "fitted-gaussian": FittedGaussian,
    "sum": GaussianSum,
    "linear-posterior": LinearPosterior,
    "sketch": GaussianSketch,
}


def _rows(data: Any) -> Array:
    if hasattr(data, "device") and not isinstance(data, np.ndarray):
        rows = data
    else:
        rows = float_array("data", data)
    if rows.ndim != 2 or min(rows.shape) < 1:
        raise ShapeError(
            f"'data' must be a table with one record per row. Got shape {tuple(rows.shape)}."
        )
    return rows


def _like(rows: Array, value: Any) -> Array:
    xp = array_namespace(rows)
    matrix = xp.asarray(value, dtype=rows.dtype, device=rows.device)
    size = rows.shape[-1]
    if matrix.ndim == 0:
        matrix = matrix * xp.eye(size, dtype=rows.dtype, device=rows.device)
    if tuple(matrix.shape) != (size, size):
        raise ShapeError(
            f"'covariance' must be a number or {size} x {size}. Got shape {tuple(matrix.shape)}."
        )
    return matrix


def _cholesky(name: str, matrix: Array) -> Array:
    try:
        return array_namespace(matrix).linalg.cholesky(matrix)
    except (
        np.linalg.LinAlgError,
        RuntimeError,
    ):  # PyTorch's own LinAlgError is a RuntimeError
        raise NotPositiveDefiniteError(
            f"the {name} must be positive definite: an output without noise in some direction hides nothing there"
        ) from None


def _squared_norms(rows: Array, factor: Array) -> Array:
    """x' (factor factor')^-1 x for every row x."""
    xp = array_namespace(rows)
    whitened = xp.linalg.solve(factor, xp.matrix_transpose(rows))
    return xp.sum(whitened * whitened, axis=0)


def _require_below_one(leverage: Array) -> None:
    if not bool(array_namespace(leverage).all(leverage < 1)):
        raise ParameterError(
            "a row alone spans a direction of the data (leverage 1, or not finite): the output gives it away for "
            "certain; use a ridge > 0 or fewer columns"
        )
