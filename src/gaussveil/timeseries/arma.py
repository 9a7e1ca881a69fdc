"""Fast ARMA fits for many households: Hannan-Rissanen start values, then exact maximum likelihood by Gauss-Newton.

The likelihood is a sum of squares (likelihood.py); its Jacobian is taken from the conditional innovations, which three
recursive filters give for all parameters at once. Every accepted model is stationary and invertible.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries.arma_process import spectral_radius
from gaussveil.timeseries.likelihood import scaled_innovations

ROOT_LIMIT = 0.9995
_START_LIMIT = 0.98


@dataclass(frozen=True, eq=False)
class ArmaModels:
    """One ARMA model per household: x - mean = sum ar x + e + sum ma e, Var e = variance."""

    ar: NDArray[np.float64]
    ma: NDArray[np.float64]
    variance: NDArray[np.float64]
    mean: NDArray[np.float64]

    def __len__(self) -> int:
        return int(self.variance.size)

    def one_step_errors(self, series: NDArray[np.float64]) -> NDArray[np.float64]:
        """Innovations of new series of the same households, from a zero start."""
        if series.ndim != 2 or series.shape[0] != len(self):
            raise ShapeError(f"series must have one row per household ({len(self)}); got shape {series.shape}")
        return np.stack(
            [_innovations(row - mean, ar, ma) for row, mean, ar, ma in zip(series, self.mean, self.ar, self.ma)]
        )


def fit_arma(
    series: ArrayLike, order: tuple[int, int] = (6, 5), *, iterations: int = 60, tolerance: float = 1e-7
) -> ArmaModels:
    """Fit an ARMA(p, q) to every row of `series` by exact maximum likelihood.

    The mean is the sample mean. Rows of zero variance get white noise of the smallest positive variance.
    """
    rows = np.atleast_2d(np.asarray(series, dtype=np.float64))
    p, q = order
    if p < 0 or q < 0:
        raise ParameterError(f"order must be two numbers >= 0; got {order}")
    if rows.ndim != 2 or rows.shape[1] < 10 * (p + q + 1):
        raise ShapeError(f"series needs at least {10 * (p + q + 1)} times per row for order {order}; got {rows.shape}")
    if not np.isfinite(rows).all():
        raise NotFiniteError("series must be finite; fill gaps first (read_readings(gaps=...))")
    if iterations < 1:
        raise ParameterError(f"iterations must be at least 1; got {iterations}")
    mean = rows.mean(axis=1)
    ar, ma, variance = np.zeros((len(rows), p)), np.zeros((len(rows), q)), np.full(len(rows), np.finfo(float).tiny)
    for home, row in enumerate(rows - mean[:, None]):
        scale = float(np.sqrt(np.mean(row * row)))
        if scale > 1e-12 * (1 + abs(mean[home])):
            theta, energy = _fit_one(row / scale, p, q, iterations, tolerance)
            ar[home], ma[home], variance[home] = theta[:p], theta[p:], energy * scale**2
    return ArmaModels(ar, ma, variance, mean)


def _innovations(x: NDArray[np.float64], ar: NDArray[np.float64], ma: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(lfilter(np.r_[1.0, -ar], np.r_[1.0, ma], x))


def _lagged(x: NDArray[np.float64], lags: int) -> NDArray[np.float64]:
    """Columns x[t-1] .. x[t-lags], zero before the start."""
    columns = np.zeros((x.size, lags))
    for lag in range(1, lags + 1):
        columns[lag:, lag - 1] = x[:-lag]
    return columns


def hannan_rissanen(x: NDArray[np.float64], p: int, q: int) -> NDArray[np.float64]:
    """Start values: residuals of a long autoregression, then a regression on lags of x and of those residuals."""
    long = min(max(2 * (p + q), 20), x.size // 4)
    spectrum = np.abs(np.fft.rfft(x, 2 * x.size)) ** 2
    lags = np.fft.irfft(spectrum)[: long + 1]
    residual = lfilter(np.r_[1.0, -solve_toeplitz(lags[:-1], lags[1:])], [1.0], x)
    design = np.hstack([_lagged(x, p), _lagged(residual, q)])[long + q :]
    return np.asarray(np.linalg.lstsq(design, x[long + q :], rcond=None)[0])


def _pull_inside(theta: NDArray[np.float64], p: int, limit: float) -> NDArray[np.float64]:
    """Shrink both polynomials' roots radially to modulus `limit` or less."""
    found = theta.copy()
    for part, sign in ((slice(0, p), 1.0), (slice(p, None), -1.0)):
        radius = float(spectral_radius(sign * found[part]))
        if radius > limit:
            found[part] *= (limit / radius) ** np.arange(1, found[part].size + 1)
    return found


def _admissible(theta: NDArray[np.float64], p: int) -> bool:
    return bool(spectral_radius(theta[:p]) <= ROOT_LIMIT and spectral_radius(-theta[p:]) <= ROOT_LIMIT)


def _jacobian(x: NDArray[np.float64], theta: NDArray[np.float64], p: int) -> NDArray[np.float64]:
    """Derivatives of the conditional innovations: -(x/ma)[t-i] and -(e/ma)[t-j]."""
    recursive = np.r_[1.0, theta[p:]]
    seen = lfilter([1.0], recursive, x)
    again = lfilter([1.0], recursive, lfilter(np.r_[1.0, -theta[:p]], [1.0], seen))
    return -np.hstack([_lagged(seen, p), _lagged(again, theta.size - p)])


def _fit_one(
    x: NDArray[np.float64], p: int, q: int, iterations: int, tolerance: float
) -> tuple[NDArray[np.float64], float]:
    start = hannan_rissanen(x, p, q)
    plain = np.r_[hannan_rissanen(x, p, 0), np.zeros(q)]
    best = min(
        (_descend(x, _pull_inside(first, p, _START_LIMIT), p, iterations, tolerance) for first in (start, plain)),
        key=lambda found: found[1],
    )
    return best


def _descend(
    x: NDArray[np.float64], theta: NDArray[np.float64], p: int, iterations: int, tolerance: float
) -> tuple[NDArray[np.float64], float]:
    """Levenberg-Marquardt on the exact sum of squares; a step that leaves the admissible region counts as a failed one."""
    residual = scaled_innovations(x, theta[:p], theta[p:])
    energy = float(np.mean(residual * residual))
    damping, quiet = 1e-3, 0
    for _ in range(iterations):
        jacobian = _jacobian(x, theta, p)
        gram, slope = jacobian.T @ jacobian, jacobian.T @ residual
        improved = False
        while damping < 1e6:
            step = np.linalg.solve(gram + damping * np.diag(np.diag(gram) + 1e-12), slope)
            trial = theta - step
            if _admissible(trial, p):
                errors = scaled_innovations(x, trial[:p], trial[p:])
                lower = float(np.mean(errors * errors))
                if lower < energy:
                    quiet = quiet + 1 if energy - lower < tolerance * energy else 0
                    theta, residual, energy = trial, errors, lower
                    damping, improved = damping / 5, True
                    break
            damping *= 4
        if not improved or quiet >= 3:
            break
    return theta, energy
