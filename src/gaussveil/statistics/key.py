"""A public key: what every list or function of a column promises that groups a table's rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.typing import Integers


@dataclass(frozen=True)
class Key(ABC):
    """A public function of one column with a public list of values."""

    column: str

    @property
    @abstractmethod
    def values(self) -> Sequence[Any]:
        """What the groups are called, in order."""

    @abstractmethod
    def check(self, schema: pa.Schema) -> None:
        """Refuse a column that is missing or of another type, before anything is read."""

    @abstractmethod
    def codes(self, cells: pa.Array) -> Integers:
        """Place of every cell's value among `values`, -1 where it is not one of them."""

    @property
    def cycle(self) -> bool:
        """Whether the last value is followed by the first, as hours of the day are."""
        return False


def places_of(codes: pa.Array, first: int = 0) -> Integers:
    """Places that begin at 0 of codes that begin at `first`; -1 where there is no code."""
    places = (
        codes.cast(pa.int64()).fill_null(first - 1).to_numpy(zero_copy_only=False)
        - first
    )
    return np.asarray(np.maximum(places, -1))
