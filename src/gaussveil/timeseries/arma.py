"""Fast ARMA fits for many households: Hannan-Rissanen start values, then exact maximum likelihood.

The likelihood is a sum of squares (arma_process.py), minimised for all households in lockstep: first the conditional
innovations, which are cheap, then the exact ones. The Jacobian is that of the conditional innovations, which three
recursive filters give for all parameters at once. Every accepted model is stationary and invertible.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_toeplitz
from scipy.signal import lfilter

from gaussveil import checks
from gaussveil.errors import NotFiniteError, ShapeError
from gaussveil.timeseries.arma_process import scaled_innovations, spectral_radius
from gaussveil.typing import Floats

ROOT_LIMIT = 0.9995
PASSES = 80
TOLERANCE = 1e-6  # relative gain in variance below which a household counts as done
_START_LIMIT = 0.98
_BLOCK = 64  # households held in memory at once


@dataclass(frozen=True, eq=False)
class ArmaModels:
    """One ARMA model per household: x - mean = sum ar (x - mean) + e + sum ma e, Var e = variance."""

    ar: Floats
    ma: Floats
    variance: Floats
    mean: Floats

    def __len__(self) -> int:
        return int(self.variance.size)


def fit_arma(series: ArrayLike, order: tuple[int, int] = (6, 5)) -> ArmaModels:
    """Fit an ARMA(p, q) to every row of `series` by exact maximum likelihood.

    The mean is the sample mean. A row without variation gets white noise of the smallest positive variance.
    """
    rows = np.atleast_2d(np.asarray(series, dtype=np.float64))
    p, q = order
    checks.whole("order of the autoregression", p, "[0, inf)")
    checks.whole("order of the moving average", q, "[0, inf)")
    if rows.ndim != 2 or rows.shape[1] < 10 * (p + q + 1):
        raise ShapeError(
            f"series needs at least {10 * (p + q + 1)} times per row for order {order}. Got {rows.shape}."
        )
    if not np.isfinite(rows).all():
        raise NotFiniteError(
            "series must be finite; fill gaps first (read_readings(gaps=...))"
        )
    mean = rows.mean(axis=1)
    centred = rows - mean[:, None]
    scale = np.sqrt(np.mean(centred * centred, axis=1))
    varying = np.flatnonzero(scale > 1e-12 * (1 + np.abs(mean)))
    theta = np.zeros((len(rows), p + q))
    variance = np.full(len(rows), np.finfo(np.float64).tiny)
    for first in range(0, varying.size, _BLOCK):
        homes = varying[first : first + _BLOCK]
        theta[homes], energy = _fit_block(centred[homes] / scale[homes, None], p, q)
        variance[homes] = energy * scale[homes] ** 2
    return ArmaModels(theta[:, :p], theta[:, p:], variance, mean)


def conditional_innovations(series: Floats, ar: Floats, ma: Floats) -> Floats:
    """Innovations of every row given that all was zero before it begins."""
    residuals = np.empty_like(series)
    for home, row in enumerate(series):
        residuals[home] = lfilter(
            np.concatenate([[1.0], -ar[home]]), np.concatenate([[1.0], ma[home]]), row
        )
    return residuals


def _lagged(x: Floats, lags: int, out: Floats) -> None:
    """Write the columns x[t-1] .. x[t-lags], zero before the start."""
    for lag in range(1, lags + 1):
        out[:lag, lag - 1] = 0.0
        out[lag:, lag - 1] = x[:-lag]


def hannan_rissanen(x: Floats, p: int, q: int) -> Floats:
    """Start values: residuals of a long autoregression, then a regression on lags of x and of those residuals."""
    if p + q == 0:
        return np.zeros(0)
    long = min(max(2 * (p + q), 20), x.size // 4)
    lags = np.fft.irfft(np.abs(np.fft.rfft(x, 2 * x.size)) ** 2)[: long + 1]
    lags[0] *= 1 + 1e-9  # a purely periodic row would make the equations singular
    residual = lfilter(
        np.concatenate([[1.0], -solve_toeplitz(lags[:-1], lags[1:])]), [1.0], x
    )
    design = np.empty((x.size, p + q), order="F")
    _lagged(x, p, design[:, :p])
    _lagged(residual, q, design[:, p:])
    used = design[long + q :]
    gram = used.T @ used
    ridge = 1e-9 * np.trace(gram) * np.eye(p + q)
    return np.asarray(np.linalg.solve(gram + ridge, used.T @ x[long + q :]))


def _pull_inside(theta: Floats, p: int) -> Floats:
    """Shrink the roots of both polynomials radially into the disk of the start values."""
    inside = theta.copy()
    for part, sign in ((slice(0, p), 1.0), (slice(p, None), -1.0)):
        radius = np.maximum(spectral_radius(sign * inside[:, part]), _START_LIMIT)
        inside[:, part] *= (_START_LIMIT / radius)[:, None] ** np.arange(
            1, inside[:, part].shape[1] + 1
        )
    return inside


def _normal_equations(
    series: Floats, theta: Floats, residual: Floats, p: int
) -> tuple[Floats, Floats]:
    """J'J and J'r per household; J's columns are -(x/ma)[t-i] and -(e/ma)[t-j], derivatives of the innovations."""
    count = theta.shape[1]
    q = theta.shape[1] - p
    gram = np.empty((len(theta), count, count))
    slope = np.empty((len(theta), count))
    jacobian = np.empty((series.shape[1], count), order="F")
    for home, row in enumerate(series):
        recursive = np.concatenate([[1.0], theta[home, p:]])
        seen = lfilter([1.0], recursive, row)
        again = lfilter(np.concatenate([[1.0], -theta[home, :p]]), recursive, seen)
        _lagged(seen, p, jacobian[:, :p])
        _lagged(again, q, jacobian[:, p:])
        gram[home], slope[home] = jacobian.T @ jacobian, -jacobian.T @ residual[home]
    return gram, slope


def _fit_block(series: Floats, p: int, q: int) -> tuple[Floats, Floats]:
    def conditional(rows: Floats, theta: Floats) -> Floats:
        return conditional_innovations(rows, theta[:, :p], theta[:, p:])

    def exact(rows: Floats, theta: Floats) -> Floats:
        return scaled_innovations(rows, theta[:, :p], theta[:, p:])[0]

    # Two starts: the surface has several valleys, and a plain autoregression is a point of comparison that never fails.
    starts = [np.array([hannan_rissanen(row, p, q) for row in series])]
    starts.append(
        np.array(
            [
                np.concatenate([hannan_rissanen(row, p, 0), np.zeros(q)])
                for row in series
            ]
        )
    )
    runs = [
        _descend(conditional, series, _pull_inside(start, p), p, 10 * TOLERANCE)
        for start in starts
    ]
    better = runs[1][1] < runs[0][1]
    theta = np.where(better[:, None], runs[1][0], runs[0][0])
    return _descend(exact, series, theta, p, TOLERANCE)


def _descend(
    innovations: Callable[[Floats, Floats], Floats],
    series: Floats,
    theta: Floats,
    p: int,
    tolerance: float,
) -> tuple[Floats, Floats]:
    """Levenberg-Marquardt in lockstep, one trial per household and pass; leaving the admissible region is a failure."""
    theta = theta.copy()
    residual = innovations(series, theta)
    energy = np.mean(residual * residual, axis=1)
    if theta.shape[1] == 0:
        return theta, energy
    gram, slope = _normal_equations(series, theta, residual, p)
    damping = np.full(len(theta), 1e-3)
    quiet = np.zeros(len(theta), dtype=int)
    active = np.arange(len(theta))
    for _ in range(PASSES):
        diagonal = np.einsum("hii->hi", gram[active]) + 1e-12
        system = gram[active] + (damping[active, None] * diagonal)[:, :, None] * np.eye(
            theta.shape[1]
        )
        trial = (
            theta[active] - np.linalg.solve(system, slope[active][:, :, None])[:, :, 0]
        )
        inside = (
            np.maximum(spectral_radius(trial[:, :p]), spectral_radius(-trial[:, p:]))
            <= ROOT_LIMIT
        )
        homes = active[inside]
        trial = trial[inside]
        damping[active[~inside]] *= 4
        errors = innovations(series[homes], trial)
        lower = np.mean(errors * errors, axis=1)
        better = lower < energy[homes]
        damping[homes] *= np.where(better, 0.2, 4.0)
        won = homes[better]
        quiet[won] = np.where(
            energy[won] - lower[better] < tolerance * energy[won], quiet[won] + 1, 0
        )
        theta[won], residual[won], energy[won] = (
            trial[better],
            errors[better],
            lower[better],
        )
        gram[won], slope[won] = _normal_equations(
            series[won], theta[won], residual[won], p
        )
        active = active[(quiet[active] < 2) & (damping[active] < 1e5)]
        if not active.size:
            break
    return theta, energy
