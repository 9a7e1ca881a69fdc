"""DP-SGD accountants side by side on 30 runs with known epsilon: time, error, and the side of the error.

The peers run in the environment of `make test-peers` with autodp and prv-accountant beside; another one: PEERS_PYTHON.
"""

from __future__ import annotations

import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from gaussveil import DPSGD, Accountant

HERE = Path(__file__).parent
REFERENCES = HERE.parent / "tests" / "reference" / "training.json"
PEERS_PYTHON = os.environ.get("PEERS_PYTHON") or str(HERE.parent / ".venv-peers-train" / "bin" / "python")
PEERS = (
    "dp_accounting PLD",
    "dp_accounting PLD, fine",
    "dp_accounting RDP",
    "Opacus prv",
    "Opacus gdp",
    "Opacus rdp",
    "prv_accountant",
    "autodp",
)
CASES = 30
LIMIT_S = int(os.environ.get("PEER_LIMIT_S", "10"))  # of CPU time, for each case
EXACT = 1e-9
Row = dict[str, Any]


def run() -> list[Row]:
    known = json.loads(REFERENCES.read_text(encoding="utf-8"))["cases"]
    usual = [case for case in known if float(case["log_delta"]) > math.log(1e-12)]  # what the peers are made for
    chosen = usual[:: max(1, len(usual) // CASES)][:CASES]
    cases = [
        (case["noise_multiplier"], case["sampling_rate"], case["steps"], math.exp(float(case["log_delta"])))
        for case in chosen
    ]
    truths = [case["epsilon"] for case in chosen]
    mine = []
    for noise, rate, steps, delta in cases:
        for _ in range(2):  # warm
            start = time.process_time()
            found = Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=rate), steps).epsilon(delta)
            took = time.process_time() - start
        mine.append((found, took))
    seconds = statistics.median(took for _, took in mine)
    worst = max(abs(found / truth - 1.0) for (found, _), truth in zip(mine, truths))
    note = f"{describe(mine, truths)}; slowest {1e3 * max(took for _, took in mine):.0f} ms"
    rows = [row("largest relative error of epsilon, 30 runs", worst, EXACT, worst <= EXACT, note)]
    for peer in PEERS:
        answers = ask(peer, cases)
        if answers is None:
            rows.append(
                {
                    "name": peer,
                    "ours": seconds,
                    "peer": None,
                    "ratio": None,
                    "goal": 1,
                    "met": True,
                    "note": "not installed",
                }
            )
            continue
        theirs = statistics.median(took for _, took in answers)
        rows.append(
            row(f"CPU seconds of an epsilon (median), {peer}", seconds, theirs, True, describe(answers, truths))
        )
    return rows


def row(name: str, ours: float, peer: float, met: bool, note: str) -> Row:
    return {"name": name, "ours": ours, "peer": peer, "ratio": peer / ours, "goal": 1, "met": met, "note": note}


def describe(answers: list[Any], truths: list[float]) -> str:
    """How many answered, how many are below the truth, and the largest errors on both sides."""
    errors = [found / truth - 1.0 for (found, _), truth in zip(answers, truths) if found is not None]
    below = [error for error in errors if error < -EXACT]
    above = max(errors, default=math.nan)
    text = f"{len(errors)} of {len(truths)} answered; largest error above {above:.2g}"
    return f"{text}; {len(below)} below the truth" + (f", by up to {-min(below):.2g}" if below else "")


def ask(peer: str, cases: list[Any]) -> list[Any] | None:
    if not Path(PEERS_PYTHON).exists():
        return None
    task = json.dumps({"peer": peer, "cases": cases, "limit": LIMIT_S})
    done = subprocess.run(
        [PEERS_PYTHON, str(HERE / "accountant_peers.py")], input=task, capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        print(f"{peer}: {why[-1][:200]}", file=sys.stderr)
        return None
    answers: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return answers
