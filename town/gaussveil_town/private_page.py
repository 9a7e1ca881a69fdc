"""The owner's page of the demo: the truth beside every release, and the audits. Private, and marked as such."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gaussveil.accounting import PrivateDiagnostics
from gaussveil.accounting.diagnostics import MARK
from gaussveil.audit import Audit
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table
from gaussveil.typing import Floats
from gaussveil_town.figures import (
    days_figure,
    evenings_figure,
    sketch_figure,
    stream_figure,
)
from gaussveil_town.released import TownReleases

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
            _evenings(town, _lines(private, "plain_kw"), _lines(private, "truth_kw")),
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
            "Forecast: every ordered pair of homes in the cluster. Mixture: the worst pair that any home can make. "
            "Stream: the promised event taken out at every time of the meter's own readings. Sketch: every home left "
            "out in turn. Delta is exact, both directions, at the promised epsilon.",
        ),
        table=Table(
            ("release", "neighbours", "promised delta", "worst delta found", "verdict"),
            rows,
        ),
    )


def _evenings(town: TownReleases, plain: list[Floats], truth: list[Floats]) -> Section:
    released = np.concatenate([one.kw for one in town.forecasts])
    actual = np.concatenate(truth)
    inside = np.concatenate(
        [
            (one.lower_kw <= came) & (came <= one.upper_kw)
            for one, came in zip(town.forecasts, truth)
        ]
    )
    return Section(
        heading="Forecasts",
        facts=(
            (
                "Error of the release",
                f"{_rmse(released, actual):.3g} kW, root mean square over the three evenings",
            ),
            (
                "Error of the plain forecast",
                f"{_rmse(np.concatenate(plain), actual):.3g} kW",
            ),
            ("Readings inside the band", f"{inside.mean():.0%} of {inside.size}"),
        ),
        figure=svg(
            evenings_figure(town.forecasts, plain, truth),
            "evenings",
            "Released and plain forecasts, and the truth.",
        ),
    )


def _days(town: TownReleases, private: PrivateDiagnostics) -> Section:
    quantiles: Any = private["day_quantiles"]
    assert isinstance(quantiles, Mapping)
    truth = [np.asarray(quantiles[str(name)]) for name in town.model.classes]
    return Section(
        heading="Synthetic days beside the real ones",
        paragraphs=(
            "Lines in ink: median, and 5 and 95 %, of the days that the mixture was fitted to.",
        ),
        facts=(
            (
                "Divergence",
                f"{float(np.asarray(private['mixture_divergence'])):.3g}: Kullback-Leibler, from the fit without "
                "privacy to the released mixture",
            ),
        ),
        figure=svg(
            days_figure(town.model, town.synthetic, town.synthetic_kinds, truth),
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


def _lines(private: PrivateDiagnostics, name: str) -> list[Floats]:
    found: Any = private[name]
    return [np.asarray(line, dtype=np.float64) for line in found]


def _rmse(one: Floats, other: Floats) -> float:
    return float(np.sqrt(np.mean((one - other) ** 2)))
