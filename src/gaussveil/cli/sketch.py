"""`gaussveil sketch`: a private random projection of a table, its certificate beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gaussveil.cli import options
from gaussveil.cli.files import check_release, release_facts, release_files, release_lines
from gaussveil.cli.output import digits, tell
from gaussveil.cli.tables import Engine, EngineOption, TableAddress, local_file, open_table, table_name
from gaussveil.errors import ParameterError


def sketch(
    source: TableAddress,
    epsilon: options.Epsilon,
    delta: options.Delta,
    row_norm: options.RowNorm,
    n_components: Annotated[str, typer.Option(help="Columns of the sketch, or auto (needs --row-bound).")] = "auto",
    out: Annotated[Path | None, typer.Option(help="File to write: .npz. Without it only the plan is shown.")] = None,
    variant: Annotated[Literal["ridge", "subsampled", "tested"], typer.Option(help="NDIS Figure 1, 3 or 4.")] = "ridge",
    rate: Annotated[float | None, typer.Option(help="Sampling rate of the variant subsampled.")] = None,
    row_bound: Annotated[float | None, typer.Option(help="Public bound on the number of rows.")] = None,
    columns: Annotated[str | None, typer.Option(help="Columns to sketch, separated by commas; all by default.")] = None,
    unit: options.UnitColumn = None,
    rows_per_unit: options.RowsPerUnit = None,
    engine: EngineOption = Engine.duckdb,
    ledger: options.PayingLedger = None,
    account: options.PayingAccount = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Sketch a table: second moments, regression and principal components can be estimated from it.

    OUT.certificate.json is written beside OUT; read OUT with gaussveil.mechanisms.Sketch.from_file. Without --out
    nothing is read but the columns' names, nothing is spent, and the plan is compared with the Gaussian mechanism.

    Example: gaussveil sketch in.csv --epsilon 1 --delta 1e-6 --row-norm 3 --n-components 64 --out out.npz
    """
    from gaussveil.mechanisms import PrivateSketch

    payer = options.paying_account(ledger, account)
    if n_components != "auto" and not n_components.isdecimal():
        raise ParameterError(f"--n-components must be auto or a whole number. Got {n_components!r}.")
    table = open_table(source, engine)
    mechanism = PrivateSketch(
        epsilon=epsilon,
        delta=delta,
        row_norm=row_norm,
        variant=variant,
        rate=rate,
        row_bound=row_bound,
        n_components=n_components if n_components == "auto" else int(n_components),
        columns=None if columns is None else tuple(options.listed(columns)),
        unit=unit,
        rows_per_unit=rows_per_unit,
        account=payer,
    )
    names = mechanism.columns or tuple(name for name in table.schema.names if name != unit)
    plan = mechanism.plan(len(names))
    answer: dict[str, object] = {
        "columns": plan.size,
        "components": plan.components,
        "leverage": plan.leverage,
        "ridge": plan.ridge,
        "gram_error": plan.gram_error(plan.row_bound or 0.0),
        "gaussian_gram_error": plan.gaussian_gram_error,
    }
    lines = [
        f"plan: {plan.size} columns, {plan.components} components, leverage at most {digits(plan.leverage)}, "
        f"ridge {digits(plan.ridge)}",
        plan.compare(),
    ]
    if out is not None:
        check_release(out, endings=(".npz",), inputs=[local_file(source)], ledger=ledger, force=force)
        room = 8 * plan.size * plan.components + 256 * plan.size + 65536
        with release_files(out, room) as write:
            release = mechanism.release(table, released=f"sketch of {table_name(source)}")
            write(release.value.to_bytes(), release.certificate)
        answer |= {**release_facts(out, release.certificate), "ridge": release.value.ridge}
        lines += release_lines(out, release.certificate)
    tell(answer, lines, json=json)
