"""Offers on rows of numbers: regressions, components, curves, typical classes, sketches."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from gaussveil import mechanisms  # each loads when it is first named
from gaussveil.accounting import Charge
from gaussveil.errors import ParameterError
from gaussveil.statistics import Source, as_source
from gaussveil.statistics.block import require_numbers
from gaussveil_studio.offers.offer import spelled
from gaussveil_studio.offers.rehearsed import (
    NORMAL_95,
    Facts,
    RehearsedOffer,
    Reply,
)
from gaussveil_studio.offers.rounding import percent, uncertain
from gaussveil_studio.offers.tables import schema_of

SEVERAL = 7
MOST_EIGENVALUES = 12
NOMINAL = 1000  # records that a preview is of, where nobody has guessed


def _classes(offer: RehearsedOffer, label: str, named: Sequence[str]) -> list[Any]:
    from gaussveil.mechanisms.mixture.records import classes_from_words

    return classes_from_words(schema_of(offer.needed_table()), label, named)


class RegressionOffer(RehearsedOffer):
    """Coefficients and their intervals."""

    file_name = "coefficients.csv"
    kind = "rows"
    own_scale = True
    holds = (
        "In 95 of 100 cases the coefficient lies within its interval, which holds the noise that was added for privacy "
        "and the scatter of the rows about the model. That the model itself is right is not in it."
    )

    def _mechanism(self, **more: Any) -> mechanisms.PrivateLinearRegression:
        target = self.order["target"]
        ends = (self.order["low"], self.order["high"])
        if (ends[0] is None) != (ends[1] is None):
            raise ParameterError("give both bounds of what is explained, or none")
        known = self._promised("unit", "rows_per_unit", **more)
        return mechanisms.PrivateLinearRegression(
            target=(target,),
            target_bounds="auto" if ends[0] is None else {target: ends},
            **known,
        )

    def _simulated(self) -> Source:
        order, (columns, told) = self.order, self._features(self.order["rows"])
        require_numbers(schema_of(self.needed_table()), [order["target"]])
        bounds = self._mechanism().target_bounds
        low, high = (-1.0, 1.0) if bounds == "auto" else bounds[order["target"]]
        return as_source(
            pa.table(
                {**columns, order["target"]: (low + high) / 2 + (high - low) / 4 * told}
            )
        )

    def _facts(self, rehearsed: Reply) -> Facts:
        if self.order["low"] is None:
            words = "searched, for a fifth of the budget"
        else:
            words = "as you gave them"
        return (
            ("Answers", "coefficients with their 95 % intervals"),
            ("Bounds", words),
        )

    def _answer(
        self, mechanism: mechanisms.PrivateLinearRegression, data: Any
    ) -> Reply:
        (fit,) = mechanism.fit(data).fits_
        words = "the noise is above the signal: do not trust these intervals"
        beware = ("Beware", words)
        told = ("Released", f"{fit.target} explained by {', '.join(fit.names[1:])}")
        facts = (
            told,
            ("Residual", f"standard deviation {uncertain(fit.residual_deviation)}"),
            *((beware,) * (not fit.trusted)),
        )
        table = {"column": fit.names, "coefficient": fit.coefficients.tolist()}
        ends = fit.interval.T.tolist()
        return Reply(
            table,
            mechanism.certificate_,
            facts,
            ends,
            skipped=1,
            beside={"trusted": fit.informed},
        )


class LogisticOffer(RehearsedOffer):
    """Log-odds per unit of every column."""

    file_name = "coefficients.csv"
    kind = "rows"
    own_scale = True
    y_name = "change of the log-odds per unit"
    rehearsals = SEVERAL

    def _mechanism(self, **more: Any) -> mechanisms.PrivateLogisticRegression:
        target = self.order["target"]
        named = self.order["classes"] or ()
        if len(named) != 2:
            raise ParameterError(
                "name the two labels: they are public and never looked up"
            )
        classes = _classes(self, target, named)
        known = self._promised("unit", "rows_per_unit", **more)
        return mechanisms.PrivateLogisticRegression(
            target=target, classes=classes, **known
        )

    def _simulated(self) -> Source:
        columns, told = self._features(self.order["rows"])
        first, second = self._mechanism().classes
        return as_source(
            pa.table(
                {
                    **columns,
                    self.order["target"]: [second if v > 0 else first for v in told],
                }
            )
        )

    def _answer(
        self, mechanism: mechanisms.PrivateLogisticRegression, data: Any
    ) -> Reply:
        model = mechanism.fit(data)
        names = ["intercept", *model.feature_names_in_]
        values = [*model.intercept_.tolist(), *model.coef_[0].tolist()]
        told = (
            ("Tells", f"how likely {model.classes_[1]} is against {model.classes_[0]}"),
        )
        return Reply(
            {"column": names, "coefficient": values},
            model.certificate_,
            told,
            skipped=1,
        )


class PcaOffer(RehearsedOffer):
    """Directions, and how much varies along them."""

    file_name = "components.csv"
    y_name = "variance along it"

    def _mechanism(self, **more: Any) -> mechanisms.PrivatePCA:
        return mechanisms.PrivatePCA(
            **self._promised("unit", "rows_per_unit", "n_components", **more)
        )

    def _simulated(self) -> Source:
        return as_source(pa.table(self._features(self.order["rows"])[0]))

    def _answer(self, mechanism: mechanisms.PrivatePCA, data: Any) -> Reply:
        model = mechanism.fit(data)
        # A variance is not negative, whatever noise may say.
        ends = np.maximum(model.explained_variance_interval_, 0.0).T.tolist()
        values = model.explained_variance_.tolist()
        table = {
            "component": [f"{k + 1}" for k in range(len(values))],
            "variance": values,
        }
        beside = {
            f"along {name}": each.tolist()
            for name, each in zip(model.feature_names_in_, model.components_.T)
        }
        share = percent(float(np.sum(model.explained_variance_ratio_)))
        what = f"the directions in which {len(self.columns())} columns vary most"
        told = ("Released", what), ("Explained", f"{share} of all variance")
        return Reply(table, model.certificate_, told, ends, beside=beside)


class ProcessOffer(RehearsedOffer):
    """A curve at public points."""

    file_name = "curve.csv"
    kind = "line"
    y_name = "value"

    def _mechanism(self, **more: Any) -> mechanisms.PrivateGaussianProcessRegressor:
        from sklearn.gaussian_process.kernels import RBF

        order = self.order
        places = np.linspace(order["first"], order["last"], order["points"])
        return mechanisms.PrivateGaussianProcessRegressor(
            kernel=(order["label_bound"] / 2) ** 2 * RBF(order["smooth_over"]),
            query_points=[[place] for place in places.tolist()],
            observation_variance=order["scatter"] ** 2,
            **self._promised("n_max", "target", "label_bound", "unit", **more),
        )

    def _chosen(self) -> list[str]:
        names = [self.order["column"], self.order["target"]]
        require_numbers(schema_of(self.needed_table()), names)
        return [*names, *([self.order["unit"]] if self.order["unit"] else [])]

    def _simulated(self) -> Source:
        count = self.order["n_max"]
        order = self.order
        wave = order["label_bound"] / 2 * np.sin(np.linspace(0, 6, count))
        columns = (
            np.linspace(order["first"], order["last"], count),
            wave,
            np.arange(count),
        )
        return as_source(pa.table(dict(zip(self._chosen(), columns))))

    def _facts(self, rehearsed: Reply) -> Facts:
        plan = self._mechanism().plan(1)
        deviation = self._deviation(plan.added_variance)
        return (
            ("Noise", f"standard deviation at most {uncertain(deviation)}"),
            ("Comparison", plan.comparison),
        )

    def _deviation(self, added: float) -> float:
        """A value is drawn from what is known about the curve, which is at most as wide as its prior, and noise."""
        return math.hypot(self.order["label_bound"] / 2, math.sqrt(added))

    def charge_at(self, epsilon: float) -> Charge:
        """What it would cost at another epsilon."""
        return self._mechanism(epsilon=epsilon).plan(1).charge

    def _answer(
        self, mechanism: mechanisms.PrivateGaussianProcessRegressor, data: Any
    ) -> Reply:
        model, (place, value, *_) = mechanism.fit(data), self._chosen()
        table = {
            place: model.query_points_[:, 0].tolist(),
            value: model.values_.tolist(),
        }
        return Reply(
            table,
            model.certificate_,
            reach=NORMAL_95 * self._deviation(model.added_variance_),
        )

    def shell(self) -> tuple[str, str]:
        """The points."""
        places = (repr(place) for (place,) in self._mechanism().query_points)
        return f"printf '%s\\n' place {' '.join(places)} > points.csv", self.table_name

    def python(self) -> str:
        """As Python; kernels print few digits of themselves."""
        mechanism = self._mechanism()
        kernel = f"{(self.order['label_bound'] / 2) ** 2!r} * RBF({self.order['smooth_over']!r})"
        return super().python().replace(repr(mechanism.kernel), kernel)


class MixtureOffer(RehearsedOffer):
    """A density and a classifier to hand on."""

    file_name = "mixture.json"
    kind = "bar"
    y_name = "mean"
    rehearsals = SEVERAL

    def _mechanism(self, **more: Any) -> mechanisms.PrivateGaussianMixture:
        named = self.order["classes"]
        order = self.order
        label = order["label"]
        classes = named
        if label and named is None:
            raise ParameterError(
                "classes must be given: labels are public and never looked up"
            )
        if label:
            classes = _classes(self, label, named)
        elif (
            named is None
            or len(named) != 1
            or not named[0].isdecimal()
            or len(named[0]) > 4
        ):
            raise ParameterError(
                "without a label column, classes must say how many clusters to find"
            )
        known = self._promised("radius", "nominal_size", **more)
        return mechanisms.PrivateGaussianMixture(
            classes=classes if label else int(named[0]), columns=self.columns(), **known
        )

    def _simulated(self) -> Source:
        order, (columns, told) = (
            self.order,
            self._features(self.order["nominal_size"] or NOMINAL),
        )
        classes: Any = self._mechanism().classes
        if isinstance(classes, int):
            names = range(classes)
        else:
            names = classes
        which = np.arange(len(told)) % len(names)
        reach = order["radius"] / (2 * math.sqrt(len(columns)))
        turn = 2 * math.pi * which / len(names)
        for place, (name, values) in enumerate(columns.items()):
            columns[name] = reach * (
                np.cos(turn + math.pi * place / len(columns)) + values / 2
            )
        if order["label"]:
            labels = {order["label"]: [names[index] for index in which]}
        else:
            labels = {}
        return as_source(pa.table({**columns, **labels}))

    def _answer(self, mechanism: mechanisms.PrivateGaussianMixture, data: Any) -> Reply:
        model = mechanism.fit(data, self.order["label"]).model_
        weights = ", ".join(
            f"{name}: {weight:.3g}"
            for name, weight in zip(model.classes, model.weights)
        )
        # Clusters come in any order: they are drawn in that of their first column, so that pictures can be compared.
        if self.order["label"]:
            listed = np.arange(len(model.means))
        else:
            listed = np.argsort(model.means[:, 0])
        means = {f"class {model.classes[k]}": model.means[k].tolist() for k in listed}
        table = {"column": list(model.columns), **means}
        body = model.to_json().encode()
        return Reply(table, mechanism.certificate_, (("Weights", weights),), body=body)

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.fit(gaussveil.open(table), {self.order['label']!r})"


class SketchOffer(RehearsedOffer):
    """Second moments through a sketch."""

    file_name = "sketch.npz"
    y_name = "eigenvalue of the Gram matrix"

    def _mechanism(self, **more: Any) -> mechanisms.PrivateSketch:
        known = self._promised("row_norm", "row_bound", **more)
        return mechanisms.PrivateSketch(
            n_components=self.order["components"], columns=self._chosen(), **known
        )

    def _facts(self, rehearsed: Reply) -> Facts:
        plan = self._mechanism().plan(len(self._chosen()))
        ridge = f"{plan.ridge:.6g} is added to every column's sum of squares"
        shape = f"{plan.size} columns, {plan.components} components"
        beside, _, _ = plan.compare().partition("; if")
        return (("Sketch", shape), ("Ridge", ridge), ("Comparison", beside))

    def charge_at(self, epsilon: float) -> Charge:
        """What it would cost at another epsilon."""
        return self._mechanism(epsilon=epsilon).plan(len(self._chosen())).charge

    def _simulated(self) -> Source:
        columns, _ = self._features(int(min(self.order["row_bound"] or NOMINAL, 1e6)))
        size = self.order["row_norm"] / math.sqrt(len(columns))
        return as_source(
            pa.table({name: size * column for name, column in columns.items()})
        )

    def _answer(self, mechanism: mechanisms.PrivateSketch, data: Any) -> Reply:
        release = mechanism.release(data, released=f"sketch of {self.table_name}")
        found = release.value
        parts = found.pca(min(MOST_EIGENVALUES, len(found.columns)))
        values = parts.value
        reach = 2 * parts.standard_error
        # Eigenvalues are not negative: an estimate below zero says that none stands out, and its band begins at zero.
        drawn, low, high = (
            np.maximum(each, 0.0).tolist()
            for each in (values, values - reach, values + reach)
        )
        facts = (("Read it with", "the library: its page on sketches says how"),)
        table = {
            "principal component": [f"{k + 1}" for k in range(len(drawn))],
            "estimate": drawn,
        }
        return Reply(
            table, release.certificate, facts, (low, high), body=found.to_bytes()
        )

    def python(self) -> str:
        """As Python."""
        return f"release = {spelled(self._mechanism())}.release(gaussveil.open(table))"
