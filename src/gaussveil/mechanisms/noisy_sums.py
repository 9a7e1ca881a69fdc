"""Exact sums with Gaussian noise, several draws under one charge: what tables, regressions and mixtures share.

Each draw may depend on what earlier ones gave; its mean shift may not. The squared losses that one unit can suffer add
up (adaptive composition of Gaussian releases: docs/math/spectrum.md), and nothing is drawn beyond what was charged for.
Sums are exact and are rounded to the lattice exactly; the rounding moves a draw by at most 2^-20 of a noise deviation,
which `ROUNDING_SHIFT` pays for.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from gaussveil.errors import NumericalError
from gaussveil.noise import GaussianNoise, Generator
from gaussveil.noise.gaussian import GRID_RATIO, SharedNoise
from gaussveil.noise.lattice import LARGEST_INTEGER
from gaussveil.statistics import ExactSum
from gaussveil.typing import Floats

MOST_DRAWS = 64
ROUNDING_SHIFT = math.sqrt(MOST_DRAWS) * GRID_RATIO
SAMPLER_RESERVE = 1e-32  # total variation per coordinate; designs need about 1e-33 and every draw is checked


class NoisySums:
    """The budget of one release and its draws; a subclass supplies the sums."""

    mean_shift: float
    generator: Generator | None
    spent: float = 0.0
    draws: int = 0

    def spend(self, squared_loss: float) -> None:
        """Add what one unit can lose next; nothing is read or drawn beyond what the release was charged for."""
        self.spent += squared_loss
        if math.sqrt(self.spent) > self.mean_shift:
            raise NumericalError(
                "the draws would spend more than was charged for them; report this as a defect."
            )

    def noisy(self, noise: GaussianNoise, *sums: ExactSum) -> Floats:
        """Sums, side by side along the last axis if there are several, rounded exactly to the lattice, plus noise."""
        self.draws += 1
        if (
            noise.total_variation > SAMPLER_RESERVE * math.prod(noise.shape)
            or self.draws > MOST_DRAWS
        ):
            raise NumericalError(
                "the sampler's error exceeds what was charged for it; report this as a defect."
            )
        placed = [one.on_grid(noise.grid) for one in sums]
        if len(placed) > 1:
            placed = [one.reshape(noise.shape[0], -1) for one in placed]
        value = np.concatenate(placed, axis=-1).reshape(noise.shape)
        # A public limit far above any table; without it a gigantic table would be refused, which tells its size.
        limit = (LARGEST_INTEGER // 2) * noise.grid
        return noise.add(np.clip(value, -limit, limit), self.generator)


def noise_design(
    scale: float | Floats, shape: tuple[int, ...], differing: int
) -> GaussianNoise:
    """Noise of this deviation or covariance. Designs are public and hold no randomness: equal ones are made once."""
    spread = np.asarray(scale, dtype=np.float64)
    return _design(spread.tobytes(), spread.shape, shape, differing)


@lru_cache(maxsize=256)
def shared_design(
    own: float, shared: float, shape: tuple[int, ...], differing: int
) -> GaussianNoise:
    """White noise, and one draw that all numbers share."""
    return SharedNoise(own, shared, shape, differing)


@lru_cache(maxsize=256)
def _design(
    scale: bytes, scale_shape: tuple[int, ...], shape: tuple[int, ...], differing: int
) -> GaussianNoise:
    spread = np.frombuffer(scale).reshape(scale_shape)
    return GaussianNoise(
        float(spread) if spread.ndim == 0 else spread, shape, differing=differing
    )
