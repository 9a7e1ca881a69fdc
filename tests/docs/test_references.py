"""What the code cites exists in the documentation, and the documentation lists what the code has."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

import gaussveil
from gaussveil import errors

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(page for page in DOCS.rglob("*.md") if page.parent.name != "api" and page.name != "command-line.md")
SOURCES = sorted(path for folder in ("src", "studio", "studies") for path in (ROOT / folder).rglob("*.py"))


def text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def test_cited_pages_exist() -> None:
    cited = {
        name.rstrip(".-/")
        for path in SOURCES
        for name in re.findall(r"docs/([a-zA-Z_/.-]+)", path.read_text(encoding="utf-8"))
    }
    assert len(cited) > 10
    missing = [name for name in cited if not (DOCS / name).exists() and not (DOCS / f"{name}.md").exists()]
    assert missing == []


def test_every_correction_that_the_code_cites_is_told() -> None:
    page = text("corrections.md")
    cited = {
        name
        for path in SOURCES
        for line in path.read_text(encoding="utf-8").splitlines()
        if "orrections" in line
        for name in re.findall(r"\b(N[1-7]|K[1-9]|S[1-7]b?|G-[a-k]|F[1-6])\b", line)
    }
    assert len(cited) > 10
    assert {name for name in cited if not re.search(rf"\b{name}\b", page)} == set()


def test_every_error_code_is_explained() -> None:
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, Exception)]
    page = text("exit-codes.md")
    assert len(kinds) > 15
    for kind in kinds:
        assert kind is errors.GaussveilError or f"| {kind.code} | `{kind.__name__}`" in page


def test_every_public_name_is_in_the_reference() -> None:
    page = text("api.md")
    names = set(gaussveil.__all__) - {"__version__", "GaussveilError"}
    for package in re.findall(r"<!-- exports:([\w.]+) -->", page):
        names -= set(import_module(package).__all__)
    assert {name for name in names if not re.search(rf"\.{name}$", page, re.MULTILINE)} == set()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_tests_that_pages_name_exist(page: Path) -> None:
    named = set(re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")))
    if named:
        bodies = "".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("test_*.py"))
        assert {name for name in named if f"def {name}(" not in bodies} == set()


@pytest.mark.parametrize("picture", sorted((DOCS / "images").glob("*.svg")), ids=lambda picture: str(picture.name))
def test_pictures_have_a_dark_colour_for_every_light_one(picture: Path) -> None:
    drawn, _, dark = picture.read_text(encoding="utf-8").partition("@media (prefers-color-scheme: dark)")
    used = set(re.findall(r"(?:fill|stroke): #[0-9a-f]{6}", drawn))
    swapped = dict(re.findall(r"\[style\*=\"([^\"]+)\"\] \{ ((?:fill|stroke): #[0-9a-f]{6}) !important \}", dark))
    assert len(used) > 3
    assert used <= set(swapped)
    assert all(light != other for light, other in swapped.items())
