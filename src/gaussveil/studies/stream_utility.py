"""What private streams of the single home are good for: correlation, daily and 28-day energy, peak hour.

The receiver smooths with the spectrum and the weekly profile of the home's first 19 weeks, declared public here; the
second 19 weeks are streamed. Energies are weighted by their variances from what the receiver has: the smoothed stream
and, for billing, the registers. All post-processing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from gaussveil.mechanisms.meter_stream import MeterStream
from gaussveil.noise import SeededGenerator
from gaussveil.timeseries import smooth, welch_psd

Floats = NDArray[np.float64]

DAY, HOUR, PERIOD = 288, 12, 1 / 12
WEEK, MONTH = 7 * DAY, 28 * DAY
# How far, roughly, the energy of a window may lie from what was expected of it; the first is the whole stream.
LEVELS = ((1 << 40, 0.3), (MONTH, 0.2), (WEEK, 0.25))
BLUR = 1.15  # ratio of frequencies over which the public spectrum is averaged


@dataclass(frozen=True)
class Utility:
    """One design at one epsilon; percentages of the mean energy, means over draws; both guarantees.

    The trajectory's is (epsilon, 1e-5) for one event of `event_kw` for an hour; on 30 days it is `repeated_epsilon`.
    """

    purpose: str
    event_kw: float
    epsilon: float
    noise_sd: float
    correlation: float
    daily_percent: float
    monthly_percent: float
    peak_percent: float
    repeated_epsilon: float
    spectrum: str = "no spectrum released, none protected"


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
        return np.asarray(np.convolve(wrapped, np.ones(2 * HOUR + 1) / (2 * HOUR + 1), "valid"))

    @cached_property
    def spectrum(self) -> Floats:
        """Spectrum about the profile, averaged over neighbouring frequencies, slow variations kept."""
        residual = self.public - np.resize(self.profile, self.public.size)
        raw = welch_psd(residual, MONTH // 2)
        total = np.concatenate([[0.0], np.cumsum(raw)])
        index = np.arange(raw.size)
        low = np.floor(index / BLUR).astype(int)
        high = np.minimum(np.ceil(index * BLUR).astype(int) + 1, raw.size)
        return np.asarray((total[high] - total[low]) / (high - low))


def measure(home: Home, purpose: str, event_kw: float, epsilon: float, draws: int = 3) -> Utility:
    """Stream the second half with seeded noise, smooth it, and compare with the truth."""
    results = []
    made = MeterStream.design(
        sample_period=PERIOD, epsilon=epsilon, delta=1e-5, event=(event_kw, "1h"), purpose=purpose
    )
    for seed in range(draws):
        stream = MeterStream(design=made.design_, generator=SeededGenerator(seed))
        released = stream.push_many(home.protected)
        results.append(_compare(home, stream, released))
    correlation, daily, monthly, peak = np.mean(results, axis=0)
    repeated = made.design_.promise_of(made.design_.repeated_shift(30))[0]
    return Utility(purpose, event_kw, epsilon, made.design_.noise_sd, correlation, daily, monthly, peak, repeated)


def _compare(home: Home, stream: MeterStream, released: Floats) -> tuple[float, float, float, float]:
    truth = home.protected
    noise = stream.design_.filter.noise_power(np.linspace(0, np.pi, home.spectrum.size))
    estimate = smooth(released, noise, home.spectrum, _levelled(home, stream, released))
    days = _energies(home, stream, estimate, noise, DAY)
    months = _energies(home, stream, estimate, noise, MONTH)
    if stream.design_.registers:  # what the registers know better goes back to the readings
        correction = (days - _sums(estimate, DAY)[: days.size]) / (PERIOD * DAY)
        estimate = estimate[: days.size * DAY] + np.repeat(correction, DAY)
        truth = truth[: estimate.size]
    true_days, true_months = (_sums(truth, window) for window in (DAY, MONTH))
    peaks = [np.argmax(series[: true_days.size * DAY].reshape(-1, 24, HOUR).mean(axis=2), axis=1)
             for series in (estimate, truth)]  # fmt: skip
    return (
        float(np.corrcoef(estimate, truth)[0, 1]),
        100 * float(np.mean(np.abs(days - true_days)) / true_days.mean()),
        100 * float(np.mean(np.abs(months - true_months)) / true_months.mean()),
        100 * float(np.mean(peaks[0] == peaks[1])),
    )


def _levelled(home: Home, stream: MeterStream, released: Floats) -> Floats:
    """The public profile, its level corrected by the released energies as far as their noise allows.

    First by the energy of the whole stream, then of every 28 days, then of every week, each shrunk by its variance.
    """
    expected = np.resize(home.profile, released.size)
    noise = stream.design_.filter.noise_power(np.linspace(0, np.pi, 1 << 16))
    for window, prior in LEVELS:
        length = min(window, released.size)
        found, variance = _combined_registers(stream, length, [(_sums(released, length), _sum_variance(noise, length))])
        own = _sums(expected, length)[: found.size]
        change = prior**2 / (prior**2 + variance / own**2) * (found / own - 1)
        levels = np.repeat(1 + change, length)
        expected = expected * np.concatenate([levels, np.full(released.size - levels.size, levels[-1])])
    return np.asarray(expected)


def _combined_registers(stream: MeterStream, window: int, known: list[tuple[Floats, float]]) -> tuple[Floats, float]:
    """Energies of consecutive windows from several sources, weighted by their variances; and the variance left."""
    sources = list(known)
    for register in stream.design_.registers:
        if window % register.samples == 0:
            values = np.array([energy.kwh for energy in stream.energies if energy.name == register.name])
            parts = window // register.samples
            values = values[: values.size // parts * parts].reshape(-1, parts).sum(axis=1)
            sources.append((values, parts * (register.noise_sd * PERIOD) ** 2))
    count = min(len(values) for values, _ in sources)
    weight = sum(1 / variance for _, variance in sources)
    total = sum(values[:count] / variance for values, variance in sources)
    return np.asarray(total / weight), 1 / weight


def _energies(home: Home, stream: MeterStream, estimate: Floats, noise: Floats, window: int) -> Floats:
    """Energies of consecutive windows, kWh: the smoothed stream and the registers."""
    error = home.spectrum * noise / (home.spectrum + noise)
    return _combined_registers(stream, window, [(_sums(estimate, window), _sum_variance(error, window))])[0]


def _sums(series: Floats, window: int) -> Floats:
    return np.asarray(series[: series.size // window * window].reshape(-1, window).sum(axis=1) * PERIOD)


def _sum_variance(spectrum: Floats, window: int) -> float:
    """Variance of a window's energy under noise of that spectrum, kWh^2."""
    lags = np.fft.irfft(spectrum)[:window]
    ramp = window - np.arange(window)
    return float(max(ramp[0] * lags[0] + 2 * np.sum(ramp[1:] * lags[1:]), 1e-12)) * PERIOD**2


def snr_db(signal: Floats, noise_sd: float) -> float:
    """Signal-to-noise ratio in decibels: variances about the mean (correction S6)."""
    return 10 * math.log10(float(np.var(signal)) / noise_sd**2)
