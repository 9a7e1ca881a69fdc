"""`gaussveil logistic` and `gaussveil gp`: private draws of posteriors, JSON out, the certificate beside it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from gaussveil.cli.asked import Asked, AskedByUnit, with_options
from gaussveil.cli.files import release_facts, release_lines
from gaussveil.cli.options import Columns
from gaussveil.cli.output import digits, tell
from gaussveil.errors import ParameterError
from gaussveil.report.number_files import read_numbers

Target = Annotated[str, typer.Option(help="Column to predict.")]
Out = Annotated[
    Path | None,
    typer.Option(help="File to write: .json. Without it only the plan is shown."),
]
Unit = Annotated[
    str | None,
    typer.Option(help="Column that names whose row it is; one row of each is used."),
]


@with_options
def logistic(
    asked: AskedByUnit,
    row_norm: Annotated[
        float | None,
        typer.Option(help="Draw from the posterior of rows of this length."),
    ] = None,
    regularization: Annotated[
        float, typer.Option(help="Precision of its prior; more means less noise.")
    ] = 1.0,
    target: Target = "label",
    classes: Annotated[
        str | None, typer.Option(help="The two public labels, separated by a comma.")
    ] = None,
    out: Out = None,
    columns: Columns = None,
) -> None:
    """Fit a private logistic regression; with --row-norm draw the coefficients of a Bayesian one.

    A draw's noise is shown without --out; nothing is read or spent then.

    Example: gaussveil logistic in.csv --epsilon 1 --delta 1e-6 --row-norm 1 --regularization 10 --out coef.json
    """
    if row_norm is None and classes is None:
        raise ParameterError(
            "--classes must be given: the two public labels, as in --classes no,yes"
        )
    from gaussveil.mechanisms import (
        PrivateBayesianLogisticRegression,
        PrivateLogisticRegression,
    )

    stated = {
        **asked.promise,
        "target": target,
        "classes": None if classes is None else _labels(classes),
    }
    if row_norm is None:
        model: Any = PrivateLogisticRegression(**stated)
    elif stated.pop("rows_per_unit") not in (None, 1):
        raise ParameterError("--rows-per-unit must be 1 with --row-norm")
    else:
        model = PrivateBayesianLogisticRegression(
            **stated, row_norm=row_norm, regularization=regularization
        )

    def released() -> dict[str, Any]:
        names = [*map(str, model.feature_names_in_)]
        coefficients = model.coef_[0].tolist()
        if row_norm is None:
            told = {"intercept": float(model.intercept_[0])}
        else:
            told = {}
        return {
            "coefficients": told | dict(zip(names, coefficients)),
            "classes": [str(label) for label in model.classes_],
        }

    _run(asked, model, out, released, columns)


@with_options
def gp(
    asked: Asked,
    points: Annotated[
        Path,
        typer.Option(
            help="Public query points: .csv, .npy or .parquet.", show_default=False
        ),
    ],
    length_scale: Annotated[
        float, typer.Option(help="Of the RBF kernel.", show_default=False)
    ],
    observation_variance: Annotated[
        float, typer.Option(help="Of a label around the process.", show_default=False)
    ],
    label_bound: Annotated[
        float, typer.Option(help="Labels are clipped to +-this.", show_default=False)
    ],
    n_max: Annotated[
        int,
        typer.Option(help="Public bound on the number of records.", show_default=False),
    ],
    amplitude: Annotated[
        float, typer.Option(help="Standard deviation of the process.")
    ] = 1.0,
    target: Target = "label",
    out: Out = None,
    unit: Unit = None,
    columns: Columns = None,
) -> None:
    """Draw a private Gaussian process at public points.

    Without --out no record is read and nothing is spent; only the size of the noise is shown.

    Example: gaussveil gp in.csv --epsilon 1 --delta 1e-6 --points q.csv --length-scale 5 --observation-variance 250
    --label-bound 0.5 --n-max 16 --out values.json
    """
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    from gaussveil.mechanisms import PrivateGaussianProcessRegressor

    if not (length_scale > 0 and amplitude > 0):
        raise ParameterError("--length-scale and --amplitude must be positive")
    model = PrivateGaussianProcessRegressor(
        kernel=ConstantKernel(amplitude**2) * RBF(length_scale),
        query_points=read_numbers(points).values,
        observation_variance=observation_variance,
        label_bound=label_bound,
        n_max=n_max,
        **asked.promise,
        target=target,
        unit=unit,
    )

    def released() -> dict[str, Any]:
        return {
            "points": model.query_points_.tolist(),
            "values": model.values_.tolist(),
        }

    _run(asked, model, out, released, columns, points)


def _run(
    asked: Asked,
    model: Any,
    out: Path | None,
    released: Callable[[], dict[str, Any]],
    columns: str | None,
    points: Path | None = None,
) -> None:
    answer: dict[str, Any]
    if hasattr(model, "plan"):
        answer = {"added_variance": model.plan().added_variance}
    else:
        answer = {}
    lines = [
        f"added noise: variance {digits(v)}, standard deviation {digits(v**0.5)}"
        for v in answer.values()
    ]
    if out is None and not answer:
        raise ParameterError("--out must name a file, or use --dry-run")
    if out is not None:
        asked.fit(
            model, out, lambda: {**released(), **answer}, columns=columns, points=points
        )
        answer |= release_facts(out, model.certificate_)
        lines += release_lines(out, model.certificate_)
    tell(answer, lines, json=asked.json)


def _labels(text: str) -> list[Any]:
    """Labels as numbers where both read as numbers, else as text."""
    words = [word.strip() for word in text.split(",")]
    try:
        return [float(word) for word in words]
    except ValueError:
        return words
