"""`gaussveil mixture` releases a Gaussian mixture of a table; `sample` draws rows from one, `classify` reads them."""

from __future__ import annotations

import sys
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli import options
from gaussveil.cli.asked import Asked, AskedByUnit, with_options
from gaussveil.cli.files import CERTIFICATE_BYTES, check_ending, check_targets, reserved
from gaussveil.cli.output import digits, print_json, tell
from gaussveil.cli.tables import (
    Engine,
    EngineOption,
    TableAddress,
    local_file,
    open_table,
)
from gaussveil.errors import ParameterError
from gaussveil.files import PRIVATE, csv_text
from gaussveil.report.number_files import encode_columns

if TYPE_CHECKING:
    from gaussveil.mechanisms import MixtureModel
    from gaussveil.statistics import Source

BYTES_PER_PARAMETER = 64


Out = Annotated[
    Path,
    typer.Option(
        help="Model file to write: .json.",
        show_default=False,
        parser=options.Written(".json"),
    ),
]
Page = Annotated[Path | None, typer.Option(help="HTML page about the release.")]
Method = Literal["auto", "response", "clusters", "both", "sums"]


@with_options
def mixture(
    asked: AskedByUnit,
    out: Out,
    radius: Annotated[
        float,
        typer.Option(
            help="Public ball that records are clipped to.", show_default=False
        ),
    ],
    label: Annotated[
        str | None, typer.Option(help="Label column; without it clusters are found.")
    ] = None,
    classes: Annotated[
        str | None,
        typer.Option(
            help="Public labels, separated by commas; else how many clusters, or auto (--nominal-size)."
        ),
    ] = None,
    centre: Annotated[
        str | None,
        typer.Option(help="Middle of the ball, separated by commas; 0 by default."),
    ] = None,
    nominal_size: Annotated[
        int | None, typer.Option(help="Public guess of the number of records.")
    ] = None,
    log: Annotated[
        float | None,
        typer.Option(
            help="Smallest value; model logarithms, so that samples are never negative."
        ),
    ] = None,
    columns: options.Columns = None,
    report: Page = None,
) -> None:
    """Release one Gaussian per class: a distribution to sample from and to classify with.

    Mistakes in columns and options are refused before anything is spent. Records with a missing value or an undeclared
    label are left out, silently. OUT holds the model and its certificate.

    Example: gaussveil mixture profiles.parquet --label class --classes a,b --radius 8 --epsilon 1 --delta 1e-5
    --out model.json
    """
    declared = _declared(label, classes)
    from gaussveil.mechanisms import PrivateGaussianMixture
    from gaussveil.mechanisms.mixture.records import classes_from_words

    promise = asked.promise
    table = _table_for(asked, out, report)
    estimator = PrivateGaussianMixture(
        **promise,
        radius=radius,
        nominal_size=nominal_size,
        log=log,
        centre=None if centre is None else options.parse_numbers("--centre", centre),
        classes=declared
        if label is None
        else classes_from_words(table.schema, label, declared),
        columns=None if columns is None else options.listed(columns),
    )
    _released(estimator, table, label, out, report, asked.json)


@with_options
def label_mixture(
    asked: Asked,
    out: Out,
    label: Annotated[str, typer.Option(help="Label column.", show_default=False)],
    classes: Annotated[
        str,
        typer.Option(help="Public labels, separated by commas.", show_default=False),
    ],
    method: Annotated[
        Method, typer.Option(help="How labels are released; auto: a public rule.")
    ] = "auto",
    columns: options.Columns = None,
    report: Page = None,
) -> None:
    """Release one Gaussian per class where labels alone are private: the features are used as they are.

    Mistakes in columns and options are refused before anything is spent. A record with an undeclared or missing label
    keeps its features. OUT holds the model and its certificate.

    Example: gaussveil label-mixture profiles.parquet --label class --classes a,b --epsilon 1 --delta 1e-5
    --out model.json
    """
    from gaussveil.mechanisms import PrivateLabelMixture
    from gaussveil.mechanisms.mixture.records import classes_from_words

    promise = asked.promise
    table = _table_for(asked, out, report)
    estimator = PrivateLabelMixture(
        **promise,
        classes=classes_from_words(table.schema, label, options.listed(classes)),
        method=method,
        columns=None if columns is None else options.listed(columns),
    )
    _released(estimator, table, label, out, report, asked.json)


def _table_for(asked: Asked, out: Path, report: Path | None) -> Source:
    """The table, once the outputs are known to be possible; a model's file holds its certificate itself."""
    check_ending(out, ".json")
    check_targets(
        out,
        report,
        inputs=[local_file(asked.source)],
        ledger=asked.ledger,
        force=asked.force,
    )
    return asked.table()


def _released(
    estimator: Any,
    table: Source,
    label: str | None,
    out: Path,
    report: Path | None,
    json: bool,
) -> None:
    """Fit, write the model file and the page, and say what was released."""
    from gaussveil.mechanisms.mixture.budget import MOST_CLUSTERS

    if isinstance(estimator.classes, int):
        most = estimator.classes
    else:
        most = max(len(estimator.classes), MOST_CLUSTERS)
    room = (
        BYTES_PER_PARAMETER * most * (len(table.schema.names) + 1) ** 2
        + CERTIFICATE_BYTES
    )
    with ExitStack() as files:
        body = files.enter_context(reserved(out, room))
        if report is None:
            page = None
        else:
            page = files.enter_context(reserved(report, 4 * CERTIFICATE_BYTES))
        model = estimator.fit(table, label).model_
        body.write(model.to_json().encode())
        if page is not None:
            page.write(_page(model).encode())
    certificate = estimator.certificate_
    answer = {
        "out": str(out),
        "classes": list(map(str, model.classes)),
        "columns": list(model.columns),
    }
    answer |= {"weights": model.weights.tolist()}
    answer |= {
        name: getattr(certificate, name)
        for name in ("release_id", "delta_upper", "account")
    }
    lines = [
        f"wrote {out}: {certificate.released}",
        f"account: {certificate.account}; recompute with: gaussveil verify {out}",
    ]
    lines += [
        f"  class {name}: weight {digits(float(w))}"
        for name, w in zip(model.classes, model.weights)
    ]
    tell(answer, lines, json=json)


def sample(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)
    ],
    count: Annotated[int, typer.Option("-n", "--count", help="Rows to draw.")] = 1000,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write: .csv or .parquet; CSV on stdout without."),
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Repeatable rows.")] = None,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Draw synthetic rows from a released mixture; free, as often as you like.

    Example: gaussveil sample model.json -n 1000 --out rows.csv
    """
    import numpy as np

    from gaussveil.mechanisms import MixtureModel

    released = MixtureModel.read(model)
    rows, index = released.sample(count, seed)
    header = (*released.columns, released.label)
    names = [str(released.classes[k]) for k in index]
    if out is None and json:
        print_json(
            {
                "columns": list(header),
                "rows": [[*row, name] for row, name in zip(rows.tolist(), names)],
            }
        )
        return
    if out is None:
        sys.stdout.write(_lines(header, rows.tolist(), names))
        return
    check_ending(out, ".csv", ".parquet")
    check_targets(out, inputs=[model], force=force)
    with reserved(out, 32 * rows.size + 64 * len(names)) as stream:
        if out.suffix.lower() == ".csv":
            stream.write(_lines(header, rows.tolist(), names).encode())
        else:
            stream.write(
                encode_columns(
                    dict(zip(header, [*rows.T, np.array(names)])), ".parquet"
                )
            )
    tell(
        {"out": str(out), "rows": count},
        [f"wrote {out}: {count} rows drawn from {model}"],
        json=json,
    )


def classify(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL", help="Model file.", show_default=False)
    ],
    source: TableAddress,
    out: Annotated[
        Path, typer.Option(help="File to write: .csv or .parquet.", show_default=False)
    ],
    engine: EngineOption = Engine.duckdb,
    force: options.Force = False,
    json: options.Json = False,
) -> None:
    """Name the most likely class of every row of a table by a released mixture.

    Where a cell is missing the others decide. Free, but what is written tells of these rows: whoever may see them may
    see it.

    Example: gaussveil classify model.json profiles.parquet --out classes.csv
    """
    import numpy as np

    from gaussveil.mechanisms import MixtureModel
    from gaussveil.statistics.block import numbers, require_numbers

    released = MixtureModel.read(model)
    check_ending(out, ".csv", ".parquet")
    check_targets(out, inputs=[model, local_file(source)], force=force)
    table = open_table(source, engine)
    require_numbers(table.schema, released.columns)
    rows = table.table(released.columns).combine_chunks()
    values = np.column_stack(
        [numbers(rows.column(name).combine_chunks()) for name in released.columns]
    )
    shares = released.probabilities(values)
    best = shares.argmax(axis=1)
    columns = dict(zip(released.columns, values.T))
    columns |= {
        released.label: np.array([str(released.classes[k]) for k in best]),
        "probability": shares.max(axis=1),
    }
    with reserved(
        out, 64 * values.size + 128 * len(values), PRIVATE
    ) as stream:  # rows of the table
        stream.write(encode_columns(columns, out.suffix.lower()))
    tell(
        {"out": str(out), "rows": len(values)},
        [f"wrote {out}: the classes of {len(values)} rows"],
        json=json,
    )


def _lines(header: tuple[str, ...], rows: list[list[float]], names: list[str]) -> str:
    return csv_text([header, *([*row, name] for row, name in zip(rows, names))])


def _declared(label: str | None, given: str | None) -> Any:
    """The classes' names, or how many clusters to find; a mistake is answered before anything heavy is loaded."""
    if given is None:
        if label:
            what = "labels are public and never looked up"
        else:
            what = "say how many clusters to find"
        raise ParameterError(f"--classes must be given: {what}")
    if label is None:
        if given != "auto" and not given.isdecimal():
            raise ParameterError(
                f"--classes must be a whole number or auto without --label. Got {given!r}."
            )
        if given == "auto":
            return given
        return int(given)
    return options.listed(given)


def _page(model: MixtureModel) -> str:
    from dataclasses import replace

    import numpy as np

    from gaussveil.report.certificate import certificate_report
    from gaussveil.report.html import Section, Table, render

    assert model.certificate is not None
    report = certificate_report(model.certificate)
    spread = np.sqrt(np.diagonal(model.covariances, axis1=1, axis2=2))
    rows = [
        [
            str(name),
            f"{weight:.4g}",
            *(f"{mean:.4g} ({width:.3g})" for mean, width in zip(means, widths)),
        ]
        for name, weight, means, widths in zip(
            model.classes, model.weights, model.means, spread
        )
    ]
    section = Section(
        heading="Released mixture",
        paragraphs=(
            "One Gaussian per class: mean and, in brackets, standard deviation of every column.",
        ),
        table=Table(("class", "weight", *model.columns), rows),
    )
    return render(replace(report, sections=(section, *report.sections)))
