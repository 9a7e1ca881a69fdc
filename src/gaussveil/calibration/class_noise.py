"""Noise that hides which label a Gaussian query belongs to: smallest worst delta in a budget, or smallest budget.

Label X has the public query model N(mean_X, covariance_X); what is released adds N(shift_X, spread_X). Accuracy is
rho = max_X (tr spread_X + |shift_X|^2) / k, the class-based paper's Definition 2 (docs/corrections, K3). Minimised is
the exact delta of the worst ordered edge (K2: the paper's surrogate is no bound), by smooth maxima with exact
gradients. The problem is not convex; the answer is the best of white noise, one common covariance, and one covariance
per label from several starts.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, partial

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.calibration.class_common import Cover, common_noise
from gaussveil.calibration.class_gradient import Array, Edges, LabelModels, WorstDelta, log_delta_of
from gaussveil.calibration.class_search import SHARPNESS, Noise, PerLabel, Report, Shared, descend, floored, measured
from gaussveil.errors import NotFiniteError, NotPositiveDefiniteError, NotSymmetricError, ParameterError, ShapeError

FLOORS = (0.03, 0.3)  # of the mean variance, added where a search starts: under-floored starts stall
DRAWN_FLOOR = 1e-4  # smallest variance of a label's noise against its mean one
SMALLEST_VARIANCE = 1e-8  # and against the largest trace of all labels
CENTRE_VARIANCE = 1e-6  # of the mean variance, where every label releases its centre and needs no noise at all
SMALL_PROBLEM = 60  # labels times dimensions up to which further starts cost little
QUICK = (20.0, 320.0)  # sharpness while the budget is still being found
INSIDE = 1 - 1e-9  # targets are met with room for rounding


@dataclass(frozen=True, eq=False)
class ClassNoise:
    """A noise design: means and covariances of the noise per label, and what they achieve.

    `candidates` holds the worst delta of every kind of noise that was tried, `kind` names the one chosen.
    """

    noise_means: Array
    noise_covariances: Array
    epsilon: float
    log_worst_delta: float
    accuracy: float
    retained_variance: float
    kind: str
    candidates: dict[str, float] = field(default_factory=dict)

    @property
    def worst_delta(self) -> float:
        """Largest exact delta over the ordered edges (or swaps)."""
        return math.exp(self.log_worst_delta)


def design_class_noise(
    means: ArrayLike,
    covariances: ArrayLike | None,
    edges: ArrayLike,
    *,
    epsilon: float,
    accuracy: float | None = None,
    delta: float | None = None,
    noise_means: bool = True,
    common_covariance: bool = False,
    swap: bool = False,
    device: str | None = None,
    report: Report | None = None,
) -> ClassNoise:
    """The noise with the smallest worst delta at `accuracy`, or the smallest accuracy figure that meets `delta`.

    Args:
        means: (labels, k) means of the query, public.
        covariances: (labels, k, k), zero for constant queries; None for all constant.
        edges: (E, 2) unordered pairs of label positions that must look alike.
        epsilon: where delta is taken.
        accuracy: budget rho on the mean squared error per coordinate.
        delta: instead of it, the worst delta to reach.
        noise_means: whether the noise may have label-dependent means.
        common_covariance: whether all labels must share one noise covariance.
        swap: take the delta of two labels changing places, for releases of all labels at once (docs/corrections, K5).
        device: a PyTorch device for the batches of integrals, for example "cuda"; NumPy by default.
        report: called with a word and a fraction as the search goes on.
    """
    models = checked_models(means, covariances)
    pairs = np.asarray(edges, dtype=np.intp)
    if (accuracy is None) == (delta is None):
        raise ParameterError("give exactly one of accuracy and delta: the other one is the answer.")
    search = _Search(models, pairs, epsilon, noise_means, common_covariance, swap, device, report or _silent)
    if accuracy is not None:
        if not 0 < accuracy < math.inf:
            raise ParameterError(f"accuracy must be positive and finite. Got {accuracy!r} instead.")
        return search.finished(search.best(accuracy * models.means.shape[1]))
    assert delta is not None
    if not 0 < delta < 1:
        raise ParameterError(f"delta must lie strictly between 0 and 1. Got {delta!r} instead.")
    return search.finished(search.cheapest(delta))


def checked_models(means: ArrayLike, covariances: ArrayLike | None) -> LabelModels:
    """Query models as arrays, or an error that says which rule they break."""
    centres = np.asarray(means, dtype=np.float64)
    if centres.ndim != 2 or len(centres) < 2 or centres.shape[1] < 1:
        raise ShapeError(f"means must have shape (labels, k) with at least 2 labels. Got {centres.shape} instead.")
    count, size = centres.shape
    spreads = np.zeros((count, size, size)) if covariances is None else np.asarray(covariances, dtype=np.float64)
    if spreads.shape != (count, size, size):
        raise ShapeError(f"covariances must have shape {(count, size, size)}. Got {spreads.shape} instead.")
    if not (np.isfinite(centres).all() and np.isfinite(spreads).all()):
        raise NotFiniteError("means and covariances must be finite. Got NaN or infinity.")
    transposed = spreads.transpose(0, 2, 1)
    scale = np.max(np.abs(spreads), axis=(1, 2), keepdims=True)
    if np.any(np.abs(spreads - transposed) > 1e-10 * scale):
        raise NotSymmetricError("every covariance must be symmetric. Pass (C + C.T) / 2.")
    spreads = (spreads + transposed) / 2
    if np.any(np.linalg.eigvalsh(spreads)[:, 0] < -1e-10 * scale[:, 0, 0]):
        raise NotPositiveDefiniteError("every covariance must be positive semidefinite. Got a negative eigenvalue.")
    return LabelModels(centres, spreads)


def _silent(_word: str, _share: float) -> None:
    return None


@dataclass(frozen=True, eq=False)
class _Search:
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
        return WorstDelta(self.models, self.edges, self.epsilon, self.swap, self.device)

    @cached_property
    def cover(self) -> Cover:
        return Cover.of(self.models, self.edges)

    def drawable(self, noise: Noise) -> Noise:
        """The noise with a floor under its variances, at the same cost: it must be drawn on a grid common to all."""
        spreads = floored(noise.spreads, DRAWN_FLOOR)
        least = SMALLEST_VARIANCE * float(np.max(np.trace(spreads, axis1=1, axis2=2)))
        return measured(self.objective, replace(noise, spreads=spreads + least * np.eye(spreads.shape[-1])))

    def finished(self, found: dict[str, Noise]) -> ClassNoise:
        kind = min(found, key=lambda name: found[name].figure)
        noise = found[kind]
        shown = {name: math.exp(log_delta_of(one.figure)) for name, one in found.items()}
        log_delta = log_delta_of(noise.figure) if kind != "centre" else -math.inf
        before, after = (
            np.sum((rows - rows.mean(axis=0)) ** 2) for rows in (self.models.means, self.models.means + noise.shifts)
        )
        return ClassNoise(
            noise_means=noise.shifts,
            noise_covariances=noise.spreads,
            epsilon=self.epsilon,
            log_worst_delta=log_delta,
            accuracy=noise.cost / self.models.means.shape[1],
            retained_variance=float(after / before) if before > 0 else 1.0,
            kind=kind,
            candidates=shown,
        )

    def white(self, budget: float) -> Noise:
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

    def own(self, budget: float, begin: Noise, sharpness: tuple[float, ...] = SHARPNESS, iterations: int = 80) -> Noise:
        """The best covariance per label that a search from `begin` finds."""
        shape = partial(PerLabel.around, budget=budget, means=self.means)
        return self.drawable(
            descend(self.objective, begin.within(budget), shape, sharpness=sharpness, iterations=iterations)
        )

    def starts(self, budget: float, found: dict[str, Noise]) -> Iterator[Noise]:
        white, shared = found["white"], found["common"]
        if not self.models.constant:
            yield white
        small = self.models.means.size <= SMALL_PROBLEM and not self.models.constant
        for floor in FLOORS if small else FLOORS[:1]:
            yield replace(shared, spreads=floored(shared.spreads, floor))
        if small:
            yield _levelled(self.models, budget)

    def best(self, budget: float) -> dict[str, Noise]:
        """Every kind of noise inside the budget."""
        centre = self.centre(budget)
        found = {"white": self.white(budget)}
        if centre is not None:
            return found | {"centre": centre}
        self.report("one covariance for all labels", 0.05)
        found["common"] = self.shared(budget)
        if not self.common:
            starts, tried = list(self.starts(budget, found)), []
            for number, begin in enumerate(starts):
                self.report("one covariance per label", 0.2 + 0.8 * number / len(starts))
                tried.append(self.own(budget, begin))
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
