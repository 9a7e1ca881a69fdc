"""What a release is handed on as: one page with everything, its numbers in the reader's convention, and the package.

Runs in the worker: it draws figures, which the server need not load.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.accounting import Certificate
from gaussveil.errors import SourceError
from gaussveil.figure_style import INK, SERIES, drawing
from gaussveil.report.certificate import certificate_report
from gaussveil.report.figures import svg
from gaussveil.report.html import Report, Section, Table, render
from gaussveil.report.number_files import encode_columns
from gaussveil_studio.offers.rounding import (
    counted_in,
    decimals_beside,
    grouped,
    number_table,
    shown_cell,
    with_comma,
)
from gaussveil_studio.plain_words import explained, paragraph
from gaussveil_studio.spreadsheets import Sheet, workbook

TABLES = (".csv", ".parquet")
CERTIFICATE = "certificate.json"
PAGE = "report.html"
BEWARE = "Beware"
TALLEST = 60  # rows of a picture that has a row for each number
MOST_TICKS = 14


def package(
    folder: str,
    out: str,
    python: str,
    command: str,
    about: Mapping[str, str] | None = None,
    comma: bool = False,
) -> dict[str, Any]:
    """Everything of a release in one file: the page, the numbers in every form, the certificate, script and command."""
    place = Path(folder)
    done = _done(place)
    value = place / done["file"]
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as parcel:
        parcel.writestr(PAGE, handed_page(folder, about, comma)["page"])
        parcel.write(place / CERTIFICATE, CERTIFICATE)
        for name, body in _written(value, comma, dict(about or {})).items():
            parcel.writestr(name, body)
        parcel.writestr("again.py", python + "\n")
        if command:
            parcel.writestr("again.txt", command + "\n")
    return {}


def converted(
    folder: str,
    name: str,
    out: str,
    comma: bool,
    about: Mapping[str, str] | None = None,
) -> dict[str, Any]:
    """The released table in another form: with decimal commas, or for Excel."""
    place = Path(folder)
    found = _written(place / _done(place)["file"], comma, dict(about or {}))
    if name not in found:
        raise SourceError("there is no such file")
    Path(out).write_bytes(found[name])
    return {}


def handed_page(
    folder: str, about: Mapping[str, str] | None = None, comma: bool = False
) -> dict[str, Any]:
    """One page: title, purpose, approver, the plain words, chart, numbers, what the band holds, certificate."""
    place = Path(folder)
    known = dict(about or {})
    done = _done(place)
    certificate = Certificate.read(place / CERTIFICATE)
    page = certificate_report(certificate)
    title = known.get("title") or certificate.released
    told = [
        ("Purpose", known.get("purpose", "")),
        ("Approved by", known.get("approver", "")),
    ]
    told += [
        ("Data", known.get("table", "")),
        ("Released on", known.get("released_on", "")),
    ]
    picture = done.get("picture")
    words = paragraph(
        title, known.get("released_on", certificate.released_at), done["certificate"]
    )
    beware = [
        f"{term}: {text.rstrip('.')}." for term, text in done["facts"] if term == BEWARE
    ]
    what = Section(
        heading="What this is",
        paragraphs=(words, *beware),
        facts=[fact for fact in told if fact[1]],
    )
    sections = [what]
    if done.get("rows"):
        names, *rows = done["rows"]
        rows = [[shown_cell(cell) for cell in row] for row in rows]
        more = "All rows are in the file of numbers, with all their digits."
        sections.append(
            Section(heading="The first rows", table=Table(names, rows, more))
        )
    if picture:
        sections += _shown(picture, comma)
    facts = [(term, str(text)) for term, text in done["facts"] if term != BEWARE]
    sections.append(Section(heading="More about it", facts=facts))
    promise = Section(
        heading="Certificate",
        paragraphs=("Its file holds every number with every digit.",),
        facts=[(term, text) for term, text in explained(certificate, title)],
    )
    curve = [one for one in page.sections if one.figure]
    return {
        "page": render(Report(title, "", [*sections, promise, *curve], page.footer))
    }


def _done(place: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(
        (place / "done.json").read_text(encoding="utf-8")
    )
    return found


def _shown(picture: Mapping[str, Any], comma: bool) -> list[Section]:
    """The chart, the numbers behind it and what its band holds."""
    found = number_table(picture)
    rows = [
        [
            with_comma(cell) if comma and (place or found["measured"]) else cell
            for place, cell in enumerate(row)
        ]
        for row in found["rows"]
    ]
    if found["left_out"]:
        note = f"{found['left_out']} more rows are in the file of numbers."
    else:
        note = ""
    description = f"{picture['y_name'] or 'Released numbers'} by {picture['x_name'] or 'row'}, with its numbers below."
    chart = Section(
        heading="In a picture",
        figure=svg(figure_of(picture, comma), "released", description),
    )
    numbers = Section(heading="In numbers", table=Table(found["columns"], rows, note))
    holds = picture.get("holds", "")
    return [
        chart,
        numbers,
        *(
            [Section(heading="What the band holds", paragraphs=(holds,))]
            if holds
            else []
        ),
    ]


def figure_of(picture: Mapping[str, Any], comma: bool = False) -> Any:
    """A picture as a figure for print, its numbers in the reader's convention."""
    if picture["kind"] == "rows":
        return _rows_figure(picture, comma)
    labels = [str(one) for one in picture["x"]]
    series = picture["series"]
    numeric = (
        all(isinstance(one, int | float) for one in picture["x"])
        and picture["kind"] != "bar"
    )
    if numeric:
        x = np.asarray(picture["x"], float)
    else:
        x = np.arange(len(labels), dtype=float)
    with drawing(7.2, 3.6) as (figure, axes):
        for place, (name, values) in enumerate(series):
            color = SERIES[place % len(SERIES)]
            _draw(axes, picture, place, (x, np.array(values, float)), color, name)
        if not numeric:
            shown = np.arange(len(labels))[
                :: max(1, -(-len(labels) // (MOST_TICKS if _long(labels) else 31)))
            ]
            axes.set_xticks(
                shown,
                [labels[place][:24] for place in shown],
                rotation=60 * _long(labels),
            )
            axes.set_xlabel(picture["x_name"])
        else:
            _name_axis(axes.xaxis, axes.get_xlim(), picture["x_name"], comma)
        _name_axis(axes.yaxis, axes.get_ylim(), picture["y_name"], comma)
        if len(series) > 1 or picture["bands"]:
            axes.legend()
        return figure


def _name_axis(axis: Any, ends: Sequence[float], name: str, comma: bool) -> None:
    """Its name, and its numbers as people write them."""
    size, counted = counted_in(max(map(abs, ends)))
    axis.set_label_text(f"{name}{counted}".removeprefix(", "))
    axis.set_major_formatter(lambda value, _: _as_read(value / size, comma))


def _as_read(value: float, comma: bool) -> str:
    text = grouped(value)
    if comma:
        return with_comma(text)
    return text


def _long(labels: Sequence[str]) -> bool:
    return sum(len(one) + 1 for one in labels) > 90


def _draw(
    axes: Any,
    picture: Mapping[str, Any],
    place: int,
    line: tuple[Any, Any],
    color: str,
    name: str,
) -> None:
    """One series with its band."""
    x, values = line
    ends = next((band for band in picture["bands"] if band["of"] == place), None)
    few = picture["kind"] == "points" or len(x) == 1
    low, high = (
        (np.array(ends[end], float) for end in ("low", "high"))
        if ends
        else (values, values)
    )
    if picture["kind"] == "bar":
        count = len(picture["series"])
        axes.bar(
            x + 0.8 * ((place + 0.5) / count - 0.5),
            values,
            0.8 / count,
            color=color,
            label=name,
        )
    elif few:
        label = f"{name}, {ends['name']}" if ends else name
        errors = [np.maximum(values - low, 0.0), np.maximum(high - values, 0.0)]
        axes.errorbar(x, values, errors, color=color, fmt="o", capsize=4, label=label)
    else:
        if ends:
            tint = {"color": color, "alpha": 0.18, "linewidth": 0}
            axes.fill_between(x, low, high, **tint, label=ends["name"])
        axes.plot(x, values, color=color, label=name)


def _rows_figure(picture: Mapping[str, Any], comma: bool) -> Any:
    """A row for each number, each on a scale of its own: sizes that differ a thousandfold can all be seen."""
    labels, (_, values) = (
        [str(one) for one in picture["x"]][:TALLEST],
        picture["series"][0],
    )
    if picture["bands"]:
        ends = picture["bands"][0]
    else:
        ends = {"low": values, "high": values}
    count = len(labels)
    with drawing(7.2, 0.6 + 0.42 * count, count, 1, squeeze=False) as (figure, panels):
        for axes, name, value, low, high in zip(
            panels[:, 0], labels, values, ends["low"], ends["high"]
        ):
            axes.axvline(0.0, color=INK, linewidth=0.8)
            axes.errorbar(
                [value],
                [0],
                xerr=[[value - low], [high - value]],
                color=SERIES[0],
                fmt="o",
                capsize=4,
            )
            axes.set_yticks([0], [name[:32]])
            axes.tick_params(axis="x", labelsize=6)
            axes.locator_params(axis="x", nbins=5)
            axes.xaxis.set_major_formatter(lambda one, _: _as_read(one, comma))
        return figure


def _written(value: Path, comma: bool, about: dict[str, str]) -> dict[str, bytes]:
    """The released file in every form that people open, by name; as it is where it is no table."""
    if value.suffix not in TABLES:
        return {value.name: value.read_bytes()}
    table = _released(value)
    columns = {
        name: column.to_numpy(zero_copy_only=False)
        for name, column in zip(table.column_names, table.columns)
    }
    plain = {
        name: column.to_pylist()
        for name, column in zip(table.column_names, table.columns)
    }
    decimals = _decimals(plain)
    facts = {
        "": [name for name in about if about[name]],
        "about": [text for text in about.values() if text],
    }
    sheets = [
        Sheet("numbers", plain, decimals),
        *([Sheet("about", facts)] if facts["about"] else []),
    ]
    return {
        f"{value.stem}.csv": _with_commas(plain)
        if comma
        else encode_columns(columns, ".csv"),
        f"{value.stem}.parquet": encode_columns(columns, ".parquet"),
        f"{value.stem}.xlsx": workbook(sheets),
    }


def _released(file: Path) -> Any:
    import pyarrow.csv
    import pyarrow.parquet

    return (
        pyarrow.csv.read_csv if file.suffix == ".csv" else pyarrow.parquet.read_table
    )(file)


def _with_commas(columns: Mapping[str, Sequence[Any]]) -> bytes:
    """As programs of countries with decimal commas write it: separated by semicolons."""
    rows = [[_cell(one) for one in row] for row in zip(*columns.values())]
    text = io.StringIO(newline="")
    csv.writer(text, delimiter=";", lineterminator="\r\n").writerows(
        [list(columns), *rows]
    )
    return text.getvalue().encode(
        "utf-8-sig"
    )  # by whose first sign Excel knows that it is UTF-8


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        if value:
            return "true"
        return "false"
    if isinstance(value, float):
        return with_comma(repr(value))
    if value is None:
        return ""
    return str(value)


def _decimals(columns: Mapping[str, Sequence[Any]]) -> dict[str, int]:
    """How many decimals of each column of numbers to show: what its noise leaves, by its ends or its deviation."""
    found = {}
    for name, cells in columns.items():
        if not any(isinstance(one, float) for one in cells):
            continue
        base = name.removesuffix("_sd").removesuffix("_low").removesuffix("_high")
        noise = columns.get(f"{base}_sd") or columns.get("high")
        centre = columns.get(base) or cells
        if f"{base}_sd" in columns:
            reaches = [one for one in noise or () if one]
        else:
            lows = columns.get("low", ())
            highs = columns.get("high", ())
            reaches = [
                (high - low) / 2
                for low, high in zip(lows, highs)
                if None not in (low, high)
            ]
        reaches = reaches or [abs(one) / 100 for one in centre if one]
        found[name] = decimals_beside(float(np.median(reaches))) if reaches else 2
    return found
