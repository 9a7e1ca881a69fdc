"""A study's folder: one self-contained page, every table as CSV, every picture as SVG, all of it as JSON."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from gaussveil.files import csv_text, json_values, write_whole
from gaussveil.report.html import environment
from gaussveil_studies.study import Claim, Outcome, Table, shown

COLUMNS = ("claim", "printed", "ours", "verdict", "because")


def write_outcome(outcome: Outcome, out: Path) -> Path:
    """Write everything below `out`/study-NAME; return the page."""
    folder = out / f"study-{outcome.study.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for step, part in outcome.parts.items():
        for table in part.tables:
            write_whole(folder / f"{step}-{table.name}.csv", csv_text([table.columns, *table.rows]))
        for picture in part.pictures:
            file = picture.element.replace("<svg ", '<svg style="background: #ffffff" ', 1)
            write_whole(folder / f"{step}-{picture.name}.svg", file + "\n")
    lines = [(claim.key, *claim_cells(claim)) for claim in outcome.claims]
    write_whole(folder / "verdict.csv", csv_text([("key", *COLUMNS), *lines]))
    write_whole(folder / "study.json", json.dumps(as_json(outcome), indent=1) + "\n")
    return write_whole(folder / "report.html", _page(outcome))


def as_json(outcome: Outcome) -> dict[str, object]:
    """Verdict and tables as JSON values; infinities and NaN as text."""
    return {
        "study": outcome.study.name,
        "size": outcome.size.value,
        "seed": outcome.seed,
        "missing": list(outcome.missing),
        "verdict": [{"key": claim.key, **dict(zip(COLUMNS, claim_cells(claim)))} for claim in outcome.claims],
        "tables": {
            f"{step}-{table.name}": [dict(zip(table.columns, json_values(row))) for row in table.rows]
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
    head = {"title": study.title, "summary": study.summary, "footer": f"Made by gaussveil {__version__}: {command}."}
    parts = [replace(part, tables=tuple(map(_readable, part.tables))) for part in outcome.parts.values()]
    verdict = [claim_cells(claim) for claim in outcome.claims]
    template = environment().get_template("study.html")
    return template.render(page=head, missing=outcome.missing, parts=parts, columns=COLUMNS, verdict=verdict)


def _readable(table: Table) -> Table:
    return replace(table, rows=tuple(tuple(shown(value) for value in row) for row in table.rows))
