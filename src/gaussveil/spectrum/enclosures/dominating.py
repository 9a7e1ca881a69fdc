"""Terms in doubles that dominate an exact pair of matrices, up to a proven total variation.

The exact pair is, in the coordinates of an approximate diagonaliser, a diagonal pair but for residuals, |M2 - I| <= r
and |N - diag g| <= f. Where all |g| are much larger than f, a channel maps a slightly wider diagonal pair to the exact
one and nothing is left out; else residuals are a total variation, as a sampler's error is. The diagonal pair is then
rounded outwards, gap by gap. All holds for every hockey-stick divergence and both directions (docs/math/spectrum).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

from flint import arb

from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.spectrum.enclosures.interval import outward

FAINTEST_GAP = 1e-90  # gaps below it are left out and counted as total variation: doubles cannot square them
CLEAR = (
    2.0**-56
)  # residuals against the smallest gap up to which terms grow instead: by less than doubles tell


class Dominating(NamedTuple):
    """One number per coordinate; `log_ratio` is the log of the variance ratio that `variance_gap` is one minus of."""

    variance_gap: list[float]
    log_ratio: list[float]
    energy: list[float]
    total_variation: float


@dataclass
class _LeftOut:
    """What terms in doubles leave out of the exact ones, in balls."""

    stray: arb
    """Squares of the gaps that became 0."""
    drift: arb
    """Energies that became 0."""
    narrowest: arb
    """The smallest ratio of variances."""

    def kept_energy(self, energy: arb, squared: arb) -> arb:
        """An energy, or 0 where it is faint."""
        if squared.contains(0) or energy < FAINTEST_GAP**2:
            self.drift = self.drift + energy
            return arb(0)
        return energy

    def kept_gap(self, gap: arb) -> tuple[float, arb, arb] | None:
        """A gap rounded outwards, or 0 where it is faint; its ratio, and by how much its energy grows with it.

        None where that does not fit into doubles.
        """
        self.narrowest = self.narrowest.min((1 - gap).lower())
        if gap.abs_upper() < FAINTEST_GAP or gap.contains(0):
            self.stray = self.stray + gap.abs_upper() * gap.abs_upper()
            return 0.0, arb(1), arb(1)
        rounded, ratio, growth = _outward_gap(gap)
        if ratio > 0 and math.isfinite(rounded):
            return rounded, ratio, growth
        return None

    def total_variation(self, spectrum: BallSpectrum) -> float | None:
        """|TV| <= |F| / 2 for covariances D and D^1/2 (I + F) D^1/2 with |F| <= 1/2, |D^-1/2 (b - b')| / 2 for means.

        None where |F| may be larger.
        """
        residuals = spectrum.residual_gap + spectrum.residual_gram + self.stray.sqrt()
        share = residuals / self.narrowest
        total = outward((share + (self.drift / self.narrowest).sqrt()) / 2, up=True)
        if share < 0.5 and math.isfinite(total):
            return total
        return None


def dominating_terms(spectrum: BallSpectrum) -> Dominating | None:
    """The terms, from a spectrum of matrices at the working precision in force; None where that does not suffice."""
    gaps = []
    logs = []
    energies = []
    left_out = _LeftOut(stray=arb(0), drift=arb(0), narrowest=arb(1))
    same = _has_one_covariance(spectrum)
    grown = _grown(spectrum)
    for gap, _, squared in grown or spectrum.terms:
        energy = squared
        if same:
            energy = squared / (1 - spectrum.residual_gram)
        energy = energy.upper()
        if not grown:
            energy = left_out.kept_energy(energy, squared)
        kept = left_out.kept_gap(gap)
        if kept is None:
            return None
        rounded, ratio, growth = kept
        gaps.append(rounded)
        logs.append(float(ratio.log()))
        energies.append(outward(energy * growth, up=True))
    if grown or (same and left_out.drift.is_zero()):
        return Dominating(
            gaps, logs, energies, 0.0
        )  # or a mean shift, whose length in M2 is bounded above
    total = left_out.total_variation(spectrum)
    if total is None:
        return None
    return Dominating(gaps, logs, energies, total)


def _has_one_covariance(spectrum: BallSpectrum) -> bool:
    """Whether means alone differ."""
    return spectrum.residual_gap.is_zero() and all(
        term.gap.is_zero() for term in spectrum.terms
    )


def _outward_gap(gap: arb) -> tuple[float, arb, arb]:
    """A gap as a double further from 0, its ratio of variances, and by how much at most its energy grows with it."""
    if gap > 0.5:
        ratio = arb(outward(1 - gap, up=False))
        rounded = min(outward(1 - ratio, up=True), math.nextafter(1.0, 0.0))
        return rounded, ratio, (1 - ratio).max(arb(rounded)) / gap
    rounded = outward(gap, up=bool(gap > 0))
    return rounded, 1 - arb(rounded), rounded / gap


def is_sharp(spectrum: BallSpectrum) -> bool:
    """Whether balls and residuals are so narrow that doubles hardly tell; those next to no mean gap may be wider."""
    room = CLEAR * CLEAR * spectrum.energy
    return bool(spectrum.residual_gram < CLEAR) and all(
        gap.rad() <= CLEAR * gap.abs_lower().min(1 - gap)
        and energy.rad() <= CLEAR * (energy + room)
        for gap, _, energy in spectrum.terms
    )


def _grown(spectrum: BallSpectrum) -> list[Term] | None:
    """Terms of a diagonal pair that a channel maps to the exact one; None where a gap is not clear of the residuals."""
    narrowest = min(
        (term.gap.abs_lower() for term in spectrum.terms), key=float, default=arb(0)
    )
    share = spectrum.residual_gap / narrowest
    if not (
        narrowest > FAINTEST_GAP and share < CLEAR and spectrum.residual_gram < CLEAR
    ):
        return None
    growth = (1 + share) ** 2 / (1 - spectrum.residual_gram)
    spread = share * spectrum.energy.abs_upper().sqrt()
    grown = []
    for gap, number, energy in spectrum.terms:
        mean = energy.abs_upper().sqrt() + spread
        grown.append(
            Term(
                gap * growth,
                number,
                arb(0)
                if mean.is_zero()
                else (mean * mean * growth).max(arb(FAINTEST_GAP**2)),
            )
        )
    return grown
