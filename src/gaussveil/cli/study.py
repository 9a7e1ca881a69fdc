"""`gaussveil study`: the papers recomputed by gaussveil-studies, a package beside this one."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussveil.cli.options import Json
from gaussveil.errors import PUBLISHED, MissingDependencyError


def study(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="Which study; 'list' shows them all.")
    ] = "list",
    data: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the real data sets; GAUSSVEIL_DATA otherwise.",
            file_okay=False,
        ),
    ] = None,
    out: Annotated[
        Path, typer.Option(help="Folder in which study-NAME is made.", file_okay=False)
    ] = Path("out"),
    full: Annotated[
        bool,
        typer.Option(
            "--full/--quick", help="The papers' own sizes, or within minutes."
        ),
    ] = False,
    tiny: Annotated[
        bool,
        typer.Option("--tiny", hidden=True, help="As small as it gets, for tests."),
    ] = False,
    steps: Annotated[
        str | None,
        typer.Option(help="Only these steps of a study, separated by commas."),
    ] = None,
    seed: Annotated[
        int,
        typer.Option(
            min=0, help="Seed of all draws: studies are repeatable, releases never."
        ),
    ] = 0,
    cache: Annotated[
        Path | None,
        typer.Option(help="Folder of results kept by content.", file_okay=False),
    ] = None,
    no_cache: Annotated[
        bool, typer.Option("--no-cache", help="Compute everything anew, keep nothing.")
    ] = False,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="--full: go on from the pieces that an interrupted run left in the cache.",
        ),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Processes that share trials; all cores by default."),
    ] = None,
    install_peers: Annotated[
        bool,
        typer.Option(
            "--install-peers",
            help="peers: make environments of other libraries that are missing.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Recompute a paper's figures, tables and claims, and say which hold.

    Writes a self-contained page, tables (CSV, JSON) and pictures (SVG) into OUT/study-NAME. Parts whose data are
    missing are named and left out.

    Example: gaussveil study list
    """
    size: dict[str, Any] = {
        "full": full,
        "tiny": tiny,
        "seed": seed,
        "resume": resume,
        "workers": workers,
    }
    if steps is None:
        chosen = None
    else:
        chosen = steps.split(",")
    try:
        from gaussveil_studies.command import answer

        answer(
            name,
            data,
            out,
            chosen,
            **size,
            cache=cache,
            no_cache=no_cache,
            install_peers=install_peers,
            json=json,
        )
    except ModuleNotFoundError as error:
        missing = (error.name or "").partition(".")[0]
        if PUBLISHED:
            command = "pip install gaussveil-studies"
        else:
            command = "pip install ./studies in a checkout of gaussveil"
        raise MissingDependencyError(f"study needs {missing}: {command}") from None
