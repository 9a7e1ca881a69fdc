"""The least that a job can take on this machine, named beside the figure that it took.

A limit is the sum of the operations that the job cannot do without, each at the speed that one core shows here and now
when it does nothing else: floating-point operations by a matrix product, bytes by a copy, nodes of a contour by an
exponential with a sine and a cosine (NumPy), ball products by a product of matrices of complex balls of 256 bits
(FLINT), commits by SQLite with everything on the disk, starts by an interpreter that loads NumPy.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path

import flint
import numpy as np

from gaussveil.spectrum import rules

NODES = rules.TRAPEZOID_RULES[0][0]
NODE_FLOPS = 20  # for each term and node: the factor 1 + sg, its product with the others, the mean parts over it
REDUCTION_FLOPS = 13  # times d^3: a Cholesky factor, two triangular solves, an eigendecomposition
NODE_BALLS = 3  # the same in balls, by products of complex balls
BITS = 256


def best(call: Callable[[], object], repeats: int = 3) -> float:
    """CPU seconds, best of a few; the peers' are CPU seconds too, so that other load on the machine does not count."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def pair(dimension: int, *, matrices: bool = True, gradients: int = 1) -> dict[str, float]:
    """One delta in doubles, from its terms or from its matrices; a gradient repeats the work."""
    flops = NODE_FLOPS * NODES * dimension + (REDUCTION_FLOPS * dimension**3 if matrices else 0)
    return {"flops": gradients * flops, "nodes": gradients * NODES}


def enclosure(dimension: int, *, matrices: bool = True, pairs: int = 1) -> dict[str, float]:
    """One enclosure of pairs composed, with no more nodes than in doubles, the reduction verified in doubles."""
    reduced = 2 * REDUCTION_FLOPS * dimension**3 if matrices else 0
    return {"balls": NODE_BALLS * NODES * dimension * pairs, "flops": reduced * pairs}


def limit(**counts: float) -> str:
    """Say the least time, and of what it is the sum."""
    parts = {name: count * seconds_of(name) for name, count in counts.items() if count}
    shown = ", ".join(
        f"{counts[name]:,.0f} {WORDS[name]} at {duration(seconds_of(name))}" for name in sorted(parts, key=parts.get)
    )
    return f"limit {duration(sum(parts.values()))}: {shown}"


@cache
def seconds_of(name: str) -> float:
    """CPU seconds of one operation of this kind."""
    return SPEEDS[name]()


def _flop() -> float:
    square = np.random.default_rng(0).random((512, 512))
    return best(lambda: square @ square, 5) / (2 * 512**3)


def _byte() -> float:
    block = np.ones(1 << 25)
    return best(block.copy, 5) / (2 * block.nbytes)


def _node() -> float:
    values = np.random.default_rng(0).uniform(0.5, 2.0, size=100_000)
    return best(lambda: (np.exp(values), np.sin(values), np.cos(values)), 5) / values.size


def _ball() -> float:
    before, flint.ctx.prec = flint.ctx.prec, BITS
    try:
        rng = np.random.default_rng(0)
        square = flint.acb_mat(24, 24, [flint.acb(*draw) / 3 for draw in rng.random((24**2, 2)).tolist()])
        return best(lambda: square * square, 5) / 24**3
    finally:
        flint.ctx.prec = before


def _commit() -> float:
    with tempfile.TemporaryDirectory() as folder:
        base = sqlite3.connect(Path(folder) / "one.db", isolation_level=None)
        base.execute("pragma journal_mode=wal")
        base.execute("pragma synchronous=full")
        base.execute("create table kept (value)")
        found = best(lambda: base.execute("insert into kept values (1)"), 50)
        base.close()
        return found


def started(command: Sequence[str], repeats: int = 7) -> tuple[float, float]:
    """Seconds by the clock and of processors, the fewest of some runs of a command."""
    found = []
    for _ in range(repeats):
        clock, before = time.perf_counter(), os.times()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        after = os.times()
        busy = after.children_user + after.children_system - before.children_user - before.children_system
        found.append((time.perf_counter() - clock, busy))
    return min(clock for clock, _ in found), min(busy for _, busy in found)


SPEEDS: dict[str, Callable[[], float]] = {
    "flops": _flop,
    "bytes": _byte,
    "nodes": _node,
    "balls": _ball,
    "commits": _commit,
    "starts": lambda: started([sys.executable, "-c", "import numpy"])[1],
}
WORDS = {
    "flops": "floating-point operations",
    "bytes": "bytes",
    "nodes": "nodes",
    "balls": "ball products",
    "commits": "durable commits",
    "starts": "interpreters with NumPy",
}


def duration(seconds: float | None) -> str:
    if seconds is None:
        return "no answer"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}"
    return f"{seconds * 1e9:.3g} ns"
