"""Figures of privacy losses. Each function returns a Matplotlib figure; `save` and `svg` write it deterministically."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, LogLocator, NullLocator

from gaussveil.errors import FormatError
from gaussveil.figure_style import INK, SERIES, drawing, house_style
from gaussveil.spectrum import PrivacyLoss
from gaussveil.typing import Floats

Named: TypeAlias = Sequence[tuple[str, PrivacyLoss]]

FORMATS = (".svg", ".png", ".pdf")
FLOOR = 1e-10


def privacy_curves(
    losses: Named, epsilons: Floats, *, claim: tuple[float, float] | None = None
) -> Figure:
    """Draw delta(epsilon) of several losses, X against Y solid, Y against X dashed; a claim is a ring."""
    with drawing(6.4, 4.0) as (figure, axes):
        for index, (name, loss) in enumerate(losses):
            colour = SERIES[index % len(SERIES)]
            axes.plot(epsilons, drawn(loss.delta(epsilons)), color=colour, label=name)
            axes.plot(
                epsilons,
                drawn(loss.reversed().delta(epsilons)),
                color=colour,
                linestyle=(0, (3, 1.6)),
                linewidth=1.4,
            )
        delta_axes(axes, float(epsilons[-1]))
        if claim is not None:
            axes.plot(
                *claim,
                "o",
                markersize=8,
                color=INK,
                markerfacecolor="none",
                markeredgewidth=1.4,
                zorder=5,
            )
        axes.set_xlabel("epsilon")
        axes.set_title("delta(epsilon)   solid: X against Y   dashed: Y against X")
        axes.legend(loc="upper right")
        return figure


def delta_axes(axes: Axes, right: float) -> None:
    """Epsilon along a linear axis, delta along a logarithmic one."""
    axes.set_yscale("log")
    axes.set(xlim=(0.0, right), ylim=(FLOOR, 1.0))
    axes.yaxis.set_major_locator(LogLocator(base=100.0, numticks=12))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(
        FuncFormatter(
            lambda y, _: "1" if y == 1.0 else f"$10^{{{round(np.log10(y))}}}$"
        )
    )


def drawn(delta: Floats) -> Floats:
    """Deltas for a log axis, where a zero has no place: it rests just below what is shown."""
    return np.maximum(delta, FLOOR * 1e-3)


def save(figure: Figure, path: Path) -> None:
    """Write a figure; the name's ending says the format. The same figure gives the same bytes."""
    ending = path.suffix.lower()
    if ending not in FORMATS:
        raise FormatError(
            f"{path}: a figure is written as {', '.join(FORMATS)}. Got the ending {path.suffix or 'none'!r}."
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    dates = {".svg": {"Date": None}, ".pdf": {"CreationDate": None}, ".png": {}}
    with house_style():
        # A file stands alone, on a page we do not know: it brings its own white ground.
        figure.savefig(path, metadata=dates[ending], dpi=200, facecolor="white")


def svg(figure: Figure, name: str, description: str) -> str:
    """Return a figure as an SVG element for HTML: identifiers unique by name, described for screen readers."""
    buffer = io.StringIO()
    with house_style():
        _lay_out(figure)
        figure.savefig(buffer, format="svg", metadata={"Date": None})
    element = buffer.getvalue()
    element = element[element.index("<svg") :]
    element = re.sub(r"<metadata>.*?</metadata>", "", element, count=1, flags=re.DOTALL)
    element = re.sub(r'\bid="', f'id="{name}-', element)
    element = re.sub(r'href="#', f'href="#{name}-', element)
    element = element.replace("url(#", f"url(#{name}-")
    return element.replace(
        "<svg ", f'<svg role="img" aria-label="{_attribute(description)}" ', 1
    ).strip()


def _lay_out(figure: Figure) -> None:
    """Place what the figure holds once; saving would draw it a second time for that."""
    engine = figure.get_layout_engine()
    if engine is not None:
        engine.execute(figure)
        figure.set_layout_engine(None)


def _attribute(text: str) -> str:
    return text.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
