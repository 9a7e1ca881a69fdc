"""Strategies by name for `MatrixMechanism`: `BandMF` and `BLT`, lower triangular, Toeplitz, nowhere negative.

Both are chosen for prefix sums of gradients, A = C^-1 C with A the lower triangle of ones: coefficients c minimise the
mean squared error of A C^-1 times the squared norm of C's first column, from the square root of A as a start (c_t =
E theta^t with theta of the arcsine law). Any coefficients are private as counted; these are good ones.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import scipy

from gaussveil.checks import whole
from gaussveil.typing import Floats

MOST_STEPS = 8192
MOST_BUFFERS = 10
ITERATIONS = 200


@dataclass(frozen=True)
class NamedStrategy:
    """A strategy for so many steps."""

    steps: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", whole("steps", self.steps, f"[1, {MOST_STEPS}]"))

    @abstractmethod
    def coefficients(self) -> Floats:
        """The first column, from the diagonal downwards."""

    def matrix(self) -> Floats:
        """The whole strategy."""
        column = np.zeros(self.steps)
        given = self.coefficients()[: self.steps]
        column[: given.size] = given
        row = np.zeros(self.steps)
        row[0] = column[0]
        return np.asarray(scipy.linalg.toeplitz(column, row))


@dataclass(frozen=True)
class BandMF(NamedStrategy):
    """Banded matrix factorisation: so many diagonals that are not zero, the main one included.

    Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization; here with equal entries along diagonals.
    """

    bands: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "bands", whole("bands", self.bands, f"[1, {MOST_STEPS}]"))

    def coefficients(self) -> Floats:
        """As many as there are bands."""
        bands = min(self.bands, self.steps)
        if bands == 1:
            return np.ones(1)
        start = _square_root(bands)

        def error_and_slope(free: Floats) -> tuple[float, Floats]:
            column = np.concatenate([[1.0], free])
            summed = scipy.signal.lfilter([1.0], column, np.ones(self.steps))
            again = scipy.signal.lfilter([1.0], column, summed)
            weighted = np.arange(self.steps, 0, -1) * summed
            error, norm = float(weighted @ summed), float(column @ column)
            falls = scipy.signal.correlate(weighted, again, mode="full", method="fft")
            slopes = -2.0 * falls[self.steps : self.steps + bands - 1]
            return math.log(error) + math.log(norm), slopes / error + 2.0 * free / norm

        return np.concatenate([[1.0], _least(error_and_slope, start[1:], jacobian=True)])


@dataclass(frozen=True)
class BLT(NamedStrategy):
    """Buffered linear Toeplitz: c_0 = 1, c_t = sum of scale_d decay_d^(t - 1) over a few buffers d.

    Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, Efficient and Near-Optimal Noise Generation.
    """

    buffers: int = 4

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "buffers", whole("buffers", self.buffers, f"[1, {MOST_BUFFERS}]"))

    def coefficients(self) -> Floats:
        """As many as there are steps; what would be below 1e-300 is nothing."""
        scales, decays = self._scales_and_decays()
        powers = decays ** np.arange(self.steps - 1)[:, None]
        return np.concatenate([[1.0], powers @ scales])

    def _scales_and_decays(self) -> tuple[Floats, Floats]:
        # The arcsine law in pieces that shrink towards 1: the mass of each, and a point in its middle.
        ends = 1.0 - np.concatenate([np.geomspace(1.0, 1.0 / self.steps, self.buffers + 1)[:-1], [0.0]])
        masses = np.diff(2.0 / np.pi * np.arcsin(np.sqrt(ends)))
        decays = np.minimum(1.0 - np.sqrt((1.0 - ends[:-1]) * np.maximum(1.0 - ends[1:], 0.3 / self.steps)), 1 - 1e-9)
        start = np.concatenate([np.log(masses * np.maximum(decays, 0.1)), _logit(np.maximum(decays, 0.05))])

        def error(free: Floats) -> float:
            scales, decays = np.exp(free[: self.buffers]), scipy.special.expit(free[self.buffers :])
            below = np.poly(decays)  # the series is 1 + x sum scale / (1 - decay x), a quotient of polynomials
            above = below.copy()
            for index, scale in enumerate(scales):
                above[1:] += scale * np.poly(np.delete(decays, index))
            summed = scipy.signal.lfilter(below, above, np.ones(self.steps))
            column = scipy.signal.lfilter(above, below, np.eye(1, self.steps)[0])
            squares = np.clip(summed, -1e100, 1e100) ** 2
            return math.log(float(np.arange(self.steps, 0, -1) @ squares)) + math.log(float(column @ column))

        free = _least(error, start, jacobian=False)
        return np.exp(free[: self.buffers]), scipy.special.expit(free[self.buffers :])


def _square_root(size: int) -> Floats:
    """First coefficients of (1 - x)^(-1/2)."""
    steps = np.arange(1, size)
    return np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])


def _logit(values: Floats) -> Floats:
    return np.asarray(np.log(values) - np.log1p(-values))


def _least(error: Callable[[Floats], object], start: Floats, *, jacobian: bool) -> Floats:
    """Where an error is least, near the start; with slopes no coefficient is negative."""
    bounds = [(0.0, None)] * start.size if jacobian else [(-30.0, 30.0)] * start.size
    options = {"maxiter": ITERATIONS, "maxfun": 20 * ITERATIONS}
    found = scipy.optimize.minimize(error, start, jac=jacobian, method="L-BFGS-B", bounds=bounds, options=options)
    return np.asarray(found.x)
