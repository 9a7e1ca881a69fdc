"""One step on a random batch beside laws by atoms and pieces: in closed form between knots, in ball arithmetic.

A step's moment falls slowly along a contour, those of laws need not fall at all. But delta of the laws alone is known
in closed form between the knots x of their sums (`laws.knots`), and with L the step's loss

    delta(eps) = E_X[ delta_laws(eps - L) ].

L grows with the output z (of the step exchanged with -z), so that knots are places on the line of outputs:

    ----|---------|------------|--------->  z       right of the last place all losses count, and delta is that of
      L(z) = eps - x, x falling                     a plain test; between two places one analytic function is integrated

Of atoms alone each gives the probability of outputs beyond its place under X, less that under Y (derived:
docs/math/subsampled).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from flint import acb, arb, arb_poly, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.enclosures.interval import (
    UNKNOWN,
    ZERO,
    Enclosure,
    from_scaled,
    log_down,
)
from gaussveil.spectrum.laws.knots import KnotSums, Residues
from gaussveil.spectrum.roots import Trial, private_end
from gaussveil.spectrum.subsampled.ball_single import above
from gaussveil.spectrum.subsampled.contour import Parts
from gaussveil.spectrum.subsampled.first_guess import saddlepoint_epsilon
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.work import check_work

MOST_PIECES = 64  # knots between which an integral is taken
MOST_ATOMS = 2000
REACHES = (12.0, 18.0, 40.0)  # standard deviations that outputs below are looked at
TIGHT = 1e-12  # relative width at which no more digits are asked
DIGITS = 44  # bits of an integral
FINEST = 1000  # bits below 1 of an integral that is as good as none
EVALUATIONS = 4000  # of one
RTOL = 1e-12  # of an epsilon
MOST_LOOKS = 60


class SingleBeside:
    """A step that is used once, and laws of finite losses with their counts."""

    def __init__(self, parts: Parts, sums: KnotSums) -> None:
        self.parts = parts
        ((self.step, _),) = parts.steps
        self.sums = sums

    @classmethod
    def of(cls, parts: Parts, laws: Sequence[tuple[Any, int]]) -> SingleBeside | None:
        """None of more steps, and where sums of the laws have no closed form, or a long one."""
        uses = sum(count for _, count in parts.steps)
        if uses != 1 or not laws or parts.companions.gaussians.present:
            return None
        sums = KnotSums.of(laws)
        if sums is None:
            return None
        answers = sums.answers_at(sums.first_bits)
        smooth = any(answer.inner.degree() >= 0 for answer in answers)
        if len(answers) > (MOST_PIECES if smooth else MOST_ATOMS):
            return None
        return cls(parts, sums)

    def enclose(self, epsilon: float) -> Enclosure:
        """Rigorous ends of delta, if all losses are finite."""
        check_work()
        ends = UNKNOWN
        with precision_lock():
            for times, reach in enumerate(REACHES, start=1):
                bits = self.sums.first_bits * times
                with ctx.workprec(bits):
                    answers = self.sums.answers_at(bits)
                    delta = _Outputs(self.step, epsilon, answers, reach).delta()
                    if delta == 0:
                        return ZERO
                    if delta.is_finite():
                        ends = from_scaled(delta, arb(0))
                if ends.relative_width < TIGHT:
                    break
        return ends

    def epsilon(self, delta: float, largest: float) -> float:
        """The smallest epsilon found whose upper end is at most delta."""
        goal = log_down(delta)

        def look(epsilon: float) -> Trial:
            return Trial(float(self.enclose(epsilon).log_upper) - goal)

        guess = saddlepoint_epsilon(self.parts.windowed(goal), goal)
        return private_end(look, guess, 0.0, largest, rtol=RTOL, evaluations=MOST_LOOKS)


class _Branch(NamedTuple):
    """What delta of the laws is of: e^A, e^B, and e^((A + B)/2) times a polynomial in L."""

    ahead: arb
    behind: arb
    inner: arb_poly

    def plus(self, other: _Branch) -> _Branch:
        """With another knot's."""
        return _Branch(
            self.ahead + other.ahead,
            self.behind + other.behind,
            self.inner + other.inner,
        )


class _Outputs:
    """The line of outputs, at one epsilon and the working precision in force."""

    def __init__(
        self, step: Step, epsilon: float, answers: Sequence[Residues], reach: float
    ) -> None:
        self.noise = arb(step.noise_multiplier)
        self.rate = arb(step.sampling_rate)
        self.shift = 1 / self.noise
        self.on_x = step.replace or not step.backward
        self.on_y = step.replace or step.backward
        self.kept = 1 - self.rate
        self.drawn = self.rate.log() - self.shift**2 / 2
        self.height = 1 / (2 * arb.pi()).sqrt()
        self.epsilon = arb(epsilon)
        self.low = arb(-math.ceil(reach))
        self.high = arb(math.ceil(reach + 1.0 / step.noise_multiplier))
        falling = sorted(answers, key=lambda answer: -float(answer.place))
        self.terms = [self._term(answer) for answer in falling]
        self.places = [self._place(self.epsilon - answer.place) for answer in falling]

    def delta(self) -> arb:
        """The whole of it; wide, or not finite, where that is not decided."""
        if any(place.is_nan() for place in self.places):
            return arb("nan")
        if all(term.inner.degree() < 0 for term in self.terms):
            return sum(map(self._of_atom, self.terms, self.places), arb(0))
        cuts = [self._within(place) for place in self.places]
        total = self._under_x(cuts[-1]) - self.epsilon.exp() * self._under_y(cuts[-1])
        if cuts[-1] == self.high:
            total = total.union(arb(0)) + self._under_x(self.high).union(arb(0))
        if cuts[0] == self.low:
            total += (1 - self._under_x(self.low)).union(arb(0))
        branch = _Branch(arb(0), arb(0), arb_poly([]))
        for term, (left, right) in zip(self.terms, pairwise(cuts)):
            branch = branch.plus(term)
            if left < right:
                total += self._between(branch, left, right)
        return total + sum(map(self._misplaced, self.terms, self.places), arb(0))

    def _term(self, answer: Residues) -> _Branch:
        """What a knot gives to outputs beyond its place."""
        grown = (answer.place / 2).exp()
        moved = arb_poly([answer.place - self.epsilon, 1])
        return _Branch(
            answer.ahead * grown,
            answer.behind / grown * self.epsilon.exp(),
            answer.inner(moved) * (self.epsilon / 2).exp(),
        )

    def _place(self, loss: arb) -> arb:
        """Where the step has a loss: a ball, or one of the infinities."""
        if self.on_x and self.on_y:
            if loss < 0:
                return -self._place(-loss)
            pull = self.kept * loss.expm1()
            under = pull * pull
            under += 4 * self.rate**2 * (loss - self.shift**2).exp()
            raised = (pull + under.sqrt()) / 2
        else:
            side = loss if self.on_x else -loss
            raised = side.expm1() + self.rate
        if raised <= 0:
            return arb("-inf") if self.on_x else arb("inf")
        if not raised > 0:
            return arb("nan")
        place = self.noise * (raised / self.rate).log() + self.shift / 2
        return place if self.on_x else -place

    def _within(self, place: arb) -> arb:
        """An exact place near by, where outputs are looked at."""
        if place.is_finite():
            return place.mid().max(self.low).min(self.high)
        return self.low if place < 0 else self.high

    def _of_atom(self, term: _Branch, place: arb) -> arb:
        return term.ahead * self._under_x(place) - term.behind * self._under_y(place)

    def _under_x(self, place: arb) -> arb:
        """Probability under X of outputs beyond a place."""
        return self._mixed(place, self.shift if self.on_x else None)

    def _under_y(self, place: arb) -> arb:
        return self._mixed(place, -self.shift if self.on_y else None)

    def _mixed(self, place: arb, shift: arb | None) -> arb:
        if not place.is_finite():
            return arb(1) if place < 0 else arb(0)
        if shift is None:
            return above(place)
        return self.kept * above(place) + self.rate * above(place - shift)

    def _value(self, branch: _Branch, place: Any, *, analytic: bool) -> Any:
        """What an output counts."""
        of_x = of_y = acb(1)
        loss = twice = acb(0)
        for side, there in ((1, self.on_x), (-1, self.on_y)):
            if not there:
                continue
            ratio = self.kept + (place * (side * self.shift) + self.drawn).exp()
            log = ratio.log(analytic=analytic)
            loss += side * log
            twice += log
            if side > 0:
                of_x = ratio
            else:
                of_y = ratio
        weight = (-place * place / 2).exp() * self.height
        value = branch.ahead * of_x - branch.behind * of_y
        return weight * (value + (twice / 2).exp() * branch.inner(loss))

    def _between(self, branch: _Branch, left: arb, right: arb) -> arb:
        """An integral over outputs between two places."""
        integral = acb.integral(
            lambda z, analytic: self._value(branch, z, analytic=bool(analytic)),
            acb(left),
            acb(right),
            rel_tol=arb(2) ** -DIGITS,
            abs_tol=arb(2) ** -FINEST,
            eval_limit=EVALUATIONS,
        )
        return integral.real

    def _misplaced(self, term: _Branch, place: arb) -> arb:
        """What is counted, or missed, between a place and the exact one near by: next to nothing."""
        if not place.is_finite() or not self.low < place < self.high:
            return arb(0)
        wrong = self._value(term, acb(place), analytic=False).abs_upper()
        return arb(0, wrong * 2 * place.rad())
