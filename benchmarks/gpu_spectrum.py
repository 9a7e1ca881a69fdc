"""The spectrum on a GPU: 10^6 pairs of d = 12 from device matrices to delta, by PyTorch and by CuPy, against NumPy's
numbers.

Run on a machine with an NVIDIA GPU: `python benchmarks/gpu_spectrum.py [pairs]`. Goal: at most 0.15 s on an H200, same
numbers to 1e-9, also in other dimensions from 1 to 64.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time

import numpy as np

from gaussveil.spectrum import GaussianPair

DIMENSION = 12
EPSILON = 1.0
CHECKED = 2000
DIMENSIONS = (1, 2, 3, 5, 8, 12, 16, 17, 24, 31, 32, 33, 48, 64)


def matrices(count: int, dimension: int = DIMENSION) -> tuple[np.ndarray, ...]:
    """Wishart covariances and Gaussian means, made once and tiled with small distinct scalings to the wanted count."""
    generator = np.random.default_rng(7)
    base = min(count, 20_000)
    roots = generator.standard_normal((2, base, dimension, 2 * dimension))
    cov_x, cov_y = roots @ np.swapaxes(roots, -1, -2) / (2 * dimension)
    mean_x = generator.standard_normal((base, dimension)) * 0.3
    repeats = -(-count // base)
    scale = np.exp(generator.uniform(-0.1, 0.1, (repeats * base, 1, 1)))[:count]
    tiled = [np.tile(array, (repeats, *(1,) * (array.ndim - 1)))[:count] for array in (mean_x, cov_x, cov_y)]
    return tiled[0], tiled[1] * scale, np.zeros((count, dimension)), tiled[2]


def measure(name: str, to_device: object, synchronise: object, to_host: object, arrays: tuple[np.ndarray, ...]) -> dict:
    on_device = [to_device(array) for array in arrays]
    synchronise()
    seconds, reduction = [], []
    for _ in range(6):
        start = time.perf_counter()
        pair = GaussianPair(*on_device)
        synchronise()
        middle = time.perf_counter()
        delta = pair.delta(EPSILON)
        synchronise()
        seconds.append(time.perf_counter() - start)
        reduction.append(middle - start)
    reference = GaussianPair(*(array[:CHECKED] for array in arrays)).delta(EPSILON)
    error = float(np.max(np.abs(to_host(delta)[:CHECKED] / reference - 1)))
    apart = {}
    for dimension in DIMENSIONS:
        few = matrices(CHECKED, dimension)
        ours, plain = GaussianPair(*map(to_device, few)).log_delta(EPSILON), GaussianPair(*few).log_delta(EPSILON)
        ours, some = to_host(ours), np.isfinite(plain)  # minus infinity where no ratio exceeds e^epsilon
        same = np.array_equal(some, np.isfinite(ours))
        apart[dimension] = float(np.max(np.abs(ours[some] / plain[some] - 1))) if same else float("inf")
    return {
        "library": name,
        "pairs": arrays[0].shape[0],
        "seconds_median": statistics.median(seconds[1:]),
        "seconds_first": seconds[0],
        "reduction_median": statistics.median(reduction[1:]),
        "largest_relative_difference": error,
        "largest_relative_difference_of_log_delta": apart,
        "met": statistics.median(seconds[1:]) <= 0.15 and max(error, *apart.values()) <= 1e-9,
    }


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    arrays = matrices(count)
    results = []
    try:
        import torch

        results.append(
            measure(
                f"torch {torch.__version__}",
                lambda array: torch.as_tensor(array, device="cuda"),
                torch.cuda.synchronize,
                lambda tensor: tensor.cpu().numpy(),
                arrays,
            )
        )
        device = torch.cuda.get_device_name(0)
        torch.cuda.empty_cache()
    except ImportError:
        device = "unknown"
    try:
        import cupy

        results.append(
            measure(f"cupy {cupy.__version__}", cupy.asarray, cupy.cuda.Device().synchronize, cupy.asnumpy, arrays)
        )
    except ImportError:
        pass
    run = {"commit": os.environ.get("COMMIT"), "device": device, "dimension": DIMENSION, "epsilon": EPSILON}
    print(json.dumps(run | {"results": results}, indent=2))


if __name__ == "__main__":
    main()
