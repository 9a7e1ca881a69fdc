"""One process per core for benchmarks of many cells; each computes with one thread."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """What `work` finds of every item, in their order; it must be a function of a module."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(len(os.sched_getaffinity(0)), mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, items))
