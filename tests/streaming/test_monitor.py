"""Health and metrics as an operator asks for them, over HTTP from a running gateway."""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from gaussveil.streaming import Meter, write_meters

from .conftest import Mosquitto
from .test_mqtt import Receiver, reading
from .test_stdio import command


def asked(address: str, page: str) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(f"http://{address}{page}", timeout=60) as answer:
            return int(answer.status), answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_metrics_health_and_one_form_of_log(
    mosquitto: Callable[..., Mosquitto], meters: tuple[Meter, ...], tmp_path: Path
) -> None:
    broker = mosquitto()
    path = write_meters(meters, tmp_path / "meter.json")
    words = ("--mqtt", f"127.0.0.1:{broker.port}", "--metrics", "0.2", "--listen", "127.0.0.1:0")
    process = subprocess.Popen(command("run", path, *words), stderr=subprocess.PIPE)
    assert process.stderr is not None
    lines = [json.loads(process.stderr.readline())]
    address = lines[0]["address"]
    while lines[-1]["event"] != "listening":
        lines.append(json.loads(process.stderr.readline()))
    receiver = Receiver(broker.port)
    receiver.send("white", reading(0, 0.625))
    receiver.send("white", reading(80_000, 0.625))
    receiver.send("white", b"nonsense")
    receiver.send("white", reading(1, 0.625))
    receiver.receive(2)
    wanted = {
        "gaussveil_readings_accepted_total 2",
        'gaussveil_messages_malformed_total{reason="payload"} 1',
        'gaussveil_messages_malformed_total{reason="jump"} 1',
        "gaussveil_broker_connected 1",
        "gaussveil_backlog_messages 0",
        "gaussveil_readings_unconfirmed 0",
        "gaussveil_messages_delivered_total 2",
    }
    text, deadline = "", time.monotonic() + 60
    while not wanted <= set(text.splitlines()) and time.monotonic() < deadline:  # the broker confirms soon after
        status, text = asked(address, "/metrics")
        assert status == 200
    assert wanted <= set(text.splitlines())
    names = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert {"gaussveil_disk_free_bytes", "gaussveil_readings_left", "gaussveil_readings_late_total"} <= names
    assert asked(address, "/healthz") == (200, '{"status": "ok", "problems": []}\n')
    assert asked(address, "/")[0] == 404
    receiver.close()
    broker.stop()
    (status, text), deadline = asked(address, "/healthz"), time.monotonic() + 60
    while status == 200 and time.monotonic() < deadline:
        status, text = asked(address, "/healthz")
    assert status == 503
    assert "broker is not connected" in text
    process.terminate()
    rest = process.stderr.read().decode()
    assert process.wait() == 0
    lines += [json.loads(line) for line in rest.splitlines()]
    assert lines[-1]["event"] == "stopped"
    assert all({"time", "level", "source", "event"} <= line.keys() for line in lines)
    said = [{name: value for name, value in line.items() if name != "time"} for line in lines]
    assert "0.625" not in json.dumps(said)  # a time may hold these digits
