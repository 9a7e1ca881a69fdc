"""K of a whole composition in balls, at the price of few terms.

Gaps that lie close together are expanded together, as power sums of their distance from a centre; what lies beyond the
last power is a geometric series (derived: docs/math/spectrum). Other terms that count once share one logarithm.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from flint import acb, acb_poly, arb, arb_mat, arb_poly

from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.typing import Floats

LARGEST_QUOTIENT = 0.25  # q up to which a series is used
SERIES_BITS = 80  # of what a series leaves out, against its second term
SMALL_POWERS = 8  # of offsets, in one matrix
FEWEST = 8  # terms that make a cluster worth its series
TOGETHER = 12  # factors that share a logarithm
NEAREST = 1e2  # 1 + |s g| over |1 + s g|, above which factors are taken one by one: products would lose digits
POINTLIKE = (
    2.0**-40
)  # balls of this relative radius are points for the choice of formula


class ExponentParts(NamedTuple):
    """Sums of m log(1 + s g) and of e / (1 + s g), or their derivatives."""

    logs: acb
    quadratic: acb


class Bundle:
    """A few terms, evaluated one by one; those of a bundle of several count once each."""

    def __init__(self, terms: Sequence[Term]) -> None:
        self.hulls = [
            Term(+term.gap, term.multiplicity, term.energy) for term in terms
        ]  # at the working precision
        self._energies = [
            None if term.energy.is_zero() else acb(term.energy) for term in terms
        ]
        self._gaps = np.array([float(term.gap) for term in terms])
        # All 1 + s g multiplied, and the sum of e / (1 + s g) times that, as polynomials of s.
        self._product, self._mixed = arb_poly([1]), arb_poly([0])
        for gap, _, energy in self.hulls if len(terms) > 1 else ():
            factor = arb_poly([1, gap])
            self._product, self._mixed = (
                self._product * factor,
                self._mixed * factor + self._product * energy,
            )

    def values(self, s: acb, angle: float | None = None) -> ExponentParts:
        """Both sums at a ball that is nearly a point, of which `angles` may be known; not finite on a cut."""
        if angle is None and len(self.hulls) > 1 and s.imag > 0:
            angle = float(self.angles(np.array([complex(s)]))[0])
        if angle is not None and not math.isnan(angle):
            product = self._product(s)
            return ExponentParts(_log_at(product, angle), self._mixed(s) / product)
        factors = [s * gap + 1 for gap, _, _ in self.hulls]
        quadratic = sum(
            (e / w for e, w in zip(self._energies, factors) if e is not None), acb(0)
        )
        return ExponentParts(
            sum(
                (w.log(analytic=True) * m for w, (_, m, _) in zip(factors, self.hulls)),
                acb(0),
            ),
            quadratic,
        )

    def angles(self, places: Floats) -> Floats:
        """Sums of the angles of all 1 + s g at places of the upper half plane; NaN next to a branch point, or alone."""
        factors = 1 + np.multiply.outer(places, self._gaps)
        far = np.abs(np.multiply.outer(places, self._gaps)) + 1 < NEAREST * np.abs(
            factors
        )
        sums = np.sum(np.angle(factors), axis=-1)
        return np.where(np.all(far, axis=-1) & (len(self.hulls) > 1), sums, math.nan)

    def slopes(self, s: acb) -> ExponentParts:
        """Derivatives of both sums."""
        logs = acb(0)
        quadratic = acb(0)
        for gap, multiplicity, energy in self.hulls:
            w = s * gap + 1
            step = gap / w
            logs = logs + multiplicity * step
            quadratic = quadratic - energy * step / w
        return ExponentParts(logs, quadratic)


class Cluster:
    """Many terms around a centre, by their power sums."""

    def __init__(self, terms: Sequence[Term], centre: float, degree: int) -> None:
        self._members, self.centre, self.degree = terms, arb(centre), degree
        offsets = [term.gap - centre for term in terms]
        numbers = [term.multiplicity for term in terms]
        energies = [term.energy for term in terms]
        self.number, self.energy, self.reach = (
            sum(numbers, arb(0)),
            sum(energies, arb(0)),
            arb(0),
        )
        for entry in offsets:
            self.reach = self.reach.max(entry.abs_upper())
        self.hulls = [
            Term(self.centre + arb(0, self.reach.upper()), self.number, self.energy)
        ]
        signs = [1 - 2 * (k % 2) for k in range(degree + 1)]
        sums, weighed = _power_sums(offsets, (numbers, energies), degree)
        logs = [
            arb(0),
            *(
                -sign * entry / k
                for k, (sign, entry) in enumerate(zip(signs[1:], sums[1:]), 1)
            ),
        ]
        quadratic = [sign * entry for sign, entry in zip(signs, weighed)]
        self.spread = -2 * logs[2]  # S_2
        self.logs, self.quadratic = acb_poly(logs), acb_poly(quadratic)
        self.log_slope, self.quadratic_slope = (
            self.logs.derivative(),
            self.quadratic.derivative(),
        )

    @cached_property
    def terms(self) -> Bundle:
        """The terms one by one, for places that are too close to them."""
        return Bundle(self._members)

    def values(self, s: acb, _: float | None = None) -> ExponentParts:
        """As of a bundle."""
        w = s * self.centre + 1
        u = s / w
        size = u.abs_upper()
        q = size * self.reach
        if not q < LARGEST_QUOTIENT:
            return self.terms.values(s)
        if q.is_zero():
            rest = arb(0)
        else:
            rest = q ** (self.degree - 1) / (1 - q)
        logs = self.logs(u) + _around_zero(
            self.spread * size * size * rest / (self.degree + 1)
        )
        quadratic = self.quadratic(u) + _around_zero(self.energy * rest * q * q)
        return ExponentParts(logs + w.log(analytic=True) * self.number, quadratic / w)

    def slopes(self, s: acb) -> ExponentParts:
        """As of a bundle."""
        w = s * self.centre + 1
        u = s / w
        size = u.abs_upper()
        q = size * self.reach
        if not q < LARGEST_QUOTIENT:
            return self.terms.slopes(s)
        if q.is_zero():
            rest = arb(0)
        else:
            rest = q ** (self.degree - 1) / (1 - q)
        logs = self.log_slope(u) + _around_zero(self.spread * size * rest)
        beyond = self.energy * self.reach * q * rest * (self.degree + 1) / (1 - q)
        quadratic = (self.quadratic_slope(u) + _around_zero(beyond)) / w
        quadratic -= self.centre * (
            self.quadratic(u) + _around_zero(self.energy * rest * q * q)
        )
        square = w * w
        return ExponentParts(
            self.number * self.centre / w + logs / square, quadratic / square
        )


def _power_sums(
    offsets: Sequence[arb], weights: Sequence[Sequence[arb]], degree: int
) -> list[list[arb]]:
    """Sums of weight times offset^k for k = 0 to the degree: small powers times powers of the largest of them."""
    low: list[Sequence[arb]] = [[arb(1)] * len(offsets)]
    while len(low) < SMALL_POWERS:
        low.append(list(map(operator.mul, low[-1], offsets)))
    columns = arb_mat(
        len(offsets), SMALL_POWERS, [power for row in zip(*low) for power in row]
    )
    stride = list(map(operator.mul, low[-1], offsets))
    sums = []
    for weight in weights:
        rows = [weight]
        while len(rows) * SMALL_POWERS <= degree:
            rows.append(list(map(operator.mul, rows[-1], stride)))
        products = (
            arb_mat(len(rows), len(offsets), [entry for row in rows for entry in row])
            * columns
        )
        sums.append(products.entries()[: degree + 1])
    return sums


def _log_at(z: acb, angle: float) -> acb:
    """The logarithm of z whose imaginary part is near `angle`; not finite where that is none of its values."""
    behind = bool(z.real < 0)
    log = (-z if behind else z).log()  # off the cut
    turns = (angle - float(log.imag)) / math.pi
    if not abs(turns - round(turns)) < 0.1 or bool(round(turns) % 2) != behind:
        return acb("nan", "nan")
    if round(turns):
        return log + acb(0, arb.pi() * round(turns))
    return log


def _around_zero(size: arb) -> acb:
    spread = arb(0, size.abs_upper())
    return acb(spread, spread)


def clustered(
    terms: Sequence[Term], gaps: Floats, path: Floats
) -> list[Bundle | Cluster]:
    """The terms in groups that are small as seen from the points of a path; nothing rigorous depends on those."""
    groups: list[Bundle | Cluster] = []
    left: list[int] = []
    waiting = [np.argsort(gaps)] * bool(len(gaps))
    while waiting:
        rows = waiting.pop()
        low = float(gaps[rows[0]])
        high = float(gaps[rows[-1]])
        if low <= 0.0 <= high:
            centre = 0.0
        else:
            centre = (low + high) / 2
        q = max(high - centre, centre - low) * float(
            np.max(np.abs(path / (1.0 + path * centre)))
        )
        if len(rows) < FEWEST:
            left += rows.tolist()
        elif q < LARGEST_QUOTIENT / 2:
            degree = 4 + int(SERIES_BITS / -math.log2(max(q, 2.0**-SERIES_BITS)))
            groups.append(Cluster([terms[row] for row in rows], centre, degree))
        elif low == high:
            left += rows.tolist()
        else:
            middle = int(np.searchsorted(gaps[rows], (low + high) / 2, side="right"))
            waiting += [rows[:middle], rows[middle:]]
    return groups + _bundled([terms[row] for row in left])


def _bundled(terms: Sequence[Term]) -> list[Bundle | Cluster]:
    """Terms that make no cluster: each that occurs more than once by itself, the others several together."""
    once = [term for term in terms if term.multiplicity == 1]  # surely
    others = [term for term in terms if not bool(term.multiplicity == 1)]
    bundles: list[Bundle | Cluster] = [Bundle([term]) for term in others]
    return bundles + [
        Bundle(once[start : start + TOGETHER])
        for start in range(0, len(once), TOGETHER)
    ]


def _repeated(term: Term, count: int) -> Term:
    """A term that is taken `count` times."""
    if count > 1:
        return Term(term.gap, term.multiplicity * count, term.energy * count)
    return term


class CompositionCumulant:
    """K of a composition, its residuals included, as seen from a path."""

    def __init__(
        self, spectra: Sequence[tuple[BallSpectrum, int]], path: Floats
    ) -> None:
        terms = [
            _repeated(term, count)
            for spectrum, count in spectra
            for term in spectrum.terms
        ]
        self.groups = clustered(
            terms, np.array([float(term.gap) for term in terms]), path
        )
        self.hulls = [hull for group in self.groups for hull in group.hulls]
        self._places = [(float(hull.gap), float(hull.gap.rad())) for hull in self.hulls]
        self._flat = sum(
            (spectrum.flat_energy * count for spectrum, count in spectra), arb(0)
        )
        self._log_ratio = sum(
            (spectrum.log_ratio * count for spectrum, count in spectra), arb(0)
        )
        self._set_residuals(
            [(spectrum, count) for spectrum, count in spectra if not spectrum.exact]
        )

    def _set_residuals(self, rough: Sequence[tuple[BallSpectrum, int]]) -> None:
        """Those of all matrices together: a composition is one pair of block-diagonal matrices."""
        self._rough = sum(len(spectrum.terms) * count for spectrum, count in rough)
        self._gram = _norm((rest.residual_gram, count) for rest, count in rough)
        self._across = _norm((rest.residual_gap, count) for rest, count in rough)
        self._energy = sum((rest.energy * count for rest, count in rough), arb(0))

    def values(self, places: Floats, balls: Sequence[acb]) -> Iterator[acb]:
        """K at many places of the upper half plane and the balls around them."""
        columns = [
            group.angles(places) if isinstance(group, Bundle) else 0 * places.real
            for group in self.groups
        ]
        return map(self.value, balls, np.transpose(columns).tolist())

    def value(self, s: acb, angles: Sequence[float | None] = ()) -> acb:
        """K on a ball that is nearly a point; not finite on a cut or where the residual is large."""
        logs = acb(0)
        quadratic = acb(self._flat)
        for group, angle in zip_longest(self.groups, angles):
            part = group.values(s, angle)
            logs = logs + part.logs
            quadratic = quadratic + part.quadratic
        value = (s * (s + 1) * quadratic - s * self._log_ratio - logs) / 2
        if not self._rough:
            return value
        place = complex(
            s
        )  # which the ball and its gaps stay so near to that doubles bound every |1 + s g|
        far = abs(place)
        close = 8 * POINTLIKE
        smallest = min(
            abs(1 + place * g) - close * (1 + far * abs(g)) - 2 * far * reach
            for g, reach in self._places
        )
        nearest = arb(smallest)
        if not smallest > 2.0**-10:  # next to a branch point, or far out
            nearest = arb(1)
            for gap, _, _ in self.hulls:
                nearest = nearest.min((s * gap + 1).abs_lower())
        return value + self._residual(s, nearest)

    def expanded(self, s: acb, centre: acb) -> tuple[acb, acb, arb]:
        """K and its slope at the centre of a ball, and a bound on |K''| over the ball; the residual is in the first.

        Not finite where the ball meets a cut of the terms' logarithms: then nothing is said about K.
        """
        bend = self._flat
        smallest = arb(1)
        for gap, number, energy in self.hulls:
            w = s * gap + 1
            if not w.real > 0 and w.imag.contains(0):
                return acb("nan", "nan"), acb(0), arb(0)
            size = w.abs_lower()
            smallest = smallest.min(size)
            step = gap / size
            bend += step * step * number / 2
            if not energy.is_zero():
                bend += energy * (1 - gap) / (size * size * size)
        logs = acb(0)
        quadratic = acb(self._flat)
        log_slope = acb(0)
        quadratic_slope = acb(0)
        for group in self.groups:
            part = group.values(centre)
            slope = group.slopes(centre)
            logs = logs + part.logs
            quadratic = quadratic + part.quadratic
            log_slope = log_slope + slope.logs
            quadratic_slope = quadratic_slope + slope.quadratic
        curve = centre * (centre + 1)
        value = (curve * quadratic - centre * self._log_ratio - logs) / 2
        steep = (
            (2 * centre + 1) * quadratic
            + curve * quadratic_slope
            - self._log_ratio
            - log_slope
        ) / 2
        return (
            value + (self._residual(s, smallest) if self._rough else 0),
            steep,
            bend.abs_upper(),
        )

    def _residual(self, s: acb, smallest: arb) -> acb:
        """Ball around zero for the difference between K and its terms, where every |1 + s g| is at least `smallest`."""
        ratio = (self._gram + s.abs_upper() * self._across) / smallest
        if not (smallest > 0 and ratio < 1 and self._gram < 1):
            return acb("nan", "nan")
        room = 1 - ratio
        # |log det(I + F)| <= sqrt(d) |F| / (1 - |F|), of X and, at s = 0, of M2.
        error = (s * (s + 1) / 2).abs_upper() * self._energy * ratio / (smallest * room)
        error += arb(self._rough).sqrt() * (
            ratio / room + self._gram / (1 - self._gram)
        )
        return _around_zero(error)


def _norm(residuals: Iterable[tuple[arb, int]]) -> arb:
    """Frobenius norm of blocks of such norms, each so often."""
    return (
        sum((size * size * count for size, count in residuals), arb(0)).sqrt().upper()
    )
