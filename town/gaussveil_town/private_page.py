"""The owner's page of the demo: the truth beside every release, and the audits. Private, and marked as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaussveil.accounting import PrivateDiagnostics
from gaussveil.accounting.diagnostics import MARK
from gaussveil.audit import Audit
from gaussveil.mechanisms import DialPoint
from gaussveil.report.figures import svg
from gaussveil.report.forecast_dial import HEADINGS, dial_figure, dial_lines
from gaussveil.report.html import Report, Section, Table
from gaussveil.typing import Floats
from gaussveil_town.figures import (
    days_figure,
    evening_figure,
    kw_of,
    sketch_figure,
    stream_figure,
    total_figure,
)
from gaussveil_town.released import TownReleases
from gaussveil_town.tables import DAY_KINDS

Audits = Sequence[tuple[str, Audit]]


def town_private_report(
    town: TownReleases, private: PrivateDiagnostics, audits: Audits
) -> Report:
    """True values beside released ones, and what an exact auditor found on the real neighbours."""
    return Report(
        title=f"Diagnostics: {MARK}",
        summary="True values beside released ones, for the owner of the data alone. Whoever sees this page learns what "
        "the releases hide; no guarantee covers it.",
        sections=(
            _audits(audits),
            _total(town, _array(private, "total_kwh")),
            _evening(town, _array(private, "plain_kw"), _array(private, "truth_kw")),
            _dial(private),
            _days(town, private),
            _stream(town, np.asarray(private["meter_kw"])),
            _sketch(town, private),
        ),
        footer=f"This page {MARK}.",
    )


def _audits(audits: Audits) -> Section:
    rows = [
        (
            name,
            str(len(found.log_delta)),
            f"{found.claim.delta:g}",
            f"{max(found.findings[0].delta_x_y, found.findings[0].delta_y_x):.4g}",
            found.verdict.replace("-", " "),
        )
        for name, found in audits
    ]
    return Section(
        heading="Audits on the real neighbours",
        paragraphs=(
            "Forecast: every ordered pair of homes in the group. Profile, total and days: the worst pair that any home "
            "can make. Stream: the promised event taken out at every time of the meter's own readings. Sketch: every "
            "home left out in turn. Delta is exact, both directions, at the promised epsilon.",
        ),
        table=Table(
            ("release", "neighbours", "promised delta", "worst delta found", "verdict"),
            rows,
        ),
    )


def _total(town: TownReleases, truth: Floats) -> Section:
    error = _rmse(town.total.kwh, truth)
    return Section(
        heading="The feeder's energy",
        facts=(
            ("Error of a total", f"{error:,.0f} kWh, root mean square"),
            (
                "Error of the last total",
                f"{abs(town.total.kwh[-1] / truth[-1] - 1):.2%}",
            ),
        ),
        figure=svg(total_figure(town.total, truth), "total", "Private and true."),
    )


def _evening(town: TownReleases, plain: Floats, truth: Floats) -> Section:
    found = town.forecast
    inside = (found.lower_kw <= truth) & (truth <= found.upper_kw)
    return Section(
        heading="Forecast",
        facts=(
            (
                "Error of the release",
                f"{_rmse(found.kw, truth):.3g} kW, root mean square over the evening",
            ),
            ("Error of the plain forecast", f"{_rmse(plain, truth):.3g} kW"),
            ("Readings inside the band", f"{inside.sum()} of {inside.size}"),
        ),
        figure=svg(
            evening_figure(found, plain, truth),
            "evening",
            "Released and plain forecast, and the truth.",
        ),
    )


def _dial(private: PrivateDiagnostics) -> Section:
    given: Any = private["dial"]
    points = [DialPoint(**point) for point in given]
    rows, verdict = dial_lines(points)
    return Section(
        heading="The dial: what a forecast of one home keeps",
        paragraphs=(
            f"All homes of the district, released or not: {verdict}. Errors are of the logarithm of power.",
        ),
        figure=svg(
            dial_figure(points),
            "dial",
            "What is kept at which promise, and the error beside the group's average and the plain forecast.",
        ),
        table=Table(HEADINGS, rows),
    )


def _days(town: TownReleases, private: PrivateDiagnostics) -> Section:
    quantiles: Any = private["day_quantiles"]
    assert isinstance(quantiles, Mapping)
    truth = {kind: np.asarray(quantiles[kind]) for kind in DAY_KINDS}
    made = {
        kind: np.percentile(kw_of(town.synthetic, kind), [5.0, 50.0, 95.0], axis=0)
        for kind in DAY_KINDS
        if len(kw_of(town.synthetic, kind))
    }
    off = np.mean([np.abs(made[kind] / truth[kind] - 1) for kind in made])
    return Section(
        heading="Synthetic days beside the real ones",
        paragraphs=("Lines in ink: median, and 5 and 95 %, of the real days.",),
        facts=(("Error", f"{off:.0%} of these quantiles, on average"),),
        figure=svg(
            days_figure(town.synthetic, truth),
            "days",
            "Synthetic and real days.",
        ),
    )


def _stream(town: TownReleases, meter_kw: Floats) -> Section:
    daily = meter_kw.reshape(town.day_kwh.size, -1).mean(axis=1) * 24.0
    error = _rmse(town.day_kwh, daily)
    return Section(
        heading="Stream",
        facts=(
            (
                "Error of a reading",
                f"{_rmse(town.stream_kw, meter_kw):.3g} kW, root mean square",
            ),
            (
                "Error of a day's energy",
                f"{error:.3g} kWh, {error / daily.mean():.0%} of the mean day",
            ),
            (
                "Error of the total",
                f"{abs(town.day_kwh.sum() / daily.sum() - 1):.1%} over {daily.size} days",
            ),
        ),
        figure=svg(
            stream_figure(town.stream_times, town.stream_kw, town.day_kwh, meter_kw),
            "stream",
            "Private and true.",
        ),
    )


def _sketch(town: TownReleases, private: PrivateDiagnostics) -> Section:
    true, kept = (
        np.asarray(private[name], dtype=np.float64)
        for name in ("moments", "moments_kept")
    )
    return Section(
        heading="Sketch",
        paragraphs=(
            "Error bars cover the sketch; what clipping long rows took away is the rest.",
        ),
        figure=svg(
            sketch_figure(town.sketch, true, kept),
            "sketch",
            "Estimated and true second moments.",
        ),
    )


def _array(private: PrivateDiagnostics, name: str) -> Floats:
    return np.asarray(private[name], dtype=np.float64)


def _rmse(one: Floats, other: Floats) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))
