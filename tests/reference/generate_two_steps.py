"""Delta of two steps on Poisson-sampled batches to 30 digits, by integrating over the first output (no package code).

Given the first output with loss a, what is left is the closed form of one step at epsilon - a. Writes two_steps.json.
"""

from __future__ import annotations

import json
from pathlib import Path

import mpmath as mp

CASES = [  # noise multiplier, sampling rate, epsilon
    (0.3683, 1.51e-5, 2.2),
    (0.4623, 2.2e-5, 0.05),
    (0.8, 1e-3, 1.5),
    (1.0, 1e-4, 0.3),
    (1.5, 1e-5, 1e-3),
    (2.467, 0.0637, 0.98),
    (4.0, 1e-3, 5e-3),
    (0.3, 0.9, 20.0),
    (30.0, 0.01, 1e-3),
    (100.0, 1e-5, 2e-7),
]


def one_step(noise: mp.mpf, rate: mp.mpf, epsilon: mp.mpf) -> mp.mpf:
    """The loss exceeds epsilon beyond one output; below the smallest loss delta is 1 - e^epsilon."""
    if mp.e**epsilon <= 1 - rate:
        return 1 - mp.e**epsilon
    edge = noise * mp.log((mp.e**epsilon - 1 + rate) / rate) + 1 / (2 * noise)

    def tail(shift: mp.mpf) -> mp.mpf:
        return mp.erfc((edge - shift) / mp.sqrt(2)) / 2

    return (1 - rate) * tail(mp.mpf(0)) + rate * tail(1 / noise) - mp.e**epsilon * tail(mp.mpf(0))


def two_steps(noise: float, rate: float, epsilon: float) -> mp.mpf:
    """The integral over the first output, cut finely next to the output beyond which the second decides nothing."""
    s, q, e = mp.mpf(noise), mp.mpf(rate), mp.mpf(epsilon)
    edge = s * mp.log((mp.e**e / (1 - q) - 1 + q) / q) + 1 / (2 * s)

    def integrand(z: mp.mpf) -> mp.mpf:
        ratio = 1 - q + q * mp.e ** (z / s - 1 / (2 * s * s))
        return mp.npdf(z) * ratio * one_step(s, q, e - mp.log(ratio))

    near = [edge - mp.mpf(2) ** -k * s for k in range(-2, 60, 2)] + [
        edge + mp.mpf(2) ** -k * s for k in range(60, -3, -2)
    ]
    cuts = sorted({mp.mpf(c) for c in range(-20, 41, 1)} | {edge, *(c for c in near if -20 < c < 40)})
    return mp.quad(integrand, cuts)


def main() -> None:
    mp.mp.dps = 40
    found = [
        {"noise_multiplier": s, "sampling_rate": q, "epsilon": e, "log_delta": mp.nstr(mp.log(two_steps(s, q, e)), 30)}
        for s, q, e in CASES
    ]
    path = Path(__file__).with_name("two_steps.json")
    path.write_text(json.dumps({"cases": found}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
