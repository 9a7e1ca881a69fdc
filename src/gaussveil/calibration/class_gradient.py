"""What a search for class-label noise minimises: smooth maxima over the label graph, with their gradients.

The noise of label X is N(shift_X, spread_X), so its output is N(mean_X + shift_X, covariance_X + spread_X).
`WorstDelta` looks at the exact delta of every ordered edge; `WorstShift` serves one common covariance with constant
queries, where delta grows with the squared Mahalanobis distance of the two centres and nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.spectrum.gradient import (
    PairGradient,
    both_gradients,
    swap_gradient,
    whiten,
)
from gaussveil.typing import Floats

Edges = NDArray[np.intp]
Device = (
    str | ModuleType | None
)  # a PyTorch device, an array namespace such as the module cupy, or NumPy

SMALLEST_LOG = (
    -60.0
)  # below this a delta counts as zero: nobody needs less, and gradients would be noise
NEAR_ONE = 1 - 1e-13
DEVICE_EDGES = 256  # fewer edges than this are not worth the way to a GPU


class Smooth(NamedTuple):
    """A smooth maximum, its gradients in shifts and spreads, and the figures it was taken over, one row per edge."""

    value: float
    shifts: Floats
    spreads: Floats
    figures: Floats


class Objective(Protocol):
    """Figures of the edges, larger is worse, and their smooth maximum."""

    def smooth(
        self,
        shifts: Floats,
        spreads: Floats,
        sharpness: float,
        chosen: Edges | None = None,
    ) -> Smooth:
        """log-sum-exp of `sharpness` times the figures of the chosen edges, over `sharpness`, with gradients."""

    def each(self, shifts: Floats, spreads: Floats) -> tuple[Floats, Floats, Floats]:
        """Every figure, with rows of gradients in all shifts and all spreads."""


@dataclass(frozen=True, eq=False)
class LabelModels:
    """Public models N(means_X, covariances_X) of the query, one row per label."""

    means: Floats
    covariances: Floats

    @property
    def constant(self) -> bool:
        """Whether every label's query is a constant."""
        return not np.any(self.covariances)


@dataclass(frozen=True, eq=False)
class WorstDelta:
    """log(delta / (1 - delta)) of both orders of every edge, or of the swap of its two labels."""

    models: LabelModels
    edges: Edges
    epsilon: float
    swap: bool = False
    device: Device = None

    def smooth(
        self,
        shifts: Floats,
        spreads: Floats,
        sharpness: float,
        chosen: Edges | None = None,
    ) -> Smooth:
        """Smooth maximum over the chosen edges and both their orders."""
        if chosen is None:
            edges = self.edges
        else:
            edges = self.edges[chosen]
        logs, gradients = self._found(shifts, spreads, edges)
        deltas = np.minimum(np.exp(logs), NEAR_ONE)
        figures = logs - np.log1p(-deltas)
        value, weights = _log_sum_exp(figures, sharpness)
        weights = np.where(logs > SMALLEST_LOG, weights / (1 - deltas), 0.0)
        shift_slopes = np.zeros_like(self.models.means)
        spread_slopes = np.zeros_like(self.models.covariances)
        mean, cov_x, cov_y = (
            sum(
                _scaled(weights[:, side], getattr(gradient, name))
                for side, gradient in enumerate(gradients)
            )
            for name in ("mean_x", "cov_x", "cov_y")
        )
        first = edges[:, 0]
        second = edges[:, 1]
        np.add.at(shift_slopes, first, mean)
        np.subtract.at(shift_slopes, second, mean)
        np.add.at(spread_slopes, first, cov_x)
        np.add.at(spread_slopes, second, cov_y)
        return Smooth(value, shift_slopes, spread_slopes, figures)

    def each(self, shifts: Floats, spreads: Floats) -> tuple[Floats, Floats, Floats]:
        """Every figure, one order after the other, with rows of gradients in all shifts and all spreads."""
        logs, gradients = self._found(shifts, spreads, self.edges)
        deltas = np.minimum(np.exp(logs), NEAR_ONE)
        weights = np.where(logs > SMALLEST_LOG, 1 / (1 - deltas), 0.0)
        count, (labels, size) = len(self.edges), self.models.means.shape
        shift_slopes = np.zeros((len(gradients), count, labels, size))
        spread_slopes = np.zeros((len(gradients), count, labels, size, size))
        rows = np.arange(count)
        first = self.edges[:, 0]
        second = self.edges[:, 1]
        for side, gradient in enumerate(gradients):
            mean = _scaled(weights[:, side], gradient.mean_x)
            shift_slopes[side, rows, first], shift_slopes[side, rows, second] = (
                mean,
                -mean,
            )
            spread_slopes[side, rows, first] = _scaled(weights[:, side], gradient.cov_x)
            spread_slopes[side, rows, second] = _scaled(
                weights[:, side], gradient.cov_y
            )
        figures = (logs - np.log1p(-deltas)).T.ravel()
        return (
            figures,
            shift_slopes.reshape(-1, labels, size),
            spread_slopes.reshape(-1, labels, size, size),
        )

    def _found(
        self, shifts: Floats, spreads: Floats, edges: Edges
    ) -> tuple[Floats, list[PairGradient]]:
        """log deltas of the edges, one column per order, and their gradients."""
        first = edges[:, 0]
        second = edges[:, 1]
        centres = self.models.means + shifts
        covariances = self.models.covariances + spreads
        sides = [
            centres[first],
            covariances[first],
            centres[second],
            covariances[second],
        ]
        pair = whiten(*self._placed(sides))
        away = (
            [swap_gradient(pair, self.epsilon)]
            if self.swap
            else both_gradients(pair, self.epsilon)
        )
        gradients = [PairGradient(*map(_on_host, columns)) for columns in away]
        return np.stack(
            [np.maximum(gradient.log_delta, SMALLEST_LOG) for gradient in gradients],
            axis=1,
        ), gradients

    def _placed(self, sides: list[Floats]) -> list[Any]:
        if self.device is None or len(sides[0]) < DEVICE_EDGES:
            return list(sides)
        if not isinstance(self.device, str):
            return [self.device.asarray(side) for side in sides]
        try:
            import torch  # only where a device was asked for
        except ImportError:
            raise ParameterError(
                f"device={self.device!r} needs PyTorch, which is not installed. Install it, pass an array namespace "
                "such as the module cupy, or leave device out: NumPy gives the same numbers."
            ) from None
        return [
            torch.asarray(side, dtype=torch.float64, device=self.device)
            for side in sides
        ]


@dataclass(frozen=True, eq=False)
class WorstShift:
    """log of the squared Mahalanobis distance of the centres of every edge; all labels share spreads[0]."""

    models: LabelModels
    edges: Edges

    def smooth(
        self,
        shifts: Floats,
        spreads: Floats,
        sharpness: float,
        chosen: Edges | None = None,
    ) -> Smooth:
        """Smooth maximum over the chosen edges."""
        if chosen is None:
            edges = self.edges
        else:
            edges = self.edges[chosen]
        squares, solved = self._found(shifts, spreads, edges)
        figures = np.log(squares)[:, None]
        value, weights = _log_sum_exp(figures, sharpness)
        pull = (weights[:, 0] / squares)[:, None] * solved
        shift_slopes = np.zeros_like(shifts)
        spread_slopes = np.zeros_like(spreads)
        np.add.at(shift_slopes, edges[:, 0], 2 * pull)
        np.subtract.at(shift_slopes, edges[:, 1], 2 * pull)
        spread_slopes[0] = -pull.T @ solved
        return Smooth(value, shift_slopes, spread_slopes, figures)

    def farthest(self, shifts: Floats, spreads: Floats) -> int:
        """The place of the longest edge."""
        return int(np.argmax(self._found(shifts, spreads, self.edges)[0]))

    def each(self, shifts: Floats, spreads: Floats) -> tuple[Floats, Floats, Floats]:
        """Every figure, with rows of gradients in all shifts and in the spread of all labels, kept at the first."""
        squares, solved = self._found(shifts, spreads, self.edges)
        count, (labels, size) = len(self.edges), shifts.shape
        rows = np.arange(count)
        pull = solved / squares[:, None]
        shift_slopes = np.zeros((count, labels, size))
        spread_slopes = np.zeros((count, labels, size, size))
        shift_slopes[rows, self.edges[:, 0]], shift_slopes[rows, self.edges[:, 1]] = (
            2 * pull,
            -2 * pull,
        )
        spread_slopes[:, 0] = -pull[:, :, None] * solved[:, None, :]
        return np.log(squares), shift_slopes, spread_slopes

    def _found(
        self, shifts: Floats, spreads: Floats, edges: Edges
    ) -> tuple[Floats, Floats]:
        """Squared distances of the edges' centres and the gaps over the spread."""
        centres = self.models.means + shifts
        gaps = centres[edges[:, 0]] - centres[edges[:, 1]]
        # A search also tries spreads of hardly any width in some direction: a sum of squares then says "far", as it is,
        # where the product of gaps and a solution may come out as any number.
        widths, axes = np.linalg.eigh(spreads[0])
        roots = np.sqrt(
            np.maximum(widths, max(np.finfo(float).eps * float(widths[-1]), 1e-200))
        )
        whitened = gaps @ axes / roots
        return np.maximum(
            np.sum(whitened**2, axis=1), 1e-300
        ), whitened / roots @ axes.T


def log_delta_of(figure: float) -> float:
    """log delta from log(delta / (1 - delta))."""
    return float(-np.logaddexp(0.0, -figure))


def _scaled(weights: Floats, slopes: Floats) -> Floats:
    # an edge whose delta is zero has slope zero, whatever its weight
    return weights.reshape(-1, *(1,) * (slopes.ndim - 1)) * slopes


def _log_sum_exp(figures: Floats, sharpness: float) -> tuple[float, Floats]:
    peak = float(np.max(figures))
    powers = np.exp(sharpness * (figures - peak))
    total = float(np.sum(powers))
    return peak + float(np.log(total)) / sharpness, powers / total


def _on_host(column: Any) -> Floats:
    """An array of PyTorch, CuPy or another namespace of the standard as NumPy's; of NumPy's, itself."""
    for away in ("cpu", "get"):  # the way off the GPU in PyTorch and in CuPy
        if hasattr(column, away):
            column = getattr(column, away)()
    return np.asarray(
        column if isinstance(column, np.ndarray) else np.from_dlpack(column),
        dtype=np.float64,
    )
