"""Coverage of the 95 % intervals of private slopes, where there are 50 units per feature; data and noise drawn anew.

The slopes asked for are those of the population, its targets clipped to their public bounds. FULL=1 for 1,000 draws.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Any

import numpy as np

from bench_regression import EPSILONS, drawn_how_often, ours
from regression_sets import Regression, loads_of_homes, regressions
from side_by_side import side_by_side

COVERED = 1000 if os.environ.get("FULL") else 200
ENOUGH = 50  # units per feature from which on coverage is judged
BLOCK = 25  # draws of one set, in one process
DOUBTED = 0.05  # of all intervals: if fewer are trusted there is nothing to judge
Row = dict[str, Any]


def run() -> list[Row]:
    sets = [one for one in judged_sets() if one.rows >= ENOUGH * one.size]
    blocks = [
        (one.name, tuple(range(begin, min(begin + BLOCK, drawn))))
        for one in sets
        for drawn in (drawn_how_often(one, COVERED),)
        for begin in range(0, drawn, BLOCK)
    ]
    inside: dict[tuple[str, float], list[bool]] = {}
    for (name, _), found in zip(blocks, side_by_side(covered, blocks)):
        for epsilon, each in zip(EPSILONS, found):
            inside.setdefault((name, epsilon), []).extend(each)
    return [coverage(one, epsilon, inside[one.name, epsilon]) for one in sets for epsilon in EPSILONS]


@lru_cache(maxsize=1)
def judged_sets() -> list[Regression]:
    return [*regressions(), loads_of_homes()]


def covered(block: tuple[str, tuple[int, ...]]) -> list[list[bool]]:
    """By epsilon, whether each slope that is trusted lies inside its 95 % interval, data and noise drawn anew."""
    name, seeds = block
    one = next(one for one in judged_sets() if one.name == name)
    inside: list[list[bool]] = [[] for _ in EPSILONS]
    for seed in seeds:
        rows, target, best = one.draw(seed)
        for found, epsilon in zip(inside, EPSILONS):
            fit = ours(one, rows, target, epsilon, seed)
            low, high = fit.interval[1:].T
            found += ((low <= best[1:]) & (best[1:] <= high))[np.asarray(fit.informed[1:])].tolist()
    return inside


def coverage(one: Regression, epsilon: float, inside: list[bool]) -> Row:
    """Share of the slopes inside."""
    draws = drawn_how_often(one, COVERED)
    judged = len(inside) / (draws * one.size)
    share = float(np.mean(inside)) if judged > DOUBTED else None
    note = f"{draws} draws; {1 - judged:.1%} of the intervals are marked as not to be trusted and left out"
    met = share is None or 0.93 <= share <= 0.97
    row = {"name": f"{one.name}, epsilon {epsilon:g}: coverage of 95 % intervals", "ours": share, "peer": 0.95}
    return row | {"ratio": None if share is None else share / 0.95, "goal": 1.0, "met": met, "note": note}


if __name__ == "__main__":
    for result in run():
        print(result)
