"""Curves that are kept as a description: a step of training, a mechanism by its parameters."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from numpy.typing import ArrayLike

from gaussveil.spectrum.enclosures.interval import Enclosure
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.privacy_curve import PrivacyCurve


class StandsFor(PrivacyCurve):
    """A description whose curve another object computes."""

    @abstractmethod
    def curve(self) -> PrivacyCurve:
        """The curve that it stands for."""

    def reversed(self) -> PrivacyCurve:
        """The curve of Y from X."""
        return self.curve().reversed()

    def delta(self, epsilon: ArrayLike) -> Any:
        """Divergence of X from Y at each `epsilon >= 0`."""
        return self.curve().delta(epsilon)

    def log_delta(self, epsilon: ArrayLike) -> Any:
        """log of `delta`.

        Args:
            epsilon: privacy level, a number or an array.
        """
        return self.curve().log_delta(epsilon)

    def epsilon(self, delta: ArrayLike) -> Any:
        """Smallest epsilon with `delta(epsilon) <= delta`, from the private side."""
        return self.curve().epsilon(delta)

    def tradeoff(self, type_one_error: ArrayLike) -> Any:
        """Smallest type II error of a test of Y against X at the given type I error, or a little less.

        Args:
            type_one_error: of the test, a number or an array.
        """
        return self.curve().tradeoff(type_one_error)

    def renyi(self, order: Any) -> Any:
        """Renyi divergence of X from Y of an order above 1."""
        return self.curve().renyi(order)

    def cumulant(self, order: Any) -> Any:
        """K(s) = log E_X[exp(s L)] at real s.

        Args:
            order: s, a number or an array.
        """
        return self.curve().cumulant(order)

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta(epsilon)."""
        return self.curve().enclose(epsilon)

    def factors(self) -> Factors | None:
        """What the exact contour takes of it."""
        return self.curve().factors()
