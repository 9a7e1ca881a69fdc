"""An evening's forecast of one home, at a setting that keeps something of the home, and the dial of all settings.

The setting is chosen by a public rule, which looks at promises alone: the least of those the dial shows at which two
homes' forecasts are released with a quarter of the squared error of their average. Released is the middle and a share
of the difference; with t the mean shift of the promise, the error is 4 / (4 + t²) of the average's
(docs/mechanisms/forecast.md). Groups are of a dozen homes, about.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gaussveil.accounting import Account, Release
from gaussveil.calibration import mean_shift_for
from gaussveil.mechanisms import (
    DialPoint,
    PrivateForecast,
    PrivateForecaster,
)
from gaussveil.noise import Generator
from gaussveil.timeseries import Readings
from gaussveil.typing import Floats
from gaussveil_town import tables

HORIZON = "3h"
HOUR = 17
DISTRICT = 40  # homes that the forecast hides among, at most
GROUPS = 6  # of similar homes, if there are enough
SMALLEST = 6  # homes of a group
QUARTER = 0.25
DIALLED = tuple(
    one for one in PrivateForecaster.dial_promises if one[0] in (1.0, 4.0, 8.0, 16.0)
)


@dataclass(frozen=True, eq=False)
class Evening:
    """The forecast; for the owner the plain one, what came true, and the dial."""

    release: Release[PrivateForecast]
    plain: Floats
    truth: Floats
    dial: tuple[DialPoint, ...]


def error_left(epsilon: float, delta: float) -> float:
    """Squared error of a forecast of one of two homes, as a share of that of their average."""
    return 4.0 / (4.0 + mean_shift_for(epsilon, delta) ** 2)


def promised() -> tuple[float, float]:
    """Epsilon and delta by the public rule."""
    return next(
        one
        for one in sorted(PrivateForecaster.dial_promises)
        if error_left(*one) <= QUARTER
    )


def released_evening(
    town: Readings, account: Account, generator: Generator | None
) -> Evening:
    """The last evening of the first home, from everything before it, by the hour."""
    district = tables.by_hour(town.select(town.households[:DISTRICT]))
    per_day = district.steps_per_day
    begin = district.count - per_day + HOUR * per_day // 24
    past = district.window(0, begin)
    future = district.window(begin, district.count - begin)
    epsilon, delta = promised()
    groups = max(1, min(GROUPS, len(district) // (2 * SMALLEST)))
    forecaster = PrivateForecaster(
        horizon=HORIZON,
        epsilon=epsilon,
        delta=delta,
        clusters=groups,
        smallest_cluster=min(SMALLEST, len(district)),
        account=account,
        generator=generator,
    ).fit(past)
    home = district.households[0]
    release = forecaster.release(home)
    steps = release.value.times.size
    return Evening(
        release,
        np.asarray(forecaster.diagnostics(home)["plain_kw"]),
        district.values[0, begin : begin + steps],
        tuple(
            forecaster.dial(
                future,
                promises=DIALLED,
                clusters=(groups,),
            )
        ),
    )
