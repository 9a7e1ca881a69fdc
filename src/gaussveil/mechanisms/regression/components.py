"""Private covariance and principal components: post-processing of noisy second moments."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from gaussveil import checks
from gaussveil.mechanisms.records import new_rows
from gaussveil.mechanisms.regression.moments import (
    NORMAL_95,
    Look,
    MomentsMechanism,
    NoisyMoments,
    Scales,
    block_energies,
    block_entries,
    block_scales,
    noise_edge,
)
from gaussveil.mechanisms.regression.rows import Table
from gaussveil.typing import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(MomentsMechanism, BaseEstimator):
    """Mean and covariance of a table whose second moments are released once with Gaussian noise.

    Parameters are those of `PrivateLinearRegression` less the target's. A row longer than `row_norm` is weighted down,
    which leaves directions alone and makes covariances of long tails too small.

    Attributes: `location_`, `covariance_` (positive semidefinite), `interval_` (95 %, d x d x 2: sampling, as of a
    normal law, and privacy noise), `count_`, `moments_`.
    """

    mechanism = "covariance"
    reach: ClassVar = 1.7  # clipped rows make variances too small
    moments_: NoisyMoments = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments."""
        moments = self.moments_ = self._released(Table.of(self, X)).value
        sums, noise = moments.centred()
        scale, count = moments.scale, moments.count
        values, vectors = np.linalg.eigh(sums / count)
        raw = (vectors * np.maximum(values, 0.0)) @ vectors.T
        diagonal = np.diag(raw)
        deviation = np.sqrt(noise / count**2 + (np.outer(diagonal, diagonal) + raw**2) / count)
        units = np.outer(scale, scale)
        self.count_, self.location_ = count, moments.centre + scale * moments.means
        self.covariance_, self.std_error_ = raw * units, deviation * units
        reach = NORMAL_95 * self.std_error_
        self.interval_ = np.stack((self.covariance_ - reach, self.covariance_ + reach), axis=-1)
        return self

    def _scales(self, size: int, targets: int, look: Look, mean_shift: float) -> Scales:
        entries = block_entries(size, 0)
        weights = {block: each * entries[block] for block, each in {"1": 0.1, "x": 0.2, "xx": 1.0}.items()}
        return block_scales(weights, block_energies(0), mean_shift)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # such records are left out: a refusal would depend on the data
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateCovariance):
    """Principal components of a private covariance.

    Args (beside those of `PrivateCovariance`):
        n_components: how many directions to keep; by default those whose variance surely stands out of the noise, one
            at least.

    Attributes: `components_`, `explained_variance_` with `explained_variance_interval_` (95 %: sampling and privacy
    noise, but neither what weighted-down rows lack nor that noise lifts the largest), `explained_variance_ratio_`,
    `mean_`, `n_components_`, and those of `PrivateCovariance`.
    """

    mechanism = "principal-components"
    n_components: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments, turn."""
        wanted = None if self.n_components is None else checks.whole("n_components", self.n_components)
        super().fit(X)
        size = len(self.location_)
        values, vectors = np.linalg.eigh(self.covariance_)
        values, vectors = values[::-1], vectors[:, ::-1]
        _, noise = self.moments_.centred()
        noise = noise * np.outer(self.moments_.scale, self.moments_.scale) ** 2 / self.count_**2
        kept = min(wanted or max(1, int(np.sum(values > noise_edge(noise)))), size)
        squares = vectors[:, :kept] ** 2
        # v'Ev of a symmetric E: an off-diagonal entry counts twice
        privacy = 2 * np.einsum("ik,ij,jk->k", squares, noise, squares) - np.diag(noise) @ squares**2
        deviation = np.sqrt(privacy + 2 * values[:kept] ** 2 / self.count_)
        signs = np.sign(vectors[np.argmax(np.abs(vectors[:, :kept]), axis=0), np.arange(kept)])
        self.mean_, self.n_components_ = self.location_, kept
        self.components_, self.explained_variance_ = (vectors[:, :kept] * signs).T, values[:kept]
        self.explained_variance_ratio_ = values[:kept] / max(float(np.sum(values)), 1e-300)
        reach = NORMAL_95 * deviation
        self.explained_variance_interval_ = np.stack((values[:kept] - reach, values[:kept] + reach), axis=1)
        return self

    def transform(self, X: Any) -> Floats:
        """Coordinates along the components."""
        check_is_fitted(self, "components_")
        return np.asarray((new_rows(self, X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Rows with these coordinates."""
        check_is_fitted(self, "components_")
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_
