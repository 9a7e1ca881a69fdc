"""Figures of the spectral study, after Figures 1 to 6 of the SpDP paper."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from gaussveil.mechanisms import MeterStream, PrivateSpectrum, TrajectoryRelease
from gaussveil.noise import SeededGenerator
from gaussveil.report.style import FAINT, INK, SERIES, house_style
from gaussveil.studies.stream_receiver import DAY, PERIOD, WEEK, Home
from gaussveil.timeseries import welch_psd

POINTS = 288


def distance_figure(rows: Sequence[Mapping[str, float]]) -> Figure:
    """Figures 1b and 3: l2 distance of consecutive stretches, in time and between spectra."""
    weeks = [row["weeks"] for row in rows]
    with house_style():
        figure = Figure(figsize=(6.4, 3.0), layout="constrained")
        for axes, key, unit in zip(figure.subplots(1, 2), ("time_kw", "spectrum_kw2h"), ("kW", "kW² h")):
            axes.plot(weeks, [row[key] for row in rows], "o-", color=SERIES[0])
            axes.set_ylim(bottom=0)
            axes.set_xlabel("weeks compared")
            axes.set_ylabel(f"distance, {unit}")
            axes.set_title("of the readings" if key == "time_kw" else "of their spectra", color=FAINT)
        return figure


def spectra_figure(home: Home, ball: float, table: Mapping[str, Any]) -> Figure:
    """Figures 2 and 4: estimates from more and more readings, and the private spectrum."""
    hours = np.arange(POINTS + 1) / (2 * POINTS * PERIOD)
    with house_style():
        figure = Figure(figsize=(6.4, 3.0), layout="constrained")
        left, right = figure.subplots(1, 2, sharey=True)
        for index, weeks in enumerate((1, 4, 16)):
            density = welch_psd(home.public[: weeks * WEEK], POINTS, period=PERIOD)
            left.loglog(hours[1:], density[1:], color=SERIES[index], label=f"{weeks} week" + "s" * (weeks > 1))
        left.legend()
        right.loglog(hours[1:], welch_psd(home.protected, POINTS, period=PERIOD)[1:], color=INK, label="sensitive")
        for index, calibration in enumerate(("published", "exact")):
            mechanism = PrivateSpectrum(
                **table, l2_ball=ball, sample_period=PERIOD, calibration=calibration, generator=SeededGenerator(3)
            )
            released = mechanism.release(home.protected).value
            right.loglog(
                hours[1:], np.maximum(released[1:], 1e-6), color=SERIES[index], label=f"private, {calibration}"
            )
        right.legend()
        for axes in (left, right):
            axes.set_xlabel("frequency, 1/h")
        left.set_ylabel("density, kW² h")
        return figure


def streams_figure(home: Home, balls: Mapping[str, float], table: Mapping[str, Any]) -> Figure:
    """Figure 6: a day of the home, of our stream, and of TrDP for three durations."""
    day = slice(2 * DAY, 3 * DAY)
    clock = np.arange(DAY) * PERIOD
    with house_style():
        figure = Figure(figsize=(6.4, 6.0), layout="constrained")
        panels = figure.subplots(1 + len(balls), 1, sharex=True)
        stream = MeterStream.design(
            sample_period=PERIOD, epsilon=table["epsilon"], delta=table["delta"], event=(0.5, "1h"), purpose="energy",
            generator=SeededGenerator(1),
        )  # fmt: skip
        shown = {"our stream, 0.5 kW for 1 h": stream.push_many(home.protected[: 4 * DAY])[day]}
        for name, radius in balls.items():
            mechanism = TrajectoryRelease(
                epsilon=table["epsilon"], delta=table["delta"], l2_ball=radius, generator=SeededGenerator(1)
            )
            shown[f"TrDP, {name}"] = np.asarray(mechanism.release(home.protected[day]).value)
        for axes, (name, values) in zip(panels, shown.items()):
            axes.plot(clock, values, color=SERIES[0], linewidth=0.8)
            axes.plot(clock, home.protected[day], color=INK, linewidth=1.2)
            axes.set_title(name, color=FAINT)
            axes.set_ylabel("kW")
        panels[-1].set_xlabel("hour of the day")
        return figure
