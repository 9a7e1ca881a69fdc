"""A study's folder: one self-contained page, every table as CSV, every picture as SVG, all of it as JSON."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable
from pathlib import Path

from gaussveil.files import json_values
from gaussveil.report.study_page import Block, Cells, Drawing, StudyPage, write_page
from gaussveil.studies.study import Claim, Outcome, Part, Table, shown

COLUMNS = ("claim", "printed", "ours", "verdict", "because")


def write_outcome(outcome: Outcome, out: Path) -> Path:
    """Write everything below `out`/study-NAME; return the page."""
    folder = out / f"study-{outcome.study.name}"
    folder.mkdir(parents=True, exist_ok=True)
    for step, part in outcome.parts.items():
        for table in part.tables:
            _write_csv(folder / f"{step}-{table.name}.csv", table.columns, table.rows)
        for picture in part.pictures:
            file = picture.element.replace("<svg ", '<svg style="background: #ffffff" ', 1)
            (folder / f"{step}-{picture.name}.svg").write_text(file + "\n", encoding="utf-8")
    lines = [(claim.key, *claim_cells(claim)) for claim in outcome.claims]
    _write_csv(folder / "verdict.csv", ("key", *COLUMNS), lines)
    (folder / "study.json").write_text(json.dumps(as_json(outcome), indent=1) + "\n", encoding="utf-8")
    page = folder / "report.html"
    write_page(_page(outcome), page)
    return page


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


def _page(outcome: Outcome) -> StudyPage:
    from gaussveil import __version__

    study = outcome.study
    return StudyPage(
        title=study.title,
        summary=study.summary,
        missing=outcome.missing,
        blocks=tuple(_block(part) for part in outcome.parts.values()),
        verdict=Cells(COLUMNS, tuple(claim_cells(claim) for claim in outcome.claims)),
        footer=f"Made by gaussveil {__version__}: gaussveil study {study.name} --{outcome.size} --seed {outcome.seed}.",
    )


def _block(part: Part) -> Block:
    return Block(
        part.title,
        part.paragraphs,
        tuple(Drawing(picture.element, picture.caption) for picture in part.pictures),
        tuple(_cells(table) for table in part.tables),
    )


def _cells(table: Table) -> Cells:
    return Cells(table.columns, tuple(tuple(shown(value) for value in row) for row in table.rows), table.caption)


def _write_csv(path: Path, columns: tuple[str, ...], rows: Iterable[Iterable[object]]) -> None:
    with path.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(columns)
        writer.writerows(rows)
