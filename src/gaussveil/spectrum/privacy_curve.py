"""`PrivacyCurve`: the one protocol of everything that has a delta for each epsilon.

Losses of Gaussian pairs, steps on random batches, named profiles, allocations, matrix mechanisms, envelopes and
pessimistic grids are all privacy curves; so is a class of one's own that says its `delta` and its `reversed`.
Compositions, accounts and calibration ask the curve what it knows of itself, and never which class it is of.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import ParameterError
from gaussveil.spectrum import attack_risk, chords
from gaussveil.spectrum.constants import SMALLEST_DELTA
from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.one_direction import OneDirection
from gaussveil.typing import Floats


class PrivacyCurve(OneDirection):
    """How well X (with the record) and Y (without it) can be told apart, for every epsilon >= 0.

    A subclass gives `reversed` and either `delta` or `_divergence`; all else has a default that follows from these two,
    on the private side. What a subclass knows better it overrides: an exact `enclose`, the `factors` by which it joins
    others under one contour, its Renyi divergences.

    Of one direction, X from Y, speak `delta`, `log_delta`, `epsilon`, `tradeoff`, `renyi`, `cumulant` and `enclose`; of
    the worse of both `dp_delta`, `dp_epsilon`, `dp_enclose` and the risks of attacks.

    >>> import gaussveil
    >>> curves = [gaussveil.Laplace(0.5), gaussveil.GaussianPair.mean_shift(0.5)]
    >>> all(isinstance(curve, gaussveil.PrivacyCurve) for curve in curves)
    True
    >>> bool(curves[0].compose(curves[1]).delta(1.0) > curves[0].delta(1.0))
    True
    """

    @abstractmethod
    def reversed(self) -> PrivacyCurve:
        """The curve of Y from X; the curve itself where the pair is symmetric.

        Returns:
            A curve whose `delta` is this one's with X and Y exchanged.
        """

    # --- both directions

    @property
    def symmetric(self) -> bool:
        """Whether exchanging X and Y changes nothing."""
        return self.reversed() is self

    def dp_delta(self, epsilon: ArrayLike) -> Any:
        """The worse of both directions: delta of (epsilon, delta)-differential privacy.

        Returns:
            The larger delta, in the shape of epsilon.
        """
        return np.maximum(self.delta(epsilon), self.reversed().delta(epsilon))

    def dp_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon of (epsilon, delta)-differential privacy, from the private side.

        Returns:
            The larger epsilon, in the shape of delta.
        """
        return np.maximum(self.epsilon(delta), self.reversed().epsilon(delta))

    def dp_enclose(self, epsilon: float) -> Enclosure:
        """Ends of the worse direction's delta at one epsilon; of a batch the largest.

        Returns:
            An `Enclosure`; `proven` where both directions are.
        """
        ahead = self.enclose_largest(epsilon)
        if self.symmetric:
            return ahead
        return ahead.larger(self.reversed().enclose_largest(epsilon))

    def dp_delta_upper(self, epsilon: float) -> float:
        """At least the worse direction's delta at one epsilon, error bounds included.

        Returns:
            One number, the larger direction's.
        """
        sides = (self,) if self.symmetric else (self, self.reversed())
        return max(
            float(side.delta(epsilon)) * (1.0 + side.relative_error) for side in sides
        )

    def advantage(self) -> Any:
        """Largest true-positive rate less false-positive rate of any attack: delta(0), the total variation.

        Returns:
            A number between 0 and 1, for each curve of a batch.
        """
        return np.maximum(self.delta(0.0), self.reversed().delta(0.0))[()]

    def true_positive_rate(self, false_positive_rate: Any) -> Any:
        """Largest true-positive rate of any attack with such a `false_positive_rate`, in the worse direction.

        Returns:
            The rate, in the shape of `false_positive_rate`.
        """
        missed = np.minimum(
            self.tradeoff(false_positive_rate),
            self.reversed().tradeoff(false_positive_rate),
        )
        return (1.0 - missed)[()]

    def mu(self, smallest_delta: float = 1e-10) -> attack_risk.GaussianDP:
        """A mu such that mu-Gaussian differential privacy has no smaller delta wherever delta is not negligible.

        A mixture's far tail is that of the noise alone: over all of it only the mu without sampling would do. The curve
        is therefore compared down to `smallest_delta`. The regret is an upper end, at every false-positive rate, of the
        curve as `delta` gives it, above the truth by about `smallest_delta` + 1e-3 at most where that is reached below
        epsilon 20 (derived: docs/math/profiles).

        Returns:
            A `GaussianDP`: `mu`, and as `regret` the most by which it overstates a true-positive rate.

        Raises:
            ParameterError: smallest_delta is not strictly between 0 and 1, or the curve is a batch.
        """
        if not 0.0 < smallest_delta < 1.0:
            raise ParameterError(
                f"smallest_delta must be strictly between 0 and 1. Got {smallest_delta!r}."
            )
        if self.batch_shape:
            raise ParameterError(
                "mu is known of one pair at a time. Got a batch of label edges."
            )
        energies = self.shift_energies
        if energies is not None:
            mu = math.sqrt(math.fsum(energies)) * (1.0 + 1e-15)
            return attack_risk.GaussianDP(mu, min(mu * 1e-15, 1.0))
        return attack_risk.smallest_mu(self, smallest_delta)

    # --- composition

    def compose(self, *others: PrivacyCurve) -> PrivacyCurve:
        """The curve of this release and the others together, each in the direction in which it stands.

        Exact where all have `factors`; a pessimistic grid otherwise.

        Args:
            others: curves, each of one use.

        Returns:
            The curve of all of them.

        >>> import gaussveil
        >>> once = gaussveil.GaussianPair.mean_shift(0.6)
        >>> both = once.compose(gaussveil.GaussianPair.mean_shift(0.8))
        >>> round(float(both.delta(1.0)), 9) == round(float(gaussveil.GaussianPair.mean_shift(1.0).delta(1.0)), 9)
        True
        """
        from gaussveil.spectrum import composed

        whole = composed([(self, 1), *((other, 1) for other in others)])
        assert whole is not None  # of at least one curve
        return whole

    def __add__(self, other: Any) -> Any:
        """The curve of both together."""
        if isinstance(other, PrivacyCurve):
            return self.compose(other)
        return NotImplemented

    def __mul__(self, count: int) -> Any:
        """The curve of `count` independent uses."""
        from gaussveil.spectrum import composed

        return composed([(self, count)])

    __rmul__ = __mul__

    def factors(self) -> Factors | None:
        """What the exact contour takes of it; None where its cumulant has no closed form, which leaves it to a grid.

        Returns:
            `Factors`, or None.
        """
        return None

    @cached_property
    def _exact(self) -> PrivacyCurve | None:
        """The curve of the factors; None where there are none."""
        from gaussveil.spectrum import composed

        if self.factors() is not None:
            return composed([(self, 1)])
        return None

    def least_factors(self) -> tuple[Factors, ...]:
        """Pairs that the curve is at least as far apart as, for lower ends; each alternative is tried.

        Returns:
            One `Factors` for each alternative; none where nothing is known.
        """
        factors = self.factors()
        if factors is not None and not self.batch_shape:
            return (factors,)
        return ()

    def fainter(self) -> PrivacyCurve:
        """A curve that surely is not above the release's own where this one was rounded to the private side.

        Returns:
            Such a curve; this one where nothing was rounded.
        """
        return self

    def rounded_down(self) -> PrivacyCurve:
        """The curve itself, unless its factors are rounded to the private side: then one that surely is not above.

        Returns:
            Such a curve; this one where nothing was rounded.
        """
        return self

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """What an account keeps of it, with counts.

        Returns:
            Curves with counts.
        """
        return ((self, 1),)

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """What an accountant adds up for neighbours of the relation; refused where the curve speaks of others.

        Returns:
            Curves with counts.

        Raises:
            ParameterError: the curve speaks of neighbours of another relation.
        """
        if self.neighbours not in (None, relation):
            other = f"Got a profile for {self.neighbours!r}."
            raise ParameterError(
                f"random batches must be accounted for the relation {relation!r}. {other}"
            )
        return [(self, 1)]

    @classmethod
    def together(
        cls, parts: Sequence[tuple[Any, int]]
    ) -> list[tuple[PrivacyCurve, int]]:
        """Parts (`parts`, with counts) of this class added up where that is known in closed form.

        Returns:
            Fewer parts with the same sum of losses, or the parts themselves.
        """
        return list(parts)

    # --- what compositions and accounts ask

    def worst_delta(self, epsilon: Floats) -> Floats:
        """Delta at each epsilon of an array; of a batch of pairs the largest, which dominates them all.

        Returns:
            Delta, in the shape of epsilon.
        """
        return np.asarray(self.delta(epsilon), dtype=np.float64)

    def largest_delta(self, epsilon: float) -> float:
        """Delta at one epsilon; of a batch the largest. Above 0 also where that leaves the range of doubles.

        Returns:
            Delta or a little more.
        """
        return max(float(self.delta(epsilon)), SMALLEST_DELTA)

    def enclose_largest(self, epsilon: float) -> Enclosure:
        """Ends of delta at one epsilon; of a batch those of the largest.

        Returns:
            An `Enclosure` of one number.
        """
        return self.enclose(epsilon)

    def cumulant_bounds(self, orders: Floats) -> tuple[Floats, Floats]:
        """Upper ends of K at orders > 0, one axis more for a batch; and the tail mass that each leaves out.

        Returns:
            Upper ends, and tail masses, in the shape of orders.
        """
        bounds = [chords.cumulant_upper(self, float(order)) for order in orders]
        values, tails = np.transpose(bounds)
        return values, tails

    @cached_property
    def chord_nodes(self) -> chords.Chords:
        """Nodes from 0 to where next to nothing is left, and upper ends of delta there."""
        return chords.chords_of(self)

    def dominating(self) -> tuple[PrivacyCurve, float]:
        """A curve that accounts can keep in its place, and a total variation to be paid on top.

        Returns:
            The curve, and the total variation; the curve itself and 0 where it can be kept.
        """
        return self, 0.0

    def as_stored(self, *, upwards: bool = False) -> PrivacyCurve:
        """The curve that is read back from what is written of this one, `upwards` if all is to be rounded up.

        Returns:
            The stored curve; this one where storing changes nothing.
        """
        return self

    def copy(self) -> PrivacyCurve:
        """The same curve, in arrays that nobody else holds.

        Returns:
            A curve that shares nothing with this one.
        """
        return copy.deepcopy(self)
