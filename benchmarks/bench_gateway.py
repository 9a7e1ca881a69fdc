"""The gateway through a real Mosquitto on this machine, QoS 1 both ways, every answer on the disk before it leaves.

Rates and delays are wall time with broker, gateway and load on the same cores, so other load counts: on a busy machine
run it with `chrt --rr 5`. The notes say what a CPU second of the gateway does, and what the bare broker passes on. The
peer of the rates is paho-mqtt, the general client, as an echo that also acknowledges after delivery, with no mechanism
and no disk: by its own loop or driven by its socket, whichever is faster.
"""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from bench_stream import designed
from gaussveil.streaming import Meter, write_meters
from gaussveil.streaming.messages import encode_batch
from mqtt_load import LoadClient

METERS, FLEET, BATCH = 100, 10_000, 96
SINGLES, BATCHES = 40_000, 8000
MESSAGES = 10**6
RATE, SECONDS = 2000, 8
GATEWAY = "import sys; from gaussveil.cli.stream import stream_app; stream_app(sys.argv[1:])"
ECHO = """
import sys
from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

owed = {}
client = Client(CallbackAPIVersion.VERSION2, client_id="echo", manual_ack=True)
client.max_inflight_messages_set(400)

def on_message(_client, _data, message):
    sent = client.publish(message.topic.replace("meters", "private", 1), message.payload, qos=1)
    owed[sent.mid] = message.mid

client.on_message = on_message
client.on_publish = lambda _client, _data, mid, *_: client.ack(owed.pop(mid), 1)
client.on_subscribe = lambda *_: print("listening", file=sys.stderr, flush=True)
client.connect("127.0.0.1", int(sys.argv[1]))
client.subscribe("meters/+/power", 1)
"""
OWN_LOOP = "client.loop_forever()"
DRIVEN = """
import select
while True:
    readable, _, _ = select.select([client.socket()], [client.socket()] if client.want_write() else [], [], 1)
    if readable:
        client.loop_read(512)
    if client.want_write():
        client.loop_write()
    client.loop_misc()
"""


def row(name: str, ours: float, peer: float, goal: float, note: str, *, at_most: bool = False) -> dict[str, Any]:
    met = ours <= goal if at_most else ours >= goal
    return {
        "name": f"gateway: {name}",
        "ours": ours,
        "peer": peer,
        "ratio": ours / peer,
        "goal": goal,
        "met": met,
        "note": f"{note}; {circumstances()}",
    }


def circumstances() -> str:
    usual = os.sched_getscheduler(0) == os.SCHED_OTHER
    return f"load average {os.getloadavg()[0]:.1f}, {'usual' if usual else 'real-time'} priority"


def cpu_seconds(process: int) -> float:
    fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resident(process: int) -> float:
    lines = Path(f"/proc/{process}/status").read_text().splitlines()
    return int(next(line for line in lines if line.startswith("VmRSS")).split()[1]) / 1024


@contextmanager
def broker(folder: Path) -> Iterator[int]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = int(probe.getsockname()[1])
    (folder / "conf").write_text(
        f"user root\nlistener {port} 127.0.0.1\nallow_anonymous true\npersistence false\n"
        "max_inflight_messages 1000\nmax_queued_messages 0\nset_tcp_nodelay true\n"
    )
    program = shutil.which("mosquitto") or "/usr/sbin/mosquitto"
    with ended(subprocess.Popen([program, "-c", str(folder / "conf")], stderr=subprocess.DEVNULL)):
        time.sleep(1)
        yield port


@contextmanager
def ended(process: subprocess.Popen[bytes]) -> Iterator[subprocess.Popen[bytes]]:
    with process:
        yield process
        process.terminate()


@contextmanager
def served(meters: int) -> Iterator[tuple[int, int, float]]:
    """A broker and a gateway on it, as processes: the port, the gateway's process, and how long it took to listen."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        folder = Path(name)
        port = running.enter_context(broker(folder))
        stream = designed()
        write_meters([Meter(f"m{k}", stream.design_, stream.open()) for k in range(meters)], folder / "meters.json")
        arguments = ["run", str(folder / "meters.json"), "--mqtt", f"127.0.0.1:{port}", "--metrics", "0"]
        start = time.perf_counter()
        gateway = running.enter_context(
            ended(subprocess.Popen([sys.executable, "-c", GATEWAY, *arguments], stderr=subprocess.PIPE))
        )
        assert gateway.stderr is not None
        gateway.stderr.readline()
        yield port, gateway.pid, time.perf_counter() - start


def singles(count: int, meters: int, first: int = 0, where: str = "meters") -> list[tuple[str, bytes]]:
    return [
        (f"{where}/m{k % meters}/power", json.dumps({"seq": first + k // meters, "kw": 1.5}).encode())
        for k in range(count)
    ]


def batches(count: int, first: int = 0, where: str = "meters") -> list[tuple[str, bytes]]:
    values = np.ones(BATCH)
    return [(f"{where}/m{k % METERS}/power", encode_batch(first + BATCH * (k // METERS), values)) for k in range(count)]


def sent(port: int, messages: Sequence[tuple[str, bytes]], topic: str = "private/#") -> float:
    load = LoadClient(port, topic, window=1000)
    seconds = load.seconds(messages)
    load.close()
    return seconds


def echoed(loop: str) -> tuple[float, float]:
    """Messages a second through paho-mqtt alone, and by its CPU second."""
    with tempfile.TemporaryDirectory() as name, broker(Path(name)) as port:
        arguments = [sys.executable, "-c", ECHO + loop, str(port)]
        with ended(subprocess.Popen(arguments, stderr=subprocess.PIPE)) as echo:
            assert echo.stderr is not None
            echo.stderr.readline()
            messages = singles(SINGLES // 2, METERS)
            seconds = sent(port, messages)
            return len(messages) / seconds, len(messages) / cpu_seconds(echo.pid)


def rates() -> list[dict[str, Any]]:
    echo, echo_alone = max(echoed(OWN_LOOP), echoed(DRIVEN))
    rows, used = [], 0
    with served(METERS) as (port, gateway, _):
        for title, make, count, per, goal in (
            ("single JSON readings a second", lambda *a: singles(SINGLES, METERS, *a), SINGLES, 1, 15_000),
            (f"readings a second in batches of {BATCH}", lambda *a: batches(BATCHES, *a), BATCHES, BATCH, 10**6),
        ):
            bare = per * count / sent(port, make(0, "bare"), "bare/#")
            before = cpu_seconds(gateway)
            ours = per * count / sent(port, make(used))
            alone = per * count / (cpu_seconds(gateway) - before)
            used += per * count // METERS
            note = f"{alone:.3g} by CPU second of the gateway, paho-mqtt {per * echo_alone:.3g}; bare broker {bare:.3g}"
            rows.append(row(f"{title}, peer paho-mqtt as an echo", ours, per * echo, goal, note))
        rows.append(delays(port, used))
    return rows


def delays(port: int, first: int) -> dict[str, Any]:
    load = LoadClient(port, "private/#")
    found = np.sort(load.delays(singles(RATE * SECONDS, METERS, first), RATE))
    load.close()
    bare_load = LoadClient(port, "bare/#")
    bare = np.sort(bare_load.delays(singles(RATE * SECONDS, METERS, first, "bare"), RATE))
    bare_load.close()
    middle, late = (1e3 * float(found[int(part * found.size)]) for part in (0.5, 0.99))
    name = f"milliseconds that 99 % stay below at {RATE} readings a second, peer the bare broker"
    return row(name, late, 1e3 * float(bare[int(0.99 * bare.size)]), 5.0, f"median {middle:.2g} ms", at_most=True)


def fleet() -> list[dict[str, Any]]:
    with served(FLEET) as (port, gateway, start):
        begun = cpu_seconds(gateway)
        messages = singles(2 * FLEET, FLEET)
        seconds = sent(port, messages)
        alone = len(messages) / (cpu_seconds(gateway) - begun)
    note = f"{begun:.2g} CPU seconds; the peer is the time allowed"
    return [
        row(f"seconds to start with {FLEET} meters", start, 3.0, 3.0, note, at_most=True),
        row(
            f"single JSON readings a second of {FLEET} meters, peer the promised",
            len(messages) / seconds,
            15_000,
            15_000,
            f"{alone:.3g} by CPU second of the gateway; every filter starts within the run",
        ),
    ]


def memory() -> dict[str, Any]:
    """Resident memory after the second tenth of the messages, and at the end."""
    with served(METERS) as (port, gateway, _):
        used, parts = [], 10
        for part in range(parts):
            sent(port, singles(MESSAGES // parts, METERS, part * MESSAGES // parts // METERS))
            used.append(resident(gateway))
    note = f"MiB; {MESSAGES} messages; after each tenth {', '.join(f'{one:.0f}' for one in used)}"
    return row(
        "resident memory at the end over that after a fifth", used[-1], used[1], 1.1 * used[1], note, at_most=True
    )


def run() -> list[dict[str, Any]]:
    return [*rates(), *fleet(), memory()]


if __name__ == "__main__":
    for line in run():
        print(line)
