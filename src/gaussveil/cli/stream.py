"""`gaussveil stream`: design private meter streams, and run the gateway that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from gaussveil.cli.asked import with_options
from gaussveil.cli.files import check_targets
from gaussveil.cli.options import (
    Delta,
    DryRun,
    Epsilon,
    Force,
    Json,
    PayingAccount,
    PayingLedger,
    Written,
    paying_account,
)
from gaussveil.cli.output import EXIT_CODE_HELP, tell
from gaussveil.cli.stream_run import FleetTransport, run
from gaussveil.cli.stream_spark import spark
from gaussveil.cli.stream_total import total
from gaussveil.cli.tables import (
    Engine,
    EngineOption,
    HomesTable,
    TableAddress,
    local_file,
)
from gaussveil.errors import GaussveilError, ParameterError

if TYPE_CHECKING:
    from gaussveil.accounting import Account
    from gaussveil.mechanisms import MeterStream
    from gaussveil.mechanisms.meter_stream.figures import StreamPlan

stream_app = typer.Typer(
    name="stream",
    help="Private meter streams: design and run.",
    epilog=EXIT_CODE_HELP,
    no_args_is_help=True,
)
stream_app.command("run", epilog=EXIT_CODE_HELP)(run)
stream_app.command("spark", epilog=EXIT_CODE_HELP)(spark)
stream_app.command("total", epilog=EXIT_CODE_HELP)(total)


@stream_app.command("fleet", epilog=EXIT_CODE_HELP)
@with_options
def fleet(
    folder: Annotated[
        Path,
        typer.Argument(help="Folder of the durable state; made at the first start."),
    ],
    transport: FleetTransport,
    meters: Annotated[
        Path | None,
        typer.Option(help="First start: file with one meter's name per line."),
    ] = None,
    epsilon: Annotated[
        float | None, typer.Option(help="First start: the promise.")
    ] = None,
    delta: Annotated[
        float | None, typer.Option(help="First start: the promise.")
    ] = None,
    sample_period: Annotated[
        str, typer.Option(help="First start: length of a period.")
    ] = "15min",
    home: Annotated[
        str, typer.Option(help="First start: for how long one home is hidden.")
    ] = "1d",
    limit: Annotated[
        float, typer.Option(help="First start: kW that a reading is clipped to.")
    ] = 10.0,
    name: Annotated[
        str, typer.Option(help="First start: name of the fleet in answers and topics.")
    ] = "fleet",
    ledger: PayingLedger = None,
    account: PayingAccount = None,
) -> None:
    """Serve one private sum of many meters per period.

    Example: gaussveil stream fleet feeder --meters names.txt --epsilon 1 --delta 1e-5 < readings.jsonl > sums.jsonl
    """
    from gaussveil.logs import log_to_stderr
    from gaussveil.mechanisms import MeterFleet
    from gaussveil.streaming.fleet import FleetGateway

    log_to_stderr()
    broker = transport.broker()
    if meters is None:
        gateway = FleetGateway(folder)
    elif epsilon is None or delta is None:
        raise ParameterError(
            "--meters must come with --epsilon and --delta: the promise of the first start"
        )
    else:
        pays = paying_account(ledger, account)
        made = MeterFleet.design(
            sample_period=sample_period,
            epsilon=epsilon,
            delta=delta,
            home=home,
            limits=(0.0, limit),
            account=pays,
        )
        lines = meters.read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
        gateway = FleetGateway(folder, fleet=made, meters=names, name=name)
    transport.serve(gateway, broker)


@stream_app.command("design", epilog=EXIT_CODE_HELP)
@with_options
def design(
    table: HomesTable,
    history: TableAddress,
    out: Annotated[
        Path,
        typer.Option(
            help="File of meters to write.", show_default=False, parser=Written()
        ),
    ],
    epsilon: Epsilon,
    delta: Delta,
    event_kw: Annotated[
        float | None, typer.Option(help="Hidden event: kW; needs --event-duration.")
    ] = None,
    event_duration: Annotated[
        str | None, typer.Option(help='Hidden event: duration, such as "1h".')
    ] = None,
    l2_ball: Annotated[
        float | None, typer.Option(help="Instead of an event: kW in l2 norm.")
    ] = None,
    purpose: Annotated[
        Literal["shape", "energy", "billing", "registers", "spectrum"],
        typer.Option(help="What the stream is for."),
    ] = "shape",
    substitute: Annotated[
        float, typer.Option(help="Public reading, kW, that stands for a missing one.")
    ] = 0.0,
    spectrum_epsilon: Annotated[
        float | None, typer.Option(help="For spectrum: promise for the history.")
    ] = None,
    spectrum_delta: Annotated[
        float | None, typer.Option(help="For spectrum: promise for the history.")
    ] = None,
    spectrum_ball: Annotated[
        float | None, typer.Option(help="For spectrum: public radius B, kW^2 h.")
    ] = None,
    spectrum_points: Annotated[
        int, typer.Option(help="For spectrum: N, of N + 1 frequencies.")
    ] = 288,
    spectrum_correlation: Annotated[
        float, typer.Option(help="For spectrum: beta, of the noise's neighbours.")
    ] = 0.0,
    spectrum_smoothing: Annotated[
        tuple[float, float],
        typer.Option(help="For spectrum: gain and coefficient of the filter P."),
    ] = (1.0, 0.39),
    reduction: Annotated[
        tuple[float, float],
        typer.Option(help="For spectrum: gain and coefficient of the low pass F."),
    ] = (0.8, 0.314),
    ledger: Annotated[Path | None, typer.Option(help="Ledger file that pays.")] = None,
    account: Annotated[
        str, typer.Option(help="Account of a meter; {meter} is its name.")
    ] = "{meter}",
    spectrum_account: Annotated[
        str, typer.Option(help="Account for the spectrum.")
    ] = "{meter} spectrum",
    engine: EngineOption = Engine.duckdb,
    force: Force = False,
    dry_run: DryRun = False,
    json_output: Json = False,
) -> None:
    """Design one stream per meter and debit each once.

    IN holds past readings: it tells the names of the meters and the sample period.

    Example: gaussveil stream design history.csv --out meter.json --epsilon 1 --delta 1e-5
    --event-kw 0.5 --event-duration 1h --purpose billing
    """
    from gaussveil.mechanisms import MeterStream, PrivateSpectrum
    from gaussveil.streaming.meters import check_name

    event = _event(event_kw, event_duration)
    if not dry_run and not force:
        _check_new(out)
    # OUT.part becomes OUT once it is complete
    check_targets(
        out,
        Path(f"{out}.part"),
        inputs=[local_file(history)],
        ledger=ledger,
        force=True,
    )
    readings = table.read(history, engine)
    period = readings.step_minutes / 60
    pays = partial(_paying, ledger)

    def spectrum_of(meter: str) -> PrivateSpectrum:
        own_epsilon, own_delta, ball = _all_given(
            spectrum_epsilon, spectrum_delta, spectrum_ball
        )
        if dry_run:
            raise ParameterError(
                "--dry-run cannot plan a spectrum: its filters need the private spectrum"
            )
        return PrivateSpectrum(
            epsilon=own_epsilon,
            delta=own_delta,
            l2_ball=ball,
            points=min(spectrum_points, readings.count // 2),
            sample_period=period,
            correlation=spectrum_correlation,
            smoothing=spectrum_smoothing,
            account=pays(spectrum_account, meter),
        )

    def made(meter: str, row: int) -> MeterStream:
        private = None
        past = None
        if purpose == "spectrum":
            private = spectrum_of(meter)
            past = readings.values[row]
        return MeterStream.design(
            sample_period=period,
            epsilon=epsilon,
            delta=delta,
            event=event,
            l2_ball=l2_ball,
            purpose=purpose,
            substitute=substitute,
            history=past,
            spectrum=private,
            reduction=reduction,
            account=pays(account, meter),
        )

    names = readings.households
    for name in names:  # before anything is spent
        check_name(name)
    if purpose == "spectrum":
        streams = [(name, made(name, row)) for row, name in enumerate(names)]
    else:  # the design is public and the same for all
        first = made(names[0], 0).design_
        streams = [
            (name, MeterStream(design=first, account=pays(account, name)))
            for name in names
        ]
    plan = streams[0][1].plan()
    answer = {"meters": len(streams), **_plan_facts(plan), "account": None, "out": None}
    recorded = ", not recorded"
    if ledger is not None:
        answer["account"] = account
        recorded = ""
    ending = "nothing was spent"
    if not dry_run:
        _open_all(streams, out)
        answer["out"] = str(out)
        ending = f"wrote {out}{recorded}"
    lines = [*f"{len(streams)} meters: {plan}".splitlines(), ending]
    tell(answer, lines, json=json_output)


def _check_new(out: Path) -> None:
    """Refuse to design streams anew that are paid for."""
    if out.exists():
        raise ParameterError(
            f"{out} exists; its streams are paid for. Use --force to design them anew"
        )


def _paying(ledger: Path | None, template: str, meter: str) -> Account | None:
    """The account of a meter, by the template of its name; None where nothing is recorded."""
    if ledger is None:
        return None
    from gaussveil.accounting import Account

    return Account(ledger, template.replace("{meter}", meter))


def _event(kw: float | None, duration: str | None) -> tuple[float, str] | None:
    """The event that is hidden, if one is named: both of its halves."""
    if (kw is None) != (duration is None):
        raise ParameterError("--event-kw and --event-duration must be given together")
    if kw is None or duration is None:
        return None
    return kw, duration


def _all_given(
    epsilon: float | None, delta: float | None, ball: float | None
) -> tuple[float, float, float]:
    if epsilon is None or delta is None or ball is None:
        raise ParameterError(
            "--purpose spectrum needs --spectrum-epsilon, --spectrum-delta and --spectrum-ball"
        )
    return epsilon, delta, ball


def _plan_facts(plan: StreamPlan) -> dict[str, object]:
    return {
        "noise_sd_kw": plan.noise_sd if isfinite(plan.noise_sd) else None,
        "daily_energy_sd_kwh": plan.daily_energy_sd,
        "monthly_energy_sd_kwh": plan.monthly_energy_sd,
        "repeated_events": plan.repeated_events,
        "repeated_epsilon": plan.repeated_epsilon,
        "repeated_delta": plan.repeated_delta,
        "good_for": list(plan.good_for),
    }


def _open_all(streams: Sequence[tuple[str, MeterStream]], out: Path) -> None:
    """Debit stream by stream and write them; those paid for are written also where a later one is refused."""
    from gaussveil.streaming import Meter, write_meters

    opened: list[Meter] = []
    try:
        for name, stream in streams:
            opened.append(Meter(name, stream.design_, stream.open()))
    except GaussveilError as error:
        if not opened:
            raise
        raise type(error)(
            f"{error}; {len(opened)} of {len(streams)} meters are debited and in {out}: design the others by themselves"
        ) from None
    finally:
        if opened:
            write_meters(opened, out)
