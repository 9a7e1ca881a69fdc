"""Poisson selection: each record enters a sample independently, with exactly the stated rate."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from gaussveil.errors import ParameterError
from gaussveil.noise.bernoulli import bernoulli
from gaussveil.noise.generator import Generator


def poisson_select(records: int, rate: float | Fraction, generator: Generator | None = None) -> NDArray[np.int64]:
    """Increasing indices in 0..records-1 of the records selected. The sample, its size included, must stay secret."""
    if records < 0:
        raise ParameterError(f"records must be a nonnegative count; got {records}.")
    return np.flatnonzero(bernoulli(rate, records, generator)).astype(np.int64)
