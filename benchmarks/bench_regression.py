"""Linear regression beside diffprivlib, AdaSSP and our sketch: same data, bounds, promise.

Excess risk: mean squared distance of the fitted from the best linear prediction, over the variance of the target, mean
of the draws. AdaSSP (Wang 2018) gets the same bounded rows as ours. diffprivlib is purely epsilon-private. FULL=1 draws
more; a set of more than a million cells is drawn a tenth as often, 20 times at least.
"""

from __future__ import annotations

import itertools
import math
import os
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil import PrivateLinearRegression, PrivateSketch
from gaussveil.noise import SeededGenerator
from regression_sets import Matrix, Regression, Sample, regressions
from side_by_side import side_by_side

HERE = Path(__file__).parent
PEER_PYTHON = os.environ.get("PEER_PYTHON") or str(HERE.parent / ".venv-peers-diffprivlib" / "bin" / "python")
EPSILONS, DELTA = (0.1, 0.3, 1.0, 3.0, 10.0), 1e-6
DRAWS = 100 if os.environ.get("FULL") else 20
TOGETHER = 25  # samples in memory at a time
FIRST = 20_000  # seeds: those by which rules were chosen lie below
Row = dict[str, Any]


def run() -> list[Row]:
    """Our excess risk beside the best peer's in every cell, and the geometric mean beside AdaSSP's."""
    found = list(itertools.chain(*side_by_side(compared, range(len(regressions())))))
    whole = math.exp(np.mean(np.log([beside_adassp for _, beside_adassp in found])))
    rows = [row for row, _ in found]
    return [*rows, ratio("all cells: geometric mean of excess risk / AdaSSP", whole, 1.0, 0.5)]


def drawn_how_often(one: Regression, wanted: int) -> int:
    return wanted if one.rows * one.size <= 10**6 else min(wanted, max(20, wanted // 10))


def diffprivlib(kind: str, draws: int, epsilons: tuple[float, ...] = EPSILONS, **arrays: Any) -> Matrix:
    """What diffprivlib finds, by epsilon and draw."""
    with tempfile.TemporaryDirectory() as folder:
        given, found = Path(folder) / "given.npz", Path(folder) / "found.npz"
        np.savez(given, kind=kind, draws=draws, epsilons=epsilons, **arrays)
        subprocess.run([PEER_PYTHON, str(HERE / "diffprivlib_fits.py"), str(given), str(found)], check=True)
        return np.asarray(np.load(found)["found"])


def bounded_rows(one: Regression, rows: Matrix, target: Matrix) -> tuple[Matrix, Matrix, float]:
    """Rows in public units, weighted down to our radius, the constant first; targets clipped."""
    half, ends = (one.high - one.low) / 2, one.target
    units = (rows - (one.high + one.low) / 2) / half
    radius = max(1.0, 0.4 * math.sqrt(one.size))
    weight = np.minimum(1.0, radius / np.linalg.norm(units, axis=1))[:, None]
    value = np.clip((target - sum(ends) / 2) / ((ends[1] - ends[0]) / 2), -1, 1)
    return np.column_stack((np.ones(len(units)), units)) * weight, value * weight[:, 0], math.hypot(1.0, radius)


def in_units(one: Regression, slopes: Matrix) -> Matrix:
    """Coefficients of rows in public units, in the data's units."""
    half, unit = (one.high - one.low) / 2, (one.target[1] - one.target[0]) / 2
    raw = slopes[1:] * unit / half
    return np.concatenate(([sum(one.target) / 2 + unit * slopes[0] - raw @ (one.high + one.low) / 2], raw))


def adassp(one: Regression, rows: Matrix, target: Matrix, epsilon: float, seed: int) -> Matrix:
    """Adaptive sufficient statistics perturbation, Algorithm 2 of Wang (2018), failure probability .05."""
    rng = np.random.default_rng([seed, 9])
    design, value, norm = bounded_rows(one, rows, target)
    size = design.shape[1]
    noise = math.sqrt(math.log(6 / DELTA)) / (epsilon / 3)
    gram = design.T @ design
    smallest = float(np.linalg.eigvalsh(gram)[0])
    smallest = max(smallest + noise * norm**2 * rng.normal() - math.log(6 / DELTA) / (epsilon / 3) * norm**2, 0.0)
    needed = math.sqrt(size * math.log(6 / DELTA) * math.log(2 * size**2 / 0.05)) * norm**2 / (epsilon / 3)
    upper = np.triu(rng.normal(size=(size, size)))
    noisy = gram + noise * norm**2 * (upper + np.triu(upper, 1).T)
    cross = design.T @ value + noise * norm * rng.normal(size=size)
    ridge = max(0.0, needed - smallest)
    return in_units(one, np.asarray(np.linalg.solve(noisy + ridge * np.eye(size), cross), dtype=np.float64))


def sketched(one: Regression, rows: Matrix, target: Matrix, epsilon: float, seed: int) -> Matrix:
    """Ridge regression from our private sketch, its own ridge as the penalty."""
    design, value, norm = bounded_rows(one, rows, target)
    sketch = PrivateSketch(
        epsilon=epsilon, delta=DELTA, row_norm=math.hypot(norm, 1.0), n_components=256, generator=SeededGenerator(seed)
    ).fit(np.column_stack((design, value)))
    return in_units(one, sketch.released_.ridge_regression(design.shape[1]).value)


def our_model(one: Regression, rows: Matrix, target: Matrix, epsilon: float, seed: int) -> PrivateLinearRegression:
    model = PrivateLinearRegression(
        epsilon=epsilon,
        delta=DELTA,
        bounds=(one.low, one.high),
        target_bounds=one.target,
        generator=SeededGenerator(seed),
        unit=np.repeat(np.arange(one.rows), one.rows_per_unit) if one.rows_per_unit > 1 else None,
        rows_per_unit=one.rows_per_unit if one.rows_per_unit > 1 else None,
    )
    return model.fit(rows, target)


def our_coefficients(one: Regression, rows: Matrix, target: Matrix, epsilon: float, seed: int) -> Matrix:
    return np.asarray(our_model(one, rows, target, epsilon, seed).fits_[0].coefficients)


def compared(place: int) -> list[tuple[Row, float]]:
    """One data set at every epsilon: our excess risk over the best peer's, and over AdaSSP's."""
    one = regressions()[place]
    risk = risk_of(one)
    draws = drawn_how_often(one, DRAWS)
    given: dict[str, Any] = {"low": one.low, "high": one.high, "target": np.asarray(one.target)}
    found: dict[tuple[str, float], list[float]] = {}
    for begin in range(FIRST, FIRST + draws, TOGETHER):
        seeds = range(begin, min(begin + TOGETHER, FIRST + draws))
        samples = [one.draw(seed) for seed in seeds]
        rows, values = (np.stack([sample[k] for sample in samples]) for k in (0, 1))
        theirs = diffprivlib("linear", len(seeds), X=rows, y=values, begin=begin, **given)
        for epsilon, fits in zip(EPSILONS, theirs):
            found.setdefault(("diffprivlib", epsilon), []).extend(risk(*pair) for pair in zip(fits, samples))
            for name, fit in (("AdaSSP", adassp), ("sketch", sketched), ("ours", our_coefficients)):
                drawn = [risk(fit(one, *sample[:2], epsilon, seed), sample) for seed, sample in zip(seeds, samples)]
                found.setdefault((name, epsilon), []).extend(drawn)
    return [
        beside(one, epsilon, {name: float(np.mean(each)) for (name, at), each in found.items() if at == epsilon})
        for epsilon in EPSILONS
    ]


def beside(one: Regression, epsilon: float, peers: dict[str, float]) -> tuple[Row, float]:
    mine = peers.pop("ours")
    best = min(peers, key=peers.__getitem__)
    note = f"{drawn_how_often(one, DRAWS)} draws; best peer {best}; "
    note += ", ".join(f"{name} {value:.3g}" for name, value in peers.items())
    name = f"{one.name}, epsilon {epsilon:g}: excess risk / best peer"
    return ratio(name, mine, peers[best], 1, note), mine / peers["AdaSSP"]


def risk_of(one: Regression) -> Callable[[Matrix, Sample], float]:
    """Excess risk over the target's variance, of coefficients, on the population's features."""
    features, target = one.population
    design = np.column_stack((np.ones(len(features)), features))
    moments, variance = design.T @ design / len(design), float(np.var(target))

    def risk(fit: Matrix, sample: Sample) -> float:
        return float((fit - sample[2]) @ moments @ (fit - sample[2])) / variance

    return risk


def ratio(name: str, mine: float, peer: float, goal: float, note: str = "") -> Row:
    row = {"name": name, "ours": mine, "peer": peer, "ratio": mine / peer, "goal": goal, "met": mine <= goal * peer}
    return row | {"note": note}


if __name__ == "__main__":
    for result in run():
        print(result)
