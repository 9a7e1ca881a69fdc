"""G-a by samples: how often additive Wishart noise leaves the neighbour's cone."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.audit import audit_mechanism
from gaussveil.typing import Progress
from gaussveil_studies.gmm.releases import EPSILONS
from gaussveil_studies.published.additive_wishart import (
    additive_wishart,
    escape_probability,
    evidence,
    wishart_rate,
)
from gaussveil_studies.study import (
    Options,
    Part,
    Row,
    Table,
)


def wishart(options: Options, progress: Progress) -> Part:
    """G-a by samples: how often additive Wishart noise leaves the neighbour's cone."""
    count = 50
    draws = options.pick(2000, 4000, 40_000)
    rows: list[Row] = []
    generator = np.random.default_rng(options.seed)
    smaller = np.diag([0.5, 0.3, 0.2])
    larger = smaller + np.diag([1.0 / count, 0.0, 0.0])
    for place, epsilon in enumerate(EPSILONS):
        progress(f"additive Wishart at epsilon {epsilon:g}", place / len(EPSILONS))
        rate = wishart_rate(count, epsilon)
        found = audit_mechanism(
            partial(_wishart, rate, generator),
            smaller,
            larger,
            draws=draws,
            claim=(epsilon, 0.0),
            test=lambda outputs: evidence(outputs.reshape(-1, 3, 3), larger),
        )
        event = found.events[0]
        share = event.hits / event.trials
        rows.append(
            {
                "epsilon": epsilon,
                "claimed": 0.0,
                "escape": escape_probability(rate, 1.0 / count),
                "measured": share,
                "error": math.sqrt(share * (1 - share) / event.trials),
                "refuted": str(found.refuted).lower(),
            }
        )
    columns = (
        "epsilon; claimed: claimed delta; escape: delta at least; measured; error: standard error; refuted: auditor "
        "refutes"
    )
    return Part(
        "Additive Wishart noise, by samples",
        (
            "Second moments of 50 unit rows, as the theorem that Lemma 2 cites has them, one row more: an output "
            "outside the neighbour's cone convicts with certainty. The case of the paper's own adjacency stands among "
            "the claims.",
        ),
        (Table.of("wishart", rows, columns),),
    )


def _wishart(
    rate: float, generator: np.random.Generator, matrix: Any, draws: int
) -> NDArray[np.float64]:
    return additive_wishart(matrix, rate, generator, draws).reshape(draws, -1)
