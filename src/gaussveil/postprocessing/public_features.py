"""Public features, where labels alone are protected: cells, mixture components, and units of their own size."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from gaussveil.errors import ParameterError
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.typing import Floats, Integers

WELL_SHAPED = 2.0  # records of a class per squared column
# of a mixture of the features alone
FEATURE_STARTS = 5
MOST_FITTED = 20_000
FEATURE_ROUNDS = 200
MOST_REMEMBERED = 1 << 20  # bytes of features
Found = TypeVar("Found")
LARGEST_EXPONENT = (
    400  # squares of features and of their inverses stay far inside the range of floats
)


def well_shaped(size: int, classes: int, dimension: int) -> bool:
    """Whether records are so many that the components of the features alone may be taken for classes."""
    return size >= WELL_SHAPED * classes * dimension**2


def summed(cells: Integers, values: Floats) -> Floats:
    """Sums of the values by cell."""
    total = np.zeros((int(cells.max()) + 1, values.shape[1]))
    np.add.at(total, cells, values)
    return total


def standardised(rows: Floats) -> Floats:
    """Every column with mean 0 and deviation 1; a constant one stays constant, and small."""
    return np.asarray((rows - rows.mean(axis=0)) / (rows.std(axis=0) + 1e-300))


def nearest_clusters(rows: Floats, count: int) -> Integers:
    """So many K-means cells of the standardised features, none of them empty."""
    return _once(_nearest_clusters, rows, count)


def _nearest_clusters(rows: Floats, count: int) -> Integers:
    standard = standardised(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = KMeans(
            max(1, min(count, len(rows) // 4)), n_init=3, random_state=0
        ).fit_predict(standard)
    return np.asarray(np.unique(labels, return_inverse=True)[1], dtype=np.int64)


def components(rows: Floats, count: int) -> Floats:
    """Shares of every record in the components of the likeliest mixture found for the features alone (N x count)."""
    return _once(_components, rows, count)


def _once(search: Callable[[Floats, int], Found], rows: Floats, count: int) -> Found:
    """What a search finds; of few features it is remembered."""
    if rows.nbytes > MOST_REMEMBERED:
        return search(rows, count)
    answer: Found = _remembered(search, rows.tobytes(), rows.shape, count)
    return answer


@lru_cache(maxsize=16)
def _remembered(
    search: Callable[[Floats, int], Any],
    content: bytes,
    shape: tuple[int, int],
    count: int,
) -> Any:
    """Features that no adjacency protects: a second release of other labels need not search again."""
    answer = search(np.frombuffer(content).reshape(shape), count)
    if isinstance(answer, np.ndarray):
        answer.flags.writeable = False
    return answer


def _components(rows: Floats, count: int) -> Floats:
    standard = standardised(rows)
    fitted = standard[:: max(1, len(rows) // MOST_FITTED)]
    count = max(1, min(count, len(rows) // 4))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        mixtures = [
            GaussianMixture(
                count,
                n_init=FEATURE_STARTS,
                init_params=way,
                max_iter=FEATURE_ROUNDS,
                reg_covar=1e-4,
                random_state=0,
            ).fit(fitted)
            for way in ("kmeans", "k-means++")
        ]
    best = max(mixtures, key=lambda mixture: mixture.lower_bound_)
    return np.asarray(best.predict_proba(standard), dtype=np.float64)


def hardened(parts: Floats) -> Integers:
    """Every record in its likeliest component, components without records left out."""
    return np.asarray(
        np.unique(np.argmax(parts, axis=1), return_inverse=True)[1], dtype=np.int64
    )


def scatter_within(rows: Floats, classes: int) -> float:
    """Share of the features' scatter that lies within so many clusters."""
    return _once(_scatter_within, rows, classes)


def _scatter_within(rows: Floats, classes: int) -> float:
    standard = standardised(rows)
    total = float(np.sum(standard**2))
    if total == 0:
        return 1.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return (
            float(
                KMeans(min(classes, len(rows)), n_init=3, random_state=0)
                .fit(standard)
                .inertia_
            )
            / total
        )


@dataclass(frozen=True, eq=False)
class FeatureUnits:
    """Binary exponents, one per column: powers of two, scaling rounds nothing, and farads and megawatts fit alike."""

    exponents: Integers

    @classmethod
    def of(cls, rows: Floats) -> FeatureUnits:
        """The size of the largest value of each column; refuses columns that floats cannot square."""
        largest = np.max(np.abs(rows), axis=0, initial=0.0)
        exponents = np.where(largest > 0, np.frexp(largest)[1], 0).astype(np.int64)
        if np.abs(exponents).max(initial=0) > LARGEST_EXPONENT:
            raise ParameterError(
                f"features must lie between 2^-{LARGEST_EXPONENT} and 2^{LARGEST_EXPONENT}: state them in other units."
            )
        return cls(exponents)

    @property
    def common(self) -> FeatureUnits:
        """One unit for all columns, the largest: distances between records keep their proportions."""
        return FeatureUnits(
            np.full_like(self.exponents, self.exponents.max(initial=-LARGEST_EXPONENT))
        )

    def scaled(self, rows: Floats) -> Floats:
        """The features in these units."""
        return np.asarray(np.ldexp(rows, -self.exponents))

    def restored(self, parameters: Parameters) -> Parameters:
        """Classes found in these units, in the features' own."""
        weights, means, covariances = parameters
        together = self.exponents[:, None] + self.exponents
        return weights, np.ldexp(means, self.exponents), np.ldexp(covariances, together)
