"""`gaussveil stream run`: serve private readings over lines, MQTT or Kafka."""

from __future__ import annotations

import gc
import os
import signal
import stat
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from gaussveil.cli.asked import with_options
from gaussveil.cli.options import MetersFile, MetricsSeconds
from gaussveil.errors import FormatError, ParameterError

if TYPE_CHECKING:
    from gaussveil.streaming.broker import BrokerGateway
    from gaussveil.streaming.mqtt_client import Broker

NEW_OBJECTS = 50_000  # between two looks for garbage
PASSWORDS = {"--mqtt": "GAUSSVEIL_MQTT_PASSWORD", "--kafka": "GAUSSVEIL_KAFKA_PASSWORD"}
REFUSED = {
    "malformed_payload": "that are no readings",
    "malformed_value": "without a number",
    "malformed_range": "beyond the stream's end",
    "malformed_jump": "too far ahead",
    "unknown": "of meters that are not in the file",
}
LOCAL = ("localhost", "127.0.0.1", "::1")


@dataclass(frozen=True)
class Transport:
    """Lines on stdin and stdout, or a broker; and how often the log tells of the work."""

    mqtt: Annotated[
        str | None,
        typer.Option(help="MQTT broker, host:port; without it, stdin and stdout."),
    ] = None
    kafka: Annotated[
        str | None,
        typer.Option(help="Or Kafka's brokers, host:port,...; needs the extra kafka."),
    ] = None
    topic: Annotated[
        str | None, typer.Option(help="Kafka topic of readings, keyed by meter.")
    ] = None
    private_topic: Annotated[
        str | None, typer.Option(help="Kafka topic of private readings.")
    ] = None
    options: Annotated[
        Path | None,
        typer.Option(help="JSON file of librdkafka's own options, for Kafka."),
    ] = None
    user: Annotated[
        str | None,
        typer.Option(
            help=f"Its password: from {' or '.join(PASSWORDS.values())}, a file, or a prompt."
        ),
    ] = None
    password_file: Annotated[
        Path | None, typer.Option(help="File with the password, for its owner only.")
    ] = None
    tls: Annotated[
        bool, typer.Option("--tls", help="TLS with the system's authorities.")
    ] = False
    ca: Annotated[
        Path | None, typer.Option(help="Certificate authority file; switches TLS on.")
    ] = None
    cert: Annotated[
        Path | None, typer.Option(help="Client certificate; switches TLS on.")
    ] = None
    key: Annotated[Path | None, typer.Option(help="Key of the client certificate.")] = (
        None
    )
    client: Annotated[
        str, typer.Option(help="MQTT client name, or Kafka group; keep it.")
    ] = "gaussveil-gateway"
    metrics: MetricsSeconds = 60.0

    def broker(self) -> Broker | None:
        """The broker that the options name, if any."""
        from gaussveil.streaming.monitor import LOGGER
        from gaussveil.streaming.mqtt_client import Broker

        self._check_options()
        if self.mqtt is None and self.kafka is None:
            return None
        if self.kafka is None:
            option = "--mqtt"
            named = [self.mqtt or ""]
            cluster = {}
        else:
            option = "--kafka"
            named = self.kafka.split(",")
            cluster = self._cluster(self.kafka)
        addresses = [_address(name, option) for name in named]
        host, port = addresses[0]
        made = Broker(
            host=host,
            port=port,
            client=self.client,
            user=self.user,
            password=_password(self.user, self.password_file, PASSWORDS[option]),
            tls=self.tls,
            certificate_authority=self.ca,
            client_certificate=self.cert,
            client_key=self.key,
            **cluster,
        )
        if self.user is not None and not made.encrypted:
            _check_local(addresses)
            LOGGER.warning("the password travels in the clear: there is no TLS")
        return made

    def _check_options(self) -> None:
        """Refuse options of a broker that is not named, and two brokers at once."""
        of_kafka = (self.topic, self.private_topic, self.options)
        if self.kafka is None and of_kafka != (None, None, None):
            raise ParameterError(
                "--topic, --private-topic and --options are for Kafka: name it with --kafka host:port"
            )
        if self.mqtt is None and self.kafka is None:
            self._check_no_broker()
            return
        if self.key is not None and self.cert is None:
            raise ParameterError("--key belongs to --cert: give both")
        if self.kafka is not None and self.mqtt is not None:
            raise ParameterError("--mqtt and --kafka name one broker: give one of them")

    def _check_no_broker(self) -> None:
        """Refuse options of a broker where none is named."""
        if self.tls or (self.user, self.ca, self.cert) != (None, None, None):
            raise ParameterError(
                "--user, --tls, --ca and --cert are for a broker: name it with --mqtt host:port"
            )

    def _cluster(self, brokers: str) -> dict[str, Any]:
        from gaussveil.cli.stream_spark import given_options

        if (
            self.topic is None
            or self.private_topic is None
            or self.topic == self.private_topic
        ):
            raise ParameterError(
                "--kafka must come with --topic and --private-topic, two names: readings and answers"
            )
        self._serving()  # its library is there, before anything is begun
        ends = {"source": self.topic, "target": self.private_topic}
        return {
            **ends,
            "others": brokers.split(",")[1:],
            "options": given_options([], self.options),
        }

    def _serving(self) -> type[BrokerGateway]:
        if self.kafka is not None:
            from gaussveil.streaming.kafka import KafkaGateway

            return KafkaGateway
        from gaussveil.streaming.mqtt import MqttGateway

        return MqttGateway

    def serve(
        self,
        gateway: Any,
        broker: Broker | None,
        listen: tuple[str, int] | None = None,
        **how: Any,
    ) -> None:
        """Answer until stdin ends or the process is stopped; `how` is what lines or the broker's gateway take."""
        from gaussveil.streaming.monitor import LOGGER, Monitor
        from gaussveil.streaming.stdio import serve_lines

        taking = {"take_over": how.get("take_over", False)}
        if broker is None:
            service = None
        else:
            service = self._serving()(gateway, broker, **taking)
        monitor = Monitor(gateway, service)
        if listen is not None:
            port = monitor.serve(*listen)
            LOGGER.info(
                "metrics served", extra={"facts": {"address": f"{listen[0]}:{port}"}}
            )
        if self.metrics > 0:
            monitor.log_every(self.metrics)
        try:
            if service is None:
                serve_lines(
                    gateway, sys.stdin.buffer, sys.stdout.buffer, keep=how.get("keep")
                )
            else:
                for number in (signal.SIGTERM, signal.SIGINT):
                    signal.signal(number, lambda *_: service.finish())
                service.start()
                LOGGER.info(
                    "listening", extra={"facts": {"broker": service.broker.address}}
                )
                service.wait()
                service.stop()
        finally:
            monitor.stop()
        gateway.state.close()


@dataclass(frozen=True)
class FleetTransport(Transport):
    """The same under a name of its own."""

    client: Annotated[
        str, typer.Option(help="MQTT client name, or Kafka group; keep it.")
    ] = "gaussveil-fleet"


@with_options
def run(
    meters: MetersFile,
    transport: Transport,
    state: Annotated[
        Path | None,
        typer.Option(help="Folder of the durable state; beside METERS by default."),
    ] = None,
    reset_from: Annotated[
        list[str] | None,
        typer.Option(
            help="State lost: answer from this sequence number on; METER=N for one meter.",
            metavar="[METER=]N",
        ),
    ] = None,
    longest_jump: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="Refuse numbers that are ahead of the last one by more than this.",
        ),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(
            min=0, help="On stdin: answers kept per meter; all of them by default."
        ),
    ] = None,
    missing: Annotated[
        Literal["refuse", "substitute"],
        typer.Option(
            help="A reading that is no number: refuse it, or answer the design's substitute."
        ),
    ] = "refuse",
    listen: Annotated[
        str | None, typer.Option(help="host:port for /metrics and /healthz.")
    ] = None,
) -> None:
    """Serve private readings until stdin ends.

    Over MQTT or Kafka until the process is stopped. The log goes to stderr, one JSON per line.

    Example: gaussveil stream run meter.json < readings.jsonl > private.jsonl
    """
    from gaussveil.logs import log_to_stderr
    from gaussveil.streaming.monitor import LOGGER
    from gaussveil.streaming.service import open_gateway

    log_to_stderr()
    broker = transport.broker()
    if listen is None:
        address = None
    else:
        address = _address(listen, "--listen")
    begins = _begins(reset_from)
    gc.disable()  # what is made here stays: looking through it for garbage again and again costs a sixth of the time
    gateway = open_gateway(
        meters, state, reset_from=begins, longest_jump=longest_jump, missing=missing
    )
    gc.freeze()
    gc.enable()
    gc.set_threshold(NEW_OBJECTS)
    transport.serve(gateway, broker, address, take_over=begins is not None, keep=keep)
    health = gateway.health()
    if health["substituted"]:
        LOGGER.warning(
            "%d readings were missing and answered by the substitute",
            health["substituted"],
        )
    if broker is None and (refused := health["malformed"] + health["unknown"]):
        reasons = ", ".join(
            f"{count} {words}"
            for name, words in REFUSED.items()
            if (count := health[name])
        )
        raise FormatError(
            f"{refused} lines were refused ({reasons}); all others were answered"
        )


def _password(user: str | None, file: Path | None, variable: str) -> str | None:
    """Never from the command line, which everybody on the machine can read."""
    if user is None:
        if file is not None:
            raise ParameterError("--password-file belongs to --user: give both")
        return None
    if file is not None:
        if file.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO):
            raise ParameterError(
                f"--password-file must be readable by its owner only. Run chmod 600 {file}"
            )
        return file.read_text(encoding="utf-8").rstrip("\n")
    if variable in os.environ:
        return os.environ[variable]
    if sys.stdin.isatty():
        return str(typer.prompt(f"password of {user}", hide_input=True, err=True))
    raise ParameterError(
        f"--user must have a password in {variable} or --password-file"
    )


def _check_local(addresses: Sequence[tuple[str, int]]) -> None:
    """Refuse to send a password in the clear to a broker that is on another machine."""
    if not {address for address, _ in addresses} <= {*LOCAL}:
        raise ParameterError(
            "--user must come with TLS, since the password would travel in the clear to "
            f"{addresses[0][0]}: add --tls or --ca"
        )


def _address(text: str, option: str) -> tuple[str, int]:
    host, _, port = text.rpartition(":")
    if (
        not host
        or not port.isdecimal()
        or not 0 <= int(port) < 65536
        or "@" in host
        or "/" in host
    ):
        if option in PASSWORDS:
            secret = f"; a user belongs in --user, its password in {PASSWORDS[option]}"
        else:
            secret = ""
        raise ParameterError(
            f"{option} must be host:port, as in localhost:1883{secret}"
        )
    return host.removeprefix("[").removesuffix("]"), int(port)


def _begins(texts: list[str] | None) -> int | dict[str, int] | None:
    """`N` for all meters, or `METER=N` for some."""
    if not texts:
        return None
    pairs = [text.rpartition("=") for text in texts]
    if any(not number.removeprefix("-").isdecimal() for _, _, number in pairs):
        raise ParameterError("--reset-from must be a sequence number N, or METER=N")
    if len(pairs) == 1 and not pairs[0][1]:
        return int(pairs[0][2])
    if not all(sign for _, sign, _ in pairs):
        raise ParameterError(
            "--reset-from must be one number for all meters, or METER=N for each"
        )
    return {meter: int(number) for meter, _, number in pairs}
