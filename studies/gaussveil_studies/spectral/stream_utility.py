"""What private streams of the single home are good for: correlation, daily and 28-day energy, peak hour."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gaussveil.mechanisms.meter_stream.stream import MeterStream
from gaussveil.noise import SeededGenerator
from gaussveil.noise.stream_filter import turn
from gaussveil.timeseries import NoisySum
from gaussveil.typing import Floats
from gaussveil_studies.spectral.stream_receiver import (
    DAY,
    MONTH,
    PERIOD,
    Home,
    hourly,
    receive,
)

PURPOSES = ("shape", "energy", "billing")
EVENTS_KW = (0.5, 3.0)
EPSILONS = (1.0, 2.0, 5.0)
DELTA = 1e-5
DRAWS = 8


@dataclass(frozen=True)
class Usefulness:
    """How a received stream compares with the truth; errors are means, in per cent of the mean energy."""

    correlation: float
    daily_percent: float
    monthly_percent: float
    peak_percent: float


@dataclass(frozen=True)
class Utility:
    """One design at one epsilon, means over draws; both guarantees.

    The trajectory's is (epsilon, 1e-5) for one event of `event_kw` for an hour, and (`repeated_epsilon`,
    `repeated_delta`) for the same on 30 days.
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
    repeated_delta: float
    spectrum: str = "no spectrum released, none protected"


def measure(
    home: Home, purpose: str, event_kw: float, epsilon: float, draws: int = DRAWS
) -> Utility:
    """Stream the second half with seeded noise, let the receiver work, and compare with the truth."""
    made = MeterStream.design(
        sample_period=PERIOD,
        epsilon=epsilon,
        delta=DELTA,
        event=(event_kw, "1h"),
        purpose=purpose,
    )
    noise = made.design_.filter.noise_power(turn(1 << 14))
    found = []
    for seed in range(draws):
        stream = MeterStream(design=made.design_, generator=SeededGenerator(seed))
        released = stream.push_many(home.protected)
        found.append(usefulness(home, released, noise, stream.noisy_sums()))
    epsilon_30, delta_30 = made.design_.promise_of(made.design_.repeated_shift(30))
    return Utility(
        purpose,
        event_kw,
        epsilon,
        made.design_.noise_sd,
        *_means(found),
        repeated_epsilon=epsilon_30,
        repeated_delta=delta_30,
    )


def usefulness(
    home: Home, released: Floats, noise: Floats, sums: Sequence[NoisySum] = ()
) -> Usefulness:
    """Compare what the receiver makes of a stream with the protected half."""
    received = receive(home, released, noise, sums)
    truth = home.protected
    errors = []
    for window in (DAY, MONTH):
        true, found = (
            energies(series, window) for series in (truth, received.readings)
        )
        errors.append(100 * float(np.mean(np.abs(found - true)) / true.mean()))
    hit = np.mean(received.peak_hours == np.argmax(hourly(truth), axis=1))
    return Usefulness(
        float(np.corrcoef(received.readings, truth)[0, 1]),
        errors[0],
        errors[1],
        100 * float(hit),
    )


def energies(series: Floats, window: int) -> Floats:
    """Energies of consecutive windows, kWh."""
    return np.asarray(
        series[: series.size // window * window].reshape(-1, window).sum(axis=1)
        * PERIOD
    )


def snr_db(signal: Floats, noise_sd: float) -> float:
    """Signal-to-noise ratio in decibels: variances about the mean (correction S6)."""
    return 10 * math.log10(float(np.var(signal)) / noise_sd**2)


def _means(found: Sequence[Usefulness]) -> tuple[float, float, float, float]:
    rows = [
        (one.correlation, one.daily_percent, one.monthly_percent, one.peak_percent)
        for one in found
    ]
    correlation, daily, monthly, peak = np.mean(rows, axis=0).tolist()
    return correlation, daily, monthly, peak
