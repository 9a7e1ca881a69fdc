"""Bayesian logistic regression: one private draw from the Gaussian posterior of the coefficients.

Released: coefficients drawn from N(t, S + v I): t minimises sum log(1 + exp(-y x't)) + regularization |t|^2/2, and S =
(regularization I + sum x x'/4)^-1 is Bohning's covariance, which bounds the posterior's whatever the coefficients.

Adjacency: one record (x, y) is added or removed; |x| <= row_norm by clipping. A record moves t by at most row_norm /
regularization and one eigenvalue of S, so neither the number of records nor of columns enters the noise (corrections
N5).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import expit
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import check_is_fitted

from gaussveil.accounting import Account, Adjacency
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.mechanisms.containers import real_number
from gaussveil.mechanisms.gaussian_output import LiftedPlan, clipped, draw_release, lifted_plan
from gaussveil.mechanisms.records import clipped_rows, features_and_target, new_rows
from gaussveil.noise import Generator
from gaussveil.typing import Floats

MEAN_TOLERANCE = 2.0**-22  # of row_norm / regularization: how far the computed minimiser may lie from the true one
COEFFICIENT_REACH = 2.0**10  # times the prior's typical length: coefficients are clipped there, by a public rule
NEWTON_STEPS = 200


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
        gap = self.row_norm / self.regularization * (1 + 2 * MEAN_TOLERANCE) / math.sqrt(variance)
        return gap * (1 + 1e-12), math.log1p(shrinkage / (variance + 1 / precision)) * (1 + 1e-12)


class PrivateBayesianLogisticRegression(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Binary classifier whose coefficients are one private posterior draw.

    Args:
        epsilon, delta: the promise for one fit.
        row_norm: public bound on the l2 norm of a row; longer rows are scaled down to it.
        regularization: precision of the prior on each coefficient; more of it means less noise.
        classes: the two labels, public; records with another label are left out. By default the labels found in y,
            which must then be public knowledge.
        target: name of the label's column where X is a `Source`.
        composition: "envelope" (least noise) or "pair", see `LiftedGaussian`.
        account, privacy_unit, generator: as in `GaussianRelease`.

    Attributes: `coef_`, `classes_`, `added_variance_`, `certificate_`, `n_features_in_`.
    """

    def __init__(
        self,
        *,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        row_norm: float = 1.0,
        regularization: float = 1.0,
        classes: Any = None,
        target: str = "label",
        composition: str = "envelope",
        account: Account | None = None,
        privacy_unit: str = "record",
        generator: Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.row_norm = row_norm
        self.regularization = regularization
        self.classes = classes
        self.target = target
        self.composition = composition
        self.account = account
        self.privacy_unit = privacy_unit
        self.generator = generator

    def plan(self, n_features: int = 1) -> LiftedPlan:
        """The added variance, without data; it is the same for any number of records and columns."""
        norm, regularization = self._parameters()
        return lifted_plan(
            LogisticSensitivity(norm, regularization),
            epsilon=self.epsilon,
            delta=self.delta,
            rank=1,
            wider="Y",
            dimension=n_features,
            mean_bound=COEFFICIENT_REACH * math.sqrt(n_features / regularization),
            smallest_variance=0.0,
            largest_variance=1 / regularization,
            composition=self.composition,
            remedy="a smaller epsilon, a larger row_norm or a smaller regularization may help",
        )

    def fit(self, X: Any, y: Any = None) -> PrivateBayesianLogisticRegression:
        """Clip the rows, debit the account, draw the coefficients."""
        rows, labels = features_and_target(self, X, y, self.target)
        present = labels == labels  # NaN is not
        classes = self._classes(labels[present])
        plan = self.plan(int(rows.shape[1]))
        norm, regularization = self._parameters()
        known = present & np.isin(labels, classes) & np.all(np.isfinite(rows), axis=1)
        signs = np.where(labels[known] == classes[1], 1.0, -1.0)
        signed = clipped_rows(rows[known], norm) * signs[:, None]
        mean = minimiser(signed, regularization, MEAN_TOLERANCE * norm)
        release = draw_release(
            plan,
            clipped(mean, plan.sampler.mean_bound),
            bohning_factor(signed, regularization),
            released=f"{rows.shape[1]} coefficients of a logistic regression",
            mechanism="bayesian-logistic-regression",
            account=self.account,
            adjacency=Adjacency.add_remove(self.privacy_unit),
            generator=self.generator,
            assumptions=(
                "row_norm, regularization, the number of columns and the two labels are public knowledge",
                f"one {self.privacy_unit} contributes one row",
            ),
            parameters={"row_norm": norm, "regularization": regularization},
        )
        self.classes_, self.coef_ = classes, release.value[None, :]
        self.certificate_, self.added_variance_ = release.certificate, plan.added_variance
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class."""
        check_is_fitted(self, "coef_")
        return np.asarray(new_rows(self, X) @ self.coef_[0])

    def predict(self, X: Any) -> NDArray[Any]:
        """The likelier class."""
        second = self.decision_function(X) > 0
        return np.asarray(self.classes_[second.astype(int)])

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of both classes under the drawn coefficients."""
        second = expit(self.decision_function(X))
        return np.stack((1 - second, second), axis=1)

    def _parameters(self) -> tuple[float, float]:
        values = []
        for name in ("row_norm", "regularization"):
            value = real_number(name, getattr(self, name))
            if not 0 < value < math.inf:
                raise ParameterError(f"{name} must be positive and finite. Got {value!r} instead.")
            values.append(value)
        return values[0], values[1]

    def _classes(self, labels: NDArray[Any]) -> NDArray[Any]:
        if self.classes is None:
            check_classification_targets(labels)
            kind = type_of_target(labels, input_name="y")
            if kind != "binary":
                raise ParameterError(
                    f"Only binary classification is supported. The type of the target is {kind}. "
                    "Give the two public labels as classes."
                )
        found = np.unique(labels if self.classes is None else np.asarray(self.classes))
        if len(found) != 2:
            raise ParameterError(
                f"there must be two classes. Got {len(found)} class(es): name the two public labels as classes."
            )
        return np.asarray(found)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        tags.classifier_tags.poor_score = True  # noise for privacy drowns a toy problem
        tags.non_deterministic = True
        tags.input_tags.allow_nan = True  # such records are left out: a refusal would depend on the data
        return tags


def minimiser(signed: Floats, regularization: float, tolerance: float) -> Floats:
    """Minimiser of sum log(1 + exp(-z't)) + regularization |t|^2/2 over the rows z = y x, by damped Newton steps.

    Ends with a gradient no longer than `tolerance`, so at most tolerance/regularization from the true one.
    """
    point = np.zeros(signed.shape[1])
    value, gradient, weights = _objective(signed, regularization, point)
    for _ in range(NEWTON_STEPS):
        if np.linalg.norm(gradient) <= tolerance / 2:
            return point
        hessian = (signed.T * weights) @ signed + regularization * np.eye(len(point))
        direction = cho_solve(cho_factor(hessian), gradient)
        step, slope = 1.0, float(gradient @ direction)
        while True:
            candidate = point - step * direction
            ahead = _objective(signed, regularization, candidate)
            # close to the minimum differences of values are all rounding: there the gradient decides
            if ahead[0] <= value - 0.25 * step * slope or np.linalg.norm(ahead[1]) <= 0.5 * np.linalg.norm(gradient):
                break
            step /= 2
            if step < 2.0**-40:
                raise NumericalError("the regression did not converge. Raise regularization or lower row_norm.")
        point, (value, gradient, weights) = candidate, ahead
    raise NumericalError("the regression did not converge. Raise regularization or lower row_norm.")


def _objective(signed: Floats, regularization: float, point: Floats) -> tuple[float, Floats, Floats]:
    margin = signed @ point
    value = float(np.sum(np.logaddexp(0.0, -margin))) + 0.5 * regularization * float(point @ point)
    wrong = expit(-margin)
    return value, regularization * point - signed.T @ wrong, wrong * (1 - wrong)


def bohning_factor(rows: Floats, regularization: float) -> Floats:
    """F with F F' = (regularization I + sum x x'/4)^-1, the covariance of NDIS Definition 7."""
    precision = regularization * np.eye(rows.shape[1]) + rows.T @ rows / 4
    return np.asarray(solve_triangular(np.linalg.cholesky(precision).T, np.eye(len(precision))))
