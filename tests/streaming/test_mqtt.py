"""End to end through a real Mosquitto."""

from __future__ import annotations

import json
import os
import queue
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.reasoncodes import ReasonCode

from gaussveil.errors import GaussveilError, ParameterError, SourceError
from gaussveil.streaming import Gateway, Meter, StreamState, mqtt, write_meters
from gaussveil.streaming.messages import HEAD, encode_batch
from gaussveil.streaming.mqtt import Broker, MqttGateway
from gaussveil.streaming.mqtt_client import BufferedSocket

from .conftest import Mosquitto
from .test_stdio import command

Brokers = Callable[..., Mosquitto]


class Receiver:
    """Somebody who may see private readings, and who can also send readings."""

    def __init__(self, port: int, password: str | None = None, authority: Path | None = None) -> None:
        self.seen: queue.Queue[tuple[str, bytes]] = queue.Queue()
        self.client = Client(CallbackAPIVersion.VERSION2)
        if password is not None and authority is not None:
            self.client.username_pw_set("gateway", password)
            self.client.tls_set(ca_certs=str(authority))
        self.client.on_message = lambda _c, _d, message: self.seen.put((message.topic, message.payload))
        self.client.connect("127.0.0.1", port)
        self.client.loop_start()
        subscribed: queue.Queue[int] = queue.Queue()
        self.client.on_subscribe = lambda *_: subscribed.put(1)
        self.client.subscribe("private/#", qos=1)
        subscribed.get(timeout=20)

    def send(self, meter: str, payload: bytes) -> None:
        self.client.publish(f"meters/{meter}/power", payload, qos=1).wait_for_publish(20)

    def receive(self, count: int) -> list[tuple[str, bytes]]:
        return [self.seen.get(timeout=30) for _ in range(count)]

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
    assert isinstance(service._client.socket(), BufferedSocket), "paho no longer asks for our socket: slow"
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
    assert health["substituted"] == health["conflicts"] == health["late"] == 0
    receiver.close()


def test_a_long_gap_is_answered_whole_with_few_answers_in_flight(
    mosquitto: Brokers, gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One message can have hundreds of answers; they wait their turn, and none of them shares a number."""
    monkeypatch.setattr(mqtt, "MOST_OWED", 7)
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
    while receiver.seen.empty() and sequence < 60:  # until the gateway has come back and subscribed again
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
    assert health["conflicts"] == health["late"] == health["substituted"] == 0
    gateway.state.close()


def test_tls_and_password(mosquitto: Brokers, gateway: Gateway, tmp_path: Path) -> None:
    key, certificate = self_signed(tmp_path)
    password_file = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(password_file), "gateway", "secret"], check=True)
    broker = mosquitto(f"allow_anonymous false\npassword_file {password_file}\ncertfile {certificate}\nkeyfile {key}\n")
    known = {"host": "127.0.0.1", "port": broker.port, "user": "gateway", "certificate_authority": str(certificate)}
    service = MqttGateway(gateway, Broker(**known, password="secret"))
    service.start()
    receiver = Receiver(broker.port, "secret", certificate)
    sent = [encode_batch(first, np.linspace(0, 1, 200)) for first in range(0, 8000, 200)]  # more than a TLS record
    for payload in sent:
        receiver.client.publish("meters/white/power", payload, qos=1)
    got = receiver.receive(len(sent))
    assert [HEAD.unpack_from(payload)[1] for _, payload in got] == list(range(0, 8000, 200))
    assert all(len(payload) == len(sent[0]) for _, payload in got)
    receiver.close()
    service.stop()
    with pytest.raises(GaussveilError, match="refused"):
        MqttGateway(gateway, Broker(**known, password="guess")).start()
    gateway.state.close()


def test_a_refused_subscription_is_named(mosquitto: Brokers, gateway: Gateway) -> None:
    """Mosquitto's lists never refuse a subscription, other brokers do: their answer, after a real start."""
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    service._on_subscribe(None, None, 1, [ReasonCode(PacketTypes.SUBACK, identifier=0x80)], None)
    with pytest.raises(ParameterError, match="refused the subscription"):
        service.wait(30)
    service.stop()
    gateway.state.close()


def test_a_broker_that_is_not_there_is_named(gateway: Gateway) -> None:
    with pytest.raises(SourceError, match="cannot be reached"):
        MqttGateway(gateway, Broker(host="127.0.0.1", port=1)).start()
    gateway.state.close()


def self_signed(folder: Path) -> tuple[Path, Path]:
    import datetime
    import ipaddress

    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "127.0.0.1")])
    now = datetime.datetime.now(datetime.UTC)
    built: Any = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    plain = serialization.NoEncryption()
    pem = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain)
    (folder / "key.pem").write_bytes(pem)
    (folder / "cert.pem").write_bytes(built.public_bytes(serialization.Encoding.PEM))
    return folder / "key.pem", folder / "cert.pem"


def test_when_the_log_cannot_be_written_the_service_stops(mosquitto: Brokers, gateway: Gateway) -> None:
    broker = mosquitto()
    service = MqttGateway(gateway, Broker(host="127.0.0.1", port=broker.port))
    service.start()
    receiver = Receiver(broker.port)
    os.close(gateway.state._log)
    gateway.state._log = os.open("/dev/full", os.O_WRONLY)
    receiver.send("white", reading(0, 1.0))
    with pytest.raises(OSError, match="No space"):
        service.wait(30)
    assert receiver.seen.empty()
    receiver.close()
    service.stop()


def test_buffered_socket_keeps_every_byte_in_order() -> None:
    """Both ways, in pieces of any size, while the other side is slow and finally gone."""
    left, right = socket.socketpair()
    left.setblocking(False)
    left.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    buffered, sent, rng = BufferedSocket(left), b"", np.random.default_rng(1)
    right.sendall(bytes(range(256)))
    pieces = [buffered.recv(3)]
    while buffered.pending():
        pieces.append(buffered.recv(int(rng.integers(1, 9))))
    assert b"".join(pieces) == bytes(range(256))
    with pytest.raises(BlockingIOError):
        buffered.recv(1)
    for size in rng.integers(1, 3000, 200):
        part = rng.bytes(int(size))
        assert buffered.send(part) == len(part)
        sent += part
    got = b""
    assert not buffered.flush(), "the other side has not read yet"
    while len(got) < len(sent):
        got += right.recv(1000)
        buffered.flush()
    assert got == sent
    right.close()
    buffered.send(b"into the void")
    assert buffered.flush()
    assert buffered.recv(1) == b""
    buffered.close()
