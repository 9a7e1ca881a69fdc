"""`gaussveil schema`: propose the form of a table, for a person to read and keep."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.output import tell
from gaussveil.cli.tables import (
    Engine,
    EngineOption,
    TableAddress,
    local_file,
    open_source,
    table_name,
)
from gaussveil.errors import ParameterError
from gaussveil.project_file import PROJECT_FILE, form_text, write_form

if TYPE_CHECKING:
    import pyarrow as pa

    from gaussveil.engines.dialect import Dialect

SENTINELS = (-99, -999, -9999, -99999, 999, 9999, 99999, 999999)


def schema(
    source: TableAddress,
    unit: Annotated[
        str | None, typer.Option(help="Column that names whose row it is.")
    ] = None,
    people: Annotated[
        str | None,
        typer.Option(help="Whose rows these are, as an account of people names them."),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Clock that hours and days are read on: Europe/Zurich."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write the form to: gaussveil.toml, or a .toml of its own; else it is printed."
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite a file that exists.")
    ] = False,
    engine: EngineOption = Engine.duckdb,
    json: Annotated[
        bool, typer.Option("--json", help="Print one JSON object.")
    ] = False,
) -> None:
    """Propose the form of a table: how it is written, what its columns hold, which marks mean missing, whose rows.

    Names come from the header; the rest is a look at the first cells, which only the owner may see: read it, correct it
    and keep it. Once kept, every cell is read by itself and no row decides how another is read.

    Example: gaussveil schema in.csv --out gaussveil.toml
    """
    from gaussveil.engines.form import require_zone

    table = open_source(source, engine)
    dialect = table.dialect
    if unit is not None:
        dialect = _of_units(dialect, unit)
    sentinels = () if dialect.missing else _sentinels(table)
    require_zone(time_zone)
    form = _completed(dialect, unit, people, time_zone, sentinels).toml()
    guesses = list(dialect.found)
    if sentinels:
        guesses.append("missing marks")
    if out is not None:
        _write(out, table_name(source), form, force)
        lines = [f"wrote {out}"]
        lines += _remarks(guesses, dialect)
    else:
        lines = form_text(table_name(source), form).rstrip("\n").split("\n")
        lines += _remarks(guesses, dialect)
        address = local_file(source) or "IN"
        lines.append(f"# to keep it: gaussveil schema {address} --out {PROJECT_FILE}")
    facts = {"form": form, "found": guesses, "out": out and str(out)}
    tell(facts, lines, json=json)


def _of_units(dialect: Dialect, unit: str) -> Dialect:
    """The form of a table whose column `unit` says whose row it is."""
    names = [column.name for column in dialect.columns]
    if unit not in names:
        raise ParameterError(
            f"--unit must be a column of the table: {', '.join(names)}. Got {unit!r}."
        )
    if dialect.found:
        return dialect.identified([unit])
    return dialect


def _completed(
    dialect: Dialect,
    unit: str | None,
    people: str | None,
    time_zone: str | None,
    sentinels: tuple[str, ...],
) -> Dialect:
    """The form of the table, with what the command says of it and what was seen in its first cells."""
    from dataclasses import replace

    return replace(
        dialect,
        unit=unit or dialect.unit,
        people=people or dialect.people,
        time_zone=time_zone or dialect.time_zone,
        missing=dialect.missing or sentinels,
    )


def _remarks(guesses: list[str], dialect: Dialect) -> list[str]:
    """Comments below the form: what was guessed, and which columns are text for a reason."""
    remarks = []
    if guesses:
        remarks.append(
            f"# found by a look at the first cells: {', '.join(guesses)}; read it before you keep it"
        )
    remarks += [f"# {name} is text, since {why}" for name, why in dialect.unclear]
    return remarks


def _write(out: Path, name: str, form: dict[str, Any], force: bool) -> None:
    if out.suffix.lower() != ".toml":
        raise ParameterError(f"--out must end in .toml. Got {out.name!r}.")
    if out.name == PROJECT_FILE:
        write_form(out, name, form)
        return
    if out.exists() and not force:
        raise ParameterError(
            f"{out}: exists already; choose another name or add --force"
        )
    out.unlink(missing_ok=True)
    write_form(out, "", form)


def _sentinels(table: Any) -> tuple[str, ...]:
    """Numbers that often mean missing, where they stand apart from all others of a column's first rows."""
    import numpy as np

    from gaussveil.statistics.block import is_number, numbers

    batch: pa.RecordBatch | None = next(iter(table.batches(table.schema.names)), None)
    marks: dict[str, None] = {}
    for field in table.schema if batch is not None else ():
        if not is_number(field.type):
            continue
        assert batch is not None
        values = np.asarray(numbers(batch.column(field.name)), dtype=np.float64)
        values = values[np.isfinite(values)]
        for mark in SENTINELS:
            others = values[values != mark]
            if 1 < np.sum(values == mark) < len(values) / 2 and abs(mark) > 3 * np.abs(
                others
            ).max(initial=0.0):
                marks[str(mark)] = None
    return tuple(marks)
