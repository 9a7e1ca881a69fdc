"""One noise for many constant queries: the time of a whole design, solver and certificate's plan, and its proven gap.

A hundred, four hundred and a thousand labels of 12 coordinates, complete graph: what forecasts of that many homes
release. Times are those of processors, on one core, as others use the machine.
"""

from __future__ import annotations

import time
from typing import Any

from bench_class_noise import load_shapes, row
from gaussveil.mechanisms import ClassLabelNoise

SECONDS = {100: 2.0, 400: 20.0, 1000: 120.0}
GAP = 3e-7  # asked of every design
EPSILON = 1.0
DELTA = 1e-5


def run() -> list[dict[str, Any]]:
    rows = []
    for count, goal in SECONDS.items():
        mechanism = ClassLabelNoise(epsilon=EPSILON, delta=DELTA, common_covariance=True)
        means = load_shapes(count)
        busy = time.process_time()
        plan = mechanism.design(means).plan_
        delta = plan.delta
        busy = time.process_time() - busy
        pairs = count * (count - 1)
        name = f"{count} labels, 12 dimensions, {pairs} ordered pairs"
        note = f"delta {delta:.7g} of {DELTA:g}, largest mean square {plan.accuracy:.4g}"
        rows.append(row(f"{name}: CPU s of a design and its plan", busy, None, goal, busy <= goal, note))
        gap = plan.duality_gap
        met = gap is not None and gap <= GAP and delta <= DELTA
        rows.append(row(f"{name}: above the least error at most", gap or 0.0, None, GAP, met))
    return rows


if __name__ == "__main__":
    for line in run():
        print(line)
