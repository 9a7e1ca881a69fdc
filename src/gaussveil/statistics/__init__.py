"""Mergeable statistics in exact integers, bounded contributions, and the Source protocol."""

from __future__ import annotations

from gaussveil.statistics.affine import Affine
from gaussveil.statistics.block import Block, Labels, Nearest, Reader
from gaussveil.statistics.fixed_point import ExactSum, FixedPoint
from gaussveil.statistics.histogram import Histogram
from gaussveil.statistics.memory import MemorySource, as_source
from gaussveil.statistics.moments import Gram, Moments, MomentSums
from gaussveil.statistics.source import Source
from gaussveil.statistics.statistic import RowCount, Statistic

__all__ = [
    "Affine",
    "Block",
    "ExactSum",
    "FixedPoint",
    "Gram",
    "Histogram",
    "Labels",
    "MemorySource",
    "MomentSums",
    "Moments",
    "Nearest",
    "Reader",
    "RowCount",
    "Source",
    "Statistic",
    "as_source",
]
