"""Every example of the documentation runs as it is printed (the README's run in the environment of the wheel)."""

from __future__ import annotations

import multiprocessing
import os
import re
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from ..fixed_draws import run_named

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page
    for page in (ROOT / "docs").rglob("*.md")
    if re.search(r"^```(python|console)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)


# Each page has a process of its own, forked from one that has loaded what most of them need: a page pays for its work.
LOADED = [
    "duckdb",
    "flint",
    "matplotlib.pyplot",
    "pandas",
    "pyarrow.parquet",
    "scipy.stats",
    "sklearn.cluster",
    "typer",
    "gaussveil.cli.main",
    "gaussveil.mechanisms.forecast",
    "gaussveil.mechanisms.gp",
    "gaussveil.mechanisms.meter_stream.stream",
    "gaussveil.mechanisms.mixture.estimator",
    "gaussveil.mechanisms.random_projection.private_sketch",
    "gaussveil.mechanisms.regression.linear",
    "gaussveil.mechanisms.table.release",
    "gaussveil.audit.white_box",
    "gaussveil.accounting.certificates.verification",
    "gaussveil.accounting.ledger.ledger",
    "gaussveil.accounting.exchange.events",
    "gaussveil.engines.duckdb",
    "gaussveil.spectrum.subsampled.profile",
    "gaussveil.report.figures",
    "gaussveil_town.households",
]


@pytest.fixture(scope="module")
def server(pytestconfig: pytest.Config) -> Any:
    """Processes that begin with those libraries loaded."""
    os.environ["MPLBACKEND"] = "Agg"
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LOADED)
    return context


@pytest.mark.parametrize("page", PAGES, ids=[str(page.relative_to(ROOT)) for page in PAGES])
def test_the_examples_of_the_page_run(
    page: Path, tmp_path: Path, server: Any, monkeypatch: pytest.MonkeyPatch, pytestconfig: pytest.Config
) -> None:
    monkeypatch.syspath_prepend(ROOT / "scripts")
    monkeypatch.syspath_prepend(ROOT)  # where a new process finds the tests
    forked = import_module("run_examples").forked
    said, draws = tmp_path / "said.txt", (pytestconfig.getoption("--draws"), page.name)
    process = server.Process(target=run_named, args=(*draws, forked, tmp_path / "work", page, said))
    process.start()
    process.join(600)
    process.kill()
    assert process.exitcode == 0, said.read_text(encoding="utf-8")


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
