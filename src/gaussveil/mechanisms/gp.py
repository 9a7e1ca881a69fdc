"""Gaussian process regression: private draws of the predictive distribution at public points.

Released: at each public query point an independent draw of N(mean, S + v), mean and S those of the Gaussian process
given the records. Kernel and observation variance are fixed and public; labels are clipped to [-label_bound,
label_bound].

Adjacency: one record (x, y) is added or removed from at most n_max. How far it can move S and the mean, the variance p
of the process at x being given, is a formula that is maximised over p in certified cells (corrections N6; derived:
docs/mechanisms/gp.md). The cheaper of two families that hold all pairs is charged. Several points compose; one joint
draw over all of them would not be covered.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, clone
from sklearn.gaussian_process.kernels import RBF, Kernel, WhiteKernel
from sklearn.utils.validation import check_is_fitted

from gaussveil import checks
from gaussveil.accounting import Adjacency
from gaussveil.calibration import mean_shift_for
from gaussveil.calibration.envelope import variance_for_pair
from gaussveil.containers import real_array
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms.gaussian_output import BOUND_RAISED, LiftedPlan, calibrated
from gaussveil.mechanisms.gp_kernels import as_computed, error_units, refused_part
from gaussveil.mechanisms.gp_sensitivity import (
    ERROR_UNITS,
    LARGEST_FEATURE,
    ProcessSensitivity,
)
from gaussveil.mechanisms.records import Records, new_rows
from gaussveil.mechanisms.release_path import Mechanism, Promise
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.envelope import GaussianEnvelope
from gaussveil.typing import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateGaussianProcessRegressor(Mechanism, RegressorMixin, BaseEstimator):
    """Gaussian process whose values at public points are private predictive draws.

    Args:
        kernel: a scikit-learn kernel; its hyperparameters are taken as they are, never fitted. RBF() by default. It
            must be positive definite by construction (`gp_kernels`).
        kernel_assumption: for any other kernel, in your own words why it is positive definite; the guarantee then
            rests on that and is called model-based.
        query_points: public points to release, one per row; the origin by default. They share epsilon and delta.
        observation_variance: variance of a label around the process.
        label_bound: labels are clipped to [-label_bound, label_bound]; centre them by a public value first.
        n_max: public bound on the number of records. Of more, those of the smallest public hash are used; the promise
            is for tables that hold no more.
        kernel_bound: largest k(x, x); known by itself for stationary kernels. Records with a larger one are left out.
        epsilon, delta: the promise for all query points together.
        target: name of the label's column where X is a `Source`.
        unit: column, or one identifier per row, that says whose row it is: of each unit one row is used, chosen by a
            public hash. By default every row is its own unit.
        account, generator: as in `GaussianRelease`.
        people: whose rows these are, as an account that is kept for a population names them.

    Attributes: `values_` at `query_points_`, `added_variance_`, `certificate_`, `n_features_in_`. `predict`
    interpolates between the released values, which costs no privacy.

    >>> import numpy as np
    >>> from gaussveil import PrivateGaussianProcessRegressor
    >>> hours = np.linspace(0.0, 1.0, 200)[:, None]
    >>> model = PrivateGaussianProcessRegressor(query_points=[[0.0], [0.5]], observation_variance=100.0, n_max=200)
    >>> model.fit(hours, hours[:, 0]).values_.shape
    (2,)
    """

    mechanism = "gaussian-process-regression"
    epsilon: Any = 1.0
    delta: Any = 1e-6
    kernel: Kernel | None = None
    kernel_assumption: str | None = None
    query_points: Any = None
    observation_variance: float = 1.0
    label_bound: float = 1.0
    n_max: int = 1000
    kernel_bound: float | None = None
    target: str = "label"
    unit: Any = None
    query_points_: Floats = field(init=False)
    values_: Floats = field(init=False)
    added_variance_: float = field(init=False)

    def plan(self, n_features: int = 1) -> LiftedPlan:
        """The added variance for all query points, and what noisy sums would be worth, without data.

        Args:
            n_features: columns of the features.

        Returns:
            A `LiftedPlan`, whose `comparison` tells what noisy sums would be worth.

        Raises:
            ParameterError: a parameter is out of range.
            ShapeError: query points have other columns.
        """
        promise = self.promise
        sensitivity = self.sensitivity(n_features)
        variance, cost, count = _cheapest(sensitivity, promise.epsilon, promise.delta)
        smallest = float(
            np.min(self._kernel(n_features).diag(self._points(n_features)))
        ) * (1 - 1e-9)
        condition = (
            1
            + sensitivity.n_max
            * sensitivity.kernel_bound
            / sensitivity.observation_variance
        )
        units = error_units(self.kernel or RBF(), n_features)
        plan = LiftedPlan.of(
            promise,
            variance,
            cost,
            count=count,
            dimension=sensitivity.points,
            mean_bound=math.sqrt(sensitivity.points) * self._mean_bound(sensitivity),
            # n_max observations of the point itself, of the strongest feature allowed, tell most about it
            smallest_variance=smallest / condition,
            growth=condition
            * max(1.0, units / ERROR_UNITS if math.isfinite(units) else 1.0),
            largest_variance=sensitivity.point_variance,
            remedy="a smaller n_max or a larger observation_variance may help",
        )
        return replace(plan, comparison=self._compared(sensitivity, variance))

    def _compared(self, bounds: ProcessSensitivity, variance: float) -> str:
        """The process against means of noisy sums in as many cells."""
        # a record is in one cell: its label in the sum and 1 in the count share the mean shift
        ours = math.sqrt(variance)
        shift = mean_shift_for(self.promise.epsilon, self.promise.delta)
        sums = min(
            math.sqrt(2) * bounds.label_bound * bounds.points / (bounds.n_max * shift),
            bounds.label_bound,
        )
        if sums <= ours:
            verdict = "answer a table of sums and counts instead"
        else:
            verdict = "the process is better"
        return (
            f"noise of a value: process {ours:.4g}, mean of a noisy sum in each of {bounds.points} cells {sums:.4g}, "
            f"{bounds.n_max} records spread evenly, at the same promise; if cell means are all you need, {verdict}"
        )

    def sensitivity(self, n_features: int = 1) -> ProcessSensitivity:
        """How far apart two neighbours can lie, from the public parameters alone.

        Args:
            n_features: columns of the features.

        Returns:
            The bounds that the guarantee rests on, by name.

        Raises:
            ParameterError: a bound is out of range, or the kernel needs `kernel_bound`.
            ShapeError: query points have other columns.
        """
        kernel = self._kernel(n_features)
        points = self._points(n_features)
        at_points = np.asarray(kernel.diag(points), dtype=np.float64)
        largest = float(np.max(at_points))
        if not (math.isfinite(largest) and float(np.min(at_points)) > 0):
            raise ParameterError(
                "kernel must be positive and finite at every query point."
            )
        if self.kernel_bound is None and not kernel.is_stationary():
            raise ParameterError(
                "kernel_bound must be given for a kernel that is not stationary: the largest k(x, x)."
            )
        if self.kernel_bound is None:
            bound = largest
        else:
            bound = checks.positive("kernel_bound", self.kernel_bound)
        if bound < largest:
            checks.refuse(
                "kernel_bound", f"at least {largest:g}, k(x, x) at a query point", bound
            )
        return ProcessSensitivity(
            point_variance=largest,
            kernel_bound=bound,
            observation_variance=checks.positive(
                "observation_variance", self.observation_variance
            ),
            label_bound=checks.positive("label_bound", self.label_bound),
            n_max=checks.whole("n_max", self.n_max),
            points=len(points),
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Clip the labels, debit the account, draw the process at the query points.

        Args:
            X: rows of features, a table or a `Source`.
            y: the values to learn; None where X is a `Source` with a column of them.

        Returns:
            The regressor itself, with `values_` at `query_points_`.

        Raises:
            ParameterError: a parameter is out of range.
            ShapeError: query points have other columns.
            BudgetExceededError: the account cannot pay.
        """
        records = Records.of(self, X, y)
        columns = int(records.rows.shape[1])
        plan, bounds = self.plan(columns), self.sensitivity(columns)
        kernel = self._kernel(columns)
        points = self._points(columns)
        used = records.usable()
        used = used[np.abs(used.rows).max(axis=1, initial=0.0) <= LARGEST_FEATURE]
        with np.errstate(over="ignore", invalid="ignore"):
            if len(used.rows):  # some kernels fail where there is nobody
                used = used[
                    np.asarray(kernel.diag(used.rows))
                    <= bounds.kernel_bound * BOUND_RAISED
                ]
        used = used.first(bounds.n_max)
        labels = np.clip(used.target, -bounds.label_bound, bounds.label_bound)
        mean, variance = predictive(
            kernel, used.rows, labels, points, bounds.observation_variance
        )
        reach = self._mean_bound(bounds)
        spread = np.sqrt(
            np.clip(variance - plan.covered_variance, 0.0, bounds.point_variance)
        )
        said = plan.said(
            f"a Gaussian process at {len(points)} public points",
            Adjacency.add_remove(records.unit),
            (
                f"there are at most {bounds.n_max} records: the owner states it without the data; of more, those of "
                "the smallest public hash are used",
                "kernel, observation variance, label bound and query points were fixed without the data",
                f"records with k(x, x) above {bounds.kernel_bound:g}, or a feature beyond 2^300, are left out",
            ),
            {
                "kernel": str(kernel),
                "observation_variance": bounds.observation_variance,
                "label_bound": bounds.label_bound,
                "n_max": bounds.n_max,
                "query_points": len(points),
            },
            model=self._model(columns),
        )
        release = self._publish(
            said,
            lambda: plan.draw(
                np.clip(mean, -reach, reach), np.diag(spread), self.generator
            ),
            X,
        )
        self.query_points_ = points
        self.values_ = release.value
        self.added_variance_ = plan.added_variance
        return self

    def predict(self, X: Any) -> Floats:
        """Values at other points: the process given the released values, as if each had the added variance.

        Args:
            X: points, a row each.

        Returns:
            A number for each row.

        Raises:
            ParameterError: the kernel is not one whose positive definiteness is known or stated.
        """
        check_is_fitted(self, "values_")
        rows = new_rows(self, X)
        kernel = self._kernel(int(rows.shape[1]))
        noise = self.added_variance_ + 1e-9 * float(
            np.max(kernel.diag(self.query_points_))
        )
        return predictive(kernel, self.query_points_, self.values_, rows, noise)[0]

    def _kernel(self, n_features: int) -> Kernel:
        if not isinstance(self.kernel, Kernel | None):
            checks.refuse("kernel", "a scikit-learn kernel", self.kernel)
        if self.kernel is None:
            kernel = RBF()
        else:
            kernel = clone(self.kernel)
        if any(
            isinstance(part, WhiteKernel)
            for part in (kernel, *kernel.get_params(deep=True).values())
        ):
            raise ParameterError(
                "kernel must hold no WhiteKernel: give its noise level as observation_variance."
            )
        if self._model(n_features) is None and math.isinf(
            error_units(kernel, n_features)
        ):
            part = refused_part(kernel, n_features)
            raise ParameterError(
                "kernel must be one whose matrices are proven positive definite as they are computed: RBF, Matern with "
                "nu 0.5, 1.5, 2.5 or infinite, RationalQuadratic with alpha of at least 2^-10, ConstantKernel, "
                "DotProduct, ExpSineSquared of one column, PairwiseKernel of a linear, laplacian or polynomial metric, "
                "with positive hyperparameters, scales between 2^-200 and 2^200, or their sums, products and whole "
                f"powers. Got {part}. For another one say in kernel_assumption why it is positive definite; the "
                "guarantee then rests on that."
            )
        return as_computed(kernel)

    def _model(self, n_features: int) -> str | None:
        """What the guarantee rests on where the kernel is not known to be positive definite."""
        if self.kernel_assumption is None or math.isfinite(
            error_units(self.kernel or RBF(), n_features)
        ):
            return None
        if (
            not isinstance(self.kernel_assumption, str)
            or not self.kernel_assumption.strip()
        ):
            checks.refuse("kernel_assumption", "a sentence", self.kernel_assumption)
        return f"the kernel is positive definite: {self.kernel_assumption.strip()}"

    def _points(self, n_features: int) -> Floats:
        if self.query_points is None:
            return np.zeros((1, n_features))
        points = real_array("query_points", self.query_points).astype(np.float64)
        if points.ndim != 2 or len(points) == 0 or not np.all(np.isfinite(points)):
            raise ShapeError(
                f"query_points must be a finite matrix, one point per row. Got shape {points.shape}."
            )
        return points

    @staticmethod
    def _mean_bound(bounds: ProcessSensitivity) -> float:
        """No predictive mean is larger: |w'y| <= B sqrt(n_max) |w|, and |w|^2 <= k/(4 n)."""
        odds = bounds.n_max * bounds.kernel_bound / bounds.observation_variance
        return bounds.label_bound * math.sqrt(odds) / 2 * BOUND_RAISED

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = (
            True  # one noisy value at the origin is all that the defaults release
        )
        tags.non_deterministic = True
        tags.input_tags.allow_nan = (
            True  # such records are left out: a refusal would depend on the data
        )
        return tags


def predictive(
    kernel: Kernel, rows: Floats, target: Floats, points: Floats, noise: float
) -> tuple[Floats, Floats]:
    """Mean and variance of the process at each point (NDIS Definition 8).

    Entries that are no numbers and eigenvalues that rounding made negative count as 0, so no table is refused.
    """
    prior = np.asarray(kernel.diag(points), dtype=np.float64)
    if len(rows) == 0:
        return np.zeros(len(points)), prior
    inner, between = (
        np.nan_to_num(each, posinf=0.0, neginf=0.0)
        for each in (kernel(rows), kernel(points, rows))
    )
    values, vectors = np.linalg.eigh(inner)
    cross = between @ vectors
    weights = cross / (np.maximum(values, 0.0) + noise)
    return np.asarray(weights @ (vectors.T @ target)), prior - np.sum(
        cross * weights, axis=1
    )


@lru_cache(maxsize=128)
def _cheapest(
    sensitivity: ProcessSensitivity, epsilon: float, delta: float
) -> tuple[float, GaussianEnvelope | PrivacyLoss, int]:
    """The least variance of two proofs, what it costs and how often."""
    promise = Promise(epsilon, delta)
    points = sensitivity.points
    envelope, cost = calibrated(
        sensitivity, promise, rank=points, wider="Y", composition="envelope"
    )
    paired, _ = variance_for_pair(
        lambda v: sensitivity.pair(v) ** points, epsilon, promise.delta_before_sampler
    )
    if paired <= envelope:
        return (paired, sensitivity.pair(paired), points)
    return (envelope, cost, 1)
