"""Profiles whose law of losses is known by atoms and pieces: they join Gaussians and steps under one contour."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.constants import ROUNDED_UP
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.named_profile import PrivacyProfile
from gaussveil.typing import Floats

if TYPE_CHECKING:
    from gaussveil.spectrum.laws.ball_law import BallLaw


class HasLaw(PrivacyProfile):
    """A profile that knows the law of its losses."""

    @abstractmethod
    def ball_law(self) -> BallLaw:
        """The law, at the working precision of ball arithmetic.

        Returns:
            Atoms, pieces of densities and the mass of infinite losses, all as balls.
        """

    def reversed(self) -> HasLaw:
        """The curve of Y from X; the curve itself unless a subclass knows better."""
        return self

    @property
    def finite(self) -> HasLaw:
        """The curve of the finite losses, as if these had probability 1."""
        return self

    @property
    def proven(self) -> bool:
        """Whether the law's balls surely hold its losses and probabilities."""
        return True

    def factors(self) -> Factors | None:
        """Itself, unless next to all losses are infinite."""
        if max(self.infinity, self.reversed().infinity) < 0.5:
            return Factors(laws=((self, 1),))
        return None

    def renyi(self, order: Any) -> Any:
        """Renyi divergence of an order above 1, rounded up; from the moments of the law."""
        from gaussveil.spectrum.laws.loss_law import law_of

        orders = float_array("order", order, np.zeros(()))
        if not np.all(orders > 1.0):
            raise ParameterError("'order' must be > 1. Got a value <= 1, or NaN.")
        if self.infinity > 0.0:
            return np.full(orders.shape, math.inf)[()]
        law = law_of(self)
        largest = self.largest_loss
        divergences = []
        for each in np.ravel(orders).tolist():
            if math.isinf(each):
                divergences.append(largest)
                continue
            log_moment, rounding = law.moments(np.array([each - 1.0 + 0.0j]))
            divergences.append(
                min(
                    (float(log_moment[0].real) + float(rounding[0]))
                    / (each - 1.0)
                    * ROUNDED_UP,
                    largest,
                )
            )
        return np.reshape(np.array(divergences), orders.shape)[()]


@dataclass(frozen=True)
class FiniteLosses(HasLaw):
    """The finite losses of a law, as if these had probability 1."""

    base: HasLaw

    @property
    def largest_loss(self) -> float:
        """That of the base."""
        return self.base.largest_loss

    @property
    def proven(self) -> bool:
        """As those of the base are."""
        return self.base.proven

    @property
    def symmetric(self) -> bool:
        """As the base is."""
        return self.base.symmetric

    def reversed(self) -> FiniteLosses:
        """The finite losses of Y from X."""
        return FiniteLosses(self.base.reversed())

    def fold_key(self) -> object:
        """That of the base, of finite losses."""
        return {"finite": self.base.fold_key()}

    def _divergence(self, epsilon: Floats) -> Any:
        whole = (
            np.asarray(self.base.delta(epsilon))
            * (1.0 + self.base.relative_error)
            * ROUNDED_UP
        )
        return (whole - self.base.infinity * (1.0 - 1e-12)) / (1.0 - self.base.infinity)

    def ball_law(self) -> BallLaw:
        """The base's, with probabilities over that of a finite loss."""
        return self.base.ball_law().finite()
