"""Principal components beside diffprivlib's and our sketch's: same data, bounds and promise; FULL=1 draws more."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from bench_regression import DELTA, DRAWS, EPSILONS, FIRST, diffprivlib, drawn_how_often, ratio
from gaussveil import PrivatePCA, PrivateSketch
from gaussveil.noise import SeededGenerator
from regression_sets import Matrix, regressions
from side_by_side import side_by_side

Row = dict[str, Any]


def run() -> list[Row]:
    return list(itertools.chain(*side_by_side(components, range(len(regressions())))))


def components(place: int) -> list[Row]:
    """Distance of projectors on the two leading components, in public units, beside diffprivlib and the sketch."""
    one = regressions()[place]
    draws = drawn_how_often(one, DRAWS)
    rows = one.draw(0)[0]
    half, middle = (one.high - one.low) / 2, (one.high + one.low) / 2
    units = (rows - middle) / half
    kept = 2
    exact = np.linalg.eigh(np.cov(units.T))[1][:, -kept:]
    norm = math.sqrt(one.size)

    def error(directions: Matrix) -> float:
        return float(np.linalg.norm(exact @ exact.T - directions.T @ np.linalg.pinv(directions.T)))

    given: dict[str, Any] = {"low": one.low, "high": one.high, "components": kept, "norm": norm}
    theirs = dict(zip(EPSILONS, diffprivlib("components", draws, X=rows, begin=FIRST, **given)))

    def at(epsilon: float) -> Row:
        mine, drawn = [], []
        for seed in range(FIRST, FIRST + draws):
            model = PrivatePCA(
                epsilon=epsilon, delta=DELTA, n_components=kept, bounds=(-1, 1), generator=SeededGenerator(seed)
            ).fit(units)
            mine.append(error(model.components_))
            sketch = PrivateSketch(
                epsilon=epsilon, delta=DELTA, row_norm=norm, n_components=256, generator=SeededGenerator(seed)
            ).fit(units - units.mean(axis=0))
            drawn.append(error(sketch.released_.pca(kept).components))
        ended = [error(fit) for fit in theirs[epsilon] if np.isfinite(fit).all()]
        peers = {"sketch": float(np.mean(drawn))} | ({"diffprivlib": float(np.mean(ended))} if ended else {})
        best = min(peers, key=peers.__getitem__)
        note = ", ".join(f"{name} {value:.3g}" for name, value in peers.items())
        if len(ended) < draws:
            note += f"; only {len(ended)} of {draws} fits of diffprivlib's ended in time"
        name = f"{one.name}, epsilon {epsilon:g}: error of two components / best peer"
        return ratio(name, float(np.mean(mine)), peers[best], 1, note)

    return [at(epsilon) for epsilon in EPSILONS]


if __name__ == "__main__":
    for result in run():
        print(result)
