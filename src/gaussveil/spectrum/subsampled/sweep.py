"""Many epsilons at once: nodes that settle one of them serve all neighbours for which they are accurate."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from gaussveil.spectrum.subsampled.contour import ACCURATE
from gaussveil.spectrum.subsampled.double_bands import AnyNodes
from gaussveil.typing import Floats

NEWTON_STEPS = 6
MOST_KEPT = 48  # of nodes
TRIED = 2  # of these, for one epsilon
AT_A_TIME = 64  # epsilons at which the same nodes are summed
MANY = 12  # epsilons from which on a table of them is worth its nodes
TABLE = 48
BEYOND = 1e-13  # of log delta, over 1 - log delta: by how much epsilons are moved to the private side

Evaluation = tuple[float, float, float, AnyNodes | None]
Evaluate = Callable[[float, AnyNodes | None], Evaluation]


class Swept(NamedTuple):
    """log delta, its slope and a bound of its error at each epsilon."""

    value: Floats
    slope: Floats
    error: Floats


class KeptNodes:
    """Nodes that settled some epsilon before, which serve again nearby."""

    def __init__(self) -> None:
        self._at: list[tuple[float, AnyNodes]] = []

    def keep(self, epsilon: float, nodes: AnyNodes) -> None:
        """Remember nodes, among the last few."""
        if all(one is not nodes for _, one in self._at):
            self._at = [*self._at[1 - MOST_KEPT :], (epsilon, nodes)]

    def near(self, epsilon: float) -> list[AnyNodes]:
        """The nodes whose epsilons are next to this one."""
        ranked = sorted(self._at, key=lambda one: abs(one[0] - epsilon))
        return [nodes for _, nodes in ranked[:TRIED]]


@np.errstate(all="ignore")
def swept(evaluate: Evaluate, levels: Floats, kept: KeptNodes) -> Swept:
    """One pass over epsilons in ascending order."""
    found = Swept(*(np.empty(levels.size) for _ in range(3)))
    order = np.argsort(levels)
    last: list[AnyNodes] = []
    start = 0
    while start < order.size:
        ahead = order[start : start + AT_A_TIME]
        known = 0
        for nodes in [*last, *kept.near(float(levels[ahead[0]]))]:
            first = nodes.log_deltas(levels[ahead[:1]])
            if not _accurate(first, levels[ahead[:1]])[0]:
                continue
            columns = nodes.log_deltas(levels[ahead])
            known = int(np.argmin(np.append(_accurate(columns, levels[ahead]), False)))
            for column, values in zip(found, columns):
                column[ahead[:known]] = values[:known]
            last = [nodes]
            break
        if known == 0:
            place = order[start]
            level = float(levels[place])
            value, slope, error, fresh = evaluate(level, None)
            for column, one in zip(found, (value, slope, error)):
                column[place] = one
            if fresh is not None:
                kept.keep(level, fresh)
                last = [fresh]
            known = 1
        start += known
    return found


def _accurate(columns: tuple[Floats, Floats, Floats], levels: Floats) -> Floats:
    _, slope, error = columns
    return np.asarray(error <= ACCURATE * (1.0 + np.abs(slope) * levels))


@np.errstate(all="ignore")
def epsilons(
    evaluate: Evaluate,
    one: Callable[[float], float],
    deltas: Floats,
    kept: KeptNodes,
) -> Floats:
    """Private epsilons of many deltas: of the ends of their range by `one`, of those between by Newton's steps.

    What is handed out has an upper end of delta that is private; where steps do not lead there `one` is asked.
    """
    found = np.array([math.nan] * deltas.size)
    inside = np.flatnonzero(deltas > 0.0)
    if inside.size >= MANY:
        ends = [one(float(end(deltas[inside]))) for end in (np.max, np.min)]
        if all(map(math.isfinite, ends)) and ends[0] < ends[1]:
            goals = np.log(deltas[inside])
            found[inside] = _between(evaluate, ends[0], ends[1], goals, kept)
    for place in np.flatnonzero(np.isnan(found)):
        found[place] = one(float(deltas[place]))
    return found


def _between(
    evaluate: Evaluate, low: float, high: float, goals: Floats, kept: KeptNodes
) -> Floats:
    """Epsilons from a table of log delta and Newton's steps; not a number where these end on the wrong side."""
    goals = np.nextafter(goals, -math.inf)
    levels = np.linspace(low, high, TABLE)
    table = swept(evaluate, levels, kept)
    falling = np.minimum.accumulate(table.value)
    guess = np.interp(-goals, -falling, levels)
    margin = BEYOND * (1.0 - goals)
    for _ in range(NEWTON_STEPS):
        at = swept(evaluate, guess, kept)
        excess = at.value + at.error - goals
        near = (excess <= 0.0) & (excess >= -4.0 * (margin + at.error))
        if near.all():
            break
        steps = (excess + 0.5 * margin + 0.5 * at.error) / at.slope
        moves = ~near & np.isfinite(steps)
        guess = np.where(moves, np.clip(guess - steps, low, high), guess)
    return np.where(near, guess, math.nan)
