"""Filters from spectra: minimum-phase factors, the exact one-pole filter, and what an implemented filter really has.

White noise of unit variance through H has the spectrum |H|^2. A privacy guarantee of a stream rests on |F|^2 / |H|^2
of the filters as they run, never on the target they were fitted to.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import checks
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.timeseries.psd import check_psd
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False)
class Filter:
    """A causal filter b(z)/a(z), a[0] = 1, coefficients of z^-k."""

    b: Floats
    a: Floats

    def __post_init__(self) -> None:
        b = np.atleast_1d(np.asarray(self.b, float))
        a = np.atleast_1d(np.asarray(self.a, float))
        if (
            b.ndim != 1
            or a.ndim != 1
            or not (np.isfinite(b).all() and np.isfinite(a).all())
            or a[0] != 1
        ):
            raise ParameterError("b and a must be finite vectors with a[0] = 1")
        object.__setattr__(self, "b", b)
        object.__setattr__(self, "a", a)

    def power(self, angles: ArrayLike) -> Floats:
        """|H(e^{jw})|^2 at the angles w."""
        from scipy.signal import (
            freqz,
        )  # seconds to import, which streams that run do not need

        _, response = freqz(self.b, self.a, worN=np.asarray(angles, dtype=np.float64))
        return np.asarray(np.abs(response) ** 2)

    def apply(self, series: ArrayLike) -> Floats:
        """Filter along the last axis from a zero state."""
        from scipy.signal import lfilter

        return np.asarray(lfilter(self.b, self.a, np.asarray(series, dtype=np.float64)))


def grid_angles(points: int) -> Floats:
    """The angles pi n / N, n = 0..N, of SpDP eq. (5)."""
    return np.asarray(np.pi * np.arange(points + 1) / points)


def minimum_phase_factor(
    psd: ArrayLike, taps: int, *, tolerance: float | None = 1e-2
) -> Filter:
    """FIR filter of `taps` coefficients with |H|^2 close to the PSD: exp of the causal half of its cepstrum.

    The log spectrum is interpolated linearly between the grid frequencies on a fine grid, so that the cepstrum hardly
    folds over. The largest relative error on the given grid must be within `tolerance`, else NumericalError (None: no
    check, the caller measures the filter itself).
    """
    density = check_psd(psd, strictly=True)
    if density.ndim != 1:
        raise ParameterError(f"one PSD at a time. Got shape {density.shape}.")
    points = density.size - 1
    checks.whole("taps", taps)
    fine = points * max(8, -(-8 * taps // points))
    log_density = np.interp(
        np.arange(fine + 1) * (points / fine), np.arange(points + 1), np.log(density)
    )
    cepstrum = np.fft.irfft(log_density) / 2
    cepstrum[1:fine] *= 2
    cepstrum[fine + 1 :] = 0
    factor = Filter(np.fft.irfft(np.exp(np.fft.rfft(cepstrum)))[:taps], np.ones(1))
    return _checked(factor, density, tolerance)


def one_pole_one_zero(rho: float, white: float, low: float) -> Filter:
    """The exact noise filter H with 1/|H|^2 = R = white + low (1 - rho^2)/|1 - rho e^{-jw}|^2.

    H = sqrt(z0/(rho white)) (1 - rho z^-1)/(1 - z0 z^-1), z0 + 1/z0 = 2 + v, v = (1-rho)^2/rho + low (1-rho^2)/(rho
    white). Derived: docs/math (white is r0 and low is b there). All Fourier coefficients of R are positive.
    """
    checks.real("rho", rho, "(0, 1)")
    checks.positive("white", white)
    checks.real("low", low, "[0, inf)")
    v = (1 - rho) ** 2 / rho + low * (1 - rho**2) / (rho * white)
    zero = 1 / (
        1 + v / 2 + np.sqrt(v + v * v / 4)
    )  # the root inside the circle, without cancellation
    return Filter(
        np.sqrt(zero / (rho * white)) * np.array([1.0, -rho]), np.array([1.0, -zero])
    )


def _checked(found: Filter, density: Floats, tolerance: float | None) -> Filter:
    if tolerance is not None:
        error = float(
            np.abs(found.power(grid_angles(density.size - 1)) / density - 1).max()
        )
        if not error <= tolerance:
            raise NumericalError(
                f"the factor misses the PSD by {error:.2g} (relative), more than tolerance={tolerance:g}: use more "
                "coefficients, or a smoother PSD with a higher floor"
            )
    return found
