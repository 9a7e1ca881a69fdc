"""Sums of atoms, listed one by one, against the definition of delta in fractions."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

from gaussveil.spectrum.laws.tail_sums import AtomSums, TailSums

P = np.array([4.0, 3.0, 2.0, 0.4, 2.6])
Q = np.array([0.4, 2.0, 4.0, 5.6, 0.0])
LOSSES = np.log(P[:4] / 9.4 / (Q[:4] / 12.0))


def exactly(epsilon: float, uses: int, p: np.ndarray = P[:4], q: np.ndarray = Q[:4]) -> float:
    """Sum over all outputs of max(0, p - e^epsilon q)."""
    under_x = [Fraction(value) / Fraction(float(p.sum())) for value in p.tolist()]
    under_y = [Fraction(value) / Fraction(float(q.sum())) for value in q.tolist()]
    ratio = Fraction(math.exp(epsilon))
    outputs = product(zip(under_x, under_y), repeat=uses)
    gains = (math.prod(x for x, _ in drawn) - ratio * math.prod(y for _, y in drawn) for drawn in outputs)
    return float(sum((max(gain, Fraction(0)) for gain in gains), Fraction(0)))


@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.1, 2.4])
def test_upper_ends_are_above_and_next_to_the_definition(epsilon: float) -> None:
    truth = exactly(epsilon, 1, P, Q)
    found = float(TailSums.of(P, Q).delta(np.array([epsilon]))[0])
    assert truth <= found <= truth * (1.0 + 1e-13) + 1e-14
    assert found >= 2.6 / 12.0  # of the output that the other law does not have


@pytest.mark.parametrize("uses", [1, 2, 4])
def test_both_ends_hold_the_definition(uses: int) -> None:
    rising = np.argsort(LOSSES)
    losses, masses = LOSSES[rising], (P[:4] / 9.4)[rising]
    for _ in range(uses - 1):
        losses, masses = np.add.outer(losses, LOSSES).ravel(), np.multiply.outer(masses, P[:4] / 9.4).ravel()
    rising = np.argsort(losses)
    sums = AtomSums(losses[rising], masses[rising], uses)
    for epsilon in (0.05, 0.4, 1.1, 2.4):
        truth = exactly(epsilon, uses)
        lower, upper = (float(end[0]) for end in sums.ends(np.array([epsilon])))
        assert lower <= truth <= upper
        assert upper - lower <= 1e-10
