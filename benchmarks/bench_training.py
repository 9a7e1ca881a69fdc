"""DP-SGD over the whole range of settings against references of 40 digits: refusals, sides and sizes of errors, CPU.

The references are those of `tests/reference/training.json`, which mpmath made without any code of the package.
EVERY=3 encloses every third of them only. Replaced records have no such references: random settings are answered, and
an enclosure tells whether delta is reached there, and not yet at an epsilon smaller by 2e-9. SETTINGS=4000 new random
ones are swept on all cores by `sweep_training.py`, 400 unless more are asked for.
"""

from __future__ import annotations

import json
import math
import os
import random
import statistics
import time
from pathlib import Path
from typing import Any

import mpmath as mp

import sweep_training
from gaussveil import DPSGD, Accountant
from gaussveil.errors import GaussveilError

REFERENCES = Path(__file__).parents[1] / "tests" / "reference" / "training.json"
EVERY = int(os.environ.get("EVERY", "1"))
EXACT = 1e-9
REPLACED = 300
SWEPT, SEED = int(os.environ.get("SETTINGS", "400")), int(os.environ.get("SEED", "38"))
Row = dict[str, Any]


def run() -> list[Row]:
    mp.mp.dps = 60
    cases = json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]
    refused, below, missed, errors, widths = 0, 0, 0, [], []
    seconds: dict[str, list[float]] = {"epsilon": [], "enclosure": []}
    for place, case in enumerate(cases):
        step = DPSGD(noise_multiplier=case["noise_multiplier"], sampling_rate=case["sampling_rate"])
        truth = mp.mpf(case["log_delta"])
        delta = math.exp(truth)
        while delta > mp.exp(truth):
            delta = math.nextafter(delta, 0.0)
        try:
            Accountant().add(step, case["steps"]).epsilon(min(10.0 * delta, 0.5))  # warm
            run = Accountant().add(step, case["steps"])
            start = time.process_time()
            found = run.epsilon(delta)
            seconds["epsilon"].append(time.process_time() - start)
            below += found < case["epsilon"]
            errors.append(abs(found / case["epsilon"] - 1.0))
            if place % EVERY:
                continue
            start = time.process_time()
            ends = run.enclose(case["epsilon"])
            seconds["enclosure"].append(time.process_time() - start)
            widths.append(float(ends.relative_width))
            slack = 1e-12 if case["sampling_rate"] == 1.0 else 0  # there the shift 1 / noise is rounded up first
            missed += not float(ends.lower) * (1 - slack) <= mp.exp(truth) <= float(ends.upper)
        except (GaussveilError, ArithmeticError) as error:
            print(case, error)
            refused += 1
    found_all, enclosed = f"of {len(cases)}", f"of {len(widths)}"
    return [
        row(f"refusals {found_all} settings", refused, 0),
        row(f"epsilons below the truth {found_all}", below, 0),
        row(f"largest relative error of epsilon {found_all}", max(errors), EXACT),
        row(f"enclosures without the truth {enclosed}", missed, 0),
        row(f"largest relative width of an enclosure {enclosed}", max(widths), EXACT),
        row("CPU seconds of an epsilon, median", statistics.median(seconds["epsilon"]), 0.05),
        row("CPU seconds of an epsilon, largest", max(seconds["epsilon"]), 0.05, within(seconds["epsilon"], 0.05)),
        row("CPU seconds of an enclosure, median", statistics.median(seconds["enclosure"]), 2.0),
        row("CPU seconds of an enclosure, largest", max(seconds["enclosure"]), 2.0, within(seconds["enclosure"], 2.0)),
        *replaced(),
        *swept(),
    ]


def swept() -> list[Row]:
    """New random settings, on all cores."""
    asked = sweep_training.settings(SWEPT, SEED)
    return sweep_training.rows(sweep_training.swept(asked, len(os.sched_getaffinity(0))), SWEPT)


def replaced() -> list[Row]:
    """Records that are replaced, over the same range of settings."""
    draws = random.Random(20)
    exceeded, loose, widths = 0, 0, []
    seconds: dict[str, list[float]] = {"epsilon": [], "enclosure": []}
    for _ in range(REPLACED):
        noise, rate, steps = (
            math.exp(draws.uniform(*map(math.log, ends))) for ends in ((0.3, 100), (1e-5, 1), (1, 1e7))
        )
        delta, step = 10 ** -draws.uniform(0.5, 30.0), DPSGD(noise_multiplier=noise, sampling_rate=rate)
        Accountant("replace").add(step, int(steps)).epsilon(min(10.0 * delta, 0.5))  # warm
        run = Accountant("replace").add(step, int(steps))
        start = time.process_time()
        found = run.epsilon(delta)
        seconds["epsilon"].append(time.process_time() - start)
        start = time.process_time()
        ends = run.enclose(found)
        seconds["enclosure"].append(time.process_time() - start)
        widths.append(float(ends.relative_width))
        exceeded += float(ends.lower) > delta
        loose += found > 0.0 and float(run.enclose(found * (1.0 - 2.0 * EXACT)).upper) < delta
    all_of = f"replaced, of {REPLACED}"
    return [
        row(f"epsilons at which delta is exceeded, {all_of}", exceeded, 0),
        row(f"epsilons above the truth by more than 2e-9, {all_of}", loose, 0),
        row(f"largest relative width of an enclosure, {all_of}", max(widths), EXACT),
        row(
            "CPU seconds of an epsilon, replaced, largest",
            max(seconds["epsilon"]),
            0.05,
            within(seconds["epsilon"], 0.05),
        ),
        row(
            "CPU seconds of an enclosure, replaced, largest",
            max(seconds["enclosure"]),
            2.0,
            within(seconds["enclosure"], 2.0),
        ),
    ]


def within(seconds: list[float], goal: float) -> str:
    return f"{sum(one <= goal for one in seconds)} of {len(seconds)} within {goal:g} s"


def row(name: str, ours: float, most: float, note: str = "") -> Row:
    ratio = most / ours if ours else None
    return {"name": name, "ours": ours, "peer": most, "ratio": ratio, "goal": 1.0, "met": ours <= most, "note": note}
