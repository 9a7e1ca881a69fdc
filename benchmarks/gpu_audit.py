"""The white-box auditor on a GPU: 10^6 leave-one-out neighbours at d = 12, every one with matrices of its own.

Run on a machine with an NVIDIA GPU and PyTorch: `python benchmarks/gpu_audit.py [rows]`. NumPy, given the same
matrices, must find the same deltas for the rows that stand out most. A record among a million moves the covariance by
a millionth, so both lose six digits in the matrices themselves: they must agree to 1e-9 in log delta, relative.
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
from collections.abc import Callable

import numpy as np
import torch

from gaussveil import GaussianPair, PrivacyLoss
from gaussveil.audit import audit

DIMENSION = 12
CLAIM = (1.0, 1e-6)
CHECKED = 2000


class FittedByMatrices:
    """Synthetic records from the Gaussian fitted to the data: a mean and a covariance for every neighbour."""

    def __init__(self, draws: int) -> None:
        self.draws = draws

    def leave_one_out(self, data: torch.Tensor) -> Callable[[int, int], PrivacyLoss]:
        return lambda start, stop: GaussianPair(*self.moments(data, data[start:stop])) ** self.draws

    def moments(self, data: torch.Tensor, records: torch.Tensor) -> tuple[torch.Tensor, ...]:
        count, mean = data.shape[0], data.mean(dim=0)
        covariance = (data - mean).T @ (data - mean) / count
        moved = records - mean
        outer = moved[:, :, None] * moved[:, None, :]
        without = (covariance * count - outer * (count / (count - 1))) / (count - 1)
        return mean, covariance, mean - moved / (count - 1), without


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(12)
    data = rng.standard_t(5, size=(count, DIMENSION)) @ rng.normal(size=(DIMENSION, DIMENSION))
    model = FittedByMatrices(draws=count // 5)
    on_device = torch.as_tensor(data, device="cuda")
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = audit(model, on_device, claim=CLAIM)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    outstanding = np.argsort(-np.max(found.log_delta, axis=1))[:CHECKED]
    moments = (array.cpu().numpy() for array in model.moments(on_device, on_device[torch.as_tensor(outstanding)]))
    reference = GaussianPair(*moments) ** model.draws
    exact = np.stack([reference.log_delta(CLAIM[0]), reference.reversed().log_delta(CLAIM[0])], axis=1)
    error = float(np.max(np.abs(found.log_delta[outstanding] / exact - 1.0)))
    print(
        json.dumps(
            {
                "commit": os.environ.get("COMMIT"),
                "device": torch.cuda.get_device_name(0),
                "torch": torch.__version__,
                "neighbours": count,
                "dimension": DIMENSION,
                "seconds_first": times[0],
                "seconds_median": statistics.median(times[1:]),
                "verdict": found.verdict,
                "largest_delta": float(np.max(found.delta)),
                "compared": exact.size,
                "smallest_compared_log_delta": float(exact.min()),
                "largest_relative_difference_of_log_delta": error,
                "met": error <= 1e-9,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
