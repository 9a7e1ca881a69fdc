"""Running totals: errors beside jax_privacy's buffered Toeplitz strategies and a binary tree, and how long they take.

Errors are per unit of change and of the noise's deviation over sensitivity, exact for all: Gaussian noise through a
known matrix. jax_privacy minimises the mean or the largest error, each in a run of its own; ours is one strategy for
both, and is held against the better one of each. Peers run in .venv-peers-train (`make test-peers` makes it).
"""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil import RunningTotal
from gaussveil.accounting.buffered_toeplitz import best_buffers
from gaussveil.mechanisms.running_total.figures import tree_error

STEPS = (256, 1024, 8192)
PEER = Path(__file__).parents[1] / ".venv-peers-train" / "bin" / "python"
MOST = 1.02  # times the peer's error
SECONDS = {1024: 1.0, 100_000: 10.0}


def peers() -> dict[tuple[int, str], dict[str, Any]]:
    """What jax_privacy finds, by steps and by what it minimises."""
    script = Path(__file__).with_name("total_peer.py")
    ran = subprocess.run([PEER, script, *map(str, STEPS)], capture_output=True, text=True, check=True)
    found = map(json.loads, ran.stdout.splitlines())
    return {(one["steps"], one["minimised"]): one for one in found}


def row(name: str, ours: float, peer: float | None, goal: float, met: bool, note: str = "") -> dict[str, Any]:
    ratio = None if peer is None else peer / ours
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met, "note": note}


def errors(known: dict[tuple[int, str], dict[str, Any]]) -> list[dict[str, Any]]:
    rows = []
    for steps in STEPS:
        design = RunningTotal(steps=steps, epsilon=1.0, delta=1e-5, limits=(0.0, 1.0)).design_
        unit = design.size / design.mean_shift
        mean, last = design.root_mean_square() / unit, design.sd(0, steps) / unit
        for name, ours, minimised in (("root mean square", mean, "mean"), ("largest", last, "max")):
            peer = known[steps, minimised]
            theirs = peer[minimised]
            note = f"jax_privacy: {peer['buffers']} buffers, found in {peer['seconds']:.0f} s; ours 5"
            title = f"{steps} totals, {name} error, against jax_privacy"
            rows.append(row(title, ours, theirs, 1 / MOST, ours <= MOST * theirs, note))
        tree = tree_error(steps)
        rows.append(row(f"{steps} totals, root mean square error, against a tree", mean, tree, 1.0, mean < tree))
    return rows


def times() -> list[dict[str, Any]]:
    rows = []
    for steps, goal in SECONDS.items():
        best_buffers.cache_clear()
        start = time.process_time()
        best_buffers(steps, 5, error="both")
        seconds = time.process_time() - start
        rows.append(row(f"CPU s to choose the buffers of {steps} totals", seconds, None, goal, seconds <= goal))
    total = RunningTotal(steps=100_000, epsilon=1.0, delta=1e-5)
    total.open()
    start = time.process_time()
    total.push_many(np.zeros(20_000))
    rate = 20_000 / (time.process_time() - start)
    rows.append(row("totals a second", rate, None, 1e4, rate >= 1e4))
    return rows


def run() -> list[dict[str, Any]]:
    return errors(peers()) + times()
