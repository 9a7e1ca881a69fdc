"""TLS and passwords against a real Mosquitto, and what is said where they do not fit."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from gaussveil.cli.main import app
from gaussveil.errors import GaussveilError, ParameterError, SourceError
from gaussveil.streaming import Gateway, Meter, StreamState, write_meters
from gaussveil.streaming.messages import HEAD, encode_batch
from gaussveil.streaming.mqtt import MqttGateway
from gaussveil.streaming.mqtt_client import Broker

from ..certificate_files import Authority
from .conftest import Mosquitto
from .test_mqtt import Receiver, reading
from .test_stdio import command

Brokers = Callable[..., Mosquitto]


@pytest.fixture
def gateway(meters: tuple[Meter, ...], tmp_path: Path) -> Gateway:
    return Gateway(meters, StreamState.open(tmp_path / "state", meters))


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def encrypted(mosquitto: Brokers, authority: Authority, more: str = "") -> Mosquitto:
    certificate, key = authority.signed("broker")
    return mosquitto(f"allow_anonymous true\ncertfile {certificate}\nkeyfile {key}\ncafile {authority.file}\n{more}")


def test_tls_and_password(mosquitto: Brokers, gateway: Gateway, authority: Authority, tmp_path: Path) -> None:
    password_file = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(password_file), "gateway", "secret"], check=True)
    broker = encrypted(mosquitto, authority, f"allow_anonymous false\npassword_file {password_file}")
    where = {"host": "127.0.0.1", "port": broker.port, "user": "gateway"}
    known = Broker(**where, certificate_authority=str(authority.file), password="secret")
    service = MqttGateway(gateway, known)
    service.start()
    receiver = Receiver(broker.port, "secret", authority.file)
    sent = [encode_batch(first, np.linspace(0, 1, 200)) for first in range(0, 8000, 200)]  # more than a TLS record
    for payload in sent:
        receiver.client.publish("meters/white/power", payload, qos=1)
    got = receiver.receive(len(sent))
    assert [HEAD.unpack_from(payload)[1] for _, payload in got] == list(range(0, 8000, 200))
    assert all(len(payload) == len(sent[0]) for _, payload in got)
    receiver.close()
    service.stop()
    with pytest.raises(GaussveilError, match=r"bad user name or password|not authorised"):
        MqttGateway(gateway, Broker(**where, certificate_authority=str(authority.file), password="guess")).start()
    gateway.state.close()


def test_client_certificates(mosquitto: Brokers, gateway: Gateway, authority: Authority, tmp_path: Path) -> None:
    broker = encrypted(mosquitto, authority, "require_certificate true\nuse_identity_as_username true")
    certificate, key = authority.signed("gateway")
    known = {"host": "localhost", "port": broker.port, "certificate_authority": str(authority.file)}
    service = MqttGateway(gateway, Broker(**known, client_certificate=str(certificate), client_key=str(key)))
    service.start()
    service.stop()
    with pytest.raises(SourceError, match="client certificate"):
        MqttGateway(gateway, Broker(**known)).start()
    (tmp_path / "other").mkdir()
    stranger, its_key = Authority(tmp_path / "other").signed("gateway")
    with pytest.raises(SourceError, match="client certificate"):
        MqttGateway(gateway, Broker(**known, client_certificate=str(stranger), client_key=str(its_key))).start()
    with pytest.raises(ParameterError, match="cannot be used"):
        MqttGateway(gateway, Broker(**known, client_certificate=str(certificate), client_key=str(its_key)))
    gateway.state.close()


def test_the_systems_authorities(
    mosquitto: Brokers, authority: Authority, meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    """`--tls` alone: OpenSSL's own list, which SSL_CERT_FILE names."""
    broker = encrypted(mosquitto, authority)
    path = write_meters(meters, tmp_path / "meter.json")
    arguments = command("run", path, "--mqtt", f"localhost:{broker.port}", "--tls", "--metrics", "0")
    refused = subprocess.run(arguments, capture_output=True, env={**os.environ, "SSL_CERT_FILE": "/dev/null"})
    assert refused.returncode != 0
    assert b"certificate" in refused.stderr
    process = subprocess.Popen(
        arguments, stderr=subprocess.PIPE, env={**os.environ, "SSL_CERT_FILE": str(authority.file)}
    )
    assert process.stderr is not None
    assert b"listening" in process.stderr.readline()
    process.terminate()
    process.stderr.read()
    assert process.wait() == 0


def test_the_cause_is_told_at_once(mosquitto: Brokers, gateway: Gateway, authority: Authority, tmp_path: Path) -> None:
    plain, tls = mosquitto(), encrypted(mosquitto, authority)

    class Web(BaseHTTPRequestHandler):
        def log_message(self, *_: object) -> None:
            pass

    web = HTTPServer(("127.0.0.1", 0), Web)
    threading.Thread(target=web.serve_forever, daemon=True).start()
    (tmp_path / "other").mkdir()
    stranger = Authority(tmp_path / "other").file
    for port, options, said in (
        (tls.port, {}, "expect TLS"),
        (plain.port, {"certificate_authority": str(authority.file)}, "does not speak TLS"),
        (tls.port, {"certificate_authority": str(stranger)}, "certificate of the broker .* is refused"),
        (tls.port, {"tls": True}, "certificate of the broker .* is refused"),
        (web.server_address[1], {}, "no MQTT broker|is none"),
        (1, {}, "cannot be reached"),
    ):
        with pytest.raises(SourceError, match=said):
            MqttGateway(gateway, Broker(host="127.0.0.1", port=int(port), **options)).start()
    web.shutdown()
    web.server_close()
    gateway.state.close()


def test_passwords_are_not_sent_in_the_clear_nor_shown(
    mosquitto: Brokers, meters: tuple[Meter, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write_meters(meters, tmp_path / "meter.json")

    def told(*words: str) -> str:
        done = CliRunner().invoke(app, ["stream", "run", str(path), *words])
        assert isinstance(done.exception, (ParameterError, SystemExit))
        return str(done.exception) if isinstance(done.exception, ParameterError) else done.output

    monkeypatch.setenv("GAUSSVEIL_MQTT_PASSWORD", "pa55")
    assert "in the clear" in told("--mqtt", "broker.example:1883", "--user", "gateway")
    assert "No such option" in told("--mqtt", "broker.example:8883", "--user", "gateway", "--password", "pa55")
    assert "give both" in told("--mqtt", "broker.example:8883", "--key", "k.pem")
    assert "--mqtt" in told("--user", "gateway")
    monkeypatch.delenv("GAUSSVEIL_MQTT_PASSWORD")
    assert "must have a password" in told("--mqtt", "localhost:1883", "--user", "gateway")
    secret = tmp_path / "password"
    secret.write_text("pa55\n")
    secret.chmod(0o644)
    assert "owner only" in told("--mqtt", "localhost:1883", "--user", "gateway", "--password-file", str(secret))
    secret.chmod(0o600)
    passwords = tmp_path / "passwords"
    subprocess.run(["mosquitto_passwd", "-c", "-b", str(passwords), "gateway", "pa55"], check=True)
    broker = mosquitto(f"allow_anonymous false\npassword_file {passwords}")
    words = ("--mqtt", f"127.0.0.1:{broker.port}", "--user", "gateway", "--password-file", secret, "--metrics", "0")
    process = subprocess.Popen(command("run", path, *words), stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines = [process.stderr.readline(), process.stderr.readline()]
    assert b"in the clear" in lines[0]
    assert b"listening" in lines[1]
    assert b"pa55" not in Path(f"/proc/{process.pid}/cmdline").read_bytes()
    process.terminate()
    assert b"pa55" not in process.stderr.read()
    assert process.wait() == 0


def test_a_connection_that_is_cut_is_taken_up_again(mosquitto: Brokers, gateway: Gateway) -> None:
    """A relay between gateway and broker cuts the line in the middle of packets, ten times."""
    broker = mosquitto()
    with socket.create_server(("127.0.0.1", 0)) as server:
        cuts, lines = iter(range(10)), []

        def relay() -> None:
            while True:
                try:
                    inside, _ = server.accept()
                except OSError:
                    return
                outside = socket.create_connection(("127.0.0.1", broker.port))
                limit = 2000 if next(cuts, None) is not None else None
                lines.append(1)
                threading.Thread(target=carry, args=(inside, outside, None), daemon=True).start()
                threading.Thread(target=carry, args=(outside, inside, limit), daemon=True).start()

        def carry(source: socket.socket, target: socket.socket, limit: int | None) -> None:
            carried = 0
            try:
                while part := source.recv(301):
                    target.sendall(part)
                    carried += len(part)
                    if limit is not None and carried > limit:
                        break
            except OSError:
                pass
            for each in (source, target):
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

        threading.Thread(target=relay, daemon=True).start()
        service = MqttGateway(gateway, Broker(host="127.0.0.1", port=server.getsockname()[1]))
        service.start()
        receiver = Receiver(broker.port)
        for k in range(400):
            receiver.client.publish("meters/white/power", reading(k, 1.0), qos=1)
        seen: dict[bytes, int] = {}
        while len(seen) < 400:
            for _, payload in receiver.receive(1):
                seen[payload] = seen.get(payload, 0) + 1
        assert len({payload.split(b",")[0] for payload in seen}) == 400
        assert len(lines) == 11
        receiver.close()
        service.stop()
    assert gateway.health()["accepted"] == 400
    gateway.state.close()
