"""Every example of the documentation runs as it is printed (the README's run in the environment of the wheel)."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path

import pytest

from ..warm_processes import WarmProcesses

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if re.search(r"^```(python|console)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.fixture(scope="module")
def processes(pytestconfig: pytest.Config) -> WarmProcesses:
    """A page has a process of its own, since its examples change the folder and what is loaded."""
    return WarmProcesses(pytestconfig.getoption("--draws"))


@pytest.mark.xdist_group("warm processes")
@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_examples_of_the_page_run(
    page: Path, tmp_path: Path, processes: WarmProcesses, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    examples = import_module("run_examples")
    words = (tmp_path / "said.txt", examples.main, tmp_path / "work", page, examples.inside)
    ended, said = processes.run(page.name, *words)
    assert ended == 0, said


def test_every_picture_has_dark_colours_too() -> None:
    pictures = [path for path in (ROOT / "docs").rglob("*.svg") if "_build" not in path.parts]
    assert len(pictures) > 10
    assert [str(path) for path in pictures if "prefers-color-scheme: dark" not in path.read_text("utf-8")] == []


def test_no_line_begins_with_a_mark() -> None:
    """Markdown takes such a line for a block of HTML and breaks the paragraph before it."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert [str(page) for page in pages if "\n<!-- number" in page.read_text(encoding="utf-8")] == []


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_what_an_example_is_said_to_print_is_compared(page: Path) -> None:
    """A figure or a word of Python behind a print must be a promise, `# -> value`, which the run holds it to."""
    fences = re.findall(r"^```python\n(.*?)^```$", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    loose = r"^.*print\(.*\)\s+# *(?!->)(?:[-\d.\[({'\"]|True\b|False\b|None\b|refuted\b).*$"
    assert re.findall(loose, "".join(fences), re.MULTILINE) == []
