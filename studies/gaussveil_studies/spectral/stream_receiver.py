"""What a receiver makes of a private stream of the single home, with public knowledge only: all post-processing.

Known before: the mean week and the spectrum about it, from the home's first 19 weeks, declared public here. A season
moves the level, so that is estimated first, week by week, from the released energies. Then the Wiener smoother gives
the readings, told the registers where there are any. The peak hour is the one most likely to be the largest.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from gaussveil.timeseries import NoisySum, smooth, welch_psd, window_covariance
from gaussveil.typing import Floats

DAY = 288
HOUR = 12
PERIOD = 1 / 12
WEEK = 7 * DAY
MONTH = 28 * DAY
BLUR = 1.15  # ratio of frequencies over which the public spectrum is averaged
# how far a home's level may lie from its past, and change
LEVEL_SD = 0.3
DRIFT_SD = 0.25
DRIFT_WEEKS = 6.0
LEAST_LEVEL = 0.05
KERNEL = 0.6  # of the variance about the profile: how far a day lies from the public day that it resembles
# public days, and draws about each, to count which hour is the largest
COMPARED = 30
DRAWS = 200


@dataclass(frozen=True, eq=False)
class Home:
    """Readings every five minutes: a public first half and a protected second half."""

    public: Floats
    protected: Floats

    @classmethod
    def of(cls, readings: Floats) -> Home:
        """Cut after half of the whole weeks."""
        half = readings.size // (2 * WEEK) * WEEK
        return cls(readings[:half], readings[half : 2 * half])

    @cached_property
    def profile(self) -> Floats:
        """Mean week of the first half, smoothed over an hour."""
        week = self.public.reshape(-1, WEEK).mean(axis=0)
        wrapped = np.concatenate([week[-HOUR:], week, week[:HOUR]])
        return np.asarray(
            np.convolve(wrapped, np.ones(2 * HOUR + 1) / (2 * HOUR + 1), "valid")
        )

    @cached_property
    def residual(self) -> Floats:
        """The first half about its mean week."""
        return self.public - np.resize(self.profile, self.public.size)

    @cached_property
    def spectrum(self) -> Floats:
        """Spectrum about the profile, averaged over neighbouring frequencies, slow variations kept."""
        raw = welch_psd(self.residual, MONTH // 2)
        total = np.concatenate([[0.0], np.cumsum(raw)])
        index = np.arange(raw.size)
        low = np.floor(index / BLUR).astype(int)
        high = np.minimum(np.ceil(index * BLUR).astype(int) + 1, raw.size)
        return np.asarray((total[high] - total[low]) / (high - low))

    @cached_property
    def hourly_covariance(self) -> Floats:
        """Covariance of the 24 hourly means of a day about the profile, drawn a little towards no correlation."""
        hours = hourly(self.residual)
        found = hours.T @ hours / len(hours)
        return np.asarray(0.9 * found + 0.1 * np.diag(np.diagonal(found)))


@dataclass(frozen=True, eq=False)
class Received:
    """What the receiver has in the end: readings, kW, and each day's peak hour."""

    readings: Floats
    peak_hours: NDArray[np.int64]


def hourly(series: Floats) -> Floats:
    """Hourly means, a row for each day."""
    return np.asarray(series.reshape(-1, 24, HOUR).mean(axis=2))


def receive(
    home: Home, released: Floats, noise: Floats, sums: Sequence[NoisySum] = ()
) -> Received:
    """Readings and peak hours from a stream of whole weeks with noise of that spectrum (evenly spaced to Nyquist)."""
    size = released.size
    grid = np.linspace(0, 1, size + 1)
    gamma = np.interp(grid, np.linspace(0, 1, noise.size), noise)
    signal = np.interp(grid, np.linspace(0, 1, home.spectrum.size), home.spectrum)
    weekly = _weekly_levels(home, released, gamma, signal, sums)
    level = np.interp(
        (np.arange(size) + 0.5) / WEEK - 0.5, np.arange(weekly.size), weekly
    )
    expected = np.resize(home.profile, size) * level
    # a home that uses less varies less: variance in proportion to the level
    readings = smooth(released, gamma, signal * weekly.mean(), expected, sums=sums)
    return Received(readings, _peak_hours(home, released, gamma, expected, level))


def _weekly_levels(
    home: Home,
    released: Floats,
    noise: Floats,
    signal: Floats,
    sums: Sequence[NoisySum],
) -> Floats:
    """Each week's energy against the profile's, from all released energies: conditional mean, 1 expected."""
    weeks = released.size // WEEK
    own = [(week * WEEK, (week + 1) * WEEK) for week in range(weeks)]
    windows = own + [(known.first, known.first + known.samples) for known in sums]
    running = np.concatenate([[0.0], np.cumsum(np.resize(home.profile, released.size))])
    ends = np.array(windows)
    design = np.empty(
        (len(windows), weeks)
    )  # the profile's sum in the part of each window that lies in each week
    for week, (first, last) in enumerate(own):
        inside = np.clip(ends, first, last)
        design[:, week] = running[inside[:, 1]] - running[inside[:, 0]]
    totals = np.concatenate(
        [released.reshape(-1, WEEK).sum(axis=1), [known.total for known in sums]]
    )
    size = released.size
    error = window_covariance(np.fft.irfft(signal)[:size], windows)
    error += block_diag(
        window_covariance(np.fft.irfft(noise)[:size], own),
        np.diag([known.sd**2 for known in sums]),
    )
    apart = np.abs(np.subtract.outer(np.arange(weeks), np.arange(weeks)))
    prior = LEVEL_SD**2 + DRIFT_SD**2 * np.exp(-apart / DRIFT_WEEKS)
    gain = np.linalg.solve(design @ prior @ design.T + error, design @ prior).T
    return np.asarray(np.maximum(1 + gain @ (totals - design.sum(axis=1)), LEAST_LEVEL))


def _peak_hours(
    home: Home, released: Floats, noise: Floats, expected: Floats, level: Floats
) -> NDArray[np.int64]:
    """The hour most likely to be the day's largest, given the day's released hourly means.

    A day is thought to be like one of the public days, its deviation from the profile scaled to the level, and to
    differ from it by a part KERNEL of the hours' covariance.
    """
    hours = [(hour * HOUR, (hour + 1) * HOUR) for hour in range(24)]
    noise_covariance = window_covariance(np.fft.irfft(noise)[:DAY], hours) / HOUR**2
    standard = np.random.default_rng(0).standard_normal((24, DRAWS))
    past = math.sqrt(1 - KERNEL) * hourly(home.residual)
    peaks = []
    for mean, seen, scale in zip(
        hourly(expected), hourly(released), level.reshape(-1, DAY).mean(axis=1)
    ):
        around = KERNEL * scale * home.hourly_covariance
        precision = np.linalg.inv(around + noise_covariance)
        days = mean + math.sqrt(scale) * past
        missed = seen - days
        log_weight = -0.5 * np.einsum("ij,jk,ik->i", missed, precision, missed)
        likeliest = np.argsort(-log_weight)[:COMPARED]
        weight = np.exp(log_weight[likeliest] - log_weight[likeliest[0]])
        gain = around @ precision
        left, axes = np.linalg.eigh(around - gain @ around)
        spread = (axes * np.sqrt(np.maximum(left, 0))) @ standard
        drawn = (days + missed @ gain.T)[likeliest, :, None] + spread
        largest = np.argmax(drawn, axis=1)
        votes = np.bincount(
            largest.ravel(), weights=np.repeat(weight, DRAWS), minlength=24
        )
        peaks.append(np.argmax(votes))
    return np.array(peaks)
