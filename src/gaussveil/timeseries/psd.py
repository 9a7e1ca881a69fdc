"""Power spectral densities on N+1 frequencies, correlated noise along them, and a smoothing that keeps them positive.

Phi(w) = sum_m R[m] e^{-jwm} is the two-sided density per sample (SpDP, eq. (3)), sampled at w_n = pi n / N, n = 0..N
(eqs. (5)-(6)); times the sample period it is in kW^2 hours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import eigvalsh_tridiagonal, toeplitz

from gaussveil import checks
from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.typing import Floats


def welch_psd(series: ArrayLike, points: int = 288, *, period: float = 1.0) -> Floats:
    """Welch estimate on `points` + 1 frequencies from 0 to Nyquist; Hann windows of 2 `points`, half overlapped.

    `period` is the sample period (hours for kW^2 hours; 1 for a density per sample). The mean of the whole series is
    removed, not that of each segment, which would hide the slow variations that daily and monthly energy consist of.
    """
    values = np.asarray(series, dtype=np.float64)
    checks.whole("points", points)
    if values.ndim < 1 or values.shape[-1] < 2 * points:
        raise ShapeError(
            f"series needs at least 2 * points = {2 * points} values. Got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise NotFiniteError("series must be finite")
    checks.positive("period", period)
    centred = values - values.mean(axis=-1, keepdims=True)
    from scipy.signal import (
        welch,
    )  # seconds to import, which streams that run do not need

    _, density = welch(
        centred, fs=1 / period, nperseg=2 * points, return_onesided=False, detrend=False
    )
    return np.asarray(density[..., : points + 1])


def check_psd(psd: ArrayLike, *, strictly: bool = False) -> Floats:
    """A density on at least two frequencies, finite and not negative (`strictly`: positive)."""
    density = np.asarray(psd, dtype=np.float64)
    if density.ndim < 1 or density.shape[-1] < 2:
        raise ShapeError(
            f"a PSD needs at least two frequencies, 0 and Nyquist. Got shape {density.shape}."
        )
    if not np.isfinite(density).all():
        raise NotFiniteError("a PSD must be finite")
    if (density < 0).any() or (strictly and (density == 0).any()):
        if strictly:
            rule = "positive"
        else:
            rule = "not negative"
        raise ParameterError(
            f"a PSD must be {rule} at every frequency; it is not at {int((density <= 0).sum())} of them"
        )
    return density


def ar1_spectrum(correlation: float, size: int) -> Floats:
    """Eigenvalues, ascending, of the Toeplitz matrix correlation^|i-j|, whose inverse is tridiagonal (S2)."""
    checks.real("correlation", correlation, "(-1, 1)")
    checks.whole("size", size)
    if correlation == 0 or size == 1:
        return np.ones(size)
    diagonal = np.full(size, 1 + correlation**2)
    diagonal[0] = diagonal[-1] = 1.0
    inverse = eigvalsh_tridiagonal(diagonal, np.full(size - 1, -correlation)) / (
        1 - correlation**2
    )
    return np.asarray(1 / inverse[::-1])


def ar1_covariance(correlation: float, size: int, *, smallest: float = 1.0) -> Floats:
    """AR(1) Toeplitz covariance scaled so that its least eigenvalue is at least `smallest` (docs/corrections, S2).

    The scale is taken a few rounding errors larger than computed, never smaller: privacy rests on this eigenvalue.
    """
    checks.real("correlation", correlation, "(-1, 1)")
    checks.whole("size", size)
    checks.positive("smallest", smallest)
    lowest = max(
        float(ar1_spectrum(correlation, size)[0])
        * (1 - 64 * np.finfo(np.float64).eps * size),
        0.0,
    )
    lowest = max(
        lowest, (1 - abs(correlation)) / (1 + abs(correlation))
    )  # a bound for every size
    return np.asarray(toeplitz(correlation ** np.arange(size)) * (smallest / lowest))


def smooth_both_ways(psd: ArrayLike, gain: float, coefficient: float) -> Floats:
    """The positive filter of SpDP eq. (10), run over the frequencies forwards and then backwards.

    P(z) = gain * c z^-1 / (1 + (c - 1) z^-1) has the impulse response gain * c (1-c)^(k-1): positive if and only if 0
    < c <= 1 (docs/corrections, S5). A PSD is even and periodic in frequency, so both runs are circular on its even
    extension: no edge effects, the delay cancels, and the total gain is gain^2.
    """
    density = check_psd(psd)
    checks.positive("gain", gain)
    checks.real("coefficient", coefficient, "(0, 1]")  # or the filter is not positive
    even = np.concatenate([density, density[..., -2:0:-1]], axis=-1)
    pole = 1 - coefficient
    angle = 2 * np.pi * np.arange(even.shape[-1] // 2 + 1) / even.shape[-1]
    # |1 - pole e^-iw|^2 = c^2 + 4 pole sin^2(w/2), without the difference that a small c would lose itself in
    response = (
        gain / np.hypot(1.0, 2 * np.sqrt(pole) * np.sin(angle / 2) / coefficient)
    ) ** 2
    smoothed = np.fft.irfft(
        np.fft.rfft(even, axis=-1) * response, n=even.shape[-1], axis=-1
    )
    return np.asarray(np.maximum(smoothed[..., : density.shape[-1]], 0.0))
