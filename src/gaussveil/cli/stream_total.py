"""`gaussveil stream total`: a private running total, of one meter or over many, live."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli.asked import with_options
from gaussveil.cli.options import PayingAccount, PayingLedger, paying_account
from gaussveil.cli.stream_run import FleetTransport
from gaussveil.errors import ParameterError


@with_options
def total(
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
    steps: Annotated[
        int, typer.Option(help="First start: readings of a meter that are covered.")
    ] = 8784,
    every: Annotated[
        str | None,
        typer.Option(help="First start: begin a new total after so long, such as 28d."),
    ] = None,
    takes: Annotated[
        int, typer.Option(help="First start: readings of one meter that may change.")
    ] = 1,
    separation: Annotated[
        int,
        typer.Option(help="First start: how many readings these are apart, at least."),
    ] = 1,
    sample_period: Annotated[
        str, typer.Option(help="First start: length of a period.")
    ] = "1h",
    limit: Annotated[
        float, typer.Option(help="First start: what a reading is clipped to.")
    ] = 10.0,
    name: Annotated[
        str, typer.Option(help="First start: name of the total in answers and topics.")
    ] = "total",
    ledger: PayingLedger = None,
    account: PayingAccount = None,
) -> None:
    """Serve the private total of all readings so far, of one meter or of many together.

    Example: gaussveil stream total bill --meters names.txt --epsilon 1 --delta 1e-5 < readings.jsonl > totals.jsonl
    """
    from gaussveil.logs import log_to_stderr
    from gaussveil.mechanisms import RunningTotal
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
        made = RunningTotal(
            steps=steps,
            epsilon=epsilon,
            delta=delta,
            limits=(0.0, limit),
            takes=takes,
            separation=separation,
            every=every,
            sample_period=sample_period,
            account=paying_account(ledger, account),
        )
        lines = meters.read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
        gateway = FleetGateway(folder, fleet=made, meters=names, name=name)
    transport.serve(gateway, broker)
