"""What the printed stream tells of the spectrum behind it, with private spectra as Algorithm 1 of SpDP draws them.

Who knows the readings, as differential privacy supposes, and the private spectrum, where that is public, sees noise of
spectrum gamma = phi~ - |F|^2 phi and compares it with gamma' of a neighbour phi'. Given phi~ a stream that were
post-processing of it would tell nothing more. How fast it tells depends on how far F's gain stays below the largest
that leaves gamma positive, which the paper leaves to tuning.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import toeplitz
from scipy.signal import lfilter

from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.timeseries import minimum_phase_factor
from gaussveil.timeseries.spectral_factor import grid_angles
from gaussveil.typing import Floats
from gaussveil_studies.published.spdp_stream import PublishedStream, low_pass
from gaussveil_studies.spectral.stream_receiver import DAY, PERIOD, Home
from gaussveil_studies.spectral.stream_tables import (
    CUTOFF_HZ,
    PAPER_BALL,
    POINTS,
    TABLE_I,
    AsPrinted,
)

SHARES = (1.0, 0.5, 0.25)
LONGEST_DAYS = 1e6
EXAMPLE_DAYS = 140
EXAMPLE_SEED = 3


@dataclass(frozen=True, eq=False)
class Leak:
    """Noise spectra of the printed stream for a home and for the neighbour that it tells apart best."""

    gamma: Floats
    other: Floats

    @classmethod
    def of(cls, printed: AsPrinted, share: float = 1.0) -> Leak:
        """At a share of F's gain. The neighbour is B lower at one frequency: there |F|^2/gamma is largest, among those
        that leave phi' >= 0.
        """
        filters = low_pass(share * printed.gain, CUTOFF_HZ, 3600 * PERIOD)
        stream = PublishedStream.design(
            printed.raw, printed.private, filters, taps=2 * POINTS
        )
        printed = replace(printed, stream=stream)
        power = filters.power(grid_angles(POINTS))
        gamma = printed.stream.gamma
        step = printed.ball / PERIOD
        at = int(np.argmax(np.where(printed.raw >= step, power / gamma, 0.0)))
        other = gamma.copy()
        other[at] += power[at] * step
        return cls(gamma, other)

    def after(self, samples: float) -> PrivacyLoss:
        """The pair of that many samples by Whittle's law of long stretches: a ratio per frequency of the grid, every
        inner one of which holds two of 2 N samples.
        """
        weights = np.full(self.gamma.size, 2.0)
        weights[[0, -1]] = 1.0
        gaps = 1.0 - self.gamma / self.other
        moved = gaps != 0.0
        return PrivacyLoss.from_terms(
            gaps[moved],
            weights[moved] * samples / (2 * POINTS),
            np.zeros(int(np.count_nonzero(moved))),
        )

    def stretch(self, samples: int) -> PrivacyLoss:
        """The pair of so many consecutive samples of the noise filters as they run, exactly."""
        laws = []
        for spectrum in (self.gamma, self.other):
            taps = minimum_phase_factor(spectrum, 2 * POINTS, tolerance=None).b
            lags = np.zeros(max(samples, taps.size))
            lags[: taps.size] = np.correlate(taps, taps, "full")[taps.size - 1 :]
            laws.append(toeplitz(lags[:samples]))
        return GaussianPair(np.zeros(samples), laws[0], np.zeros(samples), laws[1])


def day_of_noise(samples: int = DAY) -> PrivacyLoss:
    """A made-up AR(1) home, private spectrum as Algorithm 1 draws it, F at the largest gain that is feasible in steps
    of ten per cent: one day of the stream's noise.
    """
    drawn = np.random.default_rng(EXAMPLE_SEED).normal(size=EXAMPLE_DAYS * DAY)
    home = Home.of(np.asarray(1.0 + lfilter([0.6], [1.0, -0.8], drawn)))
    return Leak.of(AsPrinted.of(home, PAPER_BALL)).stretch(samples)


def days_until(home: Home, seeds: Sequence[int], share: float) -> list[float]:
    """After how many days delta at Table I's epsilon passes its delta, sorted, one per draw of the private spectrum."""
    times = []
    for seed in seeds:
        leak = Leak.of(AsPrinted.of(home, PAPER_BALL, seed), share)
        low = 0.0
        high = math.log(LONGEST_DAYS)
        while high - low > 1e-3:
            middle = (low + high) / 2
            passed = (
                leak.after(math.exp(middle) * DAY).dp_delta(TABLE_I["epsilon"])
                > TABLE_I["delta"]
            )
            low, high = (low, middle) if passed else (middle, high)
        times.append(math.exp(high))
    return sorted(times)


def curve(home: Home, seeds: Sequence[int]) -> list[dict[str, float]]:
    """Days until the promise is spent, by the share of the largest feasible gain."""
    rows = []
    for share in SHARES:
        found = days_until(home, seeds, share)
        rows.append(
            {
                "share": share,
                "least": found[0],
                "median": found[len(found) // 2],
                "most": found[-1],
            }
        )
    return rows
