"""The draw of a synthetic table that finds values of categories: noisy numbers of units that have each, in one draw."""

from __future__ import annotations

import math
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.synthetic.budget import MOST_CLASSES, MOST_VALUES, Shares
from gaussveil.mechanisms.synthetic.records import TableRecords
from gaussveil.mechanisms.table.draws import LARGEST_KEY_COUNT
from gaussveil.mechanisms.table.noise import key_threshold
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.statistics import ExactSum
from gaussveil.statistics.fixed_point import scaled
from gaussveil.typing import Floats, Integers


class Access(Protocol):
    """What the draw asks of a release's access to the rows."""

    records: TableRecords
    cells: dict[str, Any]
    rows: int
    """Of a unit, at most."""
    shares: Shares
    allowed: float
    """What one row may lose."""
    passes: PrivatePasses


def found_columns(draws: Access, key_error: float) -> list[Column]:
    """All columns, those whose values nobody listed with the values that enough units share.

    All of them are one draw, however many there are: draws are limited, and the limit would end a release that is paid.

    Args:
        key_error: the chance that a value which one unit alone has may show in any of them.
    """
    wanted = draws.records.finding
    if not wanted:
        return list(draws.records.columns)
    rows = draws.rows
    loss = rows**2 * draws.shares.found * draws.allowed**2
    draws.passes.spend(loss)
    deviation = math.sqrt(rows * len(wanted) / loss)
    counted = [
        draws.records.counted_values(one, draws.cells[one.name]) for one in wanted
    ]
    padded = [_padded(counts, rows) for _, counts in counted]
    flat = np.concatenate(padded)
    design = noise_design(deviation, flat.shape, rows * len(wanted))
    noisy = draws.passes.noisy(design, ExactSum(scaled(flat, 0), 1.0))
    threshold = key_threshold(deviation, key_error / (len(wanted) * rows))
    ends = np.cumsum([len(one) for one in padded])
    found = {}
    parts = np.split(noisy, ends[:-1])
    for column, (values, counts), part in zip(wanted, counted, parts):
        is_label = column.name == draws.records.label
        if is_label:
            most = MOST_CLASSES - 1
        else:
            most = MOST_VALUES - 1
        shown = _shown(values, part[: len(counts)], threshold, most)
        found[column.name] = column.with_found(shown, not is_label)
    return [found.get(one.name, one) for one in draws.records.columns]


def _padded(counts: Integers, rows: int) -> Integers:
    """Counts of a column's values, with zeros for as many as a unit may bring."""
    padded = np.zeros(max(len(counts), rows), dtype=np.int64)
    padded[: len(counts)] = np.minimum(counts, LARGEST_KEY_COUNT)
    return padded


def _shown(values: pa.Array, noisy: Floats, threshold: float, most: int) -> list[Any]:
    """The values beyond the threshold in order, the most frequent ones where there are too many."""
    largest = np.argsort(-noisy, kind="stable")[:most]
    shown = []
    for one in values.take(pa.array(largest[noisy[largest] > threshold])):
        # bytes that are no text are no value, whoever shares them
        with suppress(UnicodeDecodeError):
            shown.append(one.as_py())
    return sorted(shown)
