"""`gaussveil regress` and `gaussveil pca`: what follows from noisy moments, as JSON, the certificate beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from gaussveil.cli.asked import AskedByUnit, with_options
from gaussveil.cli.files import check_ending, release_facts, release_lines
from gaussveil.cli.options import Columns, Written, listed, parse_ranges
from gaussveil.cli.output import tell
from gaussveil.files import write_whole

Out = Annotated[
    Path,
    typer.Option(
        help="File to write: .json.", show_default=False, parser=Written(".json")
    ),
]
Between = Annotated[
    list[str] | None,
    typer.Option(
        help="Public range of a column: NAME:low,high; else searched. May be repeated."
    ),
]


@with_options
def regress(
    asked: AskedByUnit,
    target: Annotated[
        str,
        typer.Option(
            help="Columns to explain, separated by commas.", show_default=False
        ),
    ],
    out: Out,
    between: Between = None,
    columns: Columns = None,
    report: Annotated[
        Path | None,
        typer.Option(help="Also write a page with a plot of the slopes (.html)."),
    ] = None,
) -> None:
    """Fit a linear regression with intervals for sampling and privacy noise.

    Example: gaussveil regress in.csv --target label --epsilon 1 --delta 1e-6 --out coef.json
    """
    from gaussveil.mechanisms import PrivateLinearRegression

    targets = listed(target)
    ranges = parse_ranges(between or [])
    model = PrivateLinearRegression(
        **asked.promise,
        target=targets,
        bounds={name: pair for name, pair in ranges.items() if name not in targets},
        target_bounds={name: pair for name, pair in ranges.items() if name in targets},
    )

    def released() -> dict[str, Any]:
        return {
            fit.target: {
                "coefficients": dict(zip(fit.names, fit.coefficients.tolist())),
                "std_error": dict(zip(fit.names, fit.std_error.tolist())),
                "interval": dict(zip(fit.names, fit.interval.tolist())),
                "residual_deviation": fit.residual_deviation,
                "trusted": dict(zip(fit.names, fit.informed)),
            }
            for fit in model.fits_
        }

    check_ending(report, ".html")
    asked.check(out, report, endings=(".json",))
    release = asked.fit(model, out, released, columns=columns)
    if report is not None:
        from gaussveil.report.html import render
        from gaussveil.report.regression import regression_report

        write_whole(report, render(regression_report(model.fits_, model.certificate_)))
    _tell(model, release, out, model.summary().splitlines(), asked.json)


@with_options
def pca(
    asked: AskedByUnit,
    out: Out,
    n_components: Annotated[
        int | None, typer.Option(help="How many; by default those above the noise.")
    ] = None,
    between: Between = None,
    columns: Columns = None,
) -> None:
    """Find the principal components of a table, with intervals of the variance that each explains.

    Example: gaussveil pca in.csv --epsilon 1 --delta 1e-6 --out components.json
    """
    from gaussveil.mechanisms import PrivatePCA

    model = PrivatePCA(
        **asked.promise, n_components=n_components, bounds=parse_ranges(between or [])
    )

    def released() -> dict[str, Any]:
        kept = ("mean", "components", "explained_variance", "trusted")
        release = {
            "columns": list(model.feature_names_in_),
            "interval": model.explained_variance_interval_.tolist(),
        }
        return release | {name: getattr(model, f"{name}_").tolist() for name in kept}

    release = asked.fit(model, out, released, columns=columns)
    _tell(model, release, out, model.summary().splitlines(), asked.json)


def _tell(
    model: Any, found: dict[str, Any], out: Path, lines: list[str], json: bool
) -> None:
    certificate = model.certificate_
    tell(
        found | release_facts(out, certificate),
        lines + release_lines(out, certificate),
        json=json,
    )
