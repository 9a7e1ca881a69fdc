"""Exact inputs as balls (python-flint, Arb), from which K is enclosed.

A source is either a list of reduced terms, or two means and two covariances, all doubles taken exactly. Both become a
`BallSpectrum`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from flint import acb, arb

from gaussveil.spectrum.enclosures.exact_doubles import TermDoubles


class Term(NamedTuple):
    """`multiplicity` coordinates of one variance gap, and the sum of their squared mean gaps."""

    gap: arb
    multiplicity: arb
    energy: arb


@dataclass(frozen=True)
class BallSpectrum:
    """Terms of one pair, and how far it is from them.

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

    @property
    def stray(self) -> float:
        """How far covariances may be from those of the terms, as a share of each variance; infinite if unknown."""
        narrowest = min((1 - term.gap for term in self.terms), key=float).lower()
        rest = self.residual_gram + self.residual_gap
        rest += max((term.gap.rad() for term in self.terms), key=float)
        share = float((rest / narrowest).abs_upper())
        return share if narrowest > 0 and math.isfinite(share) else math.inf

    def in_doubles(self) -> list[list[float]]:
        """Gaps, logs of variance ratios and energies of the terms, in ascending order of the gaps."""
        rows = sorted(
            (float(gap), float((1 - gap).log()), float(energy))
            for gap, _, energy in self.terms
        )
        return [list(column) for column in zip(*rows)]

    def exponent(self, s: acb) -> acb:
        """K at a complex order."""
        value = -s * self.log_ratio / 2 + s * (1 + s) * self.flat_energy / 2
        for gap, number, energy in self.terms:
            opening = 1 + s * gap
            value += s * (1 + s) * energy / opening / 2 - number * opening.log() / 2
        return value


def exact_spectrum(sources: Sequence[tuple[TermDoubles, int]]) -> BallSpectrum:
    """One spectrum of all exact terms, each taken `count` times; equal variance gaps are merged."""
    terms = []
    flat = arb(0)
    for (gap, swapped), (number, energy) in _merged(sources).items():
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


def _merged(
    sources: Sequence[tuple[TermDoubles, int]],
) -> dict[tuple[float, bool], tuple[arb, arb]]:
    """Multiplicity and energy of all terms that share a variance gap and an orientation."""
    merged: dict[tuple[float, bool], tuple[arb, arb]] = {}
    for source, count in sources:
        for i, gap in enumerate(source.variance_gap):
            number = arb(source.multiplicity[i]) * count
            energy = arb(0)
            if source.energy is not None:
                energy = arb(source.energy[i]) * count
            elif source.mean_gap is not None:
                energy = arb(source.mean_gap[i]) * arb(source.mean_gap[i]) * number
            key = (gap, source.swapped)
            so_far = merged.get(key, (arb(0), arb(0)))
            merged[key] = (so_far[0] + number, so_far[1] + energy)
    return merged
