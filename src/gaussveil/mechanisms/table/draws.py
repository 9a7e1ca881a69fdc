"""The draws of a request: keys first where they are not known, then one pass over whole units, then profiles."""

from __future__ import annotations

import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil.calibration.prefix_sums import prefix_noise
from gaussveil.mechanisms.noisy_sums import NoisySums, noise_design, shared_design
from gaussveil.mechanisms.table.answers import TableAnswer, Variance
from gaussveil.mechanisms.table.curves import OCTAVES
from gaussveil.mechanisms.table.means import ProfileDraw
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.mechanisms.table.profile import ProfileDraws
from gaussveil.mechanisms.table.quantiles import ROUND_SHARES, QuantileSearch
from gaussveil.mechanisms.table.radii import quantile_of_norms
from gaussveil.noise import Generator
from gaussveil.postprocessing.intervals import Interval, Variances
from gaussveil.statistics import ExactSum, Source
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.fixed_point import carry, scaled
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Bins, Thresholds
from gaussveil.statistics.statistic import State
from gaussveil.statistics.unit_cells import BIN_BITS, ROW_BITS, UnitCells, UnitTotals
from gaussveil.typing import Floats, Integers

LARGEST_KEY_COUNT = 2**40
BEYOND = (
    1e-4,
    0.25,
)  # of rows that a learnt range leaves out: for a variance what its noise is worth
SIZES = 2.0 ** OCTAVES[:-1]


@dataclass
class Drawn:
    """What was drawn, per group: rows (G), sums of features and lone sums (m, G), bins of histograms (G, B)."""

    rows: Floats | None = None
    features: list[Floats] = field(default_factory=list)
    lone_sums: list[Floats] = field(default_factory=list)
    histograms: list[Floats] = field(default_factory=list)
    cumulatives: list[Floats] = field(default_factory=list)
    quantiles: list[Interval] = field(default_factory=list)
    profiles: list[ProfileDraw] = field(default_factory=list)


@dataclass(frozen=True)
class RowTotals(UnitTotals):
    """Sums over units that keep at most `groups` groups and weigh at most `rows` rows in each."""

    rows: int
    groups: int
    reader: CellReader
    whole: tuple[bool, ...] = ()
    """Of the first histograms, whether units count in them in whole rows."""

    def shapes(self) -> dict[str, tuple[int, ...]]:
        """Counts, features, and bins of each histogram."""
        cells = self.reader.groups
        shapes: dict[str, tuple[int, ...]] = {
            "rows": (cells,),
            "features": (len(self.reader.features), cells),
        }
        widths = [bins.size + isinstance(bins, Bins) for bins in self.reader.bins]
        return shapes | {f"bins {k}": (cells, width) for k, width in enumerate(widths)}

    def vectors(self, cells: UnitCells) -> dict[str, Integers]:
        """Each unit within its bounds; rows outside all bins of a histogram are one more."""
        bounded = cells.bounded(self.rows, self.groups)
        found = {"rows": bounded.rows, "features": np.moveaxis(bounded.features, 0, 1)}
        for k, (bins, kind) in enumerate(zip(bounded.bins, self.reader.bins)):
            if k < len(self.whole) and self.whole[k]:
                all_rows = _with_outside(cells.bins[k], cells.rows)
                bins = whole_rows(all_rows, bounded.rows) * 2**BIN_BITS
            elif isinstance(kind, Bins):
                bins = _with_outside(bins, bounded.rows * 2**BIN_BITS)
            found[f"bins {k}"] = bins
        return found


def _with_outside(bins: Integers, rows: Integers) -> Integers:
    """The bins and, as one more, the rows outside all of them."""
    outside = rows[..., None] - bins.sum(axis=-1, keepdims=True)
    return np.concatenate([bins, outside], axis=-1)


def whole_rows(bins: Integers, rows: Integers) -> Integers:
    """So many rows, shared among bins (last axis) as all rows of a unit are: rounded down, then largest remainders.

    Of equal remainders the first bin has precedence; where a unit has no more rows than these they are its own.
    """
    many = np.maximum(bins.sum(axis=-1, keepdims=True), 1)
    shared, left = np.divmod(bins * rows[..., None], many)
    missing = rows - shared.sum(axis=-1)
    order = np.argsort(-left, axis=-1, kind="stable")
    rank = np.empty_like(order)
    places = np.broadcast_to(np.arange(order.shape[-1]), order.shape)
    np.put_along_axis(rank, order, places, axis=-1)
    return np.asarray(shared + (rank < missing[..., None]))


@dataclass(repr=False)  # holds exact sums
class TableDraws(NoisySums):
    """One release's access to a table: every draw spends a part of the mean shift that was charged."""

    source: Source
    noise: TableNoise
    mean_shift: float
    generator: Generator | None
    read: dict[str, Any] = field(default_factory=dict, init=False)

    def prepare(self) -> None:
        """Read all that does not depend on a draw, so that a table that cannot be read costs nothing."""
        request = self.noise.request
        if not request.discovered:
            if not request.learning:
                self._totals()
            self.read["profiles"] = [
                self._profile(place) for place in range(len(request.profiles))
            ]
        for name, key in request.discovered.items():
            self.read[f"keys {name}"] = self.source.units_per_value(
                request.unit, key.column, key.per_unit
            )

        for column in request.learnt_ranges:
            reader = CellReader(
                request.unit,
                (),
                (),
                (Thresholds(column, np.concatenate([-SIZES[::-1], SIZES])[None]),),
            )
            (sums,) = bins_of(
                self.source.fold_units(reader, RowTotals(1, 1, reader), [])
            )
            both = (
                sums.limbs[:, 0, len(SIZES) + 1 :]
                + sums.limbs[:, 0, len(SIZES) - 1 :: -1]
            )
            self.read[f"range {column}"] = ExactSum(carry(both), sums.unit)

    def _profile(self, place: int) -> ProfileDraws:
        request = self.noise.request
        noise = self.noise.profile(place)
        keys = tuple(key for key in request.keys.values() if isinstance(key, Key))
        reader = CellReader(
            request.unit, keys, (noise.answer.feature,), present=request.numbers
        )
        return ProfileDraws(self, self.source, reader, noise)

    def ranges(self) -> dict[TableAnswer, float]:
        """Up to which size values count, where that is learnt: a unit adds its rows' shares in octaves, 1 in all."""
        noise = self.noise
        counts = {}
        for column in noise.request.learnt_ranges:
            self.spend(loss := noise.losses[f"range {column}"])
            sums: ExactSum = self.read[f"range {column}"]
            counts[column] = np.append(
                0, self.noisy(noise_design(loss**-0.5, sums.shape, *sums.shape), sums)
            )
        found: dict[TableAnswer, float] = {}
        for one in noise.request.learning:
            units = max(float(counts[one.column].sum()), 1.0)
            if isinstance(one, Variance):
                worth = math.sqrt(noise.features[-1]) / noise.request.rows / units
            else:
                worth = 0.0
            found[one] = quantile_of_norms(
                counts[one.column], 1 - float(np.clip(worth, *BEYOND)), loss**-0.5
            )
        return found

    def keys(self) -> dict[str, list[Any]]:
        """Values of keys that nobody listed: those whose noisy number of units passes the threshold, sorted."""
        return {
            name: self._values(name, key.per_unit)
            for name, key in self.noise.request.discovered.items()
        }

    def _values(self, name: str, per_unit: int) -> list[Any]:
        noise = self.noise
        self.spend(noise.losses[f"keys {name}"])
        values, counts = self.read[f"keys {name}"]
        padded = np.zeros(max(len(counts), per_unit), dtype=np.int64)
        padded[: len(counts)] = np.minimum(counts, LARGEST_KEY_COUNT)
        design = noise_design(noise.key_deviation(name), padded.shape, per_unit)
        noisy = self.noisy(design, ExactSum(scaled(padded, 0), 1.0))[: len(counts)]
        largest = np.argsort(-noisy, kind="stable")[: noise.request.most_values]
        found: list[Any] = []
        for one in values.take(
            pa.array(largest[noisy[largest] > noise.key_threshold(name)])
        ):
            with suppress(
                UnicodeDecodeError
            ):  # bytes that are no text are no key, whoever shares them
                found.append(one.as_py())
        if all(isinstance(one, float) and one.is_integer() for one in found):
            found = [
                int(one) for one in found
            ]  # of a column in which others, not shown, hold fractions
        return sorted(found)

    def rows(self) -> Drawn:
        """Counts, sums and histograms of all groups: one pass, one draw of each kind."""
        request = self.noise.request
        noise = self.noise
        drawn = Drawn()
        state = self._totals()
        sums = [
            ExactSum(one, 2.0**-ROW_BITS)
            for one in np.moveaxis(state["features"], 1, 0)
        ]
        bins = bins_of(state)
        if request.counted:
            self.spend(noise.losses["rows"])
            drawn.rows = self._shared(noise.count, ExactSum(state["rows"], 1.0))
            drawn.features = [
                self._white(math.sqrt(v), one) for v, one in zip(noise.features, sums)
            ]
        for k, one in enumerate(sums[len(request.features) :]):
            self.spend(noise.losses[f"sum {k}"])
            drawn.lone_sums.append(self._shared(noise.lone_sums[k], one))
        for k, one in enumerate(bins[: len(request.histograms)]):
            self.spend(noise.losses[f"histogram {k}"])
            drawn.histograms.append(self._white(math.sqrt(noise.histograms[k]), one))
        bins = bins[len(request.histograms) :]
        for k, one in enumerate(bins[: len(request.cumulatives)]):
            self.spend(noise.losses[f"cumulative {k}"])
            drawn.cumulatives.append(
                self._white(noise.cumulatives[k] * prefix_noise(one.shape[1]), one)
            )
        return drawn

    def searched(self) -> list[QuantileSearch]:
        """All searches side by side: what round 0 counts was read beforehand, every later round reads anew."""
        searches = self.noise.searches()
        for number in range(len(ROUND_SHARES) if searches else 0):
            if number:
                state = self._read(tuple(one.limits for one in searches))
            else:
                state = self._totals()
            for one, sums in zip(searches, bins_of(state)[-len(searches) :]):
                if one.together:
                    sums = ExactSum(
                        carry(sums.limbs.sum(axis=1, keepdims=True)), sums.unit
                    )
                self.spend(one.loss(number))
                one.learn(self._white(one.covariance(number), sums))
        return searches

    def profiles(self) -> list[ProfileDraw]:
        """Each profile in draws of its own."""
        return [one.draw() for one in self.read.get("profiles", [])]

    def _totals(self) -> State:
        """Exact sums of the bounded units, read once."""
        if "totals" not in self.read:
            self.read["totals"] = self._read()
        found: State = self.read["totals"]
        return found

    def _read(self, limits: tuple[Thresholds, ...] | None = None) -> State:
        """Everything in one pass; or, for a later round, what lies between limits, of the same rows."""
        reader = self.noise.request.reader
        request = self.noise.request
        if limits is not None:
            reader = replace(reader, features=(), bins=limits, present=reader.numbers)
        whole: tuple[bool, ...] = ()
        if limits is None:
            whole = tuple(bool(one.whole) for one in request.histograms)
        totals = RowTotals(request.rows, request.touched, reader, whole)
        wanted = request.counted or reader.features or reader.bins
        if wanted:
            return self.source.fold_units(reader, totals, [])
        return totals.empty()

    def _white(self, scale: float | Floats, sums: ExactSum) -> Floats:
        return self.noisy(
            noise_design(scale, sums.shape, self._differing(sums.shape)), sums
        )

    def _shared(self, variances: Variances, sums: ExactSum) -> Floats:
        if variances.shared <= 2.0**-40 * variances.own or len(sums.shape) == 0:
            return self._white(math.sqrt(variances.own + variances.shared), sums)
        differing = self._differing(sums.shape)
        return self.noisy(
            shared_design(variances.own, variances.shared, sums.shape, differing), sums
        )

    def _differing(self, shape: tuple[int, ...]) -> int:
        """In how many numbers of a draw two neighbours can differ."""
        return min(self.noise.request.touched, shape[0]) * math.prod(shape[1:])


def bins_of(state: State) -> list[ExactSum]:
    """The counts of every bin, in the order of the reader."""
    return [
        ExactSum(state[name], 2.0**-BIN_BITS)
        for name in state
        if name.startswith("bins")
    ]
