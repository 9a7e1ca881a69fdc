"""Approximate diagonalisers of pairs of matrices as sums of two doubles, and proven bounds on what they leave over.

The first one comes from doubles, so that it is off by the condition number times their rounding. What it makes of the
exact matrices is computed to some 30 digits (proofs.h); eigenvectors of that, well-conditioned by now, make a better
one.
Nothing is claimed of the search: the bounds are of the last matrices found.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum.reduction_rules import scale_of
from gaussveil.spectrum.selection import compiled_contour
from gaussveil.typing import Floats

Indices = NDArray[np.intp]
Bools = NDArray[np.bool_]

ROUNDS = 8  # each about doubles the digits; the first ones of ill-conditioned pairs turn whole blocks
STEEPEST = 2.0**-26  # rotations beyond this angle are not first-order
NEAR = 4.0  # times what rounding leaves: no further step would help
LOST = 1e-150  # at least what squares lose below the range of doubles


class QuickParts(NamedTuple):
    """Of each pair: gaps and means as rows of hi, lo and error; bounds on |M2 - I| and |N - diag N|."""

    gaps: Floats
    means: Floats
    residual_gram: Floats
    residual_gap: Floats


@np.errstate(all="ignore")
def quick_parts(
    mean_x: Floats, cov_x: Floats, mean_y: Floats, cov_y: Floats
) -> QuickParts | None:
    """The parts of a stack of pairs; not finite where doubles do not suffice, None where nothing is compiled."""
    native = compiled_contour(cov_y, 1)
    start = _double_whitener(cov_y)
    if native is None or start is None:
        return None
    whiten, scale = start
    square = scale[..., :, None] * scale[..., None, :]
    half = whiten @ ((cov_y - cov_x) * square)
    gap = half @ whiten.mT
    _, axes = np.linalg.eigh((gap + gap.mT) / 2)
    rows = np.ascontiguousarray(axes.mT @ whiten)
    low = np.zeros_like(rows)
    size = cov_y.shape[-1]
    columns = [mean_x, cov_x, mean_y, cov_y, scale]
    best, gram, gap = native.diagonalise(*columns, rows, low)
    active = _unfinished(best, gap)
    reduced = best[active]
    gram = gram[active]
    gap = gap[active]
    for _ in range(ROUNDS):
        if not active.size:
            break
        part_rows = rows[active]
        part_low = low[active]
        change = _changes(gram, gap, reduced[:, size : 2 * size], reduced[:, -1])
        native.turn(*change, part_rows, part_low)
        reduced, gram, gap = native.diagonalise(
            *(column[active] for column in columns), part_rows, part_low
        )
        better = _left_over(reduced) < _left_over(best[active])
        rows[active[better]] = part_rows[better]
        low[active[better]] = part_low[better]
        best[active[better]] = reduced[better]
        again = np.zeros(len(active), dtype=bool)
        again[_unfinished(reduced, gap)] = True
        again &= better
        active = active[again]
        reduced = reduced[again]
        gram = gram[again]
        gap = gap[again]
    stacked = best[:, :-4].reshape(-1, 6, size)
    same = np.all(cov_x == cov_y, axis=(-2, -1))
    residual_gram = (best[:, -4] + best[:, -2]) * (1 + 1e-9) + LOST
    residual_gap = (best[:, -3] + best[:, -1]) * (1 + 1e-9) + np.where(same, 0.0, LOST)
    return QuickParts(stacked[:, :3], stacked[:, 3:], residual_gram, residual_gap)


def _left_over(found: Floats) -> Floats:
    """How far from diagonal pairs are, in one number; infinite where that is unknown."""
    whole = np.sum(found[:, -4:], axis=-1)
    return np.where(np.isfinite(whole), whole, np.inf)


def _unfinished(found: Floats, gap: Floats) -> Indices:
    """The pairs that rounding does not yet keep from becoming more diagonal."""
    across, along, across_error, along_error = found[:, -4:].T
    finite = np.isfinite(gap).all(axis=(-2, -1)) & (across < 0.5)
    return np.flatnonzero(
        finite & ((across > NEAR * across_error) | (along > NEAR * along_error))
    )


def _changes(
    gram: Floats, gap: Floats, gap_low: Floats, noise: Floats
) -> tuple[Floats, Floats]:
    """What to multiply each T by, as a sum of two doubles.

    (I + C) T clears both off-diagonals to first order where c_ij + c_ji = -E_ij and c_ij g_j + c_ji g_i = -F_ij, E and
    F being those of M2 and N. Gaps that are too close for it form clusters, each turned by eigenvectors of its block.
    """
    size = gram.shape[-1]
    own = range(size)
    gaps = gap[:, own, own]
    gram = (gram + gram.mT) / 2
    middle = (gaps[:, :, None] + gaps[:, None, :]) / 2
    left = (gap + gap.mT) / 2 - middle * gram
    left[:, own, own] = 0.0
    apart = gaps[:, None, :] - gaps[:, :, None]
    apart += gap_low[:, None, :] - gap_low[:, :, None]
    faint = np.abs(left) <= noise[:, None, None]
    steep = (np.abs(left) >= STEEPEST * np.abs(apart)) & ~faint
    turns = np.where(steep | faint, 0.0, left / apart)
    turns = np.where(np.abs(turns) < STEEPEST, turns, 0.0)
    change = -gram / 2
    for pair in range(len(gram)):
        if not np.any(steep[pair]):
            change[pair] -= turns[pair]
            continue
        name = _clusters(steep[pair])
        change[pair] -= np.where(name[:, None] == name, 0.0, turns[pair])
        turned = _turned(name, apart[pair], left[pair])
        change[pair] = (turned - np.eye(size)) + turned @ change[pair]
    whole = np.eye(size) + change
    return whole, change - (whole - np.eye(size))


def _clusters(joined: Bools) -> Indices:
    """For each member the least one that it is joined with, over any number of others."""
    name = np.arange(len(joined))
    joined = joined | np.eye(len(name), dtype=bool)
    while True:
        smallest = np.min(np.where(joined, name, len(name)), axis=1)
        smallest = smallest[smallest]
        if np.array_equal(smallest, name):
            return name
        name = smallest


def _turned(name: Indices, apart: Floats, left: Floats) -> Floats:
    """The identity, but for the members of each cluster the eigenvectors of their block."""
    whole = np.eye(len(name))
    for cluster in np.flatnonzero(np.bincount(name) > 1):
        members = np.flatnonzero(name == cluster)
        block = left[np.ix_(members, members)]
        block[np.diag_indices(len(members))] = apart[cluster, members]
        _, axes = np.linalg.eigh(block / np.max(np.abs(block)))
        whole[np.ix_(members, members)] = axes.T
    return whole


def _double_whitener(cov: Floats) -> tuple[Floats, Floats] | None:
    """In doubles: W with W S W' near the identity where S is scaled by the powers of two that come with it."""
    scale = scale_of(np, np.diagonal(cov, axis1=-2, axis2=-1))
    scaled = (cov + cov.mT) / 2 * (scale[..., :, None] * scale[..., None, :])
    try:
        return np.linalg.inv(np.linalg.cholesky(scaled)), scale
    except np.linalg.LinAlgError:
        return None
