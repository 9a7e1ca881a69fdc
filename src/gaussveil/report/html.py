"""Self-contained HTML reports: one file, no script, no network, light and dark, printable, deterministic."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from gaussveil.figure_style import FAINT, GRID, INK, PAPER, SERIES
from gaussveil.files import write_whole


@dataclass(frozen=True)
class Table:
    """A table: column names and rows of ready-made text; the first column is a row's name."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    caption: str = ""


@dataclass(frozen=True)
class Section:
    """A part of a report: a heading, then paragraphs, facts (term, text), a figure (SVG element) and a table."""

    heading: str
    paragraphs: Sequence[str] = ()
    facts: Sequence[tuple[str, str]] = ()
    figure: str = ""
    caption: str = ""
    table: Table | None = None
    folded: bool = False
    """Facts for those who want to know more: shown when they ask."""


@dataclass(frozen=True)
class Report:
    """A report. Everything but the figures is escaped, so text may hold any character."""

    title: str
    summary: str
    sections: Sequence[Section] = field(default_factory=tuple)
    footer: str = ""


def templates_of(package: str) -> Environment:
    """The Jinja environment of a package's templates; everything in them is escaped."""
    return Environment(
        loader=PackageLoader(package),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


@cache
def environment() -> Environment:
    """Our own templates."""
    templates = templates_of("gaussveil.report")
    templates.filters |= {"figure": themed, "prose": prose}
    return templates


def prose(text: str) -> Markup:
    """Text as a page shows it: escaped, what stands in backticks as code."""
    return Markup(re.sub(r"`([^`]+)`", r"<code>\1</code>", str(escape(text))))


def themed(element: str) -> Markup:
    """Let a figure of ours follow the page, light or dark: its inks and hues become the page's colours."""
    for ink, variable in (
        (INK, "--ink"),
        (FAINT, "--faint"),
        (GRID, "--rule"),
        (PAPER, "--paper"),
    ):
        element = element.replace(f": {ink}", f": var({variable})")
    for index, hue in enumerate(SERIES):
        element = element.replace(f": {hue}", f": var(--series-{index})")
    # The SVG was made by our own figures.py from numbers: the one text that is not escaped.
    return Markup(element)


def render(report: Report) -> str:
    """Return the report as one HTML page."""
    return environment().get_template("report.html").render(page=report)


def write(report: Report, path: Path) -> None:
    """Write the report to a file, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, render(report))
