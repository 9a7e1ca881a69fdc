"""Processes side by side for benchmarks of many cells, each with one thread; WORKERS: how many, by default every core.

RESUME=FOLDER keeps what each item found, so that a run which was ended goes on there. Begin an empty one for new code.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from hashlib import sha256
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

Item = TypeVar("Item")
Found = TypeVar("Found")


def side_by_side(work: Callable[[Item], Found], items: Iterable[Item]) -> list[Found]:
    """What `work` finds of every item, in their order; it must be a function of a module."""
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    workers = int(os.environ.get("WORKERS") or len(os.sched_getaffinity(0)))
    if workers == 1:
        return [kept(work, item) for item in items]
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        return list(pool.map(partial(kept, work), items))


def kept(work: Callable[[Item], Found], item: Item) -> Found:
    """What `work` finds, or found before."""
    if not (folder := os.environ.get("RESUME")):
        return work(item)
    name = sha256(f"{work.__module__}.{work.__name__} {os.environ.get('FULL')} {item!r}".encode()).hexdigest()
    path = Path(folder) / f"{name}.pickle"
    if path.exists():
        before: Found = pickle.loads(path.read_bytes())
        return before
    found = work(item)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.with_suffix(".part").write_bytes(pickle.dumps(found))
    path.with_suffix(".part").rename(path)
    return found
