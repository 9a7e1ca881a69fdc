"""A small town of simulated households: what their meters read, from a seed.

Every home has a standby load, a daily rhythm with a weekend of its own, appliances that run now and then, and, for
some, a boiler heated at night and electric heating that follows the town's weather; standby and rhythm carry a
log-normal ARMA residual. The constants were tuned by measurement so that mean, 5/50/95 % quantiles and daily
autocorrelation resemble 404 Swiss homes of late 2018 (many electrically heated, night tariff), which the tests check.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.signal import lfilter
from scipy.special import ndtri

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.timeseries import Readings, autocovariance
from gaussveil.typing import Floats

Places: TypeAlias = NDArray[np.intp]

MINUTES_PER_DAY = 24 * 60

LONGEST_STEP = 15  # minutes; longer steps are averages of these
# Appliance: runs per day, most likely hour, spread in hours, kW, median minutes.
APPLIANCES = (
    (1.1, 7.0, 1.5, 1.4, 15.0),  # breakfast
    (0.9, 11.8, 1.0, 2.2, 40.0),  # lunch
    (1.1, 18.6, 1.2, 2.2, 45.0),  # dinner
    (0.7, 14.0, 4.5, 1.6, 60.0),  # washing
    (0.5, 20.0, 2.0, 1.5, 60.0),  # dishes
)
# Peak: hour, spread of the homes about it, width in hours, weight, hours later on weekends.
PEAKS = (
    (7.0, 1.0, 1.3, 0.6, 1.5),
    (12.3, 0.8, 1.6, 0.7, 0.5),
    (19.3, 1.2, 2.3, 1.2, 0.0),
)
# Timer: usual hour, spread of the homes about it, share of the homes, hours on at 5 degrees.
TIMERS = (
    (1.5, 2.0, 0.65, 1.4),
    (3.5, 1.5, 0.5, 1.1),
    (7.5, 1.5, 0.4, 0.6),
    (12.0, 3.0, 0.4, 0.5),
    (18.7, 0.6, 0.4, 0.5),
    (23.0, 1.0, 0.4, 0.7),
)
_RESIDUAL_MINUTES = (240.0, 18.0)  # the two time constants of the ARMA residual
_RESIDUAL_MA = 0.25


def simulate_households(
    homes: int,
    days: int,
    step_minutes: int = 15,
    seed: int | Generator = 0,
    *,
    start: str = "2018-10-29",
) -> Readings:
    """Readings of `homes` households over `days` days from `start` (a date, midnight), the same for the same seed.

    Args:
        homes: how many.
        days: for how many.
        step_minutes: length of a step.
        seed: of the draws.
        start: the first day.

    Returns:
        Readings in kW, a row for each home; they are simulated, and nobody's.

    Raises:
        ParameterError: a number is out of range, or start is no date.

    >>> import gaussveil
    >>> gaussveil.simulate_households(3, 2, step_minutes=60).values.shape
    (3, 48)
    """
    checks.whole("homes", homes)
    checks.whole("days", days)
    if (
        step_minutes < 1
        or MINUTES_PER_DAY % step_minutes
        or (step_minutes > LONGEST_STEP and step_minutes % LONGEST_STEP)
    ):
        raise ParameterError(
            f"step_minutes must divide a day, and if above {LONGEST_STEP} be a multiple of it. Got {step_minutes}."
        )
    try:
        first = np.datetime64(start, "D")
    except ValueError as error:
        raise ParameterError(
            f"start must be a date such as 2018-10-29. Got {start!r}."
        ) from error
    generator = np.random.default_rng(seed)
    step = min(step_minutes, LONGEST_STEP)
    per_day = MINUTES_PER_DAY // step
    minute = np.arange(days * per_day) * step
    hour = minute % MINUTES_PER_DAY / 60
    weekday = (
        (first - np.datetime64("1970-01-05", "D")).astype(int)
        + minute // MINUTES_PER_DAY
    ) % 7
    weekend = (weekday >= 5).astype(np.float64)
    year_start = first.astype("datetime64[Y]").astype("datetime64[D]")
    temperature = _weather(
        generator, (first - year_start).astype(int), days, hour, per_day
    )
    size = np.exp(0.47 * ndtri(_even(generator, homes)))
    power = _rhythm(generator, size, hour, weekend) * _residual(
        generator, homes, minute.size, step
    )
    power += _appliances(generator, size, hour, weekend, step)
    power += _timers(generator, size, temperature, days, per_day)
    power += _heating(generator, size, temperature, hour, step)
    power *= _occupancy(generator, homes, days, per_day)
    readings = Readings(power, tuple(f"home{k:05d}" for k in range(homes)), first, step)
    if step == step_minutes:
        return readings
    return readings.resample(step_minutes)


def _even(generator: Generator, homes: int) -> Floats:
    """One uniform number per home, spread evenly over the town, so that small towns resemble each other."""
    return np.asarray(
        ((generator.permutation(homes) + generator.random(homes)) / homes)[:, None]
    )


def _weather(
    generator: Generator, day_of_year: int, days: int, hour: Floats, per_day: int
) -> Floats:
    """Outdoor temperature of the town: season, slow weather, and the course of the day."""
    spell = lfilter(
        [np.sqrt(1 - 0.7**2)], [1.0, -0.7], 2.0 * generator.standard_normal(days + 30)
    )[30:]
    season = 10.0 - 9.5 * np.cos(
        2 * np.pi * (day_of_year + np.arange(days) - 20) / 365.25
    )
    return np.repeat(season + spell, per_day) + 2.5 * np.cos(
        2 * np.pi * (hour - 15) / 24
    )


def _occupancy(generator: Generator, homes: int, days: int, per_day: int) -> Floats:
    """How much is going on in a home, day by day: guests and holidays last."""
    noise = generator.standard_normal((homes, days + 30))
    slow = lfilter([np.sqrt(1 - 0.85**2)], [1.0, -0.85], noise)[:, 30:]
    return np.repeat(np.exp(0.25 * slow - 0.25**2 / 2), per_day, axis=1)


def _clock(hour: Floats) -> tuple[Floats, int]:
    """The hours of one day, of which all days are repetitions, and how many days these are."""
    days = int(np.count_nonzero(hour == hour[0]))
    return hour[: hour.size // days], days


def _bump(hour: Floats, centre: Floats | float, width: float) -> Floats:
    """A smooth daily peak, periodic over midnight."""
    return np.asarray(
        np.exp(
            (np.cos(2 * np.pi * (hour - centre) / 24) - 1)
            * (24 / (2 * np.pi * width)) ** 2
        )
    )


def _rhythm(
    generator: Generator, size: Floats, hour: Floats, weekend: Floats
) -> Floats:
    """Standby and the peaks of the day, later on weekends."""
    homes = size.shape[0]
    clock, days = _clock(hour)
    standby = 0.158 * size * np.exp(0.6 * ndtri(_even(generator, homes)))
    shape = np.zeros((homes, hour.size))
    for centre, spread, width, weight, delay in PEAKS:
        peak = centre + spread * generator.standard_normal((homes, 1))
        height = weight * np.exp(0.4 * generator.standard_normal((homes, 1)))
        week, end = (_bump(clock, peak + late, width) for late in (0.0, delay))
        shape += height * np.where(weekend, np.tile(end, days), np.tile(week, days))
    return np.asarray(standby + 0.35 * size * shape * (1 + 0.15 * weekend))


def _residual(generator: Generator, homes: int, count: int, step: int) -> Floats:
    """exp of a stationary ARMA(2,1) whose standard deviation differs between homes; mean 1."""
    poles = np.exp(-step / np.array(_RESIDUAL_MINUTES))
    ar = np.array([poles.sum(), -poles.prod()])
    ma = np.array([-_RESIDUAL_MA])
    warm = int(8 * _RESIDUAL_MINUTES[0] / step)
    noise = generator.standard_normal((homes, warm + count))
    series = lfilter(np.concatenate([[1.0], ma]), np.concatenate([[1.0], -ar]), noise)[
        :, warm:
    ]
    series /= np.sqrt(autocovariance(ar, ma, 1.0, 1)[0])
    spread = 0.55 * np.exp(0.25 * generator.standard_normal((homes, 1)))
    return np.asarray(np.exp(spread * series - spread**2 / 2))


def _runs(
    shape: tuple[int, int], home: Places, first: Places, power: Floats, length: Floats
) -> Floats:
    """Add up runs: each begins at [home, first] with so many kW and lasts `length` steps, or parts of one."""
    total = np.zeros(shape)
    while home.size:
        np.add.at(total, (home, first), power * np.minimum(length, 1.0))
        more = (length > 1) & (first + 1 < shape[1])
        home = home[more]
        first = first[more] + 1
        power = power[more]
        length = length[more] - 1
    return total


def _appliances(
    generator: Generator, size: Floats, hour: Floats, weekend: Floats, step: int
) -> Floats:
    homes = size.shape[0]
    total = np.zeros((homes, hour.size))
    clock, days = _clock(hour)
    for often, centre, spread, kilowatts, minutes in APPLIANCES:
        own = centre + 0.7 * generator.standard_normal((homes, 1))
        chance = np.tile(_bump(clock, own, spread), days) * (1 + 0.3 * weekend)
        rate = (
            often * np.sqrt(size) * np.exp(0.3 * generator.standard_normal((homes, 1)))
        )
        chance *= rate * step / (spread * np.sqrt(2 * np.pi) * 60)
        begins = generator.random(chance.shape) < chance
        power = kilowatts * np.exp(0.3 * generator.standard_normal((homes, 1)))
        length = generator.standard_normal(chance.shape)
        home, first = np.nonzero(begins)
        total += _runs(
            (homes, hour.size),
            home,
            first,
            power[home, 0],
            minutes / step * np.exp(0.4 * length[home, first]),
        )
    return total


def _timers(
    generator: Generator, size: Floats, temperature: Floats, days: int, per_day: int
) -> Floats:
    """Hot water and storage heating on timers: blocks at fixed times of the home's day, longer in cold spells."""
    homes = size.shape[0]
    cold = (
        np.maximum(15.0 - temperature.reshape(days, per_day).mean(axis=1), 1.0) / 10.0
    )
    power = 3.5 * np.sqrt(size) * np.exp(0.3 * ndtri(_even(generator, homes)))
    total = np.zeros((homes, days * per_day))
    for centre, spread, share, hours in TIMERS:
        begin = np.floor(
            (centre + spread * generator.standard_normal(homes)) % 24 * per_day / 24
        ).astype(int)
        first = begin[:, None] + np.arange(days) * per_day
        used = (_even(generator, homes) < share) & (
            generator.random((homes, days)) < 0.93
        )
        spread_log = 0.4 * generator.standard_normal(
            (homes, 1)
        ) + 0.2 * generator.standard_normal((homes, days))
        drawn = power * np.exp(0.2 * generator.standard_normal((homes, 1)))
        length = hours * np.exp(spread_log) * cold * per_day / 24
        home, day = np.nonzero(used)
        total += _runs(
            (homes, days * per_day),
            home,
            first[home, day],
            drawn[home, 0],
            length[home, day],
        )
    return total


def _heating(
    generator: Generator, size: Floats, temperature: Floats, hour: Floats, step: int
) -> Floats:
    """Electric heating or a heat pump: demand below 15 degrees, cycling, barred at 17 h and catching up after."""
    homes = size.shape[0]
    owner = _even(generator, homes) < 0.68
    need = np.maximum(15.0 - temperature, 0.0) * (
        1 - 0.9 * _bump(hour, 17.2, 0.5) + 0.4 * _bump(hour, 19.0, 0.9)
    )
    per_degree = 0.082 * size * np.exp(0.4 * ndtri(_even(generator, homes))) * owner
    slow = np.exp(-step / (7.0 * np.exp(0.5 * generator.standard_normal(homes))))
    noise = generator.standard_normal((homes, temperature.size))
    for home in range(homes):
        noise[home] = lfilter(
            [np.sqrt(1 - slow[home] ** 2)], [1.0, -slow[home]], noise[home]
        )
    duty = np.clip(0.45 + 0.05 * generator.standard_normal((homes, 1)), 0.2, 0.9)
    level = np.clip(0.5 + 2.0 * (noise + (duty - 0.5) * 2.5), 0.03, 1.0)
    return np.asarray(per_degree * need * level / duty)
