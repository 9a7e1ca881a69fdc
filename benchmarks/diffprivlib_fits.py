"""diffprivlib's side of the regression benchmarks, in an environment of its own: `python diffprivlib_fits.py IN OUT`.

IN is an .npz of arrays: `kind` (linear, logistic, components), X and y (one sample, or one for each draw), low, high,
target (its two bounds), epsilons, `draws`, `begin` (the first seed), `components`. OUT gets `found`: coefficients, the
intercept first, or directions, by epsilon and draw.
"""

from __future__ import annotations

import sys
import warnings
from typing import Any

import diffprivlib.models as models
import numpy as np

warnings.simplefilter("ignore")


def linear(given: Any, epsilon: float, seed: int) -> Any:
    model = models.LinearRegression(
        epsilon=epsilon,
        bounds_X=(given["low"], given["high"]),
        bounds_y=tuple(given["target"].tolist()),
        random_state=seed,
    ).fit(given["X"], given["y"])
    return np.concatenate((np.ravel(model.intercept_), np.ravel(model.coef_)))


def logistic(given: Any, epsilon: float, seed: int) -> Any:
    """Default parameters: the norm of the data is then read off the data, which is not private."""
    model = models.LogisticRegression(epsilon=epsilon, random_state=seed).fit(given["X"], given["y"])
    return np.concatenate((np.ravel(model.intercept_), np.ravel(model.coef_)))


def components(given: Any, epsilon: float, seed: int) -> Any:
    half = (given["high"] - given["low"]) / 2
    rows = (given["X"] - (given["high"] + given["low"]) / 2) / half
    model = models.PCA(
        int(given["components"]),
        epsilon=epsilon,
        bounds=(-1.0, 1.0),
        data_norm=float(given["norm"]),
        random_state=seed,
    )
    return model.fit(rows).components_


def main(source: str, out: str) -> None:
    given = dict(np.load(source))
    fit = {"linear": linear, "logistic": logistic, "components": components}[str(given["kind"])]

    def sample(seed: int) -> dict[str, Any]:
        return given | ({"X": given["X"][seed], "y": given["y"][seed]} if given["X"].ndim == 3 else {})

    draws, begin = range(int(given["draws"])), int(given.get("begin", 0))
    found = [[fit(sample(k), float(epsilon), begin + k) for k in draws] for epsilon in given["epsilons"]]
    np.savez(out, found=np.asarray(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
