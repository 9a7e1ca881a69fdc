from __future__ import annotations

import xml.etree.ElementTree as ElementTree
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pytest

from gaussveil.errors import FormatError
from gaussveil.figure_style import house_style
from gaussveil.report.figures import privacy_curves, save, svg
from gaussveil.spectrum import GaussianPair
from gaussveil_town.curve_figures import Comparison, compared_curves, tradeoff_curves

SHIFT = GaussianPair.mean_shift(1.0)
WIDER = GaussianPair.from_reduced([-0.5, -0.5], [0.0, 0.0])
EPSILONS = np.linspace(0.0, 4.0, 9)


def test_curves_hold_the_exact_values_in_both_directions() -> None:
    lines = privacy_curves([("wider", WIDER)], EPSILONS).axes[0].get_lines()
    assert np.array_equal(lines[0].get_ydata(), WIDER.delta(EPSILONS))
    backward = WIDER.reversed().delta(EPSILONS)
    shown = backward > 1e-12
    assert 0 < shown.sum() < len(EPSILONS)
    assert np.array_equal(np.asarray(lines[1].get_ydata())[shown], backward[shown])


def test_tradeoff_starts_at_one_ends_at_zero_and_stays_below_the_diagonal() -> None:
    x, y = tradeoff_curves([("shift", SHIFT)]).axes[0].get_lines()[1].get_data()
    assert (y[0], y[-1]) == (1.0, 0.0)
    assert np.all(np.diff(y) <= 0.0)
    assert np.all(np.asarray(y) <= 1.0 - np.asarray(x) + 1e-12)


def test_the_renyi_line_is_never_below_the_exact_one() -> None:
    axes = compared_curves([Comparison("a", "b", SHIFT), Comparison("c", "d", WIDER)]).axes
    for panel in axes:
        renyi, _, exact = (np.asarray(line.get_ydata()) for line in panel.get_lines()[:3])
        assert np.all(renyi >= exact * (1 - 1e-12))
        assert np.any(renyi > 1.2 * exact)


def test_pictures_are_the_same_bytes_every_time(tmp_path: Path) -> None:
    for ending in ("svg", "pdf", "png"):
        first, second = tmp_path / f"1.{ending}", tmp_path / f"2.{ending}"
        for path in (first, second):
            save(privacy_curves([("shift", SHIFT)], EPSILONS), path)
        assert first.read_bytes() == second.read_bytes()
        assert first.stat().st_size > 1000


def test_unknown_formats_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match=r"\.svg, \.png, \.pdf"):
        save(privacy_curves([("shift", SHIFT)], EPSILONS), tmp_path / "figure.gif")


def test_inline_svg_is_well_formed_described_and_prefixed() -> None:
    element = svg(privacy_curves([("shift", SHIFT)], EPSILONS), "one", 'curve of "a" < b')
    root = ElementTree.fromstring(element)
    assert root.attrib["aria-label"] == 'curve of "a" < b'
    identifiers = [node.attrib["id"] for node in root.iter() if "id" in node.attrib]
    assert identifiers
    assert all(identifier.startswith("one-") for identifier in identifiers)
    assert len(identifiers) == len(set(identifiers))
    links = [value[1:] for node in root.iter() for key, value in node.attrib.items() if key.endswith("href")]
    assert links
    assert set(links) <= set(identifiers)


def test_the_callers_own_style_is_neither_used_nor_changed() -> None:
    with mpl.rc_context({"axes.grid": False, "font.size": 30.0}):
        with house_style():
            assert mpl.rcParams["font.size"] == 9.0
        assert mpl.rcParams["font.size"] == 30.0
