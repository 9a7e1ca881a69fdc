"""How every command opens a table: one kind of address, one option --engine, the same words everywhere."""

from __future__ import annotations

import glob
import inspect
import os
import sys
from collections.abc import Callable
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.columns import require_named
from gaussveil.cli.output import waiting
from gaussveil.errors import FormatError, ParameterError, SourceError
from gaussveil.files import printable

if TYPE_CHECKING:
    from gaussveil.statistics import Source

TABLE_HELP = "Table: .parquet, .csv, .xlsx, .arrow, .npy, folder, database#table or URL."

OWN_PROGRESS = ("query", "demo", "spark")  # commands that show how far they are

FILE_OPTIONS = {
    "separator": "CSV: what separates cells, such as ';' or tab.",
    "decimal": "CSV: the decimal mark, '.' or ','.",
    "encoding": "CSV: its encoding, such as windows-1252.",
    "time-format": "CSV: how times are written, such as '%d.%m.%Y %H:%M'.",
}


class Engine(StrEnum):
    """What reads a table."""

    duckdb = "duckdb"
    spark = "spark"


TableAddress = Annotated[str, typer.Argument(metavar="IN", help=TABLE_HELP, show_default=False)]
EngineOption = Annotated[
    Engine, typer.Option("--engine", help="What reads the table: here, or Spark (GAUSSVEIL_SPARK_MASTER).")
]


def open_table(address: str, engine: Engine) -> Source:
    """The Source behind an address; an .npy array is read where it lies."""
    import numpy as np

    from gaussveil.engines import open as open_source
    from gaussveil.statistics import as_source

    if Path(address).suffix.lower() != ".npy":
        table = open_source(address, engine=engine.value)
        dialect = getattr(table, "dialect", None)
        if words := dialect and dialect.words():
            change = ", ".join(f"--{name}" for name in FILE_OPTIONS)
            print(printable(f"{table_name(address)}: {words} (to change: {change})"), file=sys.stderr)
        return table
    if engine is not Engine.duckdb:
        raise ParameterError(f"--engine {engine.value} reads tables, not an .npy array; leave the option out")
    try:
        return as_source(np.load(address, mmap_mode="r", allow_pickle=False))
    except OSError as error:
        raise SourceError(
            f"{local_file(address) or table_name(address)}: cannot be read ({error.strerror or 'not such a file'})"
        ) from None
    except (ValueError, EOFError):
        raise FormatError(f"{address}: not an .npy file of plain numbers; write it with numpy.save") from None


def with_file_options(command: Callable[..., None]) -> Callable[..., None]:
    """A command that reads tables, with the options that say how a CSV file is written; any other as it is.

    They are set in the environment while it runs, where the studio's and an engine's processes find them too.
    """
    signature = inspect.signature(command, eval_str=True)
    if "engine" not in signature.parameters:
        return command
    names = [name.replace("-", "_") for name in FILE_OPTIONS]

    @wraps(command)
    def reading(**given: Any) -> None:
        said = {f"GAUSSVEIL_{name.upper()}": value for name in names if (value := given.pop(name)) is not None}
        before = {name: os.environ.get(name) for name in said}
        os.environ.update(said)
        own = command.__name__ in OWN_PROGRESS or given.get("json") or given.get("json_output")
        try:
            if isinstance(address := given.get("source", given.get("history", given.get("data"))), str | Path):
                require_named(local_file(str(address)), given)
            with waiting(sys.stderr.isatty() and not own):
                command(**given)
        finally:
            for name, value in before.items():
                os.environ.pop(name) if value is None else os.environ.update({name: value})

    kinds = {name: Annotated[str | None, typer.Option(help=words)] for name, words in zip(names, FILE_OPTIONS.values())}
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name]) for name in names
    ]
    vars(reading)["__signature__"] = signature.replace(parameters=[*signature.parameters.values(), *added])
    reading.__annotations__ = {**command.__annotations__, **kinds}
    return reading


def local_file(address: str) -> Path | None:
    """The file that no output may replace; None where the table lies elsewhere.

    What is neither a file nor a pattern of files and may hold a password is refused here, before anything quotes it.
    """
    from gaussveil.engines.location import may_hold_password

    place = address.removeprefix("file://")
    if "://" in place:
        return None
    if may_hold_password(place) and not (os.path.exists(place) or glob.glob(place.partition("#")[0])):
        raise ParameterError(
            "IN is neither a file nor an address such as postgresql://host/db#table; it is not repeated here, since it "
            "may hold a password"
        )
    return Path(place)


def table_name(address: str) -> str:
    """What a certificate calls the table: neither the server, nor a password that the address may hold."""
    from gaussveil.engines.location import public_name

    return public_name(address)
