"""`gaussveil synthesise`: rows of nobody with the columns, order and types of a private table."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli import options
from gaussveil.cli.asked import AskedByUnit, with_options
from gaussveil.cli.files import release_facts, release_files, release_lines
from gaussveil.cli.output import tell
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    import pyarrow as pa

    from gaussveil.mechanisms import SyntheticTable
    from gaussveil.postprocessing.synthetic.model import SyntheticModel
    from gaussveil.statistics import Source

Out = Annotated[
    Path,
    typer.Option(
        help="File to write: .csv or .parquet.",
        show_default=False,
        parser=options.Written(".csv", ".parquet"),
    ),
]
Texts = list[str] | None
BYTES_PER_CELL = 40
FORMATS = (".png", ".svg", ".pdf")
ROWS_UNKNOWN = 2**17  # for which room is kept where the release itself says how many
NO_ROWS = (
    "no row, summary or picture is written, since they would be noise, and the cost is spent: "
    "where about how many rows there are is public, --rows refuses such a table before anything is spent"
)


@with_options
def synthesise(
    asked: AskedByUnit,
    out: Out,
    between: Annotated[
        Texts,
        typer.Option(help="Public range of a column: age:0,120; may be repeated."),
    ] = None,
    values: Annotated[
        Texts,
        typer.Option(help="Public values of a column: ward:A|B|C; may be repeated."),
    ] = None,
    bounds: Annotated[
        str | None,
        typer.Option(
            help="auto: learn ranges and values that are not given, within the budget."
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(help="Column of few values that all others are described by."),
    ] = None,
    columns: options.Columns = None,
    series: Annotated[
        Texts,
        typer.Option(
            help="Columns that are one quantity at successive times: 'h*'; may be repeated."
        ),
    ] = None,
    count: Annotated[
        int | None,
        typer.Option("-n", "--count", help="Rows to draw; about as many by default."),
    ] = None,
    rows: Annotated[
        int | None,
        typer.Option(
            help="About how many rows the table has, if public: too few are refused beforehand."
        ),
    ] = None,
    summary: Annotated[
        Path | None,
        typer.Option(
            help="What the rows say, with intervals: a CSV file.",
            parser=options.Written(".csv"),
        ),
    ] = None,
    picture: Annotated[
        Path | None,
        typer.Option(
            help="Private and synthetic table side by side: for the owner alone.",
            parser=options.Written(*FORMATS),
        ),
    ] = None,
) -> None:
    """Write a synthetic table: same columns, order and types, rows of nobody.

    Numbers, whole numbers, dates, times, texts and yes/no, with missing cells. Mistakes in columns and options are
    refused before anything is spent.

    Example: gaussveil synthesise patients.csv --bounds auto --epsilon 1 --delta 1e-6 --out synthetic.csv
    """
    from gaussveil import checks
    from gaussveil.mechanisms import SyntheticTable

    if count is not None:
        checks.whole("--count", count)
    asked.check(out, summary, picture, endings=(".csv", ".parquet"))
    source = asked.table()
    synthetic = SyntheticTable(
        **asked.promise,
        columns=None if columns is None else options.listed(columns),
        between={
            name: tuple(ends.split(","))
            for name, ends in _named("--between", between, "age:0,120")
        },
        values=_typed(source.schema, dict(_named("--values", values, "ward:A|B|C"))),
        bounds=bounds,
        label=label,
        series=series,
        rows=rows,
    )
    room = BYTES_PER_CELL * len(source.schema.names) * (count or ROWS_UNKNOWN)
    with release_files(out, room) as write:
        release = synthetic.release(source)
        model = release.value
        assert model.quality is not None
        drawn = model.sample(count, anyway=True)
        if not model.quality.usable:
            drawn = drawn.slice(0, 0)
        write(encoded(drawn, out.suffix.lower()), release.certificate)
    if summary is not None and drawn.num_rows:
        _write_summary(synthetic, drawn, summary)
    if picture is not None and drawn.num_rows:
        _write_picture(source, drawn, model, picture)
    facts = release_facts(out, release.certificate) | {
        "rows": drawn.num_rows,
        "columns": drawn.column_names,
    }
    facts |= {"expected_distance": model.quality.mean_gap}
    facts |= {"usable": model.quality.usable}
    facts |= {"advice": list(model.quality.advice)}
    facts |= {"left_empty": list(model.quality.unknown)}
    facts |= {"least_missing": model.quality.least_share}
    lines = release_lines(out, release.certificate, f"{drawn.num_rows} rows of nobody")
    lines = _first_of_all(model, drawn) + lines
    lines += [
        model.quality.on_distance,
        model.quality.on_missing,
        *_on_ranges(drawn, model, _named("--between", between, "age:0,120")),
        *(f"beware: {advice}" for advice in model.quality.advice),
    ]
    tell(facts, lines, json=asked.json)


def _first_of_all(model: SyntheticModel, rows: pa.Table) -> list[str]:
    """What a reader of one line must know: that the rows are of no use, or which columns are empty."""
    assert model.quality is not None
    if not rows.num_rows and model.quality.verdict is not None:
        return [f"UNUSABLE: {model.quality.verdict}", NO_ROWS]
    if not model.unknown:
        return []
    names = ", ".join(model.unknown)
    count = len(model.quality.gaps)
    return [f"{len(model.unknown)} of {count} columns are left empty: {names}"]


def _on_ranges(
    rows: pa.Table, model: SyntheticModel, given: list[tuple[str, str]]
) -> list[str]:
    """How far drawn numbers reach where their range was learnt, and what to do about it."""
    import numpy as np

    from gaussveil.postprocessing.synthetic.columns import CLOCK

    reached = []
    for column in model.columns:
        if column.is_category or column.kind == CLOCK or column.name in dict(given):
            continue
        numbers = column.numbers(rows.column(column.name).combine_chunks())
        present = numbers[~np.isnan(numbers)]
        if len(present):
            ends = f"{column.written(present.min())} to {column.written(present.max())}"
            reached.append(f"{column.name} {ends}")
    if not reached:
        return []
    return [
        f"numbers reach as far as their law goes on beyond what stands out of the noise: {', '.join(reached)}; "
        "give the range where it is public (--between)"
    ]


def _write_summary(synthetic: SyntheticTable, rows: pa.Table, path: Path) -> None:
    """What the rows say, with the intervals of the private table's own numbers."""
    path.write_bytes(encoded(synthetic.summary(rows), ".csv"))


def _write_picture(
    source: Source, rows: pa.Table, model: SyntheticModel, path: Path
) -> None:
    """A picture of the private rows beside the drawn ones; nobody else may read the file."""
    from gaussveil.files import PRIVATE
    from gaussveil.report.figures import save
    from gaussveil.report.synthetic import beside_figure

    private = source.table([column.name for column in model.columns])
    save(beside_figure(private, rows, model.columns), path)
    path.chmod(PRIVATE)


def encoded(rows: pa.Table, ending: str) -> bytes:
    """The rows as a file; in CSV a missing cell is empty."""
    from pyarrow import csv, parquet

    buffer = io.BytesIO()
    if ending == ".csv":
        csv.write_csv(rows, buffer, csv.WriteOptions(quoting_style="needed"))
    else:
        parquet.write_table(rows, buffer)
    return buffer.getvalue()


def _named(option: str, texts: Texts, example: str) -> list[tuple[str, str]]:
    stated: list[tuple[str, str]] = []
    for text in texts or []:
        column, sign, rest = text.partition(":")
        if not sign or not rest.strip():
            raise ParameterError(f"{option} must be such as {example}. Got {text!r}.")
        if column.strip() in dict(stated):
            raise ParameterError(
                f"{option} must be given once for a column. Got another one, {text!r}."
            )
        stated.append((column.strip(), rest.strip()))
    return stated


def _typed(schema: pa.Schema, listed: dict[str, str]) -> dict[str, list[Any]]:
    """Listed values in their columns' own types."""
    from gaussveil.mechanisms.mixture.records import classes_from_words

    words = {
        name: [word.strip() for word in text.split("|")]
        for name, text in listed.items()
    }
    return {
        name: classes_from_words(schema, name, text) for name, text in words.items()
    }
