"""Private logistic regression: noisy gradient steps, whose mean shifts add up exactly.

Released: a first look (`moments.Look`), then STEPS gradients of the logistic loss at released coefficients, each a
bounded exact sum with Gaussian noise. A row is a = (LIFT, x), x centred by the look and clipped to the unit of the
rows' root mean square, so its gradient is no longer than sqrt(1 + LIFT^2) wherever it is taken: the steps are adaptive,
their mean shifts are not, and one pair N(t, 1) against N(0, 1) dominates them all (docs/math/spectrum.md). No
regularisation is needed for privacy, so none is there; the number of steps does its work.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from scipy.special import expit
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from gaussveil.containers import uncoerced
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.logistic import TwoClasses, class_signs, public_classes
from gaussveil.mechanisms.noisy_sums import noise_design
from gaussveil.mechanisms.records import new_rows, no_values_quoted
from gaussveil.mechanisms.regression.bounded import BoundedMechanism, Draws
from gaussveil.mechanisms.regression.moments import LOOK_SHARE, Look
from gaussveil.mechanisms.regression.rows import GivenTable
from gaussveil.statistics import Block, ExactSum, FixedPoint, Labels, Source, Statistic
from gaussveil.statistics.fixed_point import column_norms, scaled, sum_columns
from gaussveil.statistics.statistic import State
from gaussveil.typing import Floats

# gradient steps, each this multiple of the inverse curvature bound
STEPS = 20
STEP = 5.0
# kept of the last step (Nesterov), half of it where rows are so many deviations of noise
MOMENTUM = 0.8
CLEAR = 90.0
LIFT = 0.3  # the constant column of the intercept
KNOTS = np.linspace(-16.0, 16.0, 4097)
LENGTH = math.sqrt(1 + LIFT**2) * (1 + 2.0**-40)  # no row or gradient is longer
FORMAT = FixedPoint(LENGTH)  # of a gradient, public
WRONG = expit(
    -KNOTS
)  # a table, since exponentials may round by where in memory a row lies


@dataclass(frozen=True, kw_only=True)
class LogisticRows(Statistic[ExactSum]):
    """Sum of the gradients of rows a = (LIFT, x) at `coefficients`; groups 0 and 1 are the labels."""

    centre: tuple[float, ...]
    scale: tuple[float, ...]
    coefficients: tuple[float, ...]

    def shapes(self, dimension: int, groups: int) -> dict[str, tuple[int, ...]]:
        """One vector."""
        return {"total": (dimension + 1,)}

    def partial(self, block: Block) -> State:
        """Sum one block, every row by itself in one fixed order."""
        total = np.zeros(len(block.values) + 1, dtype=np.int64)
        for group, values in block.by_group():
            rows = lifted(
                values,
                np.asarray(self.centre)[:, None],
                np.asarray(self.scale)[:, None],
            )
            sign = 2.0 * group - 1.0
            margin = np.zeros(rows.shape[1])
            for coefficient, row in zip(self.coefficients, rows):
                margin += coefficient * row
            rows *= sign * np.interp(sign * margin, KNOTS, WRONG)
            total += sum_columns(FORMAT.truncate(rows))
        return {"total": scaled(total, 0)}

    def finish(self, state: State) -> ExactSum:
        """The sum."""
        return ExactSum(state["total"], FORMAT.unit)


def lifted(values: Floats, centre: Floats, scale: Floats) -> Floats:
    """Columns (LIFT, x), x in public units and no longer than 1."""
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        rows = (values - centre) / scale
        norm = column_norms(rows)
        rows *= np.where(norm > 1.0, 1.0 / norm, 1.0)
    rows = np.concatenate((np.full((1, rows.shape[1]), LIFT), rows))
    rows[:, ~np.isfinite(norm)] = 0.0
    return rows


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLogisticRegression(BoundedMechanism, TwoClasses, BaseEstimator):
    """Binary classifier fitted by a few noisy gradient steps.

    Args:
        bounds, row_norm, unit, rows_per_unit, epsilon, delta, account, generator: as in `PrivateLinearRegression`.
        classes: the two labels, public; records with another label are left out. By default the labels found in y,
            which must then be public knowledge; of a `Source` they must be named.
        target: name of the label's column where X is a `Source`.
        people: whose rows these are, as an account that is kept for a population names them.

    Attributes: `coef_` and `intercept_` for rows within the radius (longer ones are shortened, in `predict` too),
    `classes_`, `certificate_`, and `units_`, the centre and scale of every column.

    >>> import numpy as np
    >>> from gaussveil import PrivateLogisticRegression
    >>> rows = np.random.default_rng(0).uniform(-1.0, 1.0, size=(5000, 1))
    >>> model = PrivateLogisticRegression(epsilon=1.0, delta=1e-6, bounds=(-1.0, 1.0), classes=["no", "yes"])
    >>> model.fit(rows, np.where(rows[:, 0] > 0, "yes", "no")).predict([[-0.9], [0.9]]).tolist()
    ['no', 'yes']
    """

    mechanism = "logistic-regression"
    public = "columns, their types, the two labels, the bounds and row_norm"
    classes: Any = None
    target: str = "label"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, take the steps.

        Args:
            X: rows of features, a table or a `Source`.
            y: two labels; None where X is a `Source` with a column of them.

        Returns:
            The classifier itself, with `coef_` and `intercept_`.

        Raises:
            ParameterError: the labels are not two, or are missing.
            BudgetExceededError: the account cannot pay.
        """
        if isinstance(X, Source):
            if self.classes is None:
                raise ParameterError(
                    "classes must name the two public labels of a Source. Got None."
                )
            classes = public_classes(self.classes, None)
            table = GivenTable.of(self, X, supervised=True, labelled=True)
            group = Labels(self.target, classes.tolist())
        else:
            if y is None:
                raise ParameterError(
                    "requires y to be passed, but the target y is None: a classifier has labels."
                )
            with no_values_quoted("y"):
                labels = column_or_1d(uncoerced(y), warn=True)
                classes = public_classes(self.classes, labels)
            table = GivenTable.of(
                self, X, class_signs(labels, classes), supervised=True
            )
            group = Labels("y0", [-1.0, 1.0])
        group.value_set(
            table.source.schema.field(group.column).type
        )  # refuses before anything is debited
        table = replace(
            table, targets=(), target_names=()
        )  # it groups by its target and reads no numbers from it
        size = len(table.features)
        norm = self._given_norm()
        point, units = self._publish_sums(
            table,
            lambda draws, units, left: gradient_steps(draws, group, units, norm, left),
            released=f"{size + 1} coefficients of a logistic regression",
            coordinates=(STEPS + 1) * (size + 1) + 1,
            parameters=lambda left: {
                "row_norm": norm or "searched",
                "steps": STEPS,
                "row_mean_shift": left,
            },
        ).value
        self.classes_ = classes
        self.units_ = units
        self.coef_ = (point[1:] / units[:, 1])[None]
        self.intercept_ = point[:1] * LIFT - self.coef_ @ units[:, 0]
        self.bounded_coef_ = point
        return self

    def decision_function(self, X: Any) -> Floats:
        """Log-odds of the second class; a row is bounded as those were that the coefficients were fitted on.

        Args:
            X: rows of features.

        Returns:
            A number for each row; above 0 the second class is the likelier.
        """
        check_is_fitted(self, "coef_")
        rows = np.asarray(new_rows(self, X), dtype=np.float64).T
        return np.asarray(
            self.bounded_coef_ @ lifted(rows, self.units_[:, :1], self.units_[:, 1:])
        )


def gradient_steps(
    draws: Draws, group: Labels, units: Floats, norm: float | None, left: float
) -> tuple[Floats, Floats]:
    """Coefficients after all steps, and centre and scale of the rows they are for; `left` is a row's mean shift."""
    size = len(units)
    look = Look.at(draws, units, left * math.sqrt(LOOK_SHARE), group)
    centre = units[:, 0] + units[:, 1] * look.middle
    scale = units[:, 1] * (norm or math.sqrt(look.square))
    (point, speed), share = np.zeros((2, size + 1)), (1 - LOOK_SHARE) / STEPS
    noise = LENGTH / (math.sqrt(share) * left)
    clear = (look.rows / (CLEAR * noise)) ** 2
    momentum = MOMENTUM * clear / (1 + clear)
    for _ in range(STEPS):
        ahead = tuple((point + momentum * speed).tolist())
        statistic = LogisticRows(
            centre=tuple(centre.tolist()),
            scale=tuple(scale.tolist()),
            coefficients=ahead,
        )
        draws.spend_row(share * left**2)
        sums = draws.table.source.aggregate(
            statistic, columns=draws.table.features, group=group
        )
        slope = draws.noisy(noise_design(noise, sums.shape, size + 1), sums)
        speed = momentum * speed + STEP / (look.rows / 4) * slope
        point = point + speed
    return point, np.stack((centre, scale), axis=1)
