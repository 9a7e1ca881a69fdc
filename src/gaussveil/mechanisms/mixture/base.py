"""What every private mixture is once it is released: a density and a classifier of scikit-learn."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussveil.accounting import Adjacency, Charge, PrivateDiagnostics
from gaussveil.containers import frame, library_of, series
from gaussveil.errors import InputError
from gaussveil.mechanisms.mixture.records import ClassedRecords, read_records
from gaussveil.mechanisms.release_path import Mechanism, Plan
from gaussveil.postprocessing.mixture_model import MixtureModel, Parameters
from gaussveil.typing import Floats, Integers

Draw = Callable[[], Parameters]


@dataclass(kw_only=True, eq=False, repr=False)
class MixtureEstimator(Mechanism, ClassifierMixin, DensityMixin, BaseEstimator):
    """A released mixture; a subclass says what is read, what it costs and how it is drawn."""

    columns: Sequence[str] | None = None
    model_: MixtureModel = field(init=False, repr=False)

    @abstractmethod
    def _records(self, X: Any, y: Any) -> ClassedRecords:
        """What the mixture is fitted to; refuses what the schema shows to be wrong."""

    @abstractmethod
    def _design(self, records: ClassedRecords) -> tuple[Plan, Draw]:
        """What a fit to such records debits and certifies, and its draw."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Debit, draw, certify. `y` holds labels, or names the label column of a frame or Source.

        Every refusal comes before the debit and depends on public knowledge only: types, columns, parameters.

        Args:
            X: rows of features, a table or a `Source`.
            y: labels, or the name of their column.

        Returns:
            The estimator itself, with `model_` and `certificate_`.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        records = self._records(X, y)
        if isinstance(y, str):
            label = records.label
        else:
            label = getattr(y, "name", None)
        plan, draw = self._design(records)

        def draw_model() -> MixtureModel:
            return MixtureModel(
                *draw(),
                records.classes,
                records.columns,
                label=str(label or "class"),
                log=getattr(self, "log", None),
            )

        release = self._publish(plan, draw_model, read=X)
        self.model_ = replace(release.value, certificate=release.certificate)
        self.certificate_ = release.certificate
        self.weights_, self.means_, self.covariances_ = (
            self.model_.weights,
            self.model_.means,
            self.model_.covariances,
        )
        self.classes_ = np.array(records.classes)
        self.n_features_in_ = len(records.columns)
        self._library = library_of(X)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(records.columns, dtype=object)
        return self

    def plan(self, X: Any, y: Any = None) -> Plan:
        """What `fit` would debit and certify; nothing is drawn or spent.

        Args:
            X: rows of features, a table or a `Source`; its columns are looked at.
            y: labels, or the name of their column.

        Returns:
            Charge, guarantee and noise of the fit.
        """
        return self._design(self._records(X, y))[0]

    def _said(
        self,
        records: ClassedRecords,
        charge: Charge,
        adjacency: Adjacency,
        assumptions: Sequence[str],
        **known: object,
    ) -> Plan:
        """A plan in the words that all mixtures share."""
        if records.classes_declared:
            where = "stated by the caller"
        else:
            where = "those present in the data, declared public"
        return Plan(
            charge=charge,
            released=f"Gaussian mixture of {len(records.classes)} classes in {len(records.columns)} columns",
            adjacency=adjacency,
            assumptions=(
                f"the list of classes is public knowledge ({where})",
                *assumptions,
            ),
            parameters={
                "classes": [str(name) for name in records.classes],
                "columns": list(records.columns),
                **known,
            },
        )

    def diagnose(self, X: Any, y: Any, held_out: Any = None) -> PrivateDiagnostics:
        """How close the release is to the fit without privacy, measured on private records: never publish it.

        Args:
            X: rows of features, a table or a `Source`.
            y: labels, or the name of their column.
            held_out: other rows, whose likelihood is told under both models.

        Returns:
            Divergences and likelihoods by name.
        """
        check_is_fitted(self, "model_")
        named = hasattr(X, "columns") or hasattr(X, "schema")
        columns = self.columns or (list(self.model_.columns) if named else None)
        rows, codes = read_records(
            X, y, classes=self.model_.classes, columns=columns
        ).features_and_codes()
        complete = codes >= 0  # complete records alone
        return _diagnosed(
            self.model_,
            rows[complete],
            codes[complete],
            None if held_out is None else self._rows(held_out),
        )

    def sample(
        self, n_samples: int = 1, random_state: int | None = None
    ) -> tuple[Any, Any]:
        """Synthetic rows and their classes; free, being post-processing.

        Two arrays; after a fit to a pandas or polars frame, a frame with the same columns and a series of classes.

        Args:
            n_samples: how many rows.
            random_state: seed of the draws.

        Returns:
            Rows, and the class of each.
        """
        check_is_fitted(self, "model_")
        rows, index = self.model_.sample(n_samples, random_state)
        if not self._library:
            return rows, self.classes_[index]
        columns = dict(zip(self.model_.columns, rows.T))
        return frame(self._library, columns), series(
            self._library, self.model_.label, self.classes_[index]
        )

    def score_samples(self, X: Any) -> Floats:
        """Log density of every row under the released mixture, of its known columns where some are missing.

        Args:
            X: rows of features, a table or a `Source`; missing values are allowed.

        Returns:
            A number for each row.
        """
        rows = self._rows(X)
        return self.model_.log_density(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Accuracy where labels are given, else the mean log-likelihood.

        Args:
            X: rows of features, a table or a `Source`.
            y: labels, if there are any.

        Returns:
            A share of the rows with labels, or nats a row without.
        """
        if y is None:
            return float(np.mean(self.score_samples(X)))
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, in the order of `classes_`.

        Args:
            X: rows of features, a table or a `Source`.

        Returns:
            A row for each row of X, which sums to 1.
        """
        rows = self._rows(X)
        return self.model_.probabilities(rows)

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row.

        Args:
            X: rows of features, a table or a `Source`.

        Returns:
            A label for each row.
        """
        rows = self._rows(X)
        return np.asarray(self.classes_[np.argmax(self.model_.log_joint(rows), axis=1)])

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self, "model_")
        if self.columns is not None and hasattr(X, "columns"):
            X = X[list(self.columns)]
        return np.asarray(
            validate_data(
                self, X, reset=False, dtype=np.float64, ensure_all_finite="allow-nan"
            )
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # fits leave such records out, predictions leave out their missing columns
        tags.target_tags.required = False
        return tags


def _diagnosed(
    model: MixtureModel, rows: Floats, codes: Integers, held_out: Floats | None
) -> PrivateDiagnostics:
    """Both divergences against the fit without privacy, held-out likelihood, weights."""
    counts = np.bincount(codes, minlength=len(model.classes))
    there = back = (
        math.inf
    )  # a class with fewer records than columns has no density to compare with
    fitted = None
    if counts.min() > rows.shape[1]:
        try:
            fitted = MixtureModel.fitted(rows, codes, model.classes)
        except InputError:  # some class lies in a subspace
            fitted = None
    if fitted is not None:
        there = model.joint_divergence(fitted)
        back = fitted.joint_divergence(model)
    return PrivateDiagnostics(
        released_fitted=there,
        fitted_released=back,
        weights_error=float(np.abs(model.weights - counts / max(len(rows), 1)).sum()),
        log_likelihood=float(model.log_density(rows).mean()) if len(rows) else math.nan,
        held_out_log_likelihood=None
        if held_out is None
        else float(model.log_density(held_out).mean()),
        held_out_log_likelihood_fitted=(
            None
            if held_out is None or fitted is None
            else float(fitted.log_density(held_out).mean())
        ),
    )
