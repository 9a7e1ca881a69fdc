"""`gaussveil audit`: the exact delta of every neighbour against a claim; pairs in files, or a model and its data.

A model is a JSON object: the key "model" names a map of `gaussveil.audit.maps`, the other keys are its parameters:

    {"model": "sum", "covariance": 25.0}
    {"model": "linear-posterior", "regularization": 1.0, "noise_variance": 2.0}     the last column is the target
    {"model": "sketch", "n_components": 50, "ridge": 300.0}
    {"model": "fitted-gaussian", "draws": 20}
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.files import check_targets, read_json
from gaussveil.cli.options import Claim, Json, Plot, parse_claim
from gaussveil.cli.output import (
    DONE,
    NO,
    UNDECIDED,
    digits,
    print_json,
    print_line,
    print_table,
)
from gaussveil.cli.tables import Engine, EngineOption, local_file, open_table
from gaussveil.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from gaussveil.audit import Audit

EXIT = {"holds-on-these-neighbours": DONE, "refuted": NO, "undecided": UNDECIDED}


def audit(
    subjects: Annotated[
        list[Path],
        typer.Argument(
            metavar="PAIRS_OR_MODEL...",
            help="Pairs (JSON, CSV, NPZ; NPZ may hold a batch), or one model in JSON.",
        ),
    ],
    claim: Claim,
    data: Annotated[
        str | None, typer.Option(help="Rows of the data, any table: audits a model.")
    ] = None,
    engine: EngineOption = Engine.duckdb,
    worst: Annotated[
        int,
        typer.Option(
            min=1, help="How many of the worst neighbours to enclose and list."
        ),
    ] = 5,
    out: Annotated[
        Path | None,
        typer.Option(help="Write the outcome, marked private, into this JSON file."),
    ] = None,
    plot: Plot = None,
    json: Json = False,
) -> None:
    """Audit a claimed (epsilon, delta) on every neighbour of the data, exactly and in both directions.

    Only a rigorous lower end refutes. Exit code 0: holds on these neighbours, 1: refuted, 3: undecided. Everything
    printed or written is computed from private data. Rows of one file are numbered as they stand there, those of other
    tables (folder, database#table, --engine spark) after sorting by all columns.

    Example: gaussveil audit model.json --data rows.csv --claim 1,1e-6 --plot audit.svg
    """
    from gaussveil.audit import audit as audit_exactly
    from gaussveil.report.pair_files import read_pair

    claimed = parse_claim(claim)
    check_targets(
        out,
        plot,
        inputs=(*subjects, None if data is None else local_file(data)),
        force=True,
    )
    if data is None:
        verdict = audit_exactly(
            [read_pair(path, batch=True) for path in subjects],
            claim=claimed,
            worst=worst,
        )
    else:
        if len(subjects) != 1:
            raise ParameterError(
                f"--data goes with exactly one model. Got {len(subjects)} files."
            )
        verdict = audit_exactly(
            _read_model(subjects[0]), _rows(data, engine), claim=claimed, worst=worst
        )
    if plot is not None:
        from gaussveil.report.audit import audit_curve
        from gaussveil.report.figures import save

        save(audit_curve(verdict), plot)
    if out is not None:
        verdict.write(out)
    if json:
        print_json(
            {
                name: verdict[name]
                for name in (
                    "claim",
                    "verdict",
                    "neighbours",
                    "above_the_claim",
                    "worst",
                )
            }
        )
    else:
        _print(verdict)
    raise typer.Exit(EXIT[verdict.verdict])


def _print(found: Audit) -> None:
    colour = {DONE: "green", NO: "red", UNDECIDED: "yellow"}[EXIT[found.verdict]]
    claim = f"({digits(found.claim.epsilon)}, {digits(found.claim.delta)})-DP"
    print_line(f"{claim}: ", found.verdict, colour)
    print_line(
        f"{found['above_the_claim']} of {len(found.log_delta)} neighbours above the claim (private)"
    )
    rows = [
        (
            str(f.neighbour),
            f"{f.delta_x_y:.6g}",
            f"{f.delta_y_x:.6g}",
            f"[{f.lower:.9g}, {f.upper:.9g}]",
        )
        for f in found.findings
    ]
    print_table(("neighbour", "X against Y", "Y against X", "certified"), rows)


def _rows(address: str, engine: Engine) -> Any:
    from gaussveil.report.number_files import ENDINGS, read_numbers, sorted_rows

    path = local_file(address)
    if engine is Engine.duckdb and path is not None and path.suffix.lower() in ENDINGS:
        return read_numbers(path).values
    table = open_table(address, engine)
    return sorted_rows(table, table.schema.names).values


def _read_model(path: Path) -> Any:
    from gaussveil.audit.maps import MAPS

    content = read_json(path)
    if not isinstance(content, dict):
        raise FormatError(f"{path}: a model is a JSON object with the key 'model'")
    if not isinstance(content.get("model"), str) or content["model"] not in MAPS:
        raise FormatError(f"{path}: the key 'model' must be one of {', '.join(MAPS)}")
    parameters = {name: value for name, value in content.items() if name != "model"}
    try:
        return MAPS[content["model"]](**parameters)
    except TypeError:
        raise FormatError(
            f"{path}: the model {content['model']!r} does not take exactly the parameters "
            f"{', '.join(parameters) or 'none'}; see gaussveil audit --help and docs/audit.md"
        ) from None
