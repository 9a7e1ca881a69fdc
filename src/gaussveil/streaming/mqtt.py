"""MQTT transport: subscribes to meters/+/power, publishes private/<meter>/power and private/<meter>/energy, QoS 1.

A message is acknowledged only after the broker has taken its answer, so whatever a crash interrupts is delivered again
and answered identically. One thread reads whatever has arrived, answers it as one durable group, and writes.
"""

from __future__ import annotations

import contextlib
import ssl
import threading
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from gaussveil.errors import MissingDependencyError, ParameterError, SourceError
from gaussveil.streaming.gateway import Answer, Gateway, Message
from gaussveil.streaming.messages import decode, encode_batch, encode_energy, encode_readings, is_batch

GROUP = 512
MOST_OWED = 1 << 14  # answers in flight: the protocol has 65535 numbers for them
PATIENCE = 0.25  # seconds between looks at the clock and at `stop`, when nothing arrives
LONGEST_DELAY = 30.0


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Where to connect, and as whom."""

    host: str = "localhost"
    port: int = 1883
    client: str = "gaussveil-gateway"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    certificate_authority: str | None = None
    source: str = "meters"
    target: str = "private"


class MqttGateway:
    """A gateway on a broker; `start`, then `stop`. Reconnects by itself and resumes its session."""

    def __init__(self, gateway: Gateway, broker: Broker) -> None:
        try:
            from gaussveil.streaming.mqtt_client import BufferedClient
        except ImportError as error:
            raise MissingDependencyError("MQTT needs paho-mqtt. Install gaussveil[mqtt].") from error
        self.gateway, self.broker = gateway, broker
        self.failure: Exception | None = None
        self._connection, self._delay = 0, 1.0
        self._received: deque[_Received] = deque()
        self._outbox: deque[tuple[str, bytes, _Received]] = deque()
        self._owed: dict[int, _Received] = {}  # by number of a publication: the message it answers
        self._ready, self._stopping, self._stopped = (threading.Event() for _ in range(3))
        self._worker = threading.Thread(target=self._work, name="gaussveil gateway", daemon=True)
        self._client = BufferedClient(broker.client)
        if broker.user is not None:
            self._client.username_pw_set(broker.user, broker.password)
        if broker.certificate_authority is not None:
            self._client.tls_set(ca_certs=broker.certificate_authority, tls_version=ssl.PROTOCOL_TLS_CLIENT)
        self._client.on_connect = self._on_connect
        self._client.on_subscribe = self._on_subscribe
        self._client.on_message = self._on_message
        self._client.on_publish = lambda _client, _data, number, _reason, _properties: self._taken(number)

    def start(self, timeout: float = 30.0) -> None:
        """Connect, subscribe and begin to answer."""
        try:
            self._client.connect(self.broker.host, self.broker.port)
        except (OSError, ValueError) as error:
            raise SourceError(f"the broker {self.broker.host}:{self.broker.port} cannot be reached: {error}") from error
        self._worker.start()
        ready = self._ready.wait(timeout)
        if self.failure is not None or not ready:
            self.stop()
            raise self.failure or SourceError("the broker did not accept the subscription. Check user and topics.")

    def stop(self) -> None:
        """Answer what has arrived, then disconnect."""
        self._stopping.set()
        if self._worker.is_alive():
            self._worker.join()
        self._stopped.set()

    def finish(self) -> None:
        """Let `wait` return; safe in a signal handler."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> None:
        """Block until stopped or broken; raise what broke."""
        self._stopped.wait(seconds)
        if self.failure is not None:
            raise self.failure

    def _on_connect(self, client: Any, _data: Any, _flags: Any, reason: Any, _properties: Any) -> None:
        if not reason.is_failure:
            self._connection, self._delay = self._connection + 1, 1.0
            client.subscribe(f"{self.broker.source}/+/power", qos=1)
        elif not self._ready.is_set():  # later refusals pass: a broker that restarts is tried again
            self.failure = ParameterError(f"the broker refused the connection: {reason}")
            self._stopping.set()
            self._ready.set()

    def _on_subscribe(self, _client: Any, _data: Any, _number: int, reasons: Any, _properties: Any) -> None:
        if any(reason.is_failure for reason in reasons):
            self.failure = ParameterError(f"the broker refused the subscription to {self.broker.source}/+/power.")
            self._stopping.set()
        self._ready.set()

    def _on_message(self, _client: Any, _data: Any, message: Any) -> None:
        try:
            meter = message.topic.split("/")[-2]
        except UnicodeDecodeError:  # of no meter that we know
            meter = ""
        self._received.append(_Received(meter, message.payload, message.mid, message.qos, self._connection))

    def _work(self) -> None:
        """Everything happens in this thread: read, answer, write."""
        done = False
        try:
            while not self._stopping.is_set():
                if self._client.connected:
                    self._client.read(PATIENCE if self._outbox or not self._received else 0)
                    self._answer()
                    self._client.write()
                elif not self._stopping.wait(self._delay):
                    self._delay = min(2 * self._delay, LONGEST_DELAY)
                    self._reconnect()
            done = True
        except (OSError, SourceError) as error:  # the log cannot be written: nothing more may be answered
            self.failure = error
        finally:
            if not done and self.failure is None:
                self.failure = SourceError("the gateway's worker broke down; see its traceback. Nothing is answered.")
            with contextlib.suppress(OSError):
                self._client.disconnect()
                self._client.write()
            self._ready.set()
            self._stopped.set()

    def _reconnect(self) -> None:
        try:
            self._client.reconnect()
        except OSError:  # tried again after a longer delay
            return

    def _answer(self) -> None:
        """Answer what has arrived, in one durable group, and hand out as many answers as may be in flight."""
        if not self._outbox and self._received:
            group = [self._received.popleft() for _ in range(min(GROUP, len(self._received)))]
            known: list[tuple[_Received, Message]] = []
            for received in group:
                message = decode(received.meter, received.payload)
                if message is None:
                    self.gateway.counters["malformed"] += 1
                    self._acknowledge(received)
                else:
                    known.append((received, message))
            for (received, _), answer in zip(known, self.gateway.answer([message for _, message in known])):
                self._prepare(received, answer)
        while self._outbox and len(self._owed) < MOST_OWED:
            topic, payload, received = self._outbox.popleft()
            self._owed[self._client.publish(topic, payload, qos=1).mid] = received

    def _prepare(self, received: _Received, answer: Answer) -> None:
        topic = f"{self.broker.target}/{answer.meter}"
        for sequence, values in answer.runs:
            batch = is_batch(received.payload)
            for payload in (encode_batch(sequence, values),) if batch else encode_readings(sequence, values):
                self._outbox.append((f"{topic}/power", payload, received))
                received.unconfirmed += 1
        for energy in answer.energies:
            self._outbox.append((f"{topic}/energy", encode_energy(energy), received))
            received.unconfirmed += 1
        if not received.unconfirmed:
            self._acknowledge(received)

    def _taken(self, number: int) -> None:
        """The broker has one more answer; with the last one, the message may go."""
        received = self._owed.pop(number, None)
        if received is None:  # a second confirmation after a reconnection
            return
        received.unconfirmed -= 1
        if received.unconfirmed == 0:
            self._acknowledge(received)

    def _acknowledge(self, received: _Received) -> None:
        """On the connection that the message came by only: on a later one its number may be another message's."""
        if received.connection == self._connection:
            self._client.ack(received.number, received.qos)


@dataclass(slots=True)
class _Received:
    """A message, and how many of its answers the broker has not taken yet."""

    meter: str
    payload: bytes = field(repr=False)
    number: int
    qos: int
    connection: int
    unconfirmed: int = 0


def health_lines(gateway: Gateway, stopped: threading.Event, every: float, write: Any) -> None:
    """Write a metrics line at intervals until stopped."""
    began, before = time.monotonic(), 0
    while not stopped.wait(every):
        health = gateway.health()
        done = health["accepted"] + health["substituted"]
        write({**health, "seconds": round(time.monotonic() - began), "readings_per_second": (done - before) / every})
        before = done
