"""Private linear regression with intervals: post-processing of noisy second moments.

With C, c the centred sums of products of features and of features with the target, c - C b has the variance D +
sigma^2 C: D the known noise of c and of C b, sigma^2 C the sampling error. Under a prior N(0, g I) on b, g chosen by
the likelihood of c, the posterior mean and covariance are what is reported: least squares where the noise is small, and
shrunk along the directions where it is not, negative eigenvalues of C included.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

import numpy as np
from scipy.stats import norm as normal
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gaussveil.mechanisms.records import new_rows
from gaussveil.mechanisms.regression.moments import MomentsMechanism, NoisyMoments
from gaussveil.mechanisms.regression.rows import Table
from gaussveil.typing import Floats, Integers

PRIORS = np.geomspace(1e-6, 1e6, 49)
ROUNDS = 3
LEVEL = 0.95
UNTRUSTED = 0.5  # of the prior variance left after the release: the noise is above the signal


@dataclass(frozen=True, eq=False)
class LinearFit:
    """One regression from noisy moments, in the data's units; the intercept is the first coefficient."""

    names: tuple[str, ...]
    target: str
    coefficients: Floats
    covariance: Floats
    residual_deviation: float
    count: float
    trusted: bool

    @property
    def std_error(self) -> Floats:
        """Standard errors: sampling and privacy noise."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def interval(self) -> Floats:
        """95 % intervals, one row per coefficient."""
        reach = float(normal.ppf(0.5 + LEVEL / 2)) * self.std_error
        return np.stack((self.coefficients - reach, self.coefficients + reach), axis=1)

    def summary(self) -> str:
        """A table of coefficients with standard errors and intervals."""
        lines = [
            f"private linear regression of {self.target}, about {self.count:.0f} rows, "
            f"residual standard deviation {self.residual_deviation:.4g}",
            f"{'':16}{'coef':>12}{'std err':>12}{'z':>9}{'P>|z|':>9}{'[0.025':>12}{'0.975]':>12}",
        ]
        for name, value, error, (low, high) in zip(self.names, self.coefficients, self.std_error, self.interval):
            score = value / error
            chance = 2 * float(normal.sf(abs(score)))
            lines.append(f"{name[:16]:16}{value:12.4g}{error:12.4g}{score:9.2f}{chance:9.3f}{low:12.4g}{high:12.4g}")
        lines.append("standard errors hold sampling and privacy noise, not the bias of clipped targets")
        if not self.trusted:
            lines.append("the noise is above the signal: do not trust these intervals; use more rows or more epsilon")
        return "\n".join(lines)


def regress(moments: NoisyMoments, target: int = 0, features: tuple[int, ...] | None = None) -> LinearFit:
    """Least squares of one target on some of the features, from what was released."""
    size = len(moments.feature_names)
    chosen = np.asarray(range(size) if features is None else features, dtype=np.int64)
    place = size + target
    sums, noise = moments.centred()
    inner, cross = sums[np.ix_(chosen, chosen)], sums[chosen, place]
    noise_inner, noise_cross = noise[np.ix_(chosen, chosen)], noise[chosen, place]
    count, total, total_noise = moments.count, float(sums[place, place]), math.sqrt(float(noise[place, place]))
    values, vectors = np.linalg.eigh((inner + inner.T) / 2)
    positive = (vectors * np.maximum(values, 0.0)) @ vectors.T
    residual = max(total, total_noise) / count
    for _ in range(ROUNDS):
        best = max(_posteriors(inner, cross, noise_inner, noise_cross, positive * residual), key=lambda one: one[0])
        _, slopes, spread, prior = best
        unexplained = (total - slopes @ cross) / max(count - len(chosen) - 1, 1.0)
        residual = max(unexplained, total_noise / count, 1e-12)
    return _in_units(moments, chosen, place, slopes, spread, residual, prior)


def _posteriors(inner: Floats, cross: Floats, noise_inner: Floats, noise_cross: Floats, sampling: Floats) -> Any:
    """Log-likelihood, mean and covariance of the slopes for every prior variance."""
    for prior in PRIORS:
        error = np.diag(noise_cross + prior * noise_inner.sum(axis=1)) + sampling
        marginal = error + prior * inner @ inner.T
        values, vectors = np.linalg.eigh((marginal + marginal.T) / 2)
        values = np.maximum(values, 1e-15 * max(float(values[-1]), 1e-300))
        turned = vectors.T @ cross
        gain = prior * inner.T @ vectors
        likelihood = -0.5 * float(np.sum(turned**2 / values + np.log(values)))
        spread = prior * np.eye(len(cross)) - (gain / values) @ gain.T
        yield likelihood, (gain / values) @ turned, spread, prior


def _in_units(
    moments: NoisyMoments, chosen: Integers, place: int, slopes: Floats, spread: Floats, residual: float, prior: float
) -> LinearFit:
    means, noise, count = moments.means, moments.variance, moments.count
    level = float(means[place] - means[chosen] @ slopes)
    level_noise = noise[0, 1 + place] + slopes**2 @ noise[0, 1 + chosen] + level**2 * noise[0, 0]
    level_variance = residual / count + float(level_noise) / count**2
    scale, unit = moments.scale[chosen], moments.scale[place]
    # intercept = centre_y + unit (level - sum slope_j (mean_j + centre_j/scale_j)) with slopes about the means
    turn = np.vstack((-(means[chosen] + moments.centre[chosen] / scale) * unit, np.diag(unit / scale)))
    covariance = turn @ spread @ turn.T
    covariance[0, 0] += unit**2 * level_variance
    raw = slopes * unit / scale
    intercept = float(moments.centre[place] + unit * level - raw @ moments.centre[chosen])
    trusted = bool(
        float(np.trace(spread)) < UNTRUSTED * prior * len(chosen) and count > 3 * math.sqrt(float(noise[0, 0]))
    )
    names = ("intercept", *(moments.feature_names[j] for j in chosen))
    target = moments.target_names[place - len(moments.feature_names)]
    return LinearFit(
        names, target, np.concatenate(([intercept], raw)), covariance, unit * math.sqrt(residual), count, trusted
    )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(MomentsMechanism, RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Linear regression whose second moments are released once with Gaussian noise.

    Args:
        epsilon, delta: the promise for one fit.
        bounds: (low, high) of the features, numbers or one for each column, or a mapping from names to pairs; "auto"
            spends a fifth of the budget on finding them. They set public units; rows beyond are weighted down.
        target_bounds: the same for the target, which is clipped to them.
        row_norm: radius, in units of half a range, beyond which a row's weight falls.
        target: name, or names, of the target's column where X is a `Source`.
        unit, rows_per_unit: who is protected and how many rows of each are used; by default each row is its own unit.
        account, generator: as in `GaussianRelease`.

    Attributes: `coef_`, `intercept_`, `std_error_`, `interval_` (95 %: sampling and privacy noise), `fits_` (one
    `LinearFit` per target), `moments_` (what was released: `regress(moments_, ...)` costs nothing more).
    """

    mechanism = "linear-regression"
    weights: ClassVar = {"1": 0.1, "x": 0.2, "y": 1.0, "xx": 0.5, "xy": 1.0, "yy": 0.1}
    target_bounds: Any = "auto"
    target: Any = "label"
    moments_: NoisyMoments = field(init=False)
    fits_: tuple[LinearFit, ...] = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments, solve."""
        table = Table.of(self, X, y, supervised=True)
        self.moments_ = self._released(table, self.target_bounds).value
        self.fits_ = tuple(regress(self.moments_, place) for place in range(len(table.targets)))
        flat = len(self.fits_) == 1 and np.ndim(y) < 2

        def gathered(parts: list[Any]) -> Any:
            return parts[0] if flat else np.stack(parts)

        self.coef_ = gathered([one.coefficients[1:] for one in self.fits_])
        self.intercept_ = gathered([one.coefficients[0] for one in self.fits_])
        self.std_error_ = gathered([one.std_error[1:] for one in self.fits_])
        self.interval_ = gathered([one.interval[1:] for one in self.fits_])
        return self

    def predict(self, X: Any, return_interval: bool = False) -> Any:
        """The regression's value; on request also its 95 % interval, one (low, high) per row and target."""
        check_is_fitted(self, "fits_")
        rows = new_rows(self, X)
        design = np.column_stack((np.ones(len(rows)), rows))
        found = np.stack([design @ one.coefficients for one in self.fits_], axis=1)
        reach = float(normal.ppf(0.5 + LEVEL / 2)) * np.sqrt(
            np.stack([np.einsum("ij,jk,ik->i", design, one.covariance, design) for one in self.fits_], axis=1)
        )
        if self.coef_.ndim == 1:
            found, reach = found[:, 0], reach[:, 0]
        return (found, np.stack((found - reach, found + reach), axis=-1)) if return_interval else found

    def summary(self) -> str:
        """The table of every target."""
        check_is_fitted(self, "fits_")
        return "\n\n".join(one.summary() for one in self.fits_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise for privacy drowns a toy problem
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # such records are left out: a refusal would depend on the data
        tags.target_tags.multi_output = True
        return tags
