"""Gaussians of one covariance, whitened once: squared distances of any number of pairs, rounded up with proof.

N(a, S) against N(b, S) is a mean shift of length |L^-1 (a - b)| with S = L L'. Any matrix W that makes E = W S W' - I
small serves in place of L^-1: v' S^-1 v is at most |W v|^2 / (1 - |E|). Errors of products in doubles are bounded by
the same products of absolute values (Higham, Accuracy and Stability of Numerical Algorithms, section 3.5), whatever
the order of their sums.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.reduction_rules import scale_of
from gaussveil.typing import Floats

LARGEST_RESIDUAL = 1e-9  # of the whitened covariance; beyond it more digits are needed
LARGEST_ENTRY = 1e60  # of a whitener: products of four of them stay within doubles
PAIRS_AT_ONCE = 1 << 16
BELOW_DOUBLES = 1e-290  # more than products lose below the range of doubles
ABOVE = 1 + 2.0**-40  # for the few roundings of the bounds themselves


@np.errstate(all="ignore")  # what is not finite is not answered
def squared_shifts_above(
    centres: Floats, covariance: Floats, edges: NDArray[np.intp]
) -> Floats | None:
    """Upper ends of the squared Mahalanobis distances of pairs of `centres`; None where doubles do not suffice.

    Args:
        centres: one row for each of the Gaussians.
        covariance: symmetric, the same for all.
        edges: pairs of rows, one for each answer.
    """
    scale = scale_of(np, np.diagonal(covariance))
    scaled = covariance * scale[:, None] * scale
    try:
        whitener = np.linalg.inv(np.linalg.cholesky(scaled))
    except np.linalg.LinAlgError:
        return None
    residual = _residual_above(whitener, scaled)
    if not residual <= LARGEST_RESIDUAL and np.all(np.abs(whitener) < LARGEST_ENTRY):
        residual, whitener = _refined(whitener, scaled)
    if not residual <= LARGEST_RESIDUAL:
        return None
    squares = np.empty(len(edges))
    for begin in range(0, len(edges), PAIRS_AT_ONCE):
        part = edges[begin : begin + PAIRS_AT_ONCE]
        gaps = (centres[part[:, 0]] - centres[part[:, 1]]) * scale
        squares[begin : begin + len(part)] = _squares_above(gaps, whitener)
    squares *= ABOVE / (1 - residual)
    if not np.all(np.isfinite(squares)):
        return None
    return squares


def _residual_above(whitener: Floats, covariance: Floats) -> float:
    """At least the norm of W S W' - I."""
    size = len(covariance)
    lost = _lost(2 * size + 1) * (
        np.abs(whitener) @ np.abs(covariance) @ np.abs(whitener.T)
    )
    left = np.abs(whitener @ covariance @ whitener.T - np.eye(size))
    return float(np.linalg.norm(left * ABOVE + lost)) * ABOVE + BELOW_DOUBLES


def _refined(whitener: Floats, covariance: Floats) -> tuple[float, Floats]:
    """A whitener of an ill-conditioned covariance, and at least the norm of what it leaves over.

    Where W S W' = I + E, (I - E / 2) W leaves over some E^2 only, and what rounding its entries does.
    """
    left = _exact_residual(whitener, covariance)
    whitener = whitener - 0.5 * left @ whitener
    left = _exact_residual(whitener, covariance)
    return float(np.linalg.norm(left)) * ABOVE + BELOW_DOUBLES, whitener


def _exact_residual(whitener: Floats, covariance: Floats) -> Floats:
    """W S W' - I of matrices whose absolute values say too much: in whole numbers, each entry rounded once."""
    rows, places = _in_whole_numbers(whitener)
    middle, more = _in_whole_numbers(covariance)
    unit = 1 << (2 * places + more)
    product = rows @ middle @ rows.T - unit * np.eye(len(rows), dtype=np.int64).astype(
        object
    )
    return np.array([[entry / unit for entry in row] for row in product])


def _in_whole_numbers(matrix: Floats) -> tuple[NDArray[np.object_], int]:
    """The entries times a power of two that makes them whole, and its logarithm."""
    fractions = [[float(entry).as_integer_ratio() for entry in row] for row in matrix]
    places = max(below.bit_length() - 1 for row in fractions for _, below in row)
    whole = [[(above << places) // below for above, below in row] for row in fractions]
    return np.array(whole, dtype=object), places


def _squares_above(gaps: Floats, whitener: Floats) -> Floats:
    """At least |W v|^2 of the rows v, each off by a rounding of its own."""
    size = len(whitener)
    lost = _lost(size + 1) * (np.abs(gaps) @ np.abs(whitener.T))
    lengths = np.abs(gaps @ whitener.T) + lost
    squares = np.sum(lengths**2, axis=1) * (1 + _lost(size + 2))
    some = np.any(gaps != 0, axis=1)
    return np.where(some, squares + BELOW_DOUBLES, 0.0)


def _lost(roundings: int) -> float:
    """What so many roundings take from a sum of products at most, as a share of the sum of their absolute values."""
    return roundings * UNIT_ROUNDOFF / (1 - roundings * UNIT_ROUNDOFF) * ABOVE
