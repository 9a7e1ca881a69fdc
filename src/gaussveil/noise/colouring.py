"""Integers A that colour lattice noise: s1^2 A A' + s^2 I is at least the covariance asked for, by proof.

Everything here is in units of the grid and public. Derived: docs/math/noise.md, "Coloured noise".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, log2

import numpy as np

from gaussveil.errors import NotPositiveDefiniteError, NumericalError, ParameterError
from gaussveil.noise.discrete_gaussian import (
    SMOOTHING_VARIANCE,
    DiscreteGaussianNoise,
    smoothing_total_variation,
)
from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.positive_definite import certainly_positive_definite
from gaussveil.typing import Floats

SMALLEST_EXCESS = 2.0**-30
LARGEST_EXCESS = 2.0**-4
EXACT_INTEGERS = 2**52


@dataclass(frozen=True)
class Colouring:
    """One copy of the noise is multipliers @ inner + outer; `covariance` is its covariance as near as floats tell."""

    multipliers: Floats
    inner: DiscreteGaussianNoise
    outer: DiscreteGaussianNoise
    covariance: Floats
    total_variation: float  # of the convolution and the inner draws; the outer draws are counted apart


def colour(covariances: Sequence[Floats], lattice_variance: float) -> list[Colouring]:
    """Colourings with common widths, each of a covariance M with M - lattice_variance I >= N proven."""
    if all(np.array_equal(covariance, covariances[0]) for covariance in covariances):
        # labels that share a covariance share its colouring
        return _colour(covariances[:1], lattice_variance) * len(covariances)
    return _colour(covariances, lattice_variance)


def _colour(covariances: Sequence[Floats], lattice_variance: float) -> list[Colouring]:
    spectra = [
        np.linalg.eigh((covariance + covariance.T) / 2) for covariance in covariances
    ]
    smallest = min(float(values[0]) for values, _ in spectra)
    largest = max(float(values[-1]) for values, _ in spectra) + lattice_variance
    if not smallest > 0:
        raise NotPositiveDefiniteError(
            f"covariance must be positive definite. Got smallest eigenvalue {smallest:.3g} grids^2."
        )
    if smallest < 16:
        raise ParameterError(
            f"grid must be below a quarter of the smallest standard deviation. Got 1/{smallest**0.5:.3g}."
        )
    # half of the weakest direction is white, which smooths the integer multiples of the other half
    outer = DiscreteGaussianNoise(smallest / 2)
    # a power of two, so that its square scales floats exactly; the factor leaves room for rounding A to integers
    needed = 1.05 * SMOOTHING_VARIANCE * (1 + largest / float(outer.variance))
    inner = DiscreteGaussianNoise(4 ** max(2, ceil(log2(needed) / 2)))
    return [
        _one(n, values, vectors, inner, outer, lattice_variance)
        for n, (values, vectors) in zip(covariances, spectra)
    ]


def _one(
    covariance: Floats,
    values: Floats,
    vectors: Floats,
    inner: DiscreteGaussianNoise,
    outer: DiscreteGaussianNoise,
    lattice_variance: float,
) -> Colouring:
    inner_variance = float(inner.variance)
    outer_variance = float(outer.variance)
    # rounding A moves M by about this much of itself in the weakest direction; start below and double
    excess = max(
        SMALLEST_EXCESS, 0.25 * (inner_variance * len(values) / values[0]) ** 0.5
    )
    while excess <= LARGEST_EXCESS:
        root = np.sqrt(
            np.maximum((1 + excess) * values + lattice_variance - outer_variance, 0)
            / inner_variance
        )
        multipliers = np.rint((vectors * root) @ vectors.T)
        drawn = inner_variance * (
            multipliers @ multipliers.T
        ) + outer_variance * np.eye(len(values))
        if _covers(
            drawn,
            covariance,
            multipliers,
            inner_variance,
            outer_variance,
            lattice_variance,
        ):
            break
        excess *= 2
    else:
        raise NumericalError(
            f"the covariance's condition number {values[-1] / values[0]:.3g} is too large for the grid: noise that "
            f"surely covers it would exceed it by more than {LARGEST_EXCESS:.2g}. Choose a finer grid."
        )
    reach = np.max(np.sum(np.abs(multipliers), axis=1)) * inner.bound + outer.bound
    if not reach < EXACT_INTEGERS:
        raise ParameterError(
            f"noise must stay below 2^52 grids for exact arithmetic; it can reach {reach:.3g}. Choose a coarser grid."
        )
    norm = _squared_norm_upper(multipliers)
    conditional = 0.999999 / (1 / inner_variance + norm / outer_variance)
    total_variation = (
        smoothing_total_variation(conditional, len(values))
        + len(values) * inner.total_variation
    )
    return Colouring(multipliers, inner, outer, drawn, total_variation)


def _covers(
    drawn: Floats,
    covariance: Floats,
    multipliers: Floats,
    inner_variance: float,
    outer_variance: float,
    lattice_variance: float,
) -> bool:
    """Whether M - lattice_variance I - N is certainly positive definite, rounding of M included."""
    size = len(covariance)
    margin = drawn - lattice_variance * np.eye(size) - (covariance + covariance.T) / 2
    magnitude = inner_variance * (np.abs(multipliers) @ np.abs(multipliers.T)) + np.abs(
        covariance
    )
    magnitude += (outer_variance + lattice_variance) * np.eye(size)
    return certainly_positive_definite(
        (margin + margin.T) / 2,
        1.01 * (size + 8) * UNIT_ROUNDOFF * (magnitude + magnitude.T),
    )


def _squared_norm_upper(multipliers: Floats) -> float:
    """An upper bound of the squared spectral norm, proven by factorisation; the rows' bound if that fails."""
    gram = multipliers @ multipliers.T
    error = (
        1.01
        * (len(gram) + 8)
        * UNIT_ROUNDOFF
        * (np.abs(multipliers) @ np.abs(multipliers.T))
    )
    guess = 1.0001 * float(np.linalg.eigvalsh(gram)[-1]) + 1e-9
    identity = np.eye(len(gram))
    if certainly_positive_definite(
        guess * identity - gram, error + guess * UNIT_ROUNDOFF * identity
    ):
        return guess
    return float(np.max(np.sum(np.abs(gram) + error, axis=1)))
