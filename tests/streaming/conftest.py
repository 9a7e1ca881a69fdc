"""Meters to serve, and a real Mosquitto on a free loopback port."""

from __future__ import annotations

import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gaussveil.mechanisms import MeterStream
from gaussveil.streaming import Meter


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def meters() -> tuple[Meter, ...]:
    """Three purposes; names as in topics."""
    return made_meters()


def made_meters(**options: Any) -> tuple[Meter, ...]:
    made = []
    for name, purpose in (("white", "shape"), ("coloured", "energy"), ("billing", "billing")):
        stream = MeterStream.design(
            sample_period="1h", epsilon=1.0, delta=1e-5, event=(0.5, "2h"), purpose=purpose, substitute=0.5, **options
        )
        made.append(Meter(name, stream.design_, stream.open()))
    return tuple(made)


@dataclass
class Mosquitto:
    """A broker process and how to reach it."""

    port: int
    folder: Path
    settings: str
    process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        file = self.folder / "mosquitto.conf"
        file.write_text(self.settings)
        self.process = subprocess.Popen(
            [program, "-c", str(file)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(1200):
            with socket.socket() as probe:
                if probe.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            if self.process.poll() is not None:
                raise RuntimeError(f"mosquitto ended with {self.process.returncode}: is the Debian package there?")
            time.sleep(0.05)
        raise RuntimeError("mosquitto does not answer")

    def stop(self) -> None:
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None


@pytest.fixture
def mosquitto(tmp_path: Path) -> Iterator[Callable[..., Mosquitto]]:
    """Start brokers with extra settings; they end with the test."""
    started = []

    def make(settings: str = "allow_anonymous true") -> Mosquitto:
        port = free_port()
        folder = tmp_path / f"broker-{port}"
        folder.mkdir()
        text = f"user root\nlistener {port} 127.0.0.1\npersistence false\nmax_inflight_messages 200\n{settings}\n"
        broker = Mosquitto(port, folder, text)
        broker.start()
        started.append(broker)
        return broker

    yield make
    for broker in started:
        broker.stop()
