"""Exact discrete Gaussians against OpenDP and against numpy's approximate normals, timed in one run on one core."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import opendp.prelude as dp

from gaussveil.noise import DiscreteGaussianNoise, SecureGenerator

DRAWS = 2_000_000
PEER_DRAWS = 4_000
WIDTH = 1000


def rate(draw: Callable[[], object], draws: int, repeats: int = 5) -> float:
    """Draws per second, best of a few: the machine's other load only ever slows a run."""
    draw()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        draw()
        best = min(best, time.perf_counter() - start)
    return draws / best


def row(name: str, ours: float, peer: float, goal: float) -> dict[str, Any]:
    return {"name": name, "ours": ours, "peer": peer, "ratio": ours / peer, "goal": goal, "met": ours / peer >= goal}


def run() -> list[dict[str, Any]]:
    generator = SecureGenerator()
    table = DiscreteGaussianNoise(WIDTH**2)
    normals = np.random.Generator(np.random.PCG64(1))
    dp.enable_features("contrib")
    opendp = dp.m.make_gaussian(dp.vector_domain(dp.atom_domain(T="i64")), dp.l2_distance(T="f64"), scale=float(WIDTH))
    zeros = [0] * PEER_DRAWS

    exact = rate(lambda: table.draw(DRAWS, generator), DRAWS)
    numpy_rate = rate(lambda: normals.standard_normal(DRAWS), DRAWS)
    opendp_rate = rate(lambda: opendp(zeros), PEER_DRAWS, repeats=2)
    return [
        row("exact discrete Gaussians per second, of 1e7", exact, 1e7, 1.0),
        row("exact discrete Gaussians against OpenDP", exact, opendp_rate, 500.0),
        row("exact discrete Gaussians against numpy PCG64 normals", exact, numpy_rate, 0.25),
    ]


if __name__ == "__main__":
    for result in run():
        print(
            f"{result['name']}: {result['ours']:.3g}/s, peer {result['peer']:.3g}/s, ratio {result['ratio']:.3g} "
            f"(goal {result['goal']:g}, {'met' if result['met'] else 'MISSED'})"
        )
