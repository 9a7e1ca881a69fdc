"""Figures of the spectral study, after Figures 1 to 6 of the SpDP paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussveil.figure_style import INK, SERIES, drawing, legend_above
from gaussveil.mechanisms import MeterStream, PrivateSpectrum, TrajectoryRelease
from gaussveil.noise import SeededGenerator
from gaussveil.noise.stream_filter import turn
from gaussveil.timeseries import welch_psd
from gaussveil.timeseries.spectral_factor import grid_angles
from gaussveil.typing import Floats
from gaussveil_studies.spectral.stream_receiver import DAY, PERIOD, WEEK, Home, receive
from gaussveil_studies.spectral.stream_tables import (
    FINE,
    OUR_EVENT_KW,
    OURS,
    POINTS,
    TABLE_I,
    AsPrinted,
)
from gaussveil_studies.spectral.stream_utility import energies

SHOWN_DAY = slice(2 * DAY, 3 * DAY)
FREQUENCIES = np.arange(POINTS + 1) / (2 * POINTS * PERIOD)
UNIT = "density, kW² h"


def demand_figure(home: Home, rows: Sequence[Mapping[str, float]]) -> Figure:
    """Figure 1: the readings, and how far consecutive stretches of them lie apart."""
    with drawing(6.4, 2.8, 1, 2, width_ratios=(3, 2)) as (figure, (left, right)):
        left.plot(
            np.arange(WEEK) / DAY, home.protected[:WEEK], color=SERIES[0], linewidth=0.7
        )
        left.set_xlabel("day")
        left.set_ylabel("kW")
        left.set_title("a week of readings")
        _distances(right, rows, "time_kw", "kW", "distance of readings")
        return figure


def distance_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Figure 3: l2 distance of consecutive stretches, in time and between spectra."""
    with drawing(6.4, 2.8, 1, 2) as (figure, (left, right)):
        _distances(left, rows, "time_kw", "kW", "distance of readings")
        _distances(right, rows, "spectrum_kw2h", "kW² h", "distance of their spectra")
        return figure


def lengths_figure(home: Home) -> Figure:
    """Figure 2: estimates from more and more readings."""
    with drawing(4.6, 3.0) as (figure, axes):
        for index, weeks in enumerate((1, 4, 16)):
            density = welch_psd(home.public[: weeks * WEEK], POINTS, period=PERIOD)
            axes.loglog(
                FREQUENCIES[1:],
                density[1:],
                color=SERIES[index],
                linewidth=1.2,
                label=f"{weeks} week" + "s" * (weeks > 1),
            )
        _frequencies(axes)
        legend_above(figure, axes)
        return figure


def private_figure(home: Home, paper_ball: float, own_ball: float) -> Figure:
    """Figure 4: the private spectrum with the paper's ball, and with one that covers this home."""
    sensitive = welch_psd(home.protected, POINTS, period=PERIOD)
    with drawing(6.4, 3.0, 1, 2, sharey=True) as (figure, panels):
        for axes, ball in zip(panels, (paper_ball, own_ball)):
            for index, calibration in enumerate(("published", "exact")):
                mechanism = PrivateSpectrum(
                    **TABLE_I,
                    l2_ball=ball,
                    sample_period=PERIOD,
                    calibration=calibration,
                    generator=SeededGenerator(3),
                )
                private = mechanism.release(home.protected).value
                axes.loglog(
                    FREQUENCIES[1:],
                    np.maximum(private[1:], 1e-4),
                    color=SERIES[index],
                    linewidth=1.2,
                    label=f"private, {calibration}",
                )
            axes.loglog(
                FREQUENCIES[1:],
                sensitive[1:],
                color=INK,
                linewidth=1.2,
                label="sensitive",
            )
            axes.set_title(f"B = {ball:.2g} kW² h")
            _frequencies(axes)
        panels[1].set_ylabel("")
        legend_above(figure, panels[0])
        return figure


def filters_figure(printed: AsPrinted) -> Figure:
    """Figure 5b: what F leaves of the spectrum and the gap that the noise fills, as printed; and repaired beside it."""
    reduced = printed.stream.reduction.power(grid_angles(POINTS))
    lines = {
        "sensitive": printed.raw,
        "private": printed.private,
        "|F|² sensitive": reduced * printed.raw,
        "noise": printed.stream.gamma,
    }
    repaired = {
        "private": printed.private,
        "|F|² private": reduced * printed.private,
        "noise": (1 - reduced) * printed.private,
    }
    hues = {"sensitive": INK, "private": SERIES[0], "noise": SERIES[1]}
    with drawing(6.4, 3.0, 1, 2, sharey=True) as (figure, panels):
        for axes, shown in zip(panels, (lines, repaired)):
            for name, density in shown.items():
                axes.loglog(
                    FREQUENCIES[1:],
                    PERIOD * density[1:],
                    color=hues.get(name, SERIES[2]),
                    linewidth=1.2,
                    label=name,
                )
            _frequencies(axes)
        legend_above(figure, *panels)
        panels[0].set_title("as printed")
        panels[1].set_title("repaired, before scaling")
        panels[1].set_ylabel("")
        return figure


def streams_figure(
    home: Home, printed: AsPrinted, balls: Mapping[str, float]
) -> Figure:
    """Figure 6: a day of the home, as printed, by our stream, and by TrDP for three durations."""
    stream = MeterStream.design(
        **OURS,
        sample_period=PERIOD,
        event=(OUR_EVENT_KW, "1h"),
        purpose="energy",
        generator=SeededGenerator(1),
    )
    shown = {
        "SpDP as printed (not private)": printed.released[SHOWN_DAY],
        f"our stream, {OUR_EVENT_KW} kW for 1 h": stream.push_many(
            home.protected[: 4 * DAY]
        )[SHOWN_DAY],
    }
    for seed, (name, radius) in enumerate(balls.items()):
        promise: dict[str, Any] = {
            **OURS,
            "l2_ball": radius,
            "generator": SeededGenerator(seed),
        }
        shown[f"TrDP, {name}"] = np.asarray(
            TrajectoryRelease(**promise).release(home.protected[SHOWN_DAY]).value
        )
    clock = np.arange(DAY) * PERIOD
    with drawing(6.4, 7.4, len(shown), 1, sharex=True) as (figure, panels):
        for axes, (name, values) in zip(panels, shown.items()):
            axes.plot(clock, values, color=SERIES[0], linewidth=0.8, label="released")
            axes.plot(
                clock,
                home.protected[SHOWN_DAY],
                color=INK,
                linewidth=1.2,
                label="sensitive",
            )
            axes.set_title(name)
            axes.set_ylabel("kW")
        legend_above(figure, panels[0])
        _hours(panels[-1])
        return figure


def smoothed_figure(home: Home, epsilon: float = 5.0) -> Figure:
    """What a receiver makes of our streams: a day of readings, and six weeks of daily energies."""
    found = {
        purpose: _received(home, purpose, epsilon) for purpose in ("shape", "billing")
    }
    clock = np.arange(DAY) * PERIOD
    days = np.arange(42)
    with drawing(6.4, 4.8, 2, 1) as (figure, (upper, lower)):
        upper.plot(
            clock,
            home.protected[SHOWN_DAY],
            color=INK,
            linewidth=1.2,
            label="sensitive",
        )
        upper.plot(
            clock,
            found["shape"][SHOWN_DAY],
            color=SERIES[0],
            linewidth=1.4,
            label="shape, smoothed",
        )
        _hours(upper)
        upper.set_ylabel("kW")
        lower.plot(
            days,
            energies(home.protected, DAY)[: days.size],
            color=INK,
            linewidth=1.2,
            label="sensitive",
        )
        for index, (purpose, readings) in enumerate(found.items()):
            lower.plot(
                days,
                energies(readings, DAY)[: days.size],
                "o",
                color=SERIES[index],
                markersize=3.5,
                label=purpose,
            )
        lower.set_xlabel("day")
        lower.set_ylabel("kWh a day")
        lower.set_ylim(bottom=0)
        for axes in (upper, lower):
            axes.set_title(f"epsilon {epsilon:g}, {OUR_EVENT_KW} kW for 1 h")
        legend_above(figure, upper, lower)
        return figure


def _received(home: Home, purpose: str, epsilon: float) -> Floats:
    stream = MeterStream.design(
        sample_period=PERIOD,
        epsilon=epsilon,
        delta=OURS["delta"],
        event=(OUR_EVENT_KW, "1h"),
        purpose=purpose,
        generator=SeededGenerator(1),
    )
    released = stream.push_many(home.protected)
    return receive(
        home,
        released,
        stream.design_.filter.noise_power(turn(FINE)),
        stream.noisy_sums(),
    ).readings


def _distances(
    axes: Axes, rows: Sequence[Mapping[str, float]], key: str, unit: str, title: str
) -> None:
    axes.plot(
        [row["weeks"] for row in rows],
        [row[key] for row in rows],
        "o-",
        color=SERIES[0],
    )
    axes.set_ylim(bottom=0)
    axes.set_xlabel("weeks compared")
    axes.set_ylabel(unit)
    axes.set_title(title)


def _frequencies(axes: Axes) -> None:
    axes.set_xlabel("frequency, 1/h")
    axes.set_ylabel(UNIT)


def _hours(axes: Axes) -> None:
    axes.set_xlabel("hour of the day")
    axes.set_xticks(range(0, 25, 6))
