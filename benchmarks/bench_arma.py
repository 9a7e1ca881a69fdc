"""ARMA(6,5) fits against statsmodels' default ARIMA(6,0,5).fit(), timed per home in one run.

15 days of training at 15 minutes and the next 7 days to judge the one-step errors, on the real Swiss homes where
GAUSSVEIL_DATA names their folder and on simulated ones elsewhere.
"""

from __future__ import annotations

import os
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from statsmodels.tsa.arima.model import ARIMA
from threadpoolctl import threadpool_limits

from gaussveil.timeseries import Readings, fit_arma, fit_weekly_season, simulate_households
from gaussveil.timeseries.arma import conditional_innovations

HOMES = 48
PEER_HOMES = 6
TRAINING, TEST = 15 * 96, 7 * 96


def town() -> tuple[Readings, str]:
    file = Path(os.environ.get("GAUSSVEIL_DATA", "")) / "ch_homes_15min_kw.csv.gz"
    if not file.is_file():
        return simulate_households(HOMES, 49, seed=1), "simulated homes"
    columns = range(1, 1 + 8 * HOMES, 8)
    values = np.loadtxt(file, delimiter=",", skiprows=1, usecols=columns).T
    return Readings(values, tuple(map(str, columns)), np.datetime64("2018-10-29"), 15), "real homes"


def root_mean_square(errors: np.ndarray) -> np.ndarray:
    return np.sqrt(np.mean(errors**2, axis=-1))


def peer_fit(training: np.ndarray) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore"
        )  # statsmodels often reports that it did not converge: that is its default result
        return ARIMA(training, order=(6, 0, 5)).fit()


def run() -> list[dict[str, Any]]:
    with threadpool_limits(1):  # threads slow down both on series this short, statsmodels more
        return measure()


def measure() -> list[dict[str, Any]]:
    readings, kind = town()
    residual = fit_weekly_season(readings).residual(readings)
    training, test = residual[:, :TRAINING], residual[:, TRAINING : TRAINING + TEST]
    fit_arma(training[:1])
    start = time.perf_counter()
    models = fit_arma(training)
    ours = (time.perf_counter() - start) / len(training)
    mine = root_mean_square(conditional_innovations(test - models.mean[:, None], models.ar, models.ma))[:PEER_HOMES]
    start = time.perf_counter()
    fits = [peer_fit(row) for row in training[:PEER_HOMES]]
    peer = (time.perf_counter() - start) / PEER_HOMES
    theirs = root_mean_square(np.stack([row - fit.apply(row).fittedvalues for fit, row in zip(fits, test)]))
    excess = float(np.mean(mine) / np.mean(theirs))
    worst = float(np.max(mine / theirs))
    return [
        {
            "name": f"ARMA(6,5) fit, seconds per home ({kind}), against statsmodels",
            "ours": ours,
            "peer": peer,
            "ratio": peer / ours,
            "goal": 10.0,
            "met": peer / ours >= 10,
        },
        {
            "name": f"one-step error on the next week, statsmodels over ours (worst home {1 / worst:.4f})",
            "ours": float(np.mean(mine)),
            "peer": float(np.mean(theirs)),
            "ratio": 1 / excess,
            "goal": 0.99,
            "met": 1 / excess >= 0.99,
        },
    ]


if __name__ == "__main__":
    for result in run():
        print(
            f"{result['name']}: {result['ours']:.4g}, peer {result['peer']:.4g}, ratio {result['ratio']:.4g} "
            f"(goal {result['goal']:g}, {'met' if result['met'] else 'MISSED'})"
        )
