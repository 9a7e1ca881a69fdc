"""Features in units of their own size, for adjacencies that protect no features: farads and megawatts fit alike.

Units are powers of two, so scaling rounds nothing and changes no released bit but by that power.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.model import Parameters
from gaussveil.typing import Floats

LARGEST_EXPONENT = 400  # squares of features and of their inverses stay far inside the range of floats


@dataclass(frozen=True, eq=False)
class FeatureUnits:
    """Binary exponents, one per column."""

    exponents: NDArray[np.int64]

    @classmethod
    def of(cls, rows: Floats) -> FeatureUnits:
        """The size of the largest value of each column; refuses columns that floats cannot square."""
        largest = np.max(np.abs(rows), axis=0, initial=0.0)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
        if np.abs(exponents).max(initial=0) > LARGEST_EXPONENT:
            raise ParameterError(
                f"features must lie between 2^-{LARGEST_EXPONENT} and 2^{LARGEST_EXPONENT}: state them in other units."
            )
        return cls(exponents)

    @property
    def common(self) -> FeatureUnits:
        """One unit for all columns, the largest: distances between records keep their proportions."""
        return FeatureUnits(np.full_like(self.exponents, self.exponents.max(initial=-LARGEST_EXPONENT)))

    def scaled(self, rows: Floats) -> Floats:
        """The features in these units."""
        return np.asarray(np.ldexp(rows, -self.exponents))

    def restored(self, parameters: Parameters) -> Parameters:
        """Classes found in these units, in the features' own."""
        weights, means, covariances = parameters
        together = self.exponents[:, None] + self.exponents
        return weights, np.ldexp(means, self.exponents), np.ldexp(covariances, together)
