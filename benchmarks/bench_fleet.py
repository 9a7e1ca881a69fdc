"""Sums over many meters: the error of a window against other ways of counting on and on, and readings per second.

All hide one home for a day (5 kW, periods of 15 minutes, epsilon 1) over ten years. Peers: independent noise per
period, the binary tree, and the square-root factorisation of prefix sums (lower triangular Toeplitz), whose errors are
exact here: Gaussian noise through a known matrix. Deviations in kWh; a ratio is the peer's over ours.
"""

from __future__ import annotations

import math
import time
from typing import Any

import numpy as np

from gaussveil import MeterFleet

WINDOWS = {"hour": 1.0, "day": 24.0, "week": 168.0, "28 days": 672.0, "year": 8766.0}
PERIOD, LENGTH, SIZE = 0.25, 96, 5.0
HOMES, PERIODS = 10_000, 96
# The ratios that are asked for, 1 elsewhere. White noise is the best for a single period, and what longer windows gain
# is taken from it: up to a day it stays ahead. Only prefix sums over years are better served by the square root.
GOALS: dict[str, dict[str, float]] = {"white": {"hour": 0.85, "day": 0.9}, "tree": {}, "square root": {"year": 0.5}}


def designed(**changes: Any) -> MeterFleet:
    """The fleet of docs/mechanisms/meter_fleet.md."""
    given = {"sample_period": PERIOD, "epsilon": 1.0, "delta": 1e-5, "home": "1d", "limits": (0.0, SIZE), **changes}
    return MeterFleet.design(**given)


def others(windows: dict[str, float] = WINDOWS) -> dict[str, dict[str, float]]:
    """Deviations of the peers' windows, by method: of the same event and mean shift."""
    design = designed().design_
    horizon, scale = design.sample_limit, SIZE * PERIOD / design.mean_shift
    steps = np.arange(1, horizon)
    root = np.concatenate([[1.0], np.cumprod((2 * steps - 1) / (2 * steps))])  # of the series of 1/sqrt(1 - z)
    moved = np.cumsum(root)
    moved[LENGTH:] -= moved[:-LENGTH].copy()
    nodes = 2 ** np.arange(math.ceil(math.log2(horizon)) + 1)
    node = scale * math.sqrt(float(np.sum(np.minimum(nodes, LENGTH))) * LENGTH)
    found: dict[str, dict[str, float]] = {"white": {}, "tree": {}, "square root": {}}
    for name, hours in windows.items():
        count = round(hours / PERIOD)
        rows = math.fsum(root[:count] ** 2) + math.fsum((root[count:] - root[:-count]) ** 2)
        found["white"][name] = scale * math.sqrt(LENGTH * count)
        found["tree"][name] = node * math.sqrt(count.bit_count())  # of windows that begin where the largest node does
        found["square root"][name] = scale * float(np.linalg.norm(moved)) * math.sqrt(rows)
    return found


def run() -> list[dict[str, Any]]:
    fleet = designed()
    rows = []
    for method, errors in others().items():
        for name, error in errors.items():
            ours = fleet.design_.energy_sd(WINDOWS[name])
            goal = GOALS[method].get(name, 1.0)
            ratio = error / ours
            title = f"{name}, against {method}"
            rows.append(
                {"name": title, "ours": ours, "peer": error, "ratio": ratio, "goal": goal, "met": ratio >= goal}
            )
    readings = np.random.default_rng(0).random((PERIODS, HOMES))
    fleet.open()
    start = time.process_time()
    fleet.push_many(readings)
    ours = readings.size / (time.process_time() - start)
    start = time.process_time()
    np.clip(readings, 0.0, SIZE).sum(axis=1)
    peer = readings.size / (time.process_time() - start)
    note = "against NumPy's bare clip and sum; the goal is 10^6 readings a second and core"
    name = "readings a second"
    rows.append({"name": name, "ours": ours, "peer": peer, "ratio": ours / peer, "goal": 1e6 / peer})
    rows[-1] |= {"met": ours >= 1e6, "note": note}
    return rows
