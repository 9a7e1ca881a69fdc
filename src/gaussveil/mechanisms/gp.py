"""Gaussian process regression: private draws of the predictive distribution at public points.

Released: at each public query point an independent draw of N(mean, S + v), mean and S those of the Gaussian process
given the records. Kernel and observation variance are fixed and public; labels are clipped to [-label_bound,
label_bound].

Adjacency: one record (x, y) is added or removed from at most n_max. With the record S falls to S' and the squared
change of the mean is (S - S') r^2/s, r the record's prediction error and s >= the observation variance its variance, so
that

    N(R sqrt(tau - 1), tau) against N(0, 1),   tau = (k + v)/(k n/(l^2 + n) + v),
    R^2 = (B^2/n) min(n_max, (1 + l sqrt(n_max - 1)/(2 sqrt n))^2)

dominates in both directions (corrections N6): k = k(x*, x*), l^2 the largest k(x, x), n the observation variance.
Several points compose; one joint draw over all of them would not be covered, as more than one eigenvalue could move.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel
from sklearn.utils.validation import check_is_fitted

from gaussveil.accounting import Account, Adjacency
from gaussveil.calibration.envelope import variance_for_pair
from gaussveil.errors import AssumptionError, ParameterError, ShapeError
from gaussveil.mechanisms.containers import real_array, real_number
from gaussveil.mechanisms.gaussian_output import LiftedPlan, draw_release, ideal_delta, make_plan
from gaussveil.mechanisms.records import features_and_target, new_rows, numeric_target
from gaussveil.noise import Generator
from gaussveil.spectrum import PrivacyLoss
from gaussveil.typing import Floats

ROUNDING = 1 + 1e-12


def dominating_pair(
    variance: float,
    *,
    point_variance: float,
    kernel_bound: float,
    observation_variance: float,
    label_bound: float,
    n_max: int,
) -> PrivacyLoss:
    """The worst pair of corrections N6 at an added variance: X with the record (narrow), Y without it (wide).

    `kernel_bound` is l^2, `point_variance` is k(x*, x*).
    """
    narrow = point_variance * observation_variance / (kernel_bound + observation_variance) + variance
    gap = (
        point_variance * kernel_bound / (kernel_bound + observation_variance) / (point_variance + variance)
    )  # 1 - 1/tau
    reach = prediction_error_bound(kernel_bound, observation_variance, label_bound, n_max)
    if narrow <= 0 or gap * ROUNDING >= 1:
        raise ParameterError("observation_variance is too small against the kernel to be computed with.")
    # in units of the wide law: X ~ N(R sqrt(1 - 1/tau), 1/tau)
    return PrivacyLoss.from_terms([gap * ROUNDING], [1.0], [reach**2 * gap * ROUNDING])


def prediction_error_bound(kernel_bound: float, observation_variance: float, label_bound: float, n_max: int) -> float:
    """R: largest prediction error of a record, in standard deviations of its prediction (corrections N6)."""
    leverage = 1 + math.sqrt(kernel_bound * (n_max - 1) / observation_variance) / 2
    return label_bound / math.sqrt(observation_variance) * min(math.sqrt(n_max), leverage) * ROUNDING


class PrivateGaussianProcessRegressor(RegressorMixin, BaseEstimator):  # type: ignore[misc]
    """Gaussian process whose values at public points are private predictive draws.

    Args:
        kernel: a scikit-learn kernel; its hyperparameters are taken as they are, never fitted. RBF() by default.
        query_points: public points to release, one per row; the origin by default. They share epsilon and delta.
        observation_variance: variance of a label around the process.
        label_bound: labels are clipped to [-label_bound, label_bound]; centre them by a public value first.
        n_max: public bound on the number of records.
        kernel_bound: largest k(x, x); known by itself for stationary kernels. Records with a larger one are left out.
        epsilon, delta: the promise for all query points together.
        target: name of the label's column where X is a `Source`.
        account, privacy_unit, generator: as in `GaussianRelease`.

    Attributes: `values_` at `query_points_`, `added_variance_`, `certificate_`, `n_features_in_`. `predict`
    interpolates between the released values, which costs no privacy.
    """

    def __init__(
        self,
        *,
        kernel: Kernel | None = None,
        query_points: Any = None,
        observation_variance: float = 1.0,
        label_bound: float = 1.0,
        n_max: int = 1000,
        kernel_bound: float | None = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        target: str = "label",
        account: Account | None = None,
        privacy_unit: str = "record",
        generator: Generator | None = None,
    ) -> None:
        self.kernel = kernel
        self.query_points = query_points
        self.observation_variance = observation_variance
        self.label_bound = label_bound
        self.n_max = n_max
        self.kernel_bound = kernel_bound
        self.epsilon = epsilon
        self.delta = delta
        self.target = target
        self.account = account
        self.privacy_unit = privacy_unit
        self.generator = generator

    def plan(self, n_features: int = 1) -> LiftedPlan:
        """The added variance for all query points, without data."""
        noise, bound = self._positive("observation_variance"), self._positive("label_bound")
        if isinstance(self.n_max, bool) or not isinstance(self.n_max, int | np.integer) or self.n_max < 1:
            raise ParameterError(f"n_max must be a positive integer. Got {self.n_max!r} instead.")
        kernel, points = self._kernel(), self._points(n_features)
        at_points = np.asarray(kernel.diag(points), dtype=np.float64)
        largest = self._kernel_bound(kernel, at_points)
        count, widest, n_max = len(points), float(np.max(at_points)), int(self.n_max)
        ideal, level = ideal_delta(self.epsilon, self.delta), float(self.epsilon)
        variance = _added_variance(level, ideal, widest, largest, noise, bound, n_max, count)
        # n_max observations of the point itself, of the strongest feature allowed, tell most about it
        smallest = 1 / (1 / float(np.min(at_points)) + n_max * largest / float(np.min(at_points)) / noise)
        return make_plan(
            self.epsilon,
            self.delta,
            variance,
            _pair(variance, widest, largest, noise, bound, n_max),
            count=count,
            dimension=count,
            mean_bound=math.sqrt(count) * bound * math.sqrt(n_max * largest / noise) / 2,
            smallest_variance=smallest * (1 - 1e-9),
            largest_variance=widest,
            remedy="a smaller epsilon or a smaller n_max may help",
        )

    def fit(self, X: Any, y: Any = None) -> PrivateGaussianProcessRegressor:
        """Clip the labels, debit the account, draw the process at the query points."""
        rows, labels = features_and_target(self, X, y, self.target)
        plan = self.plan(int(rows.shape[1]))
        target = numeric_target(labels)
        known = np.all(np.isfinite(rows), axis=1) & np.isfinite(target)
        kernel, points = self._kernel(), self._points(int(rows.shape[1]))
        largest = self._kernel_bound(kernel, np.asarray(kernel.diag(points), dtype=np.float64))
        with np.errstate(over="ignore"):
            known[known] = np.asarray(kernel.diag(rows[known])) <= largest * ROUNDING
        if int(np.sum(known)) > self.n_max:
            raise AssumptionError(
                "there are more records than n_max, which was stated as public knowledge. Raise n_max."
            )
        bound, noise = self._positive("label_bound"), self._positive("observation_variance")
        mean, variance = predictive(kernel, rows[known], np.clip(target[known], -bound, bound), points, noise)
        spread = np.sqrt(np.clip(variance - plan.covered_variance, 0.0, None))
        release = draw_release(
            plan,
            mean,
            np.diag(spread),
            released=f"a Gaussian process at {len(points)} public points",
            mechanism="gaussian-process-regression",
            account=self.account,
            generator=self.generator,
            adjacency=Adjacency.add_remove(self.privacy_unit),
            assumptions=(
                f"there are at most {int(self.n_max)} records, and one {self.privacy_unit} contributes one of them",
                "kernel, observation variance, label bound and query points were fixed without the data",
                f"records with k(x, x) above {largest:g} are left out",
            ),
            parameters={
                "kernel": str(kernel),
                "observation_variance": noise,
                "label_bound": bound,
                "n_max": int(self.n_max),
                "query_points": len(points),
            },
        )
        self.query_points_, self.values_ = points, release.value
        self.certificate_, self.added_variance_ = release.certificate, plan.added_variance
        return self

    def predict(self, X: Any) -> Floats:
        """Values at other points: the process given the released values, as if each had the added variance."""
        check_is_fitted(self, "values_")
        rows, kernel = new_rows(self, X), self._kernel()
        noise = self.added_variance_ + 1e-9 * float(np.max(kernel.diag(self.query_points_)))
        return predictive(kernel, self.query_points_, self.values_, rows, noise)[0]

    def _positive(self, name: str) -> float:
        value = real_number(name, getattr(self, name))
        if not 0 < value < math.inf:
            raise ParameterError(f"{name} must be positive and finite. Got {value!r} instead.")
        return value

    def _kernel(self) -> Kernel:
        if not isinstance(self.kernel, Kernel | None):
            raise ParameterError(f"kernel must be a scikit-learn kernel. Got {type(self.kernel).__name__} instead.")
        kernel = RBF() if self.kernel is None else clone(self.kernel)
        if any(isinstance(part, WhiteKernel) for part in (kernel, *kernel.get_params(deep=True).values())):
            raise ParameterError(
                "kernel must hold no WhiteKernel: give its noise level as observation_variance instead."
            )
        return kernel

    def _kernel_bound(self, kernel: Kernel, at_points: Floats) -> float:
        largest = float(np.max(at_points))
        if not (math.isfinite(largest) and float(np.min(at_points)) > 0):
            raise ParameterError("kernel must be positive and finite at every query point.")
        if self.kernel_bound is None:
            if not kernel.is_stationary():
                raise ParameterError(
                    "kernel_bound must be given for a kernel that is not stationary: the largest k(x, x)."
                )
            return largest
        if not largest <= (bound := self._positive("kernel_bound")):
            raise ParameterError(f"kernel_bound must be at least {largest:g}, k(x, x) at a query point. Got {bound:g}.")
        return bound

    def _points(self, n_features: int) -> Floats:
        if self.query_points is None:
            return np.zeros((1, n_features))
        points = real_array("query_points", self.query_points).astype(np.float64)
        if points.ndim != 2 or len(points) == 0 or not np.all(np.isfinite(points)):
            raise ShapeError(f"query_points must be a finite matrix, one point per row. Got shape {points.shape}.")
        return points

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # one noisy value at the origin is all that the defaults release
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # such records are left out: a refusal would depend on the data
        return tags


def predictive(kernel: Kernel, rows: Floats, target: Floats, points: Floats, noise: float) -> tuple[Floats, Floats]:
    """Mean and variance of the process at each point (NDIS Definition 8)."""
    prior = np.asarray(kernel.diag(points), dtype=np.float64)
    if len(rows) == 0:
        return np.zeros(len(points)), prior
    cross = np.asarray(kernel(points, rows))
    factor = cho_factor(np.asarray(kernel(rows)) + noise * np.eye(len(rows)))
    solved = cho_solve(factor, cross.T)
    return np.asarray(solved.T @ target), prior - np.einsum("ij,ji->i", cross, solved)


def _pair(variance: float, widest: float, largest: float, noise: float, bound: float, n_max: int) -> PrivacyLoss:
    return dominating_pair(
        variance,
        point_variance=widest,
        kernel_bound=largest,
        observation_variance=noise,
        label_bound=bound,
        n_max=n_max,
    )


@lru_cache(maxsize=128)
def _added_variance(
    epsilon: float, delta: float, widest: float, largest: float, noise: float, bound: float, n_max: int, count: int
) -> float:
    def composed(variance: float) -> PrivacyLoss:
        return _pair(variance, widest, largest, noise, bound, n_max) ** count

    return variance_for_pair(composed, epsilon, delta)[0]
