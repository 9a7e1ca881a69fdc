"""Bayesian logistic regression: one private draw from the Gaussian posterior of the coefficients.

Released: coefficients drawn from N(t, S + v I): t minimises sum log(1 + exp(-y x't)) + regularization |t|^2/2, and S =
(regularization I + sum x x'/4)^-1 is Bohning's covariance, which bounds the posterior's whatever the coefficients.

Adjacency: one record (x, y) is added or removed; |x| <= row_norm by clipping. A record moves t by at most row_norm /
regularization and one eigenvalue of S, so neither the number of records nor of columns enters the noise (corrections
N5).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from gaussveil import checks
from gaussveil.accounting import Adjacency
from gaussveil.containers import cell_numbers, is_missing
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.gaussian_output import (
    BOUND_RAISED,
    LiftedPlan,
    calibrated,
    clipped,
)
from gaussveil.mechanisms.records import Records, clipped_rows, new_rows
from gaussveil.mechanisms.release_path import Mechanism
from gaussveil.typing import Floats

MEAN_TOLERANCE = (
    2.0**-22
)  # of row_norm / regularization: how far the computed minimiser may lie from the true one
COEFFICIENT_REACH = (
    2.0**10
)  # times the prior's typical length: coefficients are clipped there, by a public rule
NEWTON_STEPS = 1000
SMALLEST_STEP = 2.0**-40


@dataclass(frozen=True)
class LogisticSensitivity:
    """Corrections N5: the mean moves by row_norm/regularization, one eigenvalue of the covariance by row_norm^2/4.

    Strong convexity gives the first; S^-1 grows by x x'/4, so S by one rank and from 1/regularization at most. Whether
    the narrower noised law is that with or without the record, it is at least as wide as the added noise.
    """

    row_norm: float
    regularization: float

    def __call__(self, variance: float) -> tuple[float, float]:
        """Mean gap and log-ratio at an added variance."""
        if variance <= 0:
            return math.inf, math.inf
        precision = self.regularization + self.row_norm**2 / 4
        shrinkage = self.row_norm**2 / 4 / (self.regularization * precision)
        gap = (
            self.row_norm
            / self.regularization
            * (1 + 2 * MEAN_TOLERANCE)
            / math.sqrt(variance)
        )
        return gap * BOUND_RAISED, math.log1p(
            shrinkage / (variance + 1 / precision)
        ) * BOUND_RAISED


class TwoClasses(ClassifierMixin):
    """What classifiers by log-odds share; a subclass gives `decision_function` and sets `classes_`."""

    classes_: NDArray[Any]

    @abstractmethod
    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class."""

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class.

        Args:
            X: rows of features, a table or a `Source`.

        Returns:
            A label for each row.
        """
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes.

        Args:
            X: rows of features, a table or a `Source`.

        Returns:
            A row of two numbers for each row of X, in the order of `classes_`.
        """
        second = expit(self.decision_function(X))
        return np.stack((1 - second, second), axis=1)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise for privacy drowns a toy problem
        tags.non_deterministic = True
        tags.input_tags.allow_nan = (
            True  # such records are left out: a refusal would depend on the data
        )
        return tags


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateBayesianLogisticRegression(Mechanism, TwoClasses, BaseEstimator):
    """Binary classifier whose coefficients are one private posterior draw.

    To predict, prefer `PrivateLogisticRegression`: this draw's noise grows as `regularization` falls, that one's not.

    Args:
        epsilon, delta: the promise for one fit.
        row_norm: public bound on the l2 norm of a row; longer rows are scaled down to it.
        regularization: precision of the prior on each coefficient; more of it means less noise.
        classes: the two labels, public; records with another label are left out. By default the labels found in y,
            which must then be public knowledge.
        target: name of the label's column where X is a `Source`.
        unit: column, or one identifier per row, that says whose row it is: of each unit one row is used, chosen by a
            public hash. By default every row is its own unit.
        composition: "envelope" (least noise) or "pair", see `LiftedGaussian`.
        account, generator: as in `GaussianRelease`.
        people: whose rows these are, as an account that is kept for a population names them.

    Attributes: `coef_`, `classes_`, `added_variance_`, `certificate_`, `n_features_in_`.

    >>> import numpy as np
    >>> from gaussveil import PrivateBayesianLogisticRegression
    >>> rows = np.random.default_rng(0).normal(size=(500, 2)) / 4
    >>> model = PrivateBayesianLogisticRegression(epsilon=1.0, delta=1e-6, regularization=10.0)
    >>> model.fit(rows, np.where(rows[:, 0] > 0, "high", "low")).classes_.tolist()
    ['high', 'low']
    """

    mechanism = "bayesian-logistic-regression"
    epsilon: Any = 1.0
    delta: Any = 1e-6
    row_norm: float = 1.0
    regularization: float = 1.0
    classes: Any = None
    target: str = "label"
    unit: Any = None
    composition: str = "envelope"
    classes_: NDArray[Any] = field(init=False)
    coef_: Floats = field(init=False)
    added_variance_: float = field(init=False)

    def plan(self, n_features: int = 1) -> LiftedPlan:
        """The added variance, without data; it is the same for any number of records and columns.

        Args:
            n_features: columns, which change nothing.

        Returns:
            A `LiftedPlan`: how much variance is added, and how the draw is made.

        Raises:
            ParameterError: a parameter is out of range.
        """
        promise = self.promise
        norm = checks.size("row_norm", self.row_norm)
        regularization = checks.positive("regularization", self.regularization)
        sensitivity = LogisticSensitivity(norm, regularization)
        return LiftedPlan.of(
            promise,
            *calibrated(
                sensitivity, promise, rank=1, wider="Y", composition=self.composition
            ),
            dimension=n_features,
            mean_bound=COEFFICIENT_REACH * math.sqrt(n_features / regularization),
            smallest_variance=0.0,
            largest_variance=1 / regularization,
            remedy="a smaller epsilon, a larger row_norm or a smaller regularization may help",
        )

    def fit(self, X: Any, y: Any = None) -> Self:
        """Clip the rows, debit the account, draw the coefficients.

        Args:
            X: rows of features, a table or a `Source`.
            y: two labels; None where X is a `Source` with a column of them.

        Returns:
            The classifier itself, with one draw of the posterior in `coef_`.

        Raises:
            ParameterError: a parameter is out of range, or the labels are not two.
            BudgetExceededError: the account cannot pay.
        """
        classes: list[NDArray[Any]] = []

        def signs(labels: NDArray[Any]) -> Floats:
            classes.append(public_classes(self.classes, labels))
            return class_signs(labels, classes[0])

        records = Records.of(self, X, y, read_target=signs)
        plan = self.plan(int(records.rows.shape[1]))
        usable = records.usable()
        signed = clipped_rows(usable.rows, self.row_norm) * usable.target[:, None]
        mean = clipped(
            minimiser(signed, self.regularization, MEAN_TOLERANCE * self.row_norm),
            plan.sampler.mean_bound,
        )
        factor = bohning_factor(signed, self.regularization)
        said = plan.said(
            f"{records.rows.shape[1]} coefficients of a logistic regression",
            Adjacency.add_remove(records.unit),
            (
                "row_norm, regularization, the number of columns and the two labels are public knowledge",
            ),
            {
                "row_norm": float(self.row_norm),
                "regularization": float(self.regularization),
            },
        )
        release = self._publish(
            said, lambda: plan.draw(mean, factor, self.generator), X
        )
        self.classes_ = classes[0]
        self.coef_ = release.value[None, :]
        self.added_variance_ = plan.added_variance
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class.

        Args:
            X: rows of features, a table or a `Source`.

        Returns:
            A number for each row; above 0 the second class is the likelier.
        """
        check_is_fitted(self, "coef_")
        return np.asarray(new_rows(self, X) @ self.coef_[0])


def public_classes(classes: Any, labels: NDArray[Any] | None) -> NDArray[Any]:
    """The two public labels; those found, which the owner then takes for public, where none are named."""
    if classes is None and labels is not None:
        classes = np.asarray(
            [label for label in labels.tolist() if not is_missing(label)]
        )
        check_classification_targets(classes)
        if (kind := type_of_target(classes, input_name="y")) != "binary":
            raise ParameterError(
                f"Only binary classification is supported. The type of the target is {kind}. "
                "Give the two public labels as classes."
            )
    found = np.unique(np.asarray(classes))
    if len(found) != 2:
        raise ParameterError(
            f"classes must be two public labels. Got {len(found)} class(es)."
        )
    return np.asarray(found)


def class_signs(labels: NDArray[Any], classes: NDArray[Any]) -> Floats:
    """+1 for the second class, -1 for the first, NaN for any other label or none."""
    sign = dict(zip(classes.tolist(), (-1.0, 1.0)))
    if (
        labels.dtype.kind in "SU" and classes.dtype.kind in "biuf"
    ):  # which one text among numbers makes of an array
        labels = cell_numbers(labels)

    def signed(label: Any) -> float:
        try:
            return math.nan if is_missing(label) else sign.get(label, math.nan)
        except TypeError:  # not hashable, so neither of the two
            return math.nan

    return np.asarray([signed(label) for label in labels.tolist()])


def minimiser(signed: Floats, regularization: float, tolerance: float) -> Floats:
    """Minimiser of sum log(1 + exp(-z't)) + regularization |t|^2/2 over the rows z = y x, by damped Newton steps.

    Ends with a gradient no longer than `tolerance`, so at most tolerance/regularization from the true one, or where
    doubles reach no further: whatever the rows are, it ends.
    """
    point = np.zeros(signed.shape[1])
    value, gradient, weights = _objective(signed, regularization, point)
    for _ in range(NEWTON_STEPS):
        if np.linalg.norm(gradient) <= tolerance / 2:
            break
        curvature, axes = np.linalg.eigh((signed.T * weights) @ signed)
        direction = axes @ (
            (axes.T @ gradient) / (np.maximum(curvature, 0.0) + regularization)
        )
        step = 1.0
        slope = float(gradient @ direction)
        while step >= SMALLEST_STEP:
            candidate = point - step * direction
            ahead = _objective(signed, regularization, candidate)
            # close to the minimum differences of values are all rounding: there the gradient decides
            if ahead[0] <= value - 0.25 * step * slope or np.linalg.norm(
                ahead[1]
            ) <= 0.5 * np.linalg.norm(gradient):
                break
            step /= 2
        else:
            break
        point, (value, gradient, weights) = candidate, ahead
    return point


def _objective(
    signed: Floats, regularization: float, point: Floats
) -> tuple[float, Floats, Floats]:
    margin = signed @ point
    value = float(np.sum(np.logaddexp(0.0, -margin))) + 0.5 * regularization * float(
        point @ point
    )
    wrong = expit(-margin)
    return value, regularization * point - signed.T @ wrong, wrong * (1 - wrong)


def bohning_factor(rows: Floats, regularization: float) -> Floats:
    """F with F F' = (regularization I + sum x x'/4)^-1, the covariance of NDIS Definition 7.

    No eigenvalue of the precision is taken below `regularization`, however rounding left the sum.
    """
    values, vectors = np.linalg.eigh(rows.T @ rows / 4)
    return np.asarray(vectors / np.sqrt(np.maximum(values, 0.0) + regularization))
