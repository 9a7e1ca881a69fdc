"""What a receiver makes of a noisy forecast: power in kW and a band, by moments over a whole cluster.

They treat every household of the cluster alike, so they do not say which one it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp, ndtri

from gaussveil.containers import frame
from gaussveil.typing import Floats, Times


@dataclass(frozen=True, eq=False)
class PrivateForecast:
    """What a receiver gets: noisy log power on the public grid, and power in kW with a band.

    One value per step; for a whole cluster one row per household, in random order and without names. `kw` is scaled so
    that over the cluster its expectation is the expected power. A future reading lies between `lower_kw` and `upper_kw`
    with probability about `coverage`, on average over the cluster.
    """

    times: Times
    log_kw: Floats
    kw: Floats
    lower_kw: Floats
    upper_kw: Floats
    coverage: float
    frame_library: str = ""

    def frame(self) -> Any:
        """The columns as a frame of the library that the readings came in, pandas or polars; otherwise Arrow."""
        return frame(self.frame_library, self.columns())

    def columns(self) -> dict[str, NDArray[np.generic]]:
        """Columns of a table: time, row (of a whole cluster), kw, lower_kw, upper_kw, log_kw."""
        numbers = {
            name: getattr(self, name).ravel()
            for name in ("kw", "lower_kw", "upper_kw", "log_kw")
        }
        if self.log_kw.ndim == 1:
            return {"time": self.times, **numbers}
        count = len(self.log_kw)
        rows = np.repeat(np.arange(count), self.times.size)
        return {"time": np.tile(self.times, count), "row": rows, **numbers}


@dataclass(frozen=True, eq=False)
class PowerScale:
    """From noisy log power to kW, by moments over all households of the cluster.

    Log power is log P = f + q + e and the release y = c + q + n, where f and c are the means of the plain and the noisy
    forecast, q is what the past adds if it is random, e the future's error and n the noise. The factor makes the
    cluster's mean of E[factor e^y] equal to its mean of E[P]. The band is that of y - log P: over the cluster its mean
    is that of c - f and its variance that of c - f plus those of n and e (derived: docs/mechanisms/forecast.md).
    """

    log_factor: Floats
    bias: Floats
    variance: Floats

    @classmethod
    def of(
        cls, plain: Floats, noisy: Floats, own: Floats, noise: Floats, error: Floats
    ) -> PowerScale:
        """From the cluster's f and c, and the variances of q, n and e, one row per household."""
        expected = logsumexp(plain + (own + error) / 2, axis=0)
        bias = np.mean(noisy - plain, axis=0)
        apart = np.mean((noisy - plain - bias) ** 2 + noise + error, axis=0)
        return cls(expected - logsumexp(noisy + (own + noise) / 2, axis=0), bias, apart)

    def forecast(
        self, log_kw: Floats, times: Times, coverage: float
    ) -> PrivateForecast:
        """The receiver's forecast; a function of the release and of the cluster's moments only."""
        reach = float(ndtri((1 + coverage) / 2)) * np.sqrt(self.variance)
        with np.errstate(
            over="ignore"
        ):  # noise of many logs may leave the range of floats: infinity is honest
            return PrivateForecast(
                times=times,
                log_kw=log_kw,
                kw=np.exp(log_kw + self.log_factor),
                lower_kw=np.exp(log_kw - self.bias - reach),
                upper_kw=np.exp(log_kw - self.bias + reach),
                coverage=coverage,
            )
