"""What a private sketch tells, with error bars: Gram matrix, covariance, regression, principal components.

The columns m of a sketch are independent N(0, S), S = q G + ridge I with G the Gram matrix of the clipped records and q
the sampling rate. So every estimate is a classical one from r Gaussian observations, and its standard error follows
from the moments of the Wishart law. All of it is post-processing: it costs no privacy. Error bars cover the sketch and
the sampling; what clipping rows to the row norm changed is not in them.
"""

from __future__ import annotations

import io
import math
import os
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.containers import frame
from gaussveil.errors import FormatError, NumericalError, ParameterError, ShapeError
from gaussveil.typing import Floats


@dataclass(frozen=True)
class Estimate:
    """An estimate and its standard error, entry by entry; `names` are the sketched columns."""

    value: Floats
    standard_error: Floats
    names: tuple[str, ...] = field(default=(), kw_only=True)
    frame_library: str = field(default="", kw_only=True)

    def frame(self, part: str = "value") -> Any:
        """The matrix with its names, or with `part="standard_error"` its errors: pandas or polars as the input was."""
        return frame(
            self.frame_library,
            {"column": self.names, **dict(zip(self.names, getattr(self, part).T))},
        )


@dataclass(frozen=True)
class LinearEstimate(Estimate):
    """Coefficients of a regression: `columns` names the predictors in their order."""

    columns: tuple[str, ...]

    def frame(self, part: str = "") -> Any:
        """One row per predictor, with its coefficient and standard error."""
        columns = {
            "column": self.columns,
            "value": self.value,
            "standard_error": self.standard_error,
        }
        return frame(self.frame_library, columns)


@dataclass(frozen=True)
class PrincipalComponents(Estimate):
    """The largest eigenvalues of the Gram matrix and, as rows, their directions.

    `angle_error` is the standard error of each direction in radians; at about 1 the direction says nothing.
    """

    components: Floats
    angle_error: Floats

    def frame(self, part: str = "") -> Any:
        """One row per component: eigenvalue, its error, the direction's error, and the direction by column."""
        numbers = {
            name: getattr(self, name)
            for name in ("value", "standard_error", "angle_error")
        }
        return frame(
            self.frame_library, {**numbers, **dict(zip(self.names, self.components.T))}
        )


@dataclass(frozen=True, eq=False)
class Sketch:
    """A released sketch (d x r) with the public numbers that are needed to read it."""

    matrix: Floats
    ridge: float
    row_norm: float
    columns: tuple[str, ...]
    rate: float = 1.0
    frame_library: str = ""

    def released_document(self) -> dict[str, object]:
        """The sketch as lists, numbers and names: what its certificate carries the digest of."""
        return {name: array.tolist() for name, array in self._arrays().items()}

    def to_bytes(self) -> bytes:
        """The sketch as the contents of an .npz file, for `from_file`."""
        buffer = io.BytesIO()
        arrays: dict[str, Any] = self._arrays()
        np.savez(buffer, **arrays)
        return buffer.getvalue()

    def _arrays(self) -> dict[str, NDArray[Any]]:
        """What an .npz file of the sketch holds, by name."""
        return {
            "matrix": self.matrix,
            "ridge": np.array(self.ridge),
            "row_norm": np.array(self.row_norm),
            "rate": np.array(self.rate),
            "columns": np.array(self.columns, dtype=np.str_),
        }

    @classmethod
    def from_file(cls, path: str | os.PathLike[str]) -> Sketch:
        """Read a sketch that `gaussveil sketch` or `to_bytes` wrote."""
        try:
            with np.load(path, allow_pickle=False) as stored:
                columns = tuple(str(name) for name in stored["columns"])
                ridge, row_norm, rate = (
                    float(stored[name]) for name in ("ridge", "row_norm", "rate")
                )
                made = cls(
                    np.asarray(stored["matrix"], np.float64),
                    ridge,
                    row_norm,
                    columns,
                    rate,
                )
        except (OSError, ValueError, KeyError, EOFError, TypeError, zipfile.BadZipFile):
            raise FormatError(f"{path} is no sketch file of gaussveil.") from None
        if made.matrix.ndim != 2 or len(made.matrix) != len(made.columns):
            raise FormatError(
                f"{path} is no sketch file of gaussveil: its matrix does not fit its columns."
            )
        return made

    @property
    def components(self) -> int:
        """Number of columns r."""
        return int(self.matrix.shape[1])

    @property
    def second_moment(self) -> Floats:
        """MM'/r, the unbiased estimate of S = rate * G + ridge I."""
        product: Floats = self.matrix @ self.matrix.T / self.components
        return product

    def gram(self) -> Estimate:
        """Unbiased estimate of the Gram matrix, (MM'/r - ridge I)/rate (NDIS Theorem 5.2; division: corrections).

        Var (MM'/r)_ij = (S_ij^2 + S_ii S_jj)/r. Sampling adds at most (1 - q)/q l^2 min(G_ii, G_jj), since |z_i| <= l.
        """
        moment = self.second_moment
        value = (moment - self.ridge * np.eye(len(moment))) / self.rate
        scale = np.diagonal(moment)
        variance = (moment**2 + np.outer(scale, scale)) / (
            self.components * self.rate**2
        )
        energy = np.maximum(np.diagonal(value), 0.0)
        sampling = (
            (1 - self.rate)
            / self.rate
            * self.row_norm**2
            * np.minimum.outer(energy, energy)
        )
        return Estimate(
            value,
            np.sqrt(variance + sampling),
            names=self.columns,
            frame_library=self.frame_library,
        )

    def covariance(self, rows: float) -> Estimate:
        """Second moments per record, G/rows: the covariance of centred data. `rows` is public or released on its own.

        A sketch holds no means. Centre by public means first, or release the means with `GaussianRelease`.
        """
        checks.positive("rows", rows)
        gram = self.gram()
        return replace(
            gram, value=gram.value / rows, standard_error=gram.standard_error / rows
        )

    def least_squares(
        self, target: str | int, predictors: Sequence[str | int] | None = None
    ) -> LinearEstimate:
        """Coefficients that minimise |y - Xb|^2 over the records; predictors are all other columns unless given.

        The ridge is subtracted, so the estimate is consistent; where it drowns the data this is refused.
        """
        return self.ridge_regression(target, 0.0, predictors)

    def _predictors(self, target: int, names: Sequence[str | int] | None) -> list[int]:
        """Places of the columns that are named; of all but the target where none are."""
        if names is None:
            others = [place for place in range(len(self.columns)) if place != target]
            if others:
                return others
        return [self._place(name) for name in names or ()]

    def ridge_regression(
        self,
        target: str | int,
        penalty: float | None = None,
        predictors: Sequence[str | int] | None = None,
    ) -> LinearEstimate:
        """Coefficients that minimise |y - Xb|^2 + penalty |b|^2; by default the sketch's own ridge, which always works.

        With A = S_xx - (ridge - q penalty) I, b = A^-1 S_xy, and for Gaussian columns the delta method gives
        Cov b = A^-1 [S_xx s^2 + c^2 bb'] A^-1 / r, where c = ridge - q penalty and s^2 = Var(y - x'b).
        """
        place = self._place(target)
        chosen = self._predictors(place, predictors)
        if not chosen or place in chosen or len(set(chosen)) != len(chosen):
            raise ParameterError(
                "predictors must be one or more distinct columns, without the target."
            )
        own = self.ridge / self.rate
        weight = own if penalty is None else float(penalty)
        checks.real("penalty", weight, "[0, inf)")
        moment = self.second_moment
        inside = moment[np.ix_(chosen, chosen)]
        across = moment[chosen, place]
        removed = self.ridge - self.rate * weight
        matrix = inside - removed * np.eye(len(chosen))
        if not np.linalg.eigvalsh(matrix)[0] > 1e-9 * np.trace(inside) / len(chosen):
            raise NumericalError(
                "the ridge that protects the records drowns these predictors: least squares has no answer. "
                f"Use ridge_regression with a penalty (up to {own:.4g} is always safe), or more components."
            )
        value: Floats = np.asarray(np.linalg.solve(matrix, across), dtype=np.float64)
        residual = moment[place, place] - 2 * value @ across + value @ inside @ value
        spread = inside * residual + removed**2 * np.outer(value, value)
        half = np.linalg.solve(matrix, spread)
        covariance = np.linalg.solve(matrix, half.T) / self.components
        error = np.sqrt(np.maximum(np.diagonal(covariance), 0.0))
        return LinearEstimate(
            value,
            error,
            tuple(self.columns[i] for i in chosen),
            names=self.columns,
            frame_library=self.frame_library,
        )

    def pca(self, k: int) -> PrincipalComponents:
        """The k largest eigenvalues of the Gram matrix and their directions (not centred).

        Anderson (1963): an eigenvalue s of S has standard error s sqrt(2/r), its direction sqrt(sum s s_j/(s - s_j)^2
        / r) over the other eigenvalues. Large ones are biased upwards when r is not large against d.
        """
        size = len(self.columns)
        checks.whole("k", k, f"[1, {size}]")
        values, vectors = np.linalg.eigh(self.second_moment)
        values = values[::-1]
        vectors = vectors[:, ::-1]
        # fewer components than columns leave eigenvalues of 0, which rounding makes a little more or less
        values = np.where(
            values > size * np.finfo(np.float64).eps * values[0], values, 0.0
        )
        gaps = values[:k, None] - values[None, :]
        terms = values[:k, None] * values[None, :] / np.where(gaps == 0, 1.0, gaps) ** 2
        terms = np.where(
            gaps == 0, math.inf, terms
        )  # equal eigenvalues share their directions
        np.fill_diagonal(terms, 0.0)
        angles = np.minimum(np.sqrt(terms.sum(axis=1) / self.components), math.pi / 2)
        errors = values[:k] * math.sqrt(2 / self.components) / self.rate
        return PrincipalComponents(
            (values[:k] - self.ridge) / self.rate,
            errors,
            vectors[:, :k].T.copy(),
            angles,
            names=self.columns,
            frame_library=self.frame_library,
        )

    def _place(self, column: str | int) -> int:
        if isinstance(column, str) and column in self.columns:
            return self.columns.index(column)
        if isinstance(column, int | np.integer) and -len(self.columns) <= column < len(
            self.columns
        ):
            return int(column) % len(self.columns)
        raise ShapeError(
            f"columns are {', '.join(self.columns)} or their numbers. Got {column!r}."
        )
