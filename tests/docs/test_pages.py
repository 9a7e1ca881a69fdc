"""Every example of the documentation runs as it is printed (the README's run in the environment of the wheel)."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if re.search(r"^```(python|console)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_examples_of_the_page_run(page: Path, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "scripts" / "run_examples.py"), str(tmp_path), str(page)]
    # A page evaluates a few pairs: loading the compiled kernel would take longer than all of them.
    environment = {**os.environ, "MPLBACKEND": "Agg"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


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
