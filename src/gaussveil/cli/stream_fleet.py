"""`gaussveil stream fleet`: live private sums of many meters, over lines, MQTT or Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli.asked import with_options
from gaussveil.cli.options import PayingAccount, PayingLedger, paying_account
from gaussveil.cli.stream_run import FleetTransport
from gaussveil.errors import ParameterError


@with_options
def fleet(
    folder: Annotated[Path, typer.Argument(help="Folder of the durable state; made at the first start.")],
    transport: FleetTransport,
    meters: Annotated[Path | None, typer.Option(help="First start: file with one meter's name per line.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="First start: the promise.")] = None,
    delta: Annotated[float | None, typer.Option(help="First start: the promise.")] = None,
    sample_period: Annotated[str, typer.Option(help="First start: length of a period.")] = "15min",
    home: Annotated[str, typer.Option(help="First start: for how long one home is hidden.")] = "1d",
    limit: Annotated[float, typer.Option(help="First start: kW that a reading is clipped to.")] = 10.0,
    name: Annotated[str, typer.Option(help="First start: name of the fleet in answers and topics.")] = "fleet",
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
        raise ParameterError("--meters must come with --epsilon and --delta: the promise of the first start")
    else:
        pays = paying_account(ledger, account)
        made = MeterFleet.design(
            sample_period=sample_period, epsilon=epsilon, delta=delta, home=home, limits=(0.0, limit), account=pays
        )
        lines = meters.read_text(encoding="utf-8").splitlines()
        names = [line.strip() for line in lines if line.strip()]
        gateway = FleetGateway(folder, fleet=made, meters=names, name=name)
    transport.serve(gateway, broker)
