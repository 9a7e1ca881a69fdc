"""The released synthetic table: marginals by class, latent correlations, and rows drawn of them. Nothing is private."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import checks
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import ParameterError
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.copulas import correlation_room
from gaussveil.postprocessing.synthetic.latents import Latents
from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.postprocessing.synthetic.pairs import POOL, SMALLEST_POOL, CountedPairs
from gaussveil.postprocessing.synthetic.quality import Quality
from gaussveil.postprocessing.synthetic.series import Chain
from gaussveil.postprocessing.synthetic.summary import (
    Room,
    StatedNumber,
    beyond_rooms,
    model_errors,
)
from gaussveil.typing import Floats

AT_ONCE = 40_000  # rows


@dataclass(frozen=True, eq=False)
class SyntheticModel:
    """Columns in the order of the source, classes and their weights, marginals of all columns but the label."""

    columns: tuple[Column, ...]
    label: str | None
    classes: tuple[Any, ...]
    weights: Floats
    marginals: tuple[Marginal, ...]
    correlations: Floats
    rows: float
    """Noisy number of records."""
    pairs: CountedPairs | None = None
    """Pairs of columns that correlations do not describe, and what they are like."""
    chain: Chain | None = None
    """How columns of series follow each other."""
    quality: Quality | None = None
    """How far off it may be, as the release itself tells."""
    certificate: Certificate | None = None

    @property
    def features(self) -> tuple[Column, ...]:
        """The columns but the label."""
        return tuple(one for one in self.columns if one.name != self.label)

    def sample(
        self,
        count: int | None = None,
        seed: int | Sequence[int] | np.random.Generator | None = None,
        *,
        anyway: bool = False,
    ) -> pa.Table:
        """Rows of the columns, order and types of the source; as many as it has, about, unless said otherwise. Free.

        Refused where the release says that the table was too small for its columns, unless they are wanted `anyway`.
        """
        if self.quality is not None and not self.quality.usable and not anyway:
            raise ParameterError(
                f"{self.quality.advice[0]} Rows may be drawn all the same with anyway=True."
            )
        size = checks.whole(
            "count", max(round(self.rows), 1) if count is None else count
        )
        generator = np.random.default_rng(seed)
        parts = [
            self._rows(generator, min(AT_ONCE, size - start))
            for start in range(0, size, AT_ONCE)
        ]
        return pa.concat_tables(parts or [self._rows(generator, 0)])

    @property
    def unknown(self) -> tuple[str, ...]:
        """Columns of which no value was found: their cells are left empty."""
        return tuple(
            one.name
            for one in self.features
            if one.is_category and one.values == () and not pa.types.is_null(one.type)
        )

    def rooms(
        self, series: Sequence[Sequence[str]]
    ) -> dict[tuple[str, str], tuple[float, float]]:
        """By how much correlations of columns of a series, but neighbours, may lie below and above the model's."""
        places = {one.name: place for place, one in enumerate(self.features)}
        made = {}
        for names in series:
            listed = [name for name in names if name not in self.unknown]
            for place, first in enumerate(listed):
                for second in listed[place + 2 :]:
                    pair = places[first], places[second]
                    made[first, second] = correlation_room(
                        self.marginals[pair[0]],
                        self.marginals[pair[1]],
                        self.correlations[:, pair[0], pair[1]],
                        self.weights,
                    )
        return made

    @property
    def laws(self) -> dict[str, Marginal]:
        """Of columns of numbers, by name."""
        return {
            column.name: marginal
            for column, marginal in zip(self.features, self.marginals)
            if not column.is_category
        }

    def model_errors(
        self, said: Mapping[StatedNumber, float]
    ) -> dict[StatedNumber, float]:
        """By how much statements of its rows may be off whatever the noise."""
        laws = self.laws
        return model_errors(
            said,
            self.columns,
            lambda name, number: laws[name].width_at(number),
            {name: one.hidden for name, one in laws.items()},
        )

    def far_rooms(self, said: Mapping[StatedNumber, float]) -> dict[StatedNumber, Room]:
        """Of statements that rest on numbers of which only the side is known."""
        return beyond_rooms(
            said, {name: one.unplaced for name, one in self.laws.items()}
        )

    @property
    def tails(self) -> dict[str, tuple[float, float]]:
        """Inner ends of the outermost cells of columns of numbers: what lies beyond was counted in one piece."""
        whole = {column.name for column in self.columns if column.is_whole}
        return {
            name: one.tails_wider_than(float(name in whole))
            for name, one in self.laws.items()
        }

    def latents(self, generator: np.random.Generator, size: int) -> Latents:
        """Normal scores of rows, pairs aside."""
        return Latents.drawn(
            generator,
            size,
            self.weights,
            self.correlations,
            self.marginals,
            self.chain,
        )

    def _rows(self, generator: np.random.Generator, size: int) -> pa.Table:
        if self.pairs is None:
            rows = self.latents(generator, size)
        else:
            pool = self.latents(generator, max(POOL * size, SMALLEST_POOL))
            rows = self.pairs.chosen(generator, pool, self.marginals, size)
        values = np.empty_like(rows.scores)
        for k in range(len(self.correlations)):
            chosen = rows.group == k
            for j, (column, marginal) in enumerate(zip(self.features, self.marginals)):
                drawn = marginal.cells if column.is_category else marginal.numbers
                values[chosen, j] = drawn(rows.scores[chosen, j], k)
        made = {
            column.name: column.named(rows.group, self.classes)
            for column in self.columns
            if column.name == self.label
        }
        for j, column in enumerate(self.features):
            made[column.name] = _cells(column, values[:, j], rows.missing[:, j])
        return pa.table({column.name: made[column.name] for column in self.columns})


def _cells(column: Column, values: Floats, missing: Any) -> pa.Array:
    """Drawn codes or numbers as the column's cells."""
    if column.is_category:
        codes = np.where(missing, -1, values).astype(np.int64)
        return column.named(codes, column.values or ())
    return column.cells(column.within(values), missing)
