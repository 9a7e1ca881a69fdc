"""Noise for counts and sums over cells of which one unit touches a bounded number, all with the same sign.

A unit moves the count of each of at most k of d cells by at most 1, and beside it m features by at most as much, up or
down. By symmetry the best covariance is a I + b 11' for the counts and s_i I for feature i. For counts alone b / a is
found in closed form; the features' share of the loss is a search in one variable, but for one cell (derived:
docs/math/tables.md).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.spectrum.roots import lowest
from gaussveil.typing import Floats

_SAFETY = (
    1 + 2.0**-44
)  # the last proof is in rationals; this is what the search's rounding may need


@dataclass(frozen=True)
class BoxNoise:
    """Variances of the noise: `own` in each cell and `shared` by all of them for the counts, `features` for the sums.

    A unit that touches at most `touched` of `cells` cells has a squared loss of at most 1, proven for these doubles.
    """

    cells: int
    touched: int
    own: float
    shared: float
    features: tuple[float, ...] = ()

    @property
    def count_variance(self) -> float:
        """Variance of the noise of one count."""
        return self.own + self.shared

    def squared_loss(self) -> Fraction:
        """The largest squared loss of one unit, exactly, for these very doubles."""
        own = Fraction(self.own)
        shared = Fraction(self.shared)
        slope = 1 / own + sum(
            (1 / Fraction(variance) for variance in self.features), Fraction(0)
        )
        bend = shared / (own * (own + self.cells * shared))
        if bend == 0:
            peak = self.touched
        else:
            peak = min(self.touched, int(slope / (2 * bend)))
        return max(
            j * slope - j * j * bend for j in (peak, min(peak + 1, self.touched))
        )


def box_noise(
    cells: int,
    touched: int,
    *,
    count_weight: float = 1.0,
    feature_weights: Sequence[float] = (),
) -> BoxNoise:
    """The noise of smallest count_weight * (variance of a count) + sum of feature_weights * (variances of features).

    For a loss of t^2 divide all variances by t^2; for cells of at most r rows multiply them by r^2.
    """
    checks.whole("cells", cells)
    checks.whole("touched", touched, f"[1, {cells}]")
    if not all(
        math.isfinite(weight) and weight > 0
        for weight in (count_weight, *feature_weights)
    ):
        raise ParameterError(
            "count_weight and feature_weights must be positive and finite."
        )
    # Among features the split of a given loss is Lagrange's: variances as 1/sqrt(weight).
    roots = np.sqrt(np.asarray(feature_weights, dtype=np.float64))
    pooled = float(roots.sum()) ** 2
    share = 0.0
    if len(roots):
        share = _best_share(cells, touched, count_weight, pooled)
    _, bend, loss = _best_bend(cells, touched, count_weight, pooled, share)
    own = loss
    shared = own * bend / (1 - cells * bend)
    if len(roots):
        features = tuple((own / share * roots.sum() / roots).tolist())
    else:
        features = ()
    noise = BoxNoise(cells, touched, own, shared, features)
    factor = float(noise.squared_loss()) * _SAFETY
    while True:
        proven = BoxNoise(
            cells,
            touched,
            own * factor,
            shared * factor,
            tuple(s * factor for s in features),
        )
        if proven.squared_loss() <= 1:
            return proven
        factor *= _SAFETY


def _best_share(cells: int, touched: int, weight: float, pooled: float) -> float:
    """How much features lose beside a count at the least cost.

    Of one cell the cost is (weight + pooled/share) (1 + share), least at the ratio of the roots; of more it is about
    there.
    """
    ratio = math.sqrt(pooled / weight)
    if cells == 1:
        return ratio

    def cost(log_share: float) -> float:
        return _best_bend(cells, touched, weight, pooled, math.exp(log_share))[0]

    middle = math.log(ratio)
    return math.exp(lowest(cost, middle - 4.0, middle + 4.0, xtol=1e-9))


def _best_bend(
    cells: int, touched: int, weight: float, pooled: float, share: float
) -> tuple[float, float, float]:
    """Cost, bend kappa = b/(a + d b) and loss/(1/a) at the best kappa, where features lose `share` times 1/a.

    Between the kinks, where j and j + 1 cells lose alike, one j is the worst and the cost is
    (A - B kappa)/(1 - d kappa) (j (1 + share) - j^2 kappa): its derivative vanishes at the roots of a quadratic.
    """
    slope = 1.0 + share
    if share > 0:
        rest = pooled / share
    else:
        rest = 0.0
    j = np.arange(1, touched + 1, dtype=np.float64)
    end = (1 - 1e-12) / cells  # at kappa = 1/d the shared noise is infinite
    constant = weight + rest
    linear = weight * (cells - 1) + rest * cells
    points = np.zeros(1)  # of one cell nothing is shared
    if cells > 1:
        roots = _stationary(constant, linear, cells, weight, slope * j, j * j)
        points = np.concatenate([[0.0, end], slope / (2 * j + 1), *roots])
        points = points[(points >= 0) & (points <= end)]
    losses = _worst_loss(points, slope, touched)
    costs = (constant - linear * points) / (1 - cells * points) * losses
    best = int(np.argmin(costs))
    return float(costs[best]), float(points[best]), float(losses[best])


def _stationary(
    constant: float,
    linear: float,
    cells: int,
    weight: float,
    level: Floats,
    square: Floats,
) -> tuple[Floats, Floats]:
    """Roots kappa of square (constant - linear kappa)(1 - d kappa) = weight (level - square kappa)."""
    a = square * linear * cells
    b = square * (weight - linear - constant * cells)
    c = square * constant - weight * level
    root = np.sqrt(np.maximum(b * b - 4 * a * c, 0.0))
    return (-b - root) / (2 * a), (-b + root) / (2 * a)


def _worst_loss(bends: Floats, slope: float, touched: int) -> Floats:
    """Largest slope j - bend j^2 over whole numbers j of touched cells."""
    with np.errstate(divide="ignore"):
        peak = np.clip(
            np.floor(np.where(bends > 0, slope / (2 * bends), touched)), 1, touched
        )
    after = np.minimum(peak + 1, touched)
    worst: Floats = np.maximum(
        slope * peak - bends * peak**2, slope * after - bends * after**2
    )
    return worst
