"""`gaussveil forecast`: a household's load forecast that could as well be another household's of its cluster.

Whatever can go wrong goes wrong before anything is spent: the readings are read and checked, models are fitted, the
noise is searched and every output file is reserved; only then is the account debited.
"""

from __future__ import annotations

from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.asked import AskedOfTable, with_options
from gaussveil.cli.files import (
    check_ending,
    check_targets,
    release_facts,
    release_files,
    release_lines,
    reserved,
)
from gaussveil.cli.options import Written
from gaussveil.cli.output import print_table, tell
from gaussveil.cli.tables import HomesTable, local_file
from gaussveil.errors import ParameterError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.report.number_files import encode_columns

if TYPE_CHECKING:
    from gaussveil.accounting import Certificate, PrivateDiagnostics, Release
    from gaussveil.mechanisms import PrivateForecast, PrivateForecaster
    from gaussveil.timeseries import Readings

PRIVATE_ENDINGS = (".json", ".html")
ROOM = 4 << 20  # bytes: certificates hold a loss for every pair of households


@with_options
def forecast(
    asked: AskedOfTable,
    table: HomesTable,
    out: Annotated[
        Path | None,
        typer.Option(
            help="File to write: .parquet or .csv.",
            show_default=False,
            parser=Written(".parquet", ".csv"),
        ),
    ] = None,
    home: Annotated[
        str | None, typer.Option(help="Household to forecast.", show_default=False)
    ] = None,
    cluster_of: Annotated[
        str | None,
        typer.Option(
            help="Forecast the whole cluster of this household, without names.",
            show_default=False,
        ),
    ] = None,
    horizon: Annotated[str, typer.Option(help="How far ahead: 3h, 45min, 1d.")] = "3h",
    delta: Annotated[
        float | None, typer.Option(help="Promise: delta; the noise is the smallest.")
    ] = None,
    accuracy: Annotated[
        float | None,
        typer.Option(
            help="Instead: mean squared error in log power; delta is the smallest."
        ),
    ] = None,
    clusters: Annotated[int, typer.Option(help="Clusters of similar households.")] = 6,
    smallest_kept: Annotated[
        float,
        typer.Option(
            help="Share of the differences that one home's forecast must keep, else its group's."
        ),
    ] = 0.1,
    order: Annotated[
        tuple[int, int], typer.Option(help="Orders of the ARMA residual, AR and MA.")
    ] = (6, 5),
    model: Annotated[
        Literal["past known", "random past"],
        typer.Option(help="What the receiver may know."),
    ] = "past known",
    at: Annotated[
        str | None,
        typer.Option(help="Forecast from this time on; later readings are the truth."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Also write a page to share (.html).")
    ] = None,
    dial: Annotated[
        Path | None,
        typer.Option(
            help="Release nothing: draw for the owner what a range of promises and groups keeps (.svg, .png, .pdf)."
        ),
    ] = None,
    diagnostics: Annotated[
        Path | None,
        typer.Option(
            help="Private page (.html) or figures (.json) for the owner alone."
        ),
    ] = None,
) -> None:
    """Release a load forecast that hides which household of its cluster it is.

    At strict settings it is the average of its group; what is released says so.

    The readings are a long table (household, time, kw) or a wide one (time and a column per household). OUT holds the
    forecast with a band, OUT.certificate.json its guarantee.

    Example: gaussveil forecast readings.parquet --home ID --epsilon 1 --delta 1e-5 --out forecast.parquet
    """
    from gaussveil.mechanisms import PrivateForecaster

    if dial is not None:
        _dial(asked, table, dial, horizon, order, at)
        return
    name = _one_of(home, cluster_of)
    if out is None:
        raise ParameterError(
            "--out must name the file of the forecast, .parquet or .csv; or ask for --dial"
        )
    check_ending(report, ".html")
    check_ending(diagnostics, *PRIVATE_ENDINGS)
    promise = asked.promise
    asked.check(out, report, diagnostics, endings=(".parquet", ".csv"))
    forecaster = PrivateForecaster(
        **promise,
        horizon=horizon,
        delta=delta,
        accuracy=accuracy,
        clusters=clusters,
        smallest_kept=smallest_kept,
        order=order,
        model=model,
    )
    forecaster.check()
    past, future = _split(table.read(asked.source, asked.engine), at)
    forecaster.fit(past)
    if cluster_of is None:
        release_one = forecaster.release
    else:
        release_one = forecaster.release_cluster_of
    private = None
    if diagnostics is not None:
        private = _private(forecaster, name, cluster_of is not None, future)
    with ExitStack() as files:
        write = files.enter_context(release_files(out, ROOM, ROOM))
        if report is None:
            page = None
        else:
            page = files.enter_context(reserved(report, ROOM))
        release: Any = release_one(name)
        write(
            encode_columns(release.value.columns(), out.suffix.lower()),
            release.certificate,
        )
        if page is not None:
            from gaussveil.report.forecast import forecast_report
            from gaussveil.report.html import render

            page.write(
                render(forecast_report(release.value, release.certificate)).encode()
            )
    if diagnostics is not None and private is not None:
        _write_private(diagnostics, private, release)
    _tell(asked.json, out, release.certificate)


def _dial(
    asked: AskedOfTable,
    table: HomesTable,
    target: Path,
    horizon: str,
    order: tuple[int, int],
    at: str | None,
) -> None:
    """Draw what is kept at the usual promises and at the one that was asked for."""
    from gaussveil.mechanisms import PrivateForecaster
    from gaussveil.mechanisms.forecast_dial import DIAL_PROMISES
    from gaussveil.report.figures import FORMATS, save
    from gaussveil.report.forecast_dial import HEADINGS, dial_figure, dial_lines

    check_ending(target, *FORMATS)
    check_targets(target, inputs=[local_file(asked.source)], force=asked.force)
    forecaster = PrivateForecaster(
        epsilon=asked.epsilon, delta=1e-5, horizon=horizon, clusters=1, order=order
    )
    forecaster.check()
    past, future = _split(table.read(asked.source, asked.engine), at)
    points = forecaster.fit(past).dial(
        future, promises=sorted({*DIAL_PROMISES, (asked.epsilon, 1e-5)})
    )
    save(dial_figure(points), target)
    target.chmod(PRIVATE)
    rows, verdict = dial_lines(points)
    if asked.json:
        shown = [
            {
                name: None if value != value else value
                for name, value in vars(point).items()
            }
            for point in points
        ]
        tell({"dial": shown, "verdict": verdict, "out": str(target)}, [], json=True)
        return
    print_table(HEADINGS, rows)
    print(f"{verdict}; {target} is for the owner alone, nothing was released")


def _one_of(home: str | None, cluster_of: str | None) -> str:
    if (home is None) == (cluster_of is None):
        raise ParameterError(
            "give exactly one of --home and --cluster-of, whose forecast to release; --household names a column"
        )
    if home is not None:
        return home
    return str(cluster_of)


def _split(readings: Readings, at: str | None) -> tuple[Readings, Readings | None]:
    """Readings before `at`, and those from there on."""
    import numpy as np

    if at is None:
        return readings, None
    try:
        begin = np.datetime64(at, "m")
    except ValueError:
        raise ParameterError(
            f"--at must be a time such as 2018-11-13T00:00. Got {at!r}."
        ) from None
    places = np.flatnonzero(readings.times == begin)
    if not places.size or places[0] == 0:
        raise ParameterError(
            f"--at must be a time of the readings after the first. Got {at!r}."
        )
    first = int(places[0])
    return readings.window(0, first), readings.window(first, readings.count - first)


def _private(
    forecaster: PrivateForecaster, name: str, whole: bool, future: Readings | None
) -> PrivateDiagnostics:
    """The owner's figures, with the truth where it is known."""
    import numpy as np

    seen = forecaster.diagnostics(name, whole=whole)
    steps = len(np.asarray(seen["plain_kw"], dtype=float))
    if future is None or future.count < steps:
        return seen
    return seen.merged(truth_kw=future.values[future.households.index(name), :steps])


def _write_private(
    path: Path, found: PrivateDiagnostics, release: Release[PrivateForecast]
) -> None:
    from gaussveil.report.forecast import absolute_errors, forecast_report
    from gaussveil.report.html import render

    if path.suffix.lower() == ".json":
        found.merged(
            mean_absolute_error_kw=absolute_errors(release.value, found)
        ).write(path)
        return
    write_whole(
        path,
        render(forecast_report(release.value, release.certificate, found)),
        PRIVATE,
    )


def _tell(json: bool, out: Path, certificate: Certificate) -> None:
    from gaussveil.report.forecast import kept_words

    stated = certificate.parameters
    shown = ("model", "product", "cluster_size", "accuracy", "retained_variance")
    error = f"{float(str(stated['accuracy'])):.3g} in log power"
    what = f"{kept_words(certificate)}; mean squared error {error}, of noise and of what is not kept"
    answer = release_facts(out, certificate) | {name: stated[name] for name in shown}
    tell(answer, release_lines(out, certificate, what), json=json)
