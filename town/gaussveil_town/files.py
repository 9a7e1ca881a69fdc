"""Where the demo keeps its ledger and its files: a folder per run, and never a second spending in silence."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from gaussveil.accounting import Ledger
from gaussveil.errors import LedgerStateError, SourceError
from gaussveil.files import PRIVATE, csv_text, write_whole
from gaussveil.report.html import render, write
from gaussveil_town.exact_curves import curve_sections
from gaussveil_town.page import town_report
from gaussveil_town.private_page import town_private_report
from gaussveil_town.releases import TownRun

SIMULATED = "a simulated town"
REPORT = "demo.html"
PRIVATE_PAGE = "private-diagnostics.html"
PRIVATE_FIGURES = "private-diagnostics.json"
SYNTHETIC = "synthetic-days.csv"
NAMES = (REPORT, PRIVATE_PAGE, PRIVATE_FIGURES, SYNTHETIC)


@dataclass(frozen=True)
class TownFiles:
    """What a run left in its folder."""

    ledger: Path
    report: Path
    private_page: Path
    private_figures: Path
    synthetic: Path
    certificates: tuple[Path, ...]


def new_ledger(folder: Path, *, simulated: bool) -> Path:
    """A name for this run's ledger in the folder; made with the folder, but not yet written.

    An earlier ledger is never used, moved or overwritten. A second run on real data would spend again without either
    ledger knowing of the other, so it is refused; nobody lives in a simulated town, so its next run gets the next name.
    """
    if folder.exists() and not folder.is_dir():
        raise SourceError(f"{folder}: is a file; --out must name a folder")
    folder.mkdir(parents=True, exist_ok=True)
    earlier = sorted(folder.glob("*.ledger"))
    for path in earlier:
        if not simulated or _of_real_homes(path):
            raise LedgerStateError(
                f"{path}: an earlier run was debited here. Fresh noise on the same homes would spend again, and what "
                "both tell adds up. Read the report that is there, or name another --out to spend knowingly"
            )
    return folder / (
        "town.ledger" if not earlier else f"town-{len(earlier) + 1}.ledger"
    )


def _of_real_homes(path: Path) -> bool:
    book = Ledger(path)
    return any(
        not book.terms(name).dataset.startswith(SIMULATED) for name in book.accounts()
    )


def write_run(run: TownRun, folder: Path, ledger: Path, footer: str) -> TownFiles:
    """Write the report, the owner's page and figures (readable by the owner only), synthetic days and certificates."""
    files = TownFiles(
        ledger,
        folder / REPORT,
        folder / PRIVATE_PAGE,
        folder / PRIVATE_FIGURES,
        folder / SYNTHETIC,
        tuple(_certificates(run, folder / "certificates")),
    )
    write(town_report(run.releases, curve_sections(), footer), files.report)
    audits = [(item.name, item.found) for item in run.audits]
    page = render(town_private_report(run.releases, run.diagnostics, audits))
    write_whole(files.private_page, page, PRIVATE)
    run.diagnostics.write(files.private_figures)
    _synthetic(run, files.synthetic)
    return files


def _certificates(run: TownRun, folder: Path) -> list[Path]:
    folder.mkdir(exist_ok=True)
    written: list[Path] = []
    for item in run.releases.checked:
        number = sum(path.name.startswith(item.name) for path in written) + 1
        path = folder / f"{item.name}-{number}.certificate.json"
        item.certificate.write(path)
        written.append(path)
    return written


def _synthetic(run: TownRun, path: Path) -> None:
    drawn = run.releases.synthetic
    header = [name if name == "kind" else f"kW {name}" for name in drawn.column_names]
    rows = (
        [cell if isinstance(cell, str) else f"{cell:.4g}" for cell in row.values()]
        for row in drawn.to_pylist()
    )
    write_whole(path, csv_text([header, *rows]))
