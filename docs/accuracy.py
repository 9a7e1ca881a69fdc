"""Worst relative error of `PrivacyLoss.delta` by regime, against mpmath: `python docs/accuracy.py` prints the table."""

from __future__ import annotations

import numpy as np
from mpmath import exp, log, mp, mpc, mpf, pi, quad, sqrt

from gaussveil.spectrum import PrivacyLoss


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

    nodes = [width * k for k in (0, 1, 2, 4, 6, 8, 11, 14, 18, 24, 40, 80, 200, 600)]
    return quad(height, nodes) / pi * exp(exponent(c).real)


REGIMES = {
    "delta of 1e-30": ([0.2, -0.2], [8.0, 8.0], [0.1, 0.2], [30.0]),
    "one coordinate counted 1e11 times": ([1e-6], [1e11], [0.0], [0.4]),
    "counted 1e13 times": ([-1e-7], [1e13], [0.1], [1.5]),
    "counted 1e15 times, deep tail": ([1e-7], [1e15], [0.0], [30.0]),
    "many dimensions": (np.linspace(-0.3, 0.3, 9), np.full(9, 7.0), np.full(9, 0.05), [6.0]),
    "high multiplicity and deep tail": ([0.05, -0.04], [4000.0, 3000.0], [1.0, 2.0], [30.0]),
}


def worst_errors() -> dict[str, float]:
    """The largest relative error in each regime."""
    found = {}
    for regime, (gap, count, energy, epsilons) in REGIMES.items():
        loss = PrivacyLoss.from_terms(gap, count, energy)
        columns = [np.array(column, dtype=np.float64) for column in (gap, count, energy)]
        truths = [(epsilon, reference(*columns, epsilon)) for epsilon in epsilons]
        found[regime] = max(float(abs(mpf(float(loss.delta(epsilon))) / truth - 1)) for epsilon, truth in truths)
    return found


if __name__ == "__main__":
    for regime, error in worst_errors().items():
        print(f"{error:.1e}  {regime}")
