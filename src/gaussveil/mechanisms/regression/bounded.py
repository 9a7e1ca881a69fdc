"""What regressions share: bounded rows, bounds given or searched inside the budget, several noisy sums, one charge."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
import scipy

from gaussveil import checks
from gaussveil.accounting import Adjacency, Charge, Release
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ShapeError
from gaussveil.mechanisms.noisy_sums import (
    ROUNDING_SHIFT,
    SAMPLER_RESERVE,
    NoisySums,
    noise_design,
)
from gaussveil.mechanisms.regression.rows import ColumnHistograms, GivenTable
from gaussveil.mechanisms.release_path import Mechanism, Plan
from gaussveil.noise import Generator
from gaussveil.spectrum import GaussianPair
from gaussveil.typing import Floats

Value = TypeVar("Value")

MOMENTS_RESERVE = 1 - 2.0**-40  # of delta and of a mean shift, left for roundings
AUTO_SHARE = 0.2  # of t^2, for bounds="auto": half of it for octaves, a quarter for each closer look
POWERS = tuple(2.0**power for power in range(-34, 36))
OCTAVES = (*(-power for power in POWERS[::-1]), 0.0, *POWERS)
ZOOM_BINS = 32
FALSELY = 0.01  # chance that an empty octave of any column is taken to hold somebody
TARGET_ROOM = 1.5  # targets are clipped to their bounds, and what is clipped is biased
HARDLY = 0.01  # of all rows: what may lie beyond the bounds that are found


@dataclass
class Draws(NoisySums):
    """The passes over one table, under one charge."""

    table: GivenTable
    mean_shift: float
    generator: Generator | None

    def spend_row(self, squared_loss: float) -> None:
        """Add one row's squared loss; a unit of m rows has at most m^2 times it."""
        self.spend(self.table.source.rows_per_unit**2 * squared_loss)

    def bounds(
        self, given: list[tuple[float, float] | None], mean_shift: float
    ) -> Floats:
        """Centre and scale of each column; bounds not given are searched: octaves first, then two closer looks."""
        missing = [place for place, pair in enumerate(given) if pair is None]
        found = np.asarray([pair or (0.0, 1.0) for pair in given])
        if not missing:
            return centre_and_scale(found)
        columns = [self.table.columns[place] for place in missing]
        spans = self._octaves(columns, mean_shift * math.sqrt(0.5))
        for _ in range(2):
            spans = self._without_ends(columns, spans, mean_shift / 2)
        widened = np.where(
            np.asarray(missing) < len(self.table.features), 1.0, TARGET_ROOM
        )
        found[missing] = spans.mean(axis=1, keepdims=True) + widened[:, None] * np.diff(
            spans, axis=1
        ) * (-0.5, 0.5)
        return centre_and_scale(found)

    def _counts(
        self, columns: list[str], edges: Floats, mean_shift: float
    ) -> tuple[Floats, float]:
        """Noisy counts, one row per column, and their deviation."""
        statistic = ColumnHistograms(tuple(map(tuple, edges.tolist())))
        counts = self.table.source.aggregate(statistic, columns=columns)
        scale = math.sqrt(len(columns)) / mean_shift
        self.spend_row(len(columns) / scale**2)
        return self.noisy(
            noise_design(
                scale, counts.shape, len(columns) * self.table.source.rows_per_unit
            ),
            counts,
        ), scale

    def _octaves(self, columns: list[str], mean_shift: float) -> Floats:
        """From the first to the last octave, negative ones before positive ones, that surely holds somebody.

        Where none does it is the widest span of all columns: too small a unit would make a column's values wild, too
        large a one lets it fade. Numbers next to zero tell no unit.
        """
        edges = np.asarray(OCTAVES)
        noisy, scale = self._counts(
            columns, np.tile(edges, (len(columns), 1)), mean_shift
        )
        surely = scale * -float(scipy.special.ndtri(FALSELY / noisy.size))
        beside_zero = edges[1:] * edges[:-1] == 0
        sure = (noisy > surely) & ~beside_zero
        first = sure.argmax(axis=1)
        last = sure.shape[1] - sure[:, ::-1].argmax(axis=1)
        spans = np.stack((edges[first], edges[last]), axis=1)
        # small numbers fill few octaves, each with few: where the span reaches far towards 0 it begins there
        spans = np.where(
            np.abs(spans) < np.max(np.abs(spans), axis=1, keepdims=True) / 8, 0.0, spans
        )
        with_zero = spans.clip([-np.inf, 0.0], [0.0, np.inf])
        zeros = np.asarray((noisy[:, beside_zero] > surely).any(axis=1))
        told = np.asarray(sure.any(axis=1))
        if told.any():
            widest = (with_zero[told, 0].min(), with_zero[told, 1].max())
        else:
            widest = (-1.0, 1.0)
        return np.where(
            told[:, None], np.where(zeros[:, None], with_zero, spans), widest
        )

    def _without_ends(
        self, columns: list[str], spans: Floats, mean_shift: float
    ) -> Floats:
        """The spans less the bins at both ends that hold hardly anybody, the noise allowed for."""
        edges = np.linspace(spans[:, 0], spans[:, 1], ZOOM_BINS + 1, axis=1)
        noisy, scale = self._counts(columns, edges, mean_shift)
        few = HARDLY * noisy.sum(axis=1, keepdims=True) - 2 * scale * np.sqrt(
            np.arange(1, ZOOM_BINS + 1)
        )
        places = np.arange(len(columns))
        ends = [
            np.where(empty.all(axis=1), 0, (~empty).argmax(axis=1))
            for empty in (
                np.cumsum(side, axis=1) <= few for side in (noisy, noisy[:, ::-1])
            )
        ]
        return np.stack(
            (edges[places, ends[0]], edges[places, ZOOM_BINS - ends[1]]), axis=1
        )


@dataclass(kw_only=True, eq=False, repr=False)
class BoundedMechanism(Mechanism):
    """Base of the estimators on bounded rows."""

    public: ClassVar[str] = "columns, their types, the bounds and row_norm"
    epsilon: Any = 1.0
    delta: Any = 1e-6
    bounds: Any = "auto"
    row_norm: float | None = None
    unit: Any = None
    rows_per_unit: int | None = None

    @abstractmethod
    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw."""

    def _given_norm(self) -> float | None:
        """Radius, in units of half a range, beyond which a row is weighted down; None if it follows from the look."""
        if self.row_norm is None:
            return None
        return checks.size("row_norm", self.row_norm)

    def _publish_sums(
        self,
        table: GivenTable,
        draw: Callable[[Draws, Floats, float], Value],
        *,
        released: str,
        coordinates: int,
        parameters: Callable[[float], dict[str, object]],
        target_bounds: Any = "auto",
    ) -> Release[Value]:
        """Debit, draw, certify. `draw` gets the draws, centre and scale of each column, and a row's mean shift."""
        stated = _column_bounds("bounds", self.bounds, table.feature_names)
        stated += _column_bounds("target_bounds", target_bounds, table.target_names)
        promise = self.promise
        searched = any(pair is None for pair in stated)
        bins = searched * len(stated) * (len(OCTAVES) + 2 * ZOOM_BINS)
        error = SAMPLER_RESERVE * (coordinates + bins)
        shift = mean_shift_for(
            promise.epsilon, promise.ideal_delta(error, MOMENTS_RESERVE)
        )
        rows = table.source.rows_per_unit
        if shift / rows <= 4 * ROUNDING_SHIFT:
            checks.refuse(
                "rows_per_unit",
                "smaller, or epsilon and delta larger, for any noise to suffice",
                rows,
            )
        usable = (shift - ROUNDING_SHIFT) * MOMENTS_RESERVE / rows
        left = usable * math.sqrt(1 - AUTO_SHARE * searched)
        plan = Plan(
            charge=Charge(GaussianPair.mean_shift(shift), sampler_error=error),
            released=released,
            adjacency=Adjacency.add_remove(table.unit),
            assumptions=(
                f"{self.public} are public knowledge"
                + (
                    ", but for bounds that were searched inside the budget"
                    if searched
                    else ""
                ),
                f"of each {table.unit} at most {rows} {'row is' if rows == 1 else 'rows are'} used",
            ),
            parameters={
                "rows_per_unit": rows,
                "mean_shift": shift,
                "bounds": [
                    "searched" if pair is None else list(pair) for pair in stated
                ],
                **parameters(left),
            },
        )

        def drawn() -> Value:
            draws = Draws(table, shift, self.generator)
            return draw(
                draws, draws.bounds(stated, usable * math.sqrt(AUTO_SHARE)), left
            )

        return self._publish(plan, drawn, table.source)


def centre_and_scale(bounds: Floats) -> Floats:
    """Middles and half widths, one column each."""
    low, high = bounds.T
    return np.stack((low / 2 + high / 2, high / 2 - low / 2), axis=1)


def _column_bounds(
    name: str, bounds: Any, columns: tuple[str, ...]
) -> list[tuple[float, float] | None]:
    """A pair for each column, None where it is to be searched."""
    if isinstance(bounds, str):
        checks.one_of(name, bounds, ("auto",))
        return [None] * len(columns)
    pairs: Sequence[Any]
    if isinstance(bounds, dict):
        unknown = set(bounds) - set(columns)
        if unknown:
            checks.refuse(
                name,
                f"bounds of columns among {', '.join(columns)}",
                ", ".join(map(str, unknown)),
            )
        pairs = [bounds.get(column) for column in columns]
    elif _are_pairs(bounds, len(columns)):
        pairs = [*bounds]  # a tuple of two lists holds ends, a list of tuples pairs
    else:
        pairs = _pairs_of_ends(name, bounds, columns)
    return [None if pair is None else checks.span(name, pair) for pair in pairs]


def _are_pairs(bounds: Any, count: int) -> bool:
    if not isinstance(bounds, list) or len(bounds) != count:
        return False
    return all(isinstance(pair, tuple) and len(pair) == 2 for pair in bounds)


def _pairs_of_ends(
    name: str, bounds: Any, columns: tuple[str, ...]
) -> list[tuple[float, float]]:
    """Pairs of (all lows, all highs), or of one low and one high for all."""
    try:
        low, high = (
            np.broadcast_to(np.asarray(end, dtype=np.float64), (len(columns),))
            for end in bounds
        )
    except (TypeError, ValueError):
        raise ShapeError(
            f'{name} must be "auto", (low, high), [(low, high), ...], (all lows, all highs), or '
            f"{{column: (low, high)}} of {', '.join(columns[:3])}{', ...' * (len(columns) > 3)}."
        ) from None
    return [*zip(low.tolist(), high.tolist())]
