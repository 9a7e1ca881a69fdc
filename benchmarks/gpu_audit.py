"""The white-box auditor on a GPU: 10^6 leave-one-out neighbours at d = 12, every one with matrices of its own.

Run on a machine with an NVIDIA GPU and PyTorch: `python benchmarks/gpu_audit.py [rows]`. The same audit of the first
rows by NumPy must give the same deltas to 1e-9.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

import numpy as np
import torch

from gaussveil.audit import FittedGaussian, audit

DIMENSION = 12
CLAIM = (1.0, 1e-6)
CHECKED = 2000


def main() -> None:
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    rng = np.random.default_rng(12)
    data = rng.standard_t(5, size=(count, DIMENSION)) @ rng.normal(size=(DIMENSION, DIMENSION))
    model = FittedGaussian(draws=count // 5)
    on_device = torch.as_tensor(data, device="cuda")
    times = []
    for _ in range(4):
        torch.cuda.synchronize()
        start = time.perf_counter()
        found = audit(model, on_device, claim=CLAIM)
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    reference = model.leave_one_out(data)(0, CHECKED)
    exact = np.stack([reference.log_delta(CLAIM[0]), reference.reversed().log_delta(CLAIM[0])], axis=1)
    seen = exact > -600.0
    error = float(np.max(np.abs(np.expm1(found.log_delta[:CHECKED][seen] - exact[seen])))) if np.any(seen) else 0.0
    print(
        json.dumps(
            {
                "device": torch.cuda.get_device_name(0),
                "torch": torch.__version__,
                "neighbours": count,
                "dimension": DIMENSION,
                "seconds_first": times[0],
                "seconds_median": statistics.median(times[1:]),
                "verdict": found.verdict,
                "largest_delta": float(np.max(found.delta)),
                "compared": int(np.sum(seen)),
                "largest_relative_difference": error,
                "met": error <= 1e-9,
            },
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
