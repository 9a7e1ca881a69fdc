"""A Gaussian mixture whose class labels are protected, and nothing else: the features are public.

Released: class weights, means and covariances, functions of the labels through noise only and of the features as they
are.

Adjacency: one label is replaced by another, by one that is no class, or by none. A record whose label is no class keeps
its features: it is counted in no class, and its randomised answer is that of a class chosen by its place in the table.

Theorem (derived: docs/mechanisms/mixture.md). The answers are K-ary randomised response; in a table of counts a label
moves two entries by one; in class sums it moves two classes, each as far as one record. A label that is no class moves
one of the two, or answers as some class does: in either case a neighbour by another label moves the release as far.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Adjacency, Charge
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.mechanisms.label_mixture import methods
from gaussveil.mechanisms.mixture.base import Draw, MixtureEstimator
from gaussveil.mechanisms.mixture.budget import stage_budget
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import ClassedRecords, read_records
from gaussveil.mechanisms.mixture.stages import (
    Surroundings,
    allowed_shift,
    for_stages,
    sampler_error,
    staged,
)
from gaussveil.mechanisms.release_path import Plan
from gaussveil.noise.laplace import rational_scale
from gaussveil.postprocessing.feature_sums import features_are_used, with_features
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.postprocessing.public_features import FeatureUnits
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.profiles import DiscreteLaplace, RandomisedResponse
from gaussveil.typing import Floats

FROM_ANSWERS: dict[str, Callable[[Floats, methods.SecretLabels, float], Parameters]] = {
    "response": methods.from_response,
    "clusters": methods.from_clusters,
    "both": methods.from_both,
}


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLabelMixture(MixtureEstimator):
    """A density and a classifier from public features and labels that stay private.

    >>> import numpy as np
    >>> from gaussveil.mechanisms import PrivateLabelMixture
    >>> rows = np.random.default_rng(0).normal(size=(600, 2)) + np.repeat([[0.0, 0.0], [4.0, 4.0]], 300, axis=0)
    >>> model = PrivateLabelMixture(epsilon=1.0, delta=1e-6, classes=["day", "night"])
    >>> model.fit(rows, np.repeat(["day", "night"], 300)).predict([[4.0, 4.0]]).tolist()
    ['night']
    >>> str(model.certificate_.adjacency)
    'one label is replaced by another'

    Args:
        epsilon, delta: the promise for one fit.
        classes: public list of the labels, two at least; it is never looked up in the data.
        method: "response", "clusters", "both", "sums", or "auto" for a public rule (methods.py).
        columns: feature columns of a frame or Source (default: all but the label's).
        account: where the fit is debited before anything is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.
    """

    mechanism = "label mixture"
    classes: Sequence[Any]
    method: str = "auto"

    def _records(self, X: Any, y: Any) -> ClassedRecords:
        if y is None:
            raise ParameterError(
                "requires y to be passed, but the target y is None: pass the labels."
            )
        records = read_records(X, y, classes=self.classes, columns=self.columns)
        if records.source.view.unit is not None:
            raise SchemaError(
                "X must not be bounded by a unit: single labels are protected here, and features of the same "
                f"{records.source.view.unit} are used as they are. PrivateGaussianMixture protects whole units."
            )
        if len(records.classes) < 2:
            raise ParameterError(
                "classes must name two labels at least: a label must have another to change to."
            )
        return records

    def _design(self, records: ClassedRecords) -> tuple[Plan, Draw]:
        promise = self.promise
        classes = len(records.classes)
        epsilon = checks.positive("epsilon", promise.epsilon)
        method = checks.one_of("method", self.method, ("auto", *methods.METHODS))
        rows, codes = records.features_and_codes()
        size, dimension = rows.shape
        if size < 2 * classes:
            raise ShapeError(
                f"X must hold at least {2 * classes} records with complete features, which are public. Got {size}."
            )
        units = FeatureUnits.of(rows)
        if method in ("auto", "sums"):
            mean_shift = allowed_shift(promise, classes, dimension)
        else:
            mean_shift = math.nan
        if method == "auto":
            method = methods.choose_method(
                size, classes, dimension, epsilon, mean_shift
            )
        described: dict[str, object] = {}
        if method == "sums":
            units = units.common
            noise = stage_budget(
                size,
                for_stages(_one_class(mean_shift)),
                classes,
                dimension,
                _ball(rows)[0],
                None,
            )
            described = {"mean_shift": mean_shift, "noise": noise.describe()}
        plan = self._said(
            records,
            _charge(
                method, epsilon, classes, mean_shift, sampler_error(classes, dimension)
            ),
            Adjacency.replace_one("label"),
            (
                "the features are not protected: the model is computed from them as they are, so nothing is promised "
                "to anybody beyond one label, not even to a household whose labels they all are",
                "the records, their number and order are public knowledge; a label outside the list may be the one "
                "that is replaced, and leaves its record's features where they are",
            ),
            method=method,
            **described,
        )

        def draw() -> Parameters:
            scaled = units.scaled(rows)
            labels = methods.SecretLabels(codes, classes, self.generator)
            if method == "sums":
                return units.restored(_from_sums(scaled, labels, mean_shift))
            return units.restored(FROM_ANSWERS[method](scaled, labels, epsilon))

        return plan, draw


def _charge(
    method: str, epsilon: float, classes: int, mean_shift: float, error: float
) -> Charge:
    """What a release by this method costs."""
    if method == "sums":
        return Charge(GaussianPair.mean_shift(mean_shift), sampler_error=error)
    if method == "response":
        return Charge(RandomisedResponse(epsilon, classes))
    if method == "clusters":
        return _table_charge(epsilon)
    for_table, for_answers = methods.split_epsilon(epsilon)
    return _table_charge(for_table) + Charge(RandomisedResponse(for_answers, classes))


def _table_charge(epsilon: float) -> Charge:
    """A table of counts with discrete Laplace noise: a label moves two of them by one each."""
    numerator, denominator = rational_scale(
        2 / Fraction(epsilon)
    )  # as the table is drawn
    return Charge(DiscreteLaplace(1, numerator / denominator), count=2)


def _from_sums(
    rows: Floats, labels: methods.SecretLabels, mean_shift: float
) -> Parameters:
    """Class sums in stages, in a ball about the features, and what the features add to them."""
    classes, (size, dimension) = labels.classes, rows.shape
    table = read_records(rows, labels.codes, classes=range(classes), columns=None)
    single = _one_class(mean_shift)
    passes = PrivatePasses(
        table.source,
        table.columns,
        table.group,
        classes,
        1,
        2,
        single,
        labels.generator,
    )
    guess = staged(passes, classes, Surroundings(*_ball(rows), size), single)
    if guess.seen is None or not features_are_used(size, classes, dimension):
        return guess.parameters
    return with_features(rows, guess.parameters, guess.seen)


def _one_class(mean_shift: float) -> float:
    """A label moves the sums of two classes, each as much as one record would: twice the squared loss."""
    return mean_shift / math.sqrt(2)


def _ball(rows: Floats) -> tuple[float, Floats]:
    """Radius and middle of a ball that holds nearly all features, which are public."""
    middle = rows.mean(axis=0)
    return float(
        np.quantile(np.linalg.norm(rows - middle, axis=1), 0.99)
    ) or 1.0, middle
