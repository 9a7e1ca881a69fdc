"""Receiver-side smoothing of a released stream, and what noisy sums over windows add: post-processing throughout."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import cho_factor, cho_solve

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries.psd import check_psd
from gaussveil.typing import Floats


@dataclass(frozen=True, kw_only=True)
class NoisySum:
    """The sum of `samples` values from `first` on, known with an independent error of deviation `sd`."""

    first: int
    samples: int
    total: float
    sd: float


def window_covariance(lags: Floats, windows: Sequence[tuple[int, int]]) -> Floats:
    """Covariances of the sums over windows [first, last) of a series with autocovariances `lags`.

    With G(k) = sum_{m<k} (k - m) c_m - k c_0 / 2 the variance of k values' sum is 2 G(k), and the covariance of two
    windows is G(a - b') + G(b - a') - G(a - a') - G(b - b'), G even.
    """
    ends = np.array(windows, dtype=np.int64).reshape(-1, 2)
    if ends.size and (
        int(ends.max()) - int(ends.min()) > lags.size
        or (ends[:, 0] >= ends[:, 1]).any()
    ):
        raise ParameterError(
            f"windows must not be empty, nor lie further apart than the {lags.size} lags given"
        )
    count = np.arange(lags.size + 1)
    sums = np.concatenate([[0.0], np.cumsum(lags)])
    moments = np.concatenate([[0.0], np.cumsum(lags * count[:-1])])
    growth = count * sums - moments - count * lags[0] / 2

    first = ends[:, 0]
    last = ends[:, 1]
    apart = [
        np.abs(one[:, None] - other)
        for one, other in ((first, last), (last, first), (first, first), (last, last))
    ]
    return np.asarray(
        growth[apart[0]] + growth[apart[1]] - growth[apart[2]] - growth[apart[3]]
    )


def _check_sum(noisy_sum: NoisySum, size: int) -> None:
    """Refuse a sum that is not one of some of the values, or that has no noise."""
    within = 0 <= noisy_sum.first < noisy_sum.first + noisy_sum.samples <= size
    if not within or not noisy_sum.sd > 0:
        raise ParameterError(
            f"a sum must lie within the {size} values and have a positive deviation. Got {noisy_sum}."
        )


def with_sums(
    estimate: Floats, error_spectrum: Floats, sums: Sequence[NoisySum]
) -> Floats:
    """The estimate after it was told noisy sums of what it estimates: Gaussian conditioning.

    `error_spectrum` is the spectrum of the estimate's error, on `estimate.size + 1` frequencies from 0 to Nyquist.
    """
    if not sums:
        return estimate
    size = estimate.size
    for noisy_sum in sums:
        _check_sum(noisy_sum, size)
    windows = [(part.first, part.first + part.samples) for part in sums]
    running = np.concatenate([[0.0], np.cumsum(estimate)])
    missing = np.array(
        [
            noisy_sum.total - (running[b] - running[a])
            for noisy_sum, (a, b) in zip(sums, windows)
        ]
    )
    covariance = window_covariance(np.fft.irfft(error_spectrum)[:size], windows)
    weights = cho_solve(
        cho_factor(covariance + np.diag([part.sd**2 for part in sums])), missing
    )
    steps = np.zeros(size + 1)
    for weight, (first, last) in zip(weights, windows):
        steps[first] += weight
        steps[last] -= weight
    spread = np.zeros(2 * size)
    spread[:size] = np.cumsum(steps)[:size]
    return np.asarray(
        estimate + np.fft.irfft(np.fft.rfft(spread) * error_spectrum, n=2 * size)[:size]
    )


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

    Args:
        stream: the released readings.

    Returns:
        The estimate, a number for each sample of the stream.

    Raises:
        ParameterError: a sum lies outside of the stream, or its deviation is out of range.
        ShapeError: a spectrum, or the stream, is no vector.
        NotFiniteError: a number is NaN or infinite.

    >>> import numpy as np, gaussveil
    >>> gaussveil.smooth(np.array([1.0, 3.0, 1.0, 3.0]), 1.0, 1.0).tolist()
    [1.5, 2.5, 1.5, 2.5]
    """
    values = np.asarray(stream, dtype=np.float64)
    if values.ndim != 1 or values.size < 2:
        raise ShapeError(
            f"stream must be a vector of at least two values. Got shape {values.shape}."
        )
    if not np.isfinite(values).all():
        raise NotFiniteError("stream must be finite")
    expected = _profile(values, profile)
    bins = values.size + 1
    noise = _on_grid("noise_spectrum", noise_spectrum, bins)
    signal = _on_grid("signal_psd", signal_psd, bins)
    total = noise + signal
    weight = np.divide(signal, total, out=np.ones(bins), where=total > 0)
    difference = values - expected
    mirrored = np.concatenate([difference, difference[::-1]])
    estimate = (
        expected
        + np.fft.irfft(np.fft.rfft(mirrored) * weight, n=mirrored.size)[: values.size]
    )
    return with_sums(np.asarray(estimate), weight * noise, sums)


def _profile(values: Floats, profile: ArrayLike | None) -> Floats:
    if profile is None:
        return np.full(values.size, values.mean())
    means = np.atleast_1d(np.asarray(profile, dtype=np.float64))
    if means.ndim != 1 or not 1 <= means.size <= values.size:
        raise ShapeError(
            f"profile must be a vector of at most {values.size} values. Got shape {means.shape}."
        )
    if not np.isfinite(means).all():
        raise NotFiniteError("profile must be finite")
    return np.resize(means, values.size)


def _on_grid(name: str, spectrum: ArrayLike, bins: int) -> Floats:
    powers = np.atleast_1d(np.asarray(spectrum, dtype=np.float64))
    if powers.ndim != 1:
        raise ShapeError(
            f"{name} must be a number or a vector. Got shape {powers.shape}."
        )
    if powers.size == 1:
        if not (np.isfinite(powers[0]) and powers[0] >= 0):
            raise ParameterError(f"{name} must be finite and not negative")
        return np.full(bins, powers[0])
    return np.interp(
        np.linspace(0, 1, bins), np.linspace(0, 1, powers.size), check_psd(powers)
    )
