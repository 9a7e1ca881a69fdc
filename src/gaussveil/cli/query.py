"""`gaussveil query`: counts, sums, means, histograms and quantiles of a table by group, with one unit hidden."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gaussveil.cli.asked import Asked, with_options
from gaussveil.cli.files import (
    check_ending,
    release_facts,
    release_files,
    release_lines,
)
from gaussveil.cli.options import parse_ranges
from gaussveil.cli.output import tell
from gaussveil.cli.query_keys import Questions, asked_answers, asked_keys, asked_norm
from gaussveil.cli.query_plan import advice, tell_plan
from gaussveil.cli.tables import form_is_known
from gaussveil.errors import ParameterError
from gaussveil.files import write_whole

if TYPE_CHECKING:
    from gaussveil.accounting import Release
    from gaussveil.mechanisms import TableRelease
    from gaussveil.mechanisms.table.noise import TableNoise
    from gaussveil.statistics import Source

Texts = list[str] | None
ROOM_PER_GROUP = 512
UNSEEN = "what the columns hold was not looked at, as no form of the table is pinned: --dry-run does"


@with_options
def query(
    asked: Asked,
    unit: Annotated[
        str,
        typer.Option(
            help="Column that names whose row it is: what is hidden.",
            show_default=False,
        ),
    ],
    by: Annotated[
        Texts,
        typer.Option(
            help="Key: hour(COL), weekday(COL), month(COL), date(COL, FIRST, LAST), where COL may be DAY+CLOCK; "
            "bin(COL, 0, 1, 5), COL=a|b|c, or discover(COL); may be repeated.",
            show_default=False,
        ),
    ] = None,
    count: Annotated[
        bool,
        typer.Option(
            "--count",
            help="Units per group, or rows (--rows-per-group above 1), that have all numbers asked for.",
        ),
    ] = False,
    total: Annotated[Texts, typer.Option("--sum", help="Sum of a column.")] = None,
    mean: Annotated[
        Texts, typer.Option(help="Mean of a column over the units in each group.")
    ] = None,
    variance: Annotated[Texts, typer.Option(help="Variance of a column.")] = None,
    share: Annotated[
        Texts, typer.Option(help="Share of rows in a range: kw:3,inf.")
    ] = None,
    histogram: Annotated[
        Texts, typer.Option(help="Rows between edges: kw:0,1,2,5.")
    ] = None,
    whole_rows: Annotated[
        bool,
        typer.Option(
            "--whole-rows",
            help="Units count in histograms in whole rows, not in parts of rows.",
        ),
    ] = False,
    cdf: Annotated[
        Texts,
        typer.Option(
            help="Share of rows at or below each edge but the first: kw:0,1,2,5; values outside count as the ends, "
            "so the last share is 1."
        ),
    ] = None,
    quantile: Annotated[Texts, typer.Option(help="Quantiles: kw:0.1,0.5,0.9.")] = None,
    between: Annotated[
        Texts,
        typer.Option(help="Public range that values are clipped to: 0,10 or kw:0,10."),
    ] = None,
    unit_norm: Annotated[
        str | None,
        typer.Option(help="Bound on a unit's whole curve instead: R, or R1,R2,R3."),
    ] = None,
    bounds: Annotated[
        str | None, typer.Option(help="auto: learn these bounds within the budget.")
    ] = None,
    rows_per_group: Annotated[
        int, typer.Option(help="Rows that a unit weighs at most in a group.")
    ] = 1,
    groups_per_unit: Annotated[
        int | None, typer.Option(help="Groups that a unit counts in at most; else all.")
    ] = None,
    rows_per_unit: Annotated[
        int | None,
        typer.Option(
            help="Rows that a unit has at most in all, where that is public, as 1 of a row a person."
        ),
    ] = None,
    time_zone: Annotated[
        str | None,
        typer.Option(help="Zone of the clocks in --by, as in Europe/Zurich."),
    ] = None,
    law: Annotated[
        str,
        typer.Option(
            help="Noise: gaussian, laplace (then --delta may be 0) or auto, the smaller error."
        ),
    ] = "auto",
    other: Annotated[
        bool,
        typer.Option(
            "--other", help="Also a group for values that --by does not list."
        ),
    ] = False,
    totals: Annotated[
        bool,
        typer.Option(
            "--totals",
            help="Also a last row, the sums over the groups: a unit of several groups is in it as often.",
        ),
    ] = False,
    units: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="About how many units there are, where that is public: is it enough?",
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(help="File to write, .csv or .parquet; without it only the plan."),
    ] = None,
    report: Annotated[
        Path | None, typer.Option(help="Page with pictures of the answers (.html).")
    ] = None,
) -> None:
    """Answer questions about a table so that all rows of one unit stay hidden: one charge, one certificate.

    Without --out no row is read and nothing is spent: the plan tells how wide the noise of every answer would be, and
    refuses what the table's form cannot give, where the form is known (a file with types, or gaussveil.toml).

    Example: gaussveil query readings.parquet --unit household --by "hour(time)" --mean kw --between 0,10 --count
    --epsilon 1 --delta 1e-6 --out profile.csv
    """
    from gaussveil import mechanisms as offered

    answers = asked_answers(
        Questions(count, total, mean, variance, share, histogram, cdf, quantile),
        parse_ranges(between or []),
        whole_rows=whole_rows,
    )
    table = offered.TableRelease(
        **asked.promise,
        unit=unit,
        by=asked_keys(by, time_zone),
        answers=answers,
        rows_per_group=rows_per_group,
        groups_per_unit=groups_per_unit,
        rows_per_unit=rows_per_unit,
        unit_norm=asked_norm(unit_norm),
        bounds=bounds,
        other=other,
        totals=totals,
        law=law,
        progress=not asked.json and sys.stderr.isatty(),
    )
    plan = table.plan()
    _check_files(asked, out, report)
    if out is not None:
        _check_shown(plan.noise, units)
    if asked.dry_run or (out is None and form_is_known(asked.source)):
        _rehearse(table, asked.table(), out, report)
    elif out is None and not asked.json:
        print(UNSEEN)
    if out is None or asked.dry_run:
        tell_plan(plan, asked.json, units)
    else:
        _release(table, asked, out, report, units)


def _check_shown(noise: TableNoise, units: int | None) -> None:
    """Refuse a release that shows no group at all, where public numbers say so."""
    for name in noise.request.discovered:
        needed = noise.key_threshold(name)
        surely = needed - 3 * noise.key_deviation(name)
        if units is not None and units < surely:
            raise ParameterError(
                f"--units {units} are fewer than the {needed:.0f} units that a value of {name!r} needs to be shown: "
                f"the release would be paid for without a group. List its values (--by {name}=a|b), or take a larger "
                "--epsilon"
            )


def _check_files(asked: Asked, out: Path | None, report: Path | None) -> None:
    """Refuse files that cannot be written, before anything is read."""
    check_ending(report, ".html")
    if out is not None:
        asked.check(out, report, endings=(".csv", ".parquet"))
    elif report is not None and not asked.dry_run:
        raise ParameterError(
            "--report needs --out: the page shows answers that were released"
        )


def _rehearse(
    table: TableRelease, source: Source, out: Path | None, report: Path | None
) -> None:
    """Make everything that the release will make, of noise alone: what cannot be made has cost nothing."""
    for rehearsed in table.rehearsals(source):
        if out is not None:
            _file(rehearsed, out)
        if report is not None:
            _page(rehearsed)


def _file(release: Release[Any], out: Path) -> bytes:
    import pyarrow as pa
    import pyarrow.csv
    import pyarrow.parquet

    body = pa.BufferOutputStream()
    if out.suffix.lower() == ".csv":
        writer = pa.csv.write_csv
    else:
        writer = pa.parquet.write_table
    writer(release.value, body)
    content: bytes = body.getvalue().to_pybytes()
    return content


def _page(release: Release[Any]) -> str:
    from gaussveil.report.html import render
    from gaussveil.report.table import table_report

    return render(table_report(release.value, release.certificate))


def _release(
    table: TableRelease,
    asked: Asked,
    out: Path,
    report: Path | None,
    units: int | None,
) -> None:
    plan = table.plan()
    noise = plan.noise
    room = ROOM_PER_GROUP * min(noise.request.cells, 2**16)
    with release_files(out, room) as write:
        source = asked.table()
        _tell_clocks(source, table.by or {})
        _rehearse(table, source, out, report)
        release = table.release(source)
        write(_file(release, out), release.certificate)
    if report is not None:
        write_whole(report, _page(release))
    rows = release.value.num_rows
    keys = noise.request.discovered
    facts = release_facts(out, release.certificate) | {
        "groups": rows,
        "report": report and str(report),
    }
    shown = [
        f"; {name} shows values of over {noise.key_threshold(name):.0f} units"
        for name in keys
    ]
    if keys and not rows:
        facts["held_back"] = True
        shown.append(": no value had as many; the release is paid for all the same")
    counted = ("1 group" if rows == 1 else f"{rows} groups") + (
        f"; the page is {report}" if report else ""
    )
    lines = release_lines(out, release.certificate, f"{counted}{''.join(shown)}")
    tell(facts, [*lines, *advice(plan, units)], json=asked.json)


def _tell_clocks(source: Source, by: Mapping[str, Any]) -> None:
    """Say which clock hours and days are read on, where times carry a zone and none was asked for."""
    zoned = {field.name for field in source.schema if getattr(field.type, "tz", None)}
    if on := [
        repr(key.column)
        for key in by.values()
        if key.column in zoned and getattr(key, "time_zone", "") is None
    ]:
        print(
            f"{', '.join(dict.fromkeys(on))} on the clock of UTC (to change: --time-zone)",
            file=sys.stderr,
        )
