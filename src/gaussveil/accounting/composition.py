"""Everything an account has spent, composed: one delta for one epsilon, both directions, with its rigorous upper end.

How entries that may stand either way round, profiles and samplers' errors compose: docs/ledger.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gaussveil import checks
from gaussveil.accounting.charge import Charge, Part, fold
from gaussveil.accounting.cumulants import cumulants_at, log_chernoff
from gaussveil.accounting.directed import (
    ROUND_UP,
    Directed,
    sampler_delta,
)
from gaussveil.accounting.pure_losses import largest_loss, pure_epsilon
from gaussveil.errors import AssumptionError
from gaussveil.spectrum import Enclosure
from gaussveil.spectrum.constants import LARGEST_EPSILON, SMALLEST_DELTA
from gaussveil.spectrum.enclosures.interval import ZERO
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.turns import surrounded
from gaussveil.spectrum.worse_orientation import WorseOrientation
from gaussveil.typing import Floats

PATTERNS = 1024
TIE = 1e-6  # directions this close to the worst are all enclosed; floats agree to better than 1e-9
PROFILE_PATTERNS = 16
FEW = 4  # orientations that are tried in doubles first
NEGLIGIBLE = 1e-250  # a delta whose bound by cumulants is answer enough


@dataclass(frozen=True, eq=False)
class Composition:
    """A multiset of charges composed under one adjacency."""

    parts: tuple[Part, ...]
    sampler_error: float
    symmetric: bool
    adaptive: bool = False

    @classmethod
    def of(
        cls,
        charges: Iterable[tuple[Charge, int]],
        *,
        symmetric: bool,
        adaptive: bool = False,
    ) -> Composition:
        """Fold `(charge, how many)` pairs into one composition.

        `adaptive` says that queries, not charges, may depend on earlier outputs: true of all but a single release.
        """
        listed = list(charges)
        for _, count in listed:
            checks.whole("count", count)  # nothing that was released can be taken back
        parts = [
            Part(part.source, part.count * count)
            for charge, count in listed
            for part in charge.parts
        ]
        total = math.fsum(charge.sampler_error * count for charge, count in listed)
        several = sum(count for _, count in listed) > 1
        return cls(fold(parts), total * ROUND_UP, symmetric, adaptive and several)

    @cached_property
    def _asymmetric(self) -> tuple[Part, ...]:
        if self.symmetric:
            return tuple(part for part in self.parts if not part.source.symmetric)
        return ()

    @property
    def _fixed(self) -> list[Part]:
        return [
            part
            for part in self.parts
            if not any(part is other for other in self._asymmetric)
        ]

    @cached_property
    def _free(self) -> bool:
        """Whether the way round of some entry can be chosen after seeing another one's output."""
        return self.adaptive and bool(self._asymmetric)

    @cached_property
    def method(self) -> str:
        """How delta is computed: the words that a certificate or statement shows."""
        if self._bounded:
            return "Chernoff bound over all orientations"
        if self._free:
            return "pessimistic discretised composition, either way round"
        pessimistic = any(directed.pessimistic for directed in self._directed)
        if pessimistic:
            words = "pessimistic discretised composition"
        else:
            words = "exact composition"
        if self._asymmetric:
            return f"{words}, worst over orientations"
        return f"{words}, worse of both directions"

    @property
    def _bounded(self) -> bool:
        if self._free:
            return False
        slow = any(part.source.stored_as != "gaussian" for part in self.parts)
        return math.prod(part.count + 1 for part in self._asymmetric) > (
            PROFILE_PATTERNS if slow else PATTERNS
        )

    def _orientations(self) -> Iterator[list[Part]]:
        """Every way round that the entries can stand, up to reversing all of them at once."""
        fixed = self._fixed
        for reversals in itertools.product(
            *(range(part.count + 1) for part in self._asymmetric)
        ):
            pattern = list(fixed)
            for part, flipped in zip(self._asymmetric, reversals, strict=True):
                if flipped < part.count:
                    pattern.append(Part(part.source, part.count - flipped))
                if flipped:
                    pattern.append(Part(part.source.reversed(), flipped))
            yield pattern

    @cached_property
    def _directed(self) -> tuple[Directed, ...]:
        if self._free:
            free = [
                (WorseOrientation(part.source), part.count) for part in self._asymmetric
            ]
            return (
                Directed([*free, *((part.source, part.count) for part in self._fixed)]),
            )
        patterns = [
            Directed([(part.source, part.count) for part in pattern])
            for pattern in self._orientations()
        ]
        # Enumerated patterns already hold each pattern's opposite; oriented ones need both directions explicitly.
        if self._asymmetric or all(part.source.symmetric for part in self.parts):
            return tuple(patterns)  # what is its own reverse needs one direction only
        return (
            *patterns,
            Directed([(part.source.reversed(), part.count) for part in self.parts]),
        )

    def directions(self) -> list[tuple[Directed, Directed]]:
        """Every orientation with its opposite; refused where only a bound over them is known."""
        if self._bounded:
            raise AssumptionError(
                "entries that are not symmetric can stand in too many orientations to list; only their bound is known. "
                "Use add/remove adjacency, or fewer such entries"
            )
        if self._asymmetric:
            return [(directed, directed) for directed in self._directed]
        return [(self._directed[0], self._directed[-1])]

    def delta(self, epsilon: float) -> float:
        """Guaranteed delta at `epsilon`, sampler error included."""
        _check_epsilon(epsilon)
        if not self.parts:
            return 0.0
        if self._bounded:
            ideal = self._chernoff(epsilon)
        else:
            ideal = max(directed.delta(epsilon) for directed in self._directed)
        if self._free:
            ideal = min(ideal, self._chernoff(epsilon))
        return min(1.0, ideal + sampler_delta(epsilon, self.sampler_error))

    def enclose(self, epsilon: float) -> Enclosure:
        """Ends of the guaranteed delta, and whether they are proven; the lower end is 0 where only a bound is known."""
        enclosure = self._enclosed(epsilon)
        if not enclosure:
            return self.enclose_upper(epsilon)
        below = [directed.lower(epsilon, end) for directed, end in enclosure]
        upper = self._charged(
            epsilon,
            max(float(end.upper) for _, end in enclosure),
            all(end.proven for _, end in enclosure),
        )
        lower = min(max(float(end.lower) for end in below), 1.0)
        return Enclosure.of(
            lower, upper.upper, proven=upper.proven and all(end.proven for end in below)
        )

    def enclose_upper(self, epsilon: float) -> Enclosure:
        """The upper end of `enclose` above 0."""
        _check_epsilon(epsilon)
        if not self.parts:
            return ZERO
        if enclosure := self._enclosed(epsilon):
            upper = max(float(end.upper) for _, end in enclosure)
            return self._charged(
                epsilon, upper, all(end.proven for _, end in enclosure)
            )
        ideal = self._chernoff_upper(epsilon)
        proven = all(part.source.cumulants_proven for part in self.parts)
        if self._free:
            whole = self._directed[0].enclose(epsilon)
            if whole.upper < ideal:
                ideal = float(whole.upper)
                proven = whole.proven
        return self._charged(epsilon, max(ideal, SMALLEST_DELTA), proven)

    def _enclosed(self, epsilon: float) -> list[tuple[Directed, Enclosure]]:
        """Directions that may be the worst, with ends; none where a bound over all of them is all that is known."""
        _check_epsilon(epsilon)
        if not self.parts or self._free or self._bounded:
            return []
        first = self._directed[0]
        if not self._asymmetric and first.encloses_jointly:
            return [(first, first.enclose_jointly(epsilon))]
        return [
            (directed, directed.enclose(epsilon)) for directed in self._worst(epsilon)
        ]

    def _charged(self, epsilon: float, ideal: float, proven: bool) -> Enclosure:
        """From 0 to an ideal delta with the sampler's share on top."""
        total = ideal + sampler_delta(epsilon, self.sampler_error)
        if total:
            upper = min(1.0, total * ROUND_UP)
        else:
            upper = 0.0
        return Enclosure.of(0.0, upper, proven=proven or upper >= 1.0)

    def _worst(self, epsilon: float) -> tuple[Directed, ...]:
        """Directions that may be the worst; none where all are negligible and a bound is answer enough."""
        if len(self._directed) == 1:
            return self._directed
        rough = [directed.delta(epsilon) for directed in self._directed]
        worst = max(rough)
        if 0.0 < worst < NEGLIGIBLE and self._chernoff_upper(epsilon) < NEGLIGIBLE:
            return ()
        return tuple(
            curve
            for curve, value in zip(self._directed, rough, strict=True)
            if value >= worst * (1 - TIE)
        )

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Both ends of `enclose`."""
        ends = self.enclose(epsilon)
        return float(ends.lower), float(ends.upper)

    def may_be_proven(self, epsilon: float) -> bool:
        """Whether `enclose_upper` can be proven: found without computing it."""
        if self._free or self._bounded:
            return all(part.source.cumulants_proven for part in self.parts)
        uses = sum(part.count for part in self.parts)
        exact = all(part.source.factors() is not None for part in self.parts)
        return (
            exact
            or uses <= 1
            or epsilon
            >= largest_loss([(part.source, part.count) for part in self.parts])
        )

    def quick_upper(self, epsilon: float) -> float:
        """A proven upper end by doubles alone, larger by less than one part in 1e10; infinite if they do not decide."""
        _check_epsilon(epsilon)
        if self._free or self._bounded or not 0 < len(self._directed) <= FEW:
            return math.inf
        ideal = max(directed.upper_end(epsilon) for directed in self._directed)
        return (ideal + sampler_delta(epsilon, self.sampler_error)) * ROUND_UP

    @cached_property
    def _upper_ends(self) -> dict[tuple[float, float], Enclosure]:
        return {}

    def upper_within(self, epsilon: float, enough: float) -> Enclosure:
        """An upper end above 0, sampler error included; by doubles alone, but proven, where that is `enough`."""
        if (epsilon, enough) not in self._upper_ends:
            if enough:
                quick = self.quick_upper(epsilon)
            else:
                quick = math.inf
            if quick <= enough:
                ends = Enclosure.of(0.0, quick, proven=True)
            else:
                ends = self.enclose_upper(epsilon)
            self._upper_ends[epsilon, enough] = ends
        return self._upper_ends[epsilon, enough]

    def delta_upper(self, epsilon: float, enough: float = 0.0) -> float:
        """The number of `upper_within`."""
        return float(self.upper_within(epsilon, enough).upper)

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon found with `delta(epsilon) <= delta`, on the private side; infinite if there is none."""
        checks.real("delta", delta, "[0, 1)")
        if not self.parts:
            return 0.0
        if delta == 0:
            if self.sampler_error:
                return math.inf
            return pure_epsilon(
                [(part.source, part.count) for part in self.parts],
                symmetric=self.symmetric,
            )
        if self._bounded:
            if self.delta_upper(0.0) <= delta:
                return 0.0
            return self._solve(self._chernoff_upper, delta, 0.0)
        epsilon = 0.0
        while True:
            # Solve for the worst orientation alone; a few rounds find the one that decides.
            worst = max(self._directed, key=lambda directed: directed.upper(epsilon))
            if (
                worst.upper(epsilon) + sampler_delta(epsilon, self.sampler_error)
                <= delta
            ):
                return epsilon
            epsilon = self._solve(worst.upper, delta, epsilon)
            if math.isinf(epsilon):
                return epsilon

    def _solve(
        self, ideal: Callable[[float], float], delta: float, low: float
    ) -> float:
        """Smallest epsilon above `low`, which is not private, at which `ideal` and the sampler's share fit in delta."""

        def value(epsilon: float) -> float:
            return ideal(epsilon) + sampler_delta(epsilon, self.sampler_error)

        def look(epsilon: float) -> Trial:
            here = value(epsilon)
            log_excess = math.log(max(here, 1e-320) / delta)
            if here > delta:
                return Trial(max(log_excess, SMALLEST_DELTA))
            return Trial(min(log_excess, 0.0))

        def is_decided(epsilon: float) -> bool:
            # Once the sampler's share alone exceeds delta, larger epsilons only make it worse.
            lost = sampler_delta(epsilon, self.sampler_error) > delta
            return lost or epsilon > LARGEST_EPSILON or value(epsilon) <= delta

        first = low + max(0.125, low)
        before, high = surrounded(
            is_decided, first, factor=2.0, least=first, most=math.inf
        )
        low = max(low, before)
        if value(high) > delta:  # look more closely below
            inside = [
                node
                for node in np.linspace(low, high, 65)
                if value(float(node)) <= delta
            ]
            if not inside:
                return math.inf
            high = float(inside[0])
        return private_end(look, high, low, high, rtol=1e-13)

    @cached_property
    def _worst_cumulants(self) -> list[tuple[float, float, float]]:
        orders = np.geomspace(1e-3, 1e4, 141)
        cumulants, left_out = worst_cumulants(self.parts, orders)
        return list(zip(orders.tolist(), cumulants.tolist(), left_out.tolist()))

    def _chernoff(self, epsilon: float) -> float:
        """Bound for every orientation pattern: min_s exp(sum_j max(K_j, K_j reversed)(s) - s epsilon + log c(s))."""
        best = 1.0
        for order, cumulant, left_out in self._worst_cumulants:
            exponent = cumulant - order * epsilon + log_chernoff(order)
            exponent += 2.0**-50 * (
                cumulant + order * (epsilon + 10.0)
            )  # its roundings; orders end at 1e4
            if exponent < 0:
                best = min(best, math.exp(exponent) + sampler_delta(epsilon, left_out))
        return best

    def _chernoff_upper(self, epsilon: float) -> float:
        return self._chernoff(epsilon) * (1 + 1e-9)


def worst_cumulants(parts: Iterable[Part], orders: Floats) -> tuple[Floats, Floats]:
    """Sum over the parts of the larger of K(s) and K reversed(s), worst label edge; and the tail mass left out."""
    total = np.zeros((len(orders), 1))
    left_out = np.zeros(len(orders))
    for part in parts:
        ahead, back, tail = cumulants_at(part, orders)
        total = total + np.maximum(ahead, back).reshape(len(orders), -1)
        left_out = left_out + tail
    return np.max(total, axis=1), left_out


def _check_epsilon(epsilon: float) -> None:
    checks.real("epsilon", epsilon, "[0, inf)")
