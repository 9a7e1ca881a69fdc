"""Over TCP to librdkafka's in-memory brokers, a process of their own: Kafka's protocol, not Apache Kafka."""

from __future__ import annotations

import io
import json
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from confluent_kafka import Consumer, Producer

from gaussveil.cli.stream import stream_app
from gaussveil.errors import GaussveilError, ParameterError, SourceError
from gaussveil.mechanisms import MeterFleet
from gaussveil.noise import SeededGenerator
from gaussveil.streaming import FleetGateway, Gateway, Meter, StreamState, kafka, write_meters
from gaussveil.streaming.kafka import KafkaGateway, settings
from gaussveil.streaming.messages import HEAD, encode_batch
from gaussveil.streaming.mqtt_client import Broker
from gaussveil.streaming.readings import Answer, Message
from gaussveil.streaming.stdio import serve_lines

from .test_mqtt import reading
from .test_stdio import command, line

pytestmark = pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")  # a worker that breaks
PATIENCE = 60.0


class Cluster:
    """The brokers, somebody who sends readings, and somebody who may see private ones."""

    def __init__(self, *topics: str) -> None:
        program = [sys.executable, str(Path(__file__).with_name("kafka_broker.py")), *topics]
        self.process = subprocess.Popen(
            program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.process.stdout is not None
        self.address = self.process.stdout.readline().strip()
        assert self.address, "the brokers did not start"
        where = {"bootstrap.servers": self.address, "log_level": 0}
        self.producer = Producer({**where, "linger.ms": 0})
        self.consumer = Consumer({**where, "group.id": "receiver", "auto.offset.reset": "earliest"})
        self.consumer.subscribe(["private"])

    def broker(self, **changes: Any) -> Broker:
        host, _, port = self.address.partition(":")
        quick = {"fetch.wait.max.ms": "10"}  # these brokers do not wake up who waits for data
        ends = {"source": "meters", "target": "private", **changes}
        return Broker(host=host, port=int(port), options=quick, **ends)

    def options(self) -> list[str]:
        return ["--kafka", self.address, "--topic", "meters", "--private-topic", "private", "--metrics", "0"]

    def send(self, meter: str | None, payload: bytes | None, topic: str = "meters") -> None:
        self.producer.produce(topic, payload, key=meter)
        assert self.producer.flush(PATIENCE) == 0

    def receive(self, count: int) -> list[tuple[str, bytes]]:
        found, end = [], time.monotonic() + PATIENCE
        while len(found) < count and time.monotonic() < end:
            message = self.consumer.poll(0.25)
            if message is not None and message.error() is None:
                found.append((str(message.key(), "utf-8"), message.value()))
        assert len(found) == count
        return found

    def turn(self, word: str) -> None:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(word, file=self.process.stdin, flush=True)
        assert self.process.stdout.readline().strip() == word

    def stop(self) -> None:
        self.consumer.close()
        with self.process:
            self.process.kill()


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    made = Cluster("meters:3", "private:1")
    yield made
    made.stop()


@pytest.fixture
def gateway(meters: tuple[Meter, ...], tmp_path: Path) -> Gateway:
    return Gateway(meters, StreamState.open(tmp_path / "state", meters))


def until(holds: Callable[[], bool]) -> None:
    end = time.monotonic() + PATIENCE
    while not holds() and time.monotonic() < end:
        time.sleep(0.05)
    assert holds()


def seeded_fleet(folder: Path) -> FleetGateway:
    made = MeterFleet.design(
        sample_period="1h", epsilon=5.0, delta=1e-5, home="1h", limits=(0.0, 1.0), generator=SeededGenerator(7)
    )
    return FleetGateway(folder, fleet=made, meters=("a", "b", "c"), name="feeder")


def test_a_fleets_sums_are_those_of_stdin_with_the_same_seed(cluster: Cluster, tmp_path: Path) -> None:
    readings = [(meter, period, 0.1 * period) for period in range(6) for meter in "abc"]
    lines, target = seeded_fleet(tmp_path / "lines"), io.BytesIO()
    with tempfile.TemporaryFile() as source:
        source.write(b"".join(line(*one) for one in readings))
        source.seek(0)
        serve_lines(lines, source, target)
    expected = [json.loads(one) for one in target.getvalue().splitlines()]
    service = KafkaGateway(seeded_fleet(tmp_path / "kafka"), cluster.broker(source="lines"))
    with pytest.raises(SourceError, match="'lines' cannot be used"):
        service.start()
    service = KafkaGateway(service.gateway, cluster.broker())
    service.start()
    for meter, period, value in readings:  # one after the other: partitions are read in no order of their own
        cluster.send(
            None if meter == "a" else meter, line(meter, period, value) if meter == "a" else reading(period, value)
        )
        counted = len(readings[: readings.index((meter, period, value)) + 1])
        until(lambda: taken(service) >= counted)  # noqa: B023
    got = cluster.receive(5)
    assert [{"meter": key, **json.loads(payload)} for key, payload in got] == expected
    assert len(expected) == 5
    service.stop()


def test_a_sum_that_the_brokers_did_not_take_is_sent_when_they_are_back(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kafka, "DELIVERY_SECONDS", 1.0)
    gateway, down = seeded_fleet(tmp_path / "fleet"), threading.Event()
    answered = gateway.answer

    def cut_off(messages: Sequence[Message]) -> list[Answer]:
        answers = answered(messages)
        if answers and answers[-1].runs and not down.is_set():
            cluster.turn("down")  # between the draw and the delivery
            down.set()
        return answers

    gateway.answer = cut_off  # type: ignore[method-assign]
    service = KafkaGateway(gateway, cluster.broker())
    service.start()
    for meter in "abc":
        cluster.send(meter, reading(0, 0.5))
    until(lambda: taken(service) == 3)
    cluster.producer.produce("meters", reading(1, 0.5), key="a")
    cluster.producer.flush(1.0)
    until(lambda: down.is_set() and not service.connected)
    cluster.turn("up")
    ((key, payload),) = cluster.receive(1)
    assert (key, json.loads(payload)) == ("feeder", {"seq": 0, "kw": gateway.fleet.outputs[0]})
    assert len(gateway.fleet.outputs) == 1
    until(lambda: gateway.health()["unconfirmed"] == 0)
    service.stop()


def taken(service: KafkaGateway) -> int:
    """Readings that the fleet has counted, in closed and open periods."""
    gateway = service.gateway
    assert isinstance(gateway, FleetGateway)
    return gateway.counters["accepted"] + sum(int(np.isfinite(table).sum()) for table in [*gateway._open.values()])


def test_single_and_batched_readings_unknown_meters_and_nonsense(cluster: Cluster, gateway: Gateway) -> None:
    service = KafkaGateway(gateway, cluster.broker())
    service.start()
    cluster.send("white", reading(0, 1.5))
    cluster.send("stranger", reading(0, 1.5))
    for nonsense in (b"nonsense", None, bytes(100_000), reading(1, "0,4")):
        cluster.send("white", nonsense)
    cluster.send("billing", encode_batch(0, np.linspace(0, 1, 48)))
    got = cluster.receive(4)
    private = {key: [payload for name, payload in got if name == key] for key in ("white", "billing")}
    assert json.loads(private["white"][0])["seq"] == 0
    assert HEAD.unpack_from(private["billing"][0])[1] == 0
    assert [json.loads(payload)["register"] for payload in private["billing"][1:]] == ["day", "day"]
    cluster.send("billing", encode_batch(0, np.zeros(48)))
    assert [payload for _, payload in cluster.receive(3)] == private["billing"], "sent again: the same bytes"
    until(lambda: gateway.health()["unknown"] == 1)
    service.stop()
    health = gateway.health()
    assert (health["malformed_payload"], health["malformed_size"], health["malformed_value"]) == (2, 1, 1)
    assert (health["accepted"], health["repeated"], health["unconfirmed"]) == (49, 48, 0)
    gateway.state.close()


def test_killed_in_the_middle_of_a_flood_every_number_has_one_output(
    cluster: Cluster, meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    """kill -9 while readings pour in: what was not committed is read again and answered as before."""
    arguments = command("run", write_meters(meters, tmp_path / "meter.json"), *cluster.options())
    outputs: dict[int, bytes] = {}

    def take(count: int) -> None:
        for key, payload in cluster.receive(count):
            assert key == "coloured"
            assert outputs.setdefault(json.loads(payload)["seq"], payload) == payload

    for attempt in range(2):
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        for sequence in range(1000 * attempt, 1000 * (attempt + 1)):
            cluster.producer.produce("meters", reading(sequence, sequence / 3), key="coloured")
        assert cluster.producer.flush(PATIENCE) == 0
        if attempt < 1:
            take(10)
            process.send_signal(signal.SIGKILL)
            process.wait()
            process.stderr.close()
    end = time.monotonic() + PATIENCE
    while len(outputs) < 2000 and time.monotonic() < end:
        take(1)
    assert sorted(outputs) == list(range(2000))
    process.terminate()
    assert process.stderr is not None
    health = json.loads(process.stderr.read().splitlines()[-1])
    assert process.wait() == 0
    assert health["substituted"] == health["late"] == 0


class Dying(KafkaGateway):
    """Ends after the answers were taken, before their offsets are committed."""

    def _commit(self, offsets: Mapping[int, int]) -> None:
        if self._leased:
            raise OSError("power failure")
        super()._commit(offsets)


def test_what_was_said_and_not_committed_is_said_again_to_the_byte(cluster: Cluster, gateway: Gateway) -> None:
    service = Dying(gateway, cluster.broker())
    service.start()
    cluster.send("coloured", reading(0, 0.5))
    first = cluster.receive(1)
    with pytest.raises(OSError, match="power"):
        service.wait(PATIENCE)
    again = KafkaGateway(gateway, cluster.broker())
    again.start()
    assert cluster.receive(1) == first
    until(lambda: gateway.health()["repeated"] == 1)
    again.stop()
    third = KafkaGateway(gateway, cluster.broker())
    third.start()
    cluster.send("coloured", reading(1, 0.5))
    assert json.loads(cluster.receive(1)[0][1])["seq"] == 1, "what was committed is not read again"
    third.stop()
    assert gateway.health()["accepted"] == 2
    gateway.state.close()


def test_two_states_in_one_group_are_refused(cluster: Cluster, meters: tuple[Meter, ...], tmp_path: Path) -> None:
    first, second = (Gateway(meters, StreamState.open(tmp_path / name, meters)) for name in "ab")
    service = KafkaGateway(first, cluster.broker())
    service.start()
    with pytest.raises(SourceError, match="another state"):
        KafkaGateway(second, cluster.broker()).start()
    service.stop()
    other = KafkaGateway(second, cluster.broker(), take_over=True)
    other.start()
    with pytest.raises(SourceError, match="another state"):
        KafkaGateway(first, cluster.broker()).start()
    cluster.send("white", reading(0, 1.0))
    cluster.receive(1)
    assert (first.health()["accepted"], second.health()["accepted"]) == (0, 1)
    other.stop()
    for each in (first, second):
        each.state.close()


def test_the_brokers_may_go_away_for_a_while(cluster: Cluster, gateway: Gateway) -> None:
    service = KafkaGateway(gateway, cluster.broker())
    service.start()
    cluster.send("white", reading(0, 1.0))
    cluster.receive(1)
    cluster.turn("down")
    until(lambda: not service.connected)
    cluster.turn("up")
    until(lambda: service.connected)
    cluster.send("white", reading(1, 1.0))
    assert json.loads(cluster.receive(1)[0][1])["seq"] == 1
    assert service.connections > 1
    service.stop()
    gateway.state.close()


def test_what_cannot_be_served_is_said_before_anything_is_begun(
    gateway: Gateway, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    where = {"host": "127.0.0.1", "source": "meters", "target": "private"}
    monkeypatch.setattr(kafka, "CONNECT_SECONDS", 1.0)
    with pytest.raises(SourceError, match="cannot be reached"):
        KafkaGateway(gateway, Broker(port=1, **where)).start()
    with pytest.raises(ParameterError, match="options cannot be used"):
        KafkaGateway(gateway, Broker(**where, options={"no.such.option": "1"})).start()
    gateway.state.close()
    folder = tmp_path / "fleet"

    def told(*options: str) -> str:
        with pytest.raises(GaussveilError) as caught:
            stream_app(["fleet", str(folder), *options], standalone_mode=False)
        assert not folder.exists()
        return str(caught.value)

    topics = ("--topic", "meters", "--private-topic", "private")
    assert "two names" in told("--kafka", "localhost:9092", "--topic", "meters")
    assert "two names" in told("--kafka", "localhost:9092", "--topic", "a", "--private-topic", "a")
    assert "give one of them" in told("--kafka", "localhost:9092", "--mqtt", "localhost:1883", *topics)
    assert "--kafka must be host:port" in told("--kafka", "localhost:9092,user:pa55@x", *topics)
    assert "are for Kafka" in told("--mqtt", "localhost:1883", *topics)
    monkeypatch.setitem(sys.modules, "confluent_kafka", None)
    monkeypatch.delitem(sys.modules, "gaussveil.streaming.kafka")
    assert told("--kafka", "localhost:9092", *topics).endswith("pip install '.[kafka]' in a checkout of gaussveil")


def test_tls_and_passwords_in_librdkafkas_words() -> None:
    plain = settings(Broker(host="::1", port=9092, others=["b:2"]))
    assert plain == {"bootstrap.servers": "[::1]:9092,b:2", "security.protocol": "PLAINTEXT"}
    given = Broker(
        port=9092, user="me", password="pa55", certificate_authority="ca.pem", options={"sasl.mechanism": "X"}
    )
    assert "pa55" not in repr(given)
    assert settings(given) == {
        "bootstrap.servers": "localhost:9092",
        "security.protocol": "SASL_SSL",
        "ssl.ca.location": "ca.pem",
        "sasl.username": "me",
        "sasl.password": "pa55",
        "sasl.mechanism": "X",
    }
