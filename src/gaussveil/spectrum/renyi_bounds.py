"""Mechanisms of which only a bound on Renyi divergences is known: zero-concentrated privacy, lists of orders.

With D the divergence of order 1 + c, log delta <= c (D - epsilon) + c log c - (1+c) log(1+c), for any c > 0 (Canonne,
Kamath, Steinke 2020, Proposition 12); and delta <= sqrt(D/2), sqrt(1 - e^-D) (Pinsker; Bretagnolle, Huber). Divergences
add where mechanisms are composed (derived: docs/math/profiles).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.spectrum.arguments import float_array
from gaussveil.spectrum.constants import ROUNDED_UP, ULP
from gaussveil.spectrum.named_profile import PrivacyProfile, number, store
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.turns import turns
from gaussveil.typing import Floats

# Those of most accountants: tenths from 1.1 to 10.9, whole numbers to 63, then powers of two.
CUSTOMARY_ORDERS = np.array(
    [*(1.0 + k / 10.0 for k in range(1, 100)), *range(11, 64), 128, 256, 512, 1024],
    dtype=np.float64,
)
MOST_DIVERGENCE = 1e12  # above it a bound says nothing


@dataclass(frozen=True)
class ZeroConcentrated(PrivacyProfile):
    """(xi, rho)-zero-concentrated privacy: the divergence of order a is at most xi + rho a, in both directions.

    Args:
        rho: slope of the bound, at least 0.
        xi: its value at order 0, at least 0.

    Raises:
        ParameterError: a number is negative or exceeds a million.

    >>> import gaussveil
    >>> bool(gaussveil.ZeroConcentrated(0.5).delta(1.0) >= gaussveil.GaussianPair.mean_shift(1.0).delta(1.0))
    True
    """

    name: ClassVar[str] = "zero-concentrated"
    only_bounded: ClassVar[bool] = True
    relative_error: ClassVar[float] = 0.0
    rho: float
    xi: float = 0.0

    def __post_init__(self) -> None:
        store(self, "rho", number("rho", self.rho, low=0.0, high=1e6))
        store(self, "xi", number("xi", self.xi, low=0.0, high=1e6))

    def _divergence(self, epsilon: Floats) -> Any:
        def rises(log_c: Floats) -> NDArray[np.bool_]:  # the bound is convex in c
            slope = self.xi + self.rho * (1.0 + 2.0 * np.exp(log_c))
            return np.asarray(slope - epsilon - np.log1p(np.exp(-log_c)) > 0.0)

        ends = np.full(np.shape(epsilon), 40.0)
        log_c, _ = turns(rises, -ends, ends, 60)
        c = np.exp(log_c)  # any order bounds; the best is next to this one
        return _delta(c, self.xi + self.rho * (1.0 + c), epsilon, self.xi + self.rho)

    def renyi(self, order: Any) -> Any:
        """The bound on the divergence of an order above 1, rounded up."""
        return (
            (self.xi + self.rho * float_array("order", order, np.zeros(())))
            * ROUNDED_UP
        )[()]

    @classmethod
    def together(
        cls, parts: Sequence[tuple[Any, int]]
    ) -> list[tuple[PrivacyCurve, int]]:
        """Both numbers add up.

        Args:
            parts: curves of this class with how often each is used.
        """
        rho, xi = (
            math.fsum(getattr(source, name) * count for source, count in parts)
            for name in ("rho", "xi")
        )
        return [(cls(rho * (1.0 + 4.0 * ULP), xi * (1.0 + 4.0 * ULP)), 1)]


@dataclass(frozen=True)
class RenyiBound(PrivacyProfile):
    """Divergences of some orders above 1 that the mechanism does not exceed, in both directions.

    Args:
        orders: numbers above 1.
        divergences: one for each order, at least 0.

    Raises:
        ParameterError: there are not as many of one as of the other, or none, or one is out of its range.

    >>> import gaussveil
    >>> bound = gaussveil.RenyiBound(orders=(2.0, 8.0), divergences=(1.0, 4.0))
    >>> float(bound.renyi(4.0))
    4.0
    """

    name: ClassVar[str] = "renyi"
    only_bounded: ClassVar[bool] = True
    relative_error: ClassVar[float] = 0.0
    orders: tuple[float, ...]
    divergences: tuple[float, ...]

    def __post_init__(self) -> None:
        for field, low in (("orders", 1.0 + 1e-9), ("divergences", 0.0)):
            store(
                self,
                field,
                tuple(
                    number(field, value, low=low, high=MOST_DIVERGENCE)
                    for value in getattr(self, field)
                ),
            )
        if not self.orders or len(self.orders) != len(self.divergences):
            raise ParameterError(
                f"divergences must be one per order. Got {len(self.divergences)}."
            )

    @classmethod
    def customary(cls, curve: PrivacyCurve) -> RenyiBound:
        """What most accountants would know of a curve: its divergences of their orders, the worse direction of each.

        Args:
            curve: whatever has Renyi divergences.

        Returns:
            The bound; where no order has a finite divergence one that says nothing.

        >>> import gaussveil
        >>> pair = gaussveil.GaussianPair.mean_shift(1.0)
        >>> bool(RenyiBound.customary(pair).epsilon(1e-6) > pair.epsilon(1e-6))
        True
        """
        forward = np.asarray(curve.renyi(CUSTOMARY_ORDERS))
        backward = np.asarray(curve.reversed().renyi(CUSTOMARY_ORDERS))
        worse = np.maximum(0.0, np.maximum(forward, backward))
        told = worse < MOST_DIVERGENCE
        if not told.any():
            return cls((float(CUSTOMARY_ORDERS[0]),), (MOST_DIVERGENCE,))
        return cls(tuple(CUSTOMARY_ORDERS[told].tolist()), tuple(worse[told].tolist()))

    def _divergence(self, epsilon: Floats) -> Any:
        orders = np.array(self.orders)
        divergences = np.array(self.divergences)
        return np.min(
            _delta(
                orders - 1.0,
                divergences,
                np.asarray(epsilon)[..., None],
                float(divergences.min()),
            ),
            axis=-1,
        )

    @property
    def known_orders(self) -> tuple[float, ...]:
        """Those of the list."""
        return self.orders

    def renyi(self, order: Any) -> Any:
        """The bound at the next order that is known; infinite above the last."""
        orders = float_array("order", order, np.zeros(()))
        bounds = list(zip(self.orders, self.divergences))
        least_bounds = [
            min((bound for at, bound in bounds if at >= asked), default=math.inf)
            for asked in np.ravel(orders)
        ]
        return np.reshape(np.array(least_bounds), orders.shape)[()]


def _delta(c: Floats, divergence: Floats, epsilon: Floats, smallest: float) -> Floats:
    """The least of the three bounds, rounded up; `smallest` is a bound at order 1."""
    terms = (c * divergence, -c * epsilon, -c * np.log1p(1.0 / c), -np.log1p(c))
    slack = 8.0 * ULP * sum(np.abs(term) for term in terms)
    variation = min(math.sqrt(0.5 * smallest), math.sqrt(-math.expm1(-smallest))) * (
        1.0 + 8.0 * ULP
    )
    return np.minimum(
        np.maximum(np.exp(np.minimum(sum(terms) + slack, 0.0)), 5e-324), variation
    )  # not 0
