"""One direction of a privacy curve: how far the output with the record, X, is from the output without it, Y.

Everything follows from delta at each epsilon and from the curve of Y from X. Each default is on the private side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
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
from gaussveil.spectrum.constants import ROUNDED_UP
from gaussveil.spectrum.curve_facts import CurveFacts
from gaussveil.spectrum.enclosures.interval import UNDERFLOW, Enclosure
from gaussveil.spectrum.roots_of_many import private_ends
from gaussveil.typing import Floats


class OneDirection(CurveFacts, ABC):
    """Base of `PrivacyCurve`: delta of X from Y, and what follows from it and from the reversed curve."""

    @property
    def _exact(self) -> OneDirection | None:
        """A curve of the same losses that knows them exactly; none unless a subclass has one."""
        return None

    def _divergence(self, epsilon: Floats) -> Any:
        """Delta of X from Y at validated epsilons."""
        raise NotImplementedError(
            f"{type(self).__name__} must give 'delta' or '_divergence'"
        )

    @abstractmethod
    def reversed(self) -> OneDirection:
        """The curve of Y from X; the curve itself where the pair is symmetric.

        Returns:
            A curve whose `delta` is this one's with X and Y exchanged.
        """

    def delta(self, epsilon: ArrayLike) -> Any:
        """Divergence of X from Y at each `epsilon >= 0`: the smallest delta in this direction.

        Args:
            epsilon: a number at least 0, or an array of these.

        Returns:
            Delta, in the shape of epsilon; the truth is at most `relative_error` of it larger.

        Raises:
            ParameterError: an epsilon is negative.
            NotFiniteError: an epsilon is NaN or infinite.
            ShapeError: of a batch, epsilon does not broadcast with its shape.

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

        Raises:
            ShapeError: of a batch, epsilon does not broadcast with its shape.
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

        Raises:
            ShapeError: of a batch, the errors do not broadcast with its shape.
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
            ShapeError: of a batch, orders do not broadcast with its shape.
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

        Raises:
            ShapeError: of a batch, orders do not broadcast with its shape.
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
