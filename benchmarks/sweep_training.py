"""New random DP-SGD settings by the thousand: is an epsilon ever too small or loose, how long and how wide are answers?

usage: python benchmarks/sweep_training.py --settings 4000 --seed 38 --processes 16 --out sweep.json

Noise multipliers .3 to 20, rates 1e-6 to .5, 1 to 1e5 steps, deltas 1e-14 to 1e-2, logarithms drawn uniformly; every
third record is replaced. `--part 2/4` measures the second of four parts of the same settings, for several machines or
limits of time; `--join FILE...` puts parts together and tells what all of them say. Whatever is not done by `--until`
seconds is left out and counted. It takes numpy, scipy, python-flint and the package beside it, nothing else.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from multiprocessing import TimeoutError as TimeoutOfPoolError
from multiprocessing import get_context
from pathlib import Path
from typing import Any

for library in ("OMP", "OPENBLAS", "MKL"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")
SOURCE = Path(__file__).parents[1] / "src"
if SOURCE.is_dir():
    sys.path.insert(0, str(SOURCE))

from gaussveil import DPSGD, Accountant, GaussveilError  # noqa: E402

NOISE, RATE, STEPS, DELTA = (0.3, 20.0), (1e-6, 0.5), (1.0, 1e5), (1e-14, 1e-2)
LIMIT = 60.0  # seconds of one answer
LOOSE = 2e-9  # by which an epsilon may exceed the smallest one, relative
GOALS = {"epsilon": (0.05, 1.0), "enclosure": (2.0, 2.0)}  # seconds: 99th percentile, most
WIDE = 1e-6
Setting = dict[str, Any]
Record = dict[str, Any]
Row = dict[str, Any]


class OutOfTimeError(Exception):
    """An answer took longer than the limit."""


def settings(count: int, seed: int) -> list[Setting]:
    """Random settings, the same for the same seed."""
    draws = random.Random(seed)

    def drawn(ends: tuple[float, float]) -> float:
        return math.exp(draws.uniform(math.log(ends[0]), math.log(ends[1])))

    return [
        {
            "place": place,
            "relation": "replace" if place % 3 == 2 else "add-remove",
            "noise_multiplier": drawn(NOISE),
            "sampling_rate": drawn(RATE),
            "steps": max(int(drawn(STEPS)), 1),
            "delta": drawn(DELTA),
        }
        for place in range(count)
    ]


def measured(setting: Setting) -> Record:
    """What is found at a setting, and what an enclosure says of it."""
    found: Record = dict(setting)

    def run() -> Accountant:
        step = DPSGD(noise_multiplier=setting["noise_multiplier"], sampling_rate=setting["sampling_rate"])
        return Accountant(setting["relation"]).add(step, setting["steps"])

    delta = setting["delta"]
    try:
        found["epsilon"], found["epsilon_seconds"] = timed(lambda: run().epsilon(delta))
        epsilon = found["epsilon"]
        ends, found["enclosure_seconds"] = timed(lambda: run().enclose(epsilon))
        found["relative_width"] = float(ends.relative_width)
        found["proven"] = bool(ends.proven)
        found["too_small"] = bool(float(ends.lower) > delta)
        found["loose"] = False
        if epsilon > 0.0 and math.isfinite(epsilon):
            sooner, _ = timed(lambda: run().enclose(epsilon * (1.0 - LOOSE)))
            found["loose"] = bool(float(sooner.upper) < delta)
    except OutOfTimeError:
        found["failed"] = f"no answer in {LIMIT:g} s"
    except (ArithmeticError, GaussveilError, LookupError, RuntimeError, TypeError, ValueError) as error:
        found["failed"] = f"{type(error).__name__}: {error}"
    return found


def timed(work: Callable[[], Any]) -> tuple[Any, float]:
    """What a piece of work finds, and the seconds of processor time it took; stopped at the limit."""
    signal.signal(signal.SIGALRM, _stopped)
    signal.setitimer(signal.ITIMER_REAL, LIMIT)
    start = time.process_time()
    try:
        found = work()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0.0)
    return found, time.process_time() - start


def _stopped(*_: object) -> None:
    raise OutOfTimeError


def warmed() -> None:
    """Load what answers need, so that the first setting does not pay for it."""
    run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 100)
    run.enclose(run.epsilon(1e-5))


def swept(asked: list[Setting], processes: int, until: float = math.inf) -> Iterator[Record]:
    """Settings measured, in any order, until so many seconds have gone by."""
    end = time.monotonic() + until
    with get_context("spawn").Pool(processes, initializer=warmed) as pool:
        answers = pool.imap_unordered(measured, asked)
        for _ in asked:
            left = end - time.monotonic()
            if left <= 0.0:
                break
            try:
                yield answers.next(None if left == math.inf else left)  # type: ignore[attr-defined]
            except TimeoutOfPoolError:
                break
        pool.terminate()


def rows(records: Iterable[Record], asked: int) -> list[Row]:
    """What a sweep says, each figure with its goal."""
    everything = list(records)
    answered = [record for record in everything if "failed" not in record]
    of_all = f"of {len(everything)} random settings"
    found = [
        _row(f"settings not measured, of {asked}", float(asked - len(everything)), 0.0),
        _row(f"settings without an answer, {of_all}", _count(everything, "failed"), 0.0),
        _row(f"epsilons that are too small, {of_all}", _count(answered, "too_small"), 0.0),
        _row(f"epsilons above the truth by more than {LOOSE:g}, {of_all}", _count(answered, "loose"), 0.0),
        _row(f"enclosures wider than {WIDE:g}, {of_all}", _wide(answered), 0.0),
        _row(f"enclosures from a grid, not proven, {of_all}", _unproven(answered), math.inf),
    ]
    for name, (usual, most) in GOALS.items():
        seconds = sorted(record[f"{name}_seconds"] for record in answered) or [math.inf]
        place = min(math.ceil(0.99 * len(seconds)), len(seconds)) - 1
        within = f"{sum(one <= most for one in seconds)} of {len(seconds)} within {most:g} s"
        found.append(_row(f"CPU seconds, {name}, 99th percentile, {of_all}", seconds[place], usual))
        found.append(_row(f"CPU seconds, {name}, largest, {of_all}", seconds[-1], most, within))
    return found


def _count(records: list[Record], name: str) -> float:
    return float(sum(bool(record.get(name)) for record in records))


def _wide(records: list[Record]) -> float:
    return float(sum(not record["relative_width"] <= WIDE for record in records))


def _unproven(records: list[Record]) -> float:
    return float(sum(not record["proven"] for record in records))


def _row(name: str, ours: float, most: float, note: str = "") -> Row:
    ratio = most / ours if ours and math.isfinite(most) else None
    goal = 1.0 if math.isfinite(most) else None
    return {
        "name": name,
        "ours": ours,
        "peer": most if goal else None,
        "ratio": ratio,
        "goal": goal,
        "met": ours <= most,
        "note": note,
    }


def tell(records: list[Record], asked: int) -> None:
    """Print the rows, and the settings that missed a goal."""
    for row in rows(records, asked):
        mark = "" if row["met"] else "   MISSED"
        print(f"{row['name']:75s} {row['ours']:12.4g}   {row['note']}{mark}")
    odd = [record for record in records if _missed(record)]
    for record in sorted(odd, key=lambda one: one["place"]):
        print(json.dumps(record))


def _missed(record: Record) -> bool:
    if "failed" in record or record["too_small"] or record["loose"] or not record["relative_width"] <= WIDE:
        return True
    return bool(record["epsilon_seconds"] > GOALS["epsilon"][1] or record["enclosure_seconds"] > GOALS["enclosure"][1])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--settings", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=38)
    parser.add_argument("--part", default="1/1", help="K/N: the K-th of N parts")
    parser.add_argument("--processes", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--until", type=float, default=math.inf, help="seconds after which no more is waited for")
    parser.add_argument("--out", type=Path, default=Path("sweep.json"))
    parser.add_argument("--join", type=Path, nargs="+", help="parts that were measured; nothing is measured now")
    options = parser.parse_args(arguments)
    if options.join:
        parts = [json.loads(path.read_text(encoding="utf-8")) for path in options.join]
        tell([record for part in parts for record in part["records"]], sum(part["asked"] for part in parts))
        return 0
    part, parts_in_all = (int(word) for word in options.part.split("/"))
    asked = settings(options.settings, options.seed)[part - 1 :: parts_in_all]
    records = list(swept(asked, options.processes, options.until))
    where = {"architecture": platform.machine(), "python": platform.python_version(), "processes": options.processes}
    stored = {"seed": options.seed, "part": options.part, "asked": len(asked), "machine": where, "records": records}
    options.out.write_text(json.dumps(stored) + "\n", encoding="utf-8")
    tell(records, len(asked))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
