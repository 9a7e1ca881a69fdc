"""`gaussveil regress` and `gaussveil pca`: what follows from noisy moments, as JSON, the certificate beside it."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussveil.cli.files import check_release, release_facts, release_files, release_lines
from gaussveil.cli.options import (
    Delta,
    Epsilon,
    Force,
    Json,
    PayingAccount,
    PayingLedger,
    RowsPerUnit,
    UnitColumn,
    listed,
    paying_account,
)
from gaussveil.cli.output import tell
from gaussveil.cli.tables import Engine, EngineOption, TableAddress, local_file, open_table
from gaussveil.errors import ParameterError

Out = Annotated[Path, typer.Option(help="File to write: .json.", show_default=False)]
Between = Annotated[
    list[str] | None, typer.Option(help="Public range of a column: NAME:low,high; else searched. May be repeated.")
]


def regress(
    source: TableAddress,
    target: Annotated[str, typer.Option(help="Columns to explain, separated by commas.", show_default=False)],
    epsilon: Epsilon,
    delta: Delta,
    out: Out,
    between: Between = None,
    unit: UnitColumn = None,
    rows_per_unit: RowsPerUnit = None,
    engine: EngineOption = Engine.duckdb,
    ledger: PayingLedger = None,
    account: PayingAccount = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Fit a linear regression with intervals for sampling and privacy noise; all other columns are features.

    Example: gaussveil regress in.csv --target label --epsilon 1 --delta 1e-6 --out coef.json
    """
    from gaussveil.mechanisms import PrivateLinearRegression

    targets, ranges = listed(target), _ranges(between or [])
    model = PrivateLinearRegression(
        epsilon=epsilon,
        delta=delta,
        target=targets,
        bounds={name: pair for name, pair in ranges.items() if name not in targets},
        target_bounds={name: pair for name, pair in ranges.items() if name in targets},
        unit=unit,
        rows_per_unit=rows_per_unit,
        account=paying_account(ledger, account),
    )

    def released() -> dict[str, Any]:
        return {
            fit.target: {
                "coefficients": dict(zip(fit.names, fit.coefficients.tolist())),
                "std_error": dict(zip(fit.names, fit.std_error.tolist())),
                "interval": dict(zip(fit.names, fit.interval.tolist())),
                "residual_deviation": fit.residual_deviation,
                "trusted": fit.trusted,
            }
            for fit in model.fits_
        }

    _run(model, source, engine, ledger, out, released, lambda: model.summary().splitlines(), force, json)


def pca(
    source: TableAddress,
    epsilon: Epsilon,
    delta: Delta,
    out: Out,
    n_components: Annotated[int | None, typer.Option(help="How many; by default those above the noise.")] = None,
    between: Between = None,
    unit: UnitColumn = None,
    rows_per_unit: RowsPerUnit = None,
    engine: EngineOption = Engine.duckdb,
    ledger: PayingLedger = None,
    account: PayingAccount = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the principal components of a table, with intervals of the variance that each explains.

    Example: gaussveil pca in.csv --epsilon 1 --delta 1e-6 --out components.json
    """
    from gaussveil.mechanisms import PrivatePCA

    model = PrivatePCA(
        epsilon=epsilon,
        delta=delta,
        n_components=n_components,
        bounds=_ranges(between or []),
        unit=unit,
        rows_per_unit=rows_per_unit,
        account=paying_account(ledger, account),
    )

    def released() -> dict[str, Any]:
        return {
            "columns": list(model.feature_names_in_),
            "mean": model.mean_.tolist(),
            "components": model.components_.tolist(),
            "explained_variance": model.explained_variance_.tolist(),
            "interval": model.explained_variance_interval_.tolist(),
        }

    def lines() -> list[str]:
        pairs = zip(model.explained_variance_, model.explained_variance_interval_)
        return [
            f"component {i + 1}: variance {v:.4g}, {low:.4g} to {high:.4g}" for i, (v, (low, high)) in enumerate(pairs)
        ]

    _run(model, source, engine, ledger, out, released, lines, force, json)


def _run(
    model: Any,
    source: str,
    engine: Engine,
    ledger: Path | None,
    out: Path,
    released: Any,
    lines: Any,
    force: bool,
    json: bool,
) -> None:
    check_release(out, endings=(".json",), inputs=(local_file(source),), ledger=ledger, force=force)
    table = open_table(source, engine)
    room = 65536 + 4096 * len(table.schema.names) ** 2  # names and numbers of columns are public
    with release_files(out, room) as write:
        model.fit(table)
        found = released()
        write((json_format.dumps(found, indent=2) + "\n").encode(), model.certificate_)
    tell(found | release_facts(out, model.certificate_), lines() + release_lines(out, model.certificate_), json=json)


def _ranges(given: list[str]) -> dict[str, tuple[float, float]]:
    """Ranges written as NAME:low,high."""
    found = {}
    for text in given:
        name, _, ends = text.rpartition(":")
        try:
            low, high = (float(end) for end in ends.split(","))
        except ValueError:
            raise ParameterError(f"--between must be NAME:low,high, as in kw:0,10. Got {text!r}.") from None
        found[name] = (low, high)
    return found
