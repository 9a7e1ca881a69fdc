"""Receiver-side smoothing of a released stream: the Wiener smoother, pure post-processing of the release."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries.psd import check_psd
from gaussveil.timeseries.window_sums import NoisySum, with_sums
from gaussveil.typing import Floats


def smooth(
    stream: ArrayLike,
    noise_spectrum: ArrayLike,
    signal_psd: ArrayLike,
    profile: ArrayLike | None = None,
    *,
    sums: Sequence[NoisySum] = (),
) -> Floats:
    """Least mean-square estimate of the load from the whole released stream (both past and future of each sample).

    `noise_spectrum` is the public spectrum of the added noise and `signal_psd` that of the load about its profile,
    both two-sided per sample on frequencies evenly spaced from 0 to Nyquist (a single number: white). `profile` is
    the load expected at each sample, repeated as needed (a day, a week); without it, the mean of the stream. Both
    must be public or released: this function then adds nothing to the privacy cost. `sums` are released sums of the
    load, such as the registers of a billing stream (`MeterStream.noisy_sums`); the estimate is consistent with them.

    The stream less its profile is weighted by signal / (signal + noise) at every frequency; the stream is mirrored at
    both ends so that they do not meet.
    """
    values = np.asarray(stream, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise ShapeError(f"stream must be a vector of at least two values. Got shape {values.shape}.")
    if not np.isfinite(values).all():
        raise NotFiniteError("stream must be finite")
    expected = _profile(values, profile)
    bins = values.size + 1
    noise, signal = _on_grid("noise_spectrum", noise_spectrum, bins), _on_grid("signal_psd", signal_psd, bins)
    total = noise + signal
    weight = np.divide(signal, total, out=np.ones(bins), where=total > 0)
    difference = values - expected
    mirrored = np.concatenate([difference, difference[::-1]])
    estimate = expected + np.fft.irfft(np.fft.rfft(mirrored) * weight, n=mirrored.size)[: values.size]
    return with_sums(np.asarray(estimate), weight * noise, sums)


def _profile(values: Floats, profile: ArrayLike | None) -> Floats:
    if profile is None:
        return np.full(values.size, values.mean())
    given = np.atleast_1d(np.asarray(profile, dtype=np.float64))
    if given.ndim != 1 or not 1 <= given.size <= values.size:
        raise ShapeError(f"profile must be a vector of at most {values.size} values. Got shape {given.shape}.")
    if not np.isfinite(given).all():
        raise NotFiniteError("profile must be finite")
    return np.resize(given, values.size)


def _on_grid(name: str, spectrum: ArrayLike, bins: int) -> Floats:
    given = np.atleast_1d(np.asarray(spectrum, dtype=np.float64))
    if given.ndim != 1:
        raise ShapeError(f"{name} must be a number or a vector. Got shape {given.shape}.")
    if given.size == 1:
        if not (np.isfinite(given[0]) and given[0] >= 0):
            raise ParameterError(f"{name} must be finite and not negative")
        return np.full(bins, given[0])
    return np.interp(np.linspace(0, 1, bins), np.linspace(0, 1, given.size), check_psd(given))
