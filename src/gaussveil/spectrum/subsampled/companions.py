"""What stands beside steps under one contour: Gaussian pairs and laws by atoms and pieces, whose K is a closed form."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from flint import acb, arb

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.spectrum.enclosures.interval import outward
from gaussveil.spectrum.laws.ball_law import BallLaw
from gaussveil.spectrum.laws.loss_law import LawMoments, LossLaw
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.subsampled.step import Complexes, Step
from gaussveil.typing import Floats


class Gaussians(NamedTuple):
    """Reduced terms of a Gaussian pair, as plain arrays (mathematics: docs/math/spectrum)."""

    variance_gap: Floats
    log_ratio: Floats
    multiplicity: Floats
    energy: Floats

    @classmethod
    def of(cls, loss: PrivacyLoss | None) -> Gaussians:
        """The terms of a loss; none of None."""
        if loss is None:
            return cls(*(np.zeros(0) for _ in range(4)))
        columns = loss._terms.columns()
        return cls(*(np.asarray(column, dtype=np.float64) for column in columns))

    def cumulant(self, order: Complexes) -> Complexes:
        """K(s), the branch that is real on the real axis and continuous above it."""
        if not self.present:
            return np.zeros(order.shape, dtype=complex)
        opening = 1.0 + np.multiply.outer(order, self.variance_gap)
        value = (
            -0.5 * order * float(self.multiplicity @ self.log_ratio)
            - 0.5 * np.log(opening) @ self.multiplicity
        )
        return value + 0.5 * order * (1.0 + order) * ((1.0 / opening) @ self.energy)

    def rounding(self, order: Complexes) -> Floats:
        """What K in doubles is off by: each function by four roundings, each sum by one for each term."""
        if not self.present:
            return np.zeros(order.shape)
        at = np.abs(np.multiply.outer(order, self.variance_gap))
        opening = 1.0 + np.multiply.outer(order, self.variance_gap)
        size = np.abs(opening)
        blur = (1.0 + 2.0 * at) / size  # of what is opened, in roundings
        apart = np.abs(order) * float(self.multiplicity @ np.abs(self.log_ratio))
        apart = apart + (4.0 * np.abs(np.log(opening)) + blur) @ self.multiplicity
        grown = np.abs(order * (1.0 + order))
        apart = apart + grown * (((4.0 + blur) / size) @ self.energy)
        return np.asarray(UNIT_ROUNDOFF * (8.0 + self.energy.size) * apart)

    def real_moments(self, orders: Floats) -> Floats:
        """Rows of K, K', K'' at real orders inside its domain."""
        if not self.present:
            return np.zeros((3, orders.size))
        gap = self.variance_gap
        at = orders[:, None]
        opening = 1.0 + at * gap
        slope = 0.5 * ((at * (1.0 + opening) + 1.0) / opening**2) @ self.energy
        slope -= 0.5 * (self.log_ratio + gap / opening) @ self.multiplicity
        bend = 0.5 * (gap / opening) ** 2 @ self.multiplicity
        bend += ((1.0 - gap) / opening**3) @ self.energy
        return np.array([self.cumulant(orders + 0.0j).real, slope, bend])

    @property
    def present(self) -> bool:
        """Whether there is any."""
        return bool(self.energy.size)

    @property
    def highest_order(self) -> float:
        """End of the domain of K."""
        lowest = float(self.variance_gap.min(initial=0.0))
        if lowest < 0.0:
            return -1.0 / lowest
        return math.inf


class Companions(NamedTuple):
    """Gaussian pairs, and laws with their counts."""

    gaussians: Gaussians
    laws: tuple[tuple[LossLaw, int], ...] = ()

    @property
    def present(self) -> bool:
        """Whether there is any."""
        return self.gaussians.present or bool(self.laws)

    @property
    def highest_order(self) -> float:
        """End of the domain of K, which that of bounded losses does not have."""
        return self.gaussians.highest_order

    def cumulant(self, orders: Complexes) -> LawMoments:
        """K(s), any branch of it, and a bound of its rounding."""
        value = self.gaussians.cumulant(orders)
        rounding = self.gaussians.rounding(orders)
        for law, count in self.laws:
            own = law.cumulant(orders, count)
            value = value + own.log_moment
            rounding = rounding + own.rounding
        return LawMoments(value, rounding)

    def real_moments(self, orders: Floats) -> Floats:
        """Rows of K, K', K'' at real orders inside its domain."""
        total = self.gaussians.real_moments(orders)
        for law, count in self.laws:
            total += count * law.real_moments(orders)
        return total


class Shift(NamedTuple):
    """Ends of a mean shift in standard deviations."""

    lower: float
    upper: float

    def steps(self, *, up: bool) -> tuple[tuple[Step, int], ...]:
        """The end as a step that surely draws the record, its noise rounded the same way; none of no shift."""
        length = self.upper if up else self.lower
        if not length > 0.0:
            return ()
        noise = math.nextafter(1.0 / length, 0.0 if up else math.inf)
        return ((Step(noise, 1.0), 1),)


NO_SHIFT = Shift(0.0, 0.0)


class BallCompanions(NamedTuple):
    """The same in ball arithmetic."""

    pairs: BallSpectrum | None
    laws: tuple[tuple[BallLaw, int], ...] = ()

    @property
    def present(self) -> bool:
        """Whether there is any."""
        return self.pairs is not None or bool(self.laws)

    @property
    def terms(self) -> tuple[Term, ...]:
        """Terms of the Gaussian pairs, which end the domain of K."""
        if self.pairs is not None:
            return self.pairs.terms
        return ()

    def shift(self) -> Shift | None:
        """Of one exact mean shift; None where another pair stands there."""
        pairs = self.pairs
        if pairs is None:
            return NO_SHIFT
        if pairs.terms or not pairs.exact:
            return None
        length = pairs.flat_energy.sqrt()
        return Shift(outward(length, up=False), outward(length, up=True))

    def exponent(self, s: acb) -> acb:
        """K(s), any branch of it."""
        if self.pairs is not None:
            value = self.pairs.exponent(s)
        else:
            value = acb(0)
        for law, count in self.laws:
            value += count * law.moment(s).log()
        return value

    def falls(self, c: float, height: float | arb) -> arb:
        """log of a bound on |e^K| at c and all greater heights, over e^K(c): that of atoms need not fall at all."""
        if self.pairs is None:
            return arb(0)
        return (
            self.pairs.exponent(acb(c, height)).real - self.pairs.exponent(acb(c)).real
        )
