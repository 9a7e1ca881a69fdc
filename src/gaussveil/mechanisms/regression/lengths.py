"""How long rows are: a noisy histogram of squared lengths, and the radius of a covariance that follows from it.

A row of squared length q between two knots counts at both, so that the counts give sums of q exactly. From them follow
by public rules what each radius would cut off and what the covariance lacks beyond it.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Self

import numpy as np

from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.regression.bounded import Draws
from gaussveil.statistics import Block, ExactSum, Statistic
from gaussveil.statistics.fixed_point import column_norms, scaled
from gaussveil.statistics.statistic import State
from gaussveil.typing import Floats

SHELLS = 56  # of lengths, in steps of a fourth root of 2 below twice the longest
COUNT_BITS = 20
SURE = 4.0  # deviations of noise: a count that is not of empty shells
NEXT = 1.0  # deviations: a shell beside one that holds somebody does, too
RADII = 2.0 ** (
    np.arange(-2, 25) / 8
)  # over the root mean square: nearer, directions of the longest rows tell all
CUT = 0.4  # error of a covariance for each share of its variance cut off and made up for by the lengths alone
WORST = 0.3
APART = 2.5  # power of how far lengths are apart by which that falls: rows of one length lose nothing
BENT = 8.0  # mean squares: beyond, a row tells no more of how lengths vary
LEADING = 3.0  # directions that hold most of the variance, about


@dataclass(frozen=True, eq=False)
class Lengths:
    """About how many rows have each of these squared lengths, and the deviation of each count's noise."""

    squares: Floats
    counts: Floats
    noise: float = 0.0

    @classmethod
    def drawn(
        cls, draws: Draws, placed: Floats, mean_shift: float, otherwise: float
    ) -> Self:
        """Draw them about the centre; all have the square `otherwise` where no count of any length stands out.

        Rows that all lie at the centre stand out at the first knot, which is no length.
        """
        columns = draws.table.features
        centre, scale = (tuple(side.tolist()) for side in placed[: len(columns)].T)
        squares = knots(len(columns))
        statistic = ShellCounts(centre, scale, tuple(squares.tolist()))
        counts = draws.table.source.aggregate(statistic, columns=columns)
        noise = 1 / mean_shift
        draws.spend_row(mean_shift**2)
        differing = min(2 * draws.table.source.rows_per_unit, len(squares))
        kept = told(
            draws.noisy(noise_design(noise, squares.shape, differing), counts), noise
        )
        if not kept[1:].any():
            return cls(np.asarray([otherwise]), np.ones(1))
        return cls(squares, kept, noise)

    def mean(self, part: Callable[[Floats], Floats]) -> float:
        """Mean of this function of the squared length."""
        return float(self.counts @ part(self.squares) / self.counts.sum())

    def over(self, radius: float) -> Self:
        """In units of another length."""
        return replace(self, squares=self.squares / radius**2)

    def radius(self, size: int, noise: float) -> float:
        """The one of least predicted error of a covariance; `noise` in its Frobenius norm at radius 1.

        What is cut off beyond a radius is made up for in size, not in direction.
        """
        total = self.mean(lambda squares: squares)
        apart = self.mean(lambda squares: np.abs(squares / total - 1))
        worst = max(WORST * apart**APART, 1e-300)
        norm = total / math.sqrt(min(size, LEADING))
        errors = []
        for radius in RADII * math.sqrt(total):
            within = self.mean(partial(np.minimum, radius**2))
            cut = CUT * max(total - within, 0.0) / norm
            errors.append(
                math.hypot(cut * worst / (cut + worst), noise * radius**2 / norm)
            )
        return float(RADII[int(np.argmin(errors))] * math.sqrt(total))

    def beyond(self) -> float:
        """How much larger variances are than those of rows weighted into the unit ball."""
        total = self.mean(lambda squares: squares)
        within = self.mean(lambda squares: np.minimum(squares, 1.0))
        weight = self.mean(lambda squares: 1 / np.maximum(squares, 1.0))
        return total / max(within, 1e-300) * weight

    def unlike(self, squares: Floats, rows: float) -> float:
        """By how many deviations squared lengths vary otherwise than these of a law, of which so many rows are."""
        own = self.mean(lambda each: each)
        total = float(np.mean(squares))
        if min(own, total) <= 0:
            return math.inf
        alike = squares * own / total
        counted = np.interp(alike, self.squares, _bent(self.squares / own))
        law = float(np.mean(counted))
        varied = float(np.var(counted - 2 * law * alike / own)) / rows
        slope = _bent(self.squares / own) - law - 2 * law * (self.squares / own - 1)
        noise = self.noise * np.linalg.norm(slope[self.counts > 0])
        differs = self.mean(lambda each: _bent(each / own)) - law
        return abs(differs) / math.hypot(
            math.sqrt(varied), noise / float(self.counts.sum())
        )


def _bent(squares: Floats) -> Floats:
    return np.asarray(np.minimum(squares, BENT) ** 2)


@dataclass(frozen=True)
class ShellCounts(Statistic[ExactSum]):
    """Rows at knots of squared length: each counts 1, shared between two so that their mean is its own."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    squares: tuple[float, ...]

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"counts": (len(self.squares),)}

    def partial(self, block: Block) -> State:
        """Count one block, in whole parts of a row."""
        with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
            standard = block.values - np.asarray(self.centre)[:, None]
            standard /= np.asarray(self.scale)[:, None]
            lengths = column_norms(standard)
        squares = np.asarray(self.squares)
        lengths = lengths[np.isfinite(lengths)]  # as in `rows.WeightedRows`
        within = np.minimum(lengths, math.sqrt(squares[-1])) ** 2
        below = np.clip(
            np.searchsorted(squares, within, side="right") - 1, 0, len(squares) - 2
        )
        part = (within - squares[below]) / (squares[below + 1] - squares[below])
        whole = 2.0**COUNT_BITS
        upper = np.trunc(np.clip(part, 0.0, 1.0) * whole)
        counts = np.bincount(below, whole - upper, len(squares))
        counts += np.bincount(below + 1, upper, len(squares))
        return {"counts": scaled(counts.astype(np.int64), 0)}

    def finish(self, state: State) -> ExactSum:
        """The counts."""
        return ExactSum(state["counts"], 2.0**-COUNT_BITS)


def knots(size: int) -> Floats:
    """Squared lengths at which rows of so many columns are counted, in units of half a range: 0 and then geometric."""
    steps = np.arange(1 - SHELLS, 1) / 2
    return np.concatenate(([0.0], 4.0 * size * 2.0**steps))


def told(counts: Floats, noise: float) -> Floats:
    """Counts of the shells about the fullest one as far as the noise lets them be seen, and zeros."""
    kept = np.zeros_like(counts)
    sure = np.nonzero(counts > SURE * noise)[0]
    if not len(sure):
        return kept
    first = int(sure[0])
    last = int(sure[-1])
    while last + 1 < len(counts) and counts[last + 1] > NEXT * noise:
        last += 1
    while first > 0 and counts[first - 1] > NEXT * noise:
        first -= 1
    kept[first : last + 1] = np.maximum(counts[first : last + 1], 0.0)
    return kept
