"""Principal components beside diffprivlib's and our sketch's: same data, bounds and promise; FULL=1 draws more."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from bench_regression import DELTA, DRAWS, EPSILONS, diffprivlib, drawn_how_often, ratio
from gaussveil import PrivatePCA, PrivateSketch
from gaussveil.noise import SeededGenerator
from regression_sets import Matrix, Regression, regressions

Row = dict[str, Any]


def run() -> list[Row]:
    return [row for one in regressions() for row in components(one)]


def components(one: Regression) -> list[Row]:
    """Distance of projectors on the two leading components, in public units, beside diffprivlib and the sketch."""
    found: list[Row] = []
    draws = drawn_how_often(one, DRAWS)
    rows = one.draw(0)[0]
    half, middle = (one.high - one.low) / 2, (one.high + one.low) / 2
    units = (rows - middle) / half
    kept = 2
    exact = np.linalg.eigh(np.cov(units.T))[1][:, -kept:]
    norm = math.sqrt(one.size)

    def error(directions: Matrix) -> float:
        return float(np.linalg.norm(exact @ exact.T - directions.T @ np.linalg.pinv(directions.T)))

    theirs = diffprivlib("components", draws, X=rows, low=one.low, high=one.high, components=kept, norm=norm)
    for epsilon, fits in zip(EPSILONS, theirs):
        mine, drawn = [], []
        for seed in range(draws):
            model = PrivatePCA(
                epsilon=epsilon, delta=DELTA, n_components=kept, bounds=(-1, 1), generator=SeededGenerator(seed)
            ).fit(units)
            mine.append(error(model.components_))
            sketch = PrivateSketch(
                epsilon=epsilon, delta=DELTA, row_norm=norm, n_components=256, generator=SeededGenerator(seed)
            ).fit(units - units.mean(axis=0))
            drawn.append(error(sketch.released_.pca(kept).components))
        peers = {"diffprivlib": float(np.mean([error(fit) for fit in fits])), "sketch": float(np.mean(drawn))}
        best = min(peers, key=peers.__getitem__)
        note = ", ".join(f"{name} {value:.3g}" for name, value in peers.items())
        name = f"{one.name}, epsilon {epsilon:g}: error of two components / best peer"
        found.append(ratio(name, float(np.mean(mine)), peers[best], 1, note))
    return found


if __name__ == "__main__":
    for result in run():
        print(result)
