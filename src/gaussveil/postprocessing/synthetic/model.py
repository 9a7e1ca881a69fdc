"""The released synthetic table: marginals by class, latent correlations, and rows drawn of them. Nothing is private."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import ndtri

from gaussveil import checks
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import ParameterError
from gaussveil.postprocessing.synthetic.columns import Column
from gaussveil.postprocessing.synthetic.marginals import Marginal
from gaussveil.postprocessing.synthetic.quality import Quality
from gaussveil.typing import Floats


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
        group = np.searchsorted(
            np.cumsum(self.weights)[:-1] / self.weights.sum(),
            _even(generator, size),
            side="right",
        )
        scores = generator.standard_normal((size, len(self.features)))
        gaps = np.stack([_even(generator, size) for _ in self.features], axis=1)
        values = np.empty_like(scores)
        for k, matrix in enumerate(self.correlations):
            chosen = group == k
            latent = _evened(generator, scores[chosen] @ np.linalg.cholesky(matrix).T)
            for j, (column, marginal) in enumerate(zip(self.features, self.marginals)):
                drawn = marginal.cells if column.is_category else marginal.numbers
                values[chosen, j] = drawn(latent[:, j], k)
        made = {
            column.name: column.named(group, self.classes)
            for column in self.columns
            if column.name == self.label
        }
        for j, (column, marginal) in enumerate(zip(self.features, self.marginals)):
            missing = marginal.missing_at(group, gaps[:, j])
            made[column.name] = _cells(column, values[:, j], missing)
        return pa.table({column.name: made[column.name] for column in self.columns})


def _even(generator: np.random.Generator, count: int) -> Floats:
    """Uniform numbers, one in each of as many equal parts of [0, 1], in random order: shares come out right."""
    return np.asarray(
        (generator.permutation(count) + generator.random(count)) / max(count, 1)
    )


def _evened(generator: np.random.Generator, scores: Floats) -> Floats:
    """The normal scores of each column, one in each of as many equally likely parts, in the order that they had."""
    count = len(scores)
    places = np.argsort(np.argsort(scores, axis=0), axis=0)
    return np.asarray(ndtri((places + generator.random(scores.shape)) / max(count, 1)))


def _cells(column: Column, values: Floats, missing: Any) -> pa.Array:
    """Drawn codes or numbers as the column's cells."""
    if column.is_category:
        codes = np.where(missing, -1, values).astype(np.int64)
        return column.named(codes, column.values or ())
    return column.cells(column.within(values), missing)
