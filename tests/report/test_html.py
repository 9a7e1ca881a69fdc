from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np

from gaussveil.figure_style import FAINT, GRID, INK
from gaussveil.report.figures import privacy_curves, svg
from gaussveil.report.html import Report, Section, Table, render, write
from gaussveil.spectrum import GaussianPair

VOID = {"meta", "link", "br", "img", "hr", "input"}


class Balance(HTMLParser):
    """Collects what is open, and everything that would leave the page."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.outside: list[str] = []
        self.text: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)
        self.outside += [tag] if tag in {"script", "link", "iframe", "object"} else []
        self.outside += [
            v or "" for k, v in attrs if k.endswith(("href", "src")) and not (v or "").startswith(("#", "data:"))
        ]

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def report() -> Report:
    figure = svg(privacy_curves([("shift", GaussianPair.mean_shift(1.0))], np.linspace(0.0, 3.0, 5)), "f", "a curve")
    table = Table(columns=("name", "epsilon"), rows=[("<b>one</b>", "1.0")], caption="caption & more")
    section = Section(
        heading="A <heading>", paragraphs=("first", "<script>alert(1)</script>"), figure=figure, table=table
    )
    return Report(title="Title & <title>", summary="summary", sections=(section,), footer="the end")


def parsed() -> Balance:
    parser = Balance()
    parser.feed(render(report()))
    return parser


def test_the_page_is_balanced_and_needs_nothing_from_outside() -> None:
    parser = parsed()
    assert parser.open == []
    assert parser.outside == []
    assert not re.search(r"@import|url\((?!#)", render(report()))


def test_text_is_escaped_and_figures_are_not() -> None:
    page = render(report())
    assert "<script>" not in page
    assert "&lt;script&gt;" in page
    assert "<svg role=" in page
    assert "<script>alert(1)</script>" in parsed().text


def test_backticks_are_code_and_still_escaped() -> None:
    section = Section(heading="h", paragraphs=("run `gaussveil <verify>` now",), facts=(("a", "one ` alone"),))
    page = render(Report(title="t", summary="s", sections=(section,), footer="by `demo`"))
    assert "<p>run <code>gaussveil &lt;verify&gt;</code> now</p>" in page
    assert "<dd>one ` alone</dd>" in page
    assert "<footer><p>by <code>demo</code></p></footer>" in page


def test_figures_follow_the_page_colours() -> None:
    figure = render(report()).split("<svg", 1)[1].split("</svg>")[0]
    assert "var(--ink)" in figure
    assert not any(f": {ink}" in figure for ink in (INK, FAINT, GRID))


def test_dark_and_print_have_their_rules() -> None:
    page = render(report())
    assert "prefers-color-scheme: dark" in page
    assert "@media print" in page


def test_the_same_report_is_the_same_bytes(tmp_path: Path) -> None:
    write(report(), tmp_path / "deep" / "a.html")
    write(report(), tmp_path / "b.html")
    assert (tmp_path / "deep" / "a.html").read_bytes() == (tmp_path / "b.html").read_bytes()
