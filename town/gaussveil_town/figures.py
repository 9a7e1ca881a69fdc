"""Pictures of the demo, in two versions: released values alone, and for the owner with the truth beside them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from gaussveil.figure_style import FAINT, INK, SERIES, drawing, legend_above
from gaussveil.mechanisms import PrivateForecast, Sketch
from gaussveil.typing import Floats, Times
from gaussveil_town.feeder import FeederTotal
from gaussveil_town.released import Spending
from gaussveil_town.tables import DAY_KINDS, PARTS

WIDTH = 7.4
SHOWN_DAYS = 2
BANDS = ((5.0, 95.0, 0.15), (25.0, 75.0, 0.25))


def budget_figure(spending: Sequence[Spending]) -> Figure:
    """Bars of every account: the summed epsilon, and the exact one."""
    with drawing(WIDTH, 0.7 + 0.62 * len(spending)) as (figure, axes):
        draw_budget(axes, spending)
        return figure


def draw_budget(axes: Axes, spending: Sequence[Spending]) -> None:
    """The same inside a panel."""
    hollow: dict[str, Any] = {"facecolor": "none", "edgecolor": FAINT, "linewidth": 1.2}
    for index, item in enumerate(spending):
        bars: tuple[tuple[str, float, float, dict[str, Any], dict[str, Any]], ...] = (
            ("summed", item.summed_epsilon, index - 0.19, hollow, {"color": FAINT}),
            (
                "exact",
                item.exact_epsilon,
                index + 0.19,
                {"color": SERIES[index % len(SERIES)]},
                {"fontweight": "bold"},
            ),
        )
        for word, epsilon, place, bar, text in bars:
            axes.barh(place, epsilon, 0.32, **bar)
            note = f"{epsilon:.2f} {word}"
            axes.annotate(
                note,
                (epsilon, place),
                (4, 0),
                "data",
                "offset points",
                va="center",
                fontsize=8,
                **text,
            )
    axes.set_yticks(
        range(len(spending)),
        ["\n".join(item.account.rsplit(" ", 1)) for item in spending],
    )
    axes.set_ylim(len(spending) - 0.5, -0.5)
    axes.set_xlim(0.0, 1.4 * max(item.summed_epsilon for item in spending))
    axes.grid(axis="y", visible=False)
    axes.set_title("epsilon spent, at the same delta")


def profile_figure(profile: Any) -> Figure:
    """The town's average day with its band."""
    with drawing(WIDTH, 2.9) as (figure, axes):
        draw_profile(axes, profile)
        return figure


def draw_profile(axes: Axes, profile: Any) -> None:
    """The same inside a panel."""
    hours, kw, low, high = (
        np.asarray(profile[name])
        for name in ("hour", "mean_kw", "mean_kw_low", "mean_kw_high")
    )
    axes.fill_between(hours + 0.5, low, high, color=SERIES[3], alpha=0.2, linewidth=0)
    axes.plot(hours + 0.5, kw, color=SERIES[3])
    axes.set(xlim=(0.0, 24.0), xlabel="hour of the day")
    axes.set_xticks(range(0, 25, 6))


def evening_figure(
    forecast: PrivateForecast, plain: Floats | None = None, truth: Floats | None = None
) -> Figure:
    """The forecast; with the plain one and the truth it is for the owner alone."""
    with drawing(WIDTH, 2.9) as (figure, axes):
        draw_evening(axes, forecast, plain, truth)
        axes.set_title(f"kW, {_day_name(forecast.times[0])}")
        if plain is not None or truth is not None:
            legend_above(figure, axes)
        return figure


def total_figure(total: FeederTotal, truth: Floats | None = None) -> Figure:
    """The total as it grows, and each day's own energy from it; with the true ones for the owner alone."""
    with drawing(WIDTH, 2.9, 1, 2) as (figure, (left, right)):
        days = np.arange(1, total.kwh.size + 1) / total.per_day
        left.plot(days, total.kwh / 1000, color=SERIES[3], label="private")
        right.bar(
            np.arange(1, total.day_kwh.size + 1),
            total.day_kwh / 1000,
            0.7,
            color=SERIES[3],
            label="private",
        )
        right.errorbar(
            np.arange(1, total.day_kwh.size + 1),
            total.day_kwh / 1000,
            2 * total.day_sd / 1000,
            fmt="none",
            ecolor=FAINT,
            elinewidth=1.0,
        )
        if truth is not None:
            left.plot(days, truth / 1000, color=INK, linewidth=1.0, label="true")
            true_days = np.diff(truth[total.per_day - 1 :: total.per_day], prepend=0.0)
            right.plot(
                np.arange(1, true_days.size + 1),
                true_days / 1000,
                "_",
                color=INK,
                markersize=9,
                markeredgewidth=1.8,
            )
            legend_above(figure, left)
        left.set(title="energy so far, MWh", xlabel="day", ylim=(0.0, None))
        right.set(title="of each day, MWh; two standard errors", xlabel="day")
        return figure


def draw_evening(
    axes: Axes,
    forecast: PrivateForecast,
    plain: Floats | None = None,
    truth: Floats | None = None,
) -> None:
    """A forecast with its band inside a panel."""
    hours = _hours(forecast.times)
    axes.fill_between(
        hours,
        forecast.lower_kw,
        forecast.upper_kw,
        color=SERIES[0],
        alpha=0.18,
        linewidth=0,
    )
    axes.plot(
        hours, forecast.kw, color=SERIES[0], marker="o", markersize=3, label="released"
    )
    if plain is not None:
        axes.plot(
            hours,
            plain,
            color=INK,
            linestyle="--",
            linewidth=1.2,
            label="plain forecast",
        )
    if truth is not None:
        axes.plot(
            hours,
            np.maximum(truth, 0.01),
            color=SERIES[1],
            linewidth=1.2,
            label="truth",
        )
    _log_kw(axes)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("hour of the day")


def days_figure(drawn: pa.Table, truth: Mapping[str, Floats] | None = None) -> Figure:
    """One panel per kind of day: spread of synthetic days; `truth` holds the quantiles 5, 50, 95 % of the real ones."""
    with drawing(WIDTH, 2.9, 1, len(DAY_KINDS), sharey=True) as (figure, panels):
        for index, (axes, kind) in enumerate(zip(panels, DAY_KINDS)):
            draw_days(
                axes, kw_of(drawn, kind), index, None if truth is None else truth[kind]
            )
            axes.set_title(f"{kind}s")
        panels[0].set_ylabel("kW")
        if truth is not None:
            legend_above(figure, panels[0])
        return figure


def kw_of(drawn: pa.Table, kind: str | None = None) -> Floats:
    """Days x parts of the day, of one kind or of all."""
    rows = np.column_stack([drawn[name].to_numpy() for name in PARTS])
    if kind is None:
        return rows
    return np.asarray(rows[np.array(drawn["kind"].to_pylist()) == kind])


def draw_days(
    axes: Axes, rows: Floats, index: int, truth: Floats | None = None
) -> None:
    """Quantiles of days in kW inside a panel."""
    colour = SERIES[index % len(SERIES)]
    count = rows.shape[1]
    hours = (np.arange(count) + 0.5) * 24 / count
    if len(rows):
        for low, high, strength in BANDS:
            below, above = np.percentile(rows, [low, high], axis=0)
            axes.fill_between(
                hours, below, above, color=colour, alpha=strength, linewidth=0
            )
        axes.plot(hours, np.median(rows, axis=0), color=colour, label="synthetic")
    if truth is not None:
        for line, quantile in zip(truth, ("5 %", "median", "95 %")):
            middle = quantile == "median"
            axes.plot(
                hours,
                line,
                color=INK,
                linestyle="-" if middle else "--",
                linewidth=1.2,
                label="real" if middle else None,
            )
    _log_kw(axes)
    axes.set(xlim=(0.0, 24.0), xlabel="hour of the day")
    axes.set_xticks(range(0, 25, 6))


def stream_figure(
    times: Times, kw: Floats, day_kwh: Floats, truth: Floats | None = None
) -> Figure:
    """The energy of every day, and private readings of the last days; with the true readings for the owner alone."""
    with drawing(WIDTH, 2.9, 1, 2, width_ratios=(1.0, 1.2)) as (figure, (right, left)):
        per_day = kw.size // max(day_kwh.size, 1)
        shown = slice(-SHOWN_DAYS * per_day, None)
        hours = np.asarray(
            (times[shown] - times[shown][0]) / np.timedelta64(1, "h"), dtype=np.float64
        )
        left.plot(hours, kw[shown], color=SERIES[2], linewidth=0.8, label="private")
        left.set(
            xlabel=f"hours from {str(times[shown][0]).replace('T', ' ')}",
            xlim=(0.0, 24.0 * SHOWN_DAYS),
        )
        left.set_xticks(range(0, 24 * SHOWN_DAYS + 1, 12))
        left.set_title("what the receiver sees, kW")
        draw_energies(
            right,
            day_kwh,
            None if truth is None else truth.reshape(-1, per_day).mean(axis=1) * 24.0,
        )
        if truth is not None:
            left.plot(hours, truth[shown], color=INK, linewidth=1.2, label="true")
            legend_above(figure, left)
        return figure


def draw_energies(axes: Axes, day_kwh: Floats, truth: Floats | None = None) -> None:
    """The energy of every day as bars inside a panel."""
    days = np.arange(1, day_kwh.size + 1)
    axes.bar(days, day_kwh, 0.7, color=SERIES[2], label="private")
    if truth is not None:
        axes.plot(
            days, truth, "_", color=INK, markersize=9, markeredgewidth=1.8, label="true"
        )
    axes.axhline(0.0, color=FAINT, linewidth=0.8)
    axes.set_xlabel("day")
    axes.set_title("energy of every day, kWh")


def sketch_figure(
    sketch: Sketch, truth: Floats | None = None, clipped: Floats | None = None
) -> Figure:
    """Diagonal of the Gram matrix with two standard errors; the true one, and that of clipped rows, for the owner."""
    found = sketch.gram()
    value = np.diagonal(found.value)
    error = np.diagonal(found.standard_error)
    places = np.arange(len(sketch.columns))
    with drawing(WIDTH, 2.7) as (figure, axes):
        axes.errorbar(
            places,
            value,
            2 * error,
            fmt="o",
            color=SERIES[3],
            markersize=5,
            linewidth=1.6,
            capsize=4,
            label="estimate",
        )
        if clipped is not None:
            axes.plot(
                places,
                clipped,
                "x",
                color=INK,
                markersize=6,
                label="true, clipped rows",
            )
        if truth is not None:
            axes.plot(
                places,
                truth,
                "_",
                color=SERIES[1],
                markersize=12,
                markeredgewidth=1.8,
                label="true, all of it",
            )
        axes.axhline(0.0, color=FAINT, linewidth=0.8)
        axes.set_xticks(places, sketch.columns)
        axes.set_title("second moment of log power, summed over the homes")
        if truth is not None:
            legend_above(figure, axes)
        return figure


def overview_figure(
    profile: Any, forecast: PrivateForecast, rows: Floats, spending: Sequence[Spending]
) -> Figure:
    """The demo in one picture: the town's day, a forecast, synthetic days, and what was spent."""
    with drawing(7.6, 5.4, 2, 2) as (figure, grid):
        figure.get_layout_engine().set(w_pad=0.12, h_pad=0.12)  # type: ignore[union-attr, call-arg]
        panels = grid.ravel()
        draw_profile(panels[0], profile)
        draw_evening(panels[1], forecast)
        draw_days(panels[2], rows, 1)
        draw_budget(panels[3], spending)
        titles = (
            "The town's average day",
            "A private forecast of one home",
            "Synthetic days",
            "What it cost, exactly",
        )
        notes = (
            "mean kW by hour; the band holds the true one with 95 %",
            f"kW; the band holds a reading with {100 * forecast.coverage:.0f} %",
            "kW of made-up days; bands: half and 90 % of them",
            "epsilon: promises summed, and composed exactly",
        )
        for axes, title, note in zip(panels, titles, notes):
            axes.set_title(title, pad=22.0, color=INK, fontweight="bold")
            axes.annotate(
                note,
                (0.0, 1.0),
                (0, 10),
                "axes fraction",
                "offset points",
                fontsize=8,
                color=FAINT,
            )
        return figure


def _log_kw(axes: Axes) -> None:
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda kw, _: f"{kw:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def _hours(times: Times) -> Floats:
    midnight = times[0].astype("datetime64[D]")
    return np.asarray((times - midnight) / np.timedelta64(1, "h"), dtype=np.float64)


def _day_name(time: np.datetime64) -> str:
    day = time.astype("datetime64[D]")
    name = (
        "Monday",
        "Tuesday",
        "Wednesday",
        "Thursday",
        "Friday",
        "Saturday",
        "Sunday",
    )
    return f"{name[int((day.astype(int) + 3) % 7)]}, {day}"
