"""Running totals: errors beside jax_privacy's buffered Toeplitz strategies and a binary tree, and how long they take.

Errors are per unit of change and of the noise's deviation over sensitivity, exact for all: Gaussian noise through a
known matrix. jax_privacy minimises the mean or the largest error, each in a run of its own; ours is one strategy for
both, and is held against the better one of each. Peers run in .venv-peers-train (`make test-peers` makes it), one try
of their search in a process; what a try ends at is kept in that environment, so that a run that was ended goes on.
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
TRIES = Path(__file__).parents[1] / ".venv-peers-train" / "totals.jsonl"
LONGEST = 3600.0  # seconds for one try, on a machine that does other work too
MOST_BUFFERS = 10
GAIN = 1.01
MOST = 1.02  # times the peer's error
SECONDS = {1024: 1.0, 100_000: 10.0}


def peers() -> dict[tuple[int, str], dict[str, Any]]:
    """What jax_privacy finds, by steps and by what it minimises."""
    return {(steps, error): best_of_peer(steps, error) for steps in STEPS for error in ("mean", "max")}


def best_of_peer(steps: int, error: str) -> dict[str, Any]:
    """One buffer more as long as that gains a hundredth of the squared error: the rule of its `optimize`."""
    best = tried(steps, error, 0)
    seconds = best["seconds"]
    for buffers in range(1, MOST_BUFFERS + 1):
        more = tried(steps, error, buffers)
        seconds += more["seconds"]
        if more[error] is None or GAIN * more[error] ** 2 >= best[error] ** 2:
            break
        best = more
    return best | {"seconds": seconds}


def tried(steps: int, error: str, buffers: int) -> dict[str, Any]:
    """One try of the peer's search, from what is kept or else in a process of its own."""
    wanted = {"steps": steps, "minimised": error, "buffers": buffers}
    for line in TRIES.read_text(encoding="utf-8").splitlines() if TRIES.exists() else ():
        kept: dict[str, Any] = json.loads(line)
        if wanted.items() <= kept.items():
            return kept
    command = [PEER, Path(__file__).with_name("total_peer.py"), *map(str, wanted.values())]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=LONGEST)
    with TRIES.open("a", encoding="utf-8") as tries:
        tries.write(ran.stdout)
    found: dict[str, Any] = json.loads(ran.stdout)
    print(f"{steps} totals, {error} error, {buffers} buffers: {found[error]}, {found['seconds']:.0f} CPU s", flush=True)
    return found


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
            note = f"{peer['peer']}: {peer['buffers']} buffers, found in {peer['seconds']:.0f} CPU s; ours 5"
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
