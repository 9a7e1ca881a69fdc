"""What both enclosures, along one line and band by band, do in ball arithmetic.

    delta e^-level = (h/pi) sum' Re F(c + i n h)  +- (lines beside)  +- (beyond the last node)

    F(s) = e^{K(s) - s eps} / (s (1+s)),   sum': half of the term at n = 0

The same sum in doubles is `double_bands.BandsInDoubles`, and in C `native/steps.h`. Here every operation is one on
balls, so that its rounding is part of the result; what a finite sum leaves out of the integral is bounded by |F| on two
lines beside it (`between_nodes`, derived: docs/math/subsampled, "The sum over orders").
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeVar

from flint import acb, arb

from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.companions import BallCompanions
from gaussveil.spectrum.subsampled.step import Step

Ball = TypeVar("Ball", arb, acb)


class BallStep:
    """The logs of a step's densities on balls, real or complex: what `Step.logs` is on doubles."""

    def __init__(self, step: Step) -> None:
        self.step = step
        self.noise = arb(step.noise_multiplier)
        self.rate = arb(step.sampling_rate)
        self.half = 1 / (2 * self.noise * self.noise)

    def log_density(self, z: Ball) -> Ball:
        """A(z) = log(1 - q + q e^{z/sigma - 1/(2 sigma^2)})."""
        return (self.rate * (z / self.noise - self.half).expm1()).log1p()

    def base_and_loss(self, z: Ball) -> tuple[Ball, Ball]:
        """What M integrates is e^{base + s loss} phi: A and A, A and A - B of a replaced record, or 0 and -A."""
        ahead = self.log_density(z)
        if self.step.backward:
            return 0 * z, -ahead
        if self.step.replace:
            return ahead, ahead - self.log_density(-z)
        return ahead, ahead

    def left_out(self, cut: arb, spread: arb) -> arb:
        """P(z + w g > cut) under X at most, g normal: `spread` is the root of 1 + w^2."""
        if self.step.backward:
            return normal_tail(cut / spread)
        return normal_tail((cut - 1 / self.noise) / spread)


def normal_tail(place: Ball) -> Ball:
    """P(g > place) of a standard normal g, as an analytic function."""
    return (place / arb(2).sqrt()).erfc() / 2


def exp_up(log: float) -> arb:
    """A number that is at least e^log, of a log in doubles that may be `UP` too small."""
    if log < math.inf:
        return arb((arb(log) + arb(UP)).exp().abs_upper())
    return arb("inf")


def log_least_weight(order: arb) -> arb:
    """log of c^c/(1+c)^(1+c), the largest (1 - e^-x) e^-cx: Chernoff's bound is that times E e^{c (L - eps)}."""
    return order * order.log() - (1 + order) * (1 + order).log()


def node_sum(
    companions: BallCompanions,
    c: float,
    spacing: float,
    nodes: int,
    drift: arb,
    moment: Callable[[int], acb],
) -> arb:
    """(h/pi) sum' Re F over e^{K_beside(c)}: `moment` gives the product of the steps' moments at node n.

    These may be turned back by e^{-i n h m}: `drift` is m - epsilon. Half of the first term counts.
    """
    h = arb(spacing)
    origin = companions.exponent(acb(c)).real
    total = arb(0)
    for n in range(nodes + 1):
        s = acb(c, h * n)
        beside = (acb(0, h * n * drift) + companions.exponent(s) - origin).exp()
        value = (beside / (s * (s + 1)) * moment(n)).real
        if n == 0:
            value = value / 2
        total += value
    return total * h / arb.pi()


def apart(c: float, beside: float) -> arb:
    """How far both lines c - beside and c + beside, as doubles, are from c at least."""
    return arb(min(c - (c - beside), (c + beside) - c)) * (1 - arb(UP))


def between_nodes(beside: arb, distance: arb, spacing: float) -> arb:
    """How far the sum is from the integral at most: half of both lines' integrals of |F|/pi, over e^{2 pi a/h} - 1."""
    return beside / 2 / ((2 * arb.pi() * distance / arb(spacing)).exp() - 1)
