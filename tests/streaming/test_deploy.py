"""What is under deploy/ does what it says: the unit is hardened, the broker runs, compose and Dockerfile are sound."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
import tomllib
from pathlib import Path

import numpy as np
import pytest
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


def test_a_killed_broker_keeps_what_it_acknowledged_before(tmp_path: Path) -> None:
    """Readings wait for a gateway that is away; with the settings that we ship a kill loses the last moments alone."""
    port, settings = free_port(), (DEPLOY / "mosquitto.conf").read_text()
    kept = [line for line in settings.splitlines() if line.startswith(("persistence true", "autosave", "max_"))]
    assert "autosave_interval 1" in kept
    plain = [f"listener {port} 127.0.0.1", "user root", "allow_anonymous true", f"persistence_location {tmp_path}/"]
    broker = Mosquitto(port, tmp_path, "\n".join([*plain, *kept, ""]))
    broker.start()
    try:
        away = Client(CallbackAPIVersion.VERSION2, "gateway", clean_session=False)
        away.connect("127.0.0.1", port)
        away.loop_start()
        until = time.monotonic() + 60
        while not away.is_connected():
            assert time.monotonic() < until
            time.sleep(0.01)
        away.subscribe("meters/#", qos=1)
        time.sleep(0.5)
        away.disconnect()
        away.loop_stop()
        meter = Client(CallbackAPIVersion.VERSION2)
        meter.connect("127.0.0.1", port)
        meter.loop_start()
        for number in range(200):
            meter.publish("meters/white/power", str(number), qos=1).wait_for_publish(20)
        time.sleep(5)  # the broker looks at the clock now and then
        meter.disconnect()
        meter.loop_stop()
        assert broker.process is not None
        broker.process.kill()
        broker.process.wait(60)
        broker.start()
        got: list[int] = []
        back = Client(CallbackAPIVersion.VERSION2, "gateway", clean_session=False)
        back.on_message = lambda _client, _data, message: got.append(int(message.payload))
        back.connect("127.0.0.1", port)
        back.loop_start()
        until = time.monotonic() + 60
        while len(got) < 200 and time.monotonic() < until:
            time.sleep(0.05)
        back.disconnect()
        back.loop_stop()
        assert sorted(got) == list(range(200))
    finally:
        broker.stop()


def test_no_password_stands_on_a_command_line() -> None:
    text = "".join(
        (DEPLOY / name).read_text() for name in ("compose.yaml", "prepare-trial.sh", "gaussveil-gateway.service")
    )
    assert "-P " not in text.replace("printf -- '-u %s\\n-P %s\\n'", "")
    assert "mosquitto_passwd -b" not in text


def test_what_is_private_is_on_no_network_of_the_readers() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    assert not set(services["gateway"]["networks"]) & set(services["subscriber"]["networks"])
    assert {service["restart"] for service in services.values() if "restart" in service} == {"unless-stopped"}


def test_every_image_that_is_not_built_here_is_named_by_its_digest() -> None:
    """A tag moves on by itself; a digest does when somebody runs pin-images.sh, and one name has one digest."""
    froms = re.findall(r"^FROM (?:--\S+ )*(\S+)", (DEPLOY / "Dockerfile").read_text(), re.MULTILINE | re.IGNORECASE)
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"].values()
    built = {service["image"] for service in services if "build" in service}
    images = froms + [service["image"] for service in services if service["image"] not in built]
    assert len(images) == 4
    digests = [re.fullmatch(r"([a-z0-9./-]+:[A-Za-z0-9._-]+)@(sha256:[0-9a-f]{64})", image) for image in images]
    assert all(digests), images
    assert len({match and match[1] for match in digests}) == len({match and match[2] for match in digests}) == 2


def test_images_are_pinned_to_what_the_registry_gives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who asks the registry is another program here: there may be none."""
    for name in ("Dockerfile", "compose.yaml", "pin-images.sh"):
        shutil.copy(DEPLOY / name, tmp_path)
    docker = tmp_path / "docker"
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    before = yaml.safe_load((tmp_path / "compose.yaml").read_text())
    for sign in "ab":  # a second time, the digests move on
        docker.write_text(f"#!/bin/sh\nprintf sha256:; printf '{sign}%.0s' $(seq 64)\n", encoding="utf-8")
        docker.chmod(0o700)
        subprocess.run(["bash", str(tmp_path / "pin-images.sh")], check=True)
        pinned = "@sha256:" + 64 * sign
        froms = re.findall(r"^FROM (\S+)(?: AS build)?$", (tmp_path / "Dockerfile").read_text(), re.MULTILINE)
        assert froms == [f"python:3.13-slim-bookworm{pinned}"] * 2
        after = yaml.safe_load((tmp_path / "compose.yaml").read_text())
        for name, service in before["services"].items():
            image = service.pop("image")
            assert after["services"][name].pop("image") == image.partition("@")[0] + pinned * (image != "gaussveil")
        assert after == before
        before = yaml.safe_load((tmp_path / "compose.yaml").read_text())
    docker.write_text("#!/bin/sh\necho denied\n", encoding="utf-8")
    refused = subprocess.run(["bash", str(tmp_path / "pin-images.sh")], capture_output=True, text=True, check=False)
    assert refused.returncode == 1
    assert "gave no digest" in refused.stderr
    assert yaml.safe_load((tmp_path / "compose.yaml").read_text()) == before


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
    assert all(":" in service["image"] or service["image"] == "gaussveil" for service in compose["services"].values())


def test_the_dockerfile_is_sound() -> None:
    """What linters of Dockerfiles ask for, where there is no docker to build it."""
    text = (DEPLOY / "Dockerfile").read_text().replace("\\\n", " ")
    steps = [line.split(None, 1) for line in text.splitlines() if line.strip() and not line.startswith("#")]
    words = [step for step, _ in steps]
    assert set(words) <= {"FROM", "WORKDIR", "COPY", "RUN", "ENV", "USER", "VOLUME", "ENTRYPOINT", "CMD"}
    assert words.index("USER") < words.index("ENTRYPOINT")
    for step, rest in steps:
        if step == "FROM":
            assert ":" in rest.split()[0]
            assert "latest" not in rest
        if step == "WORKDIR":
            assert rest.startswith("/")
        if step == "USER":
            assert rest == "10001"
        if step in ("ENTRYPOINT", "CMD"):
            assert isinstance(json.loads(rest), list)
        if step == "COPY" and "--from" not in rest:
            assert all((DEPLOY.parent / name).exists() for name in rest.split()[:-1])
        if "pip install" in rest:
            assert "--no-cache-dir" in rest
            assert "--require-hashes" in rest or "--no-deps" in rest
        assert not any(word in rest.lower() for word in ("sudo", "curl", "wget", "password", "secret"))
    copied = {name for step, rest in steps if step == "COPY" for name in rest.split()[:-1]}
    build = tomllib.loads((DEPLOY.parent / "pyproject.toml").read_text())["tool"]["hatch"]["build"]
    assert {"hatch_build.py", *(name.split("/")[0] for name in build["targets"]["wheel"]["packages"])} <= copied


def test_what_the_image_installs_is_pinned_by_hash() -> None:
    """Every package of the extra, at the version that `make` installs, each with the sums of its files."""
    root = DEPLOY.parent
    blocks = re.split(r"\n(?=\S)", (DEPLOY / "requirements.txt").read_text().strip())
    found = dict(block.split(None, 1)[0].split("==") for block in blocks)
    assert all(re.fullmatch(r"\S+ \\\n(    --hash=sha256:[0-9a-f]{64}( \\)?\n?)+", block) for block in blocks)
    pinned = dict(line.split("==") for line in (root / "constraints.txt").read_text().splitlines() if "==" in line)
    assert {name: pinned.get(name) for name in found} == found
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    wanted = [*project["dependencies"], *optional["standard"], *optional["studio"]]
    assert {re.split(r"[<>=\[]", name)[0] for name in wanted} - {"gaussveil"} <= set(found)
