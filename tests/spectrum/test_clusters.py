"""Many terms expanded together hold what each of them says, to sixty digits of mpmath."""

from __future__ import annotations

import mpmath
import numpy as np
import pytest
from flint import acb, arb, ctx

from gaussveil.spectrum import GaussianPair, PrivacyLoss, compose
from gaussveil.spectrum.enclosures import clusters, matrix_reduction
from gaussveil.spectrum.enclosures.ball_spectrum import exact_spectrum
from gaussveil.spectrum.enclosures.clusters import Cluster, CompositionCumulant
from gaussveil.spectrum.enclosures.exact_doubles import MatrixDoubles, TermDoubles

PATH = np.array([2.0 + 0.0j, 1.5 + 1.75j, 1.0 + 3.5j, -3.0 + 17.5j])
KINDS = {
    "around zero": lambda rng: rng.normal(size=60) * 1e-3,
    "both signs, wide": lambda rng: rng.uniform(-0.4, 0.9, 80),
    "many decades": lambda rng: 10.0 ** rng.uniform(-8, -0.1, 90),
    "all but one gap": lambda rng: 0.25 + 1e-13 * np.arange(30.0),
}


def truth(terms: TermDoubles, s: complex) -> tuple[mpmath.mpc, mpmath.mpc]:
    """K and K' term by term."""
    total, slope, s = mpmath.mpc(0), mpmath.mpc(0), mpmath.mpc(s)
    for g, m, e in zip(terms.variance_gap, terms.multiplicity, terms.energy or ()):
        g, m, e = mpmath.mpf(g), mpmath.mpf(m), mpmath.mpf(e)
        w = 1 + s * g
        total += -m / 2 * (s * mpmath.log(1 - g) + mpmath.log(w)) + s * (1 + s) * e / (2 * w)
        slope += -m / 2 * (mpmath.log(1 - g) + g / w) + e * (s * (w + 1) + 1) / (2 * w * w)
    return total, slope


def holds(ball: acb, number: mpmath.mpc) -> bool:
    return all(
        abs(arb(mpmath.nstr(part, 50)) - side).abs_lower() < 1e-45
        for part, side in ((number.real, ball.real), (number.imag, ball.imag))
    )


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("many", [False, True])
def test_the_series_holds_every_term(kind: str, many: bool) -> None:
    rng = np.random.default_rng(len(kind))
    gaps = KINDS[kind](rng)
    counts = rng.integers(1, 10**6, len(gaps)).astype(float) if many else np.ones(len(gaps))
    terms = TermDoubles.of(
        gaps, multiplicity=counts, energy=rng.uniform(0, 1, len(gaps)) * (rng.random(len(gaps)) < 0.7)
    )
    with ctx.workprec(128), mpmath.workdps(60):
        cumulant = CompositionCumulant([(exact_spectrum([(terms, 1)]), 1)], PATH)
        assert any(isinstance(group, Cluster) for group in cumulant.groups)
        # points of the path, and one from which some clusters are too wide for their series
        for place in [*PATH, 0.3 + 90.0j, 2.0 - 1.0j]:
            point = acb(place.real, place.imag)
            value, slope = truth(terms, place)
            found, steep, bend = cumulant.expanded(point, point)
            for ball in (cumulant.value(point), found):
                assert holds(ball, value)
                assert place not in PATH or ball.rad() < 1e-18 * float(abs(value))
            assert holds(steep, slope)
            assert bend > 0


def test_a_thousand_pairs_are_as_narrow_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    columns = rng.uniform(-0.05, 0.05, (300, 1)), np.ones((300, 1)), rng.uniform(0, 0.02, (300, 1))
    whole = compose(*(PrivacyLoss.from_terms(*row) for row in zip(*columns)))
    together = whole.enclose(1.0)
    monkeypatch.setattr(clusters, "FEWEST", 10**9)
    apart = whole.enclose(1.0)
    assert max(together.lower, apart.lower) <= min(together.upper, apart.upper)
    assert together.relative_width < 1e-14


def test_stacked_matrices_reduce_as_each_alone() -> None:
    rng = np.random.default_rng(6)
    sources = []
    for number in range(matrix_reduction.MANY + 1):
        first, second = (rng.normal(size=(5, 9)) * 10.0 ** rng.uniform(-3, 3, (5, 1)) for _ in range(2))
        cov_x, cov_y = first @ first.T + second @ second.T, 0.9 * first @ first.T + 1.2 * second @ second.T
        cov_x[0, 1] *= 1 + 1e-15 * (number % 2)  # as rounding leaves them: the symmetric part counts
        sources.append(MatrixDoubles.of(rng.normal(size=5), cov_x, np.zeros(5), cov_y))
    with ctx.workprec(256):
        alone = [matrix_reduction.matrix_spectrum(source, 256) for source in sources]
        stacked = matrix_reduction.matrix_spectra(tuple(sources), 256)
    assert stacked is not None
    for one, other in zip(alone, stacked, strict=True):
        assert one is not None
        assert 1e-40 < other.gap_error < 1e-15  # not the reduction in balls, whose residuals are smaller by far
        pairs = zip(*(sorted(found.terms, key=lambda term: float(term.gap)) for found in (one, other)), strict=True)
        for exact, quick in pairs:
            assert abs(exact.gap - quick.gap) < one.gap_error + other.gap_error
            assert abs(exact.energy - quick.energy) < 1e-6 * exact.energy + 1e-25
        assert one.log_ratio.overlaps(other.log_ratio)


def test_coordinates_that_are_alike_to_the_bit_are_a_cluster_too() -> None:
    """A matrix leaves equal gaps as so many terms: a cluster of no reach, around zero as elsewhere."""
    cov = np.diag(np.concatenate([np.full(12, 1.0), np.full(12, 1.25)]))
    pair = GaussianPair(np.full(24, 0.05), cov, np.zeros(24), np.eye(24))
    assert pair.enclose(0.5).relative_width < 1e-13


def test_a_composition_of_matrices_is_one_of_its_terms() -> None:
    rng = np.random.default_rng(7)
    variances = rng.uniform(0.9, 1.1, (40, 2, 3))
    shifts = rng.normal(size=(40, 3)) * 0.05
    matrices = compose(
        *(GaussianPair(shift, np.diag(x), np.zeros(3), np.diag(y)) for shift, (x, y) in zip(shifts, variances))
    )
    found, rough = matrices.enclose(0.5), float(matrices.delta(0.5))
    assert found.relative_width < 1e-13
    assert abs(found.upper / rough - 1) < 1e-12
