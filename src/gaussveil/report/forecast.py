"""Pages and figures of private forecasts: one to share, and one for the owner alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter
from numpy.typing import NDArray

from gaussveil.accounting import Certificate, PrivateDiagnostics
from gaussveil.accounting.diagnostics import MARK
from gaussveil.figure_style import FAINT, INK, SERIES, drawing, legend_above
from gaussveil.mechanisms import PrivateForecast
from gaussveil.mechanisms.forecast_plan import SMALLEST_KEPT
from gaussveil.report.certificate import certificate_report
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table
from gaussveil.typing import Floats

LOWEST_KW = 0.01  # a zero has no place on a log axis


def forecast_report(
    forecast: PrivateForecast,
    certificate: Certificate,
    diagnostics: PrivateDiagnostics | None = None,
) -> Report:
    """The released forecast with its band, then its certificate. With diagnostics the page is for the owner alone."""
    page = certificate_report(certificate)
    figure = forecast_figure(forecast, diagnostics)
    shown = Section(
        heading="Forecast",
        paragraphs=(f"{kept_words(certificate).capitalize()}.",),
        figure=svg(
            figure, "forecast", "Released forecast in kW over time with its band."
        ),
        caption=f"Power in kW; the band holds a future reading with probability {forecast.coverage:.0%}, on average "
        "over the cluster.",
        table=None if forecast.kw.ndim > 1 else _table(forecast),
    )
    sections = [shown, *page.sections]
    if diagnostics is None:
        return replace(page, sections=sections)
    sections.insert(1, _private(forecast, diagnostics))
    return replace(page, title=f"{page.title} ({MARK})", sections=sections)


def kept_words(certificate: Certificate) -> str:
    """What is released, and what hiding has left of the differences between households."""
    stated = certificate.parameters
    kept = float(str(stated["retained_variance"]))
    size = stated["cluster_size"]
    if stated["product"] == "group":
        return (
            f"the forecast is the average of its group of {size} households: of one of them alone it would keep "
            f"{float(str(stated['kept_alone'])):.2g} of the variance between them, less than the "
            f"{float(str(stated['smallest_kept'])):g} asked for"
        )
    words = f"hidden among {size} households, {kept:.2g} of the variance between their forecasts kept"
    if kept < SMALLEST_KEPT:
        return f"{words}: the forecast is the average of its group"
    return words


def absolute_errors(
    forecast: PrivateForecast, diagnostics: PrivateDiagnostics
) -> dict[str, float]:
    """Mean absolute error in kW of what was released, of the plain forecast and of the group's average, if known."""
    if "truth_kw" not in diagnostics or forecast.kw.ndim > 1:
        return {}
    truth = _values(diagnostics, "truth_kw")
    made = {"released": forecast.kw, "plain": _values(diagnostics, "plain_kw")}
    made["group"] = _values(diagnostics, "group_kw")
    return {name: float(np.mean(np.abs(kw - truth))) for name, kw in made.items()}


def _table(forecast: PrivateForecast) -> Table:
    rows = [
        (str(time).replace("T", " "), f"{kw:.3f}", f"{low:.3f}", f"{high:.3f}")
        for time, kw, low, high in zip(
            forecast.times, forecast.kw, forecast.lower_kw, forecast.upper_kw
        )
    ]
    return Table(columns=("from", "kW", "band from", "band to"), rows=rows)


def _private(forecast: PrivateForecast, diagnostics: PrivateDiagnostics) -> Section:
    told = {
        "released": "the release",
        "plain": "the plain forecast",
        "group": "the group's average",
    }
    errors = absolute_errors(forecast, diagnostics)
    return Section(
        heading="For the owner only",
        paragraphs=(
            f"This page {MARK}: it shows the household's past and its plain forecast.",
        ),
        facts=(
            (
                "Error of the plain forecast",
                f"{_number(diagnostics, 'plain_rmse_kw'):.3g} kW, root mean square",
            ),
            (
                "Error of the release",
                f"{_number(diagnostics, 'private_rmse_kw'):.3g} kW",
            ),
            (
                "Mean squared error added in log power",
                f"{_number(diagnostics, 'log_mse'):.3g}",
            ),
            *(
                (f"Mean absolute error of {told[name]}", f"{error:.3g} kW")
                for name, error in errors.items()
            ),
        ),
    )


def _number(diagnostics: PrivateDiagnostics, name: str) -> float:
    return float(_values(diagnostics, name))


def _values(diagnostics: PrivateDiagnostics, name: str) -> Any:
    return np.asarray(diagnostics[name])


def forecast_figure(
    forecast: PrivateForecast, diagnostics: PrivateDiagnostics | None = None
) -> Figure:
    """Draw released forecasts with their bands; with diagnostics also past day, plain forecast and truth (Figure 2).

    Power is on a log scale, where the band is symmetric; hours count from the first step forecast.
    """
    origin = forecast.times[0]
    hours = _hours(forecast.times, origin)
    with drawing(7.2, 3.6) as (figure, axes):
        bands = zip(
            *(
                np.atleast_2d(part)
                for part in (forecast.kw, forecast.lower_kw, forecast.upper_kw)
            )
        )
        for index, (kw, low, high) in enumerate(bands):
            colour = SERIES[index % len(SERIES)]
            if forecast.kw.ndim == 1:
                axes.fill_between(
                    hours, low, high, color=colour, alpha=0.18, linewidth=0
                )
            axes.plot(
                hours,
                kw,
                color=colour,
                marker="o",
                markersize=3,
                label=None if index else "released",
            )
        if diagnostics is not None:
            past = _hours(
                np.array(diagnostics["past_times"], dtype="datetime64[m]"), origin
            )
            axes.plot(
                past,
                _shown(diagnostics, "past_kw"),
                color=FAINT,
                linewidth=1.2,
                label="past day",
            )
            axes.plot(
                hours,
                _shown(diagnostics, "plain_kw"),
                color=INK,
                linestyle="--",
                label="plain forecast",
            )
            if "truth_kw" in diagnostics:
                axes.plot(
                    hours,
                    _shown(diagnostics, "truth_kw"),
                    color=INK,
                    linewidth=1.2,
                    label="truth",
                )
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1.0, 3.0)))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda kw, _: f"{kw:g}"))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.set_xlabel(f"hours from {str(origin).replace('T', ' ')}")
        axes.set_title("power in kW")
        legend_above(figure, axes)
        return figure


def _hours(times: NDArray[np.datetime64], origin: np.datetime64) -> Floats:
    return np.asarray((times - origin) / np.timedelta64(1, "h"), dtype=np.float64)


def _shown(diagnostics: PrivateDiagnostics, name: str) -> Floats:
    return np.asarray(
        np.maximum(_values(diagnostics, name), LOWEST_KW), dtype=np.float64
    )
