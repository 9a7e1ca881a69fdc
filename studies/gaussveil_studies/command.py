"""What `gaussveil study` does: experiments and refutations recomputed, with a verdict claim by claim."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gaussveil.cli.output import print_json, print_line
from gaussveil.errors import ParameterError, SourceError
from gaussveil_studies.catalogue import check_name, names, study_named
from gaussveil_studies.summaries import FILES, SUMMARIES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table as RichTable
    from rich.text import Text

    from gaussveil_studies.study import Outcome, Study

PIPED_WIDTH = 160  # of tables that go to a file or a pipe
COLOURS = {
    "refuted": "red",
    "false": "red",
    "agrees": "green",
    "reproduced": "green",
    "differs": "yellow",
}


def answer(
    name: str,
    data: Path | None,
    out: Path,
    steps: Sequence[str] | None = None,
    *,
    full: bool,
    tiny: bool,
    seed: int,
    cache: Path | None,
    no_cache: bool,
    resume: bool,
    workers: int | None,
    install_peers: bool,
    json: bool,
) -> None:
    """Do what `gaussveil study` asks; its options say what each argument is."""
    if name == "list" and json:
        print_json(
            {
                "studies": [
                    {
                        "name": n,
                        "summary": SUMMARIES[n],
                        "data": sorted(FILES.get(n, ())),
                    }
                    for n in names()
                ]
            }
        )
        return
    if name == "list":
        for each, summary in SUMMARIES.items():
            print_line(f"{each:11}{summary}")
        return
    check_name(name)
    if full and tiny:
        raise ParameterError("--full and --tiny exclude each other; give one of them")
    if data is not None and not data.is_dir():
        raise SourceError(
            f"{data}: is no folder; name the folder of the real data sets"
        )
    if resume and (no_cache or not full):
        raise ParameterError(
            "--resume continues a run with --full, from the cache: leave out --no-cache, add --full"
        )
    from gaussveil.mechanisms.progress import shown_progress
    from gaussveil_studies.peers.questions import install_peers as install
    from gaussveil_studies.study import Options, Size
    from gaussveil_studies.study_output import as_json, write_outcome
    from gaussveil_studies.study_run import default_cache, run_study
    from gaussveil_studies.trials import cores

    wanted = _with_steps(study_named(name), steps)
    if full:
        size = Size.FULL
    elif tiny:
        size = Size.TINY
    else:
        size = Size.QUICK
    if no_cache:
        kept = None
    else:
        kept = cache or default_cache()
    if kept is not None and full:
        pieces = kept / "pieces" / name
    else:
        pieces = None
    if pieces is not None and not resume:
        shutil.rmtree(pieces, ignore_errors=True)
    options = Options(
        data or _data_from_environment(),
        size,
        seed,
        workers or (cores() if full else 1),
        pieces,
    )
    if install_peers:
        install(Path())
    with shown_progress(sys.stderr.isatty() and not json, f"study {name}") as progress:
        outcome = run_study(wanted, options, kept, progress)
    page = write_outcome(outcome, out)
    if json:
        print_json({**as_json(outcome), "report": str(page)})
        return
    _print(outcome)
    print_line(f"report, tables and pictures: {page}")


def _with_steps(study: Study, steps: Sequence[str] | None) -> Study:
    known = [step.name for step in study.steps]
    if steps is None:
        return study
    if unknown := [step for step in steps if step not in known]:
        raise ParameterError(
            f"--steps must be among {', '.join(known)}. Got {unknown[0]!r}."
        )
    return replace(
        study, steps=tuple(step for step in study.steps if step.name in steps)
    )


def _data_from_environment() -> Path | None:
    named = os.environ.get("GAUSSVEIL_DATA")
    if named:
        return Path(named)
    return None


def _print(outcome: Outcome) -> None:
    from rich.text import Text

    from gaussveil_studies.study import shown

    console = _console()
    print_line(outcome.study.title)
    for part in outcome.parts.values():
        print_line(part.title)
        for paragraph in part.paragraphs:
            print_line(f"  {paragraph}")
        for table in part.tables:
            rows = [[Text(shown(value)) for value in row] for row in table.rows]
            console.print(_table(table.caption, table.columns, rows, right=True))
    if outcome.missing:
        print_line(f"Missing, and so not shown in full: {', '.join(outcome.missing)}.")
    print_line("")
    lines = [
        [
            *map(Text, (claim.claim, claim.printed, claim.ours)),
            Text(
                claim.verdict.value,
                style=f"bold {COLOURS.get(claim.verdict.value, '')}",
            ),
            Text(claim.because),
        ]
        for claim in outcome.claims
    ]
    console.print(
        _table(
            "Verdict", ("claim", "printed", "ours", "", "because"), lines, right=False
        )
    )


def _console() -> Console:
    from rich.console import Console

    console = Console(highlight=False)
    if console.is_terminal:
        return console
    return Console(highlight=False, width=PIPED_WIDTH)


def _table(
    title: str, columns: Sequence[str], rows: Sequence[Sequence[Text]], *, right: bool
) -> RichTable:
    """A table that folds long text instead of cutting it; numbers to the right."""
    from rich.table import Table as RichTable
    from rich.text import Text

    if title:
        heading = Text(title, style="bold")
    else:
        heading = None
    table = RichTable(
        title=heading,
        title_justify="left",
        box=None,
        padding=(0, 2, 0 if right else 1, 0),
    )
    for index, column in enumerate(columns):
        table.add_column(
            Text(column),
            justify="right" if right and index else "left",
            overflow="fold",
        )
    for row in rows:
        table.add_row(*row)
    return table
