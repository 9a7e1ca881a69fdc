"""The contour integral of delta in Arb ball arithmetic (derived: docs/math/spectrum).

The upper half of the line is moved to a straight piece from c to a point P, on which `acb.integral` gives an enclosure,
and the vertical half line above P, where what is left has a bound in closed form. The piece is chosen in floating
point: a bad choice costs precision, never soundness.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from flint import acb, arb, ctx
from numpy.typing import NDArray

from gaussveil.spectrum.condensed import LONG
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum
from gaussveil.spectrum.enclosures.clusters import POINTLIKE, CompositionCumulant
from gaussveil.spectrum.enclosures.interval import (
    UNKNOWN,
    ZERO,
    Enclosure,
    from_log,
    from_scaled,
    intersection,
)
from gaussveil.spectrum.enclosures.steering import GOAL_BITS, Path, Steering
from gaussveil.spectrum.enclosures.upper_end import AIM, TIGHT
from gaussveil.spectrum.selection import compiled_contour

NEGLIGIBLE_LOG_DELTA = -1e12  # a log delta below which its upper bound is answer enough
NEGLIGIBLE_OF_MATRICES = (
    -1e7
)  # the same with residuals, for which integrals so deep take minutes
# ten times what ordinary pairs need; at most some ten seconds
FIRST_WORK = 2e5
WORK_PER_TERM = 600
MOST_TERM_WORK = 1.5e6
EVALUATIONS = 6000  # limit for one piece of a path; past it the piece is wide, and another path or precision is tried


class WorkBudget:
    """Work that one enclosure may still do, all paths and precisions, in terms evaluated at 128 bits."""

    def __init__(self, terms: int) -> None:
        self.left = min(FIRST_WORK + WORK_PER_TERM * terms, MOST_TERM_WORK)


def mean_shift(
    spectra: Sequence[tuple[BallSpectrum, int]], epsilon: float
) -> tuple[Enclosure, bool]:
    """Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t) for a shift of length t (Balle and Wang 2018, Theorem 8)."""
    length = sum(
        (spectrum.flat_energy * count for spectrum, count in spectra), arb(0)
    ).sqrt()
    ahead, behind = (
        ((epsilon / length + side * length / 2) / arb(2).sqrt()).erfc() / 2
        for side in (-1, 1)
    )
    value = ahead - arb(epsilon).exp() * behind
    return from_scaled(value, arb(0)), bool(
        value > 0 and value.rad() <= arb(2) ** -GOAL_BITS * value
    )


def _is_tight(value: arb) -> bool:
    return bool(value > 0 and value.rad() <= TIGHT / 2 * value)


class BallIntegral:
    """One evaluation at the working precision in force."""

    def __init__(
        self,
        spectra: Sequence[tuple[BallSpectrum, int]],
        epsilon: float,
        budget: WorkBudget,
    ) -> None:
        self.spectra = spectra
        self._budget = budget
        self.epsilon = epsilon
        self.steering = Steering(spectra, epsilon)

    def enclose(self) -> tuple[Enclosure, bool]:
        """The interval, and whether a higher precision could not make it much narrower."""
        if self._beyond_largest_loss():
            return ZERO, True
        with np.errstate(all="ignore"):
            saddle = self._saddle()
            if saddle is None:
                return UNKNOWN, False
            c, opening, width = saddle
            level = arb(
                float(
                    self.steering.log_size(
                        np.zeros(1, dtype=np.complex128), c, opening
                    ).real[0]
                )
            )
        exact = all(spectrum.exact for spectrum, _ in self.spectra)
        bound = self._bound_alone(c, level, width, exact)
        if bound is not None:
            return bound
        if exact and (scaled := self._trapezoid(c, width, float(level))) is not None:
            return from_scaled(scaled, level), True
        return self._along_paths(c, opening, width, level)

    def _bound_alone(
        self, c: arb, level: arb, width: float, exact: bool
    ) -> tuple[Enclosure, bool] | None:
        """Chernoff's bound where it is so small that it suffices, or where there is nothing to integrate; else None."""
        if exact:
            deep = NEGLIGIBLE_LOG_DELTA
        else:
            deep = NEGLIGIBLE_OF_MATRICES
        usable = 0.0 < width < math.inf
        if float(level) > deep / 2 and usable:
            return None
        best = from_log(self._chernoff(c))
        if best.log_upper < deep:
            return best, True
        if level.is_finite() and usable:
            return None
        return best, False

    def _along_paths(
        self, c: arb, opening: NDArray[np.float64], width: float, level: arb
    ) -> tuple[Enclosure, bool]:
        """What the integrals along all paths have in common, until one is tight."""
        best = UNKNOWN
        for path in self._paths(c, opening, width, float(level)):
            scaled = self._integral(path, c, width, level)
            if scaled is None:
                continue
            best = intersection(best, from_scaled(scaled, level))
            if _is_tight(scaled):
                return best, True
        return intersection(best, from_log(self._chernoff(c))), False

    # --- the real line: largest loss, saddle, Chernoff bound

    def _beyond_largest_loss(self) -> bool:
        """Whether eps is certainly not below sup L, finite only if every direction shrinks: then delta is exactly 0."""
        largest = arb(0)
        for spectrum, count in self.spectra:
            if not spectrum.flat_energy.is_zero():
                return False
            value = -spectrum.log_ratio / 2
            for gap, _, energy in spectrum.terms:
                sure = gap - spectrum.gap_error
                if not sure > 0:
                    return False
                value += energy / (2 * gap)
                if not spectrum.exact:
                    # b'N^-1 b against its diagonal: the residuals, over the smallest gap squared.
                    rest = spectrum.residual_gap + spectrum.residual_gram * gap
                    value += arb(
                        0, (spectrum.energy * rest / (sure * sure)).abs_upper()
                    )
            largest += value * count
        return bool(largest <= self.epsilon)

    def _saddle(self) -> tuple[arb, NDArray[np.float64], float] | None:
        """The crossing as a ball, all 1 + c g, and the width there; None where K is not surely finite."""
        centre, odds, opening, width = self.steering.saddle()
        c = arb(centre)
        if self.steering.limit > 0.0 and odds > 1.0:
            c = (arb(odds) / (1 + arb(odds)) / arb(self.steering.limit)).mid()
        for spectrum, _ in self.spectra:
            if any(
                not 1 + c * (term.gap - spectrum.gap_error) > 0
                for term in spectrum.terms
            ):
                return None
        return c, opening, width

    def _exponent(self, cumulant: CompositionCumulant, s: acb) -> acb:
        """K(s) - s eps on the ball s; on wide balls around a second-order expansion, so that slopes cancel.

        The remainder bound also proves that no cut is met. acb.integral evaluates on its path and on balls that contain
        a part of it, and there `_single_branch` holds, so that the residual's logarithm is the principal one.
        """
        centre = acb(s.real.mid(), s.imag.mid())
        spread = s - centre
        reach = spread.abs_upper()
        if reach <= arb(abs(complex(centre))) * POINTLIKE:
            return cumulant.value(s) - s * self.epsilon
        value, slope, bend = cumulant.expanded(s, centre)
        rest = arb(0, (bend * reach * reach / 2).abs_upper())
        return (
            value
            - centre * self.epsilon
            + (slope - self.epsilon) * spread
            + acb(rest, rest)
        )

    def _chernoff(self, c: arb) -> arb:
        """log of E_X[e^{c(L-eps)}] c^c/(1+c)^(1+c): an upper bound, as (1-e^-z)e^-cz is at most that fraction."""
        whole = CompositionCumulant(self.spectra, np.array([complex(float(c))]))
        return (
            self._exponent(whole, acb(c)).real + c * c.log() - (1 + c) * (1 + c).log()
        )

    def _as_sharp_as_doubles(self) -> bool:
        """Whether a rule that is chosen in doubles suits the terms: not too many, and hardly any rounding in them."""
        terms = [term for spectrum, _ in self.spectra for term in spectrum.terms]
        return 0 < len(terms) < LONG and all(
            float(ball.rad()) <= 2.0**-60 * abs(float(ball))
            for gap, _, energy in terms
            for ball in (gap, energy)
        )

    @np.errstate(all="ignore")
    def _trapezoid(self, c: arb, width: float, level: float) -> arb | None:
        """Ball for delta e^-level along a hyperbola that kernel.c chooses; None where it is not tight."""
        steer = self.steering
        native = compiled_contour(steer.gap, 1)
        if native is None or steer.room != math.inf or not self._as_sharp_as_doubles():
            return None
        slope = (
            -0.5 * steer.log_ratio - self.epsilon,
            abs(steer.log_ratio) / 2 + self.epsilon,
        )
        rule = (*slope, steer.flat, level, float(c), width, steer.limit, AIM)
        b, rho, angle, _, step, last, error, *_ = native.hyperbola(
            (steer.gap, steer.number, steer.shift), *rule
        )
        if not error < TIGHT * width / 4:
            return None
        turns = [
            acb(-arb(angle), arb(step) * number).sin_cos()
            for number in range(int(last) + 1)
        ]
        balls = [sine * rho + b for sine, _ in turns]
        places = np.array([complex(ball) for ball in balls])
        cumulant = CompositionCumulant(self.spectra, places)
        self._budget.left -= (
            (5 + len(cumulant.hulls)) * len(balls) * max(1.0, ctx.prec / 128)
        )
        heights = [
            ((value - s * self.epsilon - level).exp() * cosine / (s * (s + 1))).real
            for s, (_, cosine), value in zip(
                balls, turns, cumulant.values(places, balls)
            )
        ]
        value: arb = (
            (sum(heights, arb(0)) - heights[0] / 2) * rho * step + arb(0, error)
        ) / arb.pi()
        if _is_tight(value):
            return value
        return None

    def _paths(
        self, c: arb, opening: NDArray[np.float64], width: float, level: float
    ) -> list[Path]:
        """Candidate pieces, cheapest first."""
        return self.steering.paths(c, opening, width, level)

    def _integral(self, path: Path, c: arb, width: float, level: arb) -> arb | None:
        """Ball for delta e^-level; None if the path ends too early or the residual of a matrix is not small on it."""
        direction = acb(path.direction.real, path.direction.imag)
        points = [
            acb(c),
            *(acb(c) + acb(arb(length)) * direction for length in path.lengths),
        ]
        if not all(
            self._single_branch(spectrum, c, points[-1], path.direction)
            for spectrum, _ in self.spectra
        ):
            return None

        cumulant = CompositionCumulant(
            self.spectra, np.array([complex(point) for point in points])
        )
        price = (5 + len(cumulant.hulls)) * max(1.0, ctx.prec / 128)

        def integrand(s: acb, _analytic: bool) -> acb:
            self._budget.left -= price
            return (self._exponent(cumulant, s) - level).exp() / (s * (s + 1))

        total = self._tail(cumulant, points[-1], level)
        if not total.abs_upper() < 1e-12 * width:
            return None
        tolerance = arb(2) ** -GOAL_BITS
        for start, end in pairwise(points):
            limit = int(min(EVALUATIONS, self._budget.left / price))
            if limit < 1:
                return None
            total += acb.integral(
                integrand,
                start,
                end,
                rel_tol=tolerance,
                abs_tol=tolerance * width / 64,
                eval_limit=limit,
            )
            if (
                not total.imag.rad() < width
            ):  # wider than the integral itself: further pieces would be vain
                return None
        value = total.imag / arb.pi()
        if value.is_finite():
            return value
        return None

    def _single_branch(
        self, spectrum: BallSpectrum, c: arb, end: acb, direction: complex
    ) -> bool:
        """Whether the residual is small on the whole piece, so that log-determinants keep the branch they have at c."""
        if spectrum.exact:
            return True
        sine = arb(direction.imag) / arb(abs(direction)).upper() * (1 - arb(2) ** -40)
        rest = spectrum.residual_gram + (c + abs(end)) * spectrum.residual_gap
        return all(rest < (1 + c * term.gap) * sine for term in spectrum.terms)

    def _tail(self, cumulant: CompositionCumulant, end: acb, level: arb) -> acb:
        """Ball around zero that holds the integral over the vertical half line above the end of the piece."""
        exponent = (self._exponent(cumulant, end) - level).real
        height = end.imag
        for spectrum, count in self.spectra:
            rise = arb(0)
            for gap, _, energy in spectrum.terms:
                true_gap = gap + arb(0, spectrum.gap_error)
                opening = 1 + end.real * true_gap
                if opening > 0:
                    continue
                steep = true_gap * height
                size = opening * opening + steep * steep
                slack = (
                    (1 - true_gap)
                    * opening.abs_upper()
                    / (2 * size * true_gap * true_gap)
                )
                if spectrum.exact:
                    rise = rise + slack * energy
                else:
                    rise = rise.max(slack * spectrum.whitened_energy)
            exponent += rise * count
        bound = (exponent.exp() / height).abs_upper()
        return acb(arb(0, bound), arb(0, bound))
