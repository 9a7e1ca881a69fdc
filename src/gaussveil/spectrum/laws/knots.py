"""Sums of losses by atoms and pieces, in closed form: delta is a polynomial times an exponential between knots.

All pieces of the laws here have the density e^{l/2}, so that with u = s + 1/2 the moment of one law is

    M = u^-1 sum_k (a_k u + b_k) e^{u x_k}       (no u^-1 where there are atoms alone),

and that of a sum u^-m sum_k N_k(u) e^{u x_k}, N_k polynomials. Where y = x_k - epsilon > 0 the contour closes to the
left around u = 1/2, -1/2 and 0; where y < 0 it closes to the right around nothing. So each knot above epsilon gives

    e^{epsilon/2} [ N(1/2) 2^m e^{y/2} - N(-1/2) (-2)^m e^{-y/2} + c ],

c the coefficient of u^{m-1} in N(u) e^{u y} / (u^2 - 1/4) (derived: docs/math/profiles). These cancel; balls count
what is lost, and the precision doubles until little is.
"""

from __future__ import annotations

import operator
from collections.abc import Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from flint import arb, arb_poly, ctx

from gaussveil.spectrum.enclosures.enclosure import precision_lock
from gaussveil.spectrum.laws.ball_law import BallLaw

MOST_WORK = 100_000  # of a sum, in about microseconds
PRECISIONS = (1, 2, 4, 8)  # times the first one
FIRST_BITS = 128
BITS_A_USE = 4  # what one use more is expected to cancel
MOST_USES = 300
NARROW = 2.0**-44  # relative width that is good enough
Laws = Sequence[tuple[Any, int]]  # of `HasLaw`
Key = tuple[Any, ...]


class Knot(NamedTuple):
    """Where a term of the moment begins, and its polynomial in u; equal keys say that places are surely equal."""

    key: Key
    place: arb
    numerator: arb_poly


class Residues(NamedTuple):
    """A knot as epsilons ask it: residues at u = 1/2 and -1/2, and a polynomial in y for that at 0."""

    place: arb
    ahead: arb
    behind: arb
    inner: arb_poly


class Moment(NamedTuple):
    """u^-order times the sum of the knots' terms."""

    knots: tuple[Knot, ...]
    order: int

    @classmethod
    def of(cls, law: BallLaw) -> Moment | None:
        """Of one law; None where a piece has another density."""
        atoms = list(zip(law.losses, law.masses))
        pieces = []
        for piece in law.pieces:
            if piece.half == 0:
                atoms.append((piece.middle, piece.weight))
            elif piece.half > 0 and piece.tilt == arb(0.5):
                pieces.append(piece)
            else:
                return None
        order = int(bool(pieces))
        places = [loss for loss, _ in atoms]
        numerators = [
            arb_poly([0] * order + [mass * (-loss / 2).exp()]) for loss, mass in atoms
        ]
        for middle, half, _, weight in pieces:
            height = weight * (-middle / 2).exp() / (2 * half)
            places += [middle + half, middle - half]
            numerators += [arb_poly([height]), arb_poly([-height])]
        evenly = law.spacing is not None and len(places) == len(law.losses)
        knots = map(Knot, _keys(places, evenly), places, numerators)
        return cls(_merged(list(knots)), order)

    def times(self, other: Moment) -> Moment:
        """One use more of a law, whose keys are of the same kind."""
        return Moment(
            _merged(
                [
                    Knot(
                        tuple(map(operator.add, ahead.key, more.key)),
                        ahead.place + more.place,
                        ahead.numerator * more.numerator,
                    )
                    for ahead in self.knots
                    for more in other.knots
                ]
            ),
            self.order + other.order,
        )

    def beside(self, other: Moment) -> Moment:
        """With another law, whose places have nothing to do with these."""
        return Moment(
            tuple(
                Knot(
                    ahead.key + more.key,
                    ahead.place + more.place,
                    ahead.numerator * more.numerator,
                )
                for ahead in self.knots
                for more in other.knots
            ),
            self.order + other.order,
        )

    def work(self, other: Moment) -> int:
        """About how long all products with the other's knots take."""
        each = 8 + self.order + other.order
        return len(self.knots) * len(other.knots) * each

    def answers(self) -> tuple[Residues, ...]:
        """What each knot gives to epsilons below it."""
        half = arb(0.5)
        series = arb_poly(
            [-4 * arb(2) ** k if k % 2 == 0 else 0 for k in range(self.order)]
        )
        factorials = [arb(k).gamma() for k in range(self.order, 0, -1)]
        answers = []
        for _, place, numerator in self.knots:
            quotient = (numerator * series).coeffs()[: self.order]
            inner = [value / each for value, each in zip(quotient, factorials)]
            inner += [arb(0)] * (self.order - len(inner))
            answers.append(
                Residues(
                    place,
                    numerator(half) * 2**self.order,
                    numerator(-half) * (-2) ** self.order,
                    arb_poly(inner[::-1]),
                )
            )
        return tuple(answers)


class KnotSums:
    """Delta of laws with their counts, of the finite losses, in balls as narrow as doubles.

    Whoever asks holds the lock of Arb's precision for as long.
    """

    def __init__(self, laws: Laws) -> None:
        self.laws = tuple(laws)
        self.first_bits = FIRST_BITS + BITS_A_USE * sum(count for _, count in laws)
        self.answers: dict[int, tuple[Residues, ...]] = {}

    @classmethod
    def of(cls, laws: Laws) -> KnotSums | None:
        """Of laws whose pieces have the one density, where that is not too much work."""
        if sum(count for _, count in laws) > MOST_USES:
            return None
        sums = cls(laws)
        with precision_lock(), ctx.workprec(sums.first_bits):
            whole = _composed(sums.laws)
            if whole is None:
                return None
            sums.answers[sums.first_bits] = whole.answers()
        return sums

    def delta(self, epsilon: float) -> arb:
        """Delta of the sum of all losses, if these are finite."""
        delta = arb(0, 1)
        for times in PRECISIONS:
            bits = self.first_bits * times
            with ctx.workprec(bits):
                delta = _delta(self.answers_at(bits), arb(epsilon))
            if delta == 0 or float(delta.rad()) <= NARROW * float(abs(delta).lower()):
                break
        return delta.max(arb(0)).min(arb(1))

    def answers_at(self, bits: int) -> tuple[Residues, ...]:
        """What each knot gives, at a precision that is in force."""
        if bits not in self.answers:
            whole = _composed(self.laws)
            assert whole is not None  # as it was at the first precision
            self.answers[bits] = whole.answers()
        return self.answers[bits]


def _composed(laws: Laws) -> Moment | None:
    """The moment of all uses of all laws; None where that is too much work, or a law has other pieces."""
    whole: Moment | None = None
    work = 0
    for law, count in laws:
        factor = Moment.of(law.finite.ball_law())
        if factor is None:
            return None
        power = factor
        for _ in range(count - 1):
            work += power.work(factor)
            if work > MOST_WORK:
                return None
            power = power.times(factor)
        if whole is None:
            whole = power
            continue
        work += whole.work(power)
        if work > MOST_WORK:
            return None
        whole = whole.beside(power)
    return whole


def _delta(answers: tuple[Residues, ...], epsilon: arb) -> arb:
    """The sum of what knots above epsilon give; of one that may lie on either side, that or nothing."""
    total = arb(0)
    for place, ahead, behind, inner in answers:
        above = place - epsilon
        if above < 0:
            continue
        grown = (above / 2).exp()
        own = ahead * grown - behind / grown + inner(above)
        if above > 0:
            total += own
        else:
            total += own.union(arb(0))
    return total * (epsilon / 2).exp()


def _keys(places: Sequence[arb], evenly: bool) -> list[Key]:
    """What sums of places are told apart by: an index, exact numbers, or how often each place was taken."""
    if evenly:
        return [(index,) for index in range(len(places))]
    if all(place == arb(float(place)) for place in places):
        return [(Fraction(float(place)),) for place in places]
    return [
        tuple(int(index == other) for other in range(len(places)))
        for index in range(len(places))
    ]


def _merged(knots: Sequence[Knot]) -> tuple[Knot, ...]:
    """Terms of the same place as one."""
    merged: dict[Key, Knot] = {}
    for knot in knots:
        if knot.key in merged:
            before = merged[knot.key]
            knot = before._replace(numerator=before.numerator + knot.numerator)
        merged[knot.key] = knot
    return tuple(merged.values())
