"""How long commands take from nothing, by the clock, against what they were promised; processor time is beside it.

Each command is started seven times and the fastest counts: other work on the machine only adds. The limit is an
interpreter that loads NumPy and does nothing; `--help` does not need even that.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import limits

GAUSSVEIL = str(Path(sys.executable).with_name("gaussveil"))
LIBRARY = [sys.executable, "-c"]
FIRST_DELTA = "import gaussveil; gaussveil.GaussianPair([0.1], [[1.1]], [0.0], [[1.0]]).delta(1.0)"
PAIR = {
    "mean_x": [0.1, 0.0],
    "cov_x": [[1.1, 0.0], [0.0, 1.0]],
    "mean_y": [0.0, 0.0],
    "cov_y": [[1.0, 0.0], [0.0, 1.0]],
}


def commands(folder: Path) -> dict[str, tuple[list[str], float, dict[str, float]]]:
    """Every command with its goal in seconds and what it cannot do without."""
    pair, table = folder / "pair.json", folder / "loads.csv"
    pair.write_text(json.dumps(PAIR), encoding="utf-8")
    rng = np.random.default_rng(1)
    rows = [f"{home},{load:.3f}" for home, load in zip(rng.integers(0, 100, 2000), rng.gamma(2.0, 0.3, 2000))]
    table.write_text("\n".join(["home,kw", *rows]) + "\n", encoding="utf-8")
    asked = "--unit home --mean kw --between 0,4 --count --epsilon 1 --delta 1e-6 --force"
    query = ["query", str(table), *asked.split(), "--out", str(folder / "answers.csv")]
    return {
        "gaussveil --help": ([GAUSSVEIL, "--help"], 0.15, {}),
        "gaussveil delta pair.json --epsilon 1": (
            [GAUSSVEIL, "delta", str(pair), "--epsilon", "1"],
            0.5,
            {"starts": 1},
        ),
        "gaussveil query of 2,000 rows": ([GAUSSVEIL, *query], 1.2, {"starts": 1}),
        "import gaussveil": ([*LIBRARY, "import gaussveil"], 0.05, {}),
        "import gaussveil and a first delta": ([*LIBRARY, FIRST_DELTA], 0.6, {"starts": 1}),
    }


def run() -> list[dict[str, Any]]:
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, (command, goal, least) in commands(Path(folder)).items():
            ours, busy = limits.started(command)
            note = "; ".join([f"{busy:.3g} s of processors", *([limits.limit(**least)] if least else [])])
            rows.append(
                {
                    "name": f"{name}, s against the promised",
                    "ours": ours,
                    "peer": goal,
                    "ratio": goal / ours,
                    "goal": 1.0,
                    "met": ours <= goal,
                    "note": note,
                }
            )
    bare, _ = limits.started([*LIBRARY, "pass"])
    return [
        *rows,
        {
            "name": "an interpreter that does nothing",
            "ours": bare,
            "peer": None,
            "ratio": None,
            "goal": None,
            "met": True,
        },
    ]


if __name__ == "__main__":
    for found in run():
        print(found)
