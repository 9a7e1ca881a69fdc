"""`gaussveil stream fleet`: live private sums of many meters, over lines or MQTT."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from gaussveil.cli.options import MetricsSeconds, PayingAccount, PayingLedger, paying_account
from gaussveil.cli.stream_run import broker_of, serve
from gaussveil.errors import ParameterError


def fleet(
    folder: Annotated[Path, typer.Argument(help="Folder of the durable state; made at the first start.")],
    meters: Annotated[Path | None, typer.Option(help="First start: file with one meter's name per line.")] = None,
    epsilon: Annotated[float | None, typer.Option(help="First start: the promise.")] = None,
    delta: Annotated[float | None, typer.Option(help="First start: the promise.")] = None,
    sample_period: Annotated[str, typer.Option(help="First start: length of a period.")] = "15min",
    home: Annotated[str, typer.Option(help="First start: for how long one home is hidden.")] = "1d",
    limit: Annotated[float, typer.Option(help="First start: kW that a reading is clipped to.")] = 10.0,
    name: Annotated[str, typer.Option(help="First start: name of the fleet in answers and topics.")] = "fleet",
    ledger: PayingLedger = None,
    account: PayingAccount = None,
    mqtt: Annotated[str | None, typer.Option(help="Broker host:port; without it, lines on stdin and stdout.")] = None,
    user: Annotated[str | None, typer.Option(help="MQTT user; the password as for `stream run`.")] = None,
    password_file: Annotated[Path | None, typer.Option(help="File with the password, for its owner only.")] = None,
    ca: Annotated[Path | None, typer.Option(help="Certificate authority file; switches TLS on.")] = None,
    client: Annotated[str, typer.Option(help="MQTT client name; keep it.")] = "gaussveil-fleet",
    metrics: MetricsSeconds = 60.0,
) -> None:
    """Serve one private sum of many meters per period.

    Example: gaussveil stream fleet feeder --meters names.txt --epsilon 1 --delta 1e-5 < readings.jsonl > sums.jsonl
    """
    from gaussveil.logs import log_to_stderr
    from gaussveil.mechanisms import MeterFleet
    from gaussveil.streaming.fleet import FleetGateway
    from gaussveil.streaming.monitor import Monitor
    from gaussveil.streaming.mqtt import MqttGateway
    from gaussveil.streaming.stdio import serve_lines

    log_to_stderr()
    if meters is None:
        gateway = FleetGateway(folder)
    elif epsilon is None or delta is None:
        raise ParameterError("--meters must come with --epsilon and --delta: the promise of the first start")
    else:
        pays = paying_account(ledger, account)
        made = MeterFleet.design(
            sample_period=sample_period, epsilon=epsilon, delta=delta, home=home, limits=(0.0, limit), account=pays
        )
        names = meters.read_text(encoding="utf-8").split()
        gateway = FleetGateway(folder, fleet=made, meters=names, name=name)
    service = None
    if mqtt is not None:
        broker = broker_of(mqtt, user, password_file, client, tls=False, ca=ca, cert=None, key=None)
        service = MqttGateway(gateway, broker)
    monitor = Monitor(gateway, service)
    if metrics > 0:
        monitor.log_every(metrics)
    try:
        if service is None:
            serve_lines(gateway, sys.stdin.buffer, sys.stdout.buffer)
        else:
            serve(service)
    finally:
        monitor.stop()
    gateway.state.close()
