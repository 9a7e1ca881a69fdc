"""The gateway through Kafka's protocol, every answer on the disk before it leaves, offsets committed after delivery.

The brokers are the in-memory ones that librdkafka carries, as a process on this machine: they speak the protocol over
TCP but keep nothing on a disk, so what is measured is the gateway's end. They do not wake up who waits for data, hence
the short waits everywhere. The peer is confluent-kafka alone as an echo
in the same groups, without any mechanism or disk. Rates are wall time with brokers, gateway and load on the same cores;
the notes say what a CPU second of the gateway does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, Producer

from bench_gateway import BATCH, BATCHES, GATEWAY, METERS, SINGLES, batches, cpu_seconds, ended, row, singles
from bench_stream import designed
from gaussveil.streaming import Meter, write_meters

BROKER = Path(__file__).parent.parent / "tests" / "streaming" / "kafka_broker.py"
WAIT = {"fetch.wait.max.ms": "2"}
ECHO = """
import sys
from confluent_kafka import Consumer, Producer
where = {"bootstrap.servers": sys.argv[1]}
producer = Producer({**where, "enable.idempotence": True, "delivery.report.only.error": True})
own = {"group.id": "echo", "enable.auto.commit": False, "auto.offset.reset": "earliest", "fetch.wait.max.ms": 2}
consumer = Consumer({**where, **own})
consumer.subscribe(["meters"], on_assign=lambda *_: print("listening", file=sys.stderr, flush=True))
while True:
    first = consumer.poll(0.25)
    if first is not None:
        for one in [first, *consumer.consume(4095, 0)]:
            producer.produce("private", one.value(), key=one.key())
        producer.flush()
        consumer.commit(asynchronous=False)
"""


@contextmanager
def served(made: Callable[[str], list[str]]) -> Iterator[tuple[str, int]]:
    """Brokers and whoever answers on them, as processes: the address, and the process of the latter."""
    with ExitStack() as running:
        program = [sys.executable, str(BROKER), "meters:2", "private:1"]
        pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
        broker = running.enter_context(ended(subprocess.Popen(program, **pipes)))
        assert broker.stdout is not None
        address = broker.stdout.readline().decode().strip()
        answering = running.enter_context(ended(subprocess.Popen(made(address), stderr=subprocess.PIPE)))
        assert answering.stderr is not None
        while b"listening" not in answering.stderr.readline():
            pass
        yield address, answering.pid


class Load:
    """Sends messages, at most a window of them unanswered: the brokers keep the last 5 MB of a partition only."""

    def __init__(self, address: str, window: int = 2000) -> None:
        where = {"bootstrap.servers": address, "log_level": 0}
        self.window = window
        self.seen = Consumer({**where, **WAIT, "group.id": "load", "auto.offset.reset": "earliest"})
        self.sender = Producer({**where, "linger.ms": 1})
        assigned: list[int] = []
        self.seen.subscribe(["private"], on_assign=lambda *_: assigned.append(1))
        while not assigned:
            self.seen.poll(0.1)

    def seconds(self, messages: Sequence[tuple[str, bytes]], patience: float = 60.0) -> float:
        """Wall time from the first message sent to the last answer received."""
        start = heard = time.perf_counter()
        sent = received = 0
        while received < len(messages):
            room = min(len(messages), received + self.window)
            for topic, payload in messages[sent:room]:
                self.sender.produce("meters", payload, key=topic.split("/")[1])
            sent = room
            self.sender.poll(0)
            first = self.seen.poll(0.01)
            if first is not None:
                received += 1 + len(self.seen.consume(self.window, 0))
                heard = time.perf_counter()
            elif time.perf_counter() - heard > patience:
                raise RuntimeError(f"{received} of {len(messages)} answers came back")
        return time.perf_counter() - start


def run() -> list[dict[str, Any]]:
    kinds: tuple[tuple[str, Callable[..., list[tuple[str, bytes]]], int, int], ...] = (
        ("single JSON readings a second", lambda first: singles(SINGLES, METERS, first), 1, 15_000),
        (f"readings a second in batches of {BATCH}", lambda first: batches(BATCHES, first), BATCH, 10**6),
    )
    rows, used = [], 0
    with tempfile.TemporaryDirectory() as name, ExitStack() as running:
        stream = designed()
        file = Path(name) / "meters.json"
        write_meters([Meter(f"m{k}", stream.design_, stream.open()) for k in range(METERS)], file)
        (Path(name) / "wait.json").write_text(json.dumps(WAIT))
        ends = ["--topic", "meters", "--private-topic", "private", "--options", f"{name}/wait.json", "--metrics", "0"]
        address, gateway = running.enter_context(
            served(lambda at: [sys.executable, "-c", GATEWAY, "run", str(file), "--kafka", at, *ends])
        )
        other, echo = running.enter_context(served(lambda at: [sys.executable, "-c", ECHO, at]))
        loads = [Load(other), Load(address)]
        for title, make, per, goal in kinds:
            messages = make(used)
            count, before, echo_before = per * len(messages), cpu_seconds(gateway), cpu_seconds(echo)
            bare, ours = (count / load.seconds(messages) for load in loads)
            alone, peer_alone = (count / (cpu_seconds(of) - at) for of, at in ((gateway, before), (echo, echo_before)))
            used += count // METERS
            note = f"{alone:.3g} by CPU second of the gateway, the echo {peer_alone:.3g}"
            found = row(f"{title}, peer confluent-kafka as an echo", ours, bare, goal, note)
            rows.append({**found, "name": found["name"].replace("gateway", "kafka", 1)})
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
