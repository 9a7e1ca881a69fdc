"""The pictures of the pages of results, drawn from what is stored: docs/numbers.json and docs/benchmarks.

`scripts/write_numbers.py` calls `draw`; each picture keeps a digest of the tables that it was drawn from, so that a
picture of other numbers than those of its page is noticed without drawing it again.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

Table = dict[str, Any]
Tables = dict[str, Table]

IMAGES = Path("docs/images")
DIGEST = re.compile(r"<!-- drawn from ([0-9a-f]{16}) -->")
RELEASES = ("ours, label", "ours, record", "Algorithm 1", "coloured Gaussian", "iid Gaussian", "iid Laplace")
KINDS = ("none", "white", "Algorithm 1 repaired", "ours")
OTHER_LINE = (0, (3, 1.6))
LEGEND_COLUMNS = 4


def number(text: str) -> float:
    """A cell as a number; 1-3e-6 is 1 less 3e-6, 0.554 ± 0.02 is its middle, an empty cell is none."""
    text = text.split("±")[0].replace(",", "").replace("%", "").strip()
    near_one = re.fullmatch(r"1-([\d.e-]+)", text)
    if near_one:
        return 1.0 - float(near_one[1])
    try:
        return float(text)
    except ValueError:
        return math.nan


def column(table: Table, name: str, rows: list[list[str]] | None = None) -> list[float]:
    """The numbers of a column, of all rows or of some."""
    place = table["columns"].index(name)
    return [number(row[place]) for row in (table["rows"] if rows is None else rows)]


def where(table: Table, **values: str) -> list[list[str]]:
    """The rows that have these values; a name's underscores are spaces."""
    places = {table["columns"].index(name.replace("_", " ")): value for name, value in values.items()}
    return [row for row in table["rows"] if all(row[place] == value for place, value in places.items())]


def as_printed_curves(axes: Any, tables: Tables) -> None:
    """Figure 4 of the paper of classes, by its own laws, and what the same noise gives exactly."""
    from gaussveil.figure_style import SERIES

    table = tables["class.as-printed-paper-curves"]
    quantities = ("one-sided tail", "delta of the release")
    titles = ("as the paper has it: one-sided tails by (57)", "exactly: delta of what is released")
    for panel, quantity, title in zip(axes, quantities, titles):
        for colour, kind in zip(SERIES, KINDS):
            rows = where(table, kind=kind, rho="0.686")
            panel.plot(column(table, "epsilon", rows), column(table, quantity, rows), color=colour, label=kind)
        panel.set(xlabel="epsilon", ylim=(0.0, 1.03), title=title)
    axes[0].set_ylabel("delta, 100 homes")


def synthetic_classes(axes: Any, tables: Tables) -> None:
    """Figure 2 of the paper of classes: white noise, the paper's and ours, over the accuracy."""
    from gaussveil.figure_style import SERIES

    table = tables["class.synthetic-worst"]
    rho = column(table, "rho")
    groups = (("white", "as printed", "Algorithm 1 repaired"), ("white", "ours, zero means", "ours"))
    colours = dict(zip(("ours", "white", "Algorithm 1 repaired", "as printed", "ours, zero means"), SERIES))
    for panel, names, title in zip(axes, groups, ("the paper's: as printed, and repaired", "ours, same accuracy")):
        for name in names:
            colour = colours[name]
            panel.plot(rho, column(table, name), color=colour, label=name, marker="o", markersize=4)
        panel.set(xlabel="rho, the error allowed", ylim=(0.0, 0.7), title=title)
    axes[0].set_ylabel("worst delta, epsilon 1")


def divergences(name: str, knob: str) -> Callable[[Any, Tables], None]:
    """Divergence over a knob of the paper of mixtures: its releases, and ours that are private."""

    def draw(axes: Any, tables: Tables) -> None:
        from gaussveil.figure_style import SERIES

        table = tables[name]
        printed = RELEASES[2:]
        for panel, releases, title in zip(
            axes, (printed, ("Algorithm 1", *RELEASES[:2])), ("the paper's figure", "ours beside its algorithm")
        ):
            for release in releases:
                rows = where(table, release=release)
                colour = SERIES[RELEASES.index(release) % len(SERIES)]
                panel.plot(
                    column(table, knob, rows),
                    column(table, "median", rows),
                    color=colour,
                    label=release,
                    marker="o",
                    markersize=4,
                )
            panel.set(xlabel=knob, yscale="log", title=title)
        axes[0].set_ylabel("KL, released || fitted (median)")

    return draw


def mnist_accuracy(axes: Any, tables: Tables) -> None:
    """Figure 10 of the paper of mixtures: how well images are told apart by what is released."""
    from gaussveil.figure_style import INK, SERIES

    table = tables["gmm.mnist-accuracy"]
    groups = (RELEASES[2:], ("Algorithm 1", *RELEASES[:2]))
    for panel, releases, title in zip(axes, groups, ("the paper's figure", "ours beside its algorithm")):
        for release in releases:
            rows = where(table, release=release)
            colour = SERIES[RELEASES.index(release) % len(SERIES)]
            panel.plot(
                column(table, "epsilon", rows),
                column(table, "accuracy", rows),
                color=colour,
                label=release,
                marker="o",
                markersize=4,
            )
        panel.axhline(column(table, "without privacy")[0], color=INK, linestyle=OTHER_LINE, linewidth=1.0)
        panel.set(xlabel="epsilon", ylim=(0.0, 0.8), title=title)
    axes[0].set_ylabel("accuracy (dashed: no privacy)")


def leverages(axes: Any, tables: Tables) -> None:
    """Figure 2 of the paper of the spectrum: the leverage that is allowed, by singular values and exactly."""
    from gaussveil.figure_style import SERIES

    table = tables["ndis.figure-2-leverage"]
    titles = ("the bound by singular values", "exactly")
    for panel, name, title in zip(axes, ("by singular values", "leverage, exact"), titles):
        for colour, rank in zip(SERIES, ("50", "100", "200", "500")):
            rows = where(table, r=rank)
            panel.plot(column(table, "epsilon", rows), column(table, name, rows), color=colour, label=f"r = {rank}")
        panel.set(xlabel="epsilon", yscale="log", ylim=(1e-4, 0.2), title=title)
    axes[0].set_ylabel("leverage allowed")


def calibrated(axes: Any, tables: Tables) -> None:
    """Figure 5 of the paper of the spectrum: the delta that is claimed, the exact one, and the noise it takes."""
    from gaussveil.figure_style import SERIES

    table = tables["ndis.refutations-figure-5"]
    epsilons = column(table, "epsilon")
    axes[0].plot(
        epsilons, column(table, "claimed delta"), color=SERIES[0], label="as printed", marker="o", markersize=4
    )
    axes[0].plot(epsilons, column(table, "exact delta"), color=SERIES[1], label="exact", marker="o", markersize=4)
    axes[0].set(xlabel="epsilon", yscale="log", ylim=(1e-7, 2.0), title="delta of its noise")
    for colour, name, label in ((SERIES[0], "variance printed", "as printed"), (SERIES[1], "variance needed", "exact")):
        axes[1].plot(epsilons, column(table, name), color=colour, label=label, marker="o", markersize=4)
    axes[1].set(xlabel="epsilon", yscale="log", title="variance of the noise for delta 1e-6")


def stream_sweeps(axes: Any, tables: Tables) -> None:
    """Section IV-C of the paper of spectra: noise over epsilon, and distances over the duration."""
    from gaussveil.figure_style import SERIES

    table = tables["spectral.sweeps-knobs"]
    rows = where(table, knob="epsilon")
    epsilons = column(table, "value", rows)
    axes[0].plot(
        epsilons,
        column(table, "printed, noise kW", rows),
        color=SERIES[0],
        label="as printed (one home's spectrum)",
        marker="o",
        markersize=4,
    )
    axes[1].plot(
        epsilons,
        column(table, "TrDP week, kW", rows),
        color=SERIES[1],
        label="a week of readings, published rule",
        marker="o",
        markersize=4,
    )
    axes[1].plot(
        epsilons,
        column(table, "ours, shape, kW", rows),
        color=SERIES[2],
        label="ours, readings hidden",
        marker="o",
        markersize=4,
    )
    axes[0].set(xlabel="epsilon", ylim=(0.0, 4.0), title="as printed")
    axes[1].set(xlabel="epsilon", yscale="log", title="what hides readings")
    axes[0].set_ylabel("noise of a reading, kW")


def distances(axes: Any, tables: Tables) -> None:
    """Figures 1b and 3 of the paper of spectra: how far days of one home lie apart."""
    from gaussveil.figure_style import SERIES

    table = tables["spectral.figures-distances"]
    weeks = column(table, "weeks")
    for panel, name, colour in zip(axes, ("readings, kW", "spectra, kW²h"), SERIES):
        panel.plot(weeks, column(table, name), color=colour, marker="o", markersize=4, label=name)
        panel.set(xlabel="weeks", title=f"largest distance of {name}")
        panel.set_ylim(bottom=0.0)


def accountants(axes: Any, tables: Tables) -> None:
    """What other libraries answer, over the exact delta, and the processor time they take."""
    from gaussveil.figure_style import INK, SERIES

    table = tables["peers.accountants-compositions"]
    promises = tables["peers.promises-calibrations"]
    for colour, library in zip(SERIES, dict.fromkeys(row[0] for row in table["rows"])):
        rows = where(table, library=library)
        axes[0].plot(
            column(table, "CPU seconds", rows),
            column(table, "over exact", rows),
            "o",
            color=colour,
            label=library,
            markersize=6,
        )
    axes[0].set(xscale="log", xlabel="seconds of a processor", title="composed Gaussians: delta over the exact one")
    libraries = list(dict.fromkeys(row[0] for row in promises["rows"]))
    for place, library in enumerate(libraries):
        times = column(promises, "times the promise", where(promises, library=library))
        axes[1].plot(times, [place] * len(times), "o", color=SERIES[place % len(SERIES)], markersize=6)
    axes[1].axvline(1.0, color=INK, linestyle=OTHER_LINE, linewidth=1.0)
    axes[1].set_yticks(range(len(libraries)), libraries)
    axes[1].set(xscale="log", title="exact delta of calibrated noise, times the promise")


def resemblance(axes: Any, tables: Tables) -> None:
    """How far simulated towns are from the real one."""
    from gaussveil.figure_style import SERIES

    table = tables["simulator.resemblance-resemblance"]
    names = [row[0] for row in table["rows"]]
    places = range(len(names))
    axes[0].barh(places, column(table, "real homes"), color=SERIES[0])
    axes[0].set_yticks(places, names)
    axes[0].invert_yaxis()
    axes[0].set(title="404 real homes (kW; a correlation)")
    axes[1].barh(places, column(table, "largest deviation of a town"), color=SERIES[1])
    axes[1].set_yticks(places, [""] * len(names))
    axes[1].invert_yaxis()
    axes[1].set(title="largest deviation of five towns, per cent", xlim=(-15, 15))


OF_STUDIES: dict[str, tuple[tuple[str, ...], Callable[[Any, Tables], None]]] = {
    "results-class-figure-4": (("class.as-printed-paper-curves",), as_printed_curves),
    "results-class-figure-2": (("class.synthetic-worst",), synthetic_classes),
    "results-gmm-synthetic": (
        ("gmm.synthetic-over-epsilon",),
        divergences("gmm.synthetic-over-epsilon", "epsilon"),
    ),
    "results-gmm-iris": (("gmm.iris-over-epsilon",), divergences("gmm.iris-over-epsilon", "epsilon")),
    "results-gmm-profiles": (("gmm.profiles-over-epsilon",), divergences("gmm.profiles-over-epsilon", "epsilon")),
    "results-gmm-mnist": (("gmm.mnist-accuracy",), mnist_accuracy),
    "results-ndis-figure-2": (("ndis.figure-2-leverage",), leverages),
    "results-ndis-figure-5": (("ndis.refutations-figure-5",), calibrated),
    "results-spectral-noise": (("spectral.sweeps-knobs",), stream_sweeps),
    "results-spectral-distances": (("spectral.figures-distances",), distances),
    "results-peers": (("peers.accountants-compositions", "peers.promises-calibrations"), accountants),
    "results-simulator": (("simulator.resemblance-resemblance",), resemblance),
}


def digest(tables: list[Any]) -> str:
    """Sixteen digits of what a picture is drawn from."""
    text = json.dumps(tables, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def plain(figure: Any) -> None:
    """Titles of panels as the other pictures of the pages have them."""
    from gaussveil.figure_style import FAINT

    for panel in figure.axes:
        title = panel.get_title(loc="left") or panel.get_title()
        panel.set_title("")
        panel.set_title(title, loc="left", fontweight="normal", color=FAINT, fontsize=9)


def of_study(draw_panels: Callable[[Any, Tables], None], tables: Tables) -> Any:
    """A picture of two panels: what is printed, and ours."""
    from gaussveil.figure_style import drawing, legend_above

    with drawing(7.2, 3.0, 1, 2) as (figure, axes):
        draw_panels(axes, tables)
        plain(figure)
        if labels(axes):
            legend_above(figure, *axes, columns=min(LEGEND_COLUMNS, len(labels(axes))))
    return figure


def labels(axes: Any) -> set[str]:
    """What the legend of these panels names."""
    return {label for panel in axes for label in panel.get_legend_handles_labels()[1]}


def measured(benchmarks: dict[str, Any]) -> dict[str, list[dict[str, Any]]]:
    """The rows of each benchmark that have a ratio to a peer, in a file of kept results."""
    rooms = {}
    for name, result in benchmarks.items():
        rows = [row for row in result["rows"] if row["ratio"] is not None and row["ratio"] > 0.0]
        if rows:
            rooms[name] = rows
    return rooms


def of_room(rows: list[dict[str, Any]]) -> Any:
    """One room of a machine: how many times a peer or a limit each row is, and its goal."""
    from gaussveil.figure_style import INK, SERIES, drawing, legend_above

    height = 0.9 + 0.19 * len(rows)
    with drawing(7.2, height) as (figure, axes):
        for place, row in enumerate(rows):
            colour = SERIES[2] if row["met"] else SERIES[1]
            label = "goal met, or none" if row["met"] else "goal missed"
            axes.plot([1.0, row["ratio"]], [place, place], color=colour, linewidth=1.2)
            axes.plot(row["ratio"], place, "o", color=colour, markersize=5, label=label)
        axes.axvline(1.0, color=INK, linewidth=1.0, linestyle=OTHER_LINE)
        names = [shortened(row["name"]) for row in rows]
        axes.set_yticks(range(len(rows)), names, fontsize=6.5)
        axes.invert_yaxis()
        axes.set(xscale="log")
        axes.set_xlabel("ratio of the row (dashed: the peer, or the limit, itself)")
        legend_above(figure, axes)
    return figure


def shortened(text: str, most: int = 64) -> str:
    """A name that leaves room for its picture."""
    if len(text) <= most:
        return text
    return text[: most - 1].rstrip() + "…"


def wanted(root: Path, tables: Tables) -> Iterator[tuple[Path, str, Callable[[], Any]]]:
    """Each picture: where it is kept, the digest of what it shows, and how it is drawn."""
    for name, (keys, panels) in OF_STUDIES.items():
        if all(key in tables for key in keys):
            of_it = {key: tables[key] for key in keys}
            yield IMAGES / f"{name}.svg", digest([of_it]), partial(of_study, panels, of_it)
    for path in sorted((root / "docs" / "benchmarks").glob("results-*.json")):
        machine = path.stem.removeprefix("results-")
        for room, rows in measured(json.loads(path.read_text(encoding="utf-8"))["benchmarks"]).items():
            yield IMAGES / "benchmarks" / f"{machine}-{room}.svg", digest([rows]), partial(of_room, rows)


def stale(root: Path, tables: Tables) -> list[Path]:
    """The pictures that show other numbers than those stored, or that nothing asks for any more."""
    found = []
    asked = set()
    for path, of_tables, _ in wanted(root, tables):
        asked.add(root / path)
        marked = DIGEST.search((root / path).read_text(encoding="utf-8")) if (root / path).exists() else None
        if marked is None or marked[1] != of_tables:
            found.append(path)
    there = {*(root / IMAGES).glob("results-*.svg"), *(root / IMAGES / "benchmarks").glob("*.svg")}
    return found + [path.relative_to(root) for path in sorted(there - asked)]


def draw(root: Path, tables: Tables) -> None:
    """Draw the pictures that are stale, and drop those that nothing asks for."""
    late = set(stale(root, tables))
    for path, of_tables, make in wanted(root, tables):
        if path in late:
            late.remove(path)
            write(root / path, of_tables, make())
    for path in late:
        (root / path).unlink()


def write(path: Path, of_tables: str, figure: Any) -> None:
    """Keep a picture with its digest, in the colours of light and of dark pages."""
    from matplotlib import rc_context

    from gaussveil.figure_style import house_style

    path.parent.mkdir(parents=True, exist_ok=True)
    # Words stay words: a row of a benchmark can be searched for, and pictures are small.
    with house_style(), rc_context({"svg.fonttype": "none"}):
        figure.savefig(path, metadata={"Date": None}, facecolor="white")
    follow_the_page(path)
    with path.open("a", encoding="utf-8") as stream:
        stream.write(f"<!-- drawn from {of_tables} -->\n")


def follow_the_page(path: Path) -> None:
    """As docs/draw_pictures.py gives it to every picture of the pages."""
    sys.path.insert(0, str(Path(__file__).parents[1] / "docs"))
    try:
        import draw_pictures
    finally:
        del sys.path[0]
    draw_pictures.follow_the_page(path)
