"""Private covariance and principal components: post-processing of noisy second moments.

Long rows were weighted down, so variances along them come out too small: by how much is known of a normal law, and how
many rows a normal law weighs down beside how many were tells whether it may be trusted. Noise E lifts the largest
eigenvalues: by sum over k of var(v_j' E v_k) / (l_j - l_k), to the second order, and v_j turns by var / (l_j - l_k)^2.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from gaussveil import checks
from gaussveil.mechanisms.records import new_rows
from gaussveil.mechanisms.regression.moments import (
    NORMAL_95,
    Look,
    MomentsMechanism,
    NoisyMoments,
    Scales,
    block_entries,
    block_scales,
    noise_edge,
)
from gaussveil.mechanisms.regression.rows import GivenTable
from gaussveil.mechanisms.regression.unit_sums import Left, block_energies
from gaussveil.typing import Floats

NORMAL_ROWS = 2**16  # drawn, seed fixed, to see what their weights do to a normal law
ROUNDS = 4
ODD = 2.5  # deviations between the rows' mean weight and that of a normal law
TAILS = 3.0  # variance lost over weight lost, in squared radii: 1 at least, 3 for tails as long as fourth moments allow
FAR = 9.0  # radius over mean square length, both squared: tails within a larger one go unseen, and what they sample
UNLIKE = 3.0  # the same between how far their lengths vary
HARDLY_ANY = (
    0.002  # of all weight is lost where units are bounded, as far as can be told
)
SHORTENED = (
    0.05  # of all weight: where more is taken no length tells how long tails are
)
HIDDEN = 0.3  # of products of two columns, where noise explains most of them: directions are drawn towards the columns
TURNED = 0.1  # squared sine by which a component may be turned before its variance is not to be trusted


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateCovariance(MomentsMechanism, BaseEstimator):
    """Mean and covariance of a table whose second moments are released once with Gaussian noise.

    Parameters are those of `PrivateLinearRegression` less the target's. A row longer than `row_norm` is weighted down,
    which leaves directions alone and makes covariances of long tails too small.

    Attributes: `location_`, `covariance_` (positive semidefinite; what weighted rows lack is made up for as of a
    normal law), `interval_` (95 %, d x d x 2: sampling, as of a normal law, and privacy noise), `count_`, `moments_`,
    `normal_` (whether as many rows were weighted down as of a normal law, few enough of them, the radius being near
    enough to tell: else what they lack is not known).

    Args:
        epsilon, delta, bounds, row_norm, unit, rows_per_unit: as in `PrivateLinearRegression`.
        account, generator, people: as in `GaussianRelease`.

    >>> import numpy as np
    >>> from gaussveil import PrivateCovariance
    >>> rows = np.random.default_rng(0).normal(size=(5000, 2))
    >>> PrivateCovariance(epsilon=1.0, delta=1e-6, bounds=(-4.0, 4.0)).fit(rows).covariance_.shape
    (2, 2)
    """

    mechanism = "covariance"
    reach: ClassVar = 1.7
    look_share: ClassVar = 0.06
    rows_share: ClassVar = 0.08
    moments_: NoisyMoments = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments.

        Args:
            X: rows of features, a table or a `Source`.
            y: nothing; scikit-learn passes it.

        Returns:
            The estimator itself, with `covariance_` and `location_`.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        return self._estimate(self._released(GivenTable.of(self, X)).value)

    def _estimate(self, moments: NoisyMoments) -> Self:
        """What follows from released moments: covariance, its intervals, whether rows look normal.

        Args:
            moments: of a release with the same settings; nothing private is read and nothing debited.
        """
        self.moments_ = moments
        lengths = moments.look.told()
        sums, noise = moments.centred()
        scale = moments.scale
        count = moments.count
        own = self._own = (
            count / moments.rows_per_unit
        )  # rows of one unit may be all alike
        values, vectors = np.linalg.eigh(sums / count)
        seen = np.maximum(values, 0.0)
        values, weight, varied = unweighted(seen)
        doubt = math.sqrt(
            moments.variance[0, 0] / count**2 + varied * (1 / own + 1 / NORMAL_ROWS)
        )
        unlike = lengths.unlike(_normal_squares(len(values)) @ values, own)
        as_normal = abs(moments.weight - weight) < ODD * doubt and unlike < UNLIKE
        if not as_normal:
            values = restored(seen, values, lengths.beyond())
        raw = (vectors * values) @ vectors.T
        diagonal = np.diag(raw)
        deviation = np.sqrt(
            noise / count**2 + (np.outer(diagonal, diagonal) + raw**2) / own
        )
        units = np.outer(scale, scale)
        self.count_ = count
        self.location_ = moments.centre + scale * moments.means
        self.covariance_ = raw * units
        self.std_error_ = deviation * units
        reach = NORMAL_95 * self.std_error_
        self.interval_ = np.stack(
            (self.covariance_ - reach, self.covariance_ + reach), axis=-1
        )
        total = max(float(np.sum(values)), 1e-300)
        shortened = 1 - min(moments.weight, weight)
        self.normal_ = as_normal and total * FAR > 1 and shortened < SHORTENED
        # shares of each variance: what weights took beyond a normal law's, the doubt about it, all they may have taken
        most = 2 * (shortened + ODD * doubt)
        self._taken = tuple(
            TAILS * each / total for each in (weight - moments.weight, doubt, most)
        )
        return self

    def _radius(self, size: int, targets: int, look: Look, mean_shift: float) -> float:
        """The one of least predicted error: noise grows as the squared radius, what long rows lack falls with it."""
        noise = self._scales(size, targets, look, mean_shift)[1]["xx"] / look.rows
        return look.told().radius(size, noise * math.sqrt(size * (size + 1)))

    def _scales(
        self,
        size: int,
        targets: int,
        look: Look,
        mean_shift: float,
        fraction: float = 1.0,
        left: Left = (1.0, 0.0),
    ) -> tuple[float, Scales]:
        """Least noise of units of which hardly any is weighted down, which variances would lack."""
        entries = block_entries(size, 0)
        weights = {
            block: each * entries[block]
            for block, each in {"1": 1.6, "x": 0.2, "xx": 1.0}.items()
        }
        scales = block_scales(weights, block_energies(0, fraction), mean_shift)
        return scales["xx"] if left[0] >= 1 - max(
            HARDLY_ANY, left[1]
        ) else math.inf, scales

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.non_deterministic = True
        tags.input_tags.allow_nan = (
            True  # such records are left out: a refusal would depend on the data
        )
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivatePCA(ClassNamePrefixFeaturesOutMixin, TransformerMixin, PrivateCovariance):
    """Principal components of a private covariance.

    Args (beside those of `PrivateCovariance`):
        n_components: how many directions to keep; by default those whose variance surely stands out of the noise, one
            at least.
        epsilon, delta, bounds, row_norm, unit, rows_per_unit: as in `PrivateLinearRegression`.
        account, generator, people: as in `GaussianRelease`.

    Attributes: `components_`, `explained_variance_` (less what noise lifts it by) with `explained_variance_interval_`
    (95 %: sampling, as of a normal law, and privacy noise), `trusted_` (which of these intervals hold: the others are
    of variances too near to each other for the noise, or of rows with longer tails than a normal law, and are wide),
    `explained_variance_ratio_`, `mean_`, `n_components_`, and those of `PrivateCovariance`.

    >>> import numpy as np
    >>> from gaussveil import PrivatePCA
    >>> rows = np.random.default_rng(0).normal(size=(20_000, 3)) * (3.0, 1.0, 0.3)
    >>> PrivatePCA(epsilon=1.0, delta=1e-6, bounds=(-10.0, 10.0), n_components=1).fit(rows).transform(rows).shape
    (20000, 1)
    """

    mechanism = "principal-components"
    n_components: int | None = None

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments, turn.

        Args:
            X: rows of features, a table or a `Source`.
            y: nothing; scikit-learn passes it.

        Returns:
            The estimator itself, with `components_`.

        Raises:
            ParameterError: n_components is not a whole number from 1 on.
            BudgetExceededError: the account cannot pay.
        """
        if self.n_components is None:
            asked = None
        else:
            asked = checks.whole("n_components", self.n_components)
        super().fit(X)
        size = len(self.location_)
        values, vectors = np.linalg.eigh(self.covariance_)
        values = values[::-1]
        vectors = vectors[:, ::-1]
        sums, noise = self.moments_.centred()
        units = np.outer(self.moments_.scale, self.moments_.scale) / self.count_
        sums = sums * units
        noise = noise * units**2
        edge = noise_edge(noise)
        kept = min(asked or max(1, int(np.sum(values > edge))), size)
        spread = (
            _spread(vectors[:, :kept], vectors, noise)
            + np.outer(values[:kept], values) / self._own
        )
        deviation = np.sqrt(np.diag(spread) + values[:kept] ** 2 / self._own)
        gaps = values[:kept, None] - values
        np.fill_diagonal(gaps, np.inf)
        gaps = np.where(
            np.abs(gaps) < deviation[:, None] / 10, deviation[:, None] / 10, gaps
        )
        surely = np.maximum(np.abs(gaps) - deviation[:, None], deviation[:, None] / 10)
        beyond, unsure, lacking = (share * values[:kept] for share in self._taken)
        self.trusted_ = (
            (np.sum(spread / surely**2, axis=1) < TURNED)
            & (unsure < deviation)
            & self.normal_
        )
        lifted = np.where(self.trusted_, np.sum(spread / gaps, axis=1) - beyond, 0.0)
        apart = ~np.eye(size, dtype=bool)
        if not self.trusted_.any() and np.sum(sums[apart] ** 2) < 1.5 * np.sum(
            noise[apart]
        ):
            vectors = np.linalg.eigh(np.where(apart, HIDDEN * sums, sums))[1][:, ::-1]
        signs = np.sign(
            vectors[np.argmax(np.abs(vectors[:, :kept]), axis=0), np.arange(kept)]
        )
        self.mean_ = self.location_
        self.n_components_ = kept
        self.components_ = (vectors[:, :kept] * signs).T
        self.explained_variance_ = values[:kept] - lifted
        self.explained_variance_ratio_ = self.explained_variance_ / max(
            float(np.sum(values)), 1e-300
        )
        # no eigenvalue moves further than the largest of the noise's, that of sampling beside it (Weyl)
        sampled = 2 * np.sqrt(values[0] * np.sum(values) / self._own)
        reach = NORMAL_95 * np.hypot(deviation, unsure) + np.where(
            self.trusted_, 0.0, edge + sampled + lacking
        )
        ends = self.explained_variance_ - reach, self.explained_variance_ + reach
        self.explained_variance_interval_ = np.stack(
            (np.maximum(ends[0], 0.0), ends[1]), axis=1
        )
        return self

    def summary(self) -> str:
        """A line for each component: its variance, the interval, and whether that can be trusted.

        Returns:
            A text of one line a component, and a last one where an interval is not to be trusted.
        """
        check_is_fitted(self, "components_")
        rows = zip(
            self.explained_variance_, self.explained_variance_interval_, self.trusted_
        )
        lines = [
            f"component {i}: variance {value:.4g}, {low:.4g} to {high:.4g}"
            + ("" if trusted else "  *")
            for i, (value, (low, high), trusted) in enumerate(rows, 1)
        ]
        if not self.trusted_.all():
            lines.append(
                "* not to be trusted: noise hides the component, or whether long rows are a normal law's"
            )
        return "\n".join(lines)

    def transform(self, X: Any) -> Floats:
        """Coordinates along the components.

        Args:
            X: rows of features.

        Returns:
            A row for each row, a column for each component.
        """
        check_is_fitted(self, "components_")
        return np.asarray((new_rows(self, X) - self.mean_) @ self.components_.T)

    def inverse_transform(self, X: Any) -> Floats:
        """Rows with these coordinates.

        Args:
            X: coordinates along the components, a row each.

        Returns:
            A row for each row, in the units of the features.
        """
        check_is_fitted(self, "components_")
        return np.asarray(np.asarray(X) @ self.components_ + self.mean_)

    @property
    def _n_features_out(self) -> int:
        return self.n_components_


def _spread(turned: Floats, vectors: Floats, noise: Floats) -> Floats:
    """Variance of v' E u of each v and u, E symmetric with these variances of its entries."""
    crossed = np.einsum(
        "aj,ak,ab,bj,bk->jk", turned, vectors, noise, turned, vectors, optimize=True
    )
    return np.asarray(
        (turned**2).T @ noise @ vectors**2
        + crossed
        - np.einsum("aj,ak,a->jk", turned**2, vectors**2, np.diag(noise))
    )


def unweighted(values: Floats) -> tuple[Floats, float, float]:
    """Variances of the normal law whose rows, weighted into the unit ball, have these; mean and variance of w^2."""
    squares = _normal_squares(len(values))
    plain = np.mean(squares, axis=0)
    variances = values
    weight = 1.0
    varied = 0.0
    for _ in range(ROUNDS):
        weights = 1 / np.maximum(squares @ variances, 1.0)
        weight = float(np.mean(weights))
        varied = float(np.var(weights))
        seen = weights @ squares / NORMAL_ROWS / weight
        variances = values * np.minimum(plain / np.maximum(seen, 1e-300), 4.0)
    return variances, weight, varied


def restored(seen: Floats, normal: Floats, lost: float) -> Floats:
    """Variances with what rows' lengths say they lack: along each direction as of a normal law, so far as that goes."""
    larger = float(np.sum(normal)) / max(float(np.sum(seen)), 1e-300)
    if lost <= 1:
        return seen
    part = 1.0
    if larger > lost:
        part = math.log(lost) / math.log(larger)
    shaped = seen * (normal / np.maximum(seen, 1e-300)) ** part
    return np.asarray(
        shaped * lost * float(np.sum(seen)) / max(float(np.sum(shaped)), 1e-300)
    )


@lru_cache(maxsize=1)
def _normal_squares(size: int) -> Floats:
    return np.asarray(np.random.default_rng(1).normal(size=(NORMAL_ROWS, size)) ** 2)
