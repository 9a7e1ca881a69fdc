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

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gaussveil.accounting import Account, Adjacency, Certificate, CertificateDraft, Guarantee, Release, transaction
from gaussveil.calibration.random_projection import FAILURE_SHARES
from gaussveil.errors import ParameterError, SchemaError
from gaussveil.mechanisms.containers import library_of, real_number
from gaussveil.mechanisms.random_projection.estimates import Estimate, LinearEstimate, PrincipalComponents, Sketch
from gaussveil.mechanisms.random_projection.plan import SketchPlan, design
from gaussveil.noise import Generator
from gaussveil.statistics import Gram, Source, as_source
from gaussveil.statistics.unit import unit_of
from gaussveil.typing import Floats

VARIANTS = ("ridge", "subsampled", "tested")
MOST_COLUMNS = 2**14


@dataclass(kw_only=True, eq=False)
class PrivateSketch:
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
        unit, rows_per_unit: column that says who is protected, and how many rows each may contribute.
        account: where the sketch is debited before it is drawn; without one the certificate says "not recorded".
        generator: a `SeededGenerator` for studies (no guarantee then); the secure one by default.

    After `fit`: `sketch_` (d x r), `ridge_`, `leverage_` (the public bound p*), `certificate_`, and the estimates.
    """

    epsilon: float
    delta: float
    row_norm: float
    n_components: int | str = "auto"
    variant: str = "ridge"
    rate: float | None = None
    row_bound: float | None = None
    test_noise: float | None = None
    columns: Sequence[str] | None = None
    unit: str | None = None
    rows_per_unit: int | None = None
    account: Account | None = None
    generator: Generator | None = None
    sketch_: Floats = field(init=False, repr=False)
    ridge_: float = field(init=False, repr=False)
    leverage_: float = field(init=False, repr=False)
    certificate_: Certificate = field(init=False, repr=False)
    released_: Sketch = field(init=False, repr=False)

    def plan(self, columns: int, rows_per_unit: int | None = None) -> SketchPlan:
        """The design for a table of so many columns, without data. `plan(d).compare()` says what it will be worth."""
        if isinstance(columns, bool) or not isinstance(columns, int | np.integer) or not 1 <= columns < MOST_COLUMNS:
            raise ParameterError(
                f"columns must be a whole number from 1 to {MOST_COLUMNS - 1}. Got {columns!r} instead."
            )
        epsilon, delta, row_norm = (real_number(name, getattr(self, name)) for name in ("epsilon", "delta", "row_norm"))
        if not 0 <= epsilon <= 500:
            raise ParameterError(f"epsilon must lie in [0, 500]. Got {epsilon!r} instead.")
        if not 0 < delta < 1:
            raise ParameterError(f"delta must lie strictly between 0 and 1. Got {delta!r} instead.")
        if not 2.0**-100 <= row_norm <= 2.0**100:
            raise ParameterError(f"row_norm must lie between 2^-100 and 2^100. Got {row_norm!r} instead.")
        if self.variant not in VARIANTS:
            raise ParameterError(f"variant must be one of {', '.join(VARIANTS)}. Got {self.variant!r} instead.")
        if self.rate is not None and self.variant != "subsampled":
            raise ParameterError(f"rate belongs to the variant 'subsampled'. Got it with {self.variant!r}.")
        if self.test_noise is not None and self.variant != "tested":
            raise ParameterError(f"test_noise belongs to the variant 'tested'. Got it with {self.variant!r}.")
        if not isinstance(self.generator, Generator | None):
            raise ParameterError(
                f"generator must be a SecureGenerator or SeededGenerator. Got {type(self.generator).__name__} instead."
            )
        return design(
            epsilon=epsilon,
            delta=delta,
            size=int(columns),
            components=self._components(),
            row_norm=row_norm,
            variant=self.variant,
            rate=self._positive("rate"),
            row_bound=self._positive("row_bound"),
            test_noise=self._positive("test_noise"),
            rows_per_unit=rows_per_unit or self.rows_per_unit or 1,
            # A filter sets only a thousandth of delta aside for errors of this kind.
            shares=FAILURE_SHARES if self.account is None else FAILURE_SHARES[:1],
        )

    def fit(self, X: Any, y: Any = None) -> PrivateSketch:
        """Debit, draw and certify; `y` is ignored. `X` is an array, a frame, or a Source on any engine."""
        self.release(X)
        return self

    def release(self, X: Any, *, released: str | None = None) -> Release[Sketch]:
        """Like `fit`, but gives the sketch with its public numbers, ready to be handed on, and its certificate.

        Every refusal comes before the debit and depends on columns and parameters only. Records with a missing or
        infinite value are left out.
        """
        source = as_source(X, unit=self.unit, rows_per_unit=self.rows_per_unit)
        names = self._columns(source)
        plan = self.plan(len(names), source.rows_per_unit)
        if source.view.rate is not None:
            raise ParameterError("X must be the whole table: a sketch takes its own sample (variant 'subsampled').")
        if plan.rate < 1:
            # An integer key would make the sample repeatable; a secure one is drawn afresh and told to nobody.
            secure = self.generator is None or self.generator.is_secure
            source = source.sample(plan.rate, None if secure or self.generator is None else self._sample_key())
        gram = source.aggregate(Gram(row_norm=plan.row_norm), columns=names)
        draft = self._draft(plan, source, released or f"sketch of {plan.size} columns, {plan.components} components")
        with transaction(self.account, plan.charge, draft) as debit:
            matrix, ridge = debit.draw(lambda: plan.draw(gram, self.generator))
        self.sketch_, self.ridge_, self.leverage_ = matrix, ridge, plan.leverage
        self.certificate_ = debit.certificate
        self.released_ = Sketch(matrix, ridge, plan.row_norm, names, plan.rate, library_of(X))
        return Release(self.released_, debit.certificate)

    def gram(self) -> Estimate:
        """Unbiased estimate of the Gram matrix of the clipped records (`Sketch.gram`)."""
        return self._fitted().gram()

    def covariance(self, rows: float) -> Estimate:
        """Second moments per record (`Sketch.covariance`)."""
        return self._fitted().covariance(rows)

    def least_squares(self, target: str | int, predictors: Sequence[str | int] | None = None) -> LinearEstimate:
        """Regression of one column on others (`Sketch.least_squares`)."""
        return self._fitted().least_squares(target, predictors)

    def ridge_regression(
        self, target: str | int, penalty: float | None = None, predictors: Sequence[str | int] | None = None
    ) -> LinearEstimate:
        """Regression with a penalty (`Sketch.ridge_regression`)."""
        return self._fitted().ridge_regression(target, penalty, predictors)

    def pca(self, k: int) -> PrincipalComponents:
        """Largest eigenvalues and their directions (`Sketch.pca`)."""
        return self._fitted().pca(k)

    def _fitted(self) -> Sketch:
        if not hasattr(self, "released_"):
            raise ParameterError("nothing was sketched yet: call fit first.")
        return self.released_

    def _components(self) -> int | None:
        given = self.n_components
        if given == "auto":
            return None
        if isinstance(given, bool) or not isinstance(given, int | np.integer) or not 1 <= given <= 10**6:
            raise ParameterError(
                f'n_components must be "auto" or a whole number from 1 to 10^6. Got {given!r} instead.'
            )
        return int(given)

    def _positive(self, name: str) -> float | None:
        value = getattr(self, name)
        if value is None:
            return None
        number = real_number(name, value)
        if not (math.isfinite(number) and number > 0):
            raise ParameterError(f"{name} must be positive and finite. Got {number!r} instead.")
        return number

    def _columns(self, source: Source) -> tuple[str, ...]:
        if self.columns is not None:
            names = tuple(self.columns)
        else:
            names = tuple(name for name in source.view.columns if name != source.view.unit)
        if not names or len(set(names)) != len(names):
            raise SchemaError("columns must name at least one column of the table, each once.")
        return names

    def _sample_key(self) -> bytes:
        assert self.generator is not None
        return self.generator.random_bytes(32)

    def _draft(self, plan: SketchPlan, source: Source, released: str) -> CertificateDraft:
        secure = self.generator is None or self.generator.is_secure
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
            parameters["test_noise"] = math.sqrt(float(np.asarray(plan.test_noise.covariance)))
            parameters["test_failure"] = plan.test.failure
        return CertificateDraft(
            released=released,
            mechanism=f"random projection, {self.variant}",
            adjacency=Adjacency.add_remove(unit_of(source)),
            epsilon=plan.epsilon,
            delta=plan.delta,
            guarantee=Guarantee.worst_case() if secure else Guarantee.none("seeded"),
            assumptions=(
                f"every row is shortened to norm {plan.row_norm:g} before it is summed; the bound is public",
                "the table's columns are public knowledge, and it has fewer than 2^50 rows",
            ),
            parameters=parameters,
        )

    def __sklearn_clone__(self) -> PrivateSketch:
        return dataclasses.replace(self)
