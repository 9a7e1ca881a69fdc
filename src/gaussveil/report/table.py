"""The page of answers from a table: every answer drawn with its band, the numbers, the certificate."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from gaussveil.accounting import Certificate
from gaussveil.figure_style import SERIES, drawing
from gaussveil.report.certificate import certificate_report
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table
from gaussveil.typing import Floats

MOST_PICTURES = 12
MOST_ROWS = 200
BAND = "Each band holds the true answer of its group with probability 95 %: "
COUNTED = f"{BAND}noise alone, for rows are counted as the certificate says."
STATED = f"{BAND}noise alone. Values beyond the range count as its end."
LEARNT = f"{BAND}noise, and what clipping to learnt bounds took from means and sums."
QUANTILES = (
    "Each band tells where noise, and rows that lie about evenly, put the quantile: with probability 95 %, and "
    "less where many rows share a value, as whole years of age do. Values beyond the range count as its end."
)
TOTALS = 'The row "all" is the sum over the groups: a unit of several groups is in it as often.'


def table_report(answers: Any, certificate: Certificate) -> Report:
    """Answers (an Arrow table as `TableRelease` gives it) as pictures and numbers, then the certificate."""
    page = certificate_report(certificate)
    columns = answers.column_names
    names = [
        name
        for name in columns
        if {f"{name}_sd", f"{name}_low", f"{name}_high"} <= {*columns}
    ]
    keys = columns[: columns.index(names[0])]
    sections = [
        Section(
            heading=name,
            figure=svg(
                answer_figure(answers, keys, name),
                f"answer-{k}",
                f"{name} by group with its band.",
            ),
            caption=_band(name, certificate),
        )
        for k, name in enumerate(names[:MOST_PICTURES])
    ]
    rows = [
        (
            ", ".join("all" if row[key] is None else str(row[key]) for key in keys)
            or "all",
            *(
                f"{row[name]:.5g} ({row[name + '_low']:.5g} to {row[name + '_high']:.5g})"
                for name in names
            ),
        )
        for row in answers.slice(0, MOST_ROWS).to_pylist()
    ]
    numbers = Section(
        heading="Numbers",
        table=Table((", ".join(keys) or "group", *names), rows),
        caption=" ".join(_said_of_numbers(answers, keys, names, certificate)),
    )
    return replace(page, sections=[*sections, numbers, *page.sections])


def _band(name: str, certificate: Certificate) -> str:
    """What the bands of one answer hold."""
    kind = name.partition("_")[0]
    if kind in ("count", "histogram", "cdf", "share"):
        return COUNTED
    learnt = any(part.startswith("profile") for part in certificate.parameters)
    if kind == "quantile":
        return QUANTILES
    if kind in ("mean", "sum") and learnt:
        return LEARNT
    return STATED


def _said_of_numbers(
    answers: Any, keys: list[str], names: list[str], certificate: Certificate
) -> list[str]:
    """What bands hold, of several kinds of answers each once, and what a row of totals is."""
    bands = list(dict.fromkeys(_band(name, certificate) for name in names))
    if len(bands) > 1:
        told = BAND.removesuffix(": ")
        less = ", of quantiles less where many rows share a value" * (
            QUANTILES in bands
        )
        bands = [f"{told}{less}."]
    if keys and answers.column(keys[0]).null_count:
        bands.append(TOTALS)
    return bands


def _groups(answers: Any, keys: list[str]) -> tuple[Any, list[tuple[str, ...]]]:
    """The rows of groups, without those of totals, and what each group is called, key by key."""
    if not keys:
        return answers.slice(0, 1), [("all",)]
    rows = answers.filter(answers.column(keys[0]).is_valid())
    named = rows.select(keys).to_pylist()
    return rows, [tuple(str(row[key]) for key in keys) for row in named]


def _numbers(rows: Any, name: str) -> Floats:
    return np.asarray(rows.column(name), dtype=float)


def _draw_band(
    axes: Axes, place: Floats, ends: list[Floats], style: dict[str, Any]
) -> None:
    """A line of values with the band around it."""
    value, low, high = ends
    axes.fill_between(place, low, high, color=style["color"], alpha=0.18, linewidth=0)
    axes.plot(place, value, **style)


def _draw_bars(
    axes: Axes, place: Floats, ends: list[Floats], style: dict[str, Any]
) -> None:
    """Points of values, each with a bar from its low end to its high one."""
    value, low, high = ends
    errors = [np.maximum(value - low, 0.0), np.maximum(high - value, 0.0)]
    axes.errorbar(place, value, errors, fmt="o", capsize=4, **style)


def answer_figure(
    answers: Any, keys: list[str], name: str, title: str | None = None
) -> Figure:
    """One answer over the groups in their order: a line with its band where there are many, points where few.

    Where there are several keys and few values of all but the first, these have a line each.
    """
    shown_rows, groups = _groups(answers, keys)
    ends = [_numbers(shown_rows, name + end) for end in ("", "_low", "_high")]
    firsts, series = _lines_of(groups)
    labels = list(dict.fromkeys(firsts))
    place = np.array([labels.index(first) for first in firsts])
    draw = _draw_band if len(labels) > 8 else _draw_bars
    with drawing(7.2, 3.2) as (figure, axes):
        for color, line in zip(SERIES, dict.fromkeys(series)):
            chosen = [k for k, other in enumerate(series) if other == line]
            style = {"color": color, "label": ", ".join(line)}
            draw(axes, place[chosen], [end[chosen] for end in ends], style)
        shown = np.arange(len(labels))[:: max(len(labels) // 12, 1)]
        axes.set_xticks(shown, [labels[k] for k in shown])
        axes.set_xlabel(", ".join(keys))
        axes.set_title(title or name)
        if any(series):
            axes.set_xlabel(keys[0])
            axes.legend(title=", ".join(keys[1:]), ncols=min(len(set(series)), 4))
        return figure


def _lines_of(
    groups: list[tuple[str, ...]],
) -> tuple[list[str], list[tuple[str, ...]]]:
    """Of each group its place along the axis, and the line that it belongs to: of too many lines all are one."""
    series = [group[1:] for group in groups]
    if len(set(series)) > len(SERIES):
        return [", ".join(group) for group in groups], [()] * len(groups)
    return [group[0] for group in groups], series
