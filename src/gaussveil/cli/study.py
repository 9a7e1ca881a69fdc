"""`gaussveil study`: the papers' experiments and refutations recomputed, with a verdict claim by claim."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table as RichTable
from rich.text import Text

from gaussveil.cli.options import Json
from gaussveil.cli.output import print_json, print_line
from gaussveil.errors import ParameterError, SourceError

if TYPE_CHECKING:
    from gaussveil.studies.study import Outcome

PIPED_WIDTH = 160  # of tables that go to a file or a pipe
COLOURS = {"refuted": "red", "agrees": "green", "differs": "yellow", "not shown": ""}


def study(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Which study; 'list' shows them all.")] = "list",
    data: Annotated[
        Path | None, typer.Option(help="Folder of the real data sets; GAUSSVEIL_DATA otherwise.", file_okay=False)
    ] = None,
    out: Annotated[Path, typer.Option(help="Folder in which study-NAME is made.", file_okay=False)] = Path("out"),
    full: Annotated[bool, typer.Option("--full/--quick", help="The papers' own sizes, or within minutes.")] = False,
    tiny: Annotated[bool, typer.Option("--tiny", hidden=True, help="As small as it gets, for tests.")] = False,
    seed: Annotated[int, typer.Option(min=0, help="Seed of all draws: studies are repeatable, releases never.")] = 0,
    cache: Annotated[Path | None, typer.Option(help="Folder of results kept by content.", file_okay=False)] = None,
    no_cache: Annotated[bool, typer.Option("--no-cache", help="Compute everything anew, keep nothing.")] = False,
    install_peers: Annotated[
        bool, typer.Option("--install-peers", help="peers: make environments of other libraries that are missing.")
    ] = False,
    json: Json = False,
) -> None:
    """Recompute a paper's figures, tables and claims, and say which hold.

    Writes a self-contained page, tables (CSV, JSON) and pictures (SVG) into OUT/study-NAME. Parts whose data are
    missing are named and left out.

    Example: gaussveil study list
    """
    from gaussveil.studies.catalogue import names, study_named

    if name == "list":
        studies = [study_named(each) for each in names()]
        if json:
            print_json({"studies": [{"name": s.name, "summary": s.summary, "data": s.files} for s in studies]})
        else:
            rows = [[Text(s.name), Text(s.summary)] for s in studies]
            _console().print(_table("", ("study", "about"), rows, right=False))
        return
    wanted = study_named(name)

    from gaussveil.mechanisms.progress import shown_progress
    from gaussveil.studies.study import Options, Size
    from gaussveil.studies.study_output import as_json, write_outcome
    from gaussveil.studies.study_run import default_cache, run_study

    if full and tiny:
        raise ParameterError("--full and --tiny exclude each other; give one of them")
    if data is not None and not data.is_dir():
        raise SourceError(f"{data}: is no folder; name the folder of the real data sets")
    size = Size.FULL if full else Size.TINY if tiny else Size.QUICK
    options = Options(data or _data_from_environment(), size, seed)
    if install_peers:
        from gaussveil.studies.peers.questions import install_peers as install

        install(Path())
    kept = None if no_cache else cache or default_cache()
    with shown_progress(sys.stderr.isatty() and not json, f"study {name}") as progress:
        outcome = run_study(wanted, options, kept, progress)
    page = write_outcome(outcome, out)
    if json:
        print_json({**as_json(outcome), "report": str(page)})
        return
    _print(outcome)
    print_line(f"\nreport, tables and pictures: {page}")


def _data_from_environment() -> Path | None:
    named = os.environ.get("GAUSSVEIL_DATA")
    return Path(named) if named else None


def _print(outcome: Outcome) -> None:
    from gaussveil.studies.study import shown

    console = _console()
    print_line(outcome.study.title)
    for part in outcome.parts.values():
        print_line(f"\n{part.title}")
        for paragraph in part.paragraphs:
            print_line(f"  {paragraph}")
        for table in part.tables:
            rows = [[Text(shown(value)) for value in row] for row in table.rows]
            console.print(_table(table.caption, table.columns, rows, right=True))
    if outcome.missing:
        print_line(f"\nMissing, and so not shown in full: {', '.join(outcome.missing)}.")
    print_line("")
    lines = [
        [
            *map(Text, (claim.claim, claim.printed, claim.ours)),
            Text(claim.verdict.value, style=f"bold {COLOURS[claim.verdict.value]}"),
            Text(claim.because),
        ]
        for claim in outcome.claims
    ]
    console.print(_table("Verdict", ("claim", "printed", "ours", "", "because"), lines, right=False))


def _console() -> Console:
    console = Console(highlight=False)
    return console if console.is_terminal else Console(highlight=False, width=PIPED_WIDTH)


def _table(title: str, columns: Sequence[str], rows: Sequence[Sequence[Text]], *, right: bool) -> RichTable:
    """A table that folds long text instead of cutting it; numbers to the right."""
    heading = Text(title, style="bold") if title else None
    table = RichTable(title=heading, title_justify="left", box=None, padding=(0, 2, 0 if right else 1, 0))
    for index, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if right and index else "left", overflow="fold")
    for row in rows:
        table.add_row(*row)
    return table
