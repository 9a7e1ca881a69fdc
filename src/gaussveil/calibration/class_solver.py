"""Searching class-label noise: kinds of noise inside one budget, and the smallest budget that reaches a delta."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property, partial

import numpy as np

from gaussveil.calibration.budget_root import Warm, cheapest_within
from gaussveil.calibration.class_common import (
    Cover,
    cheapest_common_noise,
    common_noise,
)
from gaussveil.calibration.class_convex import solvable
from gaussveil.calibration.class_gradient import (
    Device,
    Edges,
    LabelModels,
    Objective,
    WorstDelta,
    WorstShift,
)
from gaussveil.calibration.class_search import (
    DRAWN_FLOOR,
    FLOOR,
    SHARPNESS,
    Noise,
    PerLabel,
    Shared,
    descend,
    floored,
    measured,
)
from gaussveil.calibration.class_sequential import is_small, least_budget, least_figure
from gaussveil.calibration.gaussian import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.typing import Progress

FLOORS = (
    0.03,
    0.3,
)  # of the mean variance, added where a search starts: under-floored starts stall
SMALLEST_VARIANCE = 1e-8  # and against the largest trace of all labels
CENTRE_VARIANCE = 1e-6  # of the mean variance, where every label releases its centre and needs no noise at all
SMALL_PROBLEM = 60  # labels times dimensions up to which further starts cost little
TOLERANCE = 1e-4  # of the budget of one covariance, where it is not exact
STRETCH = 1e-6  # of the spreads, when they are scaled to the target
ROUGH = 2e-2  # of the budget of one covariance per label, before it is refined
QUICK = (20.0, 320.0)  # sharpness while the budget is still being found
INSIDE = 1 - 1e-9  # targets are met with room for rounding
WORTH_LOOKING_AFAR = 0.01  # in log odds of delta: what one covariance per label must gain near the best common one


@dataclass(frozen=True, eq=False)
class Search:
    """Designs for one set of models, one graph and one epsilon."""

    models: LabelModels
    edges: Edges
    epsilon: float
    means: bool
    common: bool
    swap: bool
    device: Device
    report: Progress

    @cached_property
    def objective(self) -> WorstDelta:
        """What is minimised."""
        return WorstDelta(self.models, self.edges, self.epsilon, self.swap, self.device)

    @cached_property
    def cover(self) -> Cover:
        """Balls and ellipsoid of the means."""
        return Cover.of(self.models, self.edges)

    def drawable(self, noise: Noise) -> Noise:
        """The noise with a floor under its variances, at the same cost: it must be drawn on a grid common to all.

        All labels are lifted alike: a direction in which none has noise must not tell them apart by their floors.
        """
        traces = np.trace(noise.spreads, axis1=1, axis2=2)
        size = noise.spreads.shape[-1]
        floor = max(
            DRAWN_FLOOR * float(np.min(traces)) / size,
            SMALLEST_VARIANCE * float(np.max(traces)),
        )
        lift = max(0.0, floor - float(np.min(np.linalg.eigvalsh(noise.spreads))))
        lifted = replace(noise, spreads=noise.spreads + lift * np.eye(size))
        return self.evaluated(lifted.within(noise.cost))

    def evaluated(self, noise: Noise) -> Noise:
        """The noise with its worst exact delta; of constant queries and one covariance the farthest edge has it."""
        if not self.models.constant or np.any(noise.spreads != noise.spreads[:1]):
            return measured(self.objective, noise)
        longest = WorstShift(self.models, self.edges).farthest(
            noise.shifts, noise.spreads
        )
        figures = self.objective.smooth(
            noise.shifts, noise.spreads, 1.0, np.array([longest])
        ).figures
        return replace(noise, figure=float(np.max(figures)))

    def white(self, budget: float) -> Noise:
        """White noise that spends the whole budget, the baseline."""
        count, size = self.models.means.shape
        spreads = np.tile(np.eye(size) * budget / size, (count, 1, 1))
        return self.evaluated(Noise(np.zeros((count, size)), spreads, math.inf))

    def centre(self, budget: float) -> Noise | None:
        """Every label releases its component's centre, if the budget reaches that far."""
        size = self.models.means.shape[1]
        noise = CENTRE_VARIANCE * budget
        if not (
            self.means
            and self.models.constant
            and self.cover.radius**2 <= budget - noise
        ):
            return None
        shifts = self.cover.centres - self.models.means
        return Noise(
            shifts,
            np.tile(np.eye(size) * 0.9 * noise / size, (len(shifts), 1, 1)),
            -math.inf,
        )

    def small(self, common: bool) -> bool:
        """Whether the problem can be solved as it stands, without smooth maxima."""
        return is_small(self.models, self.means, common)

    def shared(
        self, budget: float, begin: Noise | None = None, iterations: int = 200
    ) -> Noise:
        """The best common covariance: a convex problem for constant queries."""
        if self.models.constant:
            noise = common_noise(
                self.models, self.edges, self.cover, budget, self.means
            )
        elif self.small(common=True):
            if begin is None:
                start = self.white(budget)
            else:
                start = begin
            noise = least_figure(self.objective, start, budget, self.means, True)
        else:
            shape = partial(Shared.around, budget=budget, means=self.means)
            if begin is None:
                begin = self.white(budget)
            else:
                begin = begin.within(budget)
            noise = descend(self.objective, begin, shape, iterations=iterations)
        return self.drawable(noise)

    def own(
        self,
        budget: float,
        begin: Noise,
        sharpness: tuple[float, ...] = SHARPNESS,
        iterations: int = 80,
        floor: float = FLOOR,
    ) -> Noise:
        """The best covariance per label that a search from `begin` finds."""
        if self.small(common=False):
            return self.drawable(
                least_figure(self.objective, begin, budget, self.means, False)
            )
        shape = partial(PerLabel.around, budget=budget, means=self.means, floor=floor)
        return self.drawable(
            descend(
                self.objective,
                begin.within(budget),
                shape,
                sharpness=sharpness,
                iterations=iterations,
            )
        )

    def searches(
        self, budget: float, found: dict[str, Noise]
    ) -> list[Callable[[], Noise]]:
        """Searches with one covariance per label, from several starts."""
        white = found["white"]
        shared = found["common"]
        lifted = [
            replace(shared, spreads=floored(shared.spreads, floor)) for floor in FLOORS
        ]
        if self.models.constant:
            if self.small(common=False):
                return [partial(self.own, budget, lifted[0])]
            # the common optimum is sharp already: from close by, and where that gains, also from far above it
            near = partial(self.own, budget, shared, SHARPNESS[1:], floor=FLOOR / 10)
            return [near, partial(self.own, budget, lifted[0])]
        starts = [white, lifted[0]]
        if self.models.means.size <= SMALL_PROBLEM:
            starts += [lifted[1], _levelled(self.models, budget)]
        return [partial(self.own, budget, start) for start in starts]

    def best(self, budget: float) -> dict[str, Noise]:
        """Every kind of noise inside the budget."""
        centre = self.centre(budget)
        kinds = {"white": self.white(budget)}
        if centre is not None:
            return kinds | {"centre": replace(centre, gap=0.0)}
        self.report("one covariance for all labels", 0.05)
        kinds["common"] = self.shared(budget)
        if not self.common:
            searches = self.searches(budget, kinds)
            tried = []
            for number, search in enumerate(searches):
                self.report(
                    "one covariance per label", 0.2 + 0.8 * number / len(searches)
                )
                tried.append(search())
                if (
                    self.models.constant
                    and kinds["common"].figure - tried[0].figure < WORTH_LOOKING_AFAR
                ):
                    break
            kinds["own"] = min(tried, key=lambda noise: noise.figure)
        self.report("done", 1.0)
        return kinds

    def cheapest(self, delta: float) -> dict[str, Noise]:
        """The smallest budget whose best noise reaches delta: first with one covariance, then with one per label."""
        target = math.log(delta * INSIDE) - math.log1p(-delta * INSIDE)
        kinds = {"white": self._cheapest_white(target, delta)}
        if self.means and self.models.constant and (radius := self.cover.radius) > 0:
            centre = self.centre(radius**2 * (1 + 2 * CENTRE_VARIANCE))
            kinds |= {"centre": centre} if centre is not None else {}
        self.report("one covariance for all labels", 0.1)
        kinds["common"] = self._cheapest_shared(kinds["white"], target, delta)
        if not self.common:
            self.report("one covariance per label", 0.5)
            kinds["own"] = self._cheapest_own(kinds, target)
        self.report("done", 1.0)
        reached = {
            name: noise for name, noise in kinds.items() if noise.figure <= target
        }
        if not reached:
            raise ParameterError(
                f"delta must be larger: no noise looked at reaches it. Got {delta!r}."
            )
        kind = min(reached, key=lambda name: reached[name].cost)
        return {kind: reached[kind]}

    def _square(self, delta: float) -> float:
        """How far apart the centres of constant queries may be, squared; of two that change places half as much."""
        square = mean_shift_for(self.epsilon, delta * INSIDE) ** 2
        if self.swap:
            return square / 2
        return square

    def _cheapest_white(self, target: float, delta: float) -> Noise:
        """White noise: of constant queries in closed form, else searched."""
        guess = self._unit()
        if self.models.constant:
            longest = float(np.max(np.sum(self.cover.gaps**2, axis=1)))
            guess = (
                longest * self.models.means.shape[1] / (self._square(delta) * INSIDE)
                or 1.0
            )
            noise = self.white(guess)
            if noise.figure <= target:
                return noise
        return cheapest_within(self.white, target, guess, 1e-9)

    def _shared_of_random(self, white: Noise, target: float) -> Noise:
        if self.small(common=True):
            tightened = self._tightened(
                self.objective, white, target, target, common=True
            )
            return tightened or white
        return cheapest_within(
            Warm(lambda budget, begin: self.shared(budget, begin, 80)),
            target,
            white.cost,
            TOLERANCE,
        )

    def _cheapest_shared(self, white: Noise, target: float, delta: float) -> Noise:
        """One covariance: for constant queries the exact optimum, for random ones searched from white noise."""
        if not self.models.constant:
            return self._shared_of_random(white, target)
        if self.cover.radius == 0:
            return white
        square = self._square(delta)
        if not self.means:
            begin = self.cover.reaching(self.models, square, False)
            return cheapest_within(self.shared, target, begin.cost, 1e-9)
        if square <= CENTRE_VARIANCE:
            return white  # the centre itself costs hardly more, and doubles hardly tell the two apart
        cheapest = self.drawable(
            cheapest_common_noise(self.models, self.edges, self.cover, square * INSIDE)
        )
        if cheapest.gap is not None and cheapest.figure <= target:
            return cheapest
        if solvable(self.models, self.edges):
            return self._reaching(cheapest, target)
        return cheapest_within(self.shared, target, cheapest.cost, TOLERANCE)

    def _cheapest_own(self, kinds: dict[str, Noise], target: float) -> Noise:
        """One covariance per label, from what is known with one for all."""
        starts = [kinds["white"], kinds["common"]]
        if self.small(common=False):
            if self.models.constant:
                begins = starts[1:]
            else:
                begins = starts
            lifted = [
                replace(begin, spreads=floored(begin.spreads, FLOORS[0]))
                for begin in begins
            ]
            tried = [
                self._tightened(self.objective, begin, target, target, common=False)
                for begin in lifted
            ]
            return min(
                (noise for noise in [*starts, *tried] if noise is not None),
                key=lambda noise: noise.cost,
            )
        begin = min(
            (noise for noise in starts if noise.figure <= target),
            key=lambda noise: noise.cost,
        )
        warm = Warm(
            lambda budget, begin: self.own(budget, begin or kinds["white"], QUICK, 25),
            begin,
        )
        rough = cheapest_within(warm, target, begin.cost, ROUGH)
        return self._refined(rough, target, warm.slope())

    def _tightened(
        self, goal: Objective, begin: Noise, aim: float, target: float, common: bool
    ) -> Noise | None:
        """Cheapest noise whose worst figure of `goal` is `aim` and that reaches the target once it can be drawn."""
        searched = least_budget(goal, measured(goal, begin), aim, self.means, common)
        both = [
            self._reaching(self.drawable(noise), target) for noise in (begin, searched)
        ]
        return min(
            (noise for noise in both if noise.figure <= target),
            key=lambda noise: noise.cost,
            default=None,
        )

    def _reaching(self, noise: Noise, target: float) -> Noise:
        """The noise with its spreads scaled to the target: they gave way to a floor, and a solver is not exact."""
        return cheapest_within(
            lambda scale: self.evaluated(replace(noise, spreads=scale * noise.spreads)),
            target,
            1.0,
            STRETCH,
        )

    def _unit(self) -> float:
        """A budget of the size of the models themselves, where a bracket may start."""
        centred = self.models.means - self.models.means.mean(axis=0)
        own = np.trace(self.models.covariances, axis1=1, axis2=2)
        return float(np.max(np.sum(centred**2, axis=1) + own)) or 1.0

    def _refined(self, begin: Noise, target: float, slope: float) -> Noise:
        """Whole searches at the rough answer's budget and at what its figure then says could be saved."""
        best = begin
        budget = begin.cost
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


def _levelled(models: LabelModels, budget: float) -> Noise:
    """Noise that fills every label's covariance up towards one common level, as far as the budget reaches."""
    count, size = models.means.shape
    level = float(np.max(np.linalg.eigvalsh(models.covariances)))
    room = (
        level * np.eye(size)
        - models.covariances
        + 0.02 * (budget / size + level) * np.eye(size)
    )
    trace = np.trace(room, axis1=1, axis2=2)[:, None, None]
    return Noise(np.zeros((count, size)), room * (budget / trace), math.inf)
