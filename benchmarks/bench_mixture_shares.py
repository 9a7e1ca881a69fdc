"""What other shares of the budget would gain in private mixtures, and what the best shares of every cell would.

The paper's settings (synthetic, Iris, load profiles, MNIST) and eight classes in five columns, four epsilons, delta
1e-5, both divergences: a cell each. Ours is the geometric mean over cells of the divergence under the rule's shares
over that under the others, draw by draw: above 1 the others are better. The peer is the same of the cell where the
others do worst. "Best of each cell" is an oracle that no prediction from public numbers can be expected to beat: it
chooses by the very draws that it is judged by, which flatters it, or by half of the draws and is judged by the rest,
both ways round. `GAUSSVEIL_DATA` names the folder of the real data, without which their settings are left out.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from gaussveil.mechanisms import PrivateGaussianMixture
from gaussveil.mechanisms.mixture.budget import FEW, MANY, stage_budget
from gaussveil.mechanisms.mixture.stages import allowed_shift, for_stages
from gaussveil.mechanisms.release_path import Promise
from gaussveil.noise import SeededGenerator
from gaussveil_studies.gmm.settings import Setting, iris, mnist, profiles, synthetic

EPSILONS, DELTA = (0.5, 1.0, 2.0, 4.0), 1e-5
DRAWS = 24
ORACLE, FLATTERED = "best of each cell, chosen by other draws", "best of each cell, chosen by the same draws"
RULE = "the rule"


def alternatives(rule: Sequence[float]) -> dict[str, tuple[float, ...]]:
    """The rule's shares and changes of them, each adding up to one."""
    centres, radii, *rest = rule
    other = FEW if len(rule) == len(MANY) else MANY
    changed = {
        RULE: rule,
        "centres halved": (centres / 2, radii, *rest),
        "centres doubled": (centres * 2, radii, *rest),
        "radii halved": (centres, radii / 2, *rest),
        "radii doubled": (centres, radii * 2, *rest),
        "refinements alike": (centres, radii, *[sum(rest) / len(rest)] * len(rest)),
        "last refinement half as much again": (centres, radii, *rest[:-1], 1.5 * rest[-1]),
        "two refinements for four, or four for two": other,
    }
    return {name: tuple(share / sum(shares) for share in shares) for name, shares in changed.items()}


def logs_of(setting: Setting, epsilon: float, shares: Sequence[float]) -> list[tuple[float, float]]:
    """Logarithms of both divergences, draw by draw."""
    found = []
    for draw in range(DRAWS):
        mixture = PrivateGaussianMixture(
            epsilon=epsilon,
            delta=DELTA,
            radius=setting.radius,
            centre=setting.centre,
            nominal_size=len(setting.rows),
            classes=list(range(setting.classes)),
            shares=shares,
            generator=SeededGenerator(1000 + draw),
        )
        model = mixture.fit(setting.rows, setting.codes).model_
        both = model.joint_divergence(setting.fitted), setting.fitted.joint_divergence(model)
        found.append((float(np.log(both[0])), float(np.log(both[1]))))
    return found


def cells(setting: Setting, epsilon: float) -> tuple[list[str], np.ndarray[Any, Any]]:
    """Names of the alternatives, and alternatives x draws x divergences."""
    d = setting.rows.shape[1]
    shift = for_stages(allowed_shift(Promise(epsilon, DELTA), setting.classes, d))
    used = stage_budget(len(setting.rows), shift, setting.classes, d, setting.radius, None)
    tried = alternatives(MANY if len(used.refinements) == len(MANY) - 2 else FEW)
    return list(tried), np.array([logs_of(setting, epsilon, shares) for shares in tried.values()])


def run() -> list[dict[str, Any]]:
    named = os.environ.get("GAUSSVEIL_DATA")
    settings = [synthetic(0), synthetic(1), iris(), synthetic(0, 1000, 8, 5)]
    settings += [profiles(Path(named)), mnist(Path(named))] if named else []
    gains: dict[str, list[float]] = {}
    for setting in settings:
        for epsilon in EPSILONS:
            names, logs = cells(setting, epsilon)
            for figure in range(2):
                halves = [logs[:, start::2, figure].mean(axis=1) for start in range(2)]
                gained = [half[0] - half for half in halves]
                for place, name in enumerate(names):
                    gains.setdefault(name, []).append(float(gained[0][place] + gained[1][place]) / 2)
                crossed = gained[0][np.argmax(gained[1])] + gained[1][np.argmax(gained[0])]
                gains.setdefault(ORACLE, []).append(float(crossed) / 2)
                gains.setdefault(FLATTERED, []).append(float(np.max(gained[0] + gained[1])) / 2)
    del gains[RULE]
    return [
        {
            "name": name,
            "ours": float(np.exp(np.mean(found))),
            "peer": float(np.exp(np.min(found))),
            "ratio": float(np.exp(np.mean(found))),
            "goal": None,
            "met": True,
            "note": f"{len(found)} cells, {DRAWS} draws each",
        }
        for name, found in gains.items()
    ]


if __name__ == "__main__":
    for line in run():
        print(line)
