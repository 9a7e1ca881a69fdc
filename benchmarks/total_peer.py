"""One of jax_privacy's buffered Toeplitz strategies for running totals, in an environment of its own, for bench_total.

usage: python total_peer.py STEPS mean|max BUFFERS     one line of JSON

`optimize` with its own settings tries 0, 1, 2 ... buffers and ends where one more gains less than a hundredth. Each try
is a search of its own: 600 steps, 25 s of processor time to compile them and up to a minute to run them. So this does
one of them, whoever calls keeps what it says, and the tries may be spread over as many runs as they take.
"""

from __future__ import annotations

import json
import sys
import time
from importlib.metadata import version

import jax
import numpy as np
from jax_privacy.matrix_factorization import buffered_toeplitz

jax.config.update("jax_enable_x64", True)


def inverse(column: np.ndarray) -> np.ndarray:
    """Coefficients of 1 / column, by Newton's method on power series."""
    found = np.array([1.0 / column[0]])
    while found.size < column.size:
        size = min(2 * found.size, column.size)
        length = 1 << (2 * size).bit_length()
        have, wanted = np.fft.rfft(found, length), np.fft.rfft(column[:size], length)
        found = np.fft.irfft(have * (2.0 - have * wanted), length)[:size]
    return found


def searched(steps: int, error: str, buffers: int) -> dict[str, object]:
    """What the search with so many buffers ends at; no error where it fails."""
    start = time.process_time()
    try:
        strategy = buffered_toeplitz.optimize(n=steps, error=error, min_buffers=buffers, max_buffers=buffers)
    except RuntimeError:
        errors = None
    else:
        column = np.asarray(strategy.toeplitz_coefs(steps))
        errors = np.linalg.norm(column) * np.sqrt(np.cumsum(np.cumsum(inverse(column)) ** 2))
    return {
        "peer": f"jax_privacy {version('jax-privacy')}",
        "steps": steps,
        "minimised": error,
        "buffers": buffers,
        "seconds": time.process_time() - start,
        "mean": None if errors is None else float(np.sqrt(np.mean(errors**2))),
        "max": None if errors is None else float(errors[-1]),
    }


if __name__ == "__main__":
    print(json.dumps(searched(int(sys.argv[1]), sys.argv[2], int(sys.argv[3]))))
