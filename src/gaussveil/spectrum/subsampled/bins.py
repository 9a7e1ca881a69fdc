"""Balls in bins: a record draws one of many bins, whose outputs move together by a known amount.

With X_i, i = 1..bins, jointly Gaussian of covariance G, the density ratio is R = mean of exp(X_i - G_ii / 2). By
Kahane's inequality E F(R) grows with every entry of G, for every convex F; so entries replaced by larger ones bound
delta from above, by smaller ones from below. Bounds here have one entry beside the diagonal: R = e^Z R', Z normal and
common, R' of a random allocation (derived: docs/math/subsampled).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import scipy
from numpy.typing import ArrayLike

from gaussveil.errors import ParameterError
from gaussveil.spectrum.constants import ULP
from gaussveil.spectrum.gaussian_facts import FAINTER
from gaussveil.spectrum.named_profile import PrivacyProfile, integer, number, store
from gaussveil.spectrum.pair import GaussianPair
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.discrete_ratio import (
    SUMS_ROUNDED_UP,
    DiscreteRatio,
)
from gaussveil.spectrum.subsampled.ring import (
    COARSE,
    FINE,
    Ring,
    ring_epsilon,
    ring_upper,
)
from gaussveil.typing import Floats

# that a random allocation may have
LEAST_NOISE = 0.05
MOST_NOISE = 1e3
LEAST_SHIFT = 1e-4  # smaller ones are raised to it, or dropped from a lower end
# of a random allocation's curve, in each direction
ALLOCATION_NODES = 400
LOWER_NODES = 150
FEW_LEVELS = 4  # epsilons that are answered on a fine lattice
# that are answered by rings at all: a composition asks at thousands, of which each ring is told for one alone
MOST_LEVELS = 200
FARTHER_OUT = 1.0005  # of an epsilon
LITTLE_LEFT = 1e-15  # delta of a random allocation at its last node
LAST_EPSILON = 60.0  # epsilon of the last node, at most


class CommonAndOwn(NamedTuple):
    """Bins of equal covariances: a shift common to all, and one of each bin's own, 1 / noise_multiplier."""

    shift: float
    noise_multiplier: float
    bins: int


@dataclass(frozen=True)
class BinnedAllocation(PrivacyProfile):
    """One of several bins, drawn uniformly; the record is added instead of removed if `backward`.

    Upper ends are the least of several bounds, each with a common shift, a noise multiplier and a number of bins;
    `largest_shift` is that of a bin which is known. Lower ends are the largest of several bounds of the same kind.
    """

    name: ClassVar[str] = "balls-in-bins"
    neighbours: ClassVar[str | None] = "add-remove"
    relative_error: ClassVar[float] = 0.0  # values are upper ends
    known_shift: float
    shifts: tuple[float, ...]
    noise_multipliers: tuple[float, ...]
    bins: tuple[int, ...]
    least_shifts: tuple[float, ...] = ()
    least_noise_multipliers: tuple[float, ...] = ()
    least_bins: tuple[int, ...] = ()
    backward: bool = False

    def __post_init__(self) -> None:
        store(
            self,
            "known_shift",
            number("known_shift", self.known_shift, low=0.0, high=1e6),
        )
        for prefix in ("", "least_"):
            shifts = getattr(self, f"{prefix}shifts")
            noises = getattr(self, f"{prefix}noise_multipliers")
            bins = getattr(self, f"{prefix}bins")
            if not len(shifts) == len(noises) == len(bins):
                raise ParameterError(
                    "'shifts', 'noise_multipliers' and 'bins' must be one of each for every bound."
                )
            store(
                self,
                f"{prefix}shifts",
                tuple(number("shifts", value, low=0.0, high=1e6) for value in shifts),
            )
            noises = tuple(
                number("noise_multipliers", value, low=LEAST_NOISE, high=MOST_NOISE)
                for value in noises
            )
            store(self, f"{prefix}noise_multipliers", noises)
            store(
                self,
                f"{prefix}bins",
                tuple(integer("bins", value, low=1) for value in bins),
            )

    @classmethod
    def of(
        cls,
        known_shift: float,
        above: Sequence[CommonAndOwn],
        below: Sequence[CommonAndOwn],
        **others: Any,
    ) -> Self:
        """Of bounds from above and from below; what no random allocation here is made for is left out of them."""
        kept = [
            _raised(bound)
            for bound in above
            if bound.noise_multiplier >= LEAST_NOISE and bound.bins > 1
        ]
        less = [_lowered(bound) for bound in below]
        return cls(
            known_shift,
            tuple(bound.shift for bound in kept),
            tuple(bound.noise_multiplier for bound in kept),
            tuple(bound.bins for bound in kept),
            tuple(bound.shift for bound in less),
            tuple(bound.noise_multiplier for bound in less),
            tuple(bound.bins for bound in less),
            **others,
        )

    @property
    def above(self) -> list[CommonAndOwn]:
        """The bounds of upper ends."""
        return [
            CommonAndOwn(*bound)
            for bound in zip(self.shifts, self.noise_multipliers, self.bins)
        ]

    @property
    def below(self) -> list[CommonAndOwn]:
        """The bounds of lower ends."""
        columns = self.least_shifts, self.least_noise_multipliers, self.least_bins
        return [CommonAndOwn(*bound) for bound in zip(*columns)]

    @property
    def largest_shift(self) -> float:
        """That of the bin which moves outputs most, if it were known."""
        return self.known_shift

    def reversed(self) -> BinnedAllocation:
        """The record is added instead of removed."""
        return replace(self, backward=not self.backward)

    @property
    def convolutions(self) -> int:
        """One for each bound; of its sums."""
        return len(self.bins)

    def affordable_nodes(self, work: float) -> float:
        """As many as closed forms of its discrete laws can answer at once."""
        return 2**14

    def fainter(self) -> PrivacyCurve:
        """The same; lower ends are bounds of their own."""
        return self

    def lower(self, epsilon: float, count: int = 1) -> float:
        """A lower end of delta of one use, or of more, of a removed record."""
        if self.backward:
            return 0.0
        return max((_mixed_lower(bound, epsilon) for bound in self.below), default=0.0)

    def _divergence(self, epsilon: Floats) -> Any:
        levels = np.ravel(epsilon) * (1.0 - 4.0 * ULP)
        shift = max(self.known_shift, 1e-300) * (1.0 + 8.0 * ULP)
        ends = [
            np.asarray(GaussianPair.mean_shift(shift).delta(levels)) * SUMS_ROUNDED_UP
            + 1e-300
        ]
        for bound in self.above:
            law = _discrete(bound.noise_multiplier, bound.bins)
            ends.append(
                law.added(levels, bound.shift)
                if self.backward
                else law.removed(levels, bound.shift)
            )
        return np.reshape(np.minimum(np.min(ends, axis=0), 1.0), np.shape(epsilon))


@dataclass(frozen=True)
class RingAllocation(BinnedAllocation):
    """The same with upper ends from bins on a ring, too, whose covariances fall with their distance.

    Each of `rings` has a common shift, the variance of what decays, its decay, and the variance of a bin's own.
    """

    name: ClassVar[str] = "balls-in-bins"
    version: ClassVar[int] = 2
    rings: tuple[tuple[float, ...], ...] = ()
    ring_bins: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        rings = []
        for shift, chained, decay, own in self.rings:
            rings.append(
                (
                    number("rings", shift, low=0.0, high=1e6),
                    number("rings", chained, low=1e-12, high=1e6),
                    number("rings", decay, low=1e-3, high=1.0 - 1e-6),
                    number("rings", own, low=1e-12, high=1e6),
                )
            )
        store(self, "rings", tuple(rings))
        store(self, "ring_bins", integer("ring_bins", self.ring_bins, low=0))

    def _plain(self) -> BinnedAllocation:
        """The same without rings."""
        fields = [getattr(self, one.name) for one in dataclass_fields(BinnedAllocation)]
        return BinnedAllocation(*fields)

    @property
    def _around(self) -> list[Ring]:
        return [
            Ring(shift, chained, decay, own, self.ring_bins)
            for shift, chained, decay, own in self.rings
        ]

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side."""
        limit = self._plain().epsilon(delta)
        if np.ndim(delta) or not 0.0 < limit < math.inf:
            return limit
        goal = float(np.asarray(delta))
        found = ring_epsilon(self._around, goal, float(limit), backward=self.backward)
        # windows are made for an epsilon in `delta`, and for a delta here
        for further in found * FARTHER_OUT ** np.arange(8.0):
            if further < limit and float(self.delta(further)) <= goal:
                return np.float64(further)
        return np.float64(limit)

    def dp_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon of both directions, from the private side; the other one is looked at first."""
        ahead = self.epsilon(delta)
        other = self.reversed()
        if np.ndim(delta) == 0 and float(other.delta(ahead)) <= float(
            np.asarray(delta)
        ):
            return ahead
        return np.maximum(ahead, other.epsilon(delta))

    def _divergence(self, epsilon: Floats) -> Any:
        upper = np.ravel(super()._divergence(epsilon))
        levels = np.ravel(epsilon)
        if levels.size > MOST_LEVELS:
            return np.reshape(upper, np.shape(epsilon))
        if levels.size <= FEW_LEVELS:
            cells = FINE
        else:
            cells = COARSE
        around = self._around
        ends = [
            ring_upper(around, level, cells, backward=self.backward)
            for level in levels.tolist()
        ]
        return np.reshape(np.minimum(upper, ends), np.shape(epsilon))


def _raised(bound: CommonAndOwn) -> CommonAndOwn:
    """With roundings to the private side."""
    if bound.shift > 0.0:
        shift = max(bound.shift / FAINTER, LEAST_SHIFT)
    else:
        shift = 0.0
    return CommonAndOwn(
        shift, min(bound.noise_multiplier * FAINTER, MOST_NOISE), bound.bins
    )


def _lowered(bound: CommonAndOwn) -> CommonAndOwn:
    """With roundings to the other side."""
    if bound.shift >= LEAST_SHIFT:
        shift = bound.shift * FAINTER
    else:
        shift = 0.0
    noise = min(max(bound.noise_multiplier / FAINTER, LEAST_NOISE), MOST_NOISE)
    return CommonAndOwn(shift, noise, bound.bins)


@lru_cache(maxsize=64)
def _discrete(noise_multiplier: float, bins: int) -> DiscreteRatio:
    """Calls E (R - u)_+ at nodes u >= 1 and puts E (u - R)_+ at nodes u <= 1, joined by chords, as both are convex."""
    law = RandomAllocation(noise_multiplier, bins)
    up = down = _nodes(law, ALLOCATION_NODES)
    calls = np.array(law.delta(up))
    shares = np.array(law.reversed().delta(down))  # of u: E (1 - R/u)_+
    calls[0] = shares[0] = max(
        calls[0], shares[0]
    )  # both are the total variation distance
    values = np.concatenate([np.exp(-down[:0:-1]), np.exp(up)])
    # E (R - u)_+ below 1 is 1 - u + E (u - R)_+; slopes are taken of the puts there, since nothing cancels in them.
    puts = np.exp(-down) * shares
    slopes_down = (np.diff(puts[::-1]) / np.diff(np.exp(-down[::-1]))) - 1.0
    slopes_up = np.diff(calls) / np.diff(np.exp(up))
    slopes = np.concatenate([slopes_down, slopes_up, [0.0]])
    at_zero = float(shares[-1])
    masses = np.diff(np.concatenate([[-1.0 + at_zero], slopes]))
    # Chords of computed upper ends may bend the wrong way by roundings: negative masses are left out, which only adds.
    return DiscreteRatio(values, np.maximum(masses, 0.0), at_zero, float(calls[-1]))


def _nodes(law: RandomAllocation, count: int) -> Floats:
    """Epsilons from 0 to where next to nothing is left, by a lower end, which is cheap; any choice is sound."""
    last_known = float(
        GaussianPair.mean_shift(1.0 / law.noise_multiplier).epsilon(LITTLE_LEFT)
    )
    ends = min(last_known, LAST_EPSILON) * np.linspace(1.0, 0.0, 64, endpoint=False)
    enough = [law.quick_lower(end) <= LITTLE_LEFT for end in ends.tolist()]
    return np.linspace(0.0, float(ends[max(sum(enough) - 1, 0)]), count + 1)


def _mixed_lower(bound: CommonAndOwn, epsilon: float) -> float:
    """A lower end of E e^Z C(a e^-Z): C(u) = E (R' - u)_+ falls, so on a cell of u its value at the end serves."""
    if bound.noise_multiplier == MOST_NOISE:  # next to nothing is the bins' own
        if bound.shift:
            return float(GaussianPair.mean_shift(bound.shift).enclose(epsilon).lower)
        return 0.0
    levels, calls = _lower_calls(bound.noise_multiplier, bound.bins)
    if bound.shift == 0.0:
        return RandomAllocation(bound.noise_multiplier, bound.bins).quick_lower(epsilon)
    edges = (
        epsilon - levels
    ) / bound.shift  # of Z over its deviation, under the law tilted by e^Z
    chance = scipy.special.ndtr(edges - 0.5 * bound.shift)
    return max(
        float((calls[1:] * np.maximum(chance[:-1] - chance[1:], 0.0)).sum())
        * (1.0 - 1e-9)
        - 1e-15,
        0.0,
    )


@lru_cache(maxsize=64)
def _lower_calls(noise_multiplier: float, bins: int) -> tuple[Floats, Floats]:
    """Levels log u, growing, and lower ends of E (R - u)_+ there."""
    law = RandomAllocation(noise_multiplier, bins)
    up = down = _nodes(law, LOWER_NODES)
    back = law.reversed()
    low = [
        -math.expm1(-level) + math.exp(-level) * back.quick_lower(level)
        for level in down[:0:-1].tolist()
    ]
    levels = np.concatenate([[-40.0], -down[:0:-1], up])
    return levels, np.concatenate(
        [[1.0 - 1e-17], low, [law.quick_lower(level) for level in up.tolist()]]
    ) * (1.0 - 1e-12)
