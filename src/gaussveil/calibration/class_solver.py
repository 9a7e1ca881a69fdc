"""Searching class-label noise: kinds of noise inside one budget, and the smallest budget that reaches a delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gaussveil.calibration.class_common import Cover, common_noise
from gaussveil.calibration.class_gradient import Edges, LabelModels, WorstDelta
from gaussveil.calibration.class_search import (
    FLOOR,
    SHARPNESS,
    Noise,
    PerLabel,
    Report,
    Shared,
    descend,
    floored,
    measured,
)

FLOORS = (0.03, 0.3)  # of the mean variance, added where a search starts: under-floored starts stall
DRAWN_FLOOR = 1e-4  # smallest variance of a label's noise against its mean one
SMALLEST_VARIANCE = 1e-8  # and against the largest trace of all labels
CENTRE_VARIANCE = 1e-6  # of the mean variance, where every label releases its centre and needs no noise at all
SMALL_PROBLEM = 60  # labels times dimensions up to which further starts cost little
QUICK = (20.0, 320.0)  # sharpness while the budget is still being found
INSIDE = 1 - 1e-9  # targets are met with room for rounding


@dataclass(frozen=True, eq=False)
class Search:
    """Designs for one set of models, one graph and one epsilon."""

    models: LabelModels
    edges: Edges
    epsilon: float
    means: bool
    common: bool
    swap: bool
    device: str | None
    report: Report

    @cached_property
    def objective(self) -> WorstDelta:
        """What is minimised."""
        return WorstDelta(self.models, self.edges, self.epsilon, self.swap, self.device)

    @cached_property
    def cover(self) -> Cover:
        """Balls and ellipsoid of the means."""
        return Cover.of(self.models, self.edges)

    def drawable(self, noise: Noise) -> Noise:
        """The noise with a floor under its variances, at the same cost: it must be drawn on a grid common to all."""
        spreads = floored(noise.spreads, DRAWN_FLOOR)
        least = SMALLEST_VARIANCE * float(np.max(np.trace(spreads, axis1=1, axis2=2)))
        lifted = replace(noise, spreads=spreads + least * np.eye(spreads.shape[-1]))
        return measured(self.objective, lifted.within(noise.cost))

    def white(self, budget: float) -> Noise:
        """White noise that spends the whole budget, the baseline."""
        count, size = self.models.means.shape
        spreads = np.tile(np.eye(size) * budget / size, (count, 1, 1))
        return measured(self.objective, Noise(np.zeros((count, size)), spreads, math.inf))

    def centre(self, budget: float) -> Noise | None:
        """Every label releases its component's centre, if the budget reaches that far."""
        size = self.models.means.shape[1]
        noise = CENTRE_VARIANCE * budget
        if not (self.means and self.models.constant and self.cover.radius**2 <= budget - noise):
            return None
        shifts = self.cover.centres - self.models.means
        return Noise(shifts, np.tile(np.eye(size) * 0.9 * noise / size, (len(shifts), 1, 1)), -math.inf)

    def shared(self, budget: float, begin: Noise | None = None, iterations: int = 200) -> Noise:
        """The best common covariance: a convex problem for constant queries."""
        if self.models.constant:
            found = common_noise(
                self.models, self.edges, self.cover, budget, self.means, begin=begin, iterations=iterations
            )
        else:
            shape = partial(Shared.around, budget=budget, means=self.means)
            begin = self.white(budget) if begin is None else begin.within(budget)
            found = descend(self.objective, begin, shape, iterations=iterations)
        return self.drawable(found)

    def own(
        self,
        budget: float,
        begin: Noise,
        sharpness: tuple[float, ...] = SHARPNESS,
        iterations: int = 80,
        floor: float = FLOOR,
    ) -> Noise:
        """The best covariance per label that a search from `begin` finds."""
        shape = partial(PerLabel.around, budget=budget, means=self.means, floor=floor)
        return self.drawable(
            descend(self.objective, begin.within(budget), shape, sharpness=sharpness, iterations=iterations)
        )

    def searches(self, budget: float, found: dict[str, Noise]) -> list[Callable[[], Noise]]:
        """Searches with one covariance per label, from several starts."""
        white, shared = found["white"], found["common"]
        lifted = [replace(shared, spreads=floored(shared.spreads, floor)) for floor in FLOORS]
        if self.models.constant:
            # the common optimum is sharp already: once from far above it, once from close by
            near = partial(self.own, budget, shared, SHARPNESS[1:], floor=FLOOR / 10)
            return [partial(self.own, budget, lifted[0]), near]
        starts = [white, lifted[0]]
        if self.models.means.size <= SMALL_PROBLEM:
            starts += [lifted[1], _levelled(self.models, budget)]
        return [partial(self.own, budget, start) for start in starts]

    def best(self, budget: float) -> dict[str, Noise]:
        """Every kind of noise inside the budget."""
        centre = self.centre(budget)
        found = {"white": self.white(budget)}
        if centre is not None:
            return found | {"centre": centre}
        self.report("one covariance for all labels", 0.05)
        found["common"] = self.shared(budget)
        if not self.common:
            searches, tried = self.searches(budget, found), []
            for number, search in enumerate(searches):
                self.report("one covariance per label", 0.2 + 0.8 * number / len(searches))
                tried.append(search())
            found["own"] = min(tried, key=lambda noise: noise.figure)
        self.report("done", 1.0)
        return found

    def cheapest(self, delta: float) -> dict[str, Noise]:
        """The smallest budget whose best noise reaches delta: first with one covariance, then with one per label."""
        target = math.log(delta * INSIDE) - math.log1p(-delta * INSIDE)
        found = {"white": _root(self.white, target, self._unit(), 1e-9)}
        limit = found["white"].cost
        if self.means and self.models.constant and (radius := self.cover.radius) > 0:
            centre = self.centre(radius**2 * (1 + 2 * CENTRE_VARIANCE))
            found |= {"centre": centre} if centre is not None else {}
            limit = min(limit, radius**2 * (1 - 1e-6))
        self.report("one covariance for all labels", 0.1)
        warm = _Warm(lambda budget, begin: self.shared(budget, begin, iterations=80))
        if warm(limit).figure <= target:
            found["common"] = _root(warm, target, limit, 1e-3)
        if not self.common:
            begin = found.get("common", found["white"])
            warm = _Warm(lambda budget, begin: self.own(budget, begin or found["white"], QUICK, 25), begin)
            rough = _root(warm, target, begin.cost, 2e-2)
            self.report("one covariance per label", 0.6)
            found["own"] = self._refined(rough, target, warm.slope())
        self.report("done", 1.0)
        reached = {name: noise for name, noise in found.items() if noise.figure <= target}
        kind = min(reached, key=lambda name: reached[name].cost)
        return {kind: reached[kind]}

    def _unit(self) -> float:
        """A budget of the size of the models themselves, where a bracket may start."""
        centred = self.models.means - self.models.means.mean(axis=0)
        own = np.trace(self.models.covariances, axis1=1, axis2=2)
        return float(np.max(np.sum(centred**2, axis=1) + own)) or 1.0

    def _refined(self, begin: Noise, target: float, slope: float) -> Noise:
        """Whole searches at the rough answer's budget and at what its figure then says could be saved."""
        best, budget = begin, begin.cost
        for _ in range(3):
            current = self.own(budget, best)
            if current.figure > target:
                break
            best = min(best, current, key=lambda noise: noise.cost)
            spare = target - current.figure
            if spare < 1e-3 * abs(slope):
                break
            budget = current.cost * math.exp(0.9 * spare / slope)
        return best


class _Warm:
    """A search that begins where the last one ended, and remembers how the figure fell with the log of the budget."""

    def __init__(self, search: Callable[[float, Noise | None], Noise], begin: Noise | None = None) -> None:
        self._search = search
        self._latest = begin
        self._seen: list[tuple[float, float]] = []

    def __call__(self, budget: float) -> Noise:
        self._latest = self._search(budget, self._latest)
        self._seen.append((math.log(budget), self._latest.figure))
        return self._latest

    def slope(self) -> float:
        """Negative: more budget, less delta."""
        (x, y), (u, v) = ([*self._seen, (self._seen[-1][0] + 1, self._seen[-1][1] - 1)])[-3:-1]
        return min(-0.5, (y - v) / (x - u)) if x != u else -1.0


def _root(noise_at: Callable[[float], Noise], target: float, guess: float, tolerance: float) -> Noise:
    """The cheapest noise found on the private side of the target: secant steps in a bracket of log budgets."""
    high, low = guess, guess / 2
    best = noise_at(high)
    while best.figure > target:
        low, high = high, 4 * high
        best = noise_at(high)
    below = noise_at(low)
    while below.figure <= target:
        best, high, low = below, low, low / 4
        if low < 1e-15 * guess:
            return best
        below = noise_at(low)
    upper, lower = best.figure, below.figure
    for _ in range(60):
        if high <= low * (1 + tolerance):
            break
        share = (lower - target) / (lower - max(upper, target - 10)) if lower > target else 0.5
        middle = low * (high / low) ** min(max(share, 0.1), 0.9)
        found = noise_at(middle)
        if found.figure <= target:
            best, high, upper = found, middle, found.figure
        else:
            low, lower = middle, found.figure
    return best


def _levelled(models: LabelModels, budget: float) -> Noise:
    """Noise that fills every label's covariance up towards one common level, as far as the budget reaches."""
    count, size = models.means.shape
    level = float(np.max(np.linalg.eigvalsh(models.covariances)))
    room = level * np.eye(size) - models.covariances + 0.02 * (budget / size + level) * np.eye(size)
    trace = np.trace(room, axis1=1, axis2=2)[:, None, None]
    return Noise(np.zeros((count, size)), room * (budget / trace), math.inf)
