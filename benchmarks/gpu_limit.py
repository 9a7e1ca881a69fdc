"""What an NVIDIA GPU can do at most for the other gpu_*.py: operations in float64 and bytes a second, by PyTorch.

`python benchmarks/gpu_limit.py` prints them, and the time below which 10^6 pairs of d = 12 cannot be evaluated: their
operations (as bench_growth.py counts them) or the bytes of their matrices, whichever takes longer.
"""

from __future__ import annotations

import json
import statistics
import time
from collections.abc import Callable

import torch

PAIRS, DIMENSION = 10**6, 12
REDUCTION_FLOPS, NODE_FLOPS, NODES = 6, 14, 60  # times d^3; for each term and node; and nodes with their probes


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
    needed = PAIRS * (REDUCTION_FLOPS * DIMENSION**3 + DIMENSION * NODE_FLOPS * NODES)
    supplied = PAIRS * 8 * (2 * DIMENSION**2 + 2 * DIMENSION)
    found = {
        "device": torch.cuda.get_device_name(0),
        "torch": torch.__version__,
        "float64_operations_per_second": flops,
        "bytes_per_second": moved,
        "pairs": PAIRS,
        "dimension": DIMENSION,
        "operations": needed,
        "bytes": supplied,
        "limit_seconds": max(needed / flops, supplied / moved),
    }
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
