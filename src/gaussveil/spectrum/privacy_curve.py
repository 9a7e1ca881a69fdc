"""`PrivacyCurve`: the one protocol of everything that has a delta for each epsilon.

Losses of Gaussian pairs, steps on random batches, named profiles, allocations, matrix mechanisms, envelopes and
pessimistic grids are all privacy curves; so is a class of one's own that says its `delta` and its `reversed`.
Compositions, accounts and calibration ask the curve what it knows of itself, and never which class it is of.
"""

from __future__ import annotations

import copy
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import ParameterError
from gaussveil.spectrum import attack_risk, chords
from gaussveil.spectrum.arguments import (
    epsilon_array,
    float_array,
    probability_array,
    require_finite,
)
from gaussveil.spectrum.constants import ROUNDED_UP, SMALLEST_DELTA
from gaussveil.spectrum.curve_facts import CurveFacts
from gaussveil.spectrum.enclosures.interval import UNDERFLOW, Enclosure
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.roots_of_many import private_ends
from gaussveil.typing import Floats


class PrivacyCurve(CurveFacts, ABC):
    """How well X (with the record) and Y (without it) can be told apart, for every epsilon >= 0.

    A subclass gives `reversed` and either `delta` or `_divergence`; all else has a default that follows from these two,
    on the private side. What a subclass knows better it overrides: an exact `enclose`, the `factors` by which it joins
    others under one contour, its Renyi divergences.

    Of one direction, X from Y, speak `delta`, `log_delta`, `epsilon`, `tradeoff`, `renyi`, `cumulant` and `enclose`; of
    the worse of both `dp_delta`, `dp_epsilon`, `dp_enclose` and the risks of attacks.
    """

    # --- one direction

    def _divergence(self, epsilon: Floats) -> Any:
        """Delta of X from Y at validated epsilons."""
        raise NotImplementedError(
            f"{type(self).__name__} must give 'delta' or '_divergence'"
        )

    @abstractmethod
    def reversed(self) -> PrivacyCurve:
        """The curve of Y from X; the curve itself where the pair is symmetric."""

    def delta(self, epsilon: ArrayLike) -> Any:
        """Divergence of X from Y at each `epsilon >= 0`: the smallest delta in this direction.

        Args:
            epsilon: a number at least 0, or an array of these.

        Returns:
            Delta, in the shape of epsilon; the truth is at most `relative_error` of it larger.

        Raises:
            ParameterError: an epsilon is negative.
            NotFiniteError: an epsilon is NaN or infinite.

        >>> import gaussveil
        >>> round(float(gaussveil.Laplace(0.5).delta(0.1)), 6)
        0.181269
        """
        return (
            np.asarray(
                np.clip(
                    self._divergence(epsilon_array(epsilon, np.zeros(()))), 0.0, 1.0
                )
            )
            + 0.0
        )

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """log of `delta`, which goes on where delta leaves the range of doubles if the curve knows it there.

        Args:
            epsilon: a number at least 0, or an array of these.

        Returns:
            The logarithm, in the shape of epsilon; minus infinity where delta is 0.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.delta(epsilon))

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side.

        Args:
            delta: a probability, or an array of these.

        Returns:
            Epsilon, in the shape of delta; infinite where no epsilon has so small a delta.

        Raises:
            ParameterError: a delta is not between 0 and 1.
            NumericalError: epsilon exceeds a million.

        >>> import gaussveil
        >>> curve = gaussveil.Laplace(0.5)
        >>> bool(curve.delta(curve.epsilon(0.01)) <= 0.01)
        True
        """
        asked = probability_array("delta", delta, np.zeros(()))
        solvable = asked > self.infinity * (1.0 + self.relative_error)
        high = private_ends(self._upper, np.where(solvable, asked, np.inf))
        limit = np.where(asked < self.infinity, np.inf, self.largest_loss)
        return np.where(solvable, np.maximum(high, 0.0), limit)

    def _upper(self, epsilon: Floats) -> Floats:
        return np.asarray(
            np.minimum(self.delta(epsilon) * (1.0 + self.relative_error), 1.0)
        )

    def tradeoff(self, type_one_error: ArrayLike) -> Any:
        """Smallest type II error of a test of Y against X at the given type I error, or a little less.

        Args:
            type_one_error: a probability, or an array of these: how often the test says X of an output of Y.

        Returns:
            How often the best such test says Y of an output of X, in the same shape: f-differential privacy's f.
        """
        return attack_risk.tradeoff_of(
            self, probability_array("type_one_error", type_one_error, np.zeros(()))
        )[()]

    def renyi(self, order: Any) -> Any:
        """Renyi divergence of X from Y of an order above 1; an upper end, rounding counted, where it is not exact.

        Args:
            order: a number above 1, or an array of these.

        Returns:
            The divergence, in the shape of order; infinite where it does not exist.

        Raises:
            ParameterError: an order is at most 1.
        """
        orders = float_array("order", order, np.zeros(()))
        if not np.all(orders > 1.0):
            raise ParameterError("'order' must be > 1. Got a value <= 1, or NaN.")
        if self._exact is not None:
            divergences = [
                float(self._exact.renyi(float(each))) * ROUNDED_UP
                for each in np.ravel(orders)
            ]
            return np.reshape(np.array(divergences), orders.shape)[()]
        divergences = [
            chords.renyi_upper(self, float(each)) for each in np.ravel(orders)
        ]
        return np.reshape(np.array(divergences), orders.shape)[()]

    def cumulant(self, order: Any) -> Any:
        """K(s) = log E_X[exp(s L)] at real s, which adds up under composition; an upper end where it is not exact.

        Exchanging X and Y takes s to -1 - s. Between -1 and 0, where K is negative, the upper end is 0.

        Args:
            order: a finite number s, or an array of these.

        Returns:
            K, in the shape of order.
        """
        orders = float_array("order", order, np.zeros(()))
        require_finite("order", orders)
        values = np.zeros(orders.size)
        for place, each in enumerate(np.ravel(orders).tolist()):
            if each > 0.0:
                values[place] = each * float(self.renyi(1.0 + each))
            elif each < -1.0:
                values[place] = (-1.0 - each) * float(self.reversed().renyi(-each))
        return np.reshape(values, orders.shape)[()]

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta(epsilon).

        Args:
            epsilon: a number at least 0, or an array of these.

        Returns:
            An `Enclosure`, whose `proven` tells whether every rounding is counted, or doubles were trusted.

        >>> import gaussveil
        >>> ends = gaussveil.Laplace(0.5).enclose(0.1)
        >>> round(float(ends.lower), 12), round(float(ends.upper), 12), ends.proven
        (0.181269246922, 0.181269246922, True)
        """
        if self._exact is not None:
            return self._exact.enclose(epsilon)
        value = np.asarray(self.delta(epsilon))
        slack = self.relative_error
        if slack:
            lower = np.maximum(value * (1.0 - slack) - UNDERFLOW, 0.0)
        else:
            lower = np.zeros_like(value)
        return Enclosure.of(
            lower, np.minimum(value * (1.0 + slack) + UNDERFLOW, 1.0), proven=False
        )

    # --- both directions

    @property
    def symmetric(self) -> bool:
        """Whether exchanging X and Y changes nothing."""
        return self.reversed() is self

    def dp_delta(self, epsilon: ArrayLike) -> Any:
        """The worse of both directions: delta of (epsilon, delta)-differential privacy."""
        return np.maximum(self.delta(epsilon), self.reversed().delta(epsilon))

    def dp_epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon of (epsilon, delta)-differential privacy, from the private side."""
        return np.maximum(self.epsilon(delta), self.reversed().epsilon(delta))

    def dp_enclose(self, epsilon: float) -> Enclosure:
        """Ends of the worse direction's delta at one epsilon; of a batch the largest."""
        ahead = self.enclose_largest(epsilon)
        if self.symmetric:
            return ahead
        return ahead.larger(self.reversed().enclose_largest(epsilon))

    def dp_delta_upper(self, epsilon: float) -> float:
        """At least the worse direction's delta at one epsilon, error bounds included."""
        sides = (self,) if self.symmetric else (self, self.reversed())
        return max(
            float(side.delta(epsilon)) * (1.0 + side.relative_error) for side in sides
        )

    def advantage(self) -> Any:
        """Largest true-positive rate less false-positive rate of any attack: delta(0), the total variation."""
        return np.maximum(self.delta(0.0), self.reversed().delta(0.0))[()]

    def true_positive_rate(self, false_positive_rate: Any) -> Any:
        """Largest true-positive rate of any attack with such a `false_positive_rate`, in the worse direction."""
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
        """What the exact contour takes of it; None where its cumulant has no closed form, which leaves it to a grid."""
        return None

    @cached_property
    def _exact(self) -> PrivacyCurve | None:
        """The curve of the factors; None where there are none."""
        from gaussveil.spectrum import composed

        if self.factors() is not None:
            return composed([(self, 1)])
        return None

    def least_factors(self) -> tuple[Factors, ...]:
        """Pairs that the curve is at least as far apart as, for lower ends; each alternative is tried."""
        factors = self.factors()
        if factors is not None and not self.batch_shape:
            return (factors,)
        return ()

    def fainter(self) -> PrivacyCurve:
        """A curve that surely is not above the release's own where this one was rounded to the private side."""
        return self

    def rounded_down(self) -> PrivacyCurve:
        """The curve itself, unless its factors are rounded to the private side: then one that surely is not above."""
        return self

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """What an account keeps of it, with counts."""
        return ((self, 1),)

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """What an accountant adds up for neighbours of the relation; refused where the curve speaks of others."""
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
        """Parts (`parts`, with counts) of this class added up where that is known in closed form."""
        return list(parts)

    # --- what compositions and accounts ask

    def worst_delta(self, epsilon: Floats) -> Floats:
        """Delta at each epsilon of an array; of a batch of pairs the largest, which dominates them all."""
        return np.asarray(self.delta(epsilon), dtype=np.float64)

    def largest_delta(self, epsilon: float) -> float:
        """Delta at one epsilon; of a batch the largest. Above 0 also where that leaves the range of doubles."""
        return max(float(self.delta(epsilon)), SMALLEST_DELTA)

    def enclose_largest(self, epsilon: float) -> Enclosure:
        """Ends of delta at one epsilon; of a batch those of the largest."""
        return self.enclose(epsilon)

    def cumulant_bounds(self, orders: Floats) -> tuple[Floats, Floats]:
        """Upper ends of K at orders > 0, one axis more for a batch; and the tail mass that each leaves out."""
        bounds = [chords.cumulant_upper(self, float(order)) for order in orders]
        values, tails = np.transpose(bounds)
        return values, tails

    @cached_property
    def chord_nodes(self) -> chords.Chords:
        """Nodes from 0 to where next to nothing is left, and upper ends of delta there."""
        return chords.chords_of(self)

    def dominating(self) -> tuple[PrivacyCurve, float]:
        """A curve that accounts can keep in its place, and a total variation to be paid on top."""
        return self, 0.0

    def as_stored(self, *, upwards: bool = False) -> PrivacyCurve:
        """The curve that is read back from what is written of this one, `upwards` if all is to be rounded up."""
        return self

    def copy(self) -> PrivacyCurve:
        """The same curve, in arrays that nobody else holds."""
        return copy.deepcopy(self)
