"""The report of the demo: a page to share, of released and public values only."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate
from gaussveil.calibration import mean_shift_for
from gaussveil.mechanisms import PrivateForecaster
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table
from gaussveil.report.table import LEARNT
from gaussveil_town.evening import error_left, promised
from gaussveil_town.feeder import ZONES
from gaussveil_town.figures import (
    budget_figure,
    days_figure,
    evening_figure,
    profile_figure,
    sketch_figure,
    stream_figure,
    total_figure,
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
        summary=f"Six private releases from {town.source}: what each is for, how far off it is, what it cost, and the "
        f"proof of it.{note}",
        sections=(
            _profile(town),
            _total(town),
            _days(town),
            _stream(town),
            _forecast(town),
            _sketch(town),
            _budget(town),
            _certificates(town),
            *curves,
        ),
        footer=footer,
    )


def _profile(town: TownReleases) -> Section:
    mean, low, high = (
        np.asarray(town.profile[name], dtype=np.float64)
        for name in ("mean_kw", "mean_kw_low", "mean_kw_high")
    )
    share = float(np.mean((high - low) / 2) / max(float(mean.mean()), 1e-9))
    return Section(
        heading="The town's average day",
        paragraphs=(
            "Use: to buy tomorrow's energy by the hour, and to compare the town with others.",
            "Mean power by hour over all homes; it hides whether a home is in the town at all, with all that it drew. "
            "How much a home may draw was not told: the bounds were learnt within the same budget.",
        ),
        facts=(
            ("Error", f"the band reaches {share:.0%} of the mean, on average by hour"),
            ("By zone?", f"Asked by {ZONES} zones it {town.by_zone}"),
        ),
        figure=svg(
            profile_figure(town.profile),
            "profile",
            "Mean power of the town by hour, with its band.",
        ),
        caption=f"kW. {LEARNT}",
    )


def _total(town: TownReleases) -> Section:
    total = town.total
    last = float(total.kwh[-1])
    return Section(
        heading="The feeder's energy, as it grows",
        paragraphs=(
            "Use: to settle with the grid, and to see losses, what the substation delivers less what the homes draw, "
            "while no home's day shows in any of the totals.",
            f"After every hour the energy so far of all {town.homes} homes. One debit pays for all totals, and any "
            "window between two of them is free.",
        ),
        facts=(
            (
                "Error",
                f"of the last total {total.sd:,.0f} kWh (standard deviation), {_share(total.sd, last)} of it; of the "
                f"last week's energy {_share(total.week_sd, total.week_kwh)}",
            ),
            (
                "Beside a binary tree",
                f"{total.total_sd:,.0f} kWh on a total, where a tree has {total.tree_sd:,.0f}",
            ),
        ),
        figure=svg(
            total_figure(total), "total", "Energy so far, and the energy of every day."
        ),
        caption="MWh, all homes together.",
    )


def _share(error: float, value: float) -> str:
    """An error in per cent of a released value, or that it is above it."""
    if error >= abs(value):
        return "more than all"
    return f"{100 * error / abs(value):.2g} %"


def _budget(town: TownReleases) -> Section:
    rows = [
        (
            item.account,
            str(item.releases),
            f"{item.summed_epsilon:.3g}",
            f"{item.exact_epsilon:.4g}",
            f"{item.saved:.0%}",
            f"({item.budget[0]:g}, {item.budget[1]:g})",
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


def _forecast(town: TownReleases) -> Section:
    known = town.checked[_place(town, "forecast")].certificate
    kept = float(str(known.parameters["retained_variance"]))
    size = known.parameters["cluster_size"]
    if known.parameters["product"] == "household":
        meaning = f"It keeps {kept:.2g} of the variance between their forecasts"
    else:
        meaning = (
            "Its homes are too few or too different to keep anything of one: it is the average of its group, which "
            "costs nothing"
        )
    rows = [
        (
            f"({epsilon:g}, {delta:g})",
            f"{mean_shift_for(epsilon, delta):.2f}",
            f"{error_left(epsilon, delta):.0%}",
            "chosen" if (epsilon, delta) == promised() else "",
        )
        for epsilon, delta in sorted(PrivateForecaster.dial_promises)
    ]
    return Section(
        heading="A forecast of one home's evening",
        paragraphs=(
            "Use: to let a service plan a home's battery or car without learning whose home it is.",
            f"It hides which of {size} alike is forecast, not the readings behind it. {meaning}. What that costs: "
            f"epsilon {known.epsilon:g}, delta {known.delta:g}, a weak promise: at much stronger ones the forecast "
            "is the average of its group, which is free. The setting follows a public rule: the least promise at "
            "which, of two homes, three quarters of the squared error of their average are gone.",
        ),
        facts=(
            (
                "Error",
                f"the band, {_factor(town)} either way, holds a reading with probability "
                f"{town.forecast.coverage:.0%}, on average over the group",
            ),
        ),
        figure=svg(
            evening_figure(town.forecast),
            "evening",
            "A forecast of one evening in kW with its band.",
        ),
        caption="Power in kW on a log scale.",
        table=Table(
            ("promise", "mean shift", "squared error left", ""),
            rows,
            caption="Of two homes' forecasts: as a share of the squared error of their average (the owner's page has "
            "the dial of these homes).",
        ),
    )


def _factor(town: TownReleases) -> str:
    """By what factor the band reaches above the forecast."""
    found = np.median(np.asarray(town.forecast.upper_kw) / np.asarray(town.forecast.kw))
    return f"a factor of about {float(found):.2g}"


def _days(town: TownReleases) -> Section:
    quality = town.model.quality
    assert quality is not None
    facts = [
        (
            "Error",
            f"columns lie within {quality.mean_gap:.1%} of the real ones, on average (distance of distributions)",
        )
    ]
    if quality.advice:
        facts.append(("Not to be relied on", " ".join(quality.advice)))
    return Section(
        heading="Synthetic days",
        paragraphs=(
            "Use: to try out tariffs, batteries and software on days that nobody lived.",
            "Eight parts of the day for each kind of day, from the last week of every home; it hides whether a home is "
            "in the town at all, with its whole week. Anybody may draw as many days as they like: that costs nothing.",
        ),
        facts=tuple(facts),
        figure=svg(
            days_figure(town.synthetic),
            "days",
            "Synthetic days by kind: median and spread of power over the day.",
        ),
        caption=f"{len(town.synthetic)} synthetic days: median, the middle half, and nine tenths of them.",
    )


def _stream(town: TownReleases) -> Section:
    known = town.checked[_place(town, "stream")].certificate
    return Section(
        heading="One meter's bill, privately",
        paragraphs=(
            "Use: a bill by the month from a meter whose appliances nobody can watch.",
            f"It hides that {known.adjacency}, in kW. The registers are what is useful. The readings between them are "
            "shown only as what the receiver sees: each drowns in the noise, on purpose.",
        ),
        facts=(("Error", _register_errors(known)),),
        figure=svg(
            stream_figure(town.stream_times, town.stream_kw, town.day_kwh),
            "stream",
            "Private readings of one meter, and the private energy of every day.",
        ),
        caption="Left: energy of every day, from the register. Right: private readings of the last two days.",
    )


def _register_errors(certificate: Certificate) -> str:
    """How far the registers are off, which is public."""
    known: Any = certificate.parameters
    day, *_, month = (
        row["noise_sd"] * known["sample_period_hours"] for row in known["registers"]
    )
    return (
        f"28 days' energy is off by {month:.2g} kWh (standard deviation), a day's by {day:.2g} kWh: little for a bill "
        "by the month, much for a day"
    )


def _sketch(town: TownReleases) -> Section:
    first, second = town.sketch.pca(2).value
    gram = town.sketch.gram()
    value = np.diagonal(gram.value)
    error = np.diagonal(gram.standard_error)
    return Section(
        heading="A private sketch of the homes' profiles",
        paragraphs=(
            "Use: to find out in what homes differ, and to fit models to them, without a table of homes.",
            f"A random projection of one row per home onto {town.sketch.components} directions. From it anybody can "
            "estimate second moments, regressions and principal components, each with its error bar. Here the largest "
            f"component, the size of a home, carries {first / max(second, 1e-9):.1f} times as much as the next.",
        ),
        facts=(
            (
                "Error",
                f"of a second moment {float(np.mean(error / np.maximum(np.abs(value), 1e-9))):.0%} of it, on average",
            ),
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
