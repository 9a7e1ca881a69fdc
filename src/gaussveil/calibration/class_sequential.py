"""Class-label noise of small problems by sequential quadratic programming, on the edges themselves.

A smooth maximum of n figures is off by log(n) / sharpness and its minimisers crawl along ridges where edges tie. With
few parameters the minimax problem can be solved as it stands, both ways round:

    smallest worst figure:  min t  subject to  figure_e <= t       and  |shift_X|^2 + tr(spread_X) <= budget
    smallest budget:        min b  subject to  figure_e <= target  and  |shift_X|^2 + tr(spread_X) <= b
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.optimize import minimize

from gaussveil.calibration.class_gradient import LabelModels, Objective
from gaussveil.calibration.class_search import Noise, floored, measured
from gaussveil.typing import Floats

MOST_PARAMETERS = 160  # a step costs the cube of this
ITERATIONS = 150
SHARED_ITERATIONS = (
    600  # one covariance has fewer parameters, and near the centre a long way to go
)
FLOOR = 1e-3  # of the mean variance, under the start: a direction without noise is a stationary point
LEAST = 1e-12  # of the largest mean variance, under every trial: rounding must not make it indefinite
GAIN = 1e-9  # steps that gain less end the search


@dataclass(frozen=True, eq=False)
class _Chart:
    """Parameters of noise around a start: shifts if `means`, then one factor for all labels or one each.

    A spread is F M M' F' with F the start's factor and M the parameters, so that all directions have the same scale.
    """

    shifts: Floats
    factors: Floats
    means: bool

    @classmethod
    def around(cls, noise: Noise, means: bool, common: bool) -> _Chart:
        if common:
            spreads = noise.spreads.mean(axis=0, keepdims=True)
        else:
            spreads = noise.spreads
        factors = np.asarray(
            np.linalg.cholesky(floored(spreads, FLOOR)), dtype=np.float64
        )
        return cls(noise.shifts if means else 0 * noise.shifts, factors, means)

    def start(self) -> Floats:
        turned = np.broadcast_to(np.eye(self.shifts.shape[1]), self.factors.shape)
        return np.concatenate(
            [self.shifts.ravel(), turned.ravel()] if self.means else [turned.ravel()]
        )

    def parts(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Shifts and factors, one factor where the spread is common."""
        count, size = self.shifts.shape
        if self.means:
            moved = count * size
        else:
            moved = 0
        if self.means:
            shifts = parameters[:moved].reshape(count, size)
        else:
            shifts = self.shifts
        return shifts, self.factors @ parameters[moved:].reshape(-1, size, size)

    def noise(self, parameters: Floats) -> Noise:
        shifts, factors = self.parts(parameters)
        spreads = factors @ factors.transpose(0, 2, 1)
        # all labels alike: a direction in which none has noise must not tell them apart
        level = np.trace(spreads, axis1=1, axis2=2).max() / spreads.shape[-1]
        spreads = np.broadcast_to(
            spreads + LEAST * level * np.eye(spreads.shape[-1]),
            (len(shifts), *factors.shape[1:]),
        )
        return Noise(shifts, np.array(spreads), math.inf)

    def slopes(self, shift_slopes: Floats, factor_slopes: Floats) -> Floats:
        """Rows of gradients in the parameters from rows of gradients in shifts and factors."""
        rows = len(shift_slopes)
        turned = (self.factors.transpose(0, 2, 1) @ factor_slopes).reshape(rows, -1)
        if self.means:
            return np.hstack([shift_slopes.reshape(rows, -1), turned])
        return turned


def is_small(models: LabelModels, means: bool, common: bool) -> bool:
    """Whether a search has few enough parameters."""
    labels = len(models.means)
    size = int(models.means.shape[1])
    return (labels * size if means else 0) + (
        1 if common else labels
    ) * size**2 <= MOST_PARAMETERS


def least_figure(
    objective: Objective, begin: Noise, budget: float, means: bool, common: bool
) -> Noise:
    """Noise of the smallest worst figure within the budget, searched from `begin`; never worse than `begin`."""
    start = measured(objective, begin.within(budget))
    best = _searched(objective, start, means, common, budget=budget).within(budget)
    best = measured(objective, best)
    if best.figure < start.figure:
        return best
    return start


def least_budget(
    objective: Objective, begin: Noise, target: float, means: bool, common: bool
) -> Noise:
    """Noise of the smallest cost whose worst figure is `target`, to the solver's precision, searched from `begin`."""
    return measured(
        objective, _searched(objective, begin, means, common, target=target)
    )


def _searched(
    objective: Objective,
    begin: Noise,
    means: bool,
    common: bool,
    *,
    budget: float | None = None,
    target: float | None = None,
) -> Noise:
    """Minimise the worst figure (`budget` given) or the cost (`target` given); its last parameter is that minimum."""
    chart = _Chart.around(begin, means, common)
    unit = begin.cost
    count, size = chart.shifts.shape

    @lru_cache(maxsize=2)
    def constraints(point: bytes) -> tuple[Floats, Floats]:
        values = np.frombuffer(point)
        shifts, factors = chart.parts(values[:-1])
        noise = chart.noise(values[:-1])
        figures, shift_slopes, spread_slopes = objective.each(
            noise.shifts, noise.spreads
        )
        if common:
            spread_slopes = spread_slopes.sum(axis=1, keepdims=True)
        slopes = chart.slopes(shift_slopes, 2 * spread_slopes @ factors)
        costs = (np.sum(shifts**2, axis=1) + np.sum(factors**2, axis=(1, 2))) / unit
        own = np.eye(count)[:, :, None]
        spent = 2 * np.broadcast_to(factors, (count, size, size)) / unit
        cost_slopes = chart.slopes(
            own * (2 * shifts / unit),
            spent[:, None] if common else own[..., None] * spent,
        )
        if target is None:
            over = values[-1]
        else:
            over = target
        if budget is None:
            limit = values[-1]
        else:
            limit = budget / unit
        last = np.zeros(len(figures) + count)
        last[: len(figures)] = 1.0 if target is None else 0.0
        last[len(figures) :] = 1.0 if budget is None else 0.0
        rows = np.hstack([-np.concatenate([slopes, cost_slopes]), last[:, None]])
        return np.concatenate([over - figures, limit - costs]), rows

    point = np.append(chart.start(), begin.figure if target is None else 1.0)
    last = np.zeros(point.size)
    last[-1] = 1.0
    solved = minimize(
        lambda values: values[-1],
        point,
        jac=lambda _: last,
        constraints={
            "type": "ineq",
            "fun": lambda values: constraints(values.tobytes())[0],
            "jac": lambda values: constraints(values.tobytes())[1],
        },
        method="SLSQP",
        options={"maxiter": SHARED_ITERATIONS if common else ITERATIONS, "ftol": GAIN},
    )
    if np.isfinite(solved.x).all():
        return chart.noise(solved.x[:-1])
    return begin
