"""The saddle-point accountant's own code on runs of DP-SGD and of Laplace noise with known epsilon, and ours beside it.

Its code is no package of an index: PEERS_PYTHON names an interpreter that can import `saddlepoint_accountant`
(github.com/Felipe-Gomez/saddlepoint_accountant at 7b39cdb, which needs numpy, scipy, mpmath and sympy). It has the
central limit version with a bound of its error, of which the upper end is a sound epsilon, and expansions of order k.
"""

from __future__ import annotations

import json
import math
import statistics
import time
from typing import Any

from bench_accountant import ABOVE, BELOW, NONE, REFERENCES, SECONDS, Errors, ask, row
from gaussveil import DPSGD, Accountant, Laplace

Row = dict[str, Any]
PEERS = ("saddle point, upper end", "saddle point, order 3")
CASES = 30
LAPLACE = ((10.0, 100), (30.0, 1000), (100.0, 10000))  # scales for sensitivity 1, and how many are composed


def run() -> list[Row]:
    known = json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]
    usual = [case for case in known if float(case["log_delta"]) > math.log(1e-12) and case["steps"] > 1]
    chosen = usual[:: max(1, len(usual) // CASES)][:CASES]
    cases = [
        (case["noise_multiplier"], case["sampling_rate"], case["steps"], math.exp(float(case["log_delta"])))
        for case in chosen
    ]
    rows = beside("DP-SGD", cases, [case["epsilon"] for case in chosen])
    laplace = [(scale, 0.0, composed, 1e-6) for scale, composed in LAPLACE]
    return [*rows, *beside("Laplace", laplace, None)]


def beside(kind: str, cases: list[tuple[float, float, int, float]], truths: list[float] | None) -> list[Row]:
    """Rows of both peers on these cases; without references ours, whose enclosures hold it, is the truth."""
    mine = []
    for noise, rate, steps, delta in cases:
        step = Laplace(1 / noise) if kind == "Laplace" else DPSGD(noise_multiplier=noise, sampling_rate=rate)
        for _ in range(2):  # warm
            start = time.process_time()
            found = Accountant().add(step, steps).epsilon(delta)
            took = time.process_time() - start
        mine.append((found, took))
    if truths is None:
        truths = [found for found, _ in mine]
    ours = Errors.of(mine, truths)
    seconds = statistics.median(took for _, took in mine)
    rows = []
    for peer in PEERS:
        answers = ask(f"{peer}, {kind}", cases)
        if answers is None:
            rows.append(row(f"{kind}, {SECONDS}, {peer}", seconds, None, "not run"))
            continue
        theirs = Errors.of(answers, truths)
        answered = [took for found, took in answers if found is not None]
        taken = statistics.median(answered) if answered else None
        errors = f"largest error above {theirs.above:.2g}, below {theirs.below:.2g}"
        told = f"{len(answered)} of {len(cases)} answered; {errors}"
        rows += [
            row(f"{kind}, {SECONDS}, {peer}", seconds, taken, told),
            row(f"{kind}, {ABOVE}, {peer}", ours.above, theirs.above),
            row(f"{kind}, {BELOW}, {peer}", ours.under, theirs.under),
            row(f"{kind}, {NONE}, {peer}", ours.silent, theirs.silent),
        ]
    return rows
