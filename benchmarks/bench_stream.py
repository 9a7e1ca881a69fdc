"""The meter stream: 10^4 meters with filters of their own against a loop over SciPy's lfilter. CPU seconds."""

from __future__ import annotations

import tempfile
import time
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.signal import lfilter

from gaussveil.mechanisms.meter_stream.stream import MeterStream
from gaussveil.noise import SecureGenerator
from gaussveil.noise.filter_bank import FilterBank
from gaussveil.streaming import Meter, StreamState

METERS = 10_000
STEPS = 10
PEER_STEPS = 2


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
        memory_used = bytes_per_meter(state)
        state.close()
    return [
        row(f"{title}, against an lfilter loop", ours, peer, ours / peer, 20.0),
        row(f"{title}, against the promised 10^6", ours, 1e6, ours / 1e6, 1.0),
        row("stream: bytes of state per meter, against 16 KiB", memory_used, 16384, 16384 / memory_used, 1.0),
    ]


def bytes_per_meter(state: StreamState) -> float:
    """Memory of the arrays."""
    filters = sum(value.nbytes for value in vars(state.bank).values() if isinstance(value, np.ndarray))
    return (filters + state.arrays.nbytes) / len(state.arrays)


def run() -> list[dict[str, Any]]:
    return filters()


if __name__ == "__main__":
    for line in run():
        print(line)
