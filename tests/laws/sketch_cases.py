"""Sketches under the laws: the fields of their `MechanismCase`."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil.accounting import Certificate
from gaussveil.mechanisms import PrivateSketch
from gaussveil.mechanisms.random_projection.plan import SketchPlan
from gaussveil.statistics import Gram, as_source

Matrix = NDArray[np.float64]

COMPONENTS, ROW_NORM = 32, 2.5
_EMPTY, _ONE = np.zeros((0, 2)), np.array([[ROW_NORM, 0.0]])


def sketch(name: str) -> dict[str, Any]:
    """`PrivateSketch` of two columns; the neighbours that attain the leverage: an empty table, and one full record.

    Without noise there is nothing: the sketch is all noise, and the record changes its spread along the first column.
    Halved noise is a quarter of the ridge.
    """

    def build(**changes: Any) -> PrivateSketch:
        return PrivateSketch(n_components=COMPONENTS, row_norm=ROW_NORM, **changes)

    def sketches(plan: SketchPlan, mechanism: PrivateSketch, data: Matrix, count: int) -> Matrix:
        gram = as_source(data).aggregate(Gram(row_norm=ROW_NORM))
        # Columns are independent, so one draw with many of them is many draws.
        many, _ = replace(plan, components=COMPONENTS * count).draw(gram, mechanism.generator)
        return np.asarray(np.moveaxis(many.reshape(2, count, COMPONENTS), 1, 0).reshape(count, -1))

    def draws(mechanism: PrivateSketch, data: Matrix, count: int) -> Matrix:
        return sketches(mechanism.plan(2), mechanism, data, count)

    def halved(mechanism: PrivateSketch, data: Matrix, count: int) -> Matrix:
        plan = mechanism.plan(2)
        return sketches(replace(plan, excess=4 * plan.excess), mechanism, data, count)

    def residuals(certificate: Certificate, noise: Matrix) -> Matrix:
        return noise[:, COMPONENTS:] / np.sqrt(float(certificate.parameters["ridge"]))  # type: ignore[arg-type]

    def score(certificate: Certificate, noise: Matrix) -> Matrix:
        return np.asarray(np.sum(noise[:, :COMPONENTS] ** 2, axis=1))

    malformed = (np.zeros((2, 2, 2)), np.array([["a", "b"]]), [[1.0], [2.0, 3.0]], None, np.zeros((3, 0)))
    return {
        "name": name,
        "build": build,
        "value": _EMPTY,
        "neighbour": _ONE,
        "draws": draws,
        "halved_draws": halved,
        "centre": lambda data: np.zeros(2 * COMPONENTS),
        "residuals": residuals,
        "score": score,
        "malformed": malformed,
        "bad_records": (np.full((3, 2), np.nan), np.array([[np.inf, 1.0], [1e300, 1e300]]), [["a", "b"]]),
    }
