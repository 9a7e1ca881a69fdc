"""The synthetic table under the laws: its output is everything that its draws hand out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gaussveil.accounting import Certificate
from gaussveil.mechanisms import SyntheticTable
from gaussveil.mechanisms.synthetic.draws import SyntheticDraws
from gaussveil.noise import GaussianNoise

Matrix = NDArray[np.float64]

SIZE = 3  # whole numbers 0, 1, 2 and the missing cell
NOBODY = pa.table({"age": pa.array([], pa.int64())})
SOMEBODY = pa.table({"age": [1]})


def build(**changes: Any) -> SyntheticTable:
    return SyntheticTable(**{"between": {"age": (0, SIZE - 1)}, **changes})


def draws(mechanism: SyntheticTable, data: pa.Table, count: int) -> Matrix:
    """What one release after another hands out: the number of records, and the counts of the cells."""
    records = mechanism._records(data)
    handed = []
    for _ in range(count):
        made = SyntheticDraws(records, mechanism._mean_shift(records), mechanism._shares(records), mechanism.generator)
        seen: list[Matrix] = []
        noisy = made.passes.noisy

        def note(noise: GaussianNoise, *sums: Any, noisy: Any = noisy, seen: list[Matrix] = seen) -> Matrix:
            seen.append(noisy(noise, *sums))
            return seen[-1]

        made.passes.__dict__["noisy"] = note
        made.model()
        handed.append(np.concatenate([one.ravel() for one in seen]))
    return np.array(handed)


def deviations(certificate: Certificate) -> Matrix:
    noise: Any = certificate.parameters["noise"]
    return np.array([noise["counts"], *[noise["cells"]] * (SIZE + 1)])


def centre(data: pa.Table) -> Matrix:
    return np.array([1.0, 0.0, 1.0, 0.0, 0.0]) * len(data)


def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
    return (noise / deviations(certificate)).T


def score(certificate: Certificate, noise: Matrix) -> Matrix:
    return np.asarray(noise @ (centre(SOMEBODY) / deviations(certificate) ** 2))


def grid(certificate: Certificate) -> float:
    scales = deviations(certificate)
    return min(GaussianNoise(scales[0], (1,)).grid, GaussianNoise(scales[1], (SIZE + 1,), differing=1).grid)


def synthetic(name: str) -> dict[str, Any]:
    """`SyntheticTable` of one column of few whole numbers."""
    return {
        "name": name,
        "build": build,
        "value": NOBODY,
        "neighbour": SOMEBODY,
        "centre": centre,
        "draws": draws,
        "residuals": residuals,
        "score": score,
        "grid": grid,
        "malformed": (
            None,
            pa.table({"height": [1]}),
            pa.table({"age": ["a"]}),
            pa.table({"age": [[1]]}),
        ),
        "bad_records": (pa.table({"age": pa.array([None, 7, -3], pa.int64())}),),
    }
