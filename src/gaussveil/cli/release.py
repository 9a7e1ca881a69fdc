"""`gaussveil release`: release a file of numbers with noise, its certificate beside it.

Whatever can go wrong goes wrong before anything is spent: the input is read and checked, both output files are made and
their room on the disk is reserved, and only then is the account debited. The finished files take their names at once.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussveil.cli import options
from gaussveil.cli.asked import Asked, with_options
from gaussveil.cli.files import release_facts, release_files, release_lines
from gaussveil.cli.output import EXIT_CODE_HELP, digits, tell
from gaussveil.cli.tables import Engine, local_file, open_table, table_name
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.report.number_files import (
    BYTES_PER_NUMBER,
    ENDINGS,
    Numbers,
    encode,
    read_numbers,
    sorted_rows,
)

release_app = typer.Typer(
    name="release",
    help="Release data with noise and a certificate.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
)


Order = Annotated[
    str | None,
    typer.Option(
        help="Public columns, not released, that rows are sorted by; needed beyond one file."
    ),
]


@release_app.command("vector", epilog=EXIT_CODE_HELP)
@with_options
def vector(
    asked: Asked,
    l2_sensitivity: Annotated[
        float,
        typer.Option(
            help="Public bound on the l2 distance between neighbouring inputs.",
            show_default=False,
        ),
    ],
    because: Annotated[
        str,
        typer.Option(
            help="Where that bound comes from; written on the certificate.",
            show_default=False,
        ),
    ],
    out: Annotated[
        Path,
        typer.Option(
            help="File to write: .csv, .npy or .parquet.",
            show_default=False,
            parser=options.Written(".csv", ".npy", ".parquet"),
        ),
    ],
    adjacency: Annotated[
        options.Relation, typer.Option(help="Which inputs are neighbours.")
    ] = "add-remove",
    grid: Annotated[
        float | None,
        typer.Option(help="Power of two on which outputs lie; by default fine."),
    ] = None,
    order: Order = None,
    rows: Annotated[
        int,
        typer.Option(
            help="Most rows that IN may have: a table of everybody's rows has more."
        ),
    ] = 1000,
) -> None:
    """Release a vector or table with Gaussian noise.

    The account is debited before anything is drawn. Header and shape are public, every number is protected.
    OUT.certificate.json is written beside OUT. Add --ledger and --account to spend from a budget. For answers from a
    table of rows, use `gaussveil query`: it computes its own bounds and enforces them.

    Example: gaussveil release vector in.csv --epsilon 1 --delta 1e-6 --l2-sensitivity 1 --because "a home adds 1 to one
    of these counts" --out out.csv
    """
    from gaussveil.mechanisms import GaussianRelease

    promise = asked.promise
    if not because.strip():
        raise ParameterError(
            "--because must say where the sensitivity comes from; nothing here can check it"
        )
    numbers = read_rows(asked.source, asked.engine, options.listed(order))
    _refuse_rows(numbers, options.listed(order), rows)
    asked.check(out, endings=ENDINGS)
    if numbers.values.ndim > 2 and out.suffix.lower() != ".npy":
        raise ShapeError(
            f"{out}: an array of {numbers.values.ndim} dimensions fits .npy only"
        )
    mechanism = GaussianRelease(
        **promise,
        l2_sensitivity=l2_sensitivity,
        adjacency=adjacency,
        because=because.strip(),
        grid=grid,
    )
    room = BYTES_PER_NUMBER * (numbers.values.size + len(numbers.columns or ())) + 4096
    with release_files(out, room) as write:
        shape = " x ".join(map(str, numbers.values.shape))
        release = mechanism.release(
            numbers.values, released=f"{table_name(asked.source)}, {shape} numbers"
        )
        write(
            encode(Numbers(release.value, numbers.columns), out.suffix.lower()),
            release.certificate,
        )
    certificate = release.certificate
    variance = certificate.parameters["noise_covariance"]
    assert isinstance(variance, float)  # white noise
    deviation = math.sqrt(variance)
    answer = release_facts(out, certificate)
    answer |= {"standard_deviation": deviation, "grid": certificate.parameters["grid"]}
    tell(
        answer,
        release_lines(
            out, certificate, f"noise of standard deviation {digits(deviation)}"
        ),
        json=asked.json,
    )


Ball = Annotated[
    float,
    typer.Option("--l2-ball", help="Public radius that is hidden.", show_default=False),
]
SeriesFile = Annotated[
    Path,
    typer.Option(
        help="File to write: .csv, .npy or .parquet.",
        show_default=False,
        parser=options.Written(".csv", ".npy", ".parquet"),
    ),
]


@release_app.command("spectrum", epilog=EXIT_CODE_HELP)
@with_options
def spectrum(
    asked: Asked,
    l2_ball: Ball,
    period_minutes: Annotated[
        float, typer.Option(help="Minutes between readings.", show_default=False)
    ],
    out: SeriesFile,
    points: Annotated[
        int, typer.Option(help="N: the density has N + 1 frequencies.")
    ] = 288,
    bands: Annotated[
        int | None, typer.Option(help="Means over so many bands, with less noise.")
    ] = None,
    correlation: Annotated[
        float, typer.Option(help="Of the noise at neighbouring frequencies.")
    ] = 0.0,
    smoothing: Annotated[
        tuple[float, float], typer.Option(help="Gain and coefficient of the smoother.")
    ] = (1.0, 1.0),
    order: Order = None,
    columns: options.Columns = None,
) -> None:
    """Release the power spectral density of readings; --l2-ball in kW^2 h.

    Example: gaussveil release spectrum home.csv --epsilon 1 --delta 1e-5 --l2-ball 0.12 --period-minutes 5 --points 8
    --out out.csv
    """
    from gaussveil.mechanisms import PrivateSpectrum

    mechanism = PrivateSpectrum(
        **asked.promise,
        l2_ball=l2_ball,
        points=points,
        bands=bands,
        sample_period=period_minutes / 60,
        correlation=correlation,
        smoothing=smoothing,
    )
    _series(asked, mechanism, out, order, columns)


@release_app.command("trajectory", epilog=EXIT_CODE_HELP)
@with_options
def trajectory(
    asked: Asked,
    l2_ball: Ball,
    out: SeriesFile,
    order: Order = None,
    columns: options.Columns = None,
) -> None:
    """Release readings with noise that hides a change of --l2-ball kW.

    Example: gaussveil release trajectory home.csv --epsilon 1 --delta 1e-5 --l2-ball 3 --out out.csv
    """
    from gaussveil.mechanisms import TrajectoryRelease

    _series(
        asked, TrajectoryRelease(**asked.promise, l2_ball=l2_ball), out, order, columns
    )


@release_app.command("label", epilog=EXIT_CODE_HELP)
@with_options
def label(
    asked: Asked,
    label: Annotated[
        str,
        typer.Option(
            help="Column that names the labels, one row each.", show_default=False
        ),
    ],
    of: Annotated[
        str,
        typer.Option(
            help="The secret label whose row is released.", show_default=False
        ),
    ],
    out: SeriesFile,
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="Largest mean squared error of a number; the smallest for --delta otherwise."
        ),
    ] = None,
    common_covariance: Annotated[
        bool, typer.Option(help="The same noise for every label.")
    ] = False,
    columns: options.Columns = None,
) -> None:
    """Release one row so that nobody can tell whose of all rows it is.

    The rows themselves, one per label, are taken for public knowledge; the secret is which of them is released.

    Example: gaussveil release label curves.csv --label home --of home7 --epsilon 1 --delta 1e-5 --out out.csv
    """
    import numpy as np

    from gaussveil.mechanisms import ClassLabelNoise
    from gaussveil.statistics.block import numbers, require_columns, require_numbers

    asked.check(out, endings=ENDINGS)
    source = asked.table()
    stated = asked.promise | {
        "accuracy": accuracy,
        "common_covariance": common_covariance,
    }
    names = options.listed(columns) or [
        name for name in source.schema.names if name != label
    ]
    require_columns(source.schema, [label])
    require_numbers(source.schema, names)
    rows = source.table([label, *names], order=[label]).combine_chunks()
    means = np.column_stack(
        [numbers(rows.column(name).combine_chunks()) for name in names]
    )
    mechanism = ClassLabelNoise(
        **stated | ({} if accuracy is None else {"delta": None})
    )
    mechanism.progress = sys.stderr.isatty()
    mechanism.design(
        means, labels=[str(name) for name in rows.column(label).to_pylist()]
    )
    if mechanism.worst_delta_ > asked.delta:
        told = f"at least {mechanism.worst_delta_:.4g} for that --accuracy"
        raise ParameterError(f"--delta must be {told}. Got {asked.delta:g}.")
    with release_files(out, BYTES_PER_NUMBER * (means.shape[1] + 4096)) as write:
        release = mechanism.release(of)
        write(
            encode(Numbers(release.value[None, :], tuple(names)), out.suffix.lower()),
            release.certificate,
        )
    error = f"{mechanism.accuracy_:.3g} a number"
    variance = f"{mechanism.retained_variance_:.2g}"
    kept = f"mean squared error {error}, of noise and of what is not kept; variance kept {variance}"
    facts: dict[str, object] = {
        "accuracy": mechanism.accuracy_,
        "retained_variance": mechanism.retained_variance_,
    }
    facts |= release_facts(out, release.certificate)
    tell(facts, release_lines(out, release.certificate, kept), json=asked.json)


def _series(
    asked: Asked, mechanism: Any, out: Path, order: str | None, columns: str | None
) -> None:
    numbers = read_rows(
        asked.source, asked.engine, options.listed(order), options.listed(columns)
    )
    if numbers.values.ndim == 2 and numbers.values.shape[1] == 1:
        series = numbers.values[:, 0]
    else:
        series = numbers.values
    asked.check(out, endings=ENDINGS)
    with release_files(out, BYTES_PER_NUMBER * (series.size + 4096)) as write:
        release = mechanism.release(series)
        noisy = Numbers(release.value[:, None], numbers.columns or ("value",))
        write(encode(noisy, out.suffix.lower()), release.certificate)
    tell(
        release_facts(out, release.certificate),
        release_lines(out, release.certificate),
        json=asked.json,
    )


def _refuse_rows(numbers: Numbers, order: Sequence[str], rows: int) -> None:
    """Refuse what looks like a table of somebody's rows; its shape and the order's columns are public."""
    instead = "for answers from a table of rows use `gaussveil query`, which bounds every unit itself"
    if len(order) > 1:
        raise ParameterError(
            f"--order must be one column, or IN holds several rows of a unit: {instead}"
        )
    if numbers.values.ndim > 1 and len(numbers.values) > rows:
        raise ParameterError(
            f"IN has more than {rows} rows: {instead}, or say --rows if this is one vector all the same"
        )


def read_rows(
    address: str, engine: Engine, order: Sequence[str], columns: Sequence[str] = ()
) -> Numbers:
    """The numbers of one file in its own order; of any other table, through an engine, sorted by public columns."""
    path = local_file(address)
    if (
        engine is Engine.duckdb
        and not (order or columns)
        and path is not None
        and path.suffix.lower() in ENDINGS
    ):
        return read_numbers(path)
    if not order:
        raise ParameterError(
            "--order must name public columns: rows of a folder, database or cluster have no order"
        )
    table = open_table(address, engine)
    return sorted_rows(
        table.select([*columns, *order]) if columns else table, order, leave_out=order
    )
