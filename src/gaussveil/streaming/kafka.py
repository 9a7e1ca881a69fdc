"""Kafka transport: readings from one topic, keyed by meter; private readings to another, keyed alike.

An offset is committed only after the brokers have taken the answers before it, so whatever a crash interrupts is read
again and answered identically. A message without a key names its meter, as a line does.

Two gateways in one group with two states would answer one reading with two noises when a partition moves between them.
So each commits the identity of its state beside the offsets before it answers anything of a partition, and ends where
it finds another's: of two members of a group the coordinator lets one commit for a partition.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from gaussveil.errors import MissingDependencyError, ParameterError, SourceError
from gaussveil.streaming.broker import PATIENCE, BrokerGateway
from gaussveil.streaming.gateway import Gateway, Message
from gaussveil.streaming.messages import LARGEST_PAYLOAD, decode, decode_line, encode_answer, is_batch
from gaussveil.streaming.monitor import LOGGER
from gaussveil.streaming.mqtt_client import CONNECT_SECONDS, Broker

GROUP = 4096
DELIVERY_SECONDS = 30.0
HELD_KILOBYTES = 1 << 14  # of messages that were fetched and not read yet


@dataclass(frozen=True, kw_only=True)
class KafkaBroker(Broker):
    """Where to connect, as which group (`client`), from and to which topic (`source`, `target`)."""

    port: int = 9092
    others: Sequence[str] = ()  # more brokers of the cluster, host:port
    options: Mapping[str, str] = field(default_factory=dict, repr=False)  # librdkafka's own; may hold passwords

    def __post_init__(self) -> None:
        _library()  # before anything is begun

    def settings(self) -> dict[str, Any]:
        """The same in librdkafka's words."""
        words = {
            "ssl.ca.location": self.certificate_authority,
            "ssl.certificate.location": self.client_certificate,
            "ssl.key.location": self.client_key,
            "sasl.username": self.user,
            "sasl.password": self.password,
            "sasl.mechanism": None if self.user is None else "PLAIN",
        }
        protocol = ("SASL_" if self.user is not None else "") + ("SSL" if self.encrypted else "PLAINTEXT")
        return {
            "bootstrap.servers": ",".join((self.address, *self.others)),
            "security.protocol": protocol,
            **{name: value for name, value in words.items() if value is not None},
            **self.options,
        }


class KafkaGateway(BrokerGateway):
    """A gateway on a cluster of Kafka; it goes on from its group's offsets."""

    def __init__(self, gateway: Gateway, broker: KafkaBroker, *, take_over: bool = False) -> None:
        super().__init__(gateway, broker, take_over=take_over)
        self._library = _library()
        self._consumer: Any = None
        self._settings = broker.settings()
        self._identity = gateway.state.identity
        self._assigned: list[Any] = []  # partitions that are ours since the last look
        self._leased: set[int] = set()  # partitions that carry our identity
        self._lost: Any = None  # why this connection cannot go on
        self._group = 0

    @property
    def connected(self) -> bool:
        """Whether the cluster is there."""
        return self._consumer is not None

    @property
    def backlog(self) -> int:
        """Messages that were read and are not answered, and answers that the brokers have not taken."""
        return self._group + (0 if self._consumer is None else len(self._producer))

    def _connect(self) -> None:
        reading = {
            "group.id": self.broker.client,
            "group.instance.id": self._identity,  # the same state comes back at once; another one is another member
            "session.timeout.ms": 10_000,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "queued.max.messages.kbytes": HELD_KILOBYTES,
        }
        writing = {
            "enable.idempotence": True,  # no answer twice or out of turn by a retry
            "delivery.report.only.error": True,
            "message.timeout.ms": int(1000 * DELIVERY_SECONDS),
            "partitioner": "murmur2_random",  # a key's partition as Kafka's own producers choose it
        }
        self._assigned, self._leased, self._lost = [], set(), None
        both = {**self._settings, "error_cb": self._told, "logger": LOGGER}
        try:
            consumer = self._library.Consumer({**reading, **both})
            self._producer = self._library.Producer({**writing, **both, "on_delivery": self._undelivered})
        except (self._library.KafkaException, TypeError, ValueError) as error:
            raise ParameterError(f"Kafka's options cannot be used: {error}") from None
        try:
            parts, _ = (self._partitions(consumer, name) for name in (self.broker.source, self.broker.target))
            self._check_lease(consumer.committed(parts, timeout=CONNECT_SECONDS))
            consumer.subscribe([self.broker.source], on_assign=self._assign, on_revoke=self._revoke)
        except BaseException as error:
            consumer.close()
            if isinstance(error, self._library.KafkaException):
                raise SourceError(f"Kafka at {self.broker.address} cannot be reached: {error.args[0].str()}.") from None
            raise
        self._consumer = consumer
        self.connections, self._delay = self.connections + 1, 1.0

    def _partitions(self, consumer: Any, topic: str) -> list[Any]:
        found = consumer.list_topics(topic, timeout=CONNECT_SECONDS).topics[topic]
        if found.error is not None:
            raise SourceError(
                f"the topic {topic!r} cannot be used: {found.error.str()}. Make it first, or name another."
            )
        return [self._library.TopicPartition(topic, number) for number in found.partitions]

    def _assign(self, _consumer: Any, parts: list[Any]) -> None:
        self._assigned = parts

    def _revoke(self, _consumer: Any, _parts: list[Any]) -> None:
        self._assigned, self._leased = [], set()

    def _told(self, error: Any) -> None:
        if error.fatal() or error.code() == self._library.KafkaError._ALL_BROKERS_DOWN:
            self._lost = error

    def _undelivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._lost = error

    def _check_lease(self, committed: Sequence[Any]) -> None:
        if not self._take_over and any(one.metadata not in (None, "", self._identity) for one in committed):
            raise self._other_state()

    def _take_lease(self) -> None:
        """Nothing of a partition is answered before our identity is beside its offset."""
        parts, self._assigned = self._assigned, []
        committed = self._consumer.committed(parts, timeout=CONNECT_SECONDS)
        self._check_lease(committed)
        offsets = {
            one.partition: one.offset
            if one.offset >= 0
            else self._consumer.get_watermark_offsets(one, timeout=CONNECT_SECONDS)[0]
            for one in committed
        }
        self._commit(offsets)
        self._leased, self._take_over = set(offsets), False
        self._ready.set()

    def _commit(self, offsets: Mapping[int, int]) -> None:
        make = self._library.TopicPartition
        marked = [make(self.broker.source, part, at, metadata=self._identity) for part, at in offsets.items()]
        self._consumer.commit(offsets=marked, asynchronous=False)

    def _exchange(self) -> None:
        try:
            first = self._consumer.poll(PATIENCE)
            arrived = [] if first is None else [first, *self._consumer.consume(GROUP - 1, 0)]
            if self._assigned:
                self._take_lease()
            self._lost = next((one.error() for one in arrived if one.error() is not None), self._lost)
            readings = [one for one in arrived if one.error() is None and one.partition() in self._leased]
            if readings and self._lost is None:
                self._answer(readings)
        except self._library.KafkaException as error:  # what was not committed is read again
            self._lost = error.args[0]
        if self._lost is not None:
            LOGGER.warning("Kafka is left and tried again: %s", self._lost.str())
            self._close()

    def _answer(self, arrived: Sequence[Any]) -> None:
        """Answer what has arrived, in one durable group; commit its offsets when the brokers have the answers."""
        self._group = len(arrived)
        known: list[tuple[bytes, Message]] = []
        offsets: dict[int, int] = {}
        for one in arrived:
            offsets[one.partition()] = one.offset() + 1
            key, value = one.key(), one.value() or b""
            message = decode_line(value) if key is None else decode(str(key, errors="replace"), value)
            if message is None:
                self.gateway.refuse("size" if len(value) > LARGEST_PAYLOAD else "payload")
            else:
                known.append((value, message))
        answers = self.gateway.answer([message for _, message in known])
        for (value, _), answer in zip(known, answers):
            for _, payload in encode_answer(answer, batch=is_batch(value)):
                self._produce(answer.meter, payload)
        if self._taken():
            for answer in answers:
                self.gateway.confirm(answer)
            self._commit(offsets)
        self._group = 0

    def _produce(self, meter: str, payload: bytes) -> None:
        while self._lost is None:
            try:
                self._producer.produce(self.broker.target, payload, key=meter)
                return
            except BufferError:  # its queue is full
                self._producer.poll(PATIENCE)

    def _taken(self) -> bool:
        """Whether the brokers have all answers; otherwise why not is in `_lost`."""
        end = time.monotonic() + 2 * DELIVERY_SECONDS
        while self._lost is None and self._producer.flush(PATIENCE):
            if time.monotonic() > end:
                self._lost = self._library.KafkaError(self._library.KafkaError._TIMED_OUT)
        return self._lost is None

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
            self._consumer, self._group = None, 0


def _library() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingDependencyError("Kafka needs confluent-kafka: pip install 'gaussveil[kafka]'") from error
    return confluent_kafka
