"""Public per-group affine maps z = A_k (x - m_k), evaluated in one fixed order per record."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import NotFiniteError, ShapeError
from gaussveil.statistics.statistic import require_shape
from gaussveil.typing import Floats


@dataclass(frozen=True)
class Affine:
    """Centres m_k (K x d) and maps A_k: None, one scale per group (K), per column (K x d), or matrices (K x d x d).

    Everything here is public: released before, or never computed from the data.
    """

    centres: ArrayLike | None = None
    maps: ArrayLike | None = None

    def __post_init__(self) -> None:
        for name in ("centres", "maps"):
            given = getattr(self, name)
            if given is not None:
                array = np.array(given, dtype=np.float64)
                if not np.isfinite(array).all():
                    raise NotFiniteError(f"{name} must be finite: they are public parameters.")
                array.setflags(write=False)
                object.__setattr__(self, name, array)

    def check(self, dimension: int, groups: int) -> None:
        """Refuse centres and maps that do not fit the columns and groups of a pass."""
        if self.centres is not None:
            require_shape("centres", np.shape(self.centres), (groups, dimension))
        if self.maps is not None:
            full = (groups, dimension, dimension)
            if np.ndim(self.maps) not in (1, 2, 3):
                raise ShapeError(f"maps must have 1, 2 or 3 dimensions. Got {np.ndim(self.maps)}.")
            require_shape("maps", np.shape(self.maps), full[: np.ndim(self.maps)])

    def apply(self, values: Floats, group: int) -> Floats:
        """Map the columns of ``values`` (d x n, may be overwritten)."""
        with np.errstate(over="ignore", invalid="ignore"):  # overflow is clipped or zeroed record by record later
            if self.centres is not None:
                values -= np.asarray(self.centres)[group][:, None]
            if self.maps is None:
                return values
            linear = np.asarray(self.maps)[group]
            if linear.ndim < 2:
                values *= linear if linear.ndim == 0 else linear[:, None]
                return values
            # Not a matrix product: its summation order depends on the number of rows and on the processor.
            values = np.ascontiguousarray(values)
            mapped = np.zeros(values.shape)
            product = np.empty(values.shape[1])
            for out, coefficients in zip(mapped, linear.tolist()):
                for row, coefficient in zip(values, coefficients):
                    if coefficient:
                        out += np.multiply(row, coefficient, out=product)
            return mapped
