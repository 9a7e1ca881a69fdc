"""Gaussian noise for a release, white or coloured, drawn in exact integer arithmetic on a public power-of-two lattice.

The output is round_g(value) + g (A D1 + D): integers A, independent discrete Gaussians D1 and D. Its law is the
Gaussian density of covariance M sampled on the lattice, where M - (2g)^2 I >= N, so it is a post-processing of value +
N(0, N) up to `total_variation`. Derived: docs/math/noise.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from math import floor, inf, ldexp, log2, nextafter, prod, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil.errors import (
    NotFiniteError,
    NotPositiveDefiniteError,
    NotSymmetricError,
    ParameterError,
    ShapeError,
)
from gaussveil.noise.colouring import Colouring, colour
from gaussveil.noise.discrete_gaussian import (
    DiscreteGaussianNoise,
    smoothing_error,
    smoothing_total_variation,
)
from gaussveil.noise.generator import Generator, default_generator
from gaussveil.noise.lattice import (
    LARGEST_INTEGER,
    Shape,
    checked_grid,
    checked_shape,
    to_lattice,
)
from gaussveil.typing import Floats, Integers

GRID_RATIO = 2.0**-20
LATTICE_VARIANCE = (
    4  # (2g)^2 in units of g^2: what sampling a continuous Gaussian on the lattice adds
)


class GaussianNoise:
    """A public design of Gaussian noise: grid, integers and tables, no randomness.

    `covariance_or_scale` is a standard deviation (white) or a positive definite matrix N. The matrix colours the whole
    array, read in C order, when its size is the array's; else the last axis, with independent copies along the others.
    `differing` is the number of coordinates in which two neighbouring values can differ (all, unless said otherwise).

    Attributes: `grid`; `covariance`, what is drawn (a variance if white, a matrix if coloured), at least N + (2 grid)^2
    I; `continuous_covariance`, that less (2 grid)^2 I; `rounding_l2`, what rounding to the grid adds to the l2
    sensitivity; `total_variation`, for one draw of the whole array; `centre_total_variation`, what rounding costs where
    the value is itself random (label privacy over random values) and no sensitivity can take it up: then charge this
    instead of `rounding_l2`, and choose a finer grid.
    """

    def __init__(
        self,
        covariance_or_scale: float | ArrayLike,
        shape: Shape | None = None,
        grid: float | None = None,
        differing: int | None = None,
    ) -> None:
        noise = _checked_noise(covariance_or_scale)
        self._set_shape(noise, shape, differing)
        smallest = _smallest_sd(noise)
        self._set_grid(
            _default_grid(smallest, self.differing)
            if grid is None
            else checked_grid(grid)
        )
        self._colouring: Colouring | None = None
        if noise.ndim == 0:
            self.white = DiscreteGaussianNoise(
                (Fraction(float(noise)) / Fraction(self.grid)) ** 2 + LATTICE_VARIANCE
            )
            self.covariance: float | Floats = float(
                self.white.variance * Fraction(self.grid) ** 2
            )
            self.continuous_covariance: float | Floats = float(
                (self.white.variance - LATTICE_VARIANCE) * Fraction(self.grid) ** 2
            )
            self.total_variation = self._bound_total_variation(0.0)
        else:
            self._set_colouring(
                colour([_in_grid_units(noise, self.grid)], LATTICE_VARIANCE)[0]
            )

    @classmethod
    def family(
        cls, covariances: Sequence[ArrayLike], grid: float | None = None
    ) -> list[GaussianNoise]:
        """One design per covariance, alike in grid, tables, widths, code and random bytes: none betrays its label.

        Where labels have different covariances, evaluate the pairs of `continuous_covariance`: the small excess over
        the covariance asked for differs from label to label, so it is not a post-processing they have in common.
        """
        noises = [_checked_noise(covariance) for covariance in covariances]
        _require_one_size(noises)
        members = [cls.__new__(cls) for _ in noises]
        for member, noise in zip(members, noises):
            member._set_shape(noise, None, None)
        count = members[0].differing
        if grid is not None:
            common = checked_grid(grid)
        else:
            common = _default_grid(min(map(_smallest_sd, noises)), count)
        colourings = colour(
            [_in_grid_units(noise, common) for noise in noises], LATTICE_VARIANCE
        )
        for member, colouring in zip(members, colourings):
            member._set_grid(common)
            member._set_colouring(colouring)
        _share_worst_variation(members)
        return members

    def add(self, value: ArrayLike, generator: Generator | None = None) -> Floats:
        """round_g(value) plus noise: float64 multiples of the grid.

        The value must be finite and below 2^52 grids; a caller whose data might break that clips by a public rule
        first, because a refusal that depends on the data is itself an output.
        """
        lattice = to_lattice(value, self.shape, self.grid)
        return (lattice + self.draw(generator)).astype(np.float64) * self.grid

    def draw(self, generator: Generator | None = None) -> NDArray[np.int64]:
        """The noise alone, in units of the grid."""
        source = default_generator() if generator is None else generator
        result = self.white.draw(self.shape, source)
        if self._colouring is not None:
            factors = self._colouring.inner.draw(
                (result.size // self._size, self._size), source
            )
            # every partial sum is an integer below 2^53, so floating point is exact in any order
            coloured = factors.astype(np.float64) @ self._colouring.multipliers.T
            result += coloured.astype(np.int64).reshape(self.shape)
        return result

    @property
    def centre_total_variation(self) -> float:
        """Upper bound between laws centred at the value and at its rounding: |shift|/sqrt(2 pi) standard deviations."""
        # what is drawn is at least white noise of this variance; a shift is at most half a grid per coordinate
        return min(
            1.0,
            0.2
            * sqrt(prod(self.shape))
            / sqrt(float(self.white.variance - LATTICE_VARIANCE)),
        )

    def _set_shape(
        self, noise: Floats, shape: Shape | None, differing: int | None
    ) -> None:
        if noise.ndim == 0:
            self._size = 1
        else:
            self._size = len(noise)
        if shape is None:
            self.shape: tuple[int, ...] = () if noise.ndim == 0 else (self._size,)
        else:
            self.shape = checked_shape(shape)
        total = prod(self.shape)
        if self.shape:
            last_axis = self.shape[-1]
        else:
            last_axis = 1
        if total < 1 or self._size not in (1, last_axis, total):
            raise ShapeError(
                f"shape must be nonempty and fit a covariance of {self._size} coordinates. Got {self.shape}."
            )
        if differing is None:
            self.differing = total
        else:
            self.differing = differing
        if not 1 <= self.differing <= total:
            raise ParameterError(
                f"differing must lie between 1 and the {total} coordinates. Got {differing}."
            )

    def _set_grid(self, grid: float) -> None:
        self.grid = grid
        # the product with a power of two is exact, so only the root is rounded upwards
        self.rounding_l2 = grid * nextafter(sqrt(self.differing), inf)

    def _set_colouring(self, colouring: Colouring) -> None:
        self._colouring = colouring
        self.white = colouring.outer
        self.covariance = colouring.covariance * self.grid**2
        excess = colouring.covariance - LATTICE_VARIANCE * np.eye(self._size)
        self.continuous_covariance = excess * self.grid**2
        self.total_variation = self._bound_total_variation(colouring.total_variation)

    def _bound_total_variation(self, per_copy: float) -> float:
        """Whole array: every discrete Gaussian, every coloured copy, and sampling on the lattice."""
        total = prod(self.shape)
        lattice = total * smoothing_error(LATTICE_VARIANCE, 1)
        return min(
            1.0,
            1.001
            * (
                total * self.white.total_variation
                + total // self._size * per_copy
                + lattice
            ),
        )


def _checked_noise(covariance_or_scale: Any) -> Floats:
    given = np.asarray(covariance_or_scale)
    if (
        isinstance(covariance_or_scale, np.ma.MaskedArray)
        or given.dtype.kind not in "iuf"
    ):
        raise ParameterError(
            f"covariance_or_scale must hold real numbers, none masked. Got {given.dtype}."
        )
    noise = given.astype(np.float64, copy=False)
    if not np.all(np.isfinite(noise)):
        raise NotFiniteError("covariance_or_scale must be finite.")
    if noise.ndim == 0:
        if noise <= 0:
            raise ParameterError(
                f"scale must be a positive standard deviation. Got {float(noise)}."
            )
        return noise
    if noise.ndim != 2 or noise.shape[0] != noise.shape[1] or len(noise) == 0:
        raise ShapeError(
            f"covariance_or_scale must be a number or a square matrix. Got shape {noise.shape}."
        )
    asymmetry = float(np.max(np.abs(noise - noise.T)))
    if asymmetry > 1e-9 * float(np.max(np.abs(noise))):
        raise NotSymmetricError(
            f"covariance must be symmetric; entries differ by {asymmetry:.3g}. Pass (N + N.T) / 2."
        )
    return noise


def _require_one_size(covariances: Sequence[Floats]) -> None:
    """Refuse covariances that are not square matrices of one size."""
    shapes = {covariance.shape for covariance in covariances}
    if len(shapes) != 1 or len(shapes.pop()) != 2:
        raise ShapeError(
            "covariances must be a nonempty list of square matrices of one size."
        )


def _smallest_sd(noise: Floats) -> float:
    if noise.ndim == 0:
        return float(noise)
    smallest = float(np.linalg.eigvalsh((noise + noise.T) / 2)[0])
    if not smallest > 0:
        raise NotPositiveDefiniteError(
            f"covariance must be positive definite; its smallest eigenvalue is {smallest:.3g}."
        )
    return sqrt(smallest)


def _in_grid_units(covariance: Floats, grid: float) -> Floats:
    with np.errstate(over="ignore"):
        scaled = covariance / grid / grid  # exact: the grid is a power of two
    if not np.all(np.isfinite(scaled)):
        raise ParameterError(
            f"covariance is too large for exact arithmetic on a grid of {grid!r}. Choose a coarser grid."
        )
    return scaled


def _default_grid(smallest_sd: float, differing: int) -> float:
    """Largest power of two g with g sqrt(differing) <= 2^-20 of the smallest standard deviation."""
    finest = GRID_RATIO * smallest_sd / sqrt(differing)
    return checked_grid(ldexp(1.0, floor(log2(finest))) if finest > 0 else 0.0)


class SharedNoise(GaussianNoise):
    """Noise of at least variance `own` in every coordinate plus variance `shared` in one number added to all of them.

    The draw is D + 1 D1 with D white on the lattice and D1 one lattice number: Theorem 1 of docs/math/noise.md with
    A = 1, so up to a stated total variation it is the lattice Gaussian of covariance own I + shared 11' + (2 grid)^2 I.
    `covariance` and `continuous_covariance` are those of the white part alone.
    """

    def __init__(
        self, own: float, shared: float, shape: Shape, differing: int | None = None
    ) -> None:
        super().__init__(sqrt(own) * (1 + 2.0**-52), shape, differing=differing)
        self.shared = DiscreteGaussianNoise(
            max(Fraction(shared) / Fraction(self.grid) ** 2, Fraction(1))
        )
        count = int(np.prod(self.shape))
        conditional = 1 / (1 / self.shared.variance + count / self.white.variance)
        self.total_variation += self.shared.total_variation
        self.total_variation += smoothing_total_variation(
            float(conditional) * (1 - 1e-12), 1
        )
        if self.shared.bound + self.white.bound >= LARGEST_INTEGER:
            raise ParameterError(
                f"shared noise must stay below 2^52 grids. Got variances {own!r} and {shared!r}."
            )

    def draw(self, generator: Generator | None = None) -> Integers:
        """The noise alone, in units of the grid."""
        source = default_generator() if generator is None else generator
        return super().draw(source) + self.shared.draw((), source)


def _share_worst_variation(members: Sequence[GaussianNoise]) -> None:
    """Charge every member with the largest total variation, so that none betrays its label."""
    worst = max(member.total_variation for member in members)
    for member in members:
        member.total_variation = worst
