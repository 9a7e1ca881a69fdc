"""NDIS section 5, recomputed: Figure 2, the utility bound of Theorem 5.2, two other calibrations of the same sketch.

Part of `gaussveil study ndis`. Each function returns rows, one dictionary per point of its table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from gaussveil.calibration import mean_shift_for, random_projection
from gaussveil.mechanisms import PrivateSketch
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.sketch import Sketch
from gaussveil.statistics import Gram, as_source
from gaussveil_studies.study import Row

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0)
COMPONENTS = (50, 100, 200, 500)
DELTA = 1e-6
RESAMPLES = 200  # for the standard error of a quantile


def improvement_factor(
    epsilons: Iterable[float] = EPSILONS,
    components: Iterable[int] = COMPONENTS,
    delta: float = DELTA,
) -> list[Row]:
    """Figure 2: allowed leverage by the exact pair over the one that bounds on the least singular value allow.

    p_LSV = epsilon/(4 (sqrt(2 r log(4/delta)) + log(4/delta))) (Sheffet 2017, Theorem 2, as NDIS states it). `ridge`
    ratios use the tight ridge l^2 (1/p - 1) here and l^2/p there.
    """
    rows = []
    for count in components:
        for epsilon in epsilons:
            excess = random_projection.approximate_excess(epsilon, delta, count)
            level = math.log(4 / delta)
            singular = epsilon / (4 * (math.sqrt(2 * count * level) + level))
            leverage = excess / (1 + excess)
            rows.append(
                {
                    "epsilon": epsilon,
                    "components": count,
                    "leverage": leverage,
                    "leverage_lsv": singular,
                    "factor": leverage / singular,
                    "ridge_factor": excess / singular,
                }
            )
    return rows


def renyi_excess(epsilon: float, delta: float, components: int) -> float:
    """Largest excess by Renyi divergences: how the Gaussian mixing mechanism (Lev et al. 2025) calibrates.

    The same pair, D_alpha(X||Y) = r/(2(alpha-1)) (alpha log(1-p) - log(1 - alpha p)), with the best known conversion
    delta <= exp((alpha-1)(D - epsilon)) (1-1/alpha)^alpha/(alpha-1) (Canonne, Kamath, Steinke 2020), both directions.
    """

    def log_delta(log_excess: float) -> float:
        loss = random_projection.sketch_loss(math.exp(log_excess), components)
        return max(
            _renyi_log_delta(pair.cumulant, epsilon, limit)
            for pair, limit in (
                (loss, math.exp(-log_excess)),
                (loss.reversed(), math.inf),
            )
        )

    low = math.log(random_projection.SMALLEST_EXCESS)
    high = math.log(random_projection.LARGEST_EXCESS)
    return math.exp(
        float(brentq(lambda x: log_delta(x) - math.log(delta), low, high, xtol=1e-10))
    )


def _renyi_log_delta(
    cumulant: Callable[[float], object], epsilon: float, limit: float
) -> float:
    """min over s = alpha - 1 of K(s) - s epsilon + s log s - (1+s) log(1+s); K is finite below `limit`."""
    top = math.log(min(limit * (1 - 1e-9), 1e9))

    def bound(log_order: float) -> float:
        order = math.exp(log_order)
        return (
            float(np.asarray(cumulant(order)))
            - order * epsilon
            + order * math.log(order)
            - (1 + order) * math.log1p(order)
        )

    return min(
        0.0, float(minimize_scalar(bound, bounds=(top - 25, top), method="bounded").fun)
    )


def other_calibrations(
    epsilons: Iterable[float] = EPSILONS,
    components: Iterable[int] = COMPONENTS,
    delta: float = DELTA,
    size: int = 10,
) -> list[Row]:
    """Ridge by the exact pair, by Renyi divergences and as NDIS prints it; errors against the Gaussian mechanism.

    For rows of norm 1. `sketch_error` is the least root mean square Frobenius error of the Gram matrix that any data
    allow, `gaussian_error` that of the Gaussian mechanism: here the sketch is never better, and approaches it with r.
    """
    rows = []
    for count in components:
        for epsilon in epsilons:
            excess = random_projection.approximate_excess(epsilon, delta, count)
            exact = random_projection.tight_ridge(1.0, excess)
            renyi = random_projection.tight_ridge(
                1.0, renyi_excess(epsilon, delta, count)
            )
            rows.append(
                {
                    "epsilon": epsilon,
                    "components": count,
                    "ridge": exact,
                    "ridge_renyi": renyi,
                    "ridge_printed": exact + 1.0,
                    "renyi_over_exact": renyi / exact,
                    "sketch_error": exact * math.sqrt(size * (size + 1) / count),
                    "gaussian_error": math.sqrt(size * (size + 1) / 2)
                    / mean_shift_for(epsilon, delta),
                }
            )
    return rows


def utility_bound(
    components: Iterable[int] = COMPONENTS,
    *,
    size: int = 10,
    rows: int = 2000,
    draws: int = 200,
    failure: float = 0.05,
    epsilon: float = 1.0,
    delta: float = DELTA,
    seed: int = 0,
) -> list[Row]:
    """Theorem 5.2: spectral error of the Gram estimate against (sqrt(h) + h)(|D|^2 + ridge), h = (d + log(2/beta))/r.

    The theorem leaves its constant open; `constant` is what the measured (1 - beta) quantile needs: 1 to 2.
    """
    data = np.random.default_rng(seed).normal(size=(rows, size)) / math.sqrt(size)
    gram = as_source(data).aggregate(Gram(row_norm=1.0))
    truth = gram.to_float()
    table = []
    for count in components:
        generator = SeededGenerator(seed)
        plan = PrivateSketch(
            epsilon=epsilon, delta=delta, row_norm=1.0, n_components=count
        ).plan(size)
        errors = []
        for _ in range(draws):
            matrix, ridge = plan.draw(gram, generator)
            estimate = (
                Sketch(matrix, ridge, 1.0, tuple(map(str, range(size)))).gram().value
            )
            errors.append(float(np.linalg.norm(estimate - truth, 2)))
        rate = (size + math.log(2 / failure)) / count
        bound = (math.sqrt(rate) + rate) * (
            float(np.linalg.norm(truth, 2)) + plan.ridge
        )
        quantile = float(np.quantile(errors, 1 - failure))
        resampled = np.random.default_rng(seed).choice(errors, size=(RESAMPLES, draws))
        table.append(
            {
                "components": count,
                "ridge": plan.ridge,
                "bound_per_constant": bound,
                "error_quantile": quantile,
                "quantile_error": float(
                    np.std(np.quantile(resampled, 1 - failure, axis=1))
                ),
                "constant": quantile / bound,
            }
        )
    return table
