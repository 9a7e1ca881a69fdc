"""Many seeded trials of a study: in a pool of processes, each finished piece kept, so that a long run can be resumed.

A piece is a task, a tuple of plain values, and what a function of a module makes of it: a list of rows of numbers. Its
file is named by the digest of the task and of the source, so pieces of other code or data are never taken for these.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from gaussveil.files import write_whole
from gaussveil.typing import Progress
from gaussveil_studies.source import source_digest

Task = tuple[Any, ...]
Rows = list[list[float]]


def run_trials(
    function: Callable[[Task], Rows],
    tasks: Sequence[Task],
    progress: Progress,
    *,
    workers: int = 1,
    kept: Path | None = None,
) -> list[Rows]:
    """The function's rows for every task, in their order; progress tells how many are done and the time left."""
    found: dict[int, Rows] = {}
    if kept is not None:
        kept.mkdir(parents=True, exist_ok=True)
    files = [
        None if kept is None else kept / f"{piece_name(function, task)}.json"
        for task in tasks
    ]
    for place, path in enumerate(files):
        if path is not None and path.is_file():
            found[place] = json.loads(path.read_text(encoding="utf-8"))
    waiting = [place for place in range(len(tasks)) if place not in found]
    resumed = len(found)
    begun = time.monotonic()
    for place, rows in _computed(function, tasks, waiting, workers):
        found[place] = rows
        path = files[place]
        if path is not None:
            write_whole(path, json.dumps(rows))
        done = len(found) - resumed
        left = (time.monotonic() - begun) / done * (len(waiting) - done)
        progress(
            f"{len(found)} of {len(tasks)} pieces, {time_left(left)} left",
            len(found) / len(tasks),
        )
    return [found[place] for place in range(len(tasks))]


def _computed(
    function: Callable[[Task], Rows],
    tasks: Sequence[Task],
    waiting: Sequence[int],
    workers: int,
) -> Iterator[tuple[int, Rows]]:
    if workers <= 1 or len(waiting) <= 1:
        for place in waiting:
            yield place, function(tasks[place])
        return
    with ProcessPoolExecutor(
        min(workers, len(waiting)), mp_context=get_context("spawn")
    ) as pool:
        places = {pool.submit(function, tasks[place]): place for place in waiting}
        for future in as_completed(places):
            yield places[future], future.result()


def piece_name(function: Callable[[Task], Rows], task: Task) -> str:
    """Digest of the source, the function and the task."""
    content = json.dumps(
        [source_digest(), function.__module__, function.__qualname__, task], default=str
    )
    return hashlib.sha256(content.encode()).hexdigest()[:32]


def time_left(seconds: float) -> str:
    """Seconds for people."""
    if seconds < 90:
        return f"{seconds:.0f} seconds"
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.1f} hours"


def cores() -> int:
    """How many processes may run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
