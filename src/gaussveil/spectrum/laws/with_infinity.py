"""A composition of which some losses may be infinite: with that probability the record is seen, whatever epsilon is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from flint import arb, ctx
from numpy.typing import ArrayLike

from gaussveil.spectrum.arguments import epsilon_array, probability_array
from gaussveil.spectrum.constants import LAW_BITS
from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import Enclosure, stacked
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.laws.has_law import HasLaw
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Floats

SLACK = 2.0**-48  # relative error of what doubles make of two probabilities


class WithInfinity(PrivacyCurve):
    """delta = 1 - F + F delta'(epsilon): F the probability that all of the laws' losses are finite, delta' then."""

    def __init__(
        self, finite: PrivacyCurve, laws: Sequence[tuple[HasLaw, int]]
    ) -> None:
        self.finite, self.laws = finite, tuple(laws)

    def _brief(self) -> dict[str, str]:
        return {"infinity": f"{self.infinity:.3g}"}

    @cached_property
    def _log_finite(self) -> float:
        return math.fsum(count * math.log1p(-law.infinity) for law, count in self.laws)

    @property
    def relative_error(self) -> float:
        """That of the finite losses, and a little."""
        return self.finite.relative_error + SLACK

    @property
    def infinity(self) -> float:
        """1 - F."""
        return -math.expm1(self._log_finite)

    @property
    def largest_loss(self) -> float:
        """The largest finite one."""
        return self.finite.largest_loss

    def factors(self) -> Factors:
        """Those of the finite losses, with the laws as they are."""
        factors = self.finite.factors()
        assert factors is not None  # it came from some
        return Factors(factors.gaussians, factors.steps, self.laws)

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """What an account keeps of steps and pairs, and the laws."""
        factors = self.factors()
        curves = [*factors.gaussians, *factors.steps]
        return (
            *(
                (kept, n * count)
                for curve, count in curves
                for kept, n in curve.charged()
            ),
            *self.laws,
        )

    def affordable_nodes(self, work: float) -> float:
        """As many as of the finite losses."""
        return self.finite.affordable_nodes(work)

    def reversed(self) -> WithInfinity:
        """X and Y exchanged."""
        back = self.finite.reversed()
        if back is self.finite and all(law.symmetric for law, _ in self.laws):
            return self
        return WithInfinity(back, [(law.reversed(), count) for law, count in self.laws])

    def _divergence(self, epsilon: Floats) -> Any:
        return self.infinity + math.exp(self._log_finite) * self.finite.delta(epsilon)

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side; infinity where there is none."""
        asked = probability_array("delta", delta, np.zeros(()))
        left = (
            (asked * (1.0 - SLACK) - self.infinity * (1.0 + SLACK))
            / math.exp(self._log_finite)
            * (1.0 - SLACK)
        )
        epsilons = [
            math.inf if level < 0.0 else float(self.finite.epsilon(min(level, 1.0)))
            for level in np.ravel(left)
        ]
        return np.reshape(np.array(epsilons), asked.shape)[()]

    def renyi(self, order: Any) -> Any:
        """Infinite, unless no loss is infinite in this direction."""
        if self.infinity > 0.0:
            return np.full(np.shape(order), math.inf)[()]
        return self.finite.renyi(order)

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta, as well proven as those of the finite losses and the laws."""
        levels = epsilon_array(epsilon, np.zeros(()))
        return stacked(
            [self._enclosed(float(level)) for level in np.ravel(levels)], levels.shape
        )

    def _enclosed(self, epsilon: float) -> Enclosure:
        inner = self.finite.enclose(epsilon)
        with precision_lock(), ctx.workprec(LAW_BITS):
            kept = arb(1)
            for law, count in self.laws:
                kept *= (1 - law.ball_law().infinity) ** count
            lower = 1 - kept + kept * arb(float(inner.lower))
            for (
                law,
                count,
            ) in self.laws:  # what is charged there is not the mechanisms' own
                lower -= count * arb(law.rounded_by) * (1 + arb(epsilon).exp())
            upper = 1 - kept + kept * arb(float(inner.upper))
            ends = (
                math.nextafter(float(lower.lower()), 0.0),
                math.nextafter(float(upper.upper()), 1.0),
            )
        return Enclosure.of(
            max(ends[0], 0.0),
            min(ends[1], 1.0),
            proven=inner.proven and all(law.proven for law, _ in self.laws),
        )
