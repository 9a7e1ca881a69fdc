"""The promise of `PrivacyLoss.delta`, a relative error below 1e-9, in every regime, against 45 digits of mpmath."""

from __future__ import annotations

import numpy as np
import pytest
from mpmath import exp, log, mp, mpc, mpf, pi, quad, sqrt

from gaussveil.spectrum import PrivacyLoss

PROMISE = mpf(10) ** -9


def reference(gap: np.ndarray, count: np.ndarray, energy: np.ndarray, epsilon: float) -> mpf:
    """delta by the integral of exp(K(s) - s eps) / (s (s+1)) on the vertical line through the saddle, 45 digits."""
    mp.dps = 45
    terms = [(mpf(float(g)), mpf(float(m)), mpf(float(e))) for g, m, e in zip(gap, count, energy)]
    level = mpf(float(epsilon))

    def exponent(s: mpc) -> mpc:
        total = -s * level
        for g, m, e in terms:
            total += -m / 2 * (s * log(1 - g) + log(1 + s * g)) + s * (1 + s) * e / (2 * (1 + s * g))
        return total

    def phi(c: mpf) -> mpf:
        return (exponent(c) - log(c) - log(1 + c)).real

    end = min((-1 / g for g, _, _ in terms if g < 0), default=mpf(10) ** 6)
    low, high = mpf(10) ** -6, end * (1 - mpf(10) ** -6)
    for _ in range(50):  # golden section
        left, right = high - (high - low) * mpf("0.618"), low + (high - low) * mpf("0.618")
        low, high = (low, right) if phi(left) < phi(right) else (left, high)
    c = (low + high) / 2
    step = c * mpf(10) ** -8
    width = 1 / sqrt((phi(c + step) - 2 * phi(c) + phi(c - step)) / step**2)

    def height(t: mpf) -> mpf:
        s = mpc(c, t)
        return (exp(exponent(s) - exponent(c)) / (s * (s + 1))).real

    nodes = [width * k for k in (0, 1, 2, 4, 6, 8, 11, 14, 18, 24)]
    return quad(height, nodes) / pi * exp(exponent(c).real)


REGIMES = {
    "one coordinate counted 1e11 times": ([1e-6], [1e11], [0.0], [0.4]),
    "counted 1e13 times": ([-1e-7], [1e13], [0.1], [1.5]),
    "counted 1e15 times, deep tail": ([1e-7], [1e15], [0.0], [30.0]),
    "many dimensions": (np.linspace(-0.3, 0.3, 9), np.full(9, 7.0), np.full(9, 0.05), [6.0]),
    "high multiplicity and deep tail": ([0.05, -0.04], [4000.0, 3000.0], [1.0, 2.0], [30.0]),
}


@pytest.mark.parametrize("regime", REGIMES)
def test_delta_keeps_its_promise(regime: str) -> None:
    gap, count, energy, epsilons = REGIMES[regime]
    loss = PrivacyLoss.from_terms(gap, count, energy)
    for epsilon in epsilons:
        truth = reference(np.array(gap), np.array(count), np.array(energy), epsilon)
        assert 0 < truth < 1
        assert abs(mpf(float(loss.delta(epsilon))) / truth - 1) < PROMISE
        enclosed = loss.enclose(epsilon)
        assert mpf(enclosed.lower) * (1 - mpf(10) ** -12) <= truth <= mpf(enclosed.upper) * (1 + mpf(10) ** -12)
