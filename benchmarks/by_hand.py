"""The Gram matrix as one would write it by hand in NumPy, and how it is timed beside ours."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

BLOCK = 2**13


def best_of(repeats: int, *functions: Callable[[], Any]) -> list[float]:
    """Fewest CPU seconds of each, taken in turns: fair on a busy machine.

    Products run on one thread: others spin while they wait for the next one, and that would count as work.
    """
    times = [float("inf")] * len(functions)
    with threadpool_limits(1, user_api="blas"):
        for _ in range(repeats):
            for i, function in enumerate(functions):
                start = time.process_time()
                function()
                times[i] = min(times[i], time.process_time() - start)
    return times


def fixed_point_pass(rows: Any, row_norm: float) -> Iterator[Any]:
    """Rows clipped and truncated to 22 bits, a block at a time."""
    for start in range(0, len(rows), BLOCK // 4):
        block = rows[start : start + BLOCK // 4].astype(np.float64)
        block *= (np.minimum(1.0, row_norm / np.sqrt(np.einsum("ij,ij->i", block, block))) * 2.0**22)[:, None]
        yield np.trunc(block, out=block)


def bare_gram(rows: Any, kind: Any = np.float64) -> Any:
    """The product alone, in floating point."""
    total = np.zeros((rows.shape[1], rows.shape[1]))
    for start in range(0, len(rows), BLOCK):
        block = rows[start : start + BLOCK].astype(kind, copy=False)
        total += block.T @ block
    return total
