"""Everything an account has spent, composed: one delta for one epsilon, both directions, with its rigorous upper end.

How entries that may stand either way round, profiles and samplers' errors compose: docs/ledger.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.accounting.charge import Charge, LossOrProfile, Part, fold
from gaussveil.accounting.cumulants import cumulants_at, log_chernoff
from gaussveil.errors import AssumptionError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.curve import LOSS_RELATIVE_ERROR, Curve, worst_delta
from gaussveil.spectrum.enclosures.upper_end import upper_end
from gaussveil.spectrum.profiles import PrivacyProfile
from gaussveil.spectrum.roots import brent
from gaussveil.spectrum.subsampled.composed import composed
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.typing import Floats

PATTERNS = 1024
TIE = 1e-6  # edges and directions this close to the worst are all enclosed; floats agree to better than 1e-9
INTERVAL = 2.0**-10  # grid of discretised losses: any choice is sound, a finer one tighter and slower
MAX_BINS = 2**16
PROFILE_PATTERNS = 16
ROUND_UP = 1.0 + 8 * 2.0**-53
FEW = 4  # orientations that are tried in doubles first
NEGLIGIBLE = 1e-250  # a delta whose bound by cumulants is answer enough
SMALLEST = math.ulp(0.0)  # what a delta that leaves the range of doubles counts as
UNDERFLOW = 2.0**-1060  # above what steps that leave that range take off a profile's delta


def sampler_delta(epsilon: float, sampler_error: float) -> float:
    """(1 + e^epsilon) eta, rounded up (mathematics, section 6)."""
    if sampler_error == 0:
        return 0.0
    return (1.0 + math.exp(epsilon)) * sampler_error * ROUND_UP if epsilon < 700 else math.inf


@dataclass(frozen=True, eq=False)
class Composition:
    """A multiset of charges composed under one adjacency."""

    parts: tuple[Part, ...]
    sampler_error: float
    symmetric: bool
    adaptive: bool = False

    @classmethod
    def of(cls, charges: Iterable[tuple[Charge, int]], *, symmetric: bool, adaptive: bool = False) -> Composition:
        """Fold `(charge, how many)` pairs into one composition.

        `adaptive` says that queries, not charges, may depend on earlier outputs: true of all but a single release.
        """
        listed = list(charges)
        for _, count in listed:
            checks.whole("count", count)  # nothing that was released can be taken back
        parts = [Part(part.source, part.count * count) for charge, count in listed for part in charge.parts]
        total = math.fsum(charge.sampler_error * count for charge, count in listed)
        several = sum(count for _, count in listed) > 1
        return cls(fold(parts), total * ROUND_UP, symmetric, adaptive and several)

    @cached_property
    def _asymmetric(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if is_asymmetric(part.source)) if self.symmetric else ()

    @property
    def _fixed(self) -> list[Part]:
        return [part for part in self.parts if not any(part is other for other in self._asymmetric)]

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
        pessimistic = any(isinstance(part.source, PrivacyProfile) for part in self.parts)
        words = "pessimistic discretised composition" if pessimistic else "exact composition"
        return f"{words}, worst over orientations" if self._asymmetric else f"{words}, worse of both directions"

    @property
    def _bounded(self) -> bool:
        if self._free:
            return False
        slow = any(isinstance(part.source, PrivacyProfile) for part in self.parts)
        return math.prod(part.count + 1 for part in self._asymmetric) > (PROFILE_PATTERNS if slow else PATTERNS)

    def _orientations(self) -> Iterator[list[Part]]:
        """Every way round that the entries can stand, up to reversing all of them at once."""
        fixed = self._fixed
        for reversals in itertools.product(*(range(part.count + 1) for part in self._asymmetric)):
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
            free = [(WorseOrientation(part.source), part.count) for part in self._asymmetric]
            return (Directed([*free, *((part.source, part.count) for part in self._fixed)]),)
        patterns = [Directed([(part.source, part.count) for part in pattern]) for pattern in self._orientations()]
        # Enumerated patterns already hold each pattern's opposite; oriented ones need both directions explicitly.
        if self._asymmetric or not any(is_asymmetric(part.source) for part in self.parts):
            return tuple(patterns)  # what is its own reverse needs one direction only
        return (*patterns, Directed([(part.source.reversed(), part.count) for part in self.parts]))

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

    def delta_bounds(self, epsilon: float) -> tuple[float, float]:
        """Rigorous lower and upper ends of the guaranteed delta (the lower end is 0 where only a bound is known)."""
        _check_epsilon(epsilon)
        if not self.parts:
            return 0.0, 0.0
        charged = sampler_delta(epsilon, self.sampler_error)
        if self._free:
            ideal = min(self._directed[0].bounds(epsilon)[1], self._chernoff_upper(epsilon))
            return 0.0, min(1.0, (ideal + charged) * ROUND_UP)
        if self._bounded:
            return 0.0, min(1.0, (self._chernoff_upper(epsilon) + charged) * ROUND_UP)
        tied = self._directed
        if len(tied) > 1:
            rough = [directed.delta(epsilon) for directed in tied]
            worst = max(rough)
            if 0.0 < worst < NEGLIGIBLE and (bound := self._chernoff_upper(epsilon)) < NEGLIGIBLE:
                return 0.0, min(1.0, max(bound + charged, SMALLEST) * ROUND_UP)
            tied = tuple(found for found, value in zip(tied, rough, strict=True) if value >= worst * (1 - TIE))
        bounds = [directed.bounds(epsilon) for directed in tied]
        lower, upper = max(low for low, _ in bounds), max(high for _, high in bounds)
        return min(lower, 1.0), min(1.0, (upper + charged) * ROUND_UP if upper + charged else 0.0)

    def delta_upper(self, epsilon: float, enough: float = 0.0) -> float:
        """Rigorous upper end of the guaranteed delta, sampler error included.

        One that doubles prove, larger by less than one part in 1e10, will do where it is at most `enough`.
        """
        _check_epsilon(epsilon)
        if enough and not (self._free or self._bounded) and 0 < len(self._directed) <= FEW:
            ideal = max(directed.upper_end(epsilon) for directed in self._directed)
            upper = (ideal + sampler_delta(epsilon, self.sampler_error)) * ROUND_UP
            if upper <= enough:
                return upper
        return self.delta_bounds(epsilon)[1]

    def epsilon(self, delta: float) -> float:
        """Smallest epsilon found with `delta(epsilon) <= delta`, on the private side; infinite if there is none."""
        checks.real("delta", delta, "(0, 1)")
        if not self.parts:
            return 0.0
        if self._bounded:
            return 0.0 if self.delta_upper(0.0) <= delta else self._solve(self._chernoff_upper, delta, 0.0)
        epsilon = 0.0
        while True:
            # Solve for the worst orientation alone; a few rounds find the one that decides.
            worst = max(self._directed, key=lambda directed: directed.upper(epsilon))
            if worst.upper(epsilon) + sampler_delta(epsilon, self.sampler_error) <= delta:
                return epsilon
            epsilon = self._solve(worst.upper, delta, epsilon)
            if math.isinf(epsilon):
                return epsilon

    def _solve(self, ideal: Callable[[float], float], delta: float, low: float) -> float:
        """Smallest epsilon above `low`, which is not private, at which `ideal` and the sampler's share fit in delta."""

        def value(epsilon: float) -> float:
            return ideal(epsilon) + sampler_delta(epsilon, self.sampler_error)

        def log_excess(epsilon: float) -> float:
            return math.log(max(value(epsilon), 1e-320) / delta)

        high = low + max(0.125, low)
        while value(high) > delta:
            # Once the sampler's share alone exceeds delta, larger epsilons only make it worse: look more closely below.
            if high > 1e6 or sampler_delta(high, self.sampler_error) > delta:
                inside = [node for node in np.linspace(low, high, 65) if value(float(node)) <= delta]
                if not inside:
                    return math.inf
                high = float(inside[0])
                break
            low, high = high, 2 * high
        root = float(brent(log_excess, low, high, xtol=1e-14, rtol=1e-13))
        step = 1e-13 * root
        while value(root) > delta:
            root, step = min(root + step, high), 2 * step
        return root

    @cached_property
    def _worst_cumulants(self) -> list[tuple[float, float, float]]:
        orders = np.geomspace(1e-3, 1e4, 141)
        found, left_out = worst_cumulants(self.parts, orders)
        return list(zip(orders.tolist(), found.tolist(), left_out.tolist()))

    def _chernoff(self, epsilon: float) -> float:
        """Bound for every orientation pattern: min_s exp(sum_j max(K_j, K_j reversed)(s) - s epsilon + log c(s))."""
        best = 1.0
        for order, cumulant, left_out in self._worst_cumulants:
            exponent = cumulant - order * epsilon + log_chernoff(order)
            exponent += 2.0**-50 * (cumulant + order * (epsilon + 10.0))  # its roundings; orders end at 1e4
            if exponent < 0:
                best = min(best, math.exp(exponent) + sampler_delta(epsilon, left_out))
        return best

    def _chernoff_upper(self, epsilon: float) -> float:
        return self._chernoff(epsilon) * (1 + 1e-9)


class Directed:
    """Parts that all stand in one direction: a composed Gaussian loss, or a pessimistic distribution with profiles."""

    def __init__(self, parts: Sequence[tuple[LossOrProfile | WorseOrientation, int]]) -> None:
        profiles = [(source, count) for source, count in parts if not isinstance(source, PrivacyLoss)]
        # Basic composition is exact where it gives delta 0, and a discretised distribution never quite reaches 0.
        self._pure = largest_loss(profiles) if len(profiles) == len(parts) else math.inf
        found = composed(parts, interval=INTERVAL, max_bins=MAX_BINS)
        self._loss = found if isinstance(found, PrivacyLoss) else None
        self._curve: Curve | WorseOrientation | None = None if isinstance(found, PrivacyLoss) else found

    def delta(self, epsilon: float) -> float:
        """Largest delta over the label edges, in floating point or already an upper end."""
        if epsilon >= self._pure:
            return 0.0
        if self._curve is not None:
            return max(float(self._curve.delta(epsilon)), SMALLEST)
        if self._loss is None:
            return 0.0
        log_delta = float(np.max(self._loss.log_delta(epsilon)))
        return max(math.exp(log_delta), SMALLEST) if log_delta > -math.inf else 0.0

    def upper(self, epsilon: float) -> float:
        """An upper end of `delta` that needs no enclosure."""
        slack = LOSS_RELATIVE_ERROR if self._curve is None else self._curve.relative_error
        return self.delta(epsilon) * (1 + slack)

    def upper_end(self, epsilon: float) -> float:
        """A rigorous upper end of one pair's delta by doubles alone; infinite where they do not decide."""
        return upper_end(self._loss.sources, epsilon) if self._loss is not None else math.inf

    def deltas(self, epsilon: NDArray[np.float64]) -> NDArray[np.float64]:
        """`delta` at many epsilons."""
        source = self._curve if self._curve is not None else self._loss
        return worst_delta(source, epsilon) if source is not None else np.zeros(epsilon.shape)

    def bounds(self, epsilon: float) -> tuple[float, float]:
        """Rigorous ends of the largest delta; edges that are clearly not the worst need no enclosure."""
        if epsilon >= self._pure or (self._curve is None and self._loss is None):
            return 0.0, 0.0
        if self._curve is not None:
            value, slack = float(self._curve.delta(epsilon)), self._curve.relative_error
            lower, upper = (value * (1 - slack) if slack else 0.0), value * (1 + slack)
            if isinstance(self._curve, FixedSizeBatch):
                lower, upper = self._curve.ends(epsilon)
            return max(lower - UNDERFLOW, 0.0), upper + UNDERFLOW
        assert self._loss is not None
        if not self._loss.batch_shape:
            enclosed = self._loss.enclose(epsilon)
            return float(enclosed.lower), float(enclosed.upper)
        rough = np.reshape(self._loss.delta(epsilon), -1)
        tied = np.flatnonzero(rough >= np.max(rough) * (1 - TIE))
        ends = [edge.enclose(epsilon) for edge in _distinct_edges(self._loss, tied)]
        return max(float(end.lower) for end in ends), max(float(end.upper) for end in ends)


def largest_loss(profiles: Sequence[tuple[PrivacyProfile | WorseOrientation, int]]) -> Fraction | float:
    """Sum of the largest losses of all profiles, exactly: rounded down it would promise delta 0 too early."""
    if any(item.infinity > 0.0 or math.isinf(item.largest_loss) for item, _ in profiles):
        return math.inf
    return sum((Fraction(item.largest_loss) * count for item, count in profiles), Fraction(0))


def _distinct_edges(loss: PrivacyLoss, rows: NDArray[np.intp]) -> list[PrivacyLoss]:
    """Chosen edges of a batch as single losses, equal ones once."""
    columns = [np.asarray(column) for column in (loss.variance_gap, loss.multiplicity, loss.energy)]
    table = np.stack([column.reshape(-1, column.shape[-1])[rows] for column in columns], axis=1)
    return [PrivacyLoss.from_terms(*edge) for edge in np.unique(table, axis=0)]


def is_asymmetric(source: LossOrProfile) -> bool:
    """Whether exchanging X and Y changes the source."""
    if isinstance(source, PrivacyLoss):
        return bool(np.any(np.asarray(source.variance_gap) != 0))
    return source.reversed().to_dict() != source.to_dict()


def worst_cumulants(parts: Iterable[Part], orders: Floats) -> tuple[Floats, Floats]:
    """Sum over the parts of the larger of K(s) and K reversed(s), worst label edge; and the tail mass left out."""
    total, left_out = np.zeros((len(orders), 1)), np.zeros(len(orders))
    for part in parts:
        ahead, back, tail = cumulants_at(part, orders)
        total = total + np.maximum(ahead, back).reshape(len(orders), -1)
        left_out = left_out + tail
    return np.max(total, axis=1), left_out


def _check_epsilon(epsilon: float) -> None:
    checks.real("epsilon", epsilon, "[0, inf)")


@dataclass(frozen=True, eq=False)
class WorseOrientation:
    """The larger of both directions of a loss or profile at each epsilon; of label edges the worst. Its own reverse.

    Under a symmetric adjacency an analyst may choose each query, and with it which neighbour stands for X, after seeing
    earlier outputs. Whatever is chosen, the divergence is at most the larger one for every alpha, so the pair with this
    curve dominates both ways, and dominating pairs compose however later releases depend on earlier ones (derived:
    docs/ledger).
    """

    base: LossOrProfile

    @property
    def relative_error(self) -> float:
        """That of the base."""
        return float(getattr(self.base, "relative_error", LOSS_RELATIVE_ERROR))

    @property
    def infinity(self) -> float:
        """Probability of an infinite loss, the larger one."""
        return max(float(getattr(side, "infinity", 0.0)) for side in (self.base, self.base.reversed()))

    @property
    def largest_loss(self) -> float:
        """Largest finite loss, the larger one."""
        return max(float(getattr(side, "largest_loss", np.inf)) for side in (self.base, self.base.reversed()))

    def delta(self, epsilon: Any) -> NDArray[np.float64]:
        """The larger divergence at each epsilon >= 0."""
        levels = np.asarray(epsilon, dtype=np.float64)
        return np.maximum(worst_delta(self.base, levels), worst_delta(self.base.reversed(), levels))

    def reversed(self) -> WorseOrientation:
        """Itself: exchanging X and Y changes nothing."""
        return self

    def to_dict(self) -> dict[str, object]:
        """What it is, for compositions that fold equal ones; it is never stored."""
        return {"either way": self.base.to_dict()}
