"""DP-SGD accountants side by side on 30 runs with known epsilon: time, error, and the side of the error.

The peers run in the environment of `make test-peers` with autodp and prv-accountant beside; another one: PEERS_PYTHON.
A folder PEER_ANSWERS keeps what each peer answered, for runs that are cut short.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

from accountant_mixed import audit_rows, curve_rows, mixed_rows
from gaussveil import DPSGD, Accountant

HERE = Path(__file__).parent
REFERENCES = HERE.parent / "tests" / "reference" / "training.json"
PEERS_PYTHON = os.environ.get("PEERS_PYTHON") or str(HERE.parent / ".venv-peers-train" / "bin" / "python")
PEERS = (
    "dp_accounting PLD, default",
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
ANSWERS = os.environ.get("PEER_ANSWERS", "")
EXACT = 1e-9
ERROR = "largest relative error of epsilon"
SECONDS = "CPU seconds of an epsilon, median"
ABOVE, BELOW, NONE = "largest relative error above the truth", "answers below the truth", "runs without an answer"
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
    ours = Errors.of(mine, truths)
    worst = max(ours.above, ours.below)
    note = f"{ours.describe()}; slowest {1e3 * max(took for _, took in mine):.0f} ms"
    first = {"name": f"{ERROR}, {CASES} runs, against {EXACT:g}", "ours": worst, "peer": EXACT, "ratio": EXACT / worst}
    rows: list[Row] = [first | {"goal": 1.0, "met": worst <= EXACT, "note": note}]
    for peer in PEERS:
        answers = ask(peer, cases)
        if answers is None:
            rows.append(row(f"{SECONDS}, {peer}", seconds, None, "not run"))
            continue
        theirs = Errors.of(answers, truths)
        taken = statistics.median(took for _, took in answers)
        rows += [
            row(f"{SECONDS}, {peer}", seconds, taken, theirs.describe()),
            row(f"{ABOVE}, {peer}", ours.above, theirs.above),
            row(f"{BELOW}, {peer}", ours.under, theirs.under),
            row(f"{NONE}, {peer}", ours.silent, theirs.silent, f"within {LIMIT_S} s"),
        ]
    return [*rows, *mixed_rows(ask), *curve_rows(ask), *audit_rows()]


def row(name: str, ours: float, peer: float | None, note: str = "") -> Row:
    ratio = peer / ours if peer is not None and ours else None
    return {"name": name, "ours": ours, "peer": peer, "ratio": ratio, "goal": None, "met": True, "note": note}


class Errors(NamedTuple):
    """Largest relative errors on both sides, how many answers lie below the truth, how many there are not."""

    above: float
    below: float
    under: int
    silent: int

    @classmethod
    def of(cls, answers: list[Any], truths: list[float]) -> Errors:
        errors = [found / truth - 1.0 for (found, _), truth in zip(answers, truths) if found is not None]
        low = [-error for error in errors if error < -EXACT]
        return cls(max([0.0, *errors]), max([0.0, *low]), len(low), len(truths) - len(errors))

    def describe(self) -> str:
        text = f"{CASES - self.silent} of {CASES} answered; largest error above {self.above:.2g}"
        return f"{text}; {self.under} below the truth" + (f", by up to {self.below:.2g}" if self.under else "")


def ask(peer: str, cases: list[Any]) -> list[Any] | None:
    task = json.dumps({"peer": peer, "cases": cases, "limit": LIMIT_S})
    stored = Path(ANSWERS, f"{hashlib.sha256(task.encode()).hexdigest()[:16]}.json") if ANSWERS else None
    if stored is not None and stored.exists():
        known: list[Any] = json.loads(stored.read_text(encoding="utf-8"))
        return known
    if not Path(PEERS_PYTHON).exists():
        return None
    done = subprocess.run(
        [PEERS_PYTHON, str(HERE / "accountant_peers.py")], input=task, capture_output=True, text=True, check=False
    )
    if done.returncode:
        why = done.stderr.strip().splitlines() or [f"it ended with code {done.returncode}"]
        print(f"{peer}: {why[-1][:200]}", file=sys.stderr)
        return None
    answers: list[Any] = json.loads(done.stdout.strip().splitlines()[-1])
    if stored is not None:
        stored.parent.mkdir(parents=True, exist_ok=True)
        stored.write_text(json.dumps(answers), encoding="utf-8")
    return answers
