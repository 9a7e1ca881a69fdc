"""How far off a synthetic table is: the whole release is made again from rows that it drew, where the truth is known.

Rows of the model stand for the private table; what comes out of them by the same draws, in noise of the same size, is
compared with them. Nothing private is read: the model is released, and its rows are post-processing.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa

from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.synthetic.model import SyntheticModel
from gaussveil.postprocessing.synthetic.summary import StatedNumber, statements

Remade = Callable[[pa.Table, SeededGenerator], SyntheticModel]


def replayed_errors(
    model: SyntheticModel, remade: Remade, replays: int, size: int, seed: int
) -> list[dict[StatedNumber, float]]:
    """Errors of all statements in so many replays: of `size` drawn rows about the table that they describe."""
    errors = []
    for place in range(replays):
        table = model.sample(max(round(model.rows), 1), [seed, place, 0], anyway=True)
        again = remade(
            table,
            SeededGenerator(
                int(np.random.SeedSequence([seed, place, 1]).generate_state(1)[0])
            ),
        )
        truth = statements(table, model.columns)
        said = statements(
            again.sample(size, [seed, place, 2], anyway=True), model.columns
        )
        errors.append(
            {told: said[told] - value for told, value in truth.items() if told in said}
        )
    return errors
