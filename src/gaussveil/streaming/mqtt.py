"""MQTT transport: subscribes to meters/+/power, publishes private/<meter>/power and private/<meter>/energy, QoS 1.

A message is acknowledged only after the broker has taken its answer, so whatever a crash interrupts is delivered again
and answered identically. One thread reads whatever has arrived, answers it as one durable group, and writes. Two states
under one client name would answer one reading with two noises: each leaves its identity as a retained message on
gaussveil/<client>/lease, and ends where it finds another's.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from gaussveil.errors import SourceError
from gaussveil.streaming.broker import PATIENCE, BrokerGateway
from gaussveil.streaming.gateway import MessageGateway
from gaussveil.streaming.messages import decode, encode_answer, is_batch
from gaussveil.streaming.mqtt_client import Broker, MqttClient
from gaussveil.streaming.mqtt_packets import Arrived
from gaussveil.streaming.readings import Answer, Message

GROUP = 512
MOST_IN_FLIGHT = 1 << 14  # the protocol has 65535 numbers for them
MOST_NAMES = 1 << 17  # of topics that are remembered


@dataclass(slots=True, eq=False)
class _Received:
    """A message, and how many of its answers the broker has not taken yet."""

    meter: str
    payload: bytes | None = field(repr=False)
    number: int
    connection: int
    unconfirmed: int = 0
    answer: Answer | None = None


class MqttGateway(BrokerGateway):
    """A gateway on a broker of MQTT; it resumes its session."""

    def __init__(
        self, gateway: MessageGateway, broker: Broker, *, take_over: bool = False
    ) -> None:
        super().__init__(gateway, broker, take_over=take_over)
        self._received: deque[_Received] = deque()
        self._unfinished: deque[_Received] = (
            deque()
        )  # answered, in the order of arrival
        self._outbox: deque[tuple[bytes, bytes, _Received]] = deque()
        self._owed: dict[
            int, _Received
        ] = {}  # by number of a publication: the message it answers
        self._meters: dict[bytes, str] = {}
        self._lease = f"gaussveil/{broker.client}/lease".encode()
        self._identity = gateway.state.identity.encode()
        self._seen_lease: bytes | None = None
        self._may_answer = False
        self._client = MqttClient(broker)
        self._client.confirmed = self._taken

    def _connect(self) -> None:
        self._client.connect()
        self._seen_lease = None
        self._may_answer = False
        self._client.subscribe(
            {f"{self.broker.source}/+/power": 1, self._lease.decode(): 0}
        )
        self._client.ping()

    def _exchange(self) -> bool:
        """Read, answer and write once; a connection that ended is dropped."""
        try:
            arrived = self._client.read(
                PATIENCE if self._outbox or not self._received else 0
            )
        except (OSError, SourceError):
            self._client.drop()
            return False
        for item in arrived:
            self._take(item)
        if self._client.answered_pings and not self._may_answer:
            self._check_lease()
        if self._may_answer:
            self._answer()
        try:
            self._client.write()
        except (OSError, SourceError):
            self._client.drop()
        self.backlog = len(self._received) + len(self._outbox) + self._client.in_flight
        return self._client.connected

    def _take(self, item: Arrived) -> None:
        """Keep a reading that arrived for the next answer; look at the lease that came back."""
        if item.topic != self._lease:
            self._received.append(
                _Received(
                    self._meter(item.topic),
                    item.payload,
                    item.number,
                    self.connections,
                )
            )
            return
        self._seen_lease = item.payload
        if self._may_answer:
            self._check_lease()

    def _close(self) -> None:
        self._client.close()

    def _check_lease(self) -> None:
        """The broker has answered what came after the subscription: a retained lease would be here by now."""
        if self._seen_lease not in (None, b"", self._identity) and not self._take_over:
            raise self._other_state()
        if self._seen_lease != self._identity:
            self._client.publish(self._lease, self._identity, retain=True)
            self._seen_lease = self._identity
        self._take_over = False
        self._may_answer = True
        self._ready.set()

    def _meter(self, topic: bytes) -> str:
        name = self._meters.get(topic)
        if name is None:
            name = f"//{topic.decode(errors='replace')}".split("/")[
                -2
            ]  # of no meter that we know if it is no text
            if len(self._meters) < MOST_NAMES:
                self._meters[topic] = name
        return name

    def _answer(self) -> None:
        """Answer what has arrived, in one durable group, and hand out as many answers as may be in flight."""
        if not self._outbox and self._received:
            group = [
                self._received.popleft() for _ in range(min(GROUP, len(self._received)))
            ]
            readable: list[_Received] = []
            messages: list[Message] = []
            for received in group:
                message = self._message(received)
                if message is not None:
                    readable.append(received)
                    messages.append(message)
            for received, answer in zip(readable, self.gateway.answer(messages)):
                self._prepare(received, answer)
            self._unfinished.extend(group)
            self._finish_delivered()
        while self._outbox and self._client.in_flight < MOST_IN_FLIGHT:
            topic, payload, received = self._outbox.popleft()
            self._owed[self._client.publish(topic, payload)] = received

    def _message(self, received: _Received) -> Message | None:
        """What a payload says; None of one that is refused."""
        if received.payload is None:
            self.gateway.refuse("size")
            return None
        message = decode(received.meter, received.payload)
        if message is None:
            self.gateway.refuse("payload")
        return message

    def _prepare(self, received: _Received, answer: Answer) -> None:
        batch = received.payload is not None and is_batch(received.payload)
        for kind, payload in encode_answer(answer, batch=batch):
            self._outbox.append(
                (
                    f"{self.broker.target}/{answer.meter}/{kind}".encode(),
                    payload,
                    received,
                )
            )
            received.unconfirmed += 1
        received.answer = answer
        received.payload = None
        self.gateway.hand_over(answer)

    def _taken(self, numbers: list[int]) -> None:
        """The broker has these answers; with its last one, a message may go."""
        for number in numbers:
            received = self._owed.pop(number, None)
            if received is not None:
                received.unconfirmed -= 1
        self._finish_delivered()

    def _finish_delivered(self) -> None:
        """In the order of arrival; acknowledged on the connection that a message came by only."""
        while self._unfinished and not self._unfinished[0].unconfirmed:
            received = self._unfinished.popleft()
            if received.answer is not None:
                self.gateway.confirm(received.answer)
            if received.number and received.connection == self.connections:
                self._client.acknowledge(received.number)
