"""What is under deploy/ does what it says: the unit is hardened, the broker runs, compose and Dockerfile are sound."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

import numpy as np
import yaml
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

from gaussveil.streaming import Gateway, Meter, StreamState
from gaussveil.streaming.messages import encode_batch
from gaussveil.streaming.mqtt import MqttGateway
from gaussveil.streaming.mqtt_client import Broker

from ..certificate_files import Authority
from .conftest import Mosquitto, free_port
from .test_mqtt import Receiver, reading

DEPLOY = Path(__file__).parents[2] / "deploy"


def test_the_unit_is_hardened() -> None:
    unit = str(DEPLOY / "gaussveil-gateway.service")
    subprocess.run(["systemd-analyze", "security", "--offline=true", "--threshold=30", unit], check=True)


def test_the_brokers_settings_keep_raw_readings_apart(meters: tuple[Meter, ...], tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ca")
    certificate, key = authority.signed("broker")
    users = {name: tmp_path / name for name in ("gateway", "analyst", "white")}
    passwords = tmp_path / "passwords"
    passwords.touch()
    for name in users:
        subprocess.run(["mosquitto_passwd", "-b", str(passwords), name, "secret"], check=True)
    port, text = free_port(), (DEPLOY / "mosquitto.conf").read_text()
    for place, here in (
        ("8883", str(port)),
        ("/mosquitto/certs/ca.pem", str(authority.file)),
        ("/mosquitto/certs/broker.pem", str(certificate)),
        ("/mosquitto/certs/broker.key", str(key)),
        ("/mosquitto/config/passwords", str(passwords)),
        ("/mosquitto/config/acl", str(DEPLOY / "mosquitto.acl")),
        ("/mosquitto/data/", f"{tmp_path}/"),
    ):
        assert place in text
        text = text.replace(place, here)
    broker = Mosquitto(port, tmp_path, f"user root\n{text}")
    broker.start()
    try:
        where = {"host": "127.0.0.1", "port": port, "user": "gateway", "password": "secret"}
        gateway = Gateway(meters, StreamState.open(tmp_path / "state", meters))
        service = MqttGateway(gateway, Broker(**where, certificate_authority=str(authority.file)))
        service.start()
        analyst = Receiver(port, "secret", authority.file, user="analyst")
        analyst.client.subscribe("meters/#", qos=1)
        meter = Client(CallbackAPIVersion.VERSION2)
        meter.username_pw_set("white", "secret")
        meter.tls_set(ca_certs=str(authority.file))
        meter.connect("127.0.0.1", port)
        meter.loop_start()
        meter.publish("meters/coloured/power", reading(0, 1.0), qos=1).wait_for_publish(20)  # not its own
        meter.publish("meters/white/power", bytes(70_000), qos=1)  # larger than any reading: it is shut out
        time.sleep(0.5)
        for first in (0, 4096):
            meter.publish("meters/white/power", encode_batch(first, np.ones(4096)), qos=1).wait_for_publish(20)
        got = analyst.receive(2)
        assert [topic for topic, _ in got] == ["private/white/power"] * 2
        assert gateway.health()["accepted"] == 8192
        assert analyst.seen.empty()
        meter.disconnect()
        meter.loop_stop()
        analyst.close()
        service.stop()
        gateway.state.close()
    finally:
        broker.stop()


def test_compose_and_dockerfile_are_sound() -> None:
    """Where there is no docker: every name that is used is declared, nobody is root, nothing is privileged."""
    compose = yaml.safe_load((DEPLOY / "compose.yaml").read_text())
    assert set(compose["services"]) == {"broker", "gateway", "subscriber", "studio"}
    for name, service in compose["services"].items():
        assert "privileged" not in service, name
        assert set(service.get("secrets", [])) <= set(compose["secrets"]), name
        for volume in service.get("volumes", []):
            source = volume.split(":")[0]
            assert source.startswith("./") or source in compose["volumes"], name
            if source.startswith("./mosquitto"):
                assert (DEPLOY / source).is_file()
    words = compose["services"]["gateway"]["command"]
    assert "--password-file" in words
    assert "--ca" in words
    steps = [line.split()[0] for line in (DEPLOY / "Dockerfile").read_text().splitlines() if line[:1].isupper()]
    assert set(steps) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert steps.index("USER") < steps.index("ENTRYPOINT")
    assert "USER 10001" in (DEPLOY / "Dockerfile").read_text()
    assert json.dumps(compose)
