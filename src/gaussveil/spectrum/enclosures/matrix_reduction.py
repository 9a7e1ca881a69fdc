"""From two exact means and covariances to balls around their reduced form, and what the balls leave open.

Any exact matrix T gives, with M2 = T S2 T', N = T (S2-S1) T' and b = T (mu1-mu2),

    K(s) = -(s/2) log(det S1/det S2) - 1/2 log(det(M2 + s N)/det M2) + s(1+s)/2 b'(M2 + s N)^-1 b.

T is an approximate simultaneous diagonaliser, found in doubles and refined at high precision; nothing is claimed of it.
What it leaves over, M2 - I and N - diag(N), enters as a bound. No eigenvalue is isolated, so repeated eigenvalues,
near-equal covariances and rank-one differences are nothing special (derived: docs/math/spectrum).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from flint import arb, arb_mat

from gaussveil.errors import NotPositiveDefiniteError
from gaussveil.spectrum.enclosures.ball_spectrum import BallSpectrum, Term
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles
from gaussveil.spectrum.enclosures.sliced_products import FINE, ROUGH, Sum, congruence, product, two_sum
from gaussveil.spectrum.positive_definite import is_positive_definite
from gaussveil.typing import Floats

ROUNDS = 16  # each about doubles the digits, or resolves one level of a cluster
CLOSE = 2.0**-26  # rotations beyond this angle are not first-order: such gaps form a cluster
LARGEST_IN_BALLS = 400  # dimension beyond which products in balls would take minutes
QUICK_BITS = 256  # precision up to which products of doubles in slices are tried first, above EXACT_FACTOR dimensions
CACHED = 1 << 13  # matrix elements reduced at once: what a cache holds, slices and all
MANY = 8  # pairs of one size from which on those are tried below it
MEANS = (("mean_x", 1), ("mean_y", -1))
EXACT_FACTOR = 40  # dimension up to which the first factor is computed at full precision


@lru_cache(maxsize=16)
def matrix_spectra(sources: tuple[MatrixDoubles, ...], bits: int) -> list[BallSpectrum] | None:
    """Spectra of pairs of matrices at the working precision `bits`; None when that does not decide definiteness."""
    found: dict[MatrixDoubles, BallSpectrum | None] = {}
    for size in {source.size for source in sources} if bits <= QUICK_BITS else ():
        stack = tuple(dict.fromkeys(source for source in sources if source.size == size))
        if len(stack) >= MANY and size <= EXACT_FACTOR:
            at_once = max(MANY, CACHED // size**2)
            for piece in (stack[start : start + at_once] for start in range(0, len(stack), at_once)):
                found.update(zip(piece, _quick_spectra(piece)))
    spectra = []
    for source in sources:
        spectrum = found.get(source) or matrix_spectrum(source, bits)
        if spectrum is None:
            return None
        spectra.append(spectrum)
    return spectra


@lru_cache(maxsize=64)
def matrix_spectrum(source: MatrixDoubles, bits: int) -> BallSpectrum | None:
    """The same of one pair."""
    if source.size > LARGEST_IN_BALLS or (source.size > EXACT_FACTOR and bits <= QUICK_BITS):
        (quick,) = _quick_spectra((source,))
        if quick is not None or source.size > LARGEST_IN_BALLS:
            return quick
    cov_x, cov_y = _symmetric(source.cov_x), _symmetric(source.cov_y)
    difference = cov_y - cov_x
    rows = _whitener(source, cov_y)
    if rows is None:
        _refuse_indefinite(source)
        return None
    rows = _refined(_rotated(rows, difference), cov_y, difference, bits)
    columns = rows.transpose()
    gram, gap = rows * cov_y * columns, rows * difference * columns
    mean = rows * arb_mat([[arb(x) - arb(y)] for x, y in zip(source.mean_x, source.mean_y)])
    gram_entries, gap_entries = gram.entries(), gap.entries()
    for i in range(source.size):
        gram_entries[i * source.size + i] -= 1
    gaps = gap_entries[:: source.size + 1]
    left_gap = _frobenius([entry for place, entry in enumerate(gap_entries) if place % (source.size + 1)])
    found = _spectrum(gaps, mean.entries(), _frobenius(gram_entries), left_gap)
    if found is None:
        _refuse_indefinite(source)
    return found


def _spectrum(gaps: Sequence[arb], means: Sequence[arb], residual_gram: arb, residual_gap: arb) -> BallSpectrum | None:
    """From the diagonal of N, b, and bounds on |M2 - I| and |N - diag N|; None where they decide nothing."""
    narrowest = min((1 - one for one in gaps), key=float).lower()
    share = (residual_gap + residual_gram) / narrowest
    if not (residual_gram < 0.5 and narrowest > 0 and share < 0.5):
        return None
    terms = tuple(Term(gap, arb(1), mean * mean) for gap, mean in zip(gaps, means))
    # log det(I + F) is at most d |F| / (1 - |F|), of X and of Y.
    rest = len(gaps) * (share / (1 - share) + residual_gram / (1 - residual_gram))
    log_ratio = math.prod((1 - one for one in gaps), start=arb(1)).log() + arb(0, rest.abs_upper())
    # Weyl: the true gaps are the eigenvalues of M2^-1/2 N M2^-1/2, and |M2^-1/2 - I| <= |M2 - I| below one half.
    largest = _frobenius(gaps) + residual_gap
    gap_error = (residual_gap + 3 * residual_gram * largest).upper()
    return BallSpectrum(terms, arb(0), log_ratio, residual_gram, residual_gap, gap_error)


@lru_cache(maxsize=32)
@np.errstate(all="ignore")
def _quick_spectra(sources: tuple[MatrixDoubles, ...]) -> list[BallSpectrum | None]:
    """The same of pairs of one size, to some 25 digits by sliced products of doubles; None where those fail."""
    cov_x, cov_y = (np.array([getattr(source, name) for source in sources]) for name in ("cov_x", "cov_y"))
    start = _double_whitener(cov_y)
    if start is None:
        return [None] * len(sources)
    whiten, scale = start
    square = scale[..., :, None] * scale[..., None, :]  # powers of two
    x, y = (two_sum(half, np.swapaxes(half, -1, -2)) for half in (cov_x * square / 2, cov_y * square / 2))
    hi, lo = two_sum(y.hi, -x.hi)
    difference = two_sum(hi, lo + (y.lo - x.lo))
    blur = 2.0**-102 * (np.abs(x.hi) + np.abs(y.hi)) + 1e-300  # what that sum and halves of tiny numbers lose
    _, axes = np.linalg.eigh(whiten @ difference.hi @ np.swapaxes(whiten, -1, -2))
    rows, unit = Sum(np.swapaxes(axes, -1, -2) @ whiten, np.zeros_like(whiten)), np.eye(whiten.shape[-1])
    for wanted in (ROUGH, FINE):
        gram, _, gram_norm = congruence(rows, y, blur, wanted)
        gap, gap_errors, gap_norm = congruence(rows, difference, blur, wanted)
        gaps, lows = (np.diagonal(part, axis1=-2, axis2=-1) for part in gap)
        across, along = (gram.hi - unit) + gram.lo, gap.hi * (1 - unit) + gap.lo * (1 - unit)
        if wanted == FINE:
            break
        left = along - (gaps[..., :, None] + gaps[..., None, :]) / 2 * across
        apart = gaps[..., None, :] - gaps[..., :, None]
        turn = np.where(np.abs(left) < CLOSE * np.abs(apart), left / np.where(apart == 0, 1.0, apart), 0.0)
        rows = two_sum(rows.hi, (-across / 2 - turn) @ rows.hi)
    shift = two_sum(*(np.array([getattr(one, name) for one in sources]) * sign for name, sign in MEANS))
    mean, (first, across_mean) = product(rows, Sum(*((part * scale)[..., None] for part in shift)))
    mean_errors = first * across_mean
    norms = _ball_norm(across, gram_norm), _ball_norm(along, gap_norm)
    balls, means = (
        [[arb(hi, e) + arb(lo) for hi, lo, e in zip(*row)] for row in zip(*(part.tolist() for part in parts))]
        for parts in ((gaps, lows, gap_errors), (mean.hi[..., 0], mean.lo[..., 0], mean_errors))
    )
    return [
        _spectrum(gap, mean, arb(one), arb(other)) if math.isfinite(one + other) else None
        for gap, mean, one, other in zip(balls, means, *(norm.tolist() for norm in norms))
    ]


def _ball_norm(left: Floats, error: Floats) -> Floats:
    """At least the Frobenius norms of residuals known in doubles up to `error`."""
    return np.asarray((np.linalg.norm(left, axis=(-2, -1)) + error) * (1 + 1e-9))


def _refuse_indefinite(source: MatrixDoubles) -> None:
    """Refuse matrices that are not positive definite; others deserve a higher precision."""
    for name, cov in (("cov_x", source.cov_x), ("cov_y", source.cov_y)):
        if not is_positive_definite(cov):
            raise NotPositiveDefiniteError(f"'{name}' must be positive definite. Got a singular or indefinite matrix.")


def _symmetric(rows: Sequence[Sequence[float]]) -> arb_mat:
    size = range(len(rows))
    return arb_mat([[(arb(rows[i][j]) + arb(rows[j][i])) / 2 for j in size] for i in size])


def _frobenius(entries: Sequence[arb]) -> arb:
    row = arb_mat(1, len(entries), entries)
    return (row * row.transpose())[0, 0].upper().sqrt().upper()


# --- the search for T: nothing below is claimed to be exact


def _whitener(source: MatrixDoubles, cov_y: arb_mat) -> arb_mat | None:
    """Rows W with W S2 W' near the identity; from doubles where the matrix is large."""
    if source.size > EXACT_FACTOR:
        start = _double_whitener(np.array(source.cov_y))
        if start is not None:
            return arb_mat((start[0] * start[1]).tolist())
    factor = _cholesky(cov_y.mid().table())
    try:
        return None if factor is None else arb_mat(factor).inv().mid()
    except ZeroDivisionError:
        return None


def _double_whitener(cov: Floats) -> tuple[Floats, Floats] | None:
    """In doubles: W with W S W' near the identity where S is scaled by the powers of two that come with it."""
    scale = 2.0 ** -np.round(np.log2(np.diagonal(cov, axis1=-2, axis2=-1)) / 2)
    scaled = (cov + np.swapaxes(cov, -1, -2)) / 2 * (scale[..., :, None] * scale[..., None, :])
    try:
        return np.linalg.inv(np.linalg.cholesky(scaled)), scale
    except np.linalg.LinAlgError:
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
    least, best, vain = np.inf, rows, 0
    for _ in range(ROUNDS):
        columns = rows.transpose()
        gram, gap = (rows * cov_y * columns).mid().table(), (rows * difference * columns).mid().table()
        change, measure = _step(gram, gap, bits)
        least, best, vain = (measure, rows, 0) if measure < least else (least, best, vain + 1)
        if change is None or vain == 3:
            return best
        rows = (change * rows).mid()
        if measure < 2.0 ** (-16 - bits / 2):  # the next one would be its square, below rounding
            return rows
    return best


def _step(gram: list[list[arb]], gap: list[list[arb]], bits: int) -> tuple[arb_mat | None, float]:
    """The matrix to multiply T by, and how far from diagonal it was; None where rounding is all that is left.

    T' = (I + C) T clears both off-diagonals to first order where c_ij + c_ji = -E_ij and c_ij g_j + c_ji g_i = -F_ij,
    E and F being those of M2 and N. Gaps that are too close for it, their F beyond rounding, form clusters; each is
    turned by the eigenvectors of its own block, shifted and scaled so that doubles see its spread.
    """
    size = len(gram)
    gaps = [gap[i][i] for i in range(size)]
    largest = max(abs(one) for one in gaps)
    tiny, faint = arb(2) ** (8 - bits), largest * arb(2) ** (8 - bits)
    change = [[arb(0)] * size for _ in range(size)]
    cluster = list(range(size))
    turns = []
    measure = 0.0
    for i in range(size):
        change[i][i] = 1 - (gram[i][i] - 1) / 2
        for j in range(i):
            across = gram[i][j]
            left = gap[i][j] - (gaps[i] + gaps[j]) / 2 * across
            change[i][j] = change[j][i] = -across / 2
            if abs(left) <= faint:
                measure = max(measure, abs(float(across)) if abs(across) > tiny else 0.0)
                continue
            measure = max(measure, abs(float(across)), abs(float(left / largest)))
            apart = gaps[j] - gaps[i]
            if abs(left) < CLOSE * abs(apart):
                turns.append((i, j, left / apart))
            elif cluster[i] != cluster[j]:
                old, new = cluster[i], cluster[j]
                cluster = [new if one == old else one for one in cluster]
    for i, j, turn in turns:
        if cluster[i] != cluster[j]:
            change[i][j], change[j][i] = change[i][j] - turn, change[j][i] + turn
    off_unit = max(abs(float(gram[i][i] - 1)) for i in range(size))
    if measure == 0.0 and off_unit < float(tiny):
        return None, 0.0
    matrix = arb_mat(change)
    for name in {one for one in cluster if cluster.count(one) > 1}:
        matrix = _turn([i for i in range(size) if cluster[i] == name], gram, gap) * matrix
    return matrix.mid(), max(measure, off_unit)


def _turn(members: list[int], gram: list[list[arb]], gap: list[list[arb]]) -> arb_mat:
    """The identity, but for the members of a cluster the eigenvectors of their block of N."""
    size, middle = len(gram), gap[members[0]][members[0]]
    block = [
        [gap[i][j] - (gap[i][i] + gap[j][j]) / 2 * (gram[i][j] - int(i == j)) - middle * int(i == j) for j in members]
        for i in members
    ]
    largest = max(abs(entry).mid() for row in block for entry in row)
    _, axes = np.linalg.eigh(np.array([[float(entry / largest) for entry in row] for row in block]))
    whole = [[arb(int(i == j)) for j in range(size)] for i in range(size)]
    for a, i in enumerate(members):
        for b, j in enumerate(members):
            whole[i][j] = arb(float(axes[b, a]))
    return arb_mat(whole)
