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
        if all(before is not nodes for _, before in self._at):
            self._at = [*self._at[1 - MOST_KEPT :], (epsilon, nodes)]

    def near(self, epsilon: float) -> list[AnyNodes]:
        """The nodes whose epsilons are next to this one."""
        ranked = sorted(self._at, key=lambda one: abs(one[0] - epsilon))
        return [nodes for _, nodes in ranked[:TRIED]]


@np.errstate(all="ignore")
def swept(evaluate: Evaluate, levels: Floats, kept: KeptNodes) -> Swept:
    """One pass over epsilons in ascending order."""
    answers = Swept(*(np.empty(levels.size) for _ in range(3)))
    order = np.argsort(levels)
    last: list[AnyNodes] = []
    start = 0
    while start < order.size:
        ahead = order[start : start + AT_A_TIME]
        settled = 0
        for nodes in [*last, *kept.near(float(levels[ahead[0]]))]:
            first = nodes.log_deltas(levels[ahead[:1]])
            if not _accurate(first, levels[ahead[:1]])[0]:
                continue
            columns = nodes.log_deltas(levels[ahead])
            settled = int(
                np.argmin(np.append(_accurate(columns, levels[ahead]), False))
            )
            for column, values in zip(answers, columns):
                column[ahead[:settled]] = values[:settled]
            last = [nodes]
            break
        if settled == 0:
            place = order[start]
            level = float(levels[place])
            value, slope, error, fresh = evaluate(level, None)
            for column, number in zip(answers, (value, slope, error)):
                column[place] = number
            if fresh is not None:
                kept.keep(level, fresh)
                last = [fresh]
            settled = 1
        start += settled
    return answers


def _accurate(columns: tuple[Floats, Floats, Floats], levels: Floats) -> Floats:
    _, slope, error = columns
    return np.asarray(error <= ACCURATE * (1.0 + np.abs(slope) * levels))


@np.errstate(all="ignore")
def epsilons(
    evaluate: Evaluate,
    alone: Callable[[float], float],
    deltas: Floats,
    kept: KeptNodes,
) -> Floats:
    """Private epsilons of many deltas: of the ends of their range by `alone`, of those between by Newton's steps.

    What is handed out has an upper end of delta that is private; where steps do not lead there `alone` is asked.
    """
    answers = np.array([math.nan] * deltas.size)
    inside = np.flatnonzero(deltas > 0.0)
    if inside.size >= MANY:
        ends = [alone(float(end(deltas[inside]))) for end in (np.max, np.min)]
        if all(map(math.isfinite, ends)) and ends[0] < ends[1]:
            goals = np.log(deltas[inside])
            answers[inside] = _between(evaluate, ends[0], ends[1], goals, kept)
    for place in np.flatnonzero(np.isnan(answers)):
        answers[place] = alone(float(deltas[place]))
    return answers


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
