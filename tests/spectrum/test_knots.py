"""Sums of losses by atoms and pieces in closed form, against quadrature of their density to forty digits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import mpmath
import pytest
import scipy.stats

from gaussveil import (
    Accountant,
    ApproximatePoint,
    DiscreteLaplace,
    Exponential,
    Laplace,
    Pair,
    RandomisedResponse,
)
from gaussveil.spectrum.laws.has_law import HasLaw
from gaussveil.spectrum.laws.knots import KnotSums

Atoms = list[tuple[mpmath.mpf, mpmath.mpf]]


def uniform_sums(halves: Sequence[mpmath.mpf], place: mpmath.mpf) -> mpmath.mpf:
    """Density at a place of the sum of numbers that are uniform between each half and its negative."""
    order = len(halves)
    total = mpmath.mpf(0)
    for signs in itertools.product((1, -1), repeat=order):
        above = place + sum(sign * half for sign, half in zip(signs, halves))
        if above > 0:
            total += math.prod(signs) * above ** (order - 1)
    return total / mpmath.factorial(order - 1) / mpmath.fprod(2 * half for half in halves)


def law_of_one(law: HasLaw) -> tuple[Atoms, tuple[mpmath.mpf, mpmath.mpf] | None]:
    """Atoms, and the half and the whole mass, under e^{-l/2}, of a piece; from the mechanisms' definitions."""
    e = mpmath.mpf(law.largest_loss)
    if isinstance(law, Laplace):
        return [(e, mpmath.mpf(0.5)), (-e, mpmath.exp(-e) / 2)], (e, e * mpmath.exp(-e / 2) / 2)
    if isinstance(law, Exponential):
        return [], (e, e / (2 * mpmath.sinh(e / 2)))
    assert isinstance(law, RandomisedResponse)
    whole = mpmath.exp(e) + law.classes - 1
    return [(e, mpmath.exp(e) / whole), (-e, 1 / whole), (mpmath.mpf(0), (law.classes - 2) / whole)], None


def above(halves: Sequence[mpmath.mpf], below: mpmath.mpf) -> mpmath.mpf:
    """Mean of e^{x/2} (1 - e^{below - x}) where x > below, x the sum of such uniform numbers."""
    if not halves:
        return max(-mpmath.expm1(below), mpmath.mpf(0))
    ends = itertools.product(*[(half, -half) for half in halves])
    breaks = sorted({max(mpmath.fsum(chosen), below) for chosen in ends})
    if len(breaks) == 1:
        return mpmath.mpf(0)
    return mpmath.quad(lambda x: uniform_sums(halves, x) * mpmath.exp(x / 2) * -mpmath.expm1(below - x), breaks)


def reference(laws: Sequence[HasLaw], epsilon: float) -> mpmath.mpf:
    """Delta of a few laws, each once: every choice of atoms, and the density of what pieces are left."""
    level = mpmath.mpf(epsilon)
    choices = []
    for law in laws:
        atoms, piece = law_of_one(law)
        choices.append([(loss, mass, None) for loss, mass in atoms])
        if piece is not None:
            choices[-1].append((mpmath.mpf(0), piece[1], piece[0]))
    total = mpmath.mpf(0)
    for chosen in itertools.product(*choices):
        mass = mpmath.fprod(one[1] for one in chosen)
        loss = mpmath.fsum(one[0] for one in chosen)
        halves = [one[2] for one in chosen if one[2] is not None]
        total += mass * above(halves, level - loss)
    return total


@pytest.mark.parametrize(
    "laws",
    [
        [(Laplace(0.5), 1)],
        [(Laplace(0.5), 3)],
        [(Exponential(0.25), 3)],
        [(Laplace(0.3), 2), (RandomisedResponse(0.4, 5), 2)],
        [(Laplace(0.3), 1), (Exponential(0.7), 1), (RandomisedResponse(1.5), 1)],
        [(Laplace(1e-6), 2)],
        [(Laplace(30.0), 2)],
    ],
    ids=str,
)
def test_closed_forms_hold_the_truth(laws: list[tuple[HasLaw, int]]) -> None:
    sums = KnotSums.of(laws)
    assert sums is not None
    largest = sum(count * law.largest_loss for law, count in laws)
    each = [law for law, count in laws for _ in range(count)]
    for share in (0.0, 0.5, 0.731, 0.99):
        epsilon = share * largest
        with mpmath.workdps(45):
            truth = reference(each, epsilon)
            ball = sums.delta(epsilon)
            middle = mpmath.mpf(ball.mid().str(40, radius=False))
            assert abs(middle - truth) <= float(ball.rad()) + truth * mpmath.mpf(10) ** -35
        assert float(ball.rad()) <= 1e-12 * float(truth)


def test_ends_are_proven_and_epsilons_private() -> None:
    run = Accountant().add(Laplace(0.5), 10)
    for delta in (1e-2, 1e-5, 1e-12):
        epsilon = run.epsilon(delta)
        ends = run.enclose(epsilon)
        assert ends.proven
        assert ends.relative_width < 1e-12
        assert ends.upper <= delta
        assert run.delta(epsilon * (1.0 - 1e-12)) > delta * (1.0 - 1e-9)
        assert run.delta(epsilon * (1.0 - 1e-6)) > delta
    assert run.epsilon(0.0) == pytest.approx(5.0, rel=1e-11)
    assert run.delta(5.0) <= 5e-324
    assert run.delta(4.999) > 0.0


def test_many_uses_agree_with_the_exponential_mechanism_at_one_knot() -> None:
    """Just below the largest loss one knot is left: (largest - epsilon)^(n+1), as a density of n pieces begins."""
    width, uses = 0.2, 20
    sums = KnotSums.of([(Exponential(width), uses)])
    assert sums is not None
    with mpmath.workdps(60):
        away = mpmath.mpf(2) ** -12
        height = (mpmath.exp(mpmath.mpf(width) * mpmath.mpf(0.5)) / (2 * mpmath.mpf(width))) ** uses
        height *= (mpmath.mpf(width) / (2 * mpmath.sinh(mpmath.mpf(width) / 2))) ** uses
        largest = mpmath.mpf(width) * uses
        epsilon = mpmath.mpf(float(largest - away))
        truth = height * mpmath.quad(
            lambda x: (
                x ** (uses - 1) / mpmath.factorial(uses - 1) * mpmath.exp(-x / 2) * -mpmath.expm1(epsilon - largest + x)
            ),
            [0, largest - epsilon],
        )
    assert float(sums.delta(float(epsilon)).mid()) == pytest.approx(float(truth), rel=1e-12)


def test_losses_at_even_distances_and_of_any_pair_are_listed() -> None:
    laws: list[tuple[HasLaw, int]] = [
        (DiscreteLaplace(2, 3.0), 3),
        (Pair([0.5, 0.3, 0.2], [0.2, 0.35, 0.45]), 2),
    ]
    sums = KnotSums.of(laws)
    assert sums is not None
    rate = math.exp(-1.0 / 3.0)
    geometric = [(2.0 / 3.0, 1.0 / (1.0 + rate)), (0.0, rate * (1.0 - rate) / (1.0 + rate))]
    geometric.append((-2.0 / 3.0, rate**2 / (1.0 + rate)))
    own = [(math.log(p / q), p) for p, q in ((0.5, 0.2), (0.3, 0.35), (0.2, 0.45))]
    for epsilon in (0.0, 0.4, 2.0, 3.5):
        expected = math.fsum(
            math.prod(mass for _, mass in chosen) * max(-math.expm1(epsilon - sum(loss for loss, _ in chosen)), 0.0)
            for chosen in itertools.product(*[geometric] * 3, *[own] * 2)
        )
        assert float(sums.delta(epsilon).mid()) == pytest.approx(expected, rel=1e-12, abs=1e-15)


def test_infinite_losses_and_rounded_laws_are_charged() -> None:
    run = Accountant().add(ApproximatePoint(0.5, 1e-6), 3).add(Laplace(0.25), 2)
    finite = Accountant().add(RandomisedResponse(0.5), 3).add(Laplace(0.25), 2)
    seen = -math.expm1(3.0 * math.log1p(-1e-6))
    for epsilon in (0.0, 1.0, 1.99, 3.0):
        ends = run.enclose(epsilon)
        assert ends.proven
        expected = seen + (1.0 - seen) * float(finite.delta(epsilon))
        assert float(ends.lower) <= expected * (1.0 + 1e-12)
        assert expected * (1.0 - 1e-12) <= float(ends.upper) <= expected * (1.0 + 1e-9)
    assert run.epsilon(1e-6) == math.inf
    assert run.epsilon(1e-3) == pytest.approx(finite.epsilon((1e-3 - seen) / (1.0 - seen)), rel=1e-9)


def test_densities_by_quadrature_are_not_called_proven() -> None:
    densities = Pair(scipy.stats.norm(0.25), scipy.stats.norm())
    given = Pair([0.5, 0.5], [0.4, 0.6])
    assert not any(law.proven for law in (densities, densities.reversed(), densities.finite))
    assert all(law.proven for law in (given, given.reversed(), given.finite))
    assert Accountant().add(given, 3).enclose(0.1).proven


def test_what_takes_too_long_is_left_to_grids() -> None:
    assert KnotSums.of([(Laplace(0.01), 5000)]) is None
    assert KnotSums.of([(Laplace(0.1 + 0.01 * k), 1) for k in range(30)]) is None
