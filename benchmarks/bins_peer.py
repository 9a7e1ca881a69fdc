"""jax_privacy's Monte Carlo accounting of balls in bins, run in an environment of its own by bench_bins.

usage: python bins_peer.py BINS NOISE EPSILON SAMPLES < first column as JSON     one line of JSON: delta, its error
"""

from __future__ import annotations

import json
import math
import sys
import time

import numpy as np
from jax_privacy import batch_selection
from jax_privacy.experimental.monte_carlo import sample_generation

AT_ONCE = 2000

bins, noise, epsilon, samples = int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4])
given = json.load(sys.stdin)
sampling = batch_selection.BallsInBinsSampling(cycle_length=bins, iterations=given["steps"])
generator = np.random.default_rng(1)
start = time.process_time()
losses = np.concatenate(
    [
        sample_generation.get_privacy_loss_sample(
            sampling, noise, np.array(given["column"]), seed=generator, num_samples=AT_ONCE
        )[0]
        for _ in range(0, samples, AT_ONCE)
    ]
)
shares = np.maximum(-np.expm1(epsilon - losses), 0.0)
error = shares.std() / math.sqrt(shares.size)
print(json.dumps({"delta": shares.mean(), "error": error, "seconds": time.process_time() - start}))
