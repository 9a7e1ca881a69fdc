"""What an NVIDIA GPU can do at most for the other gpu_*.py: operations in float64 and bytes a second, by PyTorch.

`python benchmarks/gpu_limit.py` prints them, and the time below which each job cannot be done: its operations (as
bench_growth.py counts them) or the bytes that it is given, whichever takes longer. COMMIT in the environment names
the code, as for the other gpu_*.py.
"""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Callable

import torch

DIMENSION = 12
REDUCTION_FLOPS, NODE_FLOPS, NODES = 6, 14, 60  # times d^3; for each term and node; and nodes with their probes
# What is evaluated: pairs, directions of each, how often a gradient repeats the work, numbers given for each.
MATRICES = 2 * DIMENSION**2 + 2 * DIMENSION
JOBS = {
    "10^6 pairs": (10**6, 1, 1, MATRICES),
    "audit of 10^7 neighbours": (10**7, 2, 1, DIMENSION),
    "class noise of 100 labels, with gradients": (9900, 1, 4, 0),
    "class noise of 300 labels, with gradients": (89700, 1, 4, 0),
}


def median(call: Callable[[], object]) -> float:
    times = []
    for _ in range(9):
        torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times[2:])


def main() -> None:
    square = torch.rand((8192, 8192), dtype=torch.float64, device="cuda")
    block = torch.ones(1 << 29, dtype=torch.float64, device="cuda")
    flops = 2 * 8192**3 / median(lambda: square @ square)
    moved = 2 * block.numel() * 8 / median(block.clone)
    jobs = []
    for name, (pairs, directions, repeats, numbers) in JOBS.items():
        each = REDUCTION_FLOPS * DIMENSION**3 + directions * DIMENSION * NODE_FLOPS * NODES
        operations, supplied = pairs * repeats * each, pairs * 8 * numbers
        limit = max(operations / flops, supplied / moved)
        jobs.append({"job": name, "operations": operations, "bytes": supplied, "limit_seconds": limit})
    found = {
        "commit": os.environ.get("COMMIT"),
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "float64_operations_per_second": flops,
        "bytes_per_second": moved,
        "dimension": DIMENSION,
        "jobs": jobs,
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
