"""Delta of every case of docs/accuracy.py to 65 digits, by Arb's quadrature along a ray. Writes accuracy.json.

The test integrates along another ray and compares: the first case of each regime in every run, all with --full.
"""

from __future__ import annotations

import json
import runpy
from pathlib import Path

from mpmath import mp, nstr

HERE = Path(__file__).parent


def main() -> None:
    """Compute and write."""
    accuracy = runpy.run_path(str(HERE.parents[1] / "docs" / "accuracy.py"))
    with mp.workdps(70):
        found = {
            regime: [nstr(accuracy["reference"](terms, epsilon), 65) for _, terms, epsilon in cases]
            for regime, cases in accuracy["regimes"]().items()
        }
    (HERE / "accuracy.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
