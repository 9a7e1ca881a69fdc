"""`gaussveil sketch`: a private random projection of a table, its certificate beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from gaussveil.cli.asked import AskedByUnit, with_options
from gaussveil.cli.files import release_facts, release_files, release_lines
from gaussveil.cli.options import RowNorm, listed
from gaussveil.cli.output import digits, tell
from gaussveil.cli.tables import table_name
from gaussveil.errors import ParameterError


@with_options
def sketch(
    asked: AskedByUnit,
    row_norm: RowNorm,
    n_components: Annotated[
        str, typer.Option(help="Columns of the sketch, or auto (needs --row-bound).")
    ] = "auto",
    out: Annotated[
        Path | None,
        typer.Option(help="File to write: .npz. Without it only the plan is shown."),
    ] = None,
    variant: Annotated[
        Literal["ridge", "subsampled", "tested"],
        typer.Option(help="NDIS Figure 1, 3 or 4."),
    ] = "ridge",
    rate: Annotated[
        float | None, typer.Option(help="Sampling rate of the variant subsampled.")
    ] = None,
    row_bound: Annotated[
        float | None, typer.Option(help="Public bound on the number of rows.")
    ] = None,
    test_noise: Annotated[
        float | None,
        typer.Option(
            help="Deviation of the tested eigenvalue's noise, variant tested; the best by default."
        ),
    ] = None,
    columns: Annotated[
        str | None,
        typer.Option(help="Columns to sketch, separated by commas; all by default."),
    ] = None,
) -> None:
    """Sketch a table: second moments, regression and principal components can be estimated from it.

    OUT.certificate.json is written beside OUT; read OUT with gaussveil.mechanisms.Sketch.from_file. Without --out
    nothing is read but the columns' names, nothing is spent, and the plan is compared with the Gaussian mechanism.

    Example: gaussveil sketch in.csv --epsilon 1 --delta 1e-6 --row-norm 3 --n-components 64 --out out.npz
    """
    components = _components(n_components, row_bound)
    promise = asked.promise
    from gaussveil.mechanisms import PrivateSketch

    table = asked.table()
    mechanism = PrivateSketch(
        **promise,
        row_norm=row_norm,
        variant=variant,
        rate=rate,
        row_bound=row_bound,
        test_noise=test_noise,
        n_components=components,
        columns=None if columns is None else tuple(listed(columns)),
    )
    names = mechanism.columns or tuple(
        name for name in table.schema.names if name != asked.unit
    )
    plan = mechanism.plan(len(names))
    shown = ("components", "leverage", "ridge", "gaussian_gram_error")
    answer: dict[str, object] = {
        "columns": plan.size,
        "gram_error": plan.gram_error(plan.row_bound or 0.0),
    }
    answer |= {name: getattr(plan, name) for name in shown}
    lines = [
        f"plan: {plan.size} columns, {plan.components} components, leverage at most {digits(plan.leverage)}, "
        f"ridge {digits(plan.ridge)}",
        plan.compare(),
    ]
    if out is not None:
        asked.check(out, endings=(".npz",))
        room = 8 * plan.size * plan.components + 256 * plan.size + 65536
        with release_files(out, room) as write:
            release = mechanism.release(
                table, released=f"sketch of {table_name(asked.source)}"
            )
            write(release.value.to_bytes(), release.certificate)
        answer |= {
            **release_facts(out, release.certificate),
            "ridge": release.value.ridge,
        }
        lines += release_lines(out, release.certificate)
    tell(answer, lines, json=asked.json)


def _components(n_components: str, row_bound: float | None) -> int | Literal["auto"]:
    """The columns of the sketch, or that they are to be chosen, which needs a bound on the rows."""
    if n_components != "auto":
        if not n_components.isdecimal():
            raise ParameterError(
                f"--n-components must be auto or a whole number. Got {n_components!r}."
            )
        return int(n_components)
    if row_bound is None:
        raise ParameterError(
            "--row-bound must be given with --n-components auto: a public bound on the number of rows"
        )
    return "auto"
