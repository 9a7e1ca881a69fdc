"""Searching noise shapes inside an accuracy budget: parametrisations that cannot leave it, and sharpening stages.

Every label may spend |shift|^2 + tr(spread) <= budget. `PerLabel` writes (shift, factor, slack) of each label as a
vector of length sqrt(budget), spread = factor factor'. `Shared` gives all labels one spread and keeps each shift in the
ball that is left. Both are smooth and onto, so that an unconstrained quasi-Newton method serves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np
from scipy.optimize import minimize

from gaussveil.calibration.class_gradient import Edges, Objective
from gaussveil.typing import Floats

SHARPNESS = (20.0, 160.0, 1280.0, 10240.0)
WORTH_GOING_ON = 5e-4  # a stage that gains less ends the search, once it is
SHARP = 640.0
ROUNDS = 5  # of one stage: edges left out that catch up are taken in, from the best noise so far
FAR_ENOUGH = -32.0
KEPT = 60.0  # edges whose weight in the smooth maximum is below exp(-KEPT) are left out
LEAST_SLACK = 0.01  # of the length of a label's vector
DRAWN_FLOOR = (
    1e-4  # smallest variance of a label's noise against its mean one, once it is drawn
)
FLOOR = 3e-3  # of the mean variance, put under every stage's start: directions without noise are stationary points


@dataclass(frozen=True, eq=False)
class Noise:
    """Noise means and covariances, one per label, and the worst figure that an objective found for them.

    `gap`, where it is proven: how far above the least of its kind it is at most, relatively, in what was minimised.
    """

    shifts: Floats
    spreads: Floats
    figure: float
    gap: float | None = None

    @property
    def cost(self) -> float:
        """Largest |shift|^2 + tr(spread) over the labels."""
        return float(
            np.max(
                np.sum(self.shifts**2, axis=1)
                + np.trace(self.spreads, axis1=1, axis2=2)
            )
        )

    def within(self, budget: float) -> Noise:
        """The noise scaled down to a budget, if it costs more."""
        share = min(1.0, budget / self.cost)
        if share < 1:
            return Noise(math.sqrt(share) * self.shifts, share * self.spreads, math.inf)
        return self


class Shape(Protocol):
    """A map from unconstrained parameters to noise inside the budget."""

    def start(self) -> Floats:
        """Parameters of the noise it was built around."""

    def noise(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Shifts and spreads."""

    def slopes(
        self, parameters: Floats, shift_slopes: Floats, spread_slopes: Floats
    ) -> Floats:
        """Gradient in the parameters from gradients in shifts and spreads."""


@dataclass(frozen=True, eq=False)
class PerLabel:
    """One covariance per label, around a given noise; without `means` the shifts stay zero."""

    shifts: Floats
    factors: Floats
    budget: float
    means: bool

    @classmethod
    def around(
        cls, noise: Noise, budget: float, means: bool, floor: float = FLOOR
    ) -> PerLabel:
        """Parametrise the neighbourhood of a noise with positive definite covariances."""
        factors = np.asarray(
            np.linalg.cholesky(floored(noise.spreads, floor)), dtype=np.float64
        )
        return cls(noise.shifts if means else 0 * noise.shifts, factors, budget, means)

    def start(self) -> Floats:
        """Shifts, identity multipliers and the slack that is left, never zero: that would be a stationary point."""
        count, size = self.shifts.shape
        spent = np.sum(self.shifts**2, axis=1) + np.sum(self.factors**2, axis=(1, 2))
        slack = np.sqrt(np.maximum(self.budget - spent, LEAST_SLACK**2 * self.budget))
        turned = np.broadcast_to(np.eye(size), (count, size, size))
        return self._joined(self.shifts, turned, slack)

    def noise(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Shifts and spreads."""
        shifts, factors, _, length = self._scaled(parameters)
        scale = np.sqrt(self.budget) / length
        factors = factors * scale[:, None, None]
        return shifts * scale[:, None], factors @ factors.transpose(0, 2, 1)

    def slopes(
        self, parameters: Floats, shift_slopes: Floats, spread_slopes: Floats
    ) -> Floats:
        """Gradient in the parameters."""
        shifts, factors, slack, length = self._scaled(parameters)
        scale = np.sqrt(self.budget) / length
        factor_slopes = 2 * spread_slopes @ factors * scale[:, None, None]
        # the normalisation takes out the part of the gradient along the vector itself
        along = np.sum(factor_slopes * factors, axis=(1, 2))
        if self.means:
            along = along + np.sum(shift_slopes * shifts, axis=1)
        along = along / length**2
        turned = self.factors.transpose(0, 2, 1) @ (
            factor_slopes - along[:, None, None] * factors
        )
        return self._joined(
            (shift_slopes - along[:, None] * shifts) * scale[:, None],
            turned * scale[:, None, None],
            -along * slack * scale,
        )

    def _joined(self, shifts: Floats, turned: Floats, slack: Floats) -> Floats:
        pieces = [turned.ravel(), slack]
        return np.concatenate([shifts.ravel(), *pieces] if self.means else pieces)

    def _scaled(self, parameters: Floats) -> tuple[Floats, Floats, Floats, Floats]:
        count, size = self.shifts.shape
        if self.means:
            shifts = parameters[: count * size].reshape(count, size)
            parameters = parameters[count * size :]
        else:
            shifts = np.zeros((count, size))
        factors = self.factors @ parameters[: count * size**2].reshape(
            count, size, size
        )
        slack = parameters[count * size**2 :]
        length = np.sqrt(
            np.sum(shifts**2, axis=1) + np.sum(factors**2, axis=(1, 2)) + slack**2
        )
        return shifts, factors, slack, length


@dataclass(frozen=True, eq=False)
class Shared:
    """One covariance for all labels, around a given noise; without `means` it spends the whole budget."""

    shifts: Floats
    factor: Floats
    budget: float
    means: bool

    @classmethod
    def around(cls, noise: Noise, budget: float, means: bool) -> Shared:
        """Parametrise the neighbourhood of a noise with one positive definite covariance."""
        spread = floored(np.mean(noise.spreads, axis=0), FLOOR)
        left = budget - (np.max(np.sum(noise.shifts**2, axis=1)) if means else 0.0)
        spread = spread * min(1.0, max(left, 1e-3 * budget) / np.trace(spread))
        return cls(
            noise.shifts if means else 0 * noise.shifts,
            np.linalg.cholesky(spread),
            budget,
            means,
        )

    def start(self) -> Floats:
        """Multipliers of the factor, then shifts over the ball's radius and slacks."""
        size = len(self.factor)
        if not self.means:
            return np.eye(size).ravel()
        room = self.budget - np.sum(self.factor**2)
        if room > 0:
            scale = 1.0
        else:
            scale = math.sqrt(
                (1 - LEAST_SLACK) * self.budget / float(np.sum(self.factor**2))
            )
        room = self.budget - scale**2 * np.sum(self.factor**2)
        inner = self.shifts / np.sqrt(room)
        slack = np.sqrt(np.maximum(1 - np.sum(inner**2, axis=1), LEAST_SLACK**2))
        # tr(spread) is budget M / (M + 1), M the squared norm of factor times multipliers over sqrt(room)
        return np.concatenate(
            [(np.eye(size) * scale / np.sqrt(room)).ravel(), inner.ravel(), slack]
        )

    def noise(self, parameters: Floats) -> tuple[Floats, Floats]:
        """Shifts and spreads, the spreads being views of one."""
        factor, mass, inner, _, length = self._parts(parameters)
        count, size = self.shifts.shape
        if not self.means:
            spread = factor @ factor.T * (self.budget / mass)
            return np.zeros((count, size)), np.broadcast_to(spread, (count, size, size))
        share = self.budget / (1 + mass)
        spread = factor @ factor.T * share
        return np.sqrt(share) * inner / length[:, None], np.broadcast_to(
            spread, (count, size, size)
        )

    def slopes(
        self, parameters: Floats, shift_slopes: Floats, spread_slopes: Floats
    ) -> Floats:
        """Gradient in the parameters."""
        factor, mass, inner, slack, length = self._parts(parameters)
        total = np.sum(spread_slopes, axis=0)
        pulled = 2 * total @ factor
        along = np.sum(pulled * factor)
        if not self.means:
            return np.asarray(
                (
                    self.factor.T
                    @ (pulled - along / mass * factor)
                    * (self.budget / mass)
                ).ravel()
            )
        share = self.budget / (1 + mass)
        direction = inner / length[:, None]
        shift_along = np.sum(shift_slopes * direction, axis=1)
        # d share / d factor = -2 share / (1 + mass) factor
        share_slope = along / 2 + 0.5 / np.sqrt(share) * np.sum(shift_along)
        factor_slopes = share * pulled - 2 * share / (1 + mass) * share_slope * factor
        scale = np.sqrt(share) / length
        inner_slopes = (shift_slopes - shift_along[:, None] * direction) * scale[
            :, None
        ]
        slack_slopes = -shift_along * slack / length * scale
        return np.concatenate(
            [
                (self.factor.T @ factor_slopes).ravel(),
                inner_slopes.ravel(),
                slack_slopes,
            ]
        )

    def _parts(
        self, parameters: Floats
    ) -> tuple[Floats, float, Floats, Floats, Floats]:
        count, size = self.shifts.shape
        factor = self.factor @ parameters[: size**2].reshape(size, size)
        mass = float(np.sum(factor**2))
        if not self.means:
            none = np.zeros(0)
            return factor, mass, none, none, none
        inner = parameters[size**2 : size**2 + count * size].reshape(count, size)
        slack = parameters[size**2 + count * size :]
        return factor, mass, inner, slack, np.sqrt(np.sum(inner**2, axis=1) + slack**2)


def floored(spreads: Floats, floor: float) -> Floats:
    """Covariances with `floor` times their mean variance added in every direction, at the same trace."""
    size = spreads.shape[-1]
    level = np.trace(spreads, axis1=-2, axis2=-1)[..., None, None] / size
    return np.asarray((spreads + floor * level * np.eye(size)) / (1 + floor))


def measured(objective: Objective, noise: Noise) -> Noise:
    """The noise with its worst figure over all edges."""
    smooth = objective.smooth(noise.shifts, noise.spreads, 1.0)
    return replace(noise, figure=float(np.max(smooth.figures)))


def descend(
    objective: Objective,
    begin: Noise,
    shape: Callable[[Noise], Shape],
    *,
    sharpness: tuple[float, ...] = SHARPNESS,
    iterations: int = 80,
    far_enough: float = FAR_ENOUGH,
) -> Noise:
    """Best noise found from `begin` by minimising sharper and sharper smooth maxima; never worse than `begin`."""
    best = measured(objective, begin)
    for sharp in sharpness:
        before = best.figure
        current = _stage(objective, best, shape, sharp, iterations)
        if current.figure < best.figure:
            best = current
        gained = before - best.figure
        if best.figure < far_enough or (sharp >= SHARP and gained < WORTH_GOING_ON):
            break
    return best


def _stage(
    objective: Objective,
    begin: Noise,
    shape: Callable[[Noise], Shape],
    sharpness: float,
    iterations: int,
) -> Noise:
    """One smooth maximum minimised over the edges that weigh in it; edges that catch up are taken in and it goes on."""
    around = shape(begin)
    point = around.start()
    shifts, spreads = around.noise(point)
    figures = objective.smooth(shifts, spreads, sharpness).figures.max(axis=1)
    chosen: Edges = np.flatnonzero(figures >= np.max(figures) - KEPT / sharpness)

    def value(parameters: Floats) -> tuple[float, Floats]:
        noise = around.noise(parameters)
        smooth = objective.smooth(*noise, sharpness, chosen)
        return smooth.value, around.slopes(parameters, smooth.shifts, smooth.spreads)

    best = Noise(shifts, np.array(spreads), float(np.max(figures)))
    for _ in range(ROUNDS):
        solved = minimize(
            value,
            point,
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": iterations, "maxcor": 20, "ftol": 1e-9},
        )
        shifts, spreads = around.noise(solved.x)
        figures = objective.smooth(shifts, spreads, sharpness).figures.max(axis=1)
        if (worst := float(np.max(figures))) < best.figure:
            best = Noise(shifts, np.array(spreads), worst)
            point = solved.x
        late = np.flatnonzero(figures > np.max(figures[chosen]) - 5 / sharpness)
        if np.isin(late, chosen).all():
            break
        chosen = np.union1d(chosen, late)
    return best
