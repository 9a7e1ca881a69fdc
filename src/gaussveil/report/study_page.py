"""The page of a study: its parts with pictures and tables, and the verdict, claim by claim, on one page at the end."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gaussveil.report.html import environment


@dataclass(frozen=True)
class Cells:
    """A table of ready-made text; the first column names the row."""

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""


@dataclass(frozen=True)
class Drawing:
    """An SVG element made by our own figures, and the sentence below it."""

    element: str
    caption: str


@dataclass(frozen=True)
class Block:
    """One part of a study."""

    heading: str
    paragraphs: tuple[str, ...] = ()
    drawings: tuple[Drawing, ...] = ()
    tables: tuple[Cells, ...] = ()


@dataclass(frozen=True)
class StudyPage:
    """Everything on the page. All text is escaped; only drawings are not."""

    title: str
    summary: str
    blocks: tuple[Block, ...]
    verdict: Cells
    missing: tuple[str, ...] = ()
    footer: str = ""


def render_page(page: StudyPage) -> str:
    """Return the page as self-contained HTML."""
    return environment().get_template("study.html").render(page=page)


def write_page(page: StudyPage, path: Path) -> None:
    """Write the page to a file, creating its folder."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(render_page(page), encoding="utf-8")
