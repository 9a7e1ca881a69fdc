"""MQTT 3.1.1 as a gateway needs it: QoS 1 both ways, a lasting session, one thread, many packets per system call.

A general client spends most of a short message's time in its own bookkeeping. Here a packet is a slice of what has
arrived, and an answer is appended to what is sent next. What is too large is skipped while it arrives, never held.
Sections are those of the OASIS standard of 2014.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gaussveil.errors import ParameterError, SourceError
from gaussveil.streaming.mqtt_packets import (
    PUBLISH,
    Arrived,
    mqtt_text,
    packet_of,
    publication,
    remaining_length,
)

CONNACK = 0x20
PUBACK = 0x40
SUBACK = 0x90
PINGRESP = 0xD0
READ_BYTES = 1 << 18
LARGEST_PACKET = 1 << 18  # the topic may have 64 KiB, a batch 32 KiB
KEEP_ALIVE = 30
CONNECT_SECONDS = 10.0
REFUSALS = {
    1: "another version of the protocol",
    2: "the client name is not allowed",
    3: "the broker is not available",
    4: "bad user name or password",
    5: "not authorised",
}
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


@dataclass(frozen=True, kw_only=True)
class Broker:
    """Where to connect, and as whom. TLS is on with `tls`, an authority or a client certificate."""

    host: str = "localhost"
    port: int = 1883
    client: str = "gaussveil-gateway"
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    tls: bool = False
    certificate_authority: str | Path | None = None
    client_certificate: str | Path | None = None
    client_key: str | Path | None = None
    source: str = "meters"
    target: str = "private"
    others: Sequence[str] = ()  # more brokers of a cluster of Kafka, host:port
    options: Mapping[str, str] = field(
        default_factory=dict, repr=False
    )  # librdkafka's own; may hold passwords

    @property
    def address(self) -> str:
        """host:port."""
        if ":" in self.host:
            return f"[{self.host}]:{self.port}"
        return f"{self.host}:{self.port}"

    @property
    def encrypted(self) -> bool:
        """Whether the connection uses TLS."""
        return (
            self.tls
            or self.certificate_authority is not None
            or self.client_certificate is not None
        )

    def context(self) -> ssl.SSLContext:
        """The system's authorities unless one is named; host names are checked."""
        try:
            context = ssl.create_default_context(cafile=self.certificate_authority)
            if self.client_certificate is not None:
                context.load_cert_chain(self.client_certificate, self.client_key)
        except (OSError, ssl.SSLError) as error:
            raise ParameterError(
                f"the files of certificates cannot be used: {error}"
            ) from None
        return context


class MqttClient:
    """One connection at a time to a broker; the session outlives it."""

    def __init__(self, broker: Broker) -> None:
        self.broker = broker
        self.confirmed: Callable[[list[int]], None] = lambda _numbers: None
        self._context = broker.context() if broker.encrypted else None
        self._socket: Any = None
        self._arrived, self._unsent = bytearray(), bytearray()
        self._skip = 0
        self._number = 0
        self.answered_pings = 0
        self._in_flight: dict[
            int, bytes
        ] = {}  # publications by number, until the broker has taken them
        self._heard = self._spoke = 0.0

    @property
    def connected(self) -> bool:
        """Whether there is a connection."""
        return self._socket is not None

    @property
    def in_flight(self) -> int:
        """Publications that the broker has not taken yet."""
        return len(self._in_flight)

    def connect(self) -> bool:
        """Connect, and send again what the broker has not taken; whether it still knew the session."""
        connection = self._reached()
        try:
            present = self._greeted(connection)
        except BaseException:
            connection.close()
            raise
        connection.setblocking(False)
        self._socket = connection
        self._skip, self._heard, self.answered_pings = 0, time.monotonic(), 0
        self._unsent = bytearray(
            b"".join(
                bytes([packet[0] | 8]) + packet[1:]
                for packet in self._in_flight.values()
            )
        )
        return present

    def subscribe(self, topics: Mapping[str, int]) -> None:
        """Ask for topics at their QoS; a refusal is raised by `read`."""
        body = b"".join(
            mqtt_text(topic) + bytes([quality]) for topic, quality in topics.items()
        )
        self._unsent += packet_of(0x82, self._next_number().to_bytes(2, "big") + body)

    def publish(self, topic: bytes, payload: bytes, *, retain: bool = False) -> int:
        """Queue a publication at QoS 1; its number, which `confirmed` is called with, among others."""
        number = self._next_number()
        body = (
            len(topic).to_bytes(2, "big") + topic + number.to_bytes(2, "big") + payload
        )
        packet = packet_of(0x33 if retain else 0x32, body)
        self._in_flight[number] = packet
        self._unsent += packet
        return number

    def ping(self) -> None:
        """Ask the broker whether it is there; `answered_pings` counts the answers."""
        self._unsent += b"\xc0\x00"
        self._spoke = time.monotonic()

    def acknowledge(self, number: int) -> None:
        """Queue the confirmation of a publication that arrived."""
        self._unsent += b"\x40\x02" + number.to_bytes(2, "big")

    def read(self, seconds: float) -> list[Arrived]:
        """Wait for the broker, then take what has arrived; an OSError or SourceError where the connection ended."""
        connection = self._socket
        if not (isinstance(connection, ssl.SSLSocket) and connection.pending()):
            events = select.poll()
            events.register(
                connection.fileno(),
                select.POLLIN | (select.POLLOUT if self._unsent else 0),
            )
            if not events.poll(1000 * seconds):
                return []
        try:
            part = connection.recv(READ_BYTES)
        except NOT_NOW:
            return []
        if not part:
            raise SourceError("the broker closed the connection.")
        self._heard = time.monotonic()
        self._arrived += part
        return self._taken_apart()

    def write(self) -> None:
        """Send what the network takes, and keep the connection alive."""
        now = time.monotonic()
        if now - max(self._heard, self._spoke) > KEEP_ALIVE / 2:
            self.ping()
        if now - self._heard > 1.5 * KEEP_ALIVE:
            raise SourceError("the broker does not answer.")
        while self._unsent:
            try:
                sent = self._socket.send(self._unsent)
            except NOT_NOW:
                return
            del self._unsent[:sent]

    def close(self) -> None:
        """Say farewell as far as that is possible at once; what is in flight is sent again by the next `connect`."""
        if self._socket is not None:
            self._unsent += b"\xe0\x00"
            with contextlib.suppress(OSError, SourceError):
                self.write()
            self.drop()

    def drop(self) -> None:
        """Forget a connection that ended."""
        with contextlib.suppress(OSError):
            self._socket.close()
        self._socket = None
        self._arrived.clear()
        self._unsent.clear()

    def _reached(self) -> Any:
        host = self.broker.host
        port = self.broker.port
        where = f"the broker {host}:{port}"
        try:
            plain = socket.create_connection((host, port), CONNECT_SECONDS)
        except OSError as error:
            raise SourceError(f"{where} cannot be reached: {error}") from None
        plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if self._context is None:
            return plain
        try:
            return self._context.wrap_socket(plain, server_hostname=host)
        except ssl.SSLCertVerificationError as error:
            plain.close()
            raise SourceError(
                f"the certificate of {where} is refused: {error.verify_message}"
            ) from None
        except OSError as error:
            plain.close()
            raise SourceError(
                f"{where} does not speak TLS on this port: {error.args[-1]}"
            ) from None

    def _greeted(self, connection: Any) -> bool:
        """Section 3.1 and 3.2: CONNECT with a lasting session, CONNACK."""
        broker = self.broker
        where = f"the broker {broker.host}:{broker.port}"
        answer = self._first_answer(connection, _greeting(broker), where)
        if not answer:
            hint = "does the port expect TLS?"
            if broker.encrypted:
                hint = "does it ask for a client certificate?"
            raise SourceError(
                f"{where} closed the connection without an answer: {hint}"
            )
        if len(answer) < 4 or answer[:2] != bytes([CONNACK, 2]):
            hint = "" if broker.encrypted else " or the port expects TLS"
            raise SourceError(
                f"{where} does not answer as an MQTT broker: it is none{hint}."
            )
        if answer[3]:
            raise ParameterError(
                f"{where} refused the connection: {REFUSALS.get(answer[3], answer[3])}"
            )
        return bool(answer[2] & 1)

    def _first_answer(self, connection: Any, greeting: bytes, where: str) -> bytes:
        """Four bytes, or fewer where the connection was closed."""
        answer = b""
        try:
            connection.sendall(greeting)
            while len(answer) < 4:
                part = connection.recv(4 - len(answer))
                if not part:
                    break
                answer += part
        except TimeoutError:
            raise SourceError(
                f"{where} does not answer: it is no MQTT broker."
            ) from None
        except ssl.SSLError as error:
            raise SourceError(
                f"{where} ended TLS: {error.reason}; does it ask for a client certificate?"
            ) from None
        except OSError:
            pass  # closed, which is told by whoever asked
        return answer

    def _taken_apart(self) -> list[Arrived]:
        """Packets out of what has arrived; what is not whole stays."""
        data = self._arrived
        position = 0
        arrived = []
        confirmed: list[int] = []
        if self._skip:
            position = min(self._skip, len(data))
            self._skip -= position
        end = len(data)
        while position + 1 < end:
            kind = data[position]
            start = position + 2
            length = data[position + 1]
            if length & 0x80:
                size = remaining_length(data, position + 1)
                if size is None:
                    break
                start, length = size
            if start + length > end:
                if length > LARGEST_PACKET and self._names_itself(kind, end - start):
                    arrived.append(
                        publication(data, kind, start, start + length, held=False)
                    )
                    self._skip = start + length - end
                    position = end
                break
            stop = start + length
            if kind & 0xF0 == PUBLISH:
                arrived.append(
                    publication(data, kind, start, stop, held=length <= LARGEST_PACKET)
                )
            else:
                confirmed += self._control(kind, bytes(data[start:stop]))
            position = stop
        del data[:position]
        if confirmed:
            self.confirmed(confirmed)
        return arrived

    @staticmethod
    def _names_itself(kind: int, there: int) -> bool:
        """Whether enough of a packet is there that is too large to be held, so that its topic is among it."""
        if kind & 0xF0 != PUBLISH:
            raise SourceError("the broker sent a packet that is too large.")
        return there >= LARGEST_PACKET

    def _control(self, kind: int, body: bytes) -> list[int]:
        """Note what the broker says of this side's packets; the number of the one that it confirms, if it does."""
        if kind == PUBACK:
            number = int.from_bytes(body, "big")
            if self._in_flight.pop(number, None) is not None:
                return [number]
        elif kind == PINGRESP:
            self.answered_pings += 1
        elif kind == SUBACK and 0x80 in body[2:]:
            raise ParameterError(
                "the broker refused the subscription. Check what the user may read."
            )
        return []

    def _next_number(self) -> int:
        while True:
            self._number = self._number % 65535 + 1
            if self._number not in self._in_flight:
                return self._number


def _greeting(broker: Broker) -> bytes:
    """CONNECT with a lasting session."""
    flags = 0
    texts = [broker.client]
    for flag, text in ((0x80, broker.user), (0x40, broker.password)):
        if text is not None:
            flags |= flag
            texts.append(text)
    head = b"\x00\x04MQTT\x04" + bytes([flags]) + KEEP_ALIVE.to_bytes(2, "big")
    return packet_of(0x10, head + b"".join(map(mqtt_text, texts)))
