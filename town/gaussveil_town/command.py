"""What `gaussveil demo` does: the run, the files it leaves, and what it says of them."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from gaussveil import __version__
from gaussveil.audit import Audit
from gaussveil.cli.files import check_targets
from gaussveil.cli.output import print_json, print_line, print_table
from gaussveil.mechanisms.progress import shown_progress
from gaussveil.noise import SeededGenerator
from gaussveil.report.figures import save
from gaussveil.timeseries import Readings, simulate_households
from gaussveil_town.curve_figures import compared_curves
from gaussveil_town.exact_curves import DELTA, LABELLED, example_panels
from gaussveil_town.figures import kw_of, overview_figure
from gaussveil_town.files import NAMES, SIMULATED, TownFiles, new_ledger, write_run
from gaussveil_town.releases import TownRun, run_town

DAYS = 21


def simulated_town(homes: int, seed: int) -> tuple[Readings, str]:
    """Readings of homes that nobody lives in, and where they come from, in words."""
    return simulate_households(
        homes, DAYS, seed=seed
    ), f"{SIMULATED} of {homes} homes (seed {seed})"


def answer(
    readings: Readings,
    source: str,
    out: Path,
    *,
    private_input: Path | None,
    noise_seed: int | None,
    picture: Path | None,
    curves: Path | None,
    json: bool,
) -> None:
    """Do what `gaussveil demo` asks; its options say what each argument is. `private_input`: the file of real homes."""
    ledger = new_ledger(out, simulated=source.startswith(SIMULATED))
    check_targets(*(out / name for name in NAMES), inputs=[private_input], force=True)
    if not json:
        _welcome(source, readings, ledger)
    if noise_seed is None:
        generator = None
    else:
        generator = SeededGenerator(noise_seed)
    with shown_progress(not json and sys.stderr.isatty(), "working") as progress:
        run = run_town(
            readings, ledger, source=source, generator=generator, progress=progress
        )
        files = write_run(
            run, out, ledger, f"Made by gaussveil {__version__} with `gaussveil demo`."
        )
    if picture is not None:
        town = run.releases
        save(
            overview_figure(
                town.profile, town.forecast, kw_of(town.synthetic), town.spending
            ),
            picture,
        )
    if curves is not None:
        save(compared_curves(example_panels(), DELTA, labelled=LABELLED), curves)
    if json:
        print_json(_answer(run, files))
    else:
        _tell(run, files)


def _welcome(source: str, readings: Readings, ledger: Path) -> None:
    days = readings.count // readings.steps_per_day
    print_line(
        f"{source}: {len(readings)} homes, {days} days of {readings.step_minutes}-minute readings"
    )
    print_line(
        f"new ledger: {ledger}; four accounts, every release is debited before its noise is drawn"
    )


def _tell(run: TownRun, files: TownFiles) -> None:
    town = run.releases
    rows = [
        (
            item.name,
            f"({item.certificate.epsilon:g}, {item.certificate.delta:g})",
            f"{item.verification.delta_upper:.4g}",
            "verified" if item.verification.ok else "does not verify",
            _audited(audited.found),
        )
        for item, audited in zip(town.checked, run.audits)
    ]
    print_line("")
    print_table(
        ("release", "promise", "recomputed delta", "certificate", "exact audit"), rows
    )
    spent = [
        (
            item.account,
            str(item.releases),
            f"{item.summed_epsilon:.3g}",
            f"{item.exact_epsilon:.4g}",
            f"({item.budget[0]:g}, {item.budget[1]:g})",
        )
        for item in town.spending
    ]
    print_line("")
    print_table(
        ("account", "releases", "epsilon summed", "composed exactly", "budget"), spent
    )
    print_line("")
    print_line(
        f"to share:      {files.report}, {files.synthetic}, {files.certificates[0].parent}/"
    )
    print_line(
        f"for you alone: {files.private_page} (the truth beside every release; contains private data)"
    )
    # After `make demo` the command lies in .venv and not on the path.
    if shutil.which("gaussveil"):
        command = "gaussveil"
    else:
        command = sys.argv[0]
    print_line(f"next: {command} verify {files.certificates[0]}")


def _audited(found: Audit) -> str:
    count = len(found.log_delta)
    return (
        f"{count} neighbour{'' if count == 1 else 's'}: {found.verdict.split('-')[0]}"
    )


def _answer(run: TownRun, files: TownFiles) -> dict[str, object]:
    town = run.releases
    return {
        "source": town.source,
        "releases": [
            {
                "name": item.name,
                "epsilon": item.certificate.epsilon,
                "delta": item.certificate.delta,
                "delta_upper": item.verification.delta_upper,
                "verified": item.verification.ok,
                "audit": audited.found.verdict,
                "release_id": item.certificate.release_id,
            }
            for item, audited in zip(town.checked, run.audits)
        ],
        "accounts": [
            {
                "account": spent.account,
                "releases": spent.releases,
                "delta": spent.delta,
                "summed_epsilon": spent.summed_epsilon,
                "exact_epsilon": spent.exact_epsilon,
                "budget_epsilon": spent.budget[0],
            }
            for spent in town.spending
        ],
        "report": str(files.report),
        "diagnostics": str(files.private_page),
        "ledger": str(files.ledger),
    }
