"""The page on steps on random batches names files, functions and constants that are there, with their values."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "math" / "subsampled.md"
PACKAGE = Path(__file__).parents[2] / "src" / "gaussveil"
ROOM = PACKAGE / "spectrum" / "subsampled"


def value_of(text: str) -> float:
    base, _, power = text.partition("^")
    return float(base) ** float(power or 1)


def rows(first_cell: str) -> list[list[str]]:
    """Cells of the table whose head begins so."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = next(place for place, line in enumerate(lines) if line.startswith(f"| {first_cell}"))
    end = next(place for place in range(start, len(lines)) if not lines[place].startswith("|"))
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[start + 2 : end]]


@pytest.mark.parametrize("row", rows("constant"), ids=lambda row: row[0])
def test_constants_have_the_values_that_the_page_states(row: list[str]) -> None:
    stated = re.findall(r"`([A-Z_]+)` = (-?[0-9.e^-]+)", row[0])
    files = re.findall(r"`([a-z_/]+)\.py`", row[1])
    assert stated or row[0].startswith("strips")
    for place, (name, value) in enumerate(stated):
        file = files[min(place, len(files) - 1)].removeprefix("spectrum/")
        module = file if file == "constants" else f"subsampled.{file}"
        assert getattr(importlib.import_module(f"gaussveil.spectrum.{module}"), name) == value_of(value)


def test_every_file_and_function_of_the_page_is_there() -> None:
    text = PAGE.read_text(encoding="utf-8")
    files = set(re.findall(r"`([a-z_/]+\.py)`", text))
    assert len(files) > 20
    for file in files:
        folders = (ROOM, PACKAGE, PAGE.parents[2])  # and tests, by their whole path
        assert any((folder / file).exists() for folder in folders), file
    source = "\n".join(path.read_text(encoding="utf-8") for path in ROOM.glob("*.py"))
    for row in [*rows("step of the argument"), *rows("step of a band")]:
        for name in re.findall(r"`([A-Za-z_.]+)`", " ".join(row[1:3])):
            if not name.endswith((".py", ".h")):
                assert re.search(rf"(def|class|^) ?{name.split('.')[-1]}\b", source, re.MULTILINE), name
    entries = (PACKAGE / "spectrum" / "native" / "source.py").read_text(encoding="utf-8")
    entries += (PACKAGE / "spectrum" / "native" / "kernel.c").read_text(encoding="utf-8") + "".join(
        path.read_text(encoding="utf-8") for path in (PACKAGE / "spectrum" / "native").glob("*.[hp]*")
    )
    for row in [*rows("step of the argument"), *rows("step of a band")]:
        for name in re.findall(r"`([a-z_]+)`", row[3]):
            assert re.search(rf"\b(step_)?{name}\b", entries), name
