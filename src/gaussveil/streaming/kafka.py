"""Kafka transport of the gateway: a topic of readings in, a topic of private readings out, keys are meters.

Offsets are committed only after the brokers have taken every answer, so whatever a crash interrupts is delivered again
and answered identically from the gateway's durable state. Values have the gateway's form: JSON or a binary batch.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from typing import Any

from gaussveil.errors import MissingDependencyError, ParameterError, SourceError
from gaussveil.streaming.gateway import Answer, Gateway, Message
from gaussveil.streaming.messages import decode, encode_batch, encode_energy, encode_readings, is_batch

GROUP = 512
PATIENCE = 0.25  # seconds between looks at `stop` when nothing arrives
DELIVERY_SECONDS = 60.0
OURS = ("enable.auto.commit", "enable.auto.offset.store", "enable.idempotence", "group.id")


class KafkaGateway:
    """Serve a gateway from one Kafka topic to another; ``options`` are librdkafka's, for both sides."""

    def __init__(
        self,
        gateway: Gateway,
        options: Mapping[str, Any],
        *,
        source: str = "meters",
        target: str = "private",
        group: str = "gaussveil-gateway",
    ) -> None:
        try:
            from confluent_kafka import Consumer, Producer
        except ImportError as error:
            raise MissingDependencyError("Kafka needs confluent-kafka. Install gaussveil[kafka].") from error
        if taken := [name for name in OURS if name in options]:
            raise ParameterError(f"the options {', '.join(taken)} are the gateway's own: leave them out.")
        self.gateway, self.target = gateway, target
        self._failed: list[str] = []
        self._stop = threading.Event()
        self._producer = Producer({**options, "enable.idempotence": True})
        self._consumer = Consumer(
            {"auto.offset.reset": "earliest", **options, "group.id": group, "enable.auto.commit": False}
        )
        self._consumer.subscribe([source])

    def serve(self) -> None:
        """Answer until `stop` is called, from another thread or a signal."""
        try:
            while not self._stop.is_set():
                self.serve_once()
        finally:
            self._consumer.close()

    def serve_once(self) -> int:
        """Answer what has arrived, as one durable group, and commit it; say how many messages that were."""
        arrived = [message for message in self._consumer.consume(GROUP, PATIENCE) if self._usable(message)]
        if not arrived:
            return 0
        messages = [self._decoded(message) for message in arrived]
        known = [(m, batch) for m, batch in messages if m is not None]
        answers = self.gateway.answer([message for message, _ in known])
        for answer, (_, batch) in zip(answers, known):
            for value in _values(answer, batch):
                self._send(answer.meter, value)
        left = self._producer.flush(DELIVERY_SECONDS)
        if left or self._failed:
            raise SourceError(
                f"Kafka did not take {left + len(self._failed)} answers. Restart: they are given again identically."
            )
        self._consumer.commit(asynchronous=False)
        return len(arrived)

    def stop(self) -> None:
        """End `serve` after the group at hand."""
        self._stop.set()

    def _usable(self, message: Any) -> bool:
        error = message.error()
        if error is not None and error.fatal():
            raise SourceError(f"Kafka ended the session: {error.name()}.")
        return error is None

    def _decoded(self, message: Any) -> tuple[Message | None, bool]:
        value = message.value() or b""
        try:
            decoded = decode((message.key() or b"").decode(), value)
        except UnicodeDecodeError:
            decoded = None
        if decoded is None:
            self.gateway.counters["malformed"] += 1
        return decoded, is_batch(value)

    def _send(self, meter: str, value: bytes) -> None:
        while True:
            try:
                self._producer.produce(self.target, key=meter.encode(), value=value, on_delivery=self._delivered)
                return
            except BufferError:  # the queue is full: let it go out first
                self._producer.poll(PATIENCE)

    def _delivered(self, error: Any, _message: Any) -> None:
        if error is not None:
            self._failed.append(error.name())


def _values(answer: Answer, batch: bool) -> Iterator[bytes]:
    """Answers in the form of the message."""
    for sequence, values in answer.runs:
        if batch:
            yield encode_batch(sequence, values)
        else:
            yield from encode_readings(sequence, values)
    for energy in answer.energies:
        yield encode_energy(energy)
