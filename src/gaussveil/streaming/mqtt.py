"""MQTT transport: subscribes to meters/+/power, publishes private/<meter>/power and private/<meter>/energy, QoS 1.

A message is acknowledged only after the broker has taken its answer, so whatever a crash interrupts is delivered again
and answered identically. The network thread fills a queue; one worker answers whatever is waiting as a group.
"""

from __future__ import annotations

import queue
import ssl
import threading
import time
from dataclasses import dataclass
from typing import Any

from gaussveil.errors import MissingDependencyError, ParameterError, SourceError
from gaussveil.streaming.gateway import Answer, Gateway, Message
from gaussveil.streaming.messages import decode, encode_batch, encode_energy, encode_readings, is_batch

GROUP = 512
IN_FLIGHT = 100  # a larger window was measured to be slower


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Where to connect, and as whom."""

    host: str = "localhost"
    port: int = 1883
    client: str = "gaussveil-gateway"
    user: str | None = None
    password: str | None = None
    certificate_authority: str | None = None
    source: str = "meters"
    target: str = "private"


class MqttGateway:
    """A gateway on a broker; `start`, then `stop`. Reconnects by itself and resumes its session."""

    def __init__(self, gateway: Gateway, broker: Broker) -> None:
        try:
            from paho.mqtt.client import Client
            from paho.mqtt.enums import CallbackAPIVersion
        except ImportError as error:
            raise MissingDependencyError("MQTT needs paho-mqtt. Install gaussveil[mqtt].") from error
        self.gateway, self.broker = gateway, broker
        self.failure: Exception | None = None
        self._waiting: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._ready = threading.Event()
        self._stopped = threading.Event()
        self._worker = threading.Thread(target=self._work, name="gaussveil gateway", daemon=True)
        # A lasting session: the broker keeps what arrives while the gateway is away.
        self._client = Client(
            CallbackAPIVersion.VERSION2, client_id=broker.client, clean_session=False, manual_ack=True
        )
        self._client.max_inflight_messages_set(IN_FLIGHT)
        self._client.max_queued_messages_set(0)
        self._client.reconnect_delay_set(min_delay=1, max_delay=30)
        if broker.user is not None:
            self._client.username_pw_set(broker.user, broker.password)
        if broker.certificate_authority is not None:
            self._client.tls_set(ca_certs=broker.certificate_authority, tls_version=ssl.PROTOCOL_TLS_CLIENT)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = lambda *_: self._ready.set()
        self._client.on_message = lambda _client, _data, message: self._waiting.put(message)
        self._client.on_publish = lambda _client, _data, number, _reason, _properties: self._waiting.put(number)
        self._owed: dict[int, _Debt] = {}  # by number of a publication: the message it answers

    def start(self, timeout: float = 30.0) -> None:
        """Connect, subscribe and begin to answer."""
        try:
            self._client.connect(self.broker.host, self.broker.port)
        except (OSError, ValueError) as error:
            raise SourceError(f"the broker {self.broker.host}:{self.broker.port} cannot be reached: {error}") from error
        self._worker.start()
        self._client.loop_start()
        if not self._ready.wait(timeout):
            self.stop()
            raise self.failure or SourceError("the broker did not accept the subscription. Check user and topics.")
        if self.failure is not None:
            self.stop()
            raise self.failure

    def stop(self) -> None:
        """Answer what is waiting, then disconnect."""
        self._stopped.set()
        self._waiting.put(None)
        if self._worker.is_alive():
            self._worker.join()
        self._client.disconnect()
        self._client.loop_stop()

    def finish(self) -> None:
        """Let `wait` return; safe in a signal handler."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> None:
        """Block until stopped or broken; raise what broke."""
        self._stopped.wait(seconds)
        if self.failure is not None:
            raise self.failure

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if reason.is_failure:
            self.failure = ParameterError(f"the broker refused the connection: {reason}")
            self._ready.set()
            return
        client.subscribe(f"{self.broker.source}/+/power", qos=1)

    def _work(self) -> None:
        running = True
        try:
            while running:
                group = [self._waiting.get()]
                while len(group) < GROUP and not self._waiting.empty():
                    group.append(self._waiting.get())
                running = None not in group
                self._answer([item for item in group if not isinstance(item, int | None)])
                for number in group:
                    if isinstance(number, int):
                        self._taken(number)
        except (OSError, SourceError) as error:  # the log cannot be written: nothing more may be answered
            self.failure = error
        finally:
            if running and self.failure is None:
                self.failure = SourceError("the gateway's worker broke down; see its traceback. Nothing is answered.")
            self._stopped.set()

    def _answer(self, group: list[Any]) -> None:
        decoded: list[tuple[Any, Message]] = []
        for received in group:
            found = decode(received.topic.split("/")[-2], received.payload)
            if found is None:
                self.gateway.counters["malformed"] += 1
                self._client.ack(received.mid, received.qos)
            else:
                decoded.append((received, found))
        for (received, _), answer in zip(decoded, self.gateway.answer([found for _, found in decoded])):
            self._publish(received, answer)

    def _publish(self, received: Any, answer: Answer) -> None:
        topic, batch = f"{self.broker.target}/{answer.meter}", is_batch(received.payload)
        payloads = [
            (f"{topic}/power", payload)
            for sequence, values in answer.runs
            for payload in ((encode_batch(sequence, values),) if batch else encode_readings(sequence, values))
        ]
        payloads += [(f"{topic}/energy", encode_energy(energy)) for energy in answer.energies]
        debt = _Debt(received, len(payloads))
        for where, payload in payloads:
            self._owed[self._client.publish(where, payload, qos=1).mid] = debt
        if not payloads:
            self._client.ack(received.mid, received.qos)

    def _taken(self, number: int) -> None:
        """The broker has one more answer; with the last one, the message may go."""
        debt = self._owed.pop(number, None)
        if debt is None:  # a second confirmation after a reconnection
            return
        debt.left -= 1
        if debt.left == 0:
            self._client.ack(debt.received.mid, debt.received.qos)


@dataclass
class _Debt:
    """A message and how many of its answers the broker has not taken yet."""

    received: Any
    left: int


def health_lines(gateway: Gateway, stopped: threading.Event, every: float, write: Any) -> None:
    """Write a metrics line at intervals until stopped."""
    began, before = time.monotonic(), 0
    while not stopped.wait(every):
        health = gateway.health()
        done = health["accepted"] + health["substituted"]
        write({**health, "seconds": round(time.monotonic() - began), "readings_per_second": (done - before) / every})
        before = done
