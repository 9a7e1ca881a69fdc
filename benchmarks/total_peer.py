"""jax_privacy's buffered Toeplitz strategies for running totals, run in an environment of its own by bench_total.

usage: python total_peer.py STEPS...     one line of JSON for each number of steps and each error that is minimised
"""

from __future__ import annotations

import json
import sys
import time

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


for steps in map(int, sys.argv[1:]):
    for error in ("mean", "max"):
        start = time.process_time()
        strategy = buffered_toeplitz.optimize(n=steps, error=error)
        seconds = time.process_time() - start
        column = np.asarray(strategy.toeplitz_coefs(steps))
        errors = np.linalg.norm(column) * np.sqrt(np.cumsum(np.cumsum(inverse(column)) ** 2))
        print(
            json.dumps(
                {
                    "steps": steps,
                    "minimised": error,
                    "seconds": seconds,
                    "buffers": len(strategy.buf_decay),
                    "mean": float(np.sqrt(np.mean(errors**2))),
                    "max": float(errors[-1]),
                }
            ),
            flush=True,
        )
