"""`gaussveil demo`: the main job on a town of simulated homes, or on one's own readings."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gaussveil.cli.files import check_targets
from gaussveil.cli.options import Json
from gaussveil.cli.output import print_json, print_line, print_table
from gaussveil.cli.readings import Gaps, Household, MeasuredIn, Power, Time, TimeZone, homes_in
from gaussveil.cli.tables import TABLE_HELP, Engine, EngineOption, local_file, table_name
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.audit import Audit
    from gaussveil.timeseries import Readings
    from gaussveil.town.files import TownFiles
    from gaussveil.town.releases import TownRun

DAYS = 21
MOST_HOMES = 5000


def demo(
    out: Annotated[Path, typer.Option(help="Folder for the report, the ledger and all other files.")] = Path("out"),
    data: Annotated[str | None, typer.Option(help=f"Your own readings instead. {TABLE_HELP}")] = None,
    homes: Annotated[int, typer.Option(help="Homes of the simulated town.")] = 1000,
    seed: Annotated[int, typer.Option(help="Which simulated town.")] = 7,
    household: Household = "household",
    time: Time = "time",
    power: Power = "kw",
    measured_in: MeasuredIn = "kW",
    gaps: Gaps = "refuse",
    time_zone: TimeZone = None,
    engine: EngineOption = Engine.duckdb,
    repeatable: Annotated[
        bool, typer.Option("--repeatable", help="Draw the noise from the seed too: no privacy, the same pictures.")
    ] = False,
    picture: Annotated[Path | None, typer.Option(help="Also write the overview picture (.svg, .png or .pdf).")] = None,
    curves: Annotated[Path | None, typer.Option(help="Also write the privacy curves (.svg, .png or .pdf).")] = None,
    json: Json = False,
) -> None:
    """Do a utility's whole job on a town: average day, forecast, mixture, stream and sketch, audited and accounted for.

    OUT/demo.html is the report to share; OUT/private-diagnostics.html shows the truth beside every release and is for
    the owner alone. Your own readings are a long table (household, time, kw) or a wide one (time and a column per
    household).

    Example: gaussveil demo --data readings.parquet --out town
    """
    if not 8 <= homes <= MOST_HOMES:
        raise ParameterError(f"--homes must lie between 8 and {MOST_HOMES}. Got {homes}.")
    if repeatable and data is not None:
        raise ParameterError("--repeatable draws noise that protects nobody: it is for simulated towns, not for --data")

    from gaussveil import __version__
    from gaussveil.mechanisms.progress import shown_progress
    from gaussveil.noise import SeededGenerator
    from gaussveil.report.exact_curves import DELTA, LABELLED, example_panels
    from gaussveil.report.figures import compared_curves, save
    from gaussveil.town.figures import overview_figure
    from gaussveil.town.files import NAMES, new_ledger, write_run
    from gaussveil.town.releases import run_town

    private_input = None if data is None else local_file(data)
    check_targets(picture, curves, inputs=[private_input], force=True)
    if data is None:
        readings, source = _town(homes, seed)
    else:
        readings = homes_in(data, engine, household, time, power, measured_in, gaps, time_zone)
        source = f"the readings in {table_name(data)}"
    ledger = new_ledger(out, simulated=data is None)
    check_targets(*(out / name for name in NAMES), inputs=[private_input], force=True)
    if not json:
        _welcome(source, readings, ledger)
    with shown_progress(not json and sys.stderr.isatty(), "working") as progress:
        run = run_town(
            readings, ledger, source=source, generator=SeededGenerator(seed) if repeatable else None, progress=progress
        )
        files = write_run(run, out, ledger, f"Made by gaussveil {__version__} with `gaussveil demo`.")
    if picture is not None:
        town = run.releases
        save(overview_figure(town.profile, town.forecasts[-1], town.synthetic, town.spending), picture)
    if curves is not None:
        save(compared_curves(example_panels(), DELTA, labelled=LABELLED), curves)
    if json:
        print_json(_answer(run, files))
    else:
        _tell(run, files)


def _town(homes: int, seed: int) -> tuple[Readings, str]:
    from gaussveil.timeseries import simulate_households
    from gaussveil.town.files import SIMULATED

    return simulate_households(homes, DAYS, seed=seed), f"{SIMULATED} of {homes} homes (seed {seed})"


def _welcome(source: str, readings: Readings, ledger: Path) -> None:
    days = readings.count // readings.steps_per_day
    print_line(f"{source}: {len(readings)} homes, {days} days of {readings.step_minutes}-minute readings")
    print_line(f"new ledger: {ledger}; three accounts, every release is debited before its noise is drawn")


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
    print_table(("release", "promise", "recomputed delta", "certificate", "exact audit"), rows)
    spent = [
        (item.account, str(item.releases), f"{item.summed_epsilon:.3g}", f"{item.exact_epsilon:.4g}")
        for item in town.spending
    ]
    print_line("")
    print_table(("account", "releases", "epsilon summed", "composed exactly"), spent)
    print_line(f"budget of each account: epsilon {town.spending[0].budget[0]:g}, delta {town.spending[0].budget[1]:g}")
    print_line("")
    print_line(f"to share:      {files.report}, {files.synthetic}, {files.certificates[0].parent}/")
    print_line(f"for you alone: {files.private_page} (the truth beside every release; contains private data)")
    # After `make demo` the command lies in .venv and not on the path.
    command = "gaussveil" if shutil.which("gaussveil") else sys.argv[0]
    print_line(f"next: {command} verify {files.certificates[0]}")


def _audited(found: Audit) -> str:
    count = len(found.log_delta)
    return f"{count} neighbour{'' if count == 1 else 's'}: {found.verdict.split('-')[0]}"


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
