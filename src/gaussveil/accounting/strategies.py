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
from typing import ClassVar

import numpy as np
import scipy

from gaussveil.accounting.buffered_toeplitz import (
    ERRORS,
    MEAN,
    MOST_BUFFERS,
    Buffers,
    best_buffers,
)
from gaussveil.accounting.buffered_toeplitz import MOST_STEPS as MOST_STREAMED
from gaussveil.checks import one_of, whole
from gaussveil.typing import Floats

MOST_STEPS = 8192
ITERATIONS = 200


@dataclass(frozen=True)
class NamedStrategy:
    """A strategy for so many steps."""

    steps: int
    most: ClassVar[int] = MOST_STEPS

    def __post_init__(self) -> None:
        object.__setattr__(
            self, "steps", whole("steps", self.steps, f"[1, {self.most}]")
        )

    @abstractmethod
    def coefficients(self) -> Floats:
        """The first column, from the diagonal downwards."""

    def matrix(self) -> Floats:
        """The whole strategy, for at most 8,192 steps.

        Returns:
            A lower triangular Toeplitz matrix, a row and a column a step.

        Raises:
            ParameterError: there are more steps than that.
        """
        whole("steps", self.steps, f"[1, {MOST_STEPS}]")
        column = np.zeros(self.steps)
        coefficients = self.coefficients()[: self.steps]
        column[: coefficients.size] = coefficients
        row = np.zeros(self.steps)
        row[0] = column[0]
        return np.asarray(scipy.linalg.toeplitz(column, row))


@dataclass(frozen=True)
class BandMF(NamedStrategy):
    """Banded matrix factorisation: so many diagonals that are not zero, the main one included.

    Choquette-Choo et al. 2023, (Amplified) Banded Matrix Factorization; here with equal entries along diagonals.

    Args:
        steps: of the run.
        bands: diagonals, at least 1.

    Raises:
        ParameterError: a number is out of range.

    >>> import gaussveil
    >>> len(gaussveil.BandMF(steps=8, bands=3).coefficients())
    3
    """

    bands: int

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "bands", whole("bands", self.bands, f"[1, {MOST_STEPS}]")
        )

    def coefficients(self) -> Floats:
        """As many as there are bands.

        Returns:
            The first column up to its last band; the first number is 1.
        """
        bands = min(self.bands, self.steps)
        if bands == 1:
            return np.ones(1)
        start = _square_root(bands)

        def error_and_slope(free: Floats) -> tuple[float, Floats]:
            column = np.concatenate([[1.0], free])
            summed = scipy.signal.lfilter([1.0], column, np.ones(self.steps))
            again = scipy.signal.lfilter([1.0], column, summed)
            weighted = np.arange(self.steps, 0, -1) * summed
            error = float(weighted @ summed)
            norm = float(column @ column)
            falls = scipy.signal.correlate(weighted, again, mode="full", method="fft")
            slopes = -2.0 * falls[self.steps : self.steps + bands - 1]
            return math.log(error) + math.log(norm), slopes / error + 2.0 * free / norm

        return np.concatenate([[1.0], _least(error_and_slope, start[1:])])


@dataclass(frozen=True)
class BLT(NamedStrategy):
    """Buffered linear Toeplitz: c_0 = 1, c_t = sum of scale_d decay_d^(t - 1) over a few buffers d.

    Dvijotham, McMahan, Pillutla, Steinke, Thakurta 2024, Efficient and Near-Optimal Noise Generation. It is chosen for
    records in at most `takes` steps, `separation` apart; None for as many as the separation allows. `error` is that of
    the "mean" of all sums, of the "last" one, or of "both".

    Args:
        steps: how many sums.
        buffers: numbers of state; five are within a thousandth of the best.

    Raises:
        ParameterError: a number is out of range, or the records cannot be in so many steps.

    >>> from gaussveil import BLT, MatrixMechanism
    >>> training = MatrixMechanism(BLT(8, 2), noise_multiplier=4.0)
    >>> bool(training.epsilon(1e-6) < 3.0)
    True
    """

    buffers: int = 4
    takes: int | None = 1
    separation: int = 1
    error: str = MEAN
    most: ClassVar[int] = MOST_STREAMED

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(
            self, "buffers", whole("buffers", self.buffers, f"[1, {MOST_BUFFERS}]")
        )
        object.__setattr__(
            self,
            "separation",
            whole("separation", self.separation, f"[1, {self.most}]"),
        )
        if self.takes is not None:
            object.__setattr__(
                self, "takes", whole("takes", self.takes, f"[1, {self.most}]")
            )
        one_of("error", self.error, ERRORS)

    @property
    def found(self) -> Buffers:
        """The buffers."""
        allowed = -(-self.steps // self.separation)
        if self.takes is None:
            takes = allowed
        else:
            takes = min(self.takes, allowed)
        return best_buffers(
            self.steps, self.buffers, takes, self.separation, self.error
        )

    def coefficients(self) -> Floats:
        """As many as there are steps.

        Returns:
            The first column; the first number is 1.
        """
        return self.found.coefficients(self.steps)


def _square_root(size: int) -> Floats:
    """First coefficients of (1 - x)^(-1/2)."""
    steps = np.arange(1, size)
    return np.concatenate([[1.0], np.cumprod((2.0 * steps - 1.0) / (2.0 * steps))])


def _least(error_and_slope: Callable[[Floats], object], start: Floats) -> Floats:
    """Where an error is least, near the start, with no coefficient below zero."""
    bounds = [(0.0, None)] * start.size
    options = {"maxiter": ITERATIONS, "maxfun": 20 * ITERATIONS}
    minimum = scipy.optimize.minimize(
        error_and_slope,
        start,
        jac=True,
        method="L-BFGS-B",
        bounds=bounds,
        options=options,
    )
    return np.asarray(minimum.x)
