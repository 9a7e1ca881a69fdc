"""From two exact means and covariances to balls around their reduced form, and what the balls leave open.

Any exact matrix T gives, with M2 = T S2 T', N = T (S2-S1) T' and b = T (mu1-mu2),

    K(s) = -(s/2) log(det S1/det S2) - 1/2 log(det(M2 + s N)/det M2) + s(1+s)/2 b'(M2 + s N)^-1 b.

T is an approximate simultaneous diagonaliser, found in doubles and refined at high precision; nothing is claimed of it.
What it leaves over, M2 - I and N - diag(N), enters as a bound. No eigenvalue is isolated, so repeated eigenvalues,
near-equal covariances and rank-one differences are nothing special (derived: docs/math/spectrum).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from flint import arb, arb_mat

from gaussveil.errors import NotPositiveDefiniteError
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles
from gaussveil.spectrum.enclosures.quick_reduction import quick_parts
from gaussveil.spectrum.positive_definite import is_positive_definite
from gaussveil.typing import Floats

REDUCTION_ROUNDS = (
    16  # each about doubles the digits, or resolves one level of a cluster
)
LARGEST_ROTATION = (
    2.0**-26
)  # rotations beyond this angle are not first-order: such gaps form a cluster
LARGEST_IN_BALLS = 400  # dimension beyond which products in balls would take minutes
DOUBLES_BITS = 256  # precision up to which sums of two doubles are tried first, above FEW dimensions
MANY = 8  # pairs of one size from which on those are tried below it
FIELDS = ("mean_x", "cov_x", "mean_y", "cov_y")
FEW = 40  # dimensions up to which balls are quick
_Rows = tuple[tuple[float, ...], ...]


@lru_cache(maxsize=16)
def matrix_spectra(
    sources: tuple[MatrixDoubles, ...], bits: int
) -> list[BallSpectrum] | None:
    """Spectra of pairs of matrices at the working precision `bits`; None when that does not decide definiteness."""
    quick: dict[MatrixDoubles, BallSpectrum | None] = {}
    for size in {source.size for source in sources} if bits <= DOUBLES_BITS else ():
        stack = tuple(
            dict.fromkeys(source for source in sources if source.size == size)
        )
        if len(stack) >= MANY and size <= FEW:
            quick.update(zip(stack, quick_spectra(stack)))
    spectra = []
    for source in sources:
        spectrum = quick.get(source) or matrix_spectrum(source, bits)
        if spectrum is None:
            return None
        spectra.append(spectrum)
    return spectra


@lru_cache(maxsize=64)
def matrix_spectrum(source: MatrixDoubles, bits: int) -> BallSpectrum | None:
    """The same of one pair."""
    if source.size > LARGEST_IN_BALLS or (source.size > FEW and bits <= DOUBLES_BITS):
        (quick,) = quick_spectra((source,))
        if quick is not None or source.size > LARGEST_IN_BALLS:
            return quick
    reduced = _reduced(source.cov_x, source.cov_y, bits)
    mean = arb_mat([[arb(x) - arb(y)] for x, y in zip(source.mean_x, source.mean_y)])
    spectrum = reduced and _spectrum(
        reduced[1], (reduced[0] * mean).entries(), *reduced[2:]
    )
    if spectrum is None:
        _refuse_indefinite(source)
    return spectrum


@lru_cache(maxsize=64)
def _reduced(
    cov_x: _Rows, cov_y: _Rows, bits: int
) -> tuple[arb_mat, list[arb], arb, arb] | None:
    """Whitening rows of a pair of covariances, which may serve many means, the diagonal of N and what is left out."""
    size = len(cov_y)
    second = _symmetric(cov_y)
    difference = second - _symmetric(cov_x)
    if (rows := _whitener(second)) is None:
        return None
    rows = _refined(_rotated(rows, difference), second, difference, bits)
    gram, gap = (
        (rows * entry * rows.transpose()).entries() for entry in (second, difference)
    )
    for i in range(size):
        gram[i * size + i] -= 1
    return (
        rows,
        gap[:: size + 1],
        _frobenius(gram),
        _frobenius([x for i, x in enumerate(gap) if i % (size + 1)]),
    )


def _spectrum(
    gaps: Sequence[arb], means: Sequence[arb], residual_gram: arb, residual_gap: arb
) -> BallSpectrum | None:
    """From the diagonal of N, b, and bounds on |M2 - I| and |N - diag N|; None where they decide nothing."""
    narrowest = min((1 - entry for entry in gaps), key=float).lower()
    share = (residual_gap + residual_gram) / narrowest
    if not (residual_gram < 0.5 and narrowest > 0 and share < 0.5):
        return None
    terms = tuple(Term(gap, arb(1), mean * mean) for gap, mean in zip(gaps, means))
    # log det(I + F) is at most d |F| / (1 - |F|), of X and of Y.
    rest = len(gaps) * (share / (1 - share) + residual_gram / (1 - residual_gram))
    log_ratio = math.prod((1 - entry for entry in gaps), start=arb(1)).log() + arb(
        0, rest.abs_upper()
    )
    # Weyl: the true gaps are the eigenvalues of M2^-1/2 N M2^-1/2, and |M2^-1/2 - I| <= |M2 - I| below one half.
    largest = _frobenius(gaps) + residual_gap
    gap_error = (residual_gap + 3 * residual_gram * largest).upper()
    return BallSpectrum(
        terms, arb(0), log_ratio, residual_gram, residual_gap, gap_error
    )


def quick_spectra(sources: tuple[MatrixDoubles, ...]) -> list[BallSpectrum | None]:
    """The same of pairs of one size, to some 25 digits by sums of two doubles; None where those fail."""
    columns = (
        np.array([getattr(source_, name) for source_ in sources]) for name in FIELDS
    )
    stacked = quick_parts(*columns)
    if stacked is None:
        return [None] * len(sources)
    spectra: list[BallSpectrum | None] = []
    for gaps, means, gram, gap in zip(*(part.tolist() for part in stacked)):
        if all(map(math.isfinite, (*chain(*gaps, *means), gram, gap))):
            residuals = (arb(gram), arb(gap))
            spectra.append(_spectrum(_balls(gaps), _balls(means), *residuals))
        else:
            spectra.append(None)
    return spectra


def _balls(parts: Sequence[Sequence[float]]) -> list[arb]:
    """Numbers from rows of their hi, lo and error."""
    return [arb(high, error) + arb(low) for high, low, error in zip(*parts)]


def _refuse_indefinite(source: MatrixDoubles) -> None:
    """Refuse matrices that are not positive definite; others deserve a higher precision."""
    for name, cov in (("cov_x", source.cov_x), ("cov_y", source.cov_y)):
        if not is_positive_definite(cov):
            raise NotPositiveDefiniteError(
                f"'{name}' must be positive definite. Got a singular or indefinite matrix."
            )


def _symmetric(rows: _Rows) -> arb_mat:
    size = range(len(rows))
    return arb_mat(
        [[(arb(rows[i][j]) + arb(rows[j][i])) / 2 for j in size] for i in size]
    )


def _frobenius(entries: Sequence[arb]) -> arb:
    row = arb_mat(1, len(entries), entries)
    return (row * row.transpose())[0, 0].upper().sqrt().upper()


# --- the search for T: nothing below is claimed to be exact


def _whitener(cov_y: arb_mat) -> arb_mat | None:
    """Rows W with W S2 W' near the identity."""
    factor = _cholesky(cov_y.mid().table())
    try:
        if factor is None:
            return None
        return arb_mat(factor).inv().mid()
    except ZeroDivisionError:
        return None


def _cholesky(matrix: list[list[arb]]) -> list[list[arb]] | None:
    size = len(matrix)
    factor = [[arb(0)] * size for _ in range(size)]
    for j in range(size):
        mine = factor[j]
        for i in range(j, size):
            other = factor[i]
            rest = matrix[i][j] - sum((other[k] * mine[k] for k in range(j)), arb(0))
            if i == j and not rest.mid() > 0:
                return None
            other[j] = (rest.sqrt() if i == j else rest / mine[j]).mid()
    return factor


def _rotated(rows: arb_mat, difference: arb_mat) -> arb_mat:
    """The same rows turned so that the difference is diagonal to the precision of doubles."""
    size = rows.nrows()
    gap = rows * difference * rows.transpose()
    entries = np.array([float(entry) for entry in gap.entries()]).reshape(size, size)
    largest = float(np.max(np.abs(entries)))
    if not 0.0 < largest < np.inf:
        return rows
    _, axes = np.linalg.eigh((entries + entries.T) / (2 * largest))
    return (arb_mat(axes.T.tolist()) * rows).mid()


def _refined(rows: arb_mat, cov_y: arb_mat, difference: arb_mat, bits: int) -> arb_mat:
    """Newton steps towards T S2 T' = I and T (S2 - S1) T' diagonal, until rounding is all that is left."""
    smallest = np.inf
    best = rows
    vain = 0
    for _ in range(REDUCTION_ROUNDS):
        columns = rows.transpose()
        gram = (rows * cov_y * columns).mid().table()
        gap = (rows * difference * columns).mid().table()
        change, measure = _step(gram, gap, bits)
        smallest, best, vain = (
            (measure, rows, 0) if measure < smallest else (smallest, best, vain + 1)
        )
        if change is None or vain == 3:
            return best
        rows = (change * rows).mid()
        if measure < 2.0 ** (
            -16 - bits / 2
        ):  # the next one would be its square, below rounding
            return rows
    return best


class _OffDiagonal(NamedTuple):
    """Off both diagonals: E of M2, F of N less what clearing E takes of it, and how far the gaps are apart."""

    row: int
    column: int
    across: arb
    left: arb
    apart: arb


def _step(
    gram: list[list[arb]], gap: list[list[arb]], bits: int
) -> tuple[arb_mat | None, float]:
    """The matrix to multiply T by, and how far from diagonal it was; None where rounding is all that is left.

    T' = (I + C) T clears both off-diagonals to first order where c_ij + c_ji = -E_ij and c_ij g_j + c_ji g_i = -F_ij,
    E and F being those of M2 and N. Gaps that are too close for it, their F beyond rounding, form clusters; each is
    turned by the eigenvectors of its own block, shifted and scaled so that doubles see its spread.
    """
    size = len(gram)
    largest = max(abs(gap[i][i]) for i in range(size))
    tiny = arb(2) ** (8 - bits)
    entries = _off_diagonals(gram, gap)
    off_unit = max(abs(float(gram[i][i] - 1)) for i in range(size))
    measure = max(chain([0.0], _distances(entries, largest, tiny)))
    if measure == 0.0 and off_unit < float(tiny):
        return None, 0.0
    uncleared = [entry for entry in entries if not abs(entry.left) <= largest * tiny]
    turns, cluster = _turns_and_clusters(uncleared, size)
    turns = [turn for turn in turns if cluster[turn.row] != cluster[turn.column]]
    matrix = arb_mat(_change(gram, entries, turns))
    for name in {label for label in cluster if cluster.count(label) > 1}:
        members = [i for i in range(size) if cluster[i] == name]
        matrix = _turn(members, gram, gap) * matrix
    return matrix.mid(), max(measure, off_unit)


def _off_diagonals(gram: list[list[arb]], gap: list[list[arb]]) -> list[_OffDiagonal]:
    """All entries below the diagonal, row by row."""
    gaps = [gap[i][i] for i in range(len(gram))]
    return [
        _OffDiagonal(
            i,
            j,
            gram[i][j],
            gap[i][j] - (gaps[i] + gaps[j]) / 2 * gram[i][j],
            gaps[j] - gaps[i],
        )
        for i in range(len(gram))
        for j in range(i)
    ]


def _distances(
    entries: Sequence[_OffDiagonal], largest: arb, tiny: arb
) -> Iterator[float]:
    """How far each entry is from zero, as far as it is beyond rounding."""
    for entry in entries:
        if not abs(entry.left) <= largest * tiny:
            yield abs(float(entry.across))
            yield abs(float(entry.left / largest))
        elif abs(entry.across) > tiny:
            yield abs(float(entry.across))


def _turns_and_clusters(
    entries: Sequence[_OffDiagonal], size: int
) -> tuple[list[_OffDiagonal], list[int]]:
    """Entries that a small rotation clears, and for each coordinate the name of the cluster it belongs to."""
    turns = []
    cluster = list(range(size))
    for entry in entries:
        if abs(entry.left) < LARGEST_ROTATION * abs(entry.apart):
            turns.append(entry)
            continue
        old = cluster[entry.row]
        new = cluster[entry.column]
        cluster = [new if label == old else label for label in cluster]
    return turns, cluster


def _change(
    gram: list[list[arb]],
    entries: Sequence[_OffDiagonal],
    turns: Sequence[_OffDiagonal],
) -> list[list[arb]]:
    """I + C: units on the diagonal of M2, its off-diagonals taken off in halves, and the rotations."""
    size = len(gram)
    change = [[arb(0)] * size for _ in range(size)]
    for i in range(size):
        change[i][i] = 1 - (gram[i][i] - 1) / 2
    for i, j, across, _, _ in entries:
        change[i][j] = change[j][i] = -across / 2
    for i, j, _, left, apart in turns:
        angle = left / apart
        change[i][j] = change[i][j] - angle
        change[j][i] = change[j][i] + angle
    return change


def _turn(members: list[int], gram: list[list[arb]], gap: list[list[arb]]) -> arb_mat:
    """The identity, but for the members of a cluster the eigenvectors of their block of N."""
    size = len(gram)
    whole = [[arb(int(i == j)) for j in range(size)] for i in range(size)]
    axes = _axes(_block(members, gram, gap))
    for a, i in enumerate(members):
        for b, j in enumerate(members):
            whole[i][j] = arb(float(axes[b, a]))
    return arb_mat(whole)


def _block(
    members: list[int], gram: list[list[arb]], gap: list[list[arb]]
) -> list[list[arb]]:
    """The members' block of N as it is once M2 is I there, less their first gap."""
    middle = gap[members[0]][members[0]]
    return [
        [
            gap[i][j]
            - (gap[i][i] + gap[j][j]) / 2 * (gram[i][j] - int(i == j))
            - middle * int(i == j)
            for j in members
        ]
        for i in members
    ]


def _axes(block: list[list[arb]]) -> Floats:
    """Eigenvectors, as columns, of a symmetric block scaled so that doubles see its spread."""
    largest = max(abs(entry).mid() for row in block for entry in row)
    scaled = [[float(entry / largest) for entry in row] for row in block]
    return np.linalg.eigh(np.array(scaled))[1]
