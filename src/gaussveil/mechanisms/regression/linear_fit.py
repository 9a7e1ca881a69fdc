"""What a released linear regression says: coefficients, their errors and intervals."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import scipy

from gaussveil.mechanisms.regression.moments import (
    NORMAL_95,
)
from gaussveil.typing import Floats

LEVEL_VARIANCE = 1 / 9  # of a mean within [-1, 1]: three deviations


@dataclass(frozen=True, eq=False)
class LinearFit:
    """One regression from noisy moments, in the data's units; the intercept is the first coefficient."""

    names: tuple[str, ...]
    target: str
    coefficients: Floats
    """What predicts best: drawn towards 0 as far as noise leaves them in doubt."""
    estimates: Floats
    """What the intervals are about: not drawn anywhere, so of more variance and of hardly any bias."""
    covariance: Floats
    residual_deviation: float
    count: float
    informed: tuple[bool, ...]
    """Of which coefficients the release tells enough: the intervals of others are not to be trusted."""
    inward: Floats
    """How far each interval reaches towards zero, over how far away from it."""
    alike: bool = False
    """Whether rows of one unit were taken to be all alike, for want of knowing better."""

    @property
    def trusted(self) -> bool:
        """Whether every interval is."""
        return all(self.informed)

    @property
    def std_error(self) -> Floats:
        """Standard errors: sampling and privacy noise."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def interval(self) -> Floats:
        """95 % intervals, one row per coefficient."""
        reach = NORMAL_95 * self.std_error
        negative = self.estimates < 0
        low = self.estimates - reach * np.where(negative, 1.0, self.inward)
        high = self.estimates + reach * np.where(negative, self.inward, 1.0)
        return np.stack(
            (np.minimum(low, self.coefficients), np.maximum(high, self.coefficients)),
            axis=1,
        )

    def along(self, design: Floats) -> Floats:
        """95 % intervals of combinations of the coefficients, one row each; what is reported lies inside."""
        middle = design @ self.estimates
        reported = design @ self.coefficients
        variance = np.einsum("ij,jk,ik->i", design, self.covariance, design)
        reach = NORMAL_95 * np.sqrt(np.maximum(variance, 0.0))  # zero but for rounding
        return np.stack(
            (
                np.minimum(middle - reach, reported),
                np.maximum(middle + reach, reported),
            ),
            axis=1,
        )

    def summary(self) -> str:
        """A table of coefficients with standard errors and intervals."""
        lines = [
            f"private linear regression of {self.target}, about {self.count:.0f} rows, "
            f"residual standard deviation {self.residual_deviation:.4g}",
            f"{'':16}{'coef':>12}{'std err':>12}{'z':>9}{'P>|z|':>9}{'[0.025':>12}{'0.975]':>12}",
        ]
        rows = zip(
            self.names,
            self.coefficients,
            self.estimates,
            self.std_error,
            self.interval,
            self.informed,
        )
        for name, value, estimate, error, (low, high), informed in rows:
            score = estimate / error
            chance = 2 * float(scipy.special.ndtr(-abs(score)))
            line = f"{name[:16]:16}{value:12.4g}{error:12.4g}{score:9.2f}{chance:9.3f}{low:12.4g}{high:12.4g}"
            lines.append(line + ("" if informed else "  *"))
        lines.append(
            "coef is drawn to 0 where noise hides it, to predict well; all else is of estimates that are not"
        )
        lines.append(
            "and holds sampling and privacy noise, not the bias of clipped targets"
        )
        if self.alike:
            lines.append(
                "rows of one unit are taken to be all alike: with rows that differ the intervals are too wide"
            )
        if not self.trusted:
            lines.append(
                "* the noise is above the signal: do not trust this interval; use more rows or more epsilon"
            )
        return "\n".join(lines)
