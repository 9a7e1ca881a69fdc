"""`MatrixMechanism`: noise that is correlated over training steps, as one Gaussian pair or as steps on random batches.

With clipped gradients G (one row a step) and a strategy C, lower triangular, C G + s Z is released; what optimisers see
is post-processing of it. As C is lower triangular, gradients may follow earlier outputs (Denisov, McMahan, Rush, Smith,
Thakurta 2022, Theorem 2.1). A record that takes part in the steps of a pattern moves C G by at most the root of
sum |X_ij| over the pattern's pairs of steps, X = C^T C (derived: docs/math/subsampled). Records may also be given to
batches at random: `CyclicPoisson` and `BallsInBins`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from gaussveil.accounting.batch_allocation import BallsInBins, CyclicPoisson, binned
from gaussveil.accounting.buffered_toeplitz import MOST_STEPS as MOST_STREAMED
from gaussveil.accounting.buffered_toeplitz import falls, sensitivity
from gaussveil.accounting.noise_design import NoiseDesign
from gaussveil.accounting.relation import RELATIONS, REPLACE
from gaussveil.accounting.strategies import NamedStrategy
from gaussveil.checks import one_of, refuse, whole
from gaussveil.containers import real_array
from gaussveil.spectrum import GaussianPair, PrivacyCurve
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import STORED_RATE
from gaussveil.typing import Floats

MOST_STEPS = 8192


@dataclass(frozen=True, kw_only=True, eq=False)
class MatrixMechanism(NoiseDesign):
    """Training with correlated noise: strategy times clipped gradients, plus independent noise.

    Arguments:
        strategy: a square, lower triangular matrix, one row and column a step; or `BandMF` or `BLT`, the latter of
            up to 4 million steps where nothing is random.
        noise_multiplier: standard deviation of the independent noise over the clipping norm.
        takes: the most steps a record is in; None for as many as the separation allows.
        separation: the least distance of two such steps.
        periodic: the distance is always that one, as with epochs in a fixed order.
        sampling_rate: short for the allocation `CyclicPoisson(sampling_rate)`.
        allocation: `CyclicPoisson` or `BallsInBins`, where records are given to steps at random.

    >>> import numpy as np
    >>> from gaussveil import MatrixMechanism
    >>> sums = np.tril(np.ones((8, 8)))
    >>> bool(MatrixMechanism(sums, noise_multiplier=10.0).epsilon(1e-5) < 2.0)
    True
    """

    strategy: Any = field(kw_only=False)
    takes: int | None = 1
    separation: int = 1
    periodic: bool = False
    sampling_rate: float | None = None
    allocation: CyclicPoisson | BallsInBins | None = None

    def __post_init__(self) -> None:
        given = self.strategy
        if isinstance(given, NamedStrategy):
            if given.steps > MOST_STEPS:
                return  # its first column says all that is needed without sampling
            given = given.matrix()
        strategy = real_array("strategy", given).astype(np.float64)
        strategy.flags.writeable = False
        object.__setattr__(self, "strategy", strategy)

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """One mean shift; with sampling a schedule of steps on random batches.

        Args:
            relation: "add-remove" or "replace".

        Returns:
            Curves with counts: one, or with sampling one for each different round.

        Raises:
            ParameterError: the relation has no such account, or settings that sampling leaves open were given.
        """
        if relation == REPLACE:
            moved = 2.0
        else:
            moved = 1.0
        allocation = self._allocation()
        if allocation is None:
            return [(GaussianPair.mean_shift(self.shift(moved * self.sensitivity)), 1)]
        if self.takes != 1 or self.separation != 1 or self.periodic:
            refuse(
                "takes, separation and periodic",
                "left as they are with sampling",
                "others",
            )
        if isinstance(allocation, BallsInBins):
            one_of("relation", relation, RELATIONS[:1])
            return [(binned(self._matrix, allocation.bins, self.noise()), 1)]
        rate = allocation.sampling_rate
        parts: list[tuple[PrivacyCurve, int]] = []
        for norm, count in self._rounds(allocation.parts):
            shift = self.shift(norm)
            if rate == 1.0:
                parts.append((GaussianPair.mean_shift(moved * shift), count))
            elif relation == REPLACE:
                parts.append(
                    (
                        ReplacedInBatch(
                            math.nextafter(1.0 / shift, 0.0), max(rate, STORED_RATE)
                        ),
                        count,
                    )
                )
            else:
                parts.append(
                    (
                        PoissonSubsampled(
                            GaussianPair.mean_shift(shift), max(rate, 1e-12)
                        ),
                        count,
                    )
                )
        return parts

    def _allocation(self) -> CyclicPoisson | BallsInBins | None:
        """Who takes part when, if that is random."""
        if self.sampling_rate is not None:
            if self.allocation is not None:
                refuse(
                    "sampling_rate",
                    "left out where an allocation is given",
                    self.sampling_rate,
                )
            return CyclicPoisson(self.sampling_rate)
        if not isinstance(self.allocation, CyclicPoisson | BallsInBins | None):
            refuse("allocation", "a CyclicPoisson or a BallsInBins", self.allocation)
        return self.allocation

    @cached_property
    def _matrix(self) -> Floats:
        if isinstance(self.strategy, NamedStrategy):
            refuse(
                "strategy",
                f"of at most {MOST_STEPS} steps here",
                f"one of {self.strategy.steps}",
            )
        matrix: Floats = self.strategy
        if (
            matrix.ndim != 2
            or matrix.shape[0] != matrix.shape[1]
            or not 0 < matrix.shape[0] <= MOST_STEPS
        ):
            refuse(
                "strategy",
                f"a square matrix of at most {MOST_STEPS} rows",
                f"shape {matrix.shape}",
            )
        if (
            not np.all(np.isfinite(matrix))
            or np.any(np.triu(matrix, 1))
            or not np.any(matrix)
        ):
            refuse("strategy", "finite, lower triangular and not zero", "another one")
        return matrix

    @cached_property
    def _steps(self) -> int:
        if isinstance(self.strategy, NamedStrategy):
            return self.strategy.steps
        return len(self._matrix)

    @cached_property
    def _falling(self) -> Floats | None:
        """The first column, where the strategy is Toeplitz, nowhere negative and falls from the diagonal on."""
        if isinstance(self.strategy, NamedStrategy):
            column = np.zeros(self._steps)
            coefficients = self.strategy.coefficients()
            column[: coefficients.size] = coefficients
        else:
            if not np.array_equal(self._matrix[1:, 1:], self._matrix[:-1, :-1]):
                return None
            column = self._matrix[:, 0]
        if falls(column):
            return column
        return None

    @property
    def bands(self) -> int:
        """Diagonals, the main one included, up to the last that is not zero."""
        rows, columns = np.nonzero(self._matrix)
        return int(np.max(rows - columns)) + 1

    @cached_property
    def _gram(self) -> Floats:
        """|C^T C|, rounded up."""
        matrix = self._matrix
        slack = (
            2.0
            * (matrix.shape[0] + 2)
            * UNIT_ROUNDOFF
            * (np.abs(matrix).T @ np.abs(matrix))
        )
        return np.asarray(np.abs(matrix.T @ matrix) + slack)

    def _most(self) -> int:
        apart = whole("separation", self.separation, f"[1, {MOST_STREAMED}]")
        allowed = -(-self._steps // apart)
        if self.takes is None:
            return allowed
        return min(whole("takes", self.takes, f"[1, {MOST_STREAMED}]"), allowed)

    @cached_property
    def sensitivity(self) -> float:
        """How far one record can move the strategy's product, at most; what is computed is rounded up."""
        most = self._most()
        apart = self.separation
        if self._falling is not None:
            return sensitivity(self._falling, most, apart)
        gram = self._gram
        if self.periodic:
            patterns = [
                np.arange(start, len(gram), apart)[:most] for start in range(len(gram))
            ]
            square = max(
                float(gram[np.ix_(pattern, pattern)].sum()) for pattern in patterns
            )
        else:
            square = float(
                _best(_best(self._together, apart, most)[None], apart, most)[0]
            )
        return math.sqrt(square) * (1.0 + 4.0 * len(gram) * UNIT_ROUNDOFF)

    @property
    def _together(self) -> Floats:
        """|X|, without pairs of steps that no record is in both of."""
        distance = np.abs(
            np.subtract.outer(np.arange(len(self._gram)), np.arange(len(self._gram)))
        )
        if self._most() > 1:
            never = (distance > 0) & (distance < self.separation)
        else:
            never = distance > 0
        return np.where(never, 0.0, self._gram)

    @property
    def exact(self) -> bool:
        """Whether some records move it as far as that; elsewhere it is an upper bound."""
        if self._falling is not None:
            return True
        if not self.periodic:
            together = self._together
            return not np.any(together - np.diag(np.diag(together)))
        return self._most() == 1 or bool(np.all(self._matrix.T @ self._matrix >= 0.0))

    def _rounds(self, parts: int | None) -> list[tuple[float, int]]:
        """Column norms of a schedule that no part of the records exceeds, each with its count; rounded up.

        Columns a band apart have no row in common, so a part's steps are independent draws, each with its own norm.
        """
        if parts is None:
            parts = self.bands
        if parts < self.bands:
            refuse(
                "parts", f"at least as many as the strategy's {self.bands} bands", parts
            )
        norms = np.sqrt(np.diag(self._gram))
        padded = np.zeros(-(-norms.size // parts) * parts)
        padded[: norms.size] = norms
        worst = np.sort(padded.reshape(-1, parts), axis=0).max(axis=1)
        counts: dict[float, int] = {}
        for norm in worst[worst > 0.0].tolist():
            rounded = float(f"{norm * (1.0 + 1e-12):.12e}") * (1.0 + 1e-12)
            counts[rounded] = counts.get(rounded, 0) + 1
        return list(counts.items())


def _best(values: Floats, apart: int, most: int) -> Floats:
    """Largest sum of at most so many entries of each row that are so far apart; no entry is negative."""
    size = values.shape[1]
    found = np.zeros((len(values), size + apart))
    for _ in range(most):
        taken = values + found[:, apart : apart + size]
        found[:, :size] = np.maximum.accumulate(taken[:, ::-1], axis=1)[:, ::-1]
    return np.asarray(found[:, 0])
