"""The cumulant function of exact inputs, in ball arithmetic.

A source is either a list of reduced terms, or two means and two covariances, all doubles taken exactly. Both become a
`BallSpectrum`: an enclosure of K(s), for complex balls s, with python-flint (Arb).

From matrices no eigenvalue is isolated, so repeated eigenvalues, near-equal covariances and rank-one differences are
nothing special. Any exact matrix T gives, with M2 = T'S2 T, N = T'(S2-S1)T and b = T'(mu1-mu2),

    K(s) = -(s/2) log(det S1/det S2) - 1/2 log(det(M2 + s N)/det M2) + s(1+s)/2 b'(M2 + s N)^-1 b.

T is an approximate simultaneous diagonaliser (Cholesky and Jacobi at high precision), and what it leaves over, M2 - I
and N - diag(N), enters as a bound (derived: docs/math).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple

from flint import acb, arb, arb_mat

from gaussveil.errors import NotPositiveDefiniteError
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles, TermDoubles

JACOBI_SWEEPS = 40


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
        logs, quadratic = acb(0), acb(self.flat_energy)
        sizes = []
        for gap, multiplicity, energy in self.terms:
            w = s * gap + 1
            logs += w.log(analytic=True) * multiplicity
            if not energy.is_zero():
                quadratic += energy / w
            sizes.append(w.abs_lower())
        curve = s * (s + 1) / 2
        value = curve * quadratic - (s * self.log_ratio + logs) / 2
        return value if self.exact else value + self._residual(s, curve, sizes)

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
        if gap == 0.0:
            flat += energy
        elif swapped:  # measured where X is standard
            terms.append(Term(-arb(gap) / ratio, number, energy / ratio))
        else:
            terms.append(Term(arb(gap), number, energy))
    log_ratio = sum((term.multiplicity * (-term.gap).log1p() for term in terms), arb(0))
    return BallSpectrum(tuple(terms), flat, log_ratio, arb(0), arb(0), arb(0))


def _symmetric(rows: Sequence[Sequence[float]]) -> arb_mat:
    size = range(len(rows))
    return arb_mat([[(arb(rows[i][j]) + arb(rows[j][i])) / 2 for j in size] for i in size])


def _cholesky(matrix: arb_mat, name: str) -> list[list[arb]] | None:
    """Lower factor in balls, which proves positive definiteness; None when the precision does not decide."""
    size = matrix.nrows()
    factor = [[arb(0)] * size for _ in range(size)]
    for j in range(size):
        pivot = matrix[j, j] - sum((_square(factor[j][k]) for k in range(j)), arb(0))
        if pivot <= 0:
            raise NotPositiveDefiniteError(f"{name} must be positive definite; its Cholesky pivot {j} is not positive")
        if not pivot > 0:
            return None
        factor[j][j] = pivot.sqrt()
        for i in range(j + 1, size):
            dot = sum((factor[i][k] * factor[j][k] for k in range(j)), arb(0))
            factor[i][j] = (matrix[i, j] - dot) / factor[j][j]
    return factor


def _jacobi(matrix: arb_mat, bits: int) -> arb_mat:
    """Approximate eigenvectors, as rows, by cyclic Jacobi on midpoints; nothing is claimed of them."""
    size = matrix.nrows()
    a = [[matrix[i, j].mid() for j in range(size)] for i in range(size)]
    q = [[arb(int(i == j)) for j in range(size)] for i in range(size)]
    scale = max((abs(a[i][j]) for i in range(size) for j in range(size)), key=float)
    small = scale * arb(2) ** (16 - bits)
    for _ in range(JACOBI_SWEEPS):
        rotated = False
        for i in range(size):
            for j in range(i + 1, size):
                if abs(a[i][j]) <= small:
                    continue
                rotated = True
                theta = (a[j][j] - a[i][i]) / (2 * a[i][j])
                t = 1 / (abs(theta) + (_square(theta) + 1).sqrt())
                t = (-t if theta < 0 else t).mid()
                c = ((_square(t) + 1).rsqrt()).mid()
                s = (t * c).mid()
                step = t * a[i][j]
                a[i][i], a[j][j] = (a[i][i] - step).mid(), (a[j][j] + step).mid()
                a[i][j] = a[j][i] = arb(0)
                for k in range(size):
                    if k not in (i, j):
                        x, y = a[k][i], a[k][j]
                        a[k][i] = a[i][k] = (c * x - s * y).mid()
                        a[k][j] = a[j][k] = (s * x + c * y).mid()
                    x, y = q[i][k], q[j][k]
                    q[i][k], q[j][k] = (c * x - s * y).mid(), (s * x + c * y).mid()
        if not rotated:
            break
    return arb_mat(q)


def _frobenius(entries: Sequence[arb]) -> arb:
    return sum((_square(entry.abs_upper()) for entry in entries), arb(0)).sqrt().upper()


@lru_cache(maxsize=64)
def matrix_spectrum(source: MatrixDoubles, bits: int) -> BallSpectrum | None:
    """Spectrum of a pair of matrices at the working precision `bits`; None when that does not decide definiteness."""
    size = len(source.mean_x)
    s1, s2 = _symmetric(source.cov_x), _symmetric(source.cov_y)
    factor_x, factor_y = _cholesky(s1, "cov_x"), _cholesky(s2, "cov_y")
    if factor_x is None or factor_y is None:
        return None
    difference = s2 - s1
    shift = arb_mat([[arb(x) - arb(y)] for x, y in zip(source.mean_x, source.mean_y)])
    try:
        whiten = arb_mat([[entry.mid() for entry in row] for row in factor_y]).inv().mid()
    except ZeroDivisionError:
        return None
    rows = (_jacobi(whiten * difference * whiten.transpose(), bits) * whiten).mid()  # T'
    columns = rows.transpose()
    gram, gap, mean = rows * s2 * columns, rows * difference * columns, rows * shift
    pairs = [(i, j) for i in range(size) for j in range(size)]
    residual_gram = _frobenius([gram[i, j] - int(i == j) for i, j in pairs])
    residual_gap = _frobenius([gap[i, j] for i, j in pairs if i != j])
    if not residual_gram < 0.5:
        return None
    terms = tuple(Term(gap[i, i], arb(1), _square(mean[i, 0])) for i in range(size))
    log_ratio = 2 * sum((factor_x[i][i].log() - factor_y[i][i].log() for i in range(size)), arb(0))
    # Weyl: the true gaps are the eigenvalues of M2^-1/2 N M2^-1/2, and |M2^-1/2 - I| <= |M2 - I| below one half.
    largest = _frobenius([term.gap for term in terms]) + residual_gap
    gap_error = (residual_gap + 3 * residual_gram * largest).upper()
    return BallSpectrum(terms, arb(0), log_ratio, residual_gram, residual_gap, gap_error)
