"""A private sketch: a Gaussian random projection of a table, from which second moments can be estimated.

Released: a matrix of d x r numbers whose columns are independent N(0, D'D + ridge I), D the records clipped to the row
norm. That is the law of D'G with G standard normal, ridge included, but it is drawn from the Gram matrix D'D: one pass
over the rows, memory of d^2, any r.

Adjacency: one record (or one privacy unit with at most m rows) is added or removed; the row norm is public.

Theorem (NDIS Lemma 4 and Figure 1, ridge and test corrected: docs/mechanisms/random_projection.md). With ridge >= l^2
(1/p - 1) every record's leverage is at most p, and the pair "r degrees of freedom, ratio 1/(1 - p)" dominates the
sketch in both directions; it is attained, so no smaller ridge would do for all data.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Adjacency, Release
from gaussveil.calibration.random_projection import (
    FAILURE_SHARES,
    ProposeTestRelease,
    largest_excess,
    propose_test_release,
    subsampled_excess,
)
from gaussveil.containers import library_of
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.random_projection.plan import SketchPlan, best_components
from gaussveil.mechanisms.release_path import Mechanism, Plan, Promise
from gaussveil.postprocessing.sketch import (
    Estimate,
    LinearEstimate,
    PrincipalComponents,
    Sketch,
)
from gaussveil.statistics import Gram, Source, as_source
from gaussveil.statistics.unit import unit_of
from gaussveil.typing import Floats

VARIANTS = ("ridge", "subsampled", "tested")


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateSketch(Mechanism):
    """Sketch a table so that every second moment can be estimated and no record can be told.

    >>> import numpy as np
    >>> from gaussveil.mechanisms import PrivateSketch
    >>> rows = np.random.default_rng(0).normal(size=(1000, 3))
    >>> sketch = PrivateSketch(n_components=64, epsilon=1.0, delta=1e-6, row_norm=4.0).fit(rows)
    >>> sketch.sketch_.shape, round(sketch.leverage_, 5)
    ((3, 64), 0.03267)

    Args:
        n_components: number r of columns, or "auto" to choose it from public quantities (needs `row_bound`).
        epsilon, delta: the promise for one sketch.
        row_norm: public bound l; longer rows are shortened to it, record by record.
        variant: "ridge" (NDIS Figure 1), "subsampled" (Figure 3, each unit takes part with probability `rate`) or
            "tested" (Figure 4: less ridge where a private test finds the smallest eigenvalue large).
        rate: sampling rate of the variant "subsampled", 0.1 by default.
        row_bound: public bound on the number of rows, for "auto" and for the comparison in `plan` only.
        test_noise: standard deviation of the test's noise, in squared units of the rows; chosen by default.
        columns: columns of a frame or Source to sketch (default: all but the unit's).
        unit, rows_per_unit: column that says who is protected, or one identifier per row, and how many rows each may
            contribute.
        account: where the sketch is debited before it is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.
        people: whose rows these are, as an account that is kept for a population names them.

    After `fit`: `sketch_` (d x r), `ridge_`, `leverage_` (the public bound p*), `certificate_`, and the estimates.
    """

    mechanism = "random projection"
    row_norm: float
    n_components: int | str = "auto"
    variant: str = "ridge"
    rate: float | None = None
    row_bound: float | None = None
    test_noise: float | None = None
    columns: Sequence[str] | None = None
    unit: Any = None
    rows_per_unit: int | None = None
    sketch_: Floats = field(init=False, repr=False)
    ridge_: float = field(init=False, repr=False)
    leverage_: float = field(init=False, repr=False)
    released_: Sketch = field(init=False, repr=False)

    def plan(self, columns: int, rows_per_unit: int | None = None) -> SketchPlan:
        """The design for a table of so many columns, without data. `plan(d).compare()` says what it will be worth.

        Args:
            columns: how many the table has.
            rows_per_unit: how many rows of each unit are used.

        Returns:
            A `SketchPlan`: components, noise and charge.

        Raises:
            ParameterError: a parameter is out of range, or belongs to another variant.
        """
        checks.one_of("variant", self.variant, VARIANTS)
        for name, variant in (("rate", "subsampled"), ("test_noise", "tested")):
            if getattr(self, name) is not None and self.variant != variant:
                raise ParameterError(
                    f"{name} belongs to the variant {variant!r}. Got it with {self.variant!r}."
                )
        if rows_per_unit is None:
            given = self.rows_per_unit
        else:
            given = rows_per_unit
        promise = self.promise
        size = checks.whole("columns", columns, "[1, 16384)")
        row_norm = checks.real("row_norm", self.row_norm, "[1e-30, 1e30]")
        row_bound = self._optional("row_bound")
        rows = checks.whole("rows_per_unit", 1 if given is None else given)
        if self.n_components == "auto":
            components = best_components(
                promise.epsilon, promise.delta, size, row_norm, row_bound
            )
        else:
            components = checks.whole("n_components", self.n_components, "[1, 1e6]")
        excess, rate, test = self._calibrated(promise, size, components, row_norm, rows)
        return SketchPlan(
            epsilon=promise.epsilon,
            delta=promise.delta,
            size=size,
            components=components,
            row_norm=row_norm,
            rows_per_unit=rows,
            row_bound=row_bound,
            rate=rate,
            excess=excess,
            test=test,
        )

    def _calibrated(
        self, promise: Promise, size: int, components: int, row_norm: float, rows: int
    ) -> tuple[float, float, ProposeTestRelease | None]:
        """Excess, sampling rate and test of the variant."""
        # designs need far less, and the transaction checks the actual sum
        asked = (
            promise.epsilon,
            promise.ideal_delta(1e-22 + 1e-31 * size * components),
            components,
        )
        if self.variant == "ridge":
            return largest_excess(*asked, min(rows, size)), 1.0, None
        if self.variant == "subsampled":
            rate = self._optional("rate") or 0.1
            return subsampled_excess(*asked, rate, min(rows, size)), rate, None
        if rows > 1:
            raise ParameterError(
                "variant 'tested' protects single rows: use 'ridge' for units of several rows."
            )
        noise = self._optional("test_noise")
        # A filter sets only a thousandth of delta aside for errors of this kind.
        shares = FAILURE_SHARES if self.account is None else FAILURE_SHARES[:1]
        test = propose_test_release(
            *asked, shift=None if noise is None else row_norm**2 / noise, shares=shares
        )
        return test.excess, 1.0, test

    def fit(self, X: Any, y: Any = None) -> PrivateSketch:
        """Debit, draw and certify; `y` is ignored. `X` is an array, a frame, or a Source on any engine.

        Returns:
            The sketch itself, with `sketch_`, `ridge_` and `certificate_`.
        """
        self.release(X)
        return self

    def release(self, X: Any, *, released: str | None = None) -> Release[Sketch]:
        """Like `fit`, but gives the sketch with its public numbers, ready to be handed on, and its certificate.

        Every refusal comes before the debit and depends on columns and parameters only. Records with a missing or
        infinite value are left out.

        Args:
            X: the table, an array or a `Source`.
            released: what is released, in words, for the certificate.

        Returns:
            The `Sketch` and its certificate.

        Raises:
            ParameterError: a parameter is out of range, or the source is a sample already.
            SchemaError: a column is not of numbers, or is missing.
            BudgetExceededError: the account cannot pay.
        """
        source = as_source(X, unit=self.unit, rows_per_unit=self.rows_per_unit)
        names = self._columns(source)
        plan = self.plan(len(names), source.rows_per_unit)
        if source.view.rate is not None:
            raise ParameterError(
                "X must be the whole table: a sketch takes its own sample (variant 'subsampled')."
            )
        if plan.rate < 1:
            # A given key makes the sample repeatable; a secure one is drawn afresh and told to nobody.
            seeded = self.generator is not None and not self.generator.is_trusted
            source = source.sample(
                plan.rate,
                self.generator.random_bytes(32) if seeded and self.generator else None,
            )
        gram = source.aggregate(Gram(row_norm=plan.row_norm), columns=names)
        said = self._said(
            plan,
            source,
            released or f"sketch of {plan.size} columns, {plan.components} components",
        )

        def draw() -> Sketch:
            matrix, ridge = plan.draw(gram, self.generator)
            return Sketch(matrix, ridge, plan.row_norm, names, plan.rate, library_of(X))

        release = self._publish(said, draw, source)
        self.released_ = release.value
        self.leverage_ = plan.leverage
        self.sketch_ = release.value.matrix
        self.ridge_ = release.value.ridge
        return release

    def gram(self) -> Estimate:
        """Unbiased estimate of the Gram matrix of the clipped records (`Sketch.gram`).

        Returns:
            The matrix, with the standard error of each entry.

        Raises:
            ParameterError: nothing was released yet.
        """
        return self._fitted().gram()

    def covariance(self, rows: float) -> Estimate:
        """Second moments per record (`Sketch.covariance`).

        Args:
            rows: number of records that the moments are divided by.

        Returns:
            The matrix, with the standard error of each entry.

        Raises:
            ParameterError: nothing was released yet, or rows is not above 0.
        """
        return self._fitted().covariance(rows)

    def least_squares(
        self, target: str | int, predictors: Sequence[str | int] | None = None
    ) -> LinearEstimate:
        """Regression of one column on others (`Sketch.least_squares`).

        Args:
            target: the column to explain.
            predictors: the columns that explain it; all others by default.

        Returns:
            Coefficients and their standard errors, a number for each predictor.

        Raises:
            ParameterError: nothing was released yet, or a predictor is named twice.
            ShapeError: there is no such column.
        """
        return self._fitted().least_squares(target, predictors)

    def ridge_regression(
        self,
        target: str | int,
        penalty: float | None = None,
        predictors: Sequence[str | int] | None = None,
    ) -> LinearEstimate:
        """Regression with a penalty (`Sketch.ridge_regression`).

        Args:
            target: the column to explain.
            penalty: weight of the squared coefficients.
            predictors: the columns that explain it; all others by default.

        Returns:
            Coefficients and their standard errors, a number for each predictor.

        Raises:
            ParameterError: nothing was released yet, or a predictor is named twice.
            ShapeError: there is no such column.
        """
        return self._fitted().ridge_regression(target, penalty, predictors)

    def pca(self, k: int) -> PrincipalComponents:
        """Largest eigenvalues and their directions (`Sketch.pca`).

        Args:
            k: how many.

        Returns:
            Eigenvalues from the largest on, a direction for each, and the standard errors of both.

        Raises:
            ParameterError: nothing was released yet, or there are not so many.
        """
        return self._fitted().pca(k)

    def _fitted(self) -> Sketch:
        if not hasattr(self, "released_"):
            raise ParameterError("nothing was sketched yet: call fit first.")
        return self.released_

    def _optional(self, name: str) -> float | None:
        value = getattr(self, name)
        if value is None:
            return None
        return checks.positive(name, value)

    def _columns(self, source: Source) -> tuple[str, ...]:
        if self.columns is not None:
            names = tuple(self.columns)
        else:
            names = tuple(
                name for name in source.view.columns if name != source.view.unit
            )
        if not names or len(set(names)) != len(names):
            raise SchemaError(
                "columns must name at least one column of the table, each once."
            )
        return names

    def _said(self, plan: SketchPlan, source: Source, released: str) -> Plan:
        parameters: dict[str, object] = {
            "variant": self.variant,
            "row_norm": plan.row_norm,
            "components": plan.components,
            "columns": plan.size,
            "leverage": plan.leverage,
            "ridge": plan.ridge,
            "grid": plan.sampler.grid,
            "rows_per_unit": plan.rows_per_unit,
        }
        if plan.rate < 1:
            parameters["rate"] = plan.rate
        if plan.test is not None:
            parameters["test_noise"] = math.sqrt(
                float(np.asarray(plan.test_noise.covariance))
            )
            parameters["test_failure"] = plan.test.failure
        return Plan(
            charge=plan.charge,
            released=released,
            adjacency=Adjacency.add_remove(unit_of(source)),
            assumptions=(
                f"every row is shortened to norm {plan.row_norm:g} before it is summed; the bound is public",
                "the table's columns are public knowledge, and it has fewer than 2^50 rows",
            ),
            parameters=parameters,
        )
