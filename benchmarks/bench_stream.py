"""The meter stream: 10^4 meters against a loop over SciPy's lfilter; the gateway against the bare broker.

The second comparison goes through a real Mosquitto, loaded by mqtt_load.py; its note has the same load on the bare
broker. Those rows are wall time, so other load on the machine counts; the note also says what the CPU time of the
gateway would allow.
"""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.signal import lfilter

from gaussveil.mechanisms.meter_stream.stream import MeterStream
from gaussveil.noise import SecureGenerator
from gaussveil.noise.stream_filter import FilterBank
from gaussveil.streaming import Meter, StreamState, write_meters
from gaussveil.streaming.messages import encode_batch
from mqtt_load import LoadClient

METERS = 10_000
STEPS = 10
PEER_STEPS = 2
GATEWAY = "import sys; from gaussveil.cli.stream import stream_app; stream_app(sys.argv[1:])"


def row(name: str, ours: float, peer: float, ratio: float, goal: float, note: str = "") -> dict[str, Any]:
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": ratio >= goal, "note": note}


def designed() -> MeterStream:
    return MeterStream.design(
        sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), purpose="energy", sample_limit=10**6
    )


def own_filters(count: int) -> list[Any]:
    """A filter for each meter: its own pole, taps and level."""
    first = designed().design_.filter
    made = []
    for number in range(count):
        pole = first.pole * (1 - 1e-3 * (number % 997) / 997)
        level = 1 + (number % 64) / 64
        made.append(replace(first.scaled(level), pole=pole, direct=first.direct * level * (1 + number / count)))
    return made


def filters() -> list[dict[str, Any]]:
    generator, bank = SecureGenerator(), FilterBank(own_filters(METERS))
    bank.start(generator)
    readings = np.full((1, METERS), 10**9)
    bank.push(readings, generator)
    start = time.process_time()
    for _ in range(STEPS):
        bank.push(readings, generator)
    ours = STEPS * METERS / (time.process_time() - start)
    rng = np.random.default_rng(0)
    coefficients = [([d, t - p * d], [1.0, -p]) for d, t, p in zip(bank.direct, bank.taps[:, 0], bank.pole)]
    memory = [np.zeros(1) for _ in range(METERS)]
    start = time.process_time()
    for _ in range(PEER_STEPS):
        noise = rng.standard_normal((2, METERS))  # not even secure
        output = np.empty(METERS)
        for meter, (b, a) in enumerate(coefficients):
            part, memory[meter] = lfilter(b, a, noise[0, meter : meter + 1], zi=memory[meter])
            output[meter] = part[0] + noise[1, meter]
    peer = PEER_STEPS * METERS / (time.process_time() - start)
    title = f"stream: readings of {METERS} meters with own filters, secure noise, per CPU second"
    with tempfile.TemporaryDirectory() as folder:
        stream = designed()
        meters = [Meter(f"m{k}", stream.design_, stream.open()) for k in range(100)]
        state = StreamState.open(folder, meters)
        memory_used = state.bytes_per_meter
        state.close()
    return [
        row(f"{title}, against an lfilter loop", ours, peer, ours / peer, 20.0),
        row(f"{title}, against the promised 10^6", ours, 1e6, ours / 1e6, 1.0),
        row("stream: bytes of state per meter, against 16 KiB", memory_used, 16384, 16384 / memory_used, 1.0),
    ]


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def circumstances() -> str:
    """What else ran, since these rows are wall time."""
    usual = os.sched_getscheduler(0) == os.SCHED_OTHER
    return f"load average {os.getloadavg()[0]:.1f}, {'usual' if usual else 'real-time'} priority"


@contextmanager
def served(meters: int) -> Iterator[tuple[int, int]]:
    """A broker and a gateway on it, as processes that end with the block: the port, and the gateway's process id."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = int(probe.getsockname()[1])
        (folder / "conf").write_text(
            f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
            "max_inflight_messages 400\nmax_queued_messages 0\nset_tcp_nodelay true\n"
        )
        program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
        broker = running.enter_context(
            subprocess.Popen([program, "-c", str(folder / "conf")], stderr=subprocess.DEVNULL)
        )
        running.callback(broker.terminate)
        time.sleep(1)
        stream = designed()
        write_meters([Meter(f"m{k}", stream.design_, stream.open()) for k in range(meters)], folder / "meters.json")
        arguments = ["run", str(folder / "meters.json"), "--mqtt", f"127.0.0.1:{port}", "--metrics", "0"]
        gateway = running.enter_context(
            subprocess.Popen([sys.executable, "-c", GATEWAY, *arguments], stderr=subprocess.PIPE)
        )
        running.callback(gateway.terminate)
        assert gateway.stderr is not None
        gateway.stderr.readline()
        yield port, gateway.pid


def end_to_end(meters: int = 100, singles: int = 20_000, batches: int = 1500, batch: int = 96) -> list[dict[str, Any]]:
    """Rows of single and of batched readings."""

    def single(where: str, start: int) -> list[tuple[str, bytes]]:
        return [
            (where.format(k % meters), json.dumps({"seq": start + k // meters, "kw": 1.5}).encode())
            for k in range(singles)
        ]

    def batched(where: str, start: int) -> list[tuple[str, bytes]]:
        values = np.ones(batch)
        return [(where.format(k % meters), encode_batch(start + batch * (k // meters), values)) for k in range(batches)]

    rows, used = [], 0
    kinds = (
        ("single JSON readings", single, 1, 5000),
        ("readings in batches of 96", batched, batch, 2e5),
    )
    with served(meters) as (port, gateway):
        for title, make, per, goal in kinds:
            bare = LoadClient(port, "bare/#")
            peer_messages = make("bare/m{}/power", 0)
            peer = per * len(peer_messages) / bare.seconds(peer_messages)
            bare.close()
            through = LoadClient(port, "private/#")
            messages = make("meters/m{}/power", used)
            before = cpu_seconds(gateway)
            ours = per * len(messages) / through.seconds(messages)
            alone = per * len(messages) / max(cpu_seconds(gateway) - before, 0.01)
            through.close()
            used += math.ceil(len(messages) / meters) * per
            name = f"gateway: {title} a second through Mosquitto, QoS 1, durable"
            rows.append(
                row(
                    f"{name}, against the promised",
                    ours,
                    goal,
                    ours / goal,
                    1.0,
                    f"bare broker with the same load {peer:.3g}, ratio {ours / peer:.2f}; "
                    f"{alone:.3g} per CPU second of the gateway; {circumstances()}",
                )
            )
    return rows


def run() -> list[dict[str, Any]]:
    return [*filters(), *end_to_end()]


if __name__ == "__main__":
    for line in run():
        print(line)
