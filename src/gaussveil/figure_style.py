"""One look for every figure: few inks, thin lines, readable in print, on screen and by the colour-blind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from matplotlib import style
from matplotlib.axes import Axes
from matplotlib.figure import Figure

# Neutral inks. The HTML report swaps exactly these strings for CSS variables, so that figures follow dark mode.
PAPER = "#ffffff"
INK = "#24292f"
FAINT = "#6e7781"
GRID = "#d8dee4"

# Hues chosen by search, which the tests hold to: seen with any colour blindness the first four stay 20 apart in CIE Lab
# and all six 15; in grey the first four differ by 6 in lightness; all stand 3:1 against white. On dark pages the report
# swaps these strings, too, for lighter ones.
SERIES = ("#5c6bb4", "#de7900", "#06946d", "#8d4476", "#6b5310", "#5f81ff")

_SHEET = Path(__file__).with_name("figures.mplstyle")


@contextmanager
def house_style() -> Iterator[None]:
    """Draw inside this block: the caller's own Matplotlib settings are neither used nor changed."""
    with style.context(_SHEET, after_reset=True):
        yield


@contextmanager
def drawing(
    width: float, height: float, rows: int = 1, columns: int = 1, **more: Any
) -> Iterator[tuple[Figure, Any]]:
    """A figure of that size in inches, in the house style, and its panels; draw inside the block."""
    with house_style():
        figure = Figure(figsize=(width, height), layout="constrained")
        yield figure, figure.subplots(rows, columns, **more)


def legend_above(figure: Figure, *panels: Axes, columns: int | None = None) -> None:
    """One legend for the panels, above them all and in one row unless told otherwise: it never covers data."""
    named = {
        label: handle
        for axes in panels
        for handle, label in zip(*axes.get_legend_handles_labels())
    }
    figure.legend(
        list(named.values()),
        list(named),
        loc="outside upper left",
        ncols=columns or len(named),
    )
