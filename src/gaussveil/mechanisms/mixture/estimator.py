"""A Gaussian mixture with one Gaussian per class, released under differential privacy.

Released: class weights, means and covariances, all post-processing of noisy sums on a public lattice.

Adjacency "record": one privacy unit (a record, or a household with at most m records) is added or removed. The classes,
the ball of centre c and radius R that records are clipped to, and the nominal size are public.

Theorem (derived: docs/mechanisms/mixture.md). Every pass is a Gaussian release whose noise and public parameters depend
on earlier outputs only, and the passes' squared mean shifts add up to mu^2 at most whatever those outputs were. The
whole fit is therefore dominated by the single pair N(mu, 1) against N(0, 1) (adaptive composition of Gaussian releases:
Dong, Roth and Su 2022, composition theorem), and its delta(epsilon) is exact.

The published algorithm for this job (GMM paper, Algorithm 1) is not private as printed: see published/gmm_kl.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, DensityMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from gaussveil.accounting import Account, PrivateDiagnostics, transaction
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.containers import frame, library_of, real_number, series
from gaussveil.mechanisms.mixture.diagnostics import diagnose
from gaussveil.mechanisms.mixture.model import MixtureModel
from gaussveil.mechanisms.mixture.plan import FitPlan, Promise, label_plan, record_plan
from gaussveil.mechanisms.mixture.records import Records, read_records
from gaussveil.noise import Generator
from gaussveil.typing import Floats


class PrivateGaussianMixture(ClassifierMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """A density and a classifier whose parameters may be published.

    >>> import numpy as np
    >>> from gaussveil.mechanisms import PrivateGaussianMixture
    >>> rows = np.random.default_rng(0).normal(size=(2000, 2)) + np.repeat([[0.0, 0.0], [4.0, 4.0]], 1000, axis=0)
    >>> model = PrivateGaussianMixture(epsilon=1.0, delta=1e-6, radius=8.0)
    >>> model.fit(rows, np.repeat(["day", "night"], 1000)).predict([[4.0, 4.0]]).tolist()
    ['night']
    >>> model.certificate_.account
    'not recorded'

    Args:
        epsilon, delta: the promise for one fit.
        radius: public bound; records farther from `centre` are moved to the ball's surface.
        centre: public middle of the ball (the origin by default).
        classes: public list of the labels (default: those present, declared public on the certificate); records with
            another label are left out. Without labels: how many clusters to find, inside the budget.
        nominal_size: public guess of the number of records, for the division of the budget only; without it the first
            stage's noisy counts decide.
        adjacency: "record" (one unit is added or removed) or "label" (one label is replaced by another; the features
            are not protected then, and no radius is needed).
        method: with adjacency "label": "response", "clusters", "both", "sums", or "auto" for a public rule.
        columns: feature columns of a frame or Source (default: all but label and unit).
        unit, rows_per_unit: column that says who is protected, and how many rows each may contribute.
        account: where the fit is debited before anything is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
    """

    def __init__(
        self,
        *,
        epsilon: float,
        delta: float,
        radius: float | None = None,
        centre: ArrayLike | None = None,
        adjacency: str = "record",
        classes: Sequence[Any] | int | None = None,
        nominal_size: int | None = None,
        method: str = "auto",
        columns: Sequence[str] | None = None,
        unit: str | None = None,
        rows_per_unit: int | None = None,
        account: Account | None = None,
        generator: Generator | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.radius = radius
        self.centre = centre
        self.adjacency = adjacency
        self.classes = classes
        self.nominal_size = nominal_size
        self.method = method
        self.columns = columns
        self.unit = unit
        self.rows_per_unit = rows_per_unit
        self.account = account
        self.generator = generator

    def fit(self, X: Any, y: Any = None) -> PrivateGaussianMixture:
        """Debit, draw all stages, certify. `y` holds labels, or names the label column of a frame or Source.

        Every refusal comes before the debit and depends on public knowledge only: types, columns, parameters.
        """
        records = self._records(X, y)
        plan = self._plan(records)
        with transaction(self.account, plan.charge, plan.draft) as debit:
            parameters = debit.draw(plan.draw)
        self.model_ = MixtureModel(*parameters, records.classes, records.columns, debit.certificate)
        self.certificate_ = debit.certificate
        self.classes_ = np.array(records.classes)
        self.n_features_in_ = len(records.columns)
        self._library = library_of(X)
        if hasattr(X, "columns"):
            self.feature_names_in_ = np.array(records.columns, dtype=object)
        return self

    def plan(self, X: Any, y: Any = None) -> FitPlan:
        """What `fit` would debit and certify; nothing is drawn or spent.

        With adjacency "record", declared classes and a Source, nothing but the table's schema is looked at.
        """
        return self._plan(self._records(X, y))

    def _records(self, X: Any, y: Any) -> Records:
        self._check_parameters()
        return read_records(
            X,
            y,
            classes=self.classes,
            columns=self.columns,
            unit=self.unit,
            rows_per_unit=self.rows_per_unit,
        )

    def _plan(self, records: Records) -> FitPlan:
        promise = Promise(real_number("epsilon", self.epsilon), real_number("delta", self.delta), self.generator)
        if self.adjacency == "label":
            return label_plan(promise, records, method=self.method)
        radius, middle = self._ball(len(records.columns))
        return record_plan(
            promise,
            records,
            radius=radius,
            middle=middle,
            nominal_size=self.nominal_size,
            unit=self.unit or "record",
        )

    def diagnose(self, X: Any, y: Any, held_out: Any = None) -> PrivateDiagnostics:
        """How close the release is to the fit without privacy, measured on private records: never publish it."""
        check_is_fitted(self, "model_")
        records = read_records(
            X,
            y,
            classes=self.model_.classes,
            columns=self.columns or self._source_columns(X),
            unit=None,
            rows_per_unit=None,
        )
        return diagnose(self.model_, *records.in_memory(), None if held_out is None else self._rows(held_out))

    def _source_columns(self, X: Any) -> Sequence[str] | None:
        return list(self.model_.columns) if self.unit is not None or hasattr(X, "columns") else None

    @property
    def weights_(self) -> Floats:
        """Released class weights."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.weights)

    @property
    def means_(self) -> Floats:
        """Released class means, K x d."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.means)

    @property
    def covariances_(self) -> Floats:
        """Released class covariances, K x d x d."""
        check_is_fitted(self, "model_")
        return np.asarray(self.model_.covariances)

    def sample(self, n_samples: int = 1, random_state: int | None = None) -> tuple[Any, Any]:
        """Synthetic rows and their classes; free, being post-processing.

        Two arrays; after a fit to a pandas or polars frame, a frame with the same columns and a series of classes.
        """
        check_is_fitted(self, "model_")
        rows, index = self.model_.sample(n_samples, random_state)
        if not self._library:
            return rows, self.classes_[index]
        columns = dict(zip(self.model_.columns, rows.T))
        return frame(self._library, columns), series(self._library, "class", self.classes_[index])

    def score_samples(self, X: Any) -> Floats:
        """Log density of every row under the released mixture."""
        rows = self._rows(X)
        return np.asarray(self.model_.log_density(rows))

    def score(self, X: Any, y: Any = None) -> float:
        """Accuracy where labels are given, else the mean log-likelihood."""
        if y is None:
            return float(np.mean(self.score_samples(X)))
        return float(np.mean(self.predict(X) == np.asarray(y)))

    def predict_proba(self, X: Any) -> Floats:
        """Probabilities of the classes, in the order of `classes_`."""
        rows = self._rows(X)
        return np.asarray(self.model_.probabilities(rows))

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of every row."""
        rows = self._rows(X)
        return np.asarray(self.classes_[np.argmax(self.model_.log_joint(rows), axis=1)])

    def _rows(self, X: Any) -> Floats:
        check_is_fitted(self, "model_")
        if self.columns is not None and hasattr(X, "columns"):
            X = X[list(self.columns)]
        return np.asarray(validate_data(self, X, reset=False, dtype=np.float64))

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True  # such records are left out, by a public rule
        tags.target_tags.required = False
        return tags

    def _check_parameters(self) -> None:
        if not isinstance(self.generator, Generator | None):
            raise ParameterError(
                f"generator must be a SecureGenerator or SeededGenerator. Got {type(self.generator).__name__} instead."
            )
        if self.adjacency not in ("record", "label"):
            raise ParameterError(f"adjacency must be 'record' or 'label'. Got {self.adjacency!r} instead.")
        if self.adjacency == "label" and self.unit is not None:
            raise ParameterError("unit must be left out with adjacency 'label': single labels are protected.")
        size = self.nominal_size
        if size is not None and (isinstance(size, bool) or not isinstance(size, int | np.integer) or size < 1):
            raise ParameterError(f"nominal_size must be a positive integer or None. Got {size!r} instead.")

    def _ball(self, dimension: int) -> tuple[float, Floats]:
        if self.radius is None:
            raise ParameterError("radius must be given: the public ball that records are clipped to.")
        radius = real_number("radius", self.radius)
        if not 2.0**-200 <= radius <= 2.0**200:
            raise ParameterError(f"radius must be positive and of ordinary size. Got {radius!r} instead.")
        middle = np.zeros(dimension) if self.centre is None else np.asarray(self.centre, dtype=np.float64)
        if middle.shape != (dimension,) or not np.isfinite(middle).all():
            raise ParameterError(f"centre must hold {dimension} finite numbers. Got shape {middle.shape}.")
        return radius, middle
