"""How often two walks of docs/architecture.md go from one room to another: python scripts/count_crossings.py.

A crossing is a call of a function of one room by a function of another, whatever lies between them outside of the
library. Each walk is taken once before it is counted, so that imports and what is kept for good do not count.
"""

from __future__ import annotations

import csv
import os
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import gaussveil

HOME = f"{Path(gaussveil.__file__).parent}{os.sep}"
ARGUMENTS = {"checks", "containers", "errors", "files", "shown", "typing"}  # rooms that any other may ask


def room_of(frame: FrameType) -> str | None:
    """The package, or module, of the library that a frame runs in."""
    file = frame.f_code.co_filename
    if not file.startswith(HOME):
        return None
    return file[len(HOME) :].split(os.sep)[0].removesuffix(".py")


def crossings(walk: Callable[[], object]) -> Counter[tuple[str, str, str, str]]:
    """Caller's room and function, and called room and function, of each call between rooms."""
    counted: Counter[tuple[str, str, str, str]] = Counter()

    def note(frame: FrameType, event: str, _: Any) -> None:
        called = room_of(frame)
        if event != "call" or called is None:
            return
        back = frame.f_back
        while back is not None and room_of(back) is None:
            back = back.f_back
        if back is None:
            return
        caller = room_of(back)
        if caller is not None and caller != called:
            counted[caller, back.f_code.co_name, called, frame.f_code.co_name] += 1

    walk()
    sys.setprofile(note)
    try:
        walk()
    finally:
        sys.setprofile(None)
    return counted


def tell(name: str, walk: Callable[[], object]) -> None:
    """Crossings and different calls; and without the rooms that check arguments."""
    counted = crossings(walk)
    own = {call: count for call, count in counted.items() if not {call[0], call[2]} & ARGUMENTS}
    print(
        f"{name}: {counted.total()} crossings by {len(counted)} different calls; "
        f"{sum(own.values())} by {len(own)} without the checks of arguments"
    )


def row_to_number(table: Path) -> None:
    """A row of a CSV file to a released number."""
    mean = gaussveil.Mean("kw", between=(0.0, 5.0))
    gaussveil.TableRelease(answers=mean, epsilon=1.0, delta=1e-6, unit="home").release(gaussveil.open(table))


def noise_of_training() -> None:
    """A noise for an epsilon."""
    gaussveil.calibrate(gaussveil.DPSGD(sampling_rate=0.01), epsilon=2.0, delta=1e-5, steps=1000)


if __name__ == "__main__":
    numbers = random.Random(0)
    with tempfile.TemporaryDirectory() as folder:
        table = Path(folder) / "loads.csv"
        with table.open("w", encoding="utf-8", newline="") as stream:
            rows = csv.writer(stream)
            rows.writerow(["home", "kw"])
            rows.writerows([f"h{row % 400}", round(5.0 * numbers.random(), 3)] for row in range(2000))
        tell("a row to a number", lambda: row_to_number(table))
    tell("a noise for an epsilon", noise_of_training)
