"""Worst relative error of `PrivacyLoss.delta` by regime, against references of 60 digits: `python docs/accuracy.py`.

It prints the table and keeps its figures in docs/numbers.json, as computed.accuracy-REGIME.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from flint import acb, arb, ctx
from mpmath import cholesky, eigsy, eye, fabs, lu_solve, matrix, mp, mpf, nstr

from gaussveil.spectrum import GaussianPair, PrivacyLoss

DIGITS = 60
BITS = 320
Terms = Sequence[tuple[mpf, mpf, mpf]]  # variance gap, multiplicity, energy
Case = tuple[PrivacyLoss, Terms, float]


def reference(terms: Terms, epsilon: float, slope: float = 0.5) -> mpf:
    """delta = Im of int exp(K(s) - s eps) / (s (s+1)) ds / pi along a ray from the saddle, by Arb's own quadrature.

    The ray leans to the side on which the integrand falls; any `slope` between 0 and 1 gives the same number.
    """
    with ctx.workprec(BITS):
        parts = [tuple(arb(nstr(value, DIGITS + 25)) for value in term) for term in terms]
        level = arb(epsilon)

        def exponent(s: acb) -> acb:
            total = -s * level
            for g, m, e in parts:
                w = 1 + s * g
                total += s * (1 + s) * e / (2 * w) - m / 2 * (s * (1 - g).log() + w.log(analytic=True))
            return total

        def phi(c: float) -> float:
            return float(exponent(acb(c)).real - arb(c).log() - arb(1 + c).log())

        end = min((-1 / float(g) for g, _, _ in parts if g < 0), default=1e9)
        low, high = math.log(1e-9), math.log(end * (1 - 1e-9))
        for _ in range(40):  # golden section: any point serves, the best one integrates fastest
            left, right = high - (high - low) * 0.618, low + (high - low) * 0.618
            low, high = (low, right) if phi(math.exp(left)) < phi(math.exp(right)) else (left, high)
        c = math.exp((low + high) / 2)
        step = c * 1e-3
        width = step / math.sqrt(max(phi(c + step) - 2 * phi(c) + phi(c - step), 1e-12))
        flat = any(g == 0 and e > 0 for g, _, e in parts)
        far = 0 if flat else sum((e / g - m * (1 - g).log() for g, m, e in parts), arb(0)) / 2 - level
        direction = acb(0 if flat else -slope if far > 0 else slope, 1)
        start = exponent(acb(c)).real

        if all(m > 1e5 for _, m, _ in parts):  # a bell curve above the saddle, which the trapezoid rule sums at once
            step, bell, k = min(width / 7, c / 26), arb(0), 0
            while k < 10**5:
                s = acb(c, arb(step) * k)
                value = (exponent(s) - start).exp() / (s * (s + 1))
                bell += value.real * (2 if k else 1)
                k += 1
                if abs(value).upper() * c * (c + 1) < arb(10) ** -(DIGITS + 8):
                    break
            return mpf((bell * arb(step) / (2 * arb.pi()) * start.exp()).str(DIGITS + 5, radius=False))

        def height(t: acb, _analytic: bool) -> acb:
            s = c + t * direction
            return (exponent(s) - start).exp() / (s * (s + 1)) * direction

        reach = arb(width)
        while abs(height(acb(reach), False)).upper() * reach > arb(10) ** -(DIGITS + 6) * width / (c * (c + 1)):
            reach *= 1.25
        total, goal = acb(0), arb(10) ** -(DIGITS + 3)
        cuts = [arb(0), *(arb(width) * 2**k for k in range(-2, 200) if arb(width) * 2**k < reach), reach.mid()]
        for first, last in pairwise(cuts):
            total += acb.integral(height, acb(first), acb(last), rel_tol=goal, abs_tol=goal * width / (c * (c + 1)))
        return mpf((total.imag / arb.pi() * start.exp()).str(DIGITS + 5, radius=False))


def of_terms(gap: Any, count: Any, energy: Any, epsilon: float) -> Case:
    """A case given by its reduced form."""
    columns = np.broadcast_arrays(*(np.asarray(column, dtype=np.float64) for column in (gap, count, energy)))
    terms = [tuple(mpf(float(value)) for value in term) for term in zip(*columns, strict=True)]
    return PrivacyLoss.from_terms(*columns), terms, epsilon


def of_matrices(condition: float, seed: int) -> Case:
    """Two covariances of that condition number, in three dimensions, and a mean shift along the smallest axis."""
    rng = np.random.default_rng(seed)
    turn, _ = np.linalg.qr(rng.normal(size=(3, 3)))
    scale = np.diag(np.geomspace(1.0, condition**-0.5, 3))
    shapes = [np.eye(3), np.diag([1.1, 0.9, 1.2])]
    cov_x, cov_y = (turn @ scale @ shape @ scale @ turn.T for shape in shapes)
    cov_x, cov_y = ((cov + cov.T) / 2 for cov in (cov_x, cov_y))
    mean = turn @ scale @ np.array([0.1, 0.2, 0.3])
    pair = GaussianPair(mean, cov_x, np.zeros(3), cov_y)
    with mp.workdps(DIGITS + 40):
        first, second = (matrix([[mpf(float(v)) for v in row] for row in cov]) for cov in (cov_x, cov_y))
        factor = cholesky(second)
        inverse = lu_solve_all(factor)
        values, axes = eigsy(inverse * (second - first) * inverse.T)
        shift = axes.T * inverse * matrix([mpf(float(v)) for v in mean])
        terms = [(values[i], mpf(1), shift[i] ** 2) for i in range(3)]
    return pair, terms, 0.5


def lu_solve_all(factor: matrix) -> matrix:
    """The inverse of a triangular factor, column by column."""
    unit = eye(factor.rows)
    columns = [lu_solve(factor, unit[:, i]) for i in range(factor.rows)]
    return matrix([[column[row] for column in columns] for row in range(factor.rows)])


def regimes() -> dict[str, list[Case]]:
    """Some cases of each regime."""
    rng = np.random.default_rng(7)
    found = {}
    for size in (1, 12, 60):
        found[f"dimension {size}"] = [
            of_terms(sign * rng.uniform(0.05, 0.6, size), 1.0, rng.uniform(0.2, 0.5, size), epsilon)
            for sign, epsilon in ((1, 0.1), (-1, 0.5), (rng.choice([-1, 1], size), 0.2))
        ]
    for power in (2, 6, 10, 14):
        found[f"condition number 1e{power}"] = [of_matrices(10.0**power, seed) for seed in (1, 2)]
    for power, gap, epsilon in ((6, 1e-3, 1.0), (11, 1e-6, 0.4), (13, -1e-7, 1.5), (15, 1e-7, 30.0)):
        found[f"counted 1e{power} times"] = [of_terms([gap], [10.0**power], [0.1 if gap < 0 else 0.0], epsilon)]
    for power, epsilon in ((49, 30.0), (126, 70.0), (307, 160.0)):
        found[f"delta of 1e-{power}"] = [of_terms([0.2, -0.2], 8.0, [0.1, 0.2], epsilon)]
    return found


def worst_error(cases: list[Case]) -> float:
    """The largest relative error of some cases."""
    with mp.workdps(DIGITS + 10):
        return max(float(fabs(mpf(float(loss.delta(eps))) / reference(terms, eps) - 1)) for loss, terms, eps in cases)


def figures() -> dict[str, str]:
    """The errors as the page shows them, rounded up."""
    return {
        f"accuracy-{regime.replace(' ', '-')}": f"{worst_error(cases) * 1.05 + 1e-16:.0e}"
        for regime, cases in regimes().items()
    }


if __name__ == "__main__":
    path = Path(__file__).parent / "numbers.json"
    store = json.loads(path.read_text(encoding="utf-8"))
    for name, error in figures().items():
        print(error, name)
        store["numbers"][f"computed.{name}"] = error
    store["numbers"] = dict(sorted(store["numbers"].items()))
    path.write_text(json.dumps(store, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
