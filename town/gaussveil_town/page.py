"""The report of the demo: a page to share, of released and public values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gaussveil.accounting import Certificate
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table
from gaussveil.report.table import BAND
from gaussveil_town.figures import (
    budget_figure,
    days_figure,
    evenings_figure,
    profile_figure,
    sketch_figure,
    stream_figure,
)
from gaussveil_town.released import TownReleases


def town_report(
    town: TownReleases, curves: Sequence[Section] = (), footer: str = ""
) -> Report:
    """Lay the releases out with their pictures, what they cost, and their certificates; `curves` come last."""
    if town.repeatable:
        note = " Drawn from a seed, so that it can be repeated: no privacy is promised."
    else:
        note = ""
    return Report(
        title="What a town's meters may tell",
        summary=f"Five private releases from {town.source}, what they cost, and the proof of it.{note}",
        sections=(
            _profile(town),
            _budget(town),
            _forecasts(town),
            _days(town),
            _stream(town),
            _sketch(town),
            _certificates(town),
            *curves,
        ),
        footer=footer,
    )


def _profile(town: TownReleases) -> Section:
    return Section(
        heading="The town's average day",
        paragraphs=(
            "Mean power by hour over all homes; it hides whether a home is in the town at all, with all that it drew. "
            "How much a home may draw was not told: the bounds were learnt within the same budget.",
        ),
        figure=svg(
            profile_figure(town.profile),
            "profile",
            "Mean power of the town by hour, with its band.",
        ),
        caption=f"kW. {BAND}",
    )


def _budget(town: TownReleases) -> Section:
    rows = [
        (
            item.account,
            str(item.releases),
            f"{item.summed_epsilon:.3g}",
            f"{item.exact_epsilon:.4g}",
            f"{item.saved:.0%}",
            f"{item.budget[0]:g}",
        )
        for item in town.spending
    ]
    return Section(
        heading="What it cost",
        paragraphs=(
            "Every release was debited to a ledger before its noise was drawn. The usual way to add releases up is to "
            "sum their epsilons; the privacy losses composed exactly, at the same delta, come to less.",
            "The accounts promise different things to the same homes, so they stand side by side and are not added: "
            + "; ".join(
                f'"{item.account}" hides {item.protects}' for item in town.spending
            )
            + ".",
        ),
        figure=svg(
            budget_figure(town.spending),
            "budget",
            "Summed and exact epsilon of each account.",
        ),
        table=Table(
            (
                "account",
                "releases",
                "summed epsilon",
                "exact epsilon",
                "less",
                "budget",
            ),
            rows,
            caption="Epsilon at the summed delta of the releases; for releases fixed in advance, as here.",
        ),
    )


def _forecasts(town: TownReleases) -> Section:
    known = town.checked[_place(town, "forecast")].certificate.parameters
    kept = float(str(known["retained_variance"]))
    meaning = "the rest was given up so that they look alike"
    if kept < 0.01:
        meaning = "the forecast is the average of its group"
    return Section(
        heading="A private forecast of one home",
        paragraphs=(
            f"Three evenings of one home, hidden among {known['cluster_size']} alike: whoever reads the forecast "
            f"can hardly tell which of them it is. It keeps {kept:.2g} of the variance between their forecasts; "
            f"{meaning}.",
        ),
        figure=svg(
            evenings_figure(town.forecasts),
            "evenings",
            "Three evening forecasts in kW with their bands.",
        ),
        caption=f"Power in kW on a log scale; the band holds a reading with probability "
        f"{town.forecasts[0].coverage:.0%}, on average over the cluster.",
    )


def _days(town: TownReleases) -> Section:
    weights = ", ".join(
        f"{name} {weight:.0%}"
        for name, weight in zip(town.model.classes, town.model.weights)
    )
    return Section(
        heading="A private mixture of load profiles, and synthetic days",
        paragraphs=(
            "One Gaussian of log power in eight parts of the day for each kind of day, from the last week of every "
            f"home; it hides whether a home is in the town at all. Released weights: {weights}. Anybody may draw as "
            "many synthetic days from it as they like: that costs nothing.",
        ),
        figure=svg(
            days_figure(town.model, town.synthetic, town.synthetic_kinds),
            "days",
            "Synthetic days by kind: median and spread of power over the day.",
        ),
        caption=f"{len(town.synthetic)} synthetic days: median, the middle half, and nine tenths of them.",
    )


def _stream(town: TownReleases) -> Section:
    known = town.checked[_place(town, "stream")].certificate
    return Section(
        heading="A private stream of one meter",
        paragraphs=(
            f"Every reading is answered with a private one, which hides that {known.adjacency}, in kW. Single readings "
            f"drown in the noise on purpose. {_register_errors(known)}",
        ),
        figure=svg(
            stream_figure(town.stream_times, town.stream_kw, town.day_kwh),
            "stream",
            "Private readings of one meter, and the private energy of every day.",
        ),
        caption="Left: private readings of the last two days. Right: energy of every day, from the register.",
    )


def _register_errors(certificate: Certificate) -> str:
    """How far the registers are off, which is public."""
    known: Any = certificate.parameters
    day, *_, month = (
        row["noise_sd"] * known["sample_period_hours"] for row in known["registers"]
    )
    return (
        f"The register of a day is off by {day:.2g} kWh (standard deviation), that of 28 days by {month:.2g} kWh: much "
        "for a day, little for a bill by the month."
    )


def _sketch(town: TownReleases) -> Section:
    first, second = town.sketch.pca(2).value
    return Section(
        heading="A private sketch of the homes' profiles",
        paragraphs=(
            f"A random projection of one row per home onto {town.sketch.components} directions. From it anybody can "
            "estimate second moments, regressions and principal components, each with its error bar. Here the largest "
            f"component, the size of a home, carries {first / max(second, 1e-9):.1f} times as much as the next.",
        ),
        figure=svg(
            sketch_figure(town.sketch),
            "sketch",
            "Second moments of log power by part of the day, with error bars.",
        ),
        caption="Sum over the homes of squared log power (less a public centre), with two standard errors.",
    )


def _certificates(town: TownReleases) -> Section:
    rows = [
        (
            item.name,
            f"{item.certificate.epsilon:g}",
            f"{item.certificate.delta:g}",
            f"{item.verification.delta_upper:.4g}",
            "verified" if item.verification.ok else "does not verify",
            item.certificate.release_id[:8],
        )
        for item in town.checked
    ]
    kinds = {item.name: item.certificate for item in town.checked}
    return Section(
        heading="Certificates",
        paragraphs=(
            "Each release came with a certificate that holds its dominating pair of Gaussians. They were recomputed in "
            "ball arithmetic when this page was made; recompute them yourself with `gaussveil verify` on the files in "
            "the folder certificates.",
        ),
        facts=tuple(
            (name, f"{found.adjacency}; {found.guarantee}; {found.charge.describe()}")
            for name, found in kinds.items()
        ),
        table=Table(
            (
                "release",
                "epsilon",
                "delta",
                "recomputed delta, at most",
                "certificate",
                "id",
            ),
            rows,
            caption="Recomputed: rigorous upper end, sampler included.",
        ),
    )


def _place(town: TownReleases, name: str) -> int:
    return next(index for index, item in enumerate(town.checked) if item.name == name)
