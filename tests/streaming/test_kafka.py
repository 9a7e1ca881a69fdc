"""The gateway behind Kafka's protocol, spoken with librdkafka's own mock brokers."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from gaussveil.errors import ParameterError
from gaussveil.streaming import Gateway, Meter, StreamState
from gaussveil.streaming.kafka import KafkaGateway
from gaussveil.streaming.messages import encode_batch

Meters = tuple[Meter, ...]


@pytest.fixture
def brokers() -> Iterator[dict[str, Any]]:
    """A cluster of one broker inside a client; others reach it over TCP."""
    cluster = Producer({"test.mock.num.brokers": 1, "log_level": 0})
    (broker,) = cluster.list_topics(timeout=30).brokers.values()
    yield {"bootstrap.servers": f"{broker.host}:{broker.port}", "log_level": 0}
    cluster.flush(1)


def send(brokers: dict[str, Any], *messages: tuple[bytes | None, bytes]) -> None:
    producer = Producer(brokers)
    for key, value in messages:
        producer.produce("meters", key=key, value=value)
    assert producer.flush(30) == 0


def until(service: KafkaGateway, count: int) -> None:
    done, deadline = 0, time.monotonic() + 60
    while done < count and time.monotonic() < deadline:
        done += service.serve_once()
    assert done == count


def received(brokers: dict[str, Any], count: int) -> list[tuple[bytes, bytes]]:
    consumer = Consumer({**brokers, "group.id": os.urandom(8).hex(), "auto.offset.reset": "earliest"})
    consumer.subscribe(["private"])
    found: list[tuple[bytes, bytes]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += [(m.key(), m.value()) for m in consumer.consume(100, 0.2) if m.error() is None]
    consumer.close()
    return found


def test_readings_go_in_and_private_ones_come_out_once_and_again_after_a_crash(
    brokers: dict[str, Any], meters: Meters, tmp_path: Path
) -> None:
    state = StreamState.open(tmp_path / "state", meters)
    gateway = Gateway(meters, state)
    json_reading = json.dumps({"seq": 0, "kw": 1.25}).encode()
    sent = [
        (b"white", json_reading),
        (b"billing", encode_batch(0, np.ones(24))),
        (b"stranger", json_reading),
        (None, json_reading),
        (b"\xff", json_reading),
        (b"white", b"no reading"),
    ]
    send(brokers, *sent)
    service = KafkaGateway(gateway, brokers)
    until(service, len(sent))
    service._consumer.close()
    first = received(brokers, 3)
    assert sorted(key for key, _ in first) == [b"billing", b"billing", b"white"]
    assert json.loads(dict(first)[b"white"])["seq"] == 0
    assert gateway.health()["accepted"] == 25
    assert gateway.health()["unknown"] == 2  # a missing key is the empty name
    assert gateway.health()["malformed"] == 2
    # as after kill -9, and with offsets that were never committed: a new group reads everything again
    os.close(state._lock)
    again = Gateway(meters, StreamState.open(tmp_path / "state", meters))
    service = KafkaGateway(again, brokers, group="another", target="private")
    until(service, len(sent))
    service.stop()
    service.serve()  # ends at once, and closes
    assert again.health()["accepted"] == 0
    assert again.health()["repeated"] == 25
    both = received(brokers, 6)
    assert sorted(both) == sorted([*first, *first])
    os.close(again.state._lock)


def test_options_that_would_break_the_rules_are_refused(meters: Meters, tmp_path: Path) -> None:
    state = StreamState.open(tmp_path / "state", meters)
    with pytest.raises(ParameterError, match=r"enable\.auto\.commit"):
        KafkaGateway(Gateway(meters, state), {"enable.auto.commit": True})
    os.close(state._lock)
