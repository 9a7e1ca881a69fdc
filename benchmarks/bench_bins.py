"""Matrix mechanisms with records in random bins: proven ends beside Monte Carlo accounting, 2,048 steps of 16 epochs.

Monte Carlo accounting (Choquette-Choo, Ganesh, Haque, Steinke and Thakurta 2024, Near Exact Privacy Amplification for
Matrix Mechanisms) estimates the delta of a removed record from draws of the density ratio. Here the draws are of means
that are moved further than the record moves them, by a factor that is chosen on draws of their own: at 1e-5 that takes
a hundredth of the samples. Where delta is large, jax_privacy's own draws are held against them. The estimate has a
standard error and no proof, the ends have a proof and are apart: the goal is 1 %, the rows say how far off that is.
"""

from __future__ import annotations

import json
import math
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil import BLT, Accountant, BallsInBins, BandMF, MatrixMechanism

STEPS = 2048
BINS = 128
DELTA = 1e-5
NOISES = (4.0, 8.0, 16.0)
FACTORS = (1.0, 1.5, 2.0, 2.5, 3.0, 4.0)
TRIED = 20_000
DRAWN = 400_000
AT_ONCE = 20_000
GOAL = 1.01
SECONDS = 60.0
PEER = Path(__file__).parents[1] / ".venv-peers-train" / "bin" / "python"  # `make test-peers` makes it
STRATEGIES = {
    "BandMF, 16 bands": BandMF(STEPS, bands=16),
    "BandMF, 64 bands": BandMF(STEPS, bands=64),
    "BLT, 4 buffers": BLT(STEPS, buffers=4),
    "BLT, 4 buffers for 16 takes": BLT(STEPS, buffers=4, takes=STEPS // BINS, separation=BINS),
}


def inner_products(strategy: BandMF | BLT, noise: float) -> np.ndarray:
    """Of the bins' outputs over the noise."""
    matrix = strategy.matrix()
    means = np.stack([matrix[:, first::BINS].sum(axis=1) for first in range(BINS)]) / noise
    return np.asarray(means @ means.T)


def log_ratio(exponents: np.ndarray, squares: np.ndarray, factor: float) -> np.ndarray:
    """Logarithm of the density ratio of means times `factor`."""
    terms = factor * exponents - 0.5 * factor**2 * squares
    peak = terms.max(axis=1)
    return np.asarray(peak + np.log(np.exp(terms - peak[:, None]).mean(axis=1)))


def drawn(inner: np.ndarray, factor: float, count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Losses with means that are `factor` times as large, and the logarithms of their weights."""
    generator = np.random.default_rng(seed)
    values, axes = np.linalg.eigh(inner)
    root = axes * np.sqrt(np.maximum(values, 0.0))
    losses = []
    weights = []
    for _ in range(0, count, AT_ONCE):
        bins = generator.integers(BINS, size=min(AT_ONCE, count))
        exponents = generator.standard_normal((bins.size, BINS)) @ root.T + factor * inner[bins]
        squares = np.diag(inner)
        losses.append(log_ratio(exponents, squares, 1.0))
        weights.append(losses[-1] - log_ratio(exponents, squares, factor))
    return np.concatenate(losses), np.concatenate(weights)


def delta(losses: np.ndarray, weights: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Delta and its standard error."""
    shares = np.maximum(-np.expm1(epsilon - losses), 0.0) * np.exp(weights)
    return float(shares.mean()), float(shares.std() / math.sqrt(shares.size))


def sampled_epsilon(inner: np.ndarray, factor: float, count: int, seed: int) -> tuple[float, float]:
    """Epsilon and its standard error."""
    losses, weights = drawn(inner, factor, count, seed)
    low, high = 0.0, 80.0
    for _ in range(50):
        middle = (low + high) / 2
        if delta(losses, weights, middle)[0] > DELTA:
            low = middle
        else:
            high = middle
    least, error = delta(losses, weights, high)
    further = delta(losses, weights, high * 1.01)[0]
    return high, error * 0.01 * high / max(least - further, 1e-300)


def monte_carlo(inner: np.ndarray) -> tuple[float, float]:
    """With the factor at which few draws have the least error."""
    errors = {factor: sampled_epsilon(inner, factor, TRIED, 1)[1] for factor in FACTORS}
    return sampled_epsilon(inner, min(errors, key=lambda factor: errors[factor] or math.inf), DRAWN, 2)


def lower_end(mechanism: MatrixMechanism, most: float) -> float:
    """Epsilon below which the proven delta of a removed record is too large."""
    law = mechanism.curve()
    low, high = 0.0, most
    for _ in range(30):
        middle = (low + high) / 2
        if law.lower(middle) > DELTA:
            low = middle
        else:
            high = middle
    return low


def row(name: str, ours: float, peer: float | None, goal: float, met: bool, note: str = "") -> dict[str, Any]:
    ratio = None if peer is None else ours / peer
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": goal, "met": met, "note": note}


def beside_peer() -> dict[str, Any]:
    """Delta where it is large, from draws here and from the peer's."""
    strategy = STRATEGIES["BandMF, 16 bands"]
    command = [PEER, Path(__file__).with_name("bins_peer.py"), *map(str, (BINS, 8.0, 1.0, 10_000))]
    column = json.dumps({"steps": STEPS, "column": strategy.coefficients().tolist()})
    ran = subprocess.run(command, input=column, capture_output=True, text=True, check=True)
    peer = json.loads(ran.stdout)
    found, error = delta(*drawn(inner_products(strategy, 8.0), 1.5, DRAWN, 3), 1.0)
    together = math.hypot(error, peer["error"])
    apart = abs(found - peer["delta"]) / together
    note = f"{found:.3g} and {peer['delta']:.3g}; the peer draws 10,000 in {peer['seconds']:.0f} CPU s"
    name = "delta at epsilon 1, 16 bands, noise 8: from jax_privacy's Monte Carlo, in standard errors of both"
    return row(name, apart, None, 4.0, apart <= 4.0, note)


def run() -> list[dict[str, Any]]:
    rows = [beside_peer()] if PEER.exists() else []
    longest = 0.0
    for name, strategy in STRATEGIES.items():
        for noise in NOISES:
            estimate, error = monte_carlo(inner_products(strategy, noise))
            mechanism = MatrixMechanism(strategy, noise_multiplier=noise, allocation=BallsInBins(BINS))
            start = time.process_time()
            above = Accountant().add(mechanism).epsilon(DELTA)
            below = lower_end(mechanism, above)
            longest = max(longest, time.process_time() - start)
            title = f"{name}, noise {noise:g}"
            note = f"{estimate:.4f} with a standard error of {error:.4f}; proven {below:.4f} to {above:.4f}"
            met = above <= GOAL * estimate
            rows.append(row(f"{title}: proven epsilon / Monte Carlo", above, estimate, GOAL, met, note))
            met = estimate <= GOAL * below
            rows.append(row(f"{title}: Monte Carlo / lower end", estimate, below, GOAL, met))
            print(f"{title}: {note}", flush=True)
    rows.append(row("CPU s for both ends, at most", longest, None, SECONDS, longest <= SECONDS))
    return rows
