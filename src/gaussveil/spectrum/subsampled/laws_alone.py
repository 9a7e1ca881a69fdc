"""Laws by atoms and pieces with nothing smooth beside them: closed forms, and of very many two grids.

Along a contour their moments do not fall. Sums of few have a closed form between knots (`laws.knots`), those of atoms
alone are listed. Of others one grid is above the truth, and one below. Above stands the pessimistic composition. Below,
each atom and what a cell has of a piece is reported as one answer, which tells less, and its loss is moved to a node:
to the nearest one where that is next to nothing away, which the whole sum's losses are lowered by, and else to the one
below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from gaussveil.spectrum.arguments import epsilon_array, probability_array
from gaussveil.spectrum.constants import BALL_BITS
from gaussveil.spectrum.discrete.loss import DiscreteLoss, compose_pessimistic
from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import (
    UNDERFLOW,
    ZERO,
    Enclosure,
    from_scaled,
    stacked,
)
from gaussveil.spectrum.laws.knots import KnotSums
from gaussveil.spectrum.laws.loss_law import law_of
from gaussveil.spectrum.laws.on_nodes import TRUSTED, common_width, ends_of, lowered_law
from gaussveil.spectrum.laws.tail_sums import AtomSums
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.companions import Companions, Gaussians
from gaussveil.spectrum.subsampled.contour import Parts, saddle
from gaussveil.spectrum.subsampled.two_sided import GridPlan, within_window
from gaussveil.typing import Floats

FINE = 4e-5  # width of the grid above
MOST_BINS = 2**21
NODES_BELOW = 2**19
DIGITS = 45.0
LEAST_LOG = -800.0  # of a delta, in a search
Laws = Sequence[tuple[Any, int]]  # of `HasLaw`


class LawsAlone(PrivacyCurve):
    """Laws with their counts, composed; `delta` is an upper end, `enclose` gives both."""

    def __init__(self, laws: Laws) -> None:
        self.laws = tuple(laws)

    def _brief(self) -> dict[str, str]:
        brief = {"laws": str(sum(count for _, count in self.laws))}
        if self.knots is None and self.atoms is None:
            brief["on"] = "a grid"
        return brief

    @cached_property
    def knots(self) -> KnotSums | None:
        """The closed form of the finite losses, where there are few enough."""
        return KnotSums.of(self.laws)

    @cached_property
    def grid(self) -> DiscreteLoss:
        """The pessimistic composition."""
        curves = [law for law, _ in self.laws]
        counts = [count for _, count in self.laws]
        return compose_pessimistic(curves, counts, interval=FINE, max_bins=MOST_BINS)

    @cached_property
    def atoms(self) -> AtomSums | None:
        """Sums of losses one by one, where there are few enough: then no grid is needed."""
        return AtomSums.of([(law_of(law.finite), count) for law, count in self.laws])

    @cached_property
    def _log_finite(self) -> float:
        """log of the probability that no loss is infinite."""
        return math.fsum(n * math.log1p(-law.infinity) for law, n in self.laws)

    @property
    def _listed(self) -> bool:
        """Whether no grid is needed."""
        return self.knots is not None or self.atoms is not None

    @property
    def infinity(self) -> float:
        """The probability that a loss is infinite, or as the grid charges it."""
        if self._listed:
            return -math.expm1(self._log_finite) * (1.0 + TRUSTED)
        return self.grid.infinity

    @property
    def largest_loss(self) -> float:
        """The sum of the largest, or the highest node of the grid."""
        if self._listed:
            return math.fsum(n * law.largest_loss for law, n in self.laws) * (
                1.0 + TRUSTED
            )
        return self.grid.largest_loss

    def reversed(self) -> LawsAlone:
        """X and Y exchanged; itself where that changes nothing."""
        return self._back

    @cached_property
    def _back(self) -> LawsAlone:
        if all(law.symmetric for law, _ in self.laws):
            return self
        back = LawsAlone([(law.reversed(), count) for law, count in self.laws])
        if "grid" in self.__dict__:
            back.__dict__["grid"] = self.grid.reversed()
        back.__dict__["_back"] = self
        return back

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """What an account keeps: the laws."""
        return self.laws

    def fold_key(self) -> object:
        """Those of the laws, with counts."""
        return [[law.fold_key(), count] for law, count in self.laws]

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side."""
        if self.knots is None:
            return super().epsilon(delta)
        asked = probability_array("delta", delta, np.zeros(()))
        epsilons = [self._private_epsilon(float(goal)) for goal in np.ravel(asked)]
        return np.reshape(np.array(epsilons), asked.shape)[()]

    def _private_epsilon(self, delta: float) -> float:
        """By a search along the closed form."""
        if delta < self.infinity:
            return math.inf
        if delta <= self.infinity:
            return self.largest_loss

        def look(epsilon: float) -> Trial:
            upper = float(self._ends_at(epsilon).log_upper)
            return Trial(max(upper, LEAST_LOG) - math.log(delta))

        return private_end(look, 0.0, 0.0, self.largest_loss)

    def _divergence(self, epsilon: Floats) -> Any:
        if self.knots is not None:
            uppers = [self._ends_at(float(level)).upper for level in np.ravel(epsilon)]
            return np.reshape(np.array(uppers), np.shape(epsilon))
        if self.atoms is None:
            return self.grid.forward.delta(epsilon)
        _, upper = self.atoms.ends(epsilon)
        return self.infinity + math.exp(self._log_finite) * upper * (1.0 + TRUSTED)

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Both ends; where no closed form proves them, in doubles whose roundings are charged."""
        levels = epsilon_array(epsilon, np.zeros(()))
        if self.knots is not None:
            proven = [self._ends_at(float(level)) for level in np.ravel(levels)]
            return stacked(proven, levels.shape)
        upper = np.minimum(np.asarray(self.delta(levels)) + UNDERFLOW, 1.0)
        lower = [self._below(float(level)) for level in np.ravel(levels)]
        ends = np.minimum(np.reshape(lower, levels.shape), upper)
        return Enclosure.of(ends, upper, proven=False)

    def _ends_at(self, epsilon: float) -> Enclosure:
        """Both ends by the closed form: what rounding the laws added is taken off the lower one."""
        assert self.knots is not None
        with precision_lock(), ctx.workprec(BALL_BITS):
            inner = self.knots.delta(epsilon)
            kept = arb(1)
            charged = arb(0)
            for law, count in self.laws:
                kept *= (1 - law.ball_law().infinity) ** count
                charged += count * arb(law.rounded_by) * (1 + arb(epsilon).exp())
            delta = 1 - kept + kept * inner
            if delta == 0:
                return ZERO
            ends = from_scaled((delta - charged).max(arb(0)).union(delta), arb(0))
        return replace(ends, proven=all(law.proven for law, _ in self.laws))

    @np.errstate(all="ignore")
    def _below(self, epsilon: float) -> float:
        """A lower end of delta."""
        finite_laws = [(law_of(law.finite), count) for law, count in self.laws]
        finite = math.exp(self._log_finite)
        sure = -math.expm1(self._log_finite) * (1.0 - TRUSTED)
        charged = math.fsum(count * law.rounded_by for law, count in self.laws)
        charged *= 1.0 + math.exp(min(epsilon, 700.0))
        if self.atoms is not None:
            lower, _ = self.atoms.ends(np.array(epsilon))
            at_least = sure + finite * float(lower) * (1.0 - TRUSTED)
            return max(at_least - charged, 0.0)
        ends = [ends_of(law) for law, _ in finite_laws]
        low = math.fsum(n * end[0] for end, (_, n) in zip(ends, finite_laws))
        high = math.fsum(n * end[1] for end, (_, n) in zip(ends, finite_laws))
        if not low < high or epsilon >= high:
            return max(sure - charged, 0.0)
        none = Gaussians(*(np.zeros(0) for _ in range(4)))
        composition = Parts((), Companions(none, tuple(finite_laws)))
        spread = math.sqrt(composition.real_moments(0.0)[2])
        order = max(saddle(composition, epsilon).centre, 1.0 / spread)
        bottom = min(low, epsilon - DIGITS / order)
        top = max(high, epsilon) + 2.0 / order
        width = common_width(
            [law for law, _ in finite_laws], (top - bottom) / NODES_BELOW
        )
        plan = GridPlan(order, bottom - width, top + width, width, [], False)
        placed = [(lowered_law(law, width), count) for law, count in finite_laws]
        lowered = math.fsum(n * moved for (_, moved), n in placed) * (1.0 + TRUSTED)
        masses = [(law, count) for (law, _), count in placed]
        delta = within_window(masses, epsilon + lowered, 0.0, plan, -1.0)
        uses = sum(count for _, count in finite_laws)
        delta *= finite * (1.0 - TRUSTED * uses)
        return max(sure + delta - charged, 0.0)
