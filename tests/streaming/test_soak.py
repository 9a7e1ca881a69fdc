"""Kills at random moments, broker restarts, a full disk, wrong clocks, flipped bits, a second gateway: nothing is lost,
answered twice with other noise, or out of order.

Small here; 500 kills with --full.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from gaussveil.errors import GaussveilError
from gaussveil.streaming import write_meters
from gaussveil.streaming.messages import HEAD, MARK, encode_batch
from gaussveil.streaming.service import open_gateway

from .conftest import Mosquitto, made_meters
from .test_mqtt import Receiver, reading

SMALL, FULL = 8, 500
BATCH = 700  # more than is kept of delivered answers


NURSERY = """
import os, resource, sys, time
from gaussveil.streaming.mqtt import MqttGateway
from gaussveil.streaming.mqtt_client import Broker
from gaussveil.streaming.service import open_gateway

def serve(path, port, limit, clock):
    if limit:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    true_time = time.time
    time.time = lambda: true_time() + clock
    service = MqttGateway(open_gateway(path), Broker(host="127.0.0.1", port=port))
    service.start()
    service.wait()

for line in sys.stdin:
    word, number, *clock = line.split()
    if word == "start":
        child = os.fork()
        if child == 0:
            try:
                serve(sys.argv[1], int(sys.argv[2]), int(number), float(clock[0]))
            finally:
                os._exit(1)
        print(child, flush=True)
    else:
        if word == "kill":
            os.kill(int(number), 9)
        print(os.waitstatus_to_exitcode(os.waitpid(int(number), 0)[1]), flush=True)
"""


class Nursery:
    """A process that forks gateways, so that each begins at once."""

    def __init__(self, path: Path, port: int) -> None:
        arguments = [sys.executable, "-c", NURSERY, str(path), str(port)]
        self.process = subprocess.Popen(
            arguments, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def tell(self, word: str, number: int, clock: float = 0.0) -> int:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        print(word, number, clock, file=self.process.stdin, flush=True)
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(60)


def flip(meters_file: Path, rng: np.random.Generator) -> bool:
    """Flip a bit in the state or its mark; whether it is told. If so it is put right, else it must not matter."""
    folder = meters_file.parent
    files = sorted(path for path in (*folder.glob("*.state/*"), *folder.glob("*.started")) if path.stat().st_size)
    path = files[int(rng.integers(len(files)))]
    body = path.read_bytes()
    place = int(rng.integers(len(body)))
    path.write_bytes(body[:place] + bytes([body[place] ^ 1 << int(rng.integers(8))]) + body[place + 1 :])
    try:
        open_gateway(meters_file).state.abandon()
    except GaussveilError:
        path.write_bytes(body)
        return True
    return False


def test_nothing_is_lost_doubled_or_out_of_order(
    mosquitto: Callable[..., Mosquitto], tmp_path: Path, full: bool
) -> None:
    kills = FULL if full else SMALL
    rng = np.random.default_rng(11)
    store = tmp_path / "persistence"
    store.mkdir()
    broker = mosquitto(f"allow_anonymous true\npersistence true\npersistence_location {store}/\nmax_queued_messages 0")
    path = write_meters(made_meters(sample_limit=2 * 10**6), tmp_path / "meter.json")
    receiver = Receiver(broker.port, name="analyst")  # its session outlives the broker
    seen: dict[tuple[str, int], bytes] = {}
    energies: dict[tuple[str, int], float] = {}
    told_flips = 0
    latest: dict[str, int] = {}
    sent = {"white": 0, "coloured": 0, "billing": 0}

    def take(patience: float) -> None:
        deadline = time.monotonic() + patience
        while time.monotonic() < deadline:
            while not receiver.seen.empty():
                topic, payload = receiver.seen.get()
                _, meter, kind = topic.split("/")
                if kind == "energy":
                    window = json.loads(payload)
                    told = window["kwh"]
                    assert energies.setdefault((window["register"], window["first"]), told) == told
                if kind == "power":
                    first = HEAD.unpack_from(payload)[1] if payload[:4] == MARK else json.loads(payload)["seq"]
                    body = payload[HEAD.size :] if payload[:4] == MARK else payload
                    for offset in range(len(body) // 8 if payload[:4] == MARK else 1):
                        value = body[8 * offset : 8 * offset + 8] if payload[:4] == MARK else body
                        key = (meter, first + offset)
                        if key not in seen:
                            assert key[1] == latest.get(meter, -1) + 1, "out of order, or a reading is missing"
                            latest[meter] = key[1]
                        assert seen.setdefault(key, value) == value, "answered twice, with other noise"
            time.sleep(0.01)

    nursery = Nursery(path, broker.port)
    child = nursery.tell("start", 0)
    while "white" not in latest:  # until it has subscribed for the first time
        receiver.send("white", reading(0, 1.0))
        take(0.2)
    sent["white"] = 1
    for kill in range(kills):
        for meter in sent:
            if rng.random() < 0.5:
                for _ in range(int(rng.integers(1, 30))):
                    if meter == "white":
                        receiver.client.publish(f"meters/{meter}/power", reading(sent[meter], 1.0), qos=1)
                        sent[meter] += 1
                    elif rng.random() < 0.2:
                        payload = encode_batch(sent[meter], np.ones(BATCH))
                        receiver.client.publish(f"meters/{meter}/power", payload, qos=1)
                        sent[meter] += BATCH
        take(float(rng.uniform(0, 0.6)))
        nursery.tell("kill", child)
        if kill % 11 == 6:  # the broker too; what it has taken is on its disk
            broker.stop()
            broker.start()
        if kill % 5 == 4:  # the disk is full for a while: the gateway ends, and goes on when there is room again
            child = nursery.tell("start", 60_000)
            take(0.5)
            nursery.tell("kill", child)
        if kill % 4 == 1:  # a flipped bit is told, or it changes nothing
            told_flips += sum(flip(path, rng) for _ in range(6))
        child = nursery.tell("start", 0, float(rng.uniform(-1e9, 1e9)))
        if kill % 7 == 3:  # a second one on the same state ends by itself
            receiver.send("white", reading(sent["white"], 1.0))
            sent["white"] += 1
            while latest["white"] + 1 < sent["white"]:  # until the first one serves
                take(0.1)
            assert nursery.tell("wait", nursery.tell("start", 0)) == 1
    deadline = time.monotonic() + 120
    while len(seen) < sum(sent.values()) and time.monotonic() < deadline:
        take(0.2)
    nursery.tell("kill", child)
    nursery.close()
    receiver.close()
    assert {meter: latest.get(meter, -1) + 1 for meter in sent} == sent
    assert told_flips
    gateway = open_gateway(path)
    assert gateway.state.arrays.next.tolist() == list(sent.values())
    gateway.state.close()
