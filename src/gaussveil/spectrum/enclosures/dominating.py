"""Terms in doubles that dominate an exact pair of matrices, up to a proven total variation.

The exact pair is, in the coordinates of an approximate diagonaliser, a diagonal pair but for residuals of some 1e-70;
those are a total variation, as a sampler's error is. The diagonal pair is then rounded outwards, gap by gap: where
|g'| >= |g| have one sign, the channel x -> a x + N(0, 1 - a^2) with a^2 = g/g' maps (N(b', 1-g'), N(0, 1)) with
b'^2 = b^2 g'/g to (N(b, 1-g), N(0, 1)), and a longer mean gap only makes a pair easier to tell apart (Anderson's
inequality). Both hold for every hockey-stick divergence and both directions (derived: docs/math/spectrum).
"""

from __future__ import annotations

import math
from typing import NamedTuple

from flint import arb

from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum
from gaussveil.spectrum.enclosures.interval import outward

FAINT = 1e-90  # gaps below it are left out and counted as total variation: doubles cannot square them


class Dominating(NamedTuple):
    """One number per coordinate; `log_ratio` is the log of the variance ratio that `variance_gap` is one minus of."""

    variance_gap: list[float]
    log_ratio: list[float]
    energy: list[float]
    total_variation: float


def dominating_terms(spectrum: BallSpectrum) -> Dominating | None:
    """The terms, from a spectrum of matrices at the working precision in force; None where that does not suffice."""
    gaps, logs, energies = [], [], []
    stray, drift, narrowest = arb(0), arb(0), arb(1)
    same = spectrum.residual_gap.is_zero() and all(term.gap.is_zero() for term in spectrum.terms)
    for gap, _, squared in spectrum.terms:
        energy = squared.upper() if not same else (squared / (1 - spectrum.residual_gram)).upper()
        narrowest = narrowest.min((1 - gap).lower())
        if squared.contains(0) or energy < FAINT**2:
            drift, energy = drift + energy, arb(0)
        if gap.abs_upper() < FAINT or gap.contains(0):
            stray, rounded, ratio, growth = stray + gap.abs_upper() * gap.abs_upper(), 0.0, arb(1), arb(1)
        elif gap > 0:
            ratio = arb(outward(1 - gap, up=False))
            rounded = min(outward(1 - ratio, up=True), math.nextafter(1.0, 0.0))
            growth = (1 - ratio).max(arb(rounded)) / gap
        else:
            rounded = outward(gap, up=False)
            ratio, growth = 1 - arb(rounded), rounded / gap
        if not (ratio > 0 and math.isfinite(rounded)):
            return None
        gaps.append(rounded)
        logs.append(float(ratio.log()))
        energies.append(outward(energy * growth, up=True))
    if same and drift.is_zero():
        return Dominating(gaps, logs, energies, 0.0)  # a mean shift, whose length in M2 is bounded above
    # |TV| <= |F| / 2 for covariances D and D^1/2 (I + F) D^1/2 with |F| <= 1/2, and <= |D^-1/2 (b - b')| / 2 for means.
    share = (spectrum.residual_gap + spectrum.residual_gram + stray.sqrt()) / narrowest
    total = outward((share + (drift / narrowest).sqrt()) / 2, up=True)
    return Dominating(gaps, logs, energies, total) if share < 0.5 and math.isfinite(total) else None
