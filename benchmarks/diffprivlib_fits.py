"""diffprivlib's side of the regression benchmarks, in an environment of its own: `python diffprivlib_fits.py IN OUT`.

IN is an .npz of arrays: `kind` (linear, logistic, components), X and y (one sample, or one for each draw), low, high,
target (its two bounds), epsilons, `draws`, `begin` (the first seed), `components`. OUT gets `found`: coefficients, the
intercept first, or directions, by epsilon and draw. A draw of its directions rejects until it accepts, which at a large
epsilon may take for ever: a fit that takes longer than LIMIT is left out (NaN), and after two the rest of that epsilon.
"""

from __future__ import annotations

import signal
import sys
import warnings
from typing import Any

import diffprivlib.models as models
import numpy as np

warnings.simplefilter("ignore")
LIMIT = 3.0  # CPU seconds


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


def too_long(*_: object) -> None:
    raise TimeoutError


def main(source: str, out: str) -> None:
    given = dict(np.load(source))
    fit = {"linear": linear, "logistic": logistic, "components": components}[str(given["kind"])]

    def sample(seed: int) -> dict[str, Any]:
        return given | ({"X": given["X"][seed], "y": given["y"][seed]} if given["X"].ndim == 3 else {})

    draws, begin, size = int(given["draws"]), int(given.get("begin", 0)), given["X"].shape[-1]
    shape = (int(given["components"]), size) if fit is components else (1 + size,)
    found = np.full((len(given["epsilons"]), draws, *shape), np.nan)
    signal.signal(signal.SIGVTALRM, too_long)
    for made, epsilon in zip(found, given["epsilons"]):
        left = 2
        for k in range(draws):
            signal.setitimer(signal.ITIMER_VIRTUAL, LIMIT if fit is components else 0.0)
            try:
                made[k] = fit(sample(k), float(epsilon), begin + k) if left else np.nan
            except TimeoutError:
                left -= 1
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    np.savez(out, found=found)


if __name__ == "__main__":
    main(*sys.argv[1:])
