"""Kafka transport: readings from one topic, keyed by meter; private readings to another, keyed alike.

An offset is committed only after the brokers have taken the answers before it, so whatever a crash interrupts is read
again and answered identically. Two gateways in one group with two states would answer one reading with two noises when
a partition moves between them: each commits the identity of its state beside the offsets before it answers anything of
a partition, and ends where it finds another's. Of two members of a group the coordinator lets one commit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gaussveil.errors import (
    MissingDependencyError,
    ParameterError,
    SourceError,
    install,
)
from gaussveil.streaming.broker import PATIENCE, BrokerGateway
from gaussveil.streaming.messages import (
    LARGEST_PAYLOAD,
    decode,
    decode_line,
    encode_answer,
    is_batch,
)
from gaussveil.streaming.monitor import LOGGER
from gaussveil.streaming.mqtt_client import CONNECT_SECONDS, Broker
from gaussveil.streaming.readings import Message

try:
    import confluent_kafka
except ImportError as error:
    raise MissingDependencyError(
        f"Kafka needs confluent-kafka: {install('kafka')}"
    ) from error

GROUP = 4096
DELIVERY_SECONDS = 10.0
ALL_DOWN = confluent_kafka.KafkaError._ALL_BROKERS_DOWN
library: Any = confluent_kafka


class KafkaGateway(BrokerGateway):
    """A gateway on a cluster of Kafka; it goes on from its group's offsets."""

    _consumer: Any = None
    _assigned: list[Any]  # partitions that are ours since the last look
    _leased: set[int]  # partitions that carry the identity of our state
    _lost: Any  # why this connection cannot go on

    def _connect(self) -> None:
        self._identity = self.gateway.state.identity
        both = {**settings(self.broker), "error_cb": self._told, "logger": LOGGER}
        reading = {
            **both,
            "group.id": self.broker.client,
            "group.instance.id": self._identity,  # the same state comes back at once; another one is another member
            "session.timeout.ms": 10_000,
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
        writing = {
            **both,
            "on_delivery": self._told,
            "enable.idempotence": True,  # no answer twice or out of turn by a retry
            "delivery.report.only.error": True,
            "message.timeout.ms": int(1000 * DELIVERY_SECONDS),
            "queue.buffering.max.messages": 0,  # no limit: a group has one
            "partitioner": "murmur2_random",  # a key's partition as Kafka's own producers choose it
        }
        self._assigned, self._leased, self._lost = [], set(), None
        try:
            consumer = library.Consumer(reading)
            self._producer = library.Producer(writing)
        except (library.KafkaException, TypeError, ValueError) as error:
            raise ParameterError(f"Kafka's options cannot be used: {error}") from None
        try:
            parts, _ = (
                self._partitions(consumer, name)
                for name in (self.broker.source, self.broker.target)
            )
            self._check_lease(consumer.committed(parts, timeout=CONNECT_SECONDS))
        except library.KafkaException as error:
            raise SourceError(
                f"Kafka at {self.broker.address} cannot be reached: {error.args[0].str()}."
            ) from None
        consumer.subscribe(
            [self.broker.source],
            on_assign=self._assign,
            on_revoke=lambda *_: self._assign(None, []),
        )
        self._consumer = consumer

    def _partitions(self, consumer: Any, topic: str) -> list[Any]:
        listed = consumer.list_topics(topic, timeout=CONNECT_SECONDS).topics[topic]
        if listed.error is not None:
            raise SourceError(
                f"the topic {topic!r} cannot be used: {listed.error.str()}. Make it, or name another."
            )
        return [library.TopicPartition(topic, number) for number in listed.partitions]

    def _assign(self, _consumer: Any, parts: list[Any]) -> None:
        self._assigned, self._leased = parts, set()

    def _told(self, error: Any, answer: Any = None) -> None:
        """Of an answer that was not taken, and of what ends a connection."""
        if error is not None and (
            answer is not None or error.fatal() or error.code() == ALL_DOWN
        ):
            self._lost = error

    def _check_lease(self, committed: Sequence[Any]) -> Sequence[Any]:
        if not self._take_over and any(
            partition.metadata not in (None, "", self._identity)
            for partition in committed
        ):
            raise self._other_state()
        return committed

    def _take_lease(self) -> None:
        """Nothing of a partition is answered before our identity is beside its offset."""
        parts = self._assigned
        self._assigned = []
        offsets = {}
        for partition in self._check_lease(
            self._consumer.committed(parts, timeout=CONNECT_SECONDS)
        ):
            lowest, _ = self._consumer.get_watermark_offsets(
                partition, timeout=CONNECT_SECONDS
            )
            offsets[partition.partition] = max(partition.offset, lowest)
        self._commit(offsets)
        self._leased = set(offsets)
        self._take_over = False
        self._ready.set()

    def _commit(self, offsets: Mapping[int, int]) -> None:
        place = self.broker.source
        mark = self._identity
        marked = [
            library.TopicPartition(place, part, at, metadata=mark)
            for part, at in offsets.items()
        ]
        self._consumer.commit(offsets=marked, asynchronous=False)

    def _exchange(self) -> bool:
        try:
            first = self._consumer.poll(PATIENCE)
            if first is None:
                arrived = []
            else:
                arrived = [first, *self._consumer.consume(GROUP - 1, 0)]
            if self._assigned:
                self._take_lease()
            self._lost = next(
                (record.error() for record in arrived if record.error() is not None),
                self._lost,
            )
            readings = [
                record
                for record in arrived
                if record.error() is None and record.partition() in self._leased
            ]
            if readings and self._lost is None:
                self._answer(readings)
        except library.KafkaException as error:  # what was not committed is read again
            self._lost = error.args[0]
        if self._lost is not None:
            LOGGER.warning("Kafka is left and tried again: %s", self._lost.str())
            self._close()
        return self._lost is None

    def _message(self, key: bytes | None, value: bytes) -> Message | None:
        """What a record says; None of one that is refused."""
        if key is None:
            message = decode_line(value)
        else:
            message = decode(str(key, errors="replace"), value)
        if message is None:
            self.gateway.refuse("size" if len(value) > LARGEST_PAYLOAD else "payload")
        return message

    def _answer(self, arrived: Sequence[Any]) -> None:
        """Answer what has arrived, in one durable group; commit its offsets when the brokers have the answers."""
        known: list[tuple[bytes, Message]] = []
        offsets: dict[int, int] = {}
        for record in arrived:
            offsets[record.partition()] = record.offset() + 1
            key = record.key()
            value = record.value() or b""
            message = self._message(key, value)
            if message is not None:
                known.append((value, message))
        answers = self.gateway.answer([message for _, message in known])
        for (value, _), answer in zip(known, answers):
            for _, payload in encode_answer(answer, batch=is_batch(value)):
                self._producer.produce(self.broker.target, payload, key=answer.meter)
        self.backlog = len(self._producer)
        self.backlog = self._producer.flush(2 * DELIVERY_SECONDS)
        if self.backlog:
            raise library.KafkaException(
                library.KafkaError(library.KafkaError._TIMED_OUT)
            )
        if self._lost is None:
            for answer in answers:
                self.gateway.confirm(answer)
            self._commit(offsets)

    def _close(self) -> None:
        if self._consumer is not None:
            self._consumer.close()
        self._consumer = None
        self.backlog = 0


def settings(broker: Broker) -> dict[str, Any]:
    """Where to connect, and as whom, in librdkafka's words."""
    found = {
        "bootstrap.servers": ",".join((broker.address, *broker.others)),
        "security.protocol": ("SASL_" if broker.user else "")
        + ("SSL" if broker.encrypted else "PLAINTEXT"),
        "sasl.mechanism": broker.user and "PLAIN",
        "sasl.username": broker.user,
        "sasl.password": broker.password,
        "ssl.ca.location": broker.certificate_authority,
        "ssl.certificate.location": broker.client_certificate,
        "ssl.key.location": broker.client_key,
        **broker.options,
    }
    return {name: str(value) for name, value in found.items() if value is not None}
