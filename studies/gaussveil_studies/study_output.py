"""A study's folder: one self-contained page, every table as CSV, every picture as SVG, all of it as JSON."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from dataclasses import replace
from pathlib import Path

import numpy as np

from gaussveil.files import csv_text, json_values, write_whole
from gaussveil.report.html import environment
from gaussveil_studies.study import Claim, Outcome, Size, Table, shown
from gaussveil_studies.trials import cores

COLUMNS = ("claim", "printed", "ours", "verdict", "because")


def write_outcome(outcome: Outcome, out: Path) -> Path:
    """Write everything below `out`/study-NAME; return the page."""
    folder = out / f"study-{outcome.study.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for step, part in outcome.parts.items():
        for table in part.tables:
            write_whole(
                folder / f"{step}-{table.name}.csv",
                csv_text([table.columns, *table.rows]),
            )
        for picture in part.pictures:
            file = picture.element.replace(
                "<svg ", '<svg style="background: #ffffff" ', 1
            )
            write_whole(folder / f"{step}-{picture.name}.svg", file + "\n")
    lines = [(claim.key, *claim_cells(claim)) for claim in outcome.claims]
    write_whole(folder / "verdict.csv", csv_text([("key", *COLUMNS), *lines]))
    write_whole(folder / "study.json", json.dumps(as_json(outcome), indent=1) + "\n")
    if outcome.size is Size.FULL:
        write_whole(
            folder / "full.json",
            json.dumps({"made": made(), **as_json(outcome)}, indent=1) + "\n",
        )
    return write_whole(folder / "report.html", _page(outcome))


def made() -> dict[str, object]:
    """What a result at the papers' size is kept with: version, commit, machine, CPU time of this run and its pool."""
    from gaussveil import __version__

    used = os.times()
    return {
        "version": __version__,
        "commit": _commit(),
        "machine": f"{platform.machine()}, {cores()} cores",
        "python": platform.python_version(),
        "numpy": np.__version__,
        "cpu_seconds": round(
            used.user + used.system + used.children_user + used.children_system
        ),
    }


def _commit() -> str | None:
    """The checkout's commit; None where this is no checkout."""
    command = ["git", "-C", str(Path(__file__).parent), "rev-parse", "HEAD"]
    try:
        return subprocess.run(
            command, capture_output=True, text=True, check=True, timeout=10
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return None


def as_json(outcome: Outcome) -> dict[str, object]:
    """Verdict and tables as JSON values; infinities and NaN as text."""
    return {
        "study": outcome.study.name,
        "size": outcome.size.value,
        "seed": outcome.seed,
        "steps": list(outcome.parts),
        "missing": list(outcome.missing),
        "verdict": [
            {"key": claim.key, **dict(zip(COLUMNS, claim_cells(claim)))}
            for claim in outcome.claims
        ],
        "tables": {
            f"{step}-{table.name}": [
                dict(zip(table.columns, json_values(row))) for row in table.rows
            ]
            for step, part in outcome.parts.items()
            for table in part.tables
        },
    }


def claim_cells(claim: Claim) -> tuple[str, str, str, str, str]:
    """One line of the verdict."""
    return claim.claim, claim.printed, claim.ours, claim.verdict.value, claim.because


def _page(outcome: Outcome) -> str:
    """One page without script or network. All text is escaped; only pictures, which our own figures made, are not."""
    from gaussveil import __version__

    study = outcome.study
    command = f"gaussveil study {study.name} --{outcome.size} --seed {outcome.seed}"
    head = {
        "title": study.title,
        "summary": study.summary,
        "footer": f"Made by gaussveil {__version__}: {command}.",
    }
    parts = [
        replace(part, tables=tuple(map(_readable, part.tables)))
        for part in outcome.parts.values()
    ]
    verdict = [claim_cells(claim) for claim in outcome.claims]
    template = environment().get_template("study.html")
    return template.render(
        page=head,
        missing=outcome.missing,
        parts=parts,
        columns=COLUMNS,
        verdict=verdict,
    )


def _readable(table: Table) -> Table:
    return replace(
        table, rows=tuple(tuple(shown(value) for value in row) for row in table.rows)
    )
