"""The noise of a request: how one squared mean shift is divided, and what each number's deviation becomes.

Draws that are independent add their squared losses. Each costs, in rows^2 at a loss of 1, the variance of the numbers
it serves; of a total loss they get shares as the roots of these costs, which minimises the sum of variances.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import ClassVar

import numpy as np
import scipy

from gaussveil.accounting import Charge
from gaussveil.calibration.boxes import BoxNoise, box_noise
from gaussveil.calibration.prefix_sums import EITHER_SHARE, prefix_noise, prefix_rows
from gaussveil.mechanisms.noisy_sums import ROUNDING_SHIFT, SAMPLER_RESERVE
from gaussveil.mechanisms.table.answers import Count, Sum
from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.mechanisms.table.profile_noise import ProfileNoise
from gaussveil.mechanisms.table.quantiles import RANGES, ROUND_SHARES, QuantileSearch
from gaussveil.mechanisms.table.request import Request
from gaussveil.postprocessing.intervals import Variances, Z
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics.unit_cells import Feature

DISCOVERY_SHARE = 0.1  # of the squared mean shift, for the numbers of units per key
RANGE_SHARE = 0.06  # for the sizes of values where ranges are learnt
PRIOR_SQUARE = 1 / 3  # of a mean's place in [-1, 1], of which nothing is known
MOST_COORDINATES = 10**9  # of all draws together, where keys are not known yet


@dataclass(frozen=True)
class TableNoise:
    """Every draw of a request, for a mean shift."""

    law: ClassVar[str] = "gaussian"
    request: Request
    mean_shift: float
    key_error: float = 0.0
    """Probability with which a key that one unit alone has may show."""

    @property
    def z(self) -> float:
        """Within how many deviations 95 % of the noise lie."""
        return Z

    @property
    def charge(self) -> Charge:
        """What one unit can lose."""
        return Charge(
            GaussianPair.mean_shift(self.mean_shift), sampler_error=self.sampler_error
        )

    @cached_property
    def losses(self) -> dict[str, float]:
        """Squared loss of each draw: their sum is what may be spent."""
        total = ((self.mean_shift - ROUNDING_SHIFT) * (1 - 2.0**-40)) ** 2
        asked = self.request.discovered
        found = {f"keys {name}": DISCOVERY_SHARE * total / len(asked) for name in asked}
        learnt = self.request.learnt_ranges
        found |= {
            f"range {column}": RANGE_SHARE * total / len(learnt) for column in learnt
        }
        roots = {name: math.sqrt(cost) for name, cost in self._costs.items()}
        left = (total - sum(found.values())) / sum(roots.values())
        return found | {name: left * root for name, root in roots.items()}

    @cached_property
    def _costs(self) -> dict[str, float]:
        request = self.request
        touched = float(request.touched)
        if request.counted:
            costs = {"rows": self._weights[0] * self._box.count_variance}
        else:
            costs = {}
        for weight, variance in zip(self._weights[1], self._box.features):
            costs["rows"] += weight * variance
        costs |= {
            f"sum {k}": self._lone(one).one for k, one in enumerate(request.lone_sums)
        }
        costs |= {f"histogram {k}": touched for k in range(len(request.histograms))}
        for k, one in enumerate(request.cumulatives):
            rows = prefix_rows(EITHER_SHARE, one.bins.size)
            served = rows @ prefix_noise(one.bins.size) @ rows.T
            costs[f"cumulative {k}"] = touched * float(np.trace(served)) / len(rows)
        costs |= {f"quantile {k}": touched for k in range(len(request.searches))}
        return costs | {f"profile {k}": touched for k in range(len(request.profiles))}

    @cached_property
    def _weights(self) -> tuple[float, tuple[float, ...]]:
        """What variances of counts and of features cost: one per number that they enter, in rows."""
        request = self.request
        if any(isinstance(one, Count) for one in request.answers):
            count = 1.0
        else:
            count = 0.0
        count += PRIOR_SQUARE * len(request.features)
        for one in request.answers:
            if isinstance(one, Sum) and not one.is_profile:
                feature = one.feature
                count += min((feature.middle / feature.half) ** 2, 4.0)
        return count, (1.0,) * len(request.features)

    @cached_property
    def _box(self) -> BoxNoise:
        count, features = self._weights
        request = self.request
        return box_noise(
            request.cells,
            request.touched,
            count_weight=count or 1.0,
            feature_weights=features,
        )

    def _lone(self, feature: Feature) -> Variances:
        """One sign: counts' noise; two signs: white, which is then best by symmetry."""
        if feature.low < 0 < feature.high:
            return Variances(float(self.request.touched))
        box = box_noise(self.request.cells, self.request.touched)
        return Variances(box.own, box.shared)

    def _scale(self, name: str) -> float:
        """What a variance at a loss of 1 and one row is multiplied by."""
        return self.request.rows**2 / self.losses[name]

    # In rows^2, of the numbers as they are drawn.

    @cached_property
    def count(self) -> Variances:
        """Variance of a count."""
        scale = self._scale("rows")
        return Variances(self._box.own * scale, self._box.shared * scale)

    @cached_property
    def features(self) -> tuple[float, ...]:
        """Variance of the sum of each feature."""
        return tuple(variance * self._scale("rows") for variance in self._box.features)

    @cached_property
    def lone_sums(self) -> tuple[Variances, ...]:
        """Variance of each lone sum, in units of its largest value."""
        made = [
            (self._lone(one), self._scale(f"sum {k}"))
            for k, one in enumerate(self.request.lone_sums)
        ]
        return tuple(
            Variances(one.own * scale, one.shared * scale) for one, scale in made
        )

    @cached_property
    def histograms(self) -> tuple[float, ...]:
        """Variance of a bin of each histogram."""
        return tuple(
            self.request.touched * self._scale(f"histogram {k}")
            for k in range(len(self.request.histograms))
        )

    @cached_property
    def cumulatives(self) -> tuple[float, ...]:
        """Multiples of `prefix_noise` that the bins of cumulative counts have."""
        count = len(self.request.cumulatives)
        return tuple(
            self.request.touched * self._scale(f"cumulative {k}") for k in range(count)
        )

    def searches(self) -> list[QuantileSearch]:
        """A search for every quantile, before its first round."""
        request = self.request
        made = []
        for k, (answer, together) in enumerate(request.searches):
            scale = float(request.touched) ** (2 if together else 1) * request.rows**2
            made.append(
                QuantileSearch(answer, together, self.losses[f"quantile {k}"], scale)
            )
        return made

    def profile(self, place: int) -> ProfileNoise:
        """The noise of the draws of a mean or sum within balls."""
        request = self.request
        loss = self.losses[f"profile {place}"]
        return ProfileNoise(request.profiles[place], request.layout, request.rows, loss)

    def key_deviation(self, name: str) -> float:
        """Standard deviation of the number of units that have a value of this key."""
        return math.sqrt(
            self.request.discovered[name].per_unit / self.losses[f"keys {name}"]
        )

    def key_threshold(self, name: str) -> float:
        """A value shows if its noisy number of units passes this; all keys share the chance to show one unit's own."""
        asked = self.request.discovered
        return key_threshold(
            self.key_deviation(name),
            self.key_error / (len(asked) * asked[name].per_unit),
        )

    @property
    def sampler_error(self) -> float:
        """Total variation of all draws and of showing a key: public, whatever the data."""
        request = self.request
        per_cell = request.counted + len(request.features) + len(request.lone_sums)
        per_cell += len(request.histograms) + sum(
            one.bins.size for one in (*request.histograms, *request.cumulatives)
        )
        per_cell += len(ROUND_SHARES) * (RANGES + 1) * len(request.searches)
        numbers = request.cells * per_cell + len(request.profiles) * (
            5 * request.cells + 256
        )
        numbers += len(OCTAVES) * len(request.learnt_ranges)
        return SAMPLER_RESERVE * min(numbers, MOST_COORDINATES) + self.key_error

    def spent(self) -> dict[str, object]:
        """What is spent on each draw, for the certificate."""
        return {"mean_shift": self.mean_shift, "squared losses": self.losses}

    def variances(self) -> dict[str, object]:
        """What is drawn, for the certificate: in rows^2, own and shared where numbers share a draw."""
        if self.request.counted:
            rows = {
                "rows": [self.count.own, self.count.shared],
                "features": [*self.features],
            }
        else:
            rows = {}
        others = {
            "sums": [[one.own, one.shared] for one in self.lone_sums],
            "histograms": [*self.histograms],
        }
        others |= {"cumulative counts, times the least": [*self.cumulatives]}
        return rows | {
            name: variances for name, variances in others.items() if variances
        }


@dataclass(frozen=True)
class PlannedNoise(TableNoise):
    """Noise of a design that was made for more cells, or any range: what was found later does not change it."""

    design: TableNoise = field(kw_only=True)

    @cached_property
    def losses(self) -> dict[str, float]:
        """Squared losses of the design."""
        return self.design.losses

    @cached_property
    def count(self) -> Variances:
        """The design's variance of a count."""
        return self.design.count

    @cached_property
    def features(self) -> tuple[float, ...]:
        """The design's variances of sums."""
        return self.design.features

    @cached_property
    def lone_sums(self) -> tuple[Variances, ...]:
        """The design's variances of lone sums."""
        return self.design.lone_sums

    @cached_property
    def histograms(self) -> tuple[float, ...]:
        """The design's variances of bins."""
        return self.design.histograms

    @cached_property
    def cumulatives(self) -> tuple[float, ...]:
        """The design's multiples of `prefix_noise`."""
        return self.design.cumulatives


def key_threshold(deviation: float, error: float) -> float:
    """What a noisy number of units must pass, so that a value of one unit alone shows with at most this chance."""
    beyond = -float(scipy.special.ndtri(error))
    return (
        1 + deviation * (1 + 2.0**-14) * beyond
    )  # what is drawn may be wider by a relative 1e-5
