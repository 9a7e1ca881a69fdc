"""Principal components beside diffprivlib's and our sketch's: same data, bounds and promise; FULL=1 draws more.

Where noise hides all signal everybody's components are a random plane, and means of draws differ by chance: the notes
tell standard errors, and sets of less than a million cells are drawn five times as often,
of less than a hundred thousand at the least epsilon twenty times.
"""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from bench_regression import DELTA, DRAWS, EPSILONS, FIRST, diffprivlib, drawn_how_often, ratio
from gaussveil import PrivatePCA, PrivateSketch
from gaussveil.noise import SeededGenerator
from regression_sets import Matrix, regressions
from side_by_side import kept, side_by_side

KEPT = 2
CHEAP = 10**6  # cells
Row = dict[str, Any]


def run() -> list[Row]:
    return list(itertools.chain(*side_by_side(components, range(len(regressions())))))


def components(place: int) -> list[Row]:
    """Distance of projectors on the two leading components, in public units, beside diffprivlib and the sketch."""
    one = regressions()[place]
    theirs = kept(peers, place)
    rows = one.draw(0)[0]
    half, middle = (one.high - one.low) / 2, (one.high + one.low) / 2
    units = (rows - middle) / half
    exact = np.linalg.eigh(np.cov(units.T))[1][:, -KEPT:]
    norm = math.sqrt(one.size)

    def error(directions: Matrix) -> float:
        return float(np.linalg.norm(exact @ exact.T - directions.T @ np.linalg.pinv(directions.T)))

    def at(epsilon: float) -> Row:
        mine, drawn, draws = [], [], len(theirs[epsilon])
        for seed in range(FIRST, FIRST + draws):
            model = PrivatePCA(
                epsilon=epsilon, delta=DELTA, n_components=KEPT, bounds=(-1, 1), generator=SeededGenerator(seed)
            ).fit(units)
            mine.append(error(model.components_))
            sketch = PrivateSketch(
                epsilon=epsilon, delta=DELTA, row_norm=norm, n_components=256, generator=SeededGenerator(seed)
            ).fit(units - units.mean(axis=0))
            drawn.append(error(sketch.released_.pca(KEPT).components))
        ended = [error(fit) for fit in theirs[epsilon] if np.isfinite(fit).all()]
        found = {"ours": mine, "sketch": drawn} | ({"diffprivlib": ended} if ended else {})
        means = {name: float(np.mean(each)) for name, each in found.items()}
        best = min(("sketch", "diffprivlib"), key=lambda name: means.get(name, math.inf))
        note = f"{draws} draws; " + ", ".join(
            f"{name} {means[name]:.3g} +- {np.std(each) / len(each) ** 0.5:.2g}" for name, each in found.items()
        )
        if len(ended) < draws:
            note += f"; only {len(ended)} of {draws} fits of diffprivlib's ended in time"
        name = f"{one.name}, epsilon {epsilon:g}: error of two components / best peer"
        return ratio(name, means["ours"], means[best], 1, note)

    return [at(epsilon) for epsilon in EPSILONS]


def peers(place: int) -> dict[float, Matrix]:
    """diffprivlib's directions by epsilon and draw; with RESUME they are kept by themselves."""
    one = regressions()[place]
    cells = one.rows * one.size
    draws = drawn_how_often(one, DRAWS) * (5 if cells < CHEAP else 1)
    given: dict[str, Any] = {"low": one.low, "high": one.high, "components": KEPT, "norm": math.sqrt(one.size)}
    given |= {"X": one.draw(0)[0], "begin": FIRST}
    found = {}
    for epsilon in EPSILONS:
        often = draws * (4 if cells < CHEAP / 10 and epsilon == EPSILONS[0] else 1)
        (found[epsilon],) = diffprivlib("components", often, (epsilon,), **given)
    return found


if __name__ == "__main__":
    for result in run():
        print(result)
