"""How much the simulated town resembles 404 real homes: pooled mean and quantiles, and the autocorrelation of a day.

The simulator's constants were tuned on the towns of seeds 0 to 9; the study looks at others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.figure import Figure

from gaussveil.figure_style import INK, SERIES, house_style
from gaussveil.timeseries import simulate_households
from gaussveil.typing import Floats

HOMES = 404
DAYS = 49
PER_DAY = 96
TOLERANCE = 0.15
NAMES = {
    "mean": "mean power",
    "q05": "5 % quantile",
    "q50": "median",
    "q95": "95 % quantile",
    "day": "autocorrelation at one day",
}
_SHARES = np.linspace(0.005, 0.995, 199)


@dataclass(frozen=True, eq=False)
class Resemblance:
    """Statistics of the real homes, and of every simulated town; quantile functions and mean days for the picture."""

    real: dict[str, float]
    towns: dict[int, dict[str, float]]
    quantiles: tuple[Floats, Floats]
    days: tuple[Floats, Floats]

    def deviation(self, name: str) -> dict[int, float]:
        """Relative deviation of each town from the real homes in one statistic."""
        return {
            seed: found[name] / self.real[name] - 1.0
            for seed, found in self.towns.items()
        }

    def worst(self, name: str) -> float:
        """The largest deviation, with its sign."""
        return max(self.deviation(name).values(), key=abs)

    def resembles(self, name: str) -> bool:
        """Whether every town is within the tolerance."""
        return abs(self.worst(name)) <= TOLERANCE


def statistics(values: Floats) -> dict[str, float]:
    """Pooled mean and quantiles in kW, and the mean over homes of the autocorrelation at one day (15-minute steps)."""
    centred = values - values.mean(axis=1, keepdims=True)
    day = (centred[:, PER_DAY:] * centred[:, :-PER_DAY]).sum(axis=1) / (centred**2).sum(
        axis=1
    )
    low, middle, high = np.quantile(values, [0.05, 0.5, 0.95])
    found = {
        "mean": values.mean(),
        "q05": low,
        "q50": middle,
        "q95": high,
        "day": day.mean(),
    }
    return {name: float(value) for name, value in found.items()}


def run(
    real: Floats,
    seeds: Sequence[int],
    progress: Callable[[str, float], None] = lambda _word, _share: None,
) -> Resemblance:
    """Simulate a town of as many homes and days for every seed, and compare it with the real homes."""
    homes, steps = real.shape
    towns = {}
    last = real
    for number, seed in enumerate(seeds):
        progress(f"town {seed}", number / len(seeds))
        last = simulate_households(homes, steps // PER_DAY, seed=seed).values
        towns[seed] = statistics(last)
    both = (real, last)
    return Resemblance(
        statistics(real),
        towns,
        tuple(np.quantile(values, _SHARES) for values in both),  # type: ignore[arg-type]
        tuple(_mean_day(values) for values in both),  # type: ignore[arg-type]
    )


def _mean_day(values: Floats) -> Floats:
    whole = values[:, : values.shape[1] // PER_DAY * PER_DAY]
    return np.asarray(whole.reshape(len(whole), -1, PER_DAY).mean(axis=(0, 1)))


def figure(found: Resemblance) -> Figure:
    """Deviation of every town in every statistic; quantiles and the mean day of one town beside the real homes."""
    with house_style():
        drawn = Figure(figsize=(7.4, 5.2), layout="constrained")
        grid = drawn.add_gridspec(2, 2, height_ratios=(1.0, 1.1))
        top = drawn.add_subplot(grid[0, :])
        top.axvspan(
            -100 * TOLERANCE, 100 * TOLERANCE, color=SERIES[0], alpha=0.08, linewidth=0
        )
        for place, name in enumerate(NAMES):
            values = 100 * np.array(list(found.deviation(name).values()))
            top.plot(
                values,
                np.full(values.size, place),
                "o",
                color=SERIES[0],
                alpha=0.6,
                markersize=5,
            )
        top.axvline(0.0, color=INK, linewidth=1.0)
        top.set_yticks(range(len(NAMES)), list(NAMES.values()))
        top.set(
            ylim=(len(NAMES) - 0.5, -0.5),
            xlim=(-20.0, 20.0),
            xlabel="per cent away from the real homes",
        )
        top.set_title(f"{len(found.towns)} simulated towns; the band is 15 per cent")
        left = drawn.add_subplot(grid[1, 0])
        right = drawn.add_subplot(grid[1, 1])
        for line, colour, label in zip(
            found.quantiles, (INK, SERIES[1]), ("real homes", "simulated")
        ):
            left.plot(100 * _SHARES, np.maximum(line, 0.01), color=colour, label=label)
        left.set_yscale("log")
        left.set(xlabel="per cent of all readings below", xlim=(0.0, 100.0))
        left.set_title("power, kW")
        left.legend(loc="upper left")
        for line, colour in zip(found.days, (INK, SERIES[1])):
            right.plot(np.arange(PER_DAY) * 24 / PER_DAY, line, color=colour)
        right.set(xlabel="hour of the day", xlim=(0.0, 24.0), ylim=(0.0, None))
        right.set_xticks(range(0, 25, 6))
        right.set_title("mean day, kW")
        return drawn
