"""Private linear regression with intervals: post-processing of noisy second moments.

What predicts is shrunk along the directions where noise hides the slopes (`solved`). What is shrunk is biased, so
intervals come from the sums C and c as they were released, under a prior so wide that each slope could explain all of
the target by itself. Where units have several rows a pass over whole units tells how far these vary together
(`unit_sums`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from gaussveil.containers import uncoerced
from gaussveil.mechanisms.records import new_rows
from gaussveil.mechanisms.regression.linear_fit import LEVEL_VARIANCE, LinearFit
from gaussveil.mechanisms.regression.moments import (
    Look,
    MomentsMechanism,
    NoisyMoments,
    Scales,
    block_entries,
    block_scales,
)
from gaussveil.mechanisms.regression.rows import GivenTable
from gaussveil.mechanisms.regression.solved import TARGET_VARIANCE, Solved, conditioned
from gaussveil.mechanisms.regression.unit_sums import (
    Left,
    UnitGrams,
    WholeUnits,
    block_energies,
)
from gaussveil.typing import Floats, Integers

CARES = 10.0 ** np.arange(0, -4, -0.5)  # for slopes, beside the mean
MOST = 0.9  # of all weight is left where units are bounded: slopes may have less of a signal than is predicted
UNTRUSTED = 0.08  # of its prior variance left to a slope: noise may have had a hand in showing it
BARELY = 0.65  # of what may be left: from there on trust may be owed to noise that makes a slope look small
STRETCH = 3.0  # of its variance, away from zero, for a slope that is only just trusted


def regress(
    moments: NoisyMoments, target: int = 0, features: tuple[int, ...] | None = None
) -> LinearFit:
    """Least squares of one target on some of the features, from what was released."""
    size = len(moments.feature_names)
    chosen = np.asarray(range(size) if features is None else features, dtype=np.int64)
    solved = Solved.of(moments, chosen, size + target)
    # of the rows of one unit, where nothing is known of them: they may be all alike
    alike = moments.rows_per_unit > 1 and (
        moments.effects is None or features is not None
    )
    effects = np.full(1 + len(chosen), float(moments.rows_per_unit))
    if moments.effects is not None and not alike:
        effects = moments.effects[target]
    sampling = solved.sampled(effects[1:])
    sums, noise = moments.centred(
        certainty=1.0
    )  # means drawn to zero would bias the slopes of columns that have one
    matrix, matrix_noise = sums[np.ix_(chosen, chosen)], noise[np.ix_(chosen, chosen)]

    def fitted(second: Floats) -> tuple[Floats, Floats]:
        # the noise of C b; an entry off the diagonal of a symmetric matrix enters two rows
        known_noise = np.diag(
            noise[chosen, size + target] + matrix_noise @ np.diag(second)
        )
        known_noise += matrix_noise * second * (1 - np.eye(len(chosen)))
        return conditioned(
            matrix, sums[chosen, size + target], known_noise + sampling, solved.prior
        )[:2]

    second = np.outer(solved.slopes, solved.slopes) + np.diag(solved.spread)
    estimates, covariance = fitted(second)
    # trust must not hang on the slopes found, which noise makes small where it makes the matrix large: what slopes of
    # the prior's size would leave in doubt decides, and is the width of what is not trusted
    wide = fitted(second + np.diag(solved.prior))[
        1
    ]  # never below the covariance: more noise
    doubt = np.diag(wide) / (UNTRUSTED * solved.prior)
    informed = doubt < 1
    stretch = (
        np.sqrt(1 + STRETCH * np.clip((doubt - BARELY) / (1 - BARELY), 0.0, 1.0))
        ** informed
    )
    covariance = np.where(
        np.outer(~informed, ~informed), wide, covariance * np.outer(stretch, stretch)
    )
    return _in_units(
        moments,
        chosen,
        target,
        solved,
        estimates,
        covariance,
        informed,
        1 / stretch,
        float(effects[0]),
        alike,
    )


def _in_units(
    moments: NoisyMoments,
    chosen: Integers,
    target: int,
    one: Solved,
    estimates: Floats,
    spread: Floats,
    informed: Any,
    inward: Floats,
    effect: float,
    alike: bool,
) -> LinearFit:
    means = moments.means
    noise = moments.variance
    count = moments.count
    slopes, place = one.slopes, len(moments.feature_names) + target
    unit = moments.scale[place]
    scale = moments.scale[chosen]

    def level_of(
        slopes: Floats, means: Floats, certainty: Floats | float
    ) -> tuple[float, float]:
        level = float(means[place] - means[chosen] @ slopes)
        sums_noise = certainty * noise[0, 1:]
        privacy = (
            sums_noise[place] + slopes**2 @ sums_noise[chosen] + level**2 * noise[0, 0]
        )
        return level, effect * one.residual / count + float(privacy) / count**2

    def turn_of(means: Floats) -> Floats:
        # of y's mean and the slopes: intercept = centre + unit (mean - sum slope_j (mean_j + centre_j/scale_j))
        turn = np.zeros((1 + len(chosen), 1 + len(chosen)))
        turn[0] = unit * np.concatenate(
            ([1.0], -means[chosen] - moments.centre[chosen] / scale)
        )
        turn[1:, 1:] = np.diag(unit / scale)
        return turn

    level, level_variance = level_of(slopes, means, moments.certainty)
    gain = LEVEL_VARIANCE / (LEVEL_VARIANCE + level_variance)
    shrunk = gain * level + means[chosen] @ slopes
    plain = moments.matrix[0, 1:] / count
    level_variance = level_of(estimates, plain, 1.0)[1]
    told = tuple(
        map(
            bool,
            (
                level_variance < UNTRUSTED * LEVEL_VARIANCE and np.all(informed),
                *informed,
            ),
        )
    )
    turn = turn_of(plain)
    centre = np.concatenate(([moments.centre[place]], np.zeros(len(chosen))))
    covariance = np.zeros_like(turn)
    covariance[0, 0], covariance[1:, 1:] = level_variance, spread
    return LinearFit(
        ("intercept", *(moments.feature_names[j] for j in chosen)),
        moments.target_names[target],
        centre + turn_of(means) @ np.concatenate(([shrunk], slopes)),
        centre + turn @ np.concatenate(([means[place]], estimates)),
        turn @ covariance @ turn.T,
        unit * math.sqrt(one.residual),
        count,
        told,
        np.concatenate(([1.0], inward)),
        alike,
    )


@dataclass(kw_only=True, eq=False, repr=False)
class PrivateLinearRegression(MomentsMechanism, RegressorMixin, BaseEstimator):
    """Linear regression whose second moments are released once with Gaussian noise.

    Args:
        epsilon, delta: the promise for one fit.
        bounds: (low, high) of all features, a list of pairs, (lows, highs), or a mapping from names to pairs; "auto"
            spends a fifth of the budget on finding them. They set public units; rows beyond are weighted down.
        target_bounds: the same for the target, which is clipped to them.
        row_norm: radius, in units of half a range, beyond which a row's weight falls; by default from a first look.
        target: name, or names, of the target's column where X is a `Source`.
        unit, rows_per_unit: who is protected and how many rows of each are used; by default each row is its own unit.
            Of several rows a tenth of the budget tells how long their sums are and how far they vary together.
        account, generator: as in `GaussianRelease`.
        people: whose rows these are, as an account that is kept for a population names them.

    Attributes: `coef_`, `intercept_`, `std_error_`, `interval_` (95 %: sampling and privacy noise), `fits_` (one
    `LinearFit` per target), `moments_` (what was released: `regress(moments_, ...)` costs nothing more).

    >>> import numpy as np
    >>> from gaussveil import PrivateLinearRegression
    >>> rows = np.random.default_rng(0).uniform(0.0, 1.0, size=(20_000, 1))
    >>> model = PrivateLinearRegression(epsilon=1.0, delta=1e-6, bounds=(0.0, 1.0), target_bounds=(0.0, 3.0))
    >>> bool(abs(model.fit(rows, 1.0 + 2.0 * rows[:, 0]).coef_[0] - 2.0) < 0.5)
    True
    """

    mechanism = "linear-regression"
    reach: ClassVar = 1.1
    unit_share: ClassVar = 0.1
    target_bounds: Any = "auto"
    target: Any = "label"
    moments_: NoisyMoments = field(init=False)
    fits_: tuple[LinearFit, ...] = field(init=False)

    def fit(self, X: Any, y: Any = None) -> Self:
        """Bound the rows, debit the account, draw the moments, solve.

        Args:
            X: rows of features, a table or a `Source`.
            y: the target, or targets; None where X is a `Source` with a column of it.

        Returns:
            The regression itself, with `coef_`, `intercept_` and `interval_`.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        table = GivenTable.of(self, X, y, supervised=True)
        self.moments_ = self._released(table, self.target_bounds).value
        self.fits_ = tuple(
            regress(self.moments_, place) for place in range(len(table.targets))
        )
        flat = len(self.fits_) == 1 and uncoerced(y).ndim < 2

        def gathered(parts: list[Any]) -> Any:
            if flat:
                return parts[0]
            return np.stack(parts)

        self.coef_ = gathered([fit.coefficients[1:] for fit in self.fits_])
        self.intercept_ = gathered([fit.coefficients[0] for fit in self.fits_])
        self.std_error_ = gathered([fit.std_error[1:] for fit in self.fits_])
        self.interval_ = gathered([fit.interval[1:] for fit in self.fits_])
        return self

    def _scales(
        self,
        size: int,
        targets: int,
        look: Look,
        mean_shift: float,
        fraction: float = 1.0,
        left: Left = (1.0, 0.0),
    ) -> tuple[float, Scales]:
        """Least predicted risk of a nominal target, half of whose variance is explained by slopes of equal size.

        Where noise leaves nothing to tell of the slopes the budget goes to the mean.
        """
        surely = max(left[0] - left[1], 1e-3)
        entries, energies, rows = (
            block_entries(size, targets),
            block_energies(targets, fraction),
            look.rows * min(surely, 1.0),
        )
        column = look.square / size
        signal = TARGET_VARIANCE / 2
        slope = signal / look.square

        def planned(care: float) -> tuple[float, Scales]:
            # slopes that noise will shrink by `care` need their matrix known so much less
            each = {
                "1": TARGET_VARIANCE,
                "y": 1.0,
                "yy": care * 0.1,
                "x": care * TARGET_VARIANCE / column,
            }
            each |= {"xy": care / column, "xx": care**2 * 2 * slope / column}
            scales = block_scales(
                {name: part * entries[name] for name, part in each.items()},
                energies,
                mean_shift,
            )
            level = (scales["y"] ** 2 + TARGET_VARIANCE * scales["1"] ** 2) / rows**2
            lost = size / column * scales["xy"] ** 2 / rows**2
            lost += (
                signal
                / (signal + lost)
                * size
                / column
                * size
                * slope
                * scales["xx"] ** 2
                / rows**2
            )
            risk = LEVEL_VARIANCE * level / (LEVEL_VARIANCE + level) + signal * lost / (
                signal + lost
            )
            return risk + signal * (1 + size) / rows, scales  # and sampling's

        risk, scales = min(
            (planned(care) for care in CARES), key=lambda planned: planned[0]
        )
        return risk if surely >= MOST else math.inf, scales

    def _by_unit(
        self,
        units: WholeUnits,
        grams: UnitGrams,
        moments: NoisyMoments,
        mean_shift: float,
    ) -> NoisyMoments:
        """Design effects of every target's level and slopes."""
        size = len(moments.feature_names)
        means = moments.means
        count = moments.count
        lines = []
        unit_parts = []
        for place in range(size, len(means)):
            solved = Solved.of(moments, np.arange(size), place)
            lines.append([means[place] - means[:size] @ solved.slopes, *solved.slopes])
            unit_parts.append(solved.unit_parts(count, means[:size]))
        effects = units.effects(
            grams, np.asarray(lines), np.asarray(unit_parts), count, mean_shift
        )
        return replace(moments, effects=effects)

    def predict(self, X: Any, return_interval: bool = False) -> Any:
        """The regression's value; on request also its 95 % interval, one (low, high) per row and target.

        Args:
            X: rows of features.
            return_interval: give the interval, too.

        Returns:
            A value for each row, and target; with the interval a pair of both arrays.
        """
        check_is_fitted(self, "fits_")
        rows = new_rows(self, X)
        design = np.column_stack((np.ones(len(rows)), rows))
        values = np.stack([design @ fit.coefficients for fit in self.fits_], axis=1)
        interval = np.stack([fit.along(design) for fit in self.fits_], axis=1)
        if self.coef_.ndim == 1:
            values = values[:, 0]
            interval = interval[:, 0]
        if return_interval:
            return (values, interval)
        return values

    def summary(self) -> str:
        """The table of every target.

        Returns:
            Coefficients, deviations and intervals as lines of text.
        """
        check_is_fitted(self, "fits_")
        return "\n\n".join(fit.summary() for fit in self.fits_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise for privacy drowns a toy problem
        tags.non_deterministic = True
        tags.input_tags.allow_nan = (
            True  # such records are left out: a refusal would depend on the data
        )
        tags.target_tags.multi_output = True
        return tags
