"""`gaussveil demo`: the main job on a town of simulated homes, or on one's own readings."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli.asked import with_options
from gaussveil.cli.files import check_targets
from gaussveil.cli.options import Json
from gaussveil.cli.tables import (
    TABLE_HELP,
    Engine,
    EngineOption,
    HomesTable,
    local_file,
    table_name,
)
from gaussveil.errors import ParameterError

MOST_HOMES = 5000


@with_options
def demo(
    table: HomesTable,
    out: Annotated[
        Path,
        typer.Option(help="Folder for the report, the ledger and all other files."),
    ] = Path("out"),
    data: Annotated[
        str | None, typer.Option(help=f"Your own readings instead. {TABLE_HELP}")
    ] = None,
    homes: Annotated[int, typer.Option(help="Homes of the simulated town.")] = 1000,
    seed: Annotated[int, typer.Option(help="Which simulated town.")] = 7,
    engine: EngineOption = Engine.duckdb,
    repeatable: Annotated[
        bool,
        typer.Option(
            "--repeatable",
            help="Draw the noise from the seed too: no privacy, the same pictures.",
        ),
    ] = False,
    picture: Annotated[
        Path | None,
        typer.Option(help="Also write the overview picture (.svg, .png or .pdf)."),
    ] = None,
    curves: Annotated[
        Path | None,
        typer.Option(help="Also write the privacy curves (.svg, .png or .pdf)."),
    ] = None,
    json: Json = False,
) -> None:
    """Do a utility's whole job on a town: average day, totals, synthetic days, a bill, a forecast, a sketch, audited.

    OUT/demo.html is the report to share; OUT/private-diagnostics.html shows the truth beside every release and is for
    the owner alone. Your own readings are a long table (household, time, kw) or a wide one (time and a column per
    household).

    Example: gaussveil demo --data readings.parquet --out town
    """
    if not 8 <= homes <= MOST_HOMES:
        raise ParameterError(
            f"--homes must lie between 8 and {MOST_HOMES}. Got {homes}."
        )
    if repeatable and data is not None:
        raise ParameterError(
            "--repeatable draws noise that protects nobody: it is for simulated towns, not for --data"
        )

    from gaussveil_town.command import answer, simulated_town

    if data is None:
        private_input = None
    else:
        private_input = local_file(data)
    check_targets(picture, curves, inputs=[private_input], force=True)
    if data is None:
        readings, source = simulated_town(homes, seed)
    else:
        readings = table.read(data, engine)
        source = f"the readings in {table_name(data)}"
    answer(
        readings,
        source,
        out,
        private_input=private_input,
        noise_seed=seed if repeatable else None,
        picture=picture,
        curves=curves,
        json=json,
    )
