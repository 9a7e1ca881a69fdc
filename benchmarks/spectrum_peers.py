"""The peers of the spectrum, run in their own environment: JSON task on stdin, JSON answer on stdout.

A task is {"peer": ..., "case": ...}. Times are CPU seconds of the peer's own calls, after a first call that is
not counted; preparing its arguments is free for it. Nothing here imports gaussveil.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from importlib.metadata import version
from typing import Any


def timed(call: Callable[[], Any], repeats: int) -> tuple[float, Any]:
    value = call()
    times = []
    for _ in range(repeats):
        start = time.process_time()
        value = call()
        times.append(time.process_time() - start)
    return statistics.median(times), value


def gx2(case: dict[str, Any]) -> dict[str, Any]:
    """Two tail probabilities of generalised chi-squares for each pair, method left at its default."""
    from gx2 import cdf

    seconds, answers = [], []
    for forms in case["forms"]:

        def tails(forms: Any = forms) -> list[float]:
            return [float(cdf(f["at"], f["w"], f["k"], f["l"], f["s"], f["m"], side="upper")) for f in forms]

        try:
            took, both = timed(tails, 1)
        except (ValueError, ArithmeticError, IndexError):
            answers.append(None)
            continue
        seconds.append(took)
        answers.append(both)
    return {"seconds": statistics.fmean(seconds), "tails": answers, "version": version("gx2")}


def davies(case: dict[str, Any]) -> dict[str, Any]:
    """Davies' own algorithm in C as fastlmmclib carries it; None where it reports a fault."""
    import numpy as np
    from fastlmmclib.quadform import qf

    calls = [
        [(f["at"] - f["m"], np.array(f["w"]), np.array(f["k"], "int32"), np.array(f["l"]), f["s"]) for f in forms]
        for forms in case["forms"]
    ]

    def tails() -> list[list[tuple[float, int, Any]]]:
        return [[qf(*call, lim=1_000_000, acc=case["accuracy"]) for call in both if call[1].size] for both in calls]

    found, runs, start = tails(), 0, time.process_time()
    while runs < case["repeats"] or time.process_time() - start < 1.0:  # clocks of CPU time may tick every 10 ms
        tails()
        runs += 1
    seconds = (time.process_time() - start) / runs
    answers = [
        [float(tail) for tail, _, _ in both] if len(both) == 2 and not any(fault for _, fault, _ in both) else None
        for both in found
    ]
    return {"seconds": seconds / len(calls), "tails": answers, "version": version("fastlmmclib")}


def dp_accounting(case: dict[str, Any]) -> dict[str, Any]:
    from dp_accounting.pld import privacy_loss_distribution as pld

    def delta() -> float:
        total = None
        for sigma, count in case["gaussians"]:
            part = pld.from_gaussian_mechanism(sigma)
            part = part.self_compose(count) if count > 1 else part
            total = part if total is None else total.compose(part)
        return float(total.get_delta_for_epsilon(case["epsilon"]))

    seconds, value = timed(delta, case["repeats"])
    return {"seconds": seconds, "delta": value, "version": version("dp-accounting")}


def prv_accountant(case: dict[str, Any]) -> dict[str, Any]:
    from prv_accountant import PRVAccountant
    from prv_accountant.privacy_random_variables import GaussianMechanism

    counts = [count for _, count in case["gaussians"]]

    def delta() -> float:
        variables = [GaussianMechanism(sigma) for sigma, _ in case["gaussians"]]
        accountant = PRVAccountant(variables, eps_error=0.01, delta_error=1e-12, max_self_compositions=counts)
        return float(accountant.compute_delta(case["epsilon"], counts)[2])

    seconds, value = timed(delta, case["repeats"])
    return {"seconds": seconds, "delta": value, "version": version("prv-accountant")}


def autodp(case: dict[str, Any]) -> dict[str, Any]:
    """Compose characteristic functions, autodp's most accurate accountant."""
    # mechanism_zoo first: starting with the calibrator is a circular import.
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import ComposeAFA

    counts = [count for _, count in case["gaussians"]]

    def delta() -> float:
        mechanisms = [
            GaussianMechanism(sigma, phi_off=False, name=f"g{i}") for i, (sigma, _) in enumerate(case["gaussians"])
        ]
        return float(ComposeAFA()(mechanisms, counts).approx_delta(case["epsilon"]))

    seconds, value = timed(delta, case["repeats"])
    return {"seconds": seconds, "delta": value, "version": version("autodp")}


PEERS = {
    "gx2": gx2,
    "Davies": davies,
    "dp-accounting": dp_accounting,
    "prv-accountant": prv_accountant,
    "autodp": autodp,
}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    task = json.load(sys.stdin)
    answer = PEERS[task["peer"]](task["case"])
    sys.stdout.write("\n" + json.dumps(answer) + "\n")
