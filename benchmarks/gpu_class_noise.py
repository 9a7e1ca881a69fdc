"""Class-label noise on a GPU: the smooth worst delta of 100 labels in 12 dimensions and its gradients, by PyTorch and
by CuPy, against NumPy's numbers and time.

Run on a machine with an NVIDIA GPU: `python benchmarks/gpu_class_noise.py [labels] [--design]`. Goal: the same numbers
to 1e-9. With `--design` a whole design is searched on each, too.
"""

from __future__ import annotations

import importlib
import json
import statistics
import sys
import time
from itertools import combinations
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.calibration.class_gradient import LabelModels, Smooth, WorstDelta
from gaussveil.calibration.class_noise import design_class_noise

Array = NDArray[np.float64]

DIMENSION = 12
EPSILON = 0.5
SHARPNESS = 20.0
SAME = 1e-9


def load_shapes(count: int) -> Array:
    """Log power of similar homes over twelve quarter hours: a common shape, own levels, slopes and wiggles."""
    generator = np.random.default_rng(0)
    hours = np.linspace(0.0, 1.0, DIMENSION)
    wiggles = np.cumsum(generator.normal(size=(count, DIMENSION)), axis=1) * 0.08
    levels, slopes = generator.normal(size=(2, count, 1))
    return np.asarray(np.sin(3 * hours) + 0.5 * levels + 0.3 * slopes * hours + wiggles)


def noise(means: Array) -> tuple[Array, Array]:
    """Half way to the centre, and a covariance of its own for every label: nothing in the batch is special."""
    generator = np.random.default_rng(1)
    roots = generator.normal(size=(len(means), DIMENSION, 2 * DIMENSION))
    return 0.5 * (means.mean(axis=0) - means), roots @ roots.transpose(0, 2, 1) / (4 * DIMENSION)


def timed(objective: WorstDelta, shifts: Array, spreads: Array, repeats: int) -> tuple[Smooth, float]:
    found, seconds = objective.smooth(shifts, spreads, SHARPNESS), []
    for _ in range(repeats):
        start = time.perf_counter()
        found = objective.smooth(shifts, spreads, SHARPNESS)  # comes back to NumPy, so it has finished
        seconds.append(time.perf_counter() - start)
    return found, statistics.median(seconds)


def differences(ours: Smooth, other: Smooth) -> dict[str, float]:
    """Largest difference of value, gradients and figures, against the largest entry of each."""
    return {
        name: float(np.max(np.abs(np.subtract(a, b))) / np.max(np.abs(a)))
        for name, a, b in zip(ours._fields, ours, other)
    }


def devices() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in ("torch", "cupy"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            print(f"{name} is not installed", file=sys.stderr)
            continue
        found[f"{name} {module.__version__}"] = "cuda" if name == "torch" else module
    return found


def main() -> None:
    labels = next((int(word) for word in sys.argv[1:] if word.isdigit()), 100)
    means = load_shapes(labels)
    edges = np.array(list(combinations(range(labels), 2)), dtype=np.intp)
    models = LabelModels(means, np.zeros((labels, DIMENSION, DIMENSION)))
    shifts, spreads = noise(means)
    plain, plain_seconds = timed(WorstDelta(models, edges, EPSILON), shifts, spreads, 3)
    budget = 0.6 * float(np.max(np.sum((means - means.mean(axis=0)) ** 2, axis=1))) / DIMENSION
    for name, device in {"numpy": None, **devices()}.items():
        answer: dict[str, Any] = {"library": name, "labels": labels, "ordered_pairs": 2 * len(edges)}
        if device is not None:
            found, seconds = timed(WorstDelta(models, edges, EPSILON, device=device), shifts, spreads, 10)
            apart = differences(plain, found)
            answer |= {"seconds_with_gradients": seconds, "times_faster": plain_seconds / seconds}
            answer |= {"largest_relative_differences": apart, "met": max(apart.values()) <= SAME}
        else:
            answer["seconds_with_gradients"] = plain_seconds
        if "--design" in sys.argv:
            start = time.perf_counter()
            design = design_class_noise(means, None, edges, epsilon=EPSILON, accuracy=budget, device=device)
            answer |= {"design_seconds": time.perf_counter() - start, "worst_delta": design.worst_delta}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
