"""One visual language: hues that everybody can tell apart, and no figure drawn without them."""

from __future__ import annotations

import ast
import re
from itertools import combinations
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest
from numpy.typing import NDArray

import gaussveil
import gaussveil_studies
from gaussveil.figure_style import FAINT, GRID, INK, PAPER, SERIES, house_style

Floats = NDArray[np.float64]
SOURCE = Path(gaussveil.__file__).parent
MODULES = [*SOURCE.rglob("*.py"), *Path(gaussveil_studies.__file__).parent.rglob("*.py")]
CSS = (SOURCE / "report" / "templates" / "report.css").read_text(encoding="utf-8")

# Machado, Oliveira and Fernandes (2009), severity 1, on linear RGB.
SIGHT = {
    "normal": np.eye(3),
    "protanopia": np.array(
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]
    ),
    "deuteranopia": np.array(
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]
    ),
    "tritanopia": np.array(
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]
    ),
}
TO_XYZ = np.array(
    [[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]]
)


def linear(colour: str) -> Floats:
    part = np.array([int(colour[k : k + 2], 16) for k in (1, 3, 5)]) / 255
    return np.asarray(np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4))


def lab(rgb: Floats) -> Floats:
    xyz = TO_XYZ @ np.clip(rgb, 0.0, 1.0) / np.array([0.95047, 1.0, 1.08883])
    f = np.where(xyz > 216 / 24389, np.cbrt(xyz), (24389 / 27 * xyz + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def variables(block: str) -> dict[str, str]:
    return dict(re.findall(r"(--[a-z0-9-]+): (#[0-9a-f]{6});", block))


@pytest.mark.parametrize("sight", SIGHT)
def test_hues_stay_apart_for_everybody(sight: str) -> None:
    for (i, one), (j, other) in combinations(enumerate(SERIES), 2):
        apart = np.linalg.norm(lab(SIGHT[sight] @ linear(one)) - lab(SIGHT[sight] @ linear(other)))
        assert apart >= (20 if max(i, j) < 4 else 15), (one, other)


def test_hues_stay_apart_in_grey_print() -> None:
    lightness = sorted(lab(linear(colour))[0] for colour in SERIES[:4])
    assert np.diff(lightness).min() >= 6


def test_everything_stands_out_from_the_paper_light_and_dark() -> None:
    light, dark = CSS.split("prefers-color-scheme: dark")[:2]
    for block, paper in ((variables(light), PAPER), (variables(dark.split("}")[0]), None)):
        ground = paper or block["--paper"]
        assert block["--paper"] == ground
        for name, colour in block.items():
            if name.startswith("--series"):
                assert contrast(colour, ground) >= 3, name
        for text in ("--ink", "--faint", "--accent", "--good", "--bad"):
            assert contrast(block[text], ground) >= 4.5, text


def test_the_page_knows_the_figures_colours() -> None:
    light = variables(CSS.split("prefers-color-scheme: dark")[0])
    assert [light[f"--series-{k}"] for k in range(len(SERIES))] == list(SERIES)
    assert (light["--ink"], light["--faint"], light["--paper"]) == (INK, FAINT, PAPER)


def drawing_functions() -> list[tuple[str, bool]]:
    found = []
    for path in MODULES:
        tree = ast.parse(path.read_text(encoding="utf-8"))
        inside = {
            inner
            for node in ast.walk(tree)
            if isinstance(node, ast.With) and any("house_style" in ast.unparse(item) for item in node.items)
            for inner in ast.walk(node)
        }
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("Figure", "drawing"):
                place = f"{path}:{node.lineno}"
                styled = node.func.id == "drawing"  # which is in the style itself
                found.append((place, styled or node in inside))
    return found


def test_every_figure_is_drawn_in_the_house_style() -> None:
    figures = drawing_functions()
    assert len(figures) >= 12
    assert [place for place, styled in figures if not styled] == []


def test_no_other_colours_and_no_pyplot() -> None:
    for path in MODULES:
        if path.name == "figure_style.py":
            continue
        text = path.read_text(encoding="utf-8")
        assert "pyplot" not in text, path
        assert not re.search(r"color=\"(?!none|white)[a-z]", text), path
        assert set(re.findall(r"#[0-9a-fA-F]{6}\b", text)) <= {"#ffffff"}, path


def test_the_style_sheet_draws_with_the_inks_that_pages_swap() -> None:
    with house_style():
        colours = tuple(entry["color"] for entry in mpl.rcParams["axes.prop_cycle"])
        assert colours == SERIES
        for setting, ink in (("text.color", INK), ("xtick.color", FAINT), ("grid.color", GRID)):
            assert mpl.colors.to_hex(mpl.rcParams[setting]) == ink
        assert mpl.rcParams["svg.hashsalt"] == "gaussveil"
