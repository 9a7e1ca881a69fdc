"""How every command opens a table: one kind of address, one option --engine, the same words everywhere."""

from __future__ import annotations

import glob
import os
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussveil.errors import FormatError, ParameterError, SourceError

if TYPE_CHECKING:
    from gaussveil.statistics import Source

TABLE_HELP = "Table: .parquet, .csv, .arrow, .npy, folder, database#table or URL."


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
        return open_source(address, engine=engine.value)
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
