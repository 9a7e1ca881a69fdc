"""The mixture under the laws: its output is everything that its passes hand out."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import block_diag

from gaussveil.accounting import Certificate, Release
from gaussveil.mechanisms import PrivateGaussianMixture
from gaussveil.mechanisms.mixture.budget import INNER_BALL, RADIUS_BINS, RefinementScales
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import read_records
from gaussveil.mechanisms.mixture.stages import Surroundings, for_stages, run_stages
from gaussveil.noise import GaussianNoise
from gaussveil.statistics import ExactSum

Matrix = NDArray[np.float64]
Data = tuple[Any, Any]

# No record against one so far away that it is clipped in every pass: what it adds never depends on earlier outputs.
NOBODY: Data = (np.empty((0, 1)), np.empty(0, dtype=np.int64))
SOMEBODY: Data = (np.array([[1e9]]), np.array([0]))
SIZE, RADIUS = 50, 2.0  # so few that the first sums are clipped to the smallest inner ball


class RecordedPasses(PrivatePasses):
    """Passes that remember what they handed out."""

    def _noisy(self, noise_scale: float | Matrix, *sums: ExactSum) -> Matrix:
        handed = super()._noisy(noise_scale, *sums)
        self.__dict__.setdefault("outputs", []).append(handed.reshape(self.groups, -1))
        return handed


def build(**changes: Any) -> PrivateGaussianMixture:
    return PrivateGaussianMixture(**{"radius": RADIUS, "classes": [0], "nominal_size": SIZE, **changes})


def release(mechanism: PrivateGaussianMixture, data: Data) -> Release[Any]:
    mechanism.fit(*data)
    return Release(mechanism.model_, mechanism.certificate_)


def draws(mechanism: PrivateGaussianMixture, data: Data, count: int) -> Matrix:
    """One fit of many classes, each with a copy of the data: what it hands out for each is one draw."""
    classes = list(range(count))
    rows, labels = np.repeat(data[0], count, axis=0), np.tile(classes, len(data[0])).astype(np.int64)
    records = read_records(rows, labels, classes=classes, columns=None)
    shift = float(
        build(epsilon=mechanism.epsilon, delta=mechanism.delta).fit(*NOBODY).certificate_.parameters["mean_shift"]
    )  # type: ignore[arg-type]
    passes = RecordedPasses(records.source, records.columns, records.group, count, 1, 1, shift, mechanism.generator)
    run_stages(passes, Surroundings(RADIUS, np.zeros(1), SIZE * count), for_stages(shift))
    return np.concatenate(passes.__dict__["outputs"], axis=1)


def blocks(certificate: Certificate) -> list[Matrix]:
    """Covariances of what the passes hand out, in their order, as the certificate declares them."""
    (_, ball, histogram, refinements) = certificate.parameters["noise"].values()  # type: ignore[attr-defined]
    found = [np.array([[scale**2]]) for scale in ball]
    found += [histogram**2 * np.eye(RADIUS_BINS)]
    for scales in refinements:
        found += [np.array([[scales[1] ** 2]]), RefinementScales(*scales).count_and_diagonal(1)]
    return found


def centre(data: Data) -> Matrix:
    one = [1.0, INNER_BALL * RADIUS, *[0.0] * (RADIUS_BINS - 1), 1.0, *[1.0, 1.0, 1.0] * 4]
    return np.array(one) * len(data[0])


def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
    return np.linalg.solve(np.linalg.cholesky(block_diag(*blocks(certificate))), noise.T)


def score(certificate: Certificate, noise: Matrix) -> Matrix:
    return np.asarray(noise @ np.linalg.solve(block_diag(*blocks(certificate)), centre(SOMEBODY)))


def grid(certificate: Certificate, classes: int = 1) -> float:
    """The finest of the passes' grids; the others are multiples of it."""
    white = [float(block[0, 0]) ** 0.5 for block in blocks(certificate) if len(block) in (1, RADIUS_BINS)]
    sizes = [len(block) for block in blocks(certificate) if len(block) in (1, RADIUS_BINS)]
    coloured = [block for block in blocks(certificate) if len(block) == 2]
    return min(
        *(GaussianNoise(scale, (classes, size)).grid for scale, size in zip(white, sizes)),
        *(GaussianNoise(block, (classes, 2)).grid for block in coloured),
    )


def mixture(name: str) -> dict[str, Any]:
    """`PrivateGaussianMixture` of one class in one column."""
    labels = np.array([0])
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
        "release": release,
        "malformed": (
            (None, labels),
            (np.zeros(3), np.zeros(3)),
            (np.array([["a"]]), labels),
            (np.zeros((2, 1)), labels),
            (np.zeros((1, 0)), labels),
            (np.zeros((1, 1)), np.zeros((1, 2))),
            (np.zeros((1, 1)) * 1j, labels),
        ),
        "bad_records": ((np.array([[np.nan], [np.inf], [0.5]]), np.array([0, 0, 7])),),
    }
