"""How good mixtures are draw by draw: the worst of 200 beside the median, and homes' held-out likelihood.

The worst draw: eight uneven classes of the paper's synthetic kind, 1000 records in three columns, epsilon 1, delta
1e-5, eight data sets; KL(released || fitted) of (row, class). The peer is the bar, five times the median.

Homes: half-day load profiles, the home as the unit, epsilon 1, classes and rows by the public rules; mean log-density
of rows of the held-out part, over draws. The peer is the bar, -15. `GAUSSVEIL_DATA` names the folder of the data;
without it this row is left out.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil_studies.gmm.releases import by_record
from gaussveil_studies.gmm.settings import profiles, synthetic
from gaussveil_studies.gmm.uses import households

SETS, DRAWS, CLASSES, BAR = 8, 200, 8, 5.0
HOME_DRAWS, LIKELIHOOD = 40, -15.0


def worst(seed: int) -> dict[str, Any]:
    setting = synthetic(seed, 1000, CLASSES)
    found = [by_record(setting, 1.0, 1000 + draw).joint_divergence(setting.fitted) for draw in range(DRAWS)]
    middle, most = float(np.median(found)), max(found)
    return {
        "name": f"worst of {DRAWS} draws over the median, {CLASSES} classes, set {seed}",
        "ours": most / middle,
        "peer": BAR,
        "ratio": BAR * middle / most,
        "goal": 1.0,
        "met": most <= BAR * middle,
        "note": f"median {middle:.3g}, mean {np.mean(found):.3g}, worst {most:.3g}",
    }


def homes(folder: Path) -> dict[str, Any]:
    (row,) = households(profiles(folder), (1.0,), 0, HOME_DRAWS)
    ours, error = float(row["by_rule"] or 0), float(row["by_rule_error"] or 0)
    return {
        "name": "held-out log-likelihood of profiles, homes hidden, by the rules",
        "ours": ours,
        "peer": LIKELIHOOD,
        "ratio": LIKELIHOOD / ours,
        "goal": 1.0,
        "met": ours - 2 * error >= LIKELIHOOD,
        "note": f"standard error {error:.2g} over {HOME_DRAWS} draws; six classes by hand {row['held_out']:.4g}",
    }


def run() -> list[dict[str, Any]]:
    folder = os.environ.get("GAUSSVEIL_DATA")
    return [*map(worst, range(SETS)), *([homes(Path(folder))] if folder else [])]


if __name__ == "__main__":
    for line in run():
        print(line)
