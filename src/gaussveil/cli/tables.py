"""How every command opens a table: one kind of address, one option --engine, the same words everywhere.

Tables of meter readings have a few options more, and the wrong unit of power is noticed.
"""

from __future__ import annotations

import glob
import inspect
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer

from gaussveil.cli.columns import HOUSEHOLD, READINGS, readings_named, require_named
from gaussveil.cli.output import waiting
from gaussveil.errors import FormatError, ParameterError, SchemaError, SourceError
from gaussveil.files import printable
from gaussveil.project_file import PROJECT_FILE

if TYPE_CHECKING:
    from gaussveil.statistics import Source
    from gaussveil.timeseries import Readings

TABLE_HELP = (
    "Table: .parquet, .csv, .xlsx, .arrow, .npy, folder, database#table or URL."
)

OWN_PROGRESS = ("query", "demo", "spark")  # commands that show how far they are

FILE_OPTIONS = {
    "separator": "CSV: what separates cells, such as ';' or tab.",
    "decimal": "CSV: the decimal mark, '.' or ','.",
    "encoding": "CSV: its encoding, such as windows-1252.",
    "time-format": "How times of text are written, such as '%d.%m.%Y %H:%M'.",
    "types": "What columns of text hold, as in home=text,kw=number,time=instant.",
    "missing": "Marks of missing cells and sentinels, such as -999 or -999,NA.",
    "schema": "File of the table's form, as `gaussveil schema` writes it.",
}
TableAddress = Annotated[
    str, typer.Argument(metavar="IN", help=TABLE_HELP, show_default=False)
]
TABLES = (".parquet", ".csv", ".csv.gz")
MARK_OF_A_NUMBER = re.compile(r"[+-]?(\d+[.]?\d*|[.]\d+)([eE][+-]?\d+)?")
HIGHEST_MEDIAN_KW = 50.0  # no town of homes draws more; watts taken for kilowatts do


class Engine(StrEnum):
    """What reads a table."""

    duckdb = "duckdb"
    spark = "spark"


EngineOption = Annotated[
    Engine,
    typer.Option(
        "--engine",
        help="What reads the table: here, or Spark (GAUSSVEIL_SPARK_MASTER).",
    ),
]


def open_source(address: str, engine: Engine) -> Any:
    """The table behind an address that an engine reads."""
    from gaussveil.engines import open as open_source

    return open_source(address, engine=engine.value)


def open_table(address: str, engine: Engine) -> Source:
    """The Source behind an address; an .npy array is read where it lies.

    Where nobody wrote down how the table is read, the form that was chosen is told, and how to keep it.
    """
    import numpy as np

    from gaussveil.statistics import as_source

    if Path(address).suffix.lower() != ".npy":
        table = open_source(address, engine)
        if table.found_form:
            print(
                printable(
                    f"{table_name(address)}: read as {table.dialect.all_words()}"
                ),
                file=sys.stderr,
            )
            pinned = f"gaussveil schema {spoken(address)} --out {PROJECT_FILE}"
            print(
                printable(f"this form was read off the file; to pin it: {pinned}"),
                file=sys.stderr,
            )
        return cast("Source", table)
    if engine is not Engine.duckdb:
        raise ParameterError(
            f"--engine {engine.value} reads tables, not an .npy array; leave the option out"
        )
    try:
        return as_source(
            _without_marks(np.load(address, mmap_mode="r", allow_pickle=False))
        )
    except OSError as error:
        raise SourceError(
            f"{local_file(address) or table_name(address)}: cannot be read ({error.strerror or 'not such a file'})"
        ) from None
    except (ValueError, EOFError):
        raise FormatError(
            f"{address}: not an .npy file of plain numbers; write it with numpy.save"
        ) from None


def form_is_known(address: str) -> bool:
    """Whether a local table says what its columns hold without a look at its cells: it has types, or a pinned form."""
    from gaussveil.engines.form import given_form
    from gaussveil.engines.location import Location

    path = local_file(address)
    if path is None or not path.is_file():
        return False
    if path.suffix.lower() == ".csv":
        return given_form(Location("csv", str(path))).pinned is not None
    return path.suffix.lower() in (".parquet", ".arrow")


def _without_marks(array: Any) -> Any:
    """An array whose cells that mean missing are missing."""
    import numpy as np

    from gaussveil.engines.form import given_form

    marks = [
        float(mark) for mark in given_form().missing if MARK_OF_A_NUMBER.fullmatch(mark)
    ]
    if not marks or array.dtype.kind not in "biuf":
        return array
    return np.where(np.isin(array, marks), np.nan, array)


def spoken(address: str) -> str:
    """An address as a message may repeat it."""
    from gaussveil.engines.location import spoken_name

    return spoken_name(address)


@contextmanager
def _environment(variables: Mapping[str, str]) -> Iterator[None]:
    """These variables, meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


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
        stated = _stated({name: given.pop(name) for name in names})
        json = given.get("json") or given.get("json_output")
        own = command.__name__ in OWN_PROGRESS or json
        with _environment(stated):
            address = given.get("source", given.get("history", given.get("data")))
            if isinstance(address, str | Path):
                require_named(local_file(str(address)), given)
            with waiting(sys.stderr.isatty() and not own):
                command(**given)

    kinds = {
        name: Annotated[str | None, typer.Option(help=words)]
        for name, words in zip(names, FILE_OPTIONS.values())
    }
    added = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kinds[name]
        )
        for name in names
    ]
    vars(reading)["__signature__"] = signature.replace(
        parameters=[*signature.parameters.values(), *added]
    )
    reading.__annotations__ = {**command.__annotations__, **kinds}
    return reading


def _stated(options: dict[str, str | None]) -> dict[str, str]:
    """The environment's variables that say how a file is written: options, and the project's file."""
    stated = {
        f"GAUSSVEIL_{name.upper()}": value
        for name, value in options.items()
        if value is not None
    }
    project = Path.cwd() / PROJECT_FILE
    if project.is_file():
        stated["GAUSSVEIL_PROJECT"] = str(project)
    return stated


def local_file(address: str) -> Path | None:
    """The file that no output may replace; None where the table lies elsewhere.

    What is neither a file nor a pattern of files and may hold a password is refused here, before anything quotes it.
    """
    from gaussveil.engines.location import may_hold_password

    place = address.removeprefix("file://")
    if "://" in place:
        return None
    if may_hold_password(place) and not (
        os.path.exists(place) or glob.glob(place.partition("#")[0])
    ):
        raise ParameterError(
            "IN is neither a file nor an address such as postgresql://host/db#table; it is not repeated here, since it "
            "may hold a password"
        )
    return Path(place)


def table_name(address: str) -> str:
    """What a certificate calls the table: neither the server, nor a password that the address may hold."""
    from gaussveil.engines.location import public_name

    return public_name(address)


def read_table(address: str, engine: Engine, *, identified: str | None = None) -> Any:
    """The table of a file, as Arrow and in its order; what cannot be read is named. Others go through an engine.

    The column `identified`, where there is one, names whose rows these are: text, byte for byte.
    """
    from gaussveil.engines.form import given_form
    from gaussveil.engines.location import Location
    from gaussveil.engines.typed_columns import as_said
    from gaussveil.engines.whole_files import read_parquet, require_fitting

    path = local_file(address)
    if (
        engine is not Engine.duckdb
        or path is None
        or not path.name.lower().endswith(TABLES)
    ):
        return _named(open_table(address, engine), identified)
    try:
        with path.open(
            "rb"
        ):  # an unreadable file fails here, with the system's own words
            if path.suffix.lower() == ".parquet":
                return as_said(
                    read_parquet(path), given_form(Location("parquet", str(path)))
                )
    except OSError as error:
        raise SourceError(
            f"{path}: cannot be read ({error.strerror or 'not such a file'})"
        ) from None
    require_fitting(str(path))
    return _named(open_table(address, engine), identified).table()


def _named(table: Source, column: str | None) -> Source:
    if column is not None and column in table.schema.names:
        return table.identified(column)
    return table


@dataclass(frozen=True)
class HomesTable:
    """How a table holds the readings of homes."""

    household: Annotated[
        str, typer.Option(help="Column that names the household (long table).")
    ] = HOUSEHOLD
    time: Annotated[
        str,
        typer.Option(
            help="Column of times; DAY+CLOCK joins a column of dates and one of times."
        ),
    ] = "time"
    power: Annotated[str, typer.Option(help="Column of power (long table).")] = "kw"
    measured_in: Annotated[
        str,
        typer.Option(
            "--in", help="Power is in kW or W, or energy per step in kWh or Wh."
        ),
    ] = "kW"
    gaps: Annotated[
        Literal["refuse", "interpolate", "hold", "week"],
        typer.Option(help="Missing readings."),
    ] = "refuse"
    time_zone: Annotated[
        str | None, typer.Option(help="Zone of the wall clock, such as Europe/Zurich.")
    ] = None

    def read(self, address: str, engine: Engine) -> Readings:
        """The readings; refused where they are most likely in another unit."""
        from gaussveil.timeseries import read_readings

        table = read_table(address, engine, identified=self.household)
        stated = vars(self)
        found = readings_named(
            [str(name) for name in table.schema.names],
            {name: stated[name] for name in READINGS},
        )
        readings = read_readings(table, **{**stated, **found})
        _check_unit(readings, self.measured_in)
        return readings


def _check_unit(readings: Readings, unit: str) -> None:
    """Refuse readings that no homes can have: most likely the unit is another one."""
    import numpy as np

    if float(np.median(readings.values)) > HIGHEST_MEDIAN_KW:
        raise SchemaError(
            f"half of the readings are above {HIGHEST_MEDIAN_KW:g} kW if the power is in {unit}; homes draw less. "
            "Say what it is in: --in kW, W, kWh or Wh per step"
        )
