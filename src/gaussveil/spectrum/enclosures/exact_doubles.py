"""Inputs of a rigorous evaluation: doubles that are taken exactly as they are, checked and hashable."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)

ALLOWED_ASYMMETRY = 1e-9


@dataclass(frozen=True)
class TermDoubles:
    """Reduced terms, every double taken exactly.

    X is N(., 1 - variance_gap) and Y is N(., 1) in each of `multiplicity` coordinates; the squared mean gaps of a term
    sum to `energy`, or to `multiplicity` times the exact square of `mean_gap` (give one; neither means no mean gap).
    `swapped` exchanges X and Y.
    """

    variance_gap: tuple[float, ...]
    multiplicity: tuple[float, ...]
    energy: tuple[float, ...] | None = None
    mean_gap: tuple[float, ...] | None = None
    swapped: bool = False

    def __post_init__(self) -> None:
        if self.energy is not None and self.mean_gap is not None:
            raise ParameterError("give energy or mean_gap, not both")
        columns = {
            name: getattr(self, name)
            for name in ("variance_gap", "multiplicity", "energy", "mean_gap")
            if getattr(self, name) is not None
        }
        for name, values in columns.items():
            if len(values) != len(self.variance_gap):
                raise ShapeError(
                    f"{name} must have as many entries as variance_gap. Got {len(values)}."
                )
        for name, values in columns.items():
            if not np.all(np.isfinite(values)):
                raise NotFiniteError(f"{name} must be finite")
        self._check_ranges()

    def _check_ranges(self) -> None:
        """Refuse what is no variance, no count or no square."""
        if any(gap >= 1.0 for gap in self.variance_gap):
            raise NotPositiveDefiniteError(
                "variance_gap must be below 1: X needs a positive variance in every direction"
            )
        if any(count < 0 for count in self.multiplicity):
            raise ParameterError("multiplicity must not be negative")
        if self.energy is not None and any(value < 0.0 for value in self.energy):
            raise ParameterError("energy is a sum of squares and must not be negative")

    @classmethod
    def of(
        cls,
        variance_gap: Sequence[float] | NDArray[np.float64],
        *,
        multiplicity: Sequence[float] | NDArray[np.float64] | None = None,
        energy: Sequence[float] | NDArray[np.float64] | None = None,
        mean_gap: Sequence[float] | NDArray[np.float64] | None = None,
        swapped: bool = False,
    ) -> TermDoubles:
        """Terms from any sequences; `multiplicity` defaults to one each."""
        gaps = tuple(float(gap) for gap in variance_gap)
        if multiplicity is None:
            counts = (1.0,) * len(gaps)
        else:
            counts = tuple(float(count) for count in multiplicity)
        return cls(
            gaps,
            counts,
            None if energy is None else tuple(float(value) for value in energy),
            None if mean_gap is None else tuple(float(value) for value in mean_gap),
            swapped,
        )

    @property
    def size(self) -> int:
        """Number of terms."""
        return len(self.variance_gap)

    @property
    def trivial(self) -> bool:
        """Whether X and Y are the same."""
        still = not any(
            gap and count for gap, count in zip(self.variance_gap, self.multiplicity)
        )
        return still and not any(self.energy or ()) and not any(self.mean_gap or ())


@dataclass(frozen=True)
class MatrixDoubles:
    """Means and covariances of X and Y, every double taken exactly (of a covariance, the symmetric part)."""

    mean_x: tuple[float, ...]
    cov_x: tuple[tuple[float, ...], ...]
    mean_y: tuple[float, ...]
    cov_y: tuple[tuple[float, ...], ...]

    @classmethod
    def of(
        cls,
        mean_x: Sequence[float] | NDArray[np.float64],
        cov_x: Sequence[Sequence[float]] | NDArray[np.float64],
        mean_y: Sequence[float] | NDArray[np.float64],
        cov_y: Sequence[Sequence[float]] | NDArray[np.float64],
    ) -> MatrixDoubles:
        """Checks shapes, finiteness and symmetry."""
        size = len(mean_x)
        vectors = []
        matrices = []
        for name, mean in (("mean_x", mean_x), ("mean_y", mean_y)):
            vector = np.asarray(mean, dtype=np.float64)
            if vector.shape != (size,) or size == 0:
                raise ShapeError(
                    f"{name} must be a vector as long as mean_x ({size}). Got shape {vector.shape}."
                )
            if not np.isfinite(vector).all():
                raise NotFiniteError(f"{name} must be finite")
            vectors.append(tuple(vector.tolist()))
        for name, cov in (("cov_x", cov_x), ("cov_y", cov_y)):
            matrix = np.asarray(cov, dtype=np.float64)
            if matrix.shape != (size, size):
                raise ShapeError(
                    f"{name} must have shape ({size}, {size}) to fit mean_x. Got {matrix.shape}."
                )
            if not np.isfinite(matrix).all():
                raise NotFiniteError(f"{name} must be finite")
            diagonal = matrix.diagonal()
            if (diagonal <= 0.0).any():
                raise NotPositiveDefiniteError(
                    f"{name} must be positive definite: a variance is not positive"
                )
            scale = np.sqrt(diagonal)
            if (
                np.abs(matrix - matrix.T)
                > ALLOWED_ASYMMETRY * np.multiply.outer(scale, scale)
            ).any():
                raise NotSymmetricError(f"{name} must be symmetric; pass (S + S.T) / 2")
            matrices.append(tuple(map(tuple, matrix.tolist())))
        return cls(vectors[0], matrices[0], vectors[1], matrices[1])

    @property
    def size(self) -> int:
        """Number of coordinates."""
        return len(self.mean_x)

    @property
    def trivial(self) -> bool:
        """Whether X and Y are the same."""
        return self.mean_x == self.mean_y and self.cov_x == self.cov_y


Doubles = TermDoubles | MatrixDoubles
