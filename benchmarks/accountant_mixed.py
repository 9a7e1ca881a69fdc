"""Runs of many mechanisms, whole curves and audits from one run, each beside the peers that can do it.

A part of a mixed run is [kind, parameters ..., count]; `accountant_peers.py` reads the same.
"""

from __future__ import annotations

import random
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gaussveil import (
    DPSGD,
    Accountant,
    ApproximatePoint,
    DiscreteGaussian,
    DiscreteLaplace,
    Exponential,
    Gaussian,
    GaussianPair,
    Laplace,
    RandomisedResponse,
    audit_one_run,
)
from one_run_peers import by_pairs, by_tradeoff

DELTA = 1e-5
RUNS = 26  # drawn, and four without noise that is smooth
POINTS = 200
SAME = 1e-8
Part = list[Any]
Row = dict[str, Any]
Ask = Callable[[str, list[Any]], list[Any] | None]
ALONE: list[list[Part]] = [
    [["laplace", 0.5, 10]],
    [["laplace", 0.3, 5], ["response", 0.4, 2, 5]],
    [["exponential", 0.2, 20]],
    [["geometric", 2, 5.0, 4], ["response", 0.5, 3, 1]],
]
KINDS: dict[str, Callable[..., Any]] = {
    "dpsgd": lambda noise, rate: DPSGD(noise_multiplier=noise, sampling_rate=rate),
    "gaussian": lambda noise: Gaussian(noise_multiplier=noise),
    "laplace": Laplace,
    "geometric": DiscreteLaplace,
    "discrete gaussian": DiscreteGaussian,
    "response": RandomisedResponse,
    "exponential": Exponential,
    "point": ApproximatePoint,
}


def mixed_runs() -> list[list[Part]]:
    """The same thirty every time."""
    choose = random.Random(43)
    some: list[Callable[[], Part]] = [
        lambda: ["laplace", choose.choice([0.1, 0.5, 1.0])],
        lambda: ["geometric", choose.choice([1, 2, 5]), choose.choice([4.0, 10.0, 30.0])],
        lambda: ["discrete gaussian", choose.choice([2.0, 5.0, 10.0]), 1],
        lambda: ["response", choose.choice([0.2, 0.5, 1.0]), choose.choice([2, 5])],
        lambda: ["exponential", choose.choice([0.1, 0.5, 1.0])],
        lambda: ["point", choose.choice([0.1, 0.5]), choose.choice([1e-7, 1e-8])],
    ]
    runs = []
    for _ in range(RUNS):
        noise, rate = choose.choice([0.7, 1.0, 1.5, 3.0]), choose.choice([0.001, 0.01, 0.05])
        parts: list[Part] = [["dpsgd", noise, rate, choose.choice([10, 100, 1000, 5000])]]
        if choose.random() < 0.4:
            parts.append(["gaussian", choose.choice([2.0, 5.0, 20.0]), choose.choice([1, 5])])
        parts += [[*choose.choice(some)(), choose.choice([1, 1, 3, 10])] for _ in range(choose.choice([1, 1, 2, 3]))]
        runs.append(parts)
    return runs + ALONE


def accountant(parts: list[Part]) -> Accountant:
    run = Accountant()
    for kind, *numbers, count in parts:
        run.add(KINDS[kind](*numbers), count)
    return run


def mixed_rows(ask: Ask) -> list[Row]:
    """CPU seconds of an epsilon, how far ends are apart, and how often a peer's epsilon is below ours."""
    runs = mixed_runs()
    found, seconds, widths = [], [], []
    for parts in runs:
        start = time.process_time()
        epsilon = accountant(parts).epsilon(DELTA)
        seconds.append(time.process_time() - start)
        found.append(epsilon)
        ends = accountant(parts).enclose(epsilon)
        widths.append(float(ends.relative_width))
    rows: list[Row] = [
        {
            "name": f"width of enclosures of {len(runs)} mixed runs, largest, against 1e-6",
            "ours": max(widths),
            "peer": 1e-6,
            "ratio": 1e-6 / max(widths),
            "goal": 1.0,
            "met": max(widths) <= 1e-6,
            "note": f"slowest epsilon {max(seconds):.2f} s of CPU time",
        }
    ]
    theirs = ask("dp_accounting PLD, mixed", [[parts, DELTA] for parts in runs])
    median = statistics.median(seconds)
    name = "CPU seconds of an epsilon of a mixed run, median, dp_accounting PLD (1e-5)"
    if theirs is None:
        return [*rows, plain_row(name, median, None, "not run")]
    answered = [(ours, its) for ours, (its, _) in zip(found, theirs) if its is not None]
    above = sum(ours > its * (1.0 + SAME) for ours, its in answered)
    note = f"{len(answered)} of {len(runs)} answered; {above} of our epsilons above theirs"
    return [*rows, plain_row(name, median, statistics.median(took for _, took in theirs), note)]


def curve_rows(ask: Ask) -> list[Row]:
    """A curve of a run of 1,000 steps at 200 points."""
    case = [1.0, 0.01, 1000, POINTS]
    run = Accountant().add(DPSGD(noise_multiplier=case[0], sampling_rate=case[1]), 1000)
    run.epsilon(DELTA)  # warm
    start = time.process_time()
    run.tradeoff(np.linspace(0.001, 0.999, POINTS))
    seconds = time.process_time() - start
    theirs = ask("dp_accounting PLD, curve", [case])
    note = f"ours: the trade-off; theirs: delta at as many epsilons; {POINTS} points"
    return [plain_row("CPU seconds of a curve, dp_accounting PLD", seconds, theirs[0][1] if theirs else None, note)]


def audit_rows() -> list[Row]:
    """Lower ends of epsilon from one run of a mean shift of 1, at the same guesses as the papers' bounds."""
    rows = []
    for canaries in (1_000, 10_000, 100_000):
        generator = np.random.default_rng(7)
        coins = generator.random(canaries) < 0.5
        scores = coins + generator.normal(size=canaries)
        audit = audit_one_run(scores, coins, None, delta=DELTA, guesses=canaries // 10)
        pairs = by_pairs(canaries, audit.guesses, audit.right, DELTA, 0.05)
        shift = by_tradeoff(canaries, audit.guesses, audit.right, 0.05)
        curve = float(GaussianPair.mean_shift(max(shift, 1e-9)).dp_epsilon(DELTA))
        for name, ours, peer in (
            ("Steinke, Nasr, Jagielski 2023", audit.epsilon_lower, pairs),
            ("Mahloujifar, Melis, Chaudhuri 2024", audit.gaussian_epsilon_lower, curve),
        ):
            ratio = ours / peer if peer else None
            met = ours >= peer * (1.0 - 1e-6)
            title = f"lower end of epsilon from one run, {canaries} canaries, {name}"
            note = f"{audit.right} of {audit.guesses} guesses right"
            rows.append(
                {"name": title, "ours": ours, "peer": peer, "ratio": ratio, "goal": None, "met": met, "note": note}
            )
    return rows


def plain_row(name: str, ours: float, peer: float | None, note: str = "") -> Row:
    ratio = peer / ours if peer is not None and ours else None
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": None, "met": True, "note": note}
