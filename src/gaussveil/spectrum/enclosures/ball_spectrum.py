"""The cumulant function of exact inputs, in ball arithmetic.

A source is either a list of reduced terms, or two means and two covariances, all doubles taken exactly. Both become a
`BallSpectrum`: an enclosure of K(s), for complex balls s, with python-flint (Arb).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from flint import acb, arb
from numpy.typing import NDArray

from gaussveil.spectrum.enclosures.exact_doubles import TermDoubles

GROUP = 8  # factors multiplied before a logarithm is taken: each turn of a rectangle makes it wider


class Term(NamedTuple):
    """`multiplicity` coordinates of one variance gap, and the sum of their squared mean gaps."""

    gap: arb
    multiplicity: arb
    energy: arb


@dataclass(frozen=True)
class BallSpectrum:
    """Enclosure of the cumulant function of one pair.

    `residual_gram` and `residual_gap` bound the Frobenius norms of M2 - I and of the off-diagonal of N; `gap_error`
    bounds how far the true variance gaps lie from the terms' (all three zero for exact terms). `flat_energy` belongs to
    variance gaps that are exactly zero.
    """

    terms: tuple[Term, ...]
    flat_energy: arb
    log_ratio: arb
    residual_gram: arb
    residual_gap: arb
    gap_error: arb

    @cached_property
    def exact(self) -> bool:
        """Whether the terms are the true spectrum rather than an approximate diagonal."""
        return bool(self.residual_gap.is_zero() and self.residual_gram.is_zero())

    @cached_property
    def energy(self) -> arb:
        """Sum of the terms' squared mean gaps."""
        return sum((term.energy for term in self.terms), self.flat_energy)

    @cached_property
    def whitened_energy(self) -> arb:
        """Upper bound on the squared length of the mean gap where Y is truly standard: b'M2^-1 b."""
        return self.energy / (1 - self.residual_gram)

    def cumulant(self, s: acb) -> acb:
        """K on a ball s that is nearly a point, term by term; not finite on a cut or where the residual is large."""
        angles = self._angles(s)
        logs, quadratic, together, held, exact = acb(0), acb(self.flat_energy), acb(1), 0, self.exact
        sizes = []
        grouped, last = bool(angles), len(self._single_gaps)
        for (gap, multiplicity, energy), (single, moved) in zip(self.terms, self._kinds):
            w = s * gap + 1
            if grouped and single:
                together, held = together * w, held + 1
                if held % GROUP == 0 or held == last:
                    logs, together = logs + _log_at(together, angles[(held - 1) // GROUP]), acb(1)
            else:
                logs += w.log(analytic=True) * multiplicity
            if moved:
                quadratic += energy / w
            if not exact:
                sizes.append(w.abs_lower())
        curve = s * (s + 1) / 2
        value = curve * quadratic - (s * self.log_ratio + logs) / 2
        return value if exact else value + self._residual(s, curve, sizes)

    @cached_property
    def _kinds(self) -> list[tuple[bool, bool]]:
        """Of each term whether it counts once, and whether it has energy."""
        return [(term.multiplicity == 1, not term.energy.is_zero()) for term in self.terms]

    @cached_property
    def _single_gaps(self) -> NDArray[np.float64]:
        return np.array([float(term.gap) for term in self.terms if term.multiplicity == 1])

    def _angles(self, s: acb) -> list[float]:
        """Sums of the angles of 1 + s g, group by group of the terms that count once: each then needs one logarithm.

        None where there are no terms, or doubles might miscount: off the upper half plane, or next to a branch point.
        """
        gaps = self._single_gaps
        if len(gaps) == 0 or not s.imag > 0:
            return []
        place = complex(s)
        factors = 1 + place * gaps
        if not np.max((1 + abs(place) * np.abs(gaps)) / np.abs(factors)) < 1e6:
            return []
        sums: list[float] = np.add.reduceat(np.angle(factors), np.arange(0, len(gaps), GROUP)).tolist()
        return sums

    def bend(self, s: acb) -> tuple[arb, acb]:
        """A bound on |K''| over the ball s, and a ball around zero for what the residual adds to K there.

        Not finite where the ball meets a cut of the terms' logarithms: then nothing is said about K.
        """
        curvature = self.flat_energy
        sizes = []
        for gap, multiplicity, energy in self.terms:
            w = s * gap + 1
            if not w.real > 0 and w.imag.contains(0):
                return arb("nan"), acb("nan", "nan")
            size = w.abs_lower()
            step = gap / size
            curvature += _square(step) * multiplicity / 2
            if not energy.is_zero():
                curvature += energy * (1 - gap) / (size * size * size)
            sizes.append(size)
        residual = acb(0) if self.exact else self._residual(s, s * (s + 1) / 2, sizes)
        return curvature.abs_upper(), residual

    def slope(self, s: acb) -> acb:
        """Derivative of the terms' K at the point s, without the residual."""
        value = self.flat_energy * (2 * s + 1) - self.log_ratio
        for gap, multiplicity, energy in self.terms:
            w = s * gap + 1
            value -= gap * multiplicity / w
            if not energy.is_zero():
                value += energy * (s * (w + 1) + 1) / (w * w)
        return value / 2

    def terms_only(self) -> BallSpectrum:
        """The same terms with their residual left out."""
        return replace(self, residual_gram=arb(0), residual_gap=arb(0))

    def _residual(self, s: acb, curve: acb, sizes: Sequence[arb]) -> acb:
        """Ball around zero for the difference between K and its terms, where every |1 + s g| is at least its size."""
        smallest = sizes[0]
        for size in sizes[1:]:
            smallest = smallest.min(size)
        ratio = (self.residual_gram + s.abs_upper() * self.residual_gap) / smallest
        if not ratio < 1:
            return acb("nan", "nan")
        room = 1 - ratio
        error = len(self.terms) * ratio / room + curve.abs_upper() * self.energy * ratio / (smallest * room)
        # det M2 = det(I + (M2 - I)) is the same kind of remainder at s = 0.
        error += len(self.terms) * self.residual_gram / (1 - self.residual_gram)
        spread = arb(0, error.abs_upper())
        return acb(spread, spread)


def _log_at(z: acb, angle: float) -> acb:
    """The logarithm of z whose imaginary part is near `angle`; not finite where that is none of its values."""
    behind = bool(z.real < 0)
    base = -z if behind else z  # off the cut
    found = base.log()
    turns = (angle - float(found.imag)) / math.pi
    if not abs(turns - np.rint(turns)) < 0.1 or bool(np.rint(turns) % 2) != behind:
        return acb("nan", "nan")
    return found + acb(0, arb.pi() * int(np.rint(turns)))


def _square(x: arb) -> arb:
    """x^2; the power operator of python-flint answers nan on a ball around zero."""
    return x * x


def exact_spectrum(sources: Sequence[tuple[TermDoubles, int]]) -> BallSpectrum:
    """One spectrum of all exact terms, each taken `count` times; equal variance gaps are merged."""
    merged: dict[tuple[float, bool], tuple[arb, arb]] = {}
    for source, count in sources:
        for i, gap in enumerate(source.variance_gap):
            number = arb(source.multiplicity[i]) * count
            energy = arb(0)
            if source.energy is not None:
                energy = arb(source.energy[i]) * count
            elif source.mean_gap is not None:
                energy = _square(arb(source.mean_gap[i])) * number
            key = (gap, source.swapped)
            known = merged.get(key, (arb(0), arb(0)))
            merged[key] = (known[0] + number, known[1] + energy)
    terms, flat = [], arb(0)
    for (gap, swapped), (number, energy) in merged.items():
        ratio = 1 - arb(gap)
        if number.is_zero() and energy.is_zero():
            continue  # a coordinate that is not there
        if gap == 0.0:
            flat += energy
        elif swapped:  # measured where X is standard
            terms.append(Term(-arb(gap) / ratio, number, energy / ratio))
        else:
            terms.append(Term(arb(gap), number, energy))
    log_ratio = sum((term.multiplicity * (-term.gap).log1p() for term in terms), arb(0))
    return BallSpectrum(tuple(terms), flat, log_ratio, arb(0), arb(0), arb(0))
