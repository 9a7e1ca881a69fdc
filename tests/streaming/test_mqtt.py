"""End to end through a real Mosquitto."""

from __future__ import annotations

import json
import queue
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from gaussveil.errors import ParameterError, SourceError
from gaussveil.streaming import Gateway, Meter, StreamState, mqtt, write_meters
from gaussveil.streaming.messages import HEAD, encode_batch
from gaussveil.streaming.mqtt import MqttGateway
from gaussveil.streaming.mqtt_client import Broker

from .conftest import Mosquitto
from .test_state import no_file_may_grow
from .test_stdio import command

Brokers = Callable[..., Mosquitto]


class Receiver:
    """Somebody who may see private readings, and who can also send readings."""

    def __init__(
        self,
        port: int,
        password: str | None = None,
        authority: Path | None = None,
        user: str = "gateway",
        name: str | None = None,
    ) -> None:
        self.seen: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.client = Client(CallbackAPIVersion.VERSION2, client_id=name or "", clean_session=name is None)
        if password is not None and authority is not None:
            self.client.username_pw_set(user, password)
            self.client.tls_set(ca_certs=str(authority))
        self.client.on_message = lambda _c, _d, message: self.seen.put((message.topic, message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        subscribed: queue.Queue[int] = queue.Queue()
        self.client.on_subscribe = lambda *_: subscribed.put(1)
        self.client.subscribe("private/#", qos=1)
        subscribed.get(timeout=60)

    def send(self, meter: str, payload: bytes) -> None:
        self.client.publish(f"meters/{meter}/power", payload, qos=1).wait_for_publish(20)

    def receive(self, count: int) -> list[tuple[str, bytes]]:
        return [self.seen.get(timeout=60) for _ in range(count)]

    def close(self) -> None:
        self.client.disconnect()
        self.client.loop_stop()


def reading(sequence: int, value: object) -> bytes:
    return json.dumps({"seq": sequence, "kw": value}).encode()


@pytest.fixture
def gateway(meters: tuple[Meter, ...], tmp_path: Path) -> Gateway:
    return Gateway(meters, StreamState.open(tmp_path / "state", meters))


def test_single_and_batched_readings_unknown_meters_and_nonsense(mosquitto: Brokers, gateway: Gateway) -> None:
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    receiver = Receiver(broker.port)
    receiver.send("white", reading(0, 1.5))
    receiver.send("stranger", reading(0, 1.5))
    receiver.send("white", b"nonsense")
    receiver.send("billing", encode_batch(0, np.linspace(0, 1, 48)))
    got = receiver.receive(4)
    assert [topic for topic, _ in got] == ["private/white/power", "private/billing/power"] + [
        "private/billing/energy"
    ] * 2
    assert json.loads(got[0][1])["seq"] == 0
    assert HEAD.unpack_from(got[1][1])[1] == 0
    assert len(got[1][1]) == HEAD.size + 48 * 8
    assert json.loads(got[3][1])["register"] == "day"
    receiver.send("billing", encode_batch(0, np.linspace(0, 1, 48)))
    assert receiver.receive(3) == got[1:], "redelivered: the same bytes"
    receiver.close()
    service.stop()
    health = gateway.health()
    assert (health["unknown"], health["malformed"], health["accepted"], health["repeated"]) == (1, 1, 49, 48)
    gateway.state.close()


def test_killed_in_the_middle_of_a_flood_every_number_has_one_output(
    mosquitto: Brokers, meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    """kill -9 while readings pour in; what the broker redelivers is answered as before, nothing is lost or doubled."""
    broker = mosquitto()
    path = write_meters(meters, tmp_path / "meter.json")
    arguments = command("run", path, "--mqtt", f"127.0.0.1:{broker.port}", "--metrics", "0")

    def started() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        return process

    process = started()
    receiver = Receiver(broker.port)
    for sequence in range(150):
        receiver.client.publish("meters/coloured/power", reading(sequence, sequence / 3), qos=1)
    first = receiver.receive(10)
    process.send_signal(signal.SIGKILL)
    process.wait()
    for sequence in range(150, 300):
        receiver.client.publish("meters/coloured/power", reading(sequence, sequence / 3), qos=1)
    process = started()
    outputs: dict[int, bytes] = {}
    pending = list(first)
    while len(outputs) < 300:
        for topic, payload in pending or receiver.receive(1):
            assert topic == "private/coloured/power"
            assert outputs.setdefault(json.loads(payload)["seq"], payload) == payload
        pending = []
    assert sorted(outputs) == list(range(300))
    process.terminate()
    assert process.stderr is not None
    health = json.loads(process.stderr.read().splitlines()[-1])
    assert process.wait() == 0
    assert health["substituted"] == health["late"] == 0
    receiver.close()


def test_a_long_gap_is_answered_whole_with_few_answers_in_flight(
    mosquitto: Brokers, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message can have hundreds of answers; they wait their turn, and none of them shares a number."""
    monkeypatch.setattr(mqtt, "MOST_IN_FLIGHT", 7)
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    receiver = Receiver(broker.port)
    receiver.send("white", reading(0, 1.0))
    receiver.client.publish("meters/coloured/power", reading(0, 1.0), qos=0)  # has no number to acknowledge
    receiver.send("white", reading(201, 1.0))
    receiver.send("white", reading(202, 1.0))
    got = receiver.receive(204)
    numbers = [json.loads(payload)["seq"] for topic, payload in got if topic == "private/white/power"]
    assert numbers == list(range(203))
    assert [topic for topic, _ in got].count("private/coloured/power") == 1
    assert gateway.health()["restarts"] == 2
    receiver.close()
    service.stop()
    gateway.state.close()


def test_the_broker_may_go_away_for_a_while(mosquitto: Brokers, gateway: Gateway) -> None:
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    broker.stop()
    time.sleep(0.3)
    broker.start()
    receiver = Receiver(broker.port)
    sequence = 0
    while receiver.seen.empty() and sequence < 480:  # until the gateway has come back and subscribed again
        receiver.send("white", reading(sequence, 1.0))
        sequence += 1
        time.sleep(0.25)
    topic, payload = receiver.receive(1)[0]
    assert topic == "private/white/power"
    assert "kw" in json.loads(payload)
    receiver.close()
    service.stop()
    gateway.state.close()


def test_a_broker_that_breaks_off_in_a_flood_loses_and_doubles_nothing(mosquitto: Brokers, gateway: Gateway) -> None:
    """The broker forgets everything; the meter sends all of it again: what was answered is answered identically."""
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    outputs: dict[int, bytes] = {}

    def take(receiver: Receiver, count: int) -> None:
        for _, payload in receiver.receive(count):
            assert outputs.setdefault(json.loads(payload)["seq"], payload) == payload

    receiver = Receiver(broker.port)
    for sequence in range(200):
        receiver.client.publish("meters/coloured/power", reading(sequence, sequence / 7), qos=1)
    take(receiver, 20)
    broker.stop()
    receiver.close()
    broker.start()
    receiver = Receiver(broker.port)
    deadline = time.monotonic() + 60
    while len(outputs) < 200 and time.monotonic() < deadline:
        for sequence in range(200):
            receiver.client.publish("meters/coloured/power", reading(sequence, sequence / 7), qos=1)
        time.sleep(0.5)
        take(receiver, receiver.seen.qsize())
    assert sorted(outputs) == list(range(200))
    receiver.close()
    service.stop()
    health = gateway.health()
    assert health["accepted"] == 200
    assert health["late"] == health["substituted"] == 0
    gateway.state.close()


def test_a_refused_subscription_is_named(gateway: Gateway) -> None:
    """Mosquitto's lists never refuse a subscription, other brokers do: their bytes, from a socket."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\x20\x02\x00\x00")
                connection.recv(1000)
                connection.sendall(b"\x90\x04\x00\x01\x80\x00")
                connection.recv(1000)

        thread = threading.Thread(target=refuse)
        thread.start()
        with pytest.raises(ParameterError, match="refused the subscription"):
            MqttGateway(gateway, Broker(host="127.0.0.1", port=server.getsockname()[1])).start()
        thread.join()
    gateway.state.close()


@pytest.mark.parametrize(
    "packet",
    [
        b"\x30\x00",
        b"\x32\x01\x00",
        b"\x32\x03\xff\xffa",
        b"\x32\x04\x00\x02a/",
        b"\x32\xff\xff\xff\xff\x01",
        b"\x40\x80\x80\x80\x01",
    ],
)
def test_what_is_no_packet_ends_the_connection_and_not_the_gateway(gateway: Gateway, packet: bytes) -> None:
    """Bytes that no broker sends; the next connection is served."""
    accepted: queue.Queue[socket.socket] = queue.Queue()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def greet() -> None:
            for _ in range(2):
                connection, _ = server.accept()
                connection.recv(1000)
                connection.sendall(b"\x20\x02\x00\x00")
                connection.recv(1000)
                connection.sendall(b"\x90\x04\x00\x01\x01\x00\xd0\x00")
                accepted.put(connection)

        thread = threading.Thread(target=greet, daemon=True)
        thread.start()
        service = MqttGateway(gateway, Broker(host="127.0.0.1", port=server.getsockname()[1]))
        service.start()
        with accepted.get(timeout=60) as first:
            first.sendall(b"\x30\x03\x00\x01a" + packet)  # a topic without levels is of no meter
            first.settimeout(30)
            while first.recv(1000):
                pass
        with accepted.get(timeout=60):
            assert service.failure is None
        service.stop()
    gateway.state.close()


def test_two_states_under_one_client_name_are_refused(
    mosquitto: Brokers, meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    """Whoever comes second ends; after a reset it may take over, and then the first one ends."""
    broker = mosquitto()
    where = Broker(host="127.0.0.1", port=broker.port)
    first, second = (Gateway(meters, StreamState.open(tmp_path / name, meters)) for name in "ab")
    service = MqttGateway(first, where)
    service.start()
    service.stop()
    with pytest.raises(SourceError, match="another state"):
        MqttGateway(second, where).start()
    service = MqttGateway(first, where)
    service.start()
    other = MqttGateway(second, where, take_over=True)
    other.start()
    with pytest.raises(SourceError, match="another state"):
        service.wait(60)
    receiver = Receiver(broker.port)
    receiver.send("white", reading(0, 1.0))
    receiver.receive(1)
    assert first.health()["accepted"] == 0
    assert second.health()["accepted"] == 1
    receiver.close()
    other.stop()
    for each in (first, second):
        each.state.close()


def test_payloads_that_no_reading_has_are_refused_before_they_are_held(
    mosquitto: Brokers, meters: tuple[Meter, ...], tmp_path: Path, full: bool
) -> None:
    broker = mosquitto()
    path = write_meters(meters, tmp_path / "meter.json")
    arguments = command("run", path, "--mqtt", f"127.0.0.1:{broker.port}", "--metrics", "0")
    process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
    assert process.stderr is not None
    assert b"listening" in process.stderr.readline()

    def highest() -> int:
        text = Path(f"/proc/{process.pid}/status").read_text()
        return int(next(row for row in text.splitlines() if row.startswith("VmHWM")).split()[1])

    before = highest()
    receiver = Receiver(broker.port)
    receiver.send("white", bytes(250_000_000 if full else 60_000_000))
    receiver.send("white", b'{"seq": 0, "kw": ' + b" " * 300_000 + b"1}")
    receiver.send("white", reading(0, 1.0))
    receiver.receive(1)
    assert highest() - before < 20_000  # kB
    process.terminate()
    health = json.loads(process.stderr.read().splitlines()[-1])
    assert process.wait() == 0
    assert (health["malformed_size"], health["accepted"]) == (2, 1)
    receiver.close()


def test_many_batches_in_flight_at_a_kill_are_all_answered(
    mosquitto: Brokers, meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    """Longer than what is kept of delivered answers: whatever was logged and not delivered is given again."""
    broker = mosquitto()
    path = write_meters(meters, tmp_path / "meter.json")
    arguments = command("run", path, "--mqtt", f"127.0.0.1:{broker.port}", "--metrics", "0")
    receiver = Receiver(broker.port)
    length, count = 1000, 60
    seen: dict[int, bytes] = {}
    for attempt in range(4):
        process = subprocess.Popen(arguments, stderr=subprocess.PIPE)
        assert process.stderr is not None
        assert b"listening" in process.stderr.readline()
        if attempt == 0:
            for k in range(count):
                receiver.client.publish("meters/coloured/power", encode_batch(length * k, np.ones(length)), qos=1)
        while len(seen) < (attempt + 1) * count // 4:
            for _, payload in receiver.receive(1):
                assert seen.setdefault(HEAD.unpack_from(payload)[1], payload) == payload
        process.send_signal(signal.SIGKILL if attempt < 3 else signal.SIGTERM)
        told = process.stderr.read()
        process.wait()
    assert sorted(seen) == [length * k for k in range(count)]
    assert all(len(payload) == HEAD.size + 8 * length for payload in seen.values())
    assert json.loads(told.splitlines()[-1])["late"] == 0
    receiver.close()


def test_a_broker_that_is_not_there_is_named(gateway: Gateway) -> None:
    with pytest.raises(SourceError, match="cannot be reached"):
        MqttGateway(gateway, Broker(host="127.0.0.1", port=1)).start()
    gateway.state.close()


def test_when_the_log_cannot_be_written_the_service_stops(mosquitto: Brokers, gateway: Gateway) -> None:
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    receiver = Receiver(broker.port)
    with no_file_may_grow(10):
        receiver.send("white", reading(0, 1.0))
        with pytest.raises(OSError, match="too large"):
            service.wait(30)
    assert receiver.seen.empty()
    receiver.close()
    service.stop()
