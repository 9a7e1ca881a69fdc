"""The public design of a private sketch: ridge, lattice, test, price; and what it will be worth before it is spent."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

import numpy as np
from scipy.special import ndtri

from gaussveil.accounting import Charge
from gaussveil.calibration import mean_shift_for
from gaussveil.calibration.random_projection import (
    ProposeTestRelease,
    approximate_excess,
    sketch_loss,
    tight_ridge,
)
from gaussveil.errors import ParameterError
from gaussveil.noise import GaussianNoise, Generator
from gaussveil.noise.gram_gaussian import GramGaussian, Integers, integer_cholesky
from gaussveil.shown import Shown
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.turns import whole_turn
from gaussveil.statistics import ExactSum, Gram
from gaussveil.typing import Floats

MOST_ROWS = (
    2.0**50
)  # no table is longer; the lattice must be fine enough for the largest Gram matrix
RIDGE_FLOOR = (
    2.0**-10
)  # of the tight ridge: what the tested variant keeps of it at least
MOST_COMPONENTS = 4096
WORTHWHILE = (
    0.95  # "auto" doubles the components while that lowers the error by 5 % or more
)
GRID_BITS = 14  # the grid is 2^14 units of the exact sums: 2^-28 of the squared row norm or finer
FRACTION_BITS = (
    60  # of the factor: remainders of at most size * 2^-12 units for up to 2^50 rows
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class SketchPlan(Shown):
    """Everything about a sketch that does not depend on the data: public before anything is drawn.

    `excess` is a = (largest change by one record)/ridge in the dominating pair, `leverage` = a/(1 + a) is p* of NDIS,
    `ridge` = l^2 (1/p* - 1) the ridge that every data set needs (the tested variant may use less of it).
    """

    epsilon: float
    delta: float
    size: int
    components: int
    row_norm: float
    rows_per_unit: int
    row_bound: float | None
    rate: float
    excess: float
    test: ProposeTestRelease | None

    @property
    def leverage(self) -> float:
        """The public bound p* on every record's leverage in the ridged Gram matrix."""
        return self.excess / (1 + self.excess)

    @cached_property
    def ridge(self) -> float:
        """The ridge, before a test lowers it."""
        return tight_ridge(self.row_norm, self.excess, self.rows_per_unit)

    @cached_property
    def sampler(self) -> GramGaussian:
        """The lattice and tables of the draw, the same for every data set."""
        if self.test is None:
            floor = self.ridge
        else:
            floor = self.ridge * RIDGE_FLOOR
        largest = MOST_ROWS * self.row_norm**2
        return GramGaussian(
            self.size,
            self.components,
            largest=largest,
            smallest_ridge=floor,
            largest_ridge=self.ridge,
        )

    @cached_property
    def test_noise(self) -> GaussianNoise:
        """Noise of the private smallest eigenvalue (tested variant only)."""
        if self.test is None:
            raise ParameterError("only the variant 'tested' has test noise.")
        grid = Gram(row_norm=self.row_norm).fixed_point.unit ** 2 * 2.0**14
        lattice = GaussianNoise(self.row_norm**2 / self.test.shift)
        reach = self.row_norm**2 * (1 + 2.0**-50) + 4 * grid + lattice.rounding_l2
        return GaussianNoise(
            reach / self.test.shift * (1 + 2.0**-50), grid=lattice.grid
        )

    @cached_property
    def charge(self) -> Charge:
        """What the sketch costs an account. X = with the record, whose Gram matrix is the larger one."""
        error = self.sampler.total_variation
        rank = min(self.rows_per_unit, self.size)
        if self.test is not None:
            error += self.test.failure + self.test_noise.total_variation
            return Charge(
                self.test.loss(self.components),
                sampler_error=math.nextafter(error, math.inf),
            )
        base = sketch_loss(self.excess, self.components, rank)
        return Charge(
            PoissonSubsampled(base, self.rate) if self.rate < 1 else base,
            sampler_error=error,
        )

    @property
    def gaussian_gram_error(self) -> float:
        """Root mean square Frobenius error of the Gram matrix released by the Gaussian mechanism at the same promise.

        The matrix moves by at most l^2 per row, so its d(d+1)/2 coordinates get noise of l^2/t(epsilon, delta) each.
        """
        deviation = (
            self.rows_per_unit
            * self.row_norm**2
            / mean_shift_for(self.epsilon, self.delta)
        )
        return deviation * math.sqrt(self.size * (self.size + 1) / 2)

    def gram_error(self, rows: float = 0.0) -> float:
        """Root mean square Frobenius error of `Sketch.gram` for `rows` rows of full norm, spread over all directions.

        Zero rows give the least error that any data can have; the sampling error of a subsample is not included.
        """
        return _gram_error(
            self.ridge, self.components, self.size, self.row_norm, self.rate, rows
        )

    def _claim(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def _facts(self) -> dict[str, str]:
        return {
            "rows of the sketch": str(self.components),
            "ridge": f"{self.ridge:.4g}",
            "beside": self.compare(),
        }

    def compare(self) -> str:
        """One sentence: the sketch against the Gaussian mechanism on the Gram matrix, before anything is spent."""
        ours = self.gram_error(self.row_bound or 0.0)
        theirs = self.gaussian_gram_error
        if self.row_bound:
            rows = f"for {self.row_bound:g} rows"
        else:
            rows = "at best (an empty table)"
        if ours > theirs:
            verdict = "release the Gram matrix with GaussianRelease instead"
        else:
            verdict = "the sketch is better"
        return (
            f"root mean square error of the Gram matrix {rows}: sketch {ours:.4g}, "
            f"Gaussian mechanism {theirs:.4g} at the same promise; if the Gram matrix is all you need, {verdict}"
        )

    def draw(
        self, gram: ExactSum, generator: Generator | None = None
    ) -> tuple[Floats, float]:
        """The sketch and its ridge, without a record of it: for studies and audits. Releases go through `fit`."""
        if self.test is None:
            ridge = self.ridge
        else:
            ridge = self._tested_ridge(gram, generator)
        return self.sampler.draw(gram.integers(), gram.unit, ridge, generator), ridge

    def _tested_ridge(self, gram: ExactSum, generator: Generator | None) -> float:
        """min(l^2 (1/p - 1), max(l^2/p - lower bound, floor)); the bound holds but for the test's failure (N3)."""
        assert self.test is not None
        noise = self.test_noise
        ceiling = Fraction(self.ridge) + Fraction(self.row_norm) ** 2
        assert isinstance(noise.covariance, float)
        # Lattice noise exceeds z deviations no more often than a Gaussian exceeds them less one grid.
        margin = (
            -float(ndtri(self.test.failure)) * math.sqrt(noise.covariance) * (1 + 1e-9)
            + 2 * noise.grid
        )
        top = float(ceiling) + margin + 8 * math.sqrt(noise.covariance)
        value, grid = smallest_eigenvalue(gram, top)
        noisy = float(noise.add(value, generator))
        lower = Fraction(noisy) - Fraction(margin) - 4 * Fraction(grid)
        wanted = float(max(ceiling - lower, Fraction(self.sampler.smallest_ridge))) * (
            1 + 2.0**-52
        )
        return min(self.ridge, math.nextafter(wanted, math.inf))


def best_components(
    epsilon: float, delta: float, size: int, row_norm: float, row_bound: float | None
) -> int:
    """Components after which doubling them lowers the error of the Gram matrix by less than 5 %, from public numbers.

    Reckoned for `row_bound` rows of full norm in all directions. Never fewer than columns, never more than 4096.
    """
    if row_bound is None:
        raise ParameterError(
            'row_bound must be given with n_components="auto": a public bound on the number of rows.'
        )

    def error(components: int) -> float:
        ridge = tight_ridge(row_norm, approximate_excess(epsilon, delta, components))
        return _gram_error(ridge, components, size, row_norm, 1.0, row_bound)

    chosen = 1 << math.ceil(math.log2(max(size, 2)))
    now = error(chosen)
    while (
        2 * chosen <= MOST_COMPONENTS
        and (doubled := error(2 * chosen)) < WORTHWHILE * now
    ):
        chosen = 2 * chosen
        now = doubled
    return chosen


def _gram_error(
    ridge: float, components: int, size: int, row_norm: float, rate: float, rows: float
) -> float:
    """Square root of (|S|_F^2 + (tr S)^2)/r over the rate, for S = (ridge + rate rows l^2/d) I."""
    level = ridge + rate * rows * row_norm**2 / size
    return level * math.sqrt(size * (size + 1) / components) / rate


def smallest_eigenvalue(gram: ExactSum, largest: float) -> tuple[float, float]:
    """(value, grid): the value, a multiple of the grid, is within two grids of min(smallest eigenvalue, largest).

    Floating point errs by a multiple of the largest eigenvalue, which is secret and may be huge. Integer Cholesky
    factorisations decide instead: whether G - x I is positive definite, up to remainders far below the grid.
    Holds for fewer than 2^50 rows and 2^14 columns (derived: docs/mechanisms/random_projection.md).
    """
    matrix = gram.integers()
    grid = gram.unit * 2.0**GRID_BITS
    rough = float(np.linalg.eigvalsh(gram.to_float())[0])
    guess = int(min(max(rough, 0.0), largest) / grid)
    reach = 2 + int(
        min(len(matrix) * 2.0**-50 * float(np.trace(gram.to_float())), largest) / grid
    )
    # Any probes serve: what counts is that the last success (or 0) lies next to the first failure (or the top).
    # G is positive semidefinite; beyond the top nobody asks.
    low, _ = whole_turn(
        lambda steps: not _positive_definite(matrix, steps),
        0,
        int(largest / grid) + 1,
        first=(guess + reach, guess - reach),
    )
    return low * grid, grid


def _positive_definite(matrix: Integers, steps: int) -> bool:
    shifted = matrix << (2 * FRACTION_BITS)
    shifted[np.diag_indices(len(matrix))] -= steps << (GRID_BITS + 2 * FRACTION_BITS)
    return integer_cholesky(shifted) is not None
