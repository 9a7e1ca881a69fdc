"""The released mixture: densities, class probabilities, samples, a versioned JSON file. Nothing here is private."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.linalg import solve_triangular
from scipy.special import logsumexp

from gaussveil import checks
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import FormatError, InputError, ParameterError, ShapeError
from gaussveil.files import write_whole
from gaussveil.postprocessing.clipped_moments import (
    gaussian_divergence,
    weights_divergence,
)
from gaussveil.postprocessing.mixture_file import (
    FORMAT,
    VERSION,
    stated_model,
    text_of,
)
from gaussveil.typing import Floats

Parameters = tuple[Floats, Floats, Floats]
"""Weights, means, covariances."""


@dataclass(frozen=True, eq=False)
class MixtureModel:
    """Weights (K), means (K x d) and covariances (K x d x d) of labelled Gaussians, with names and certificate.

    Args:
        weights: probability of each class.
        means: of each class, a row.
        covariances: of each class, a matrix.
        classes: their labels.
        columns: names of the columns.
        certificate: of the release that it came from.
        label: name of the column of classes.
        log: smallest value of a column where the Gaussians are those of logarithms.

    Raises:
        ParameterError: weights, labels or names are none of a model, or a covariance is not positive definite.
        ShapeError: weights, means and covariances do not fit together.

    >>> import numpy as np
    >>> from gaussveil import MixtureModel
    >>> means = np.array([[0.0], [4.0]])
    >>> model = MixtureModel(np.array([0.5, 0.5]), means, np.ones((2, 1, 1)), ("day", "night"), ("kw",))
    >>> model.probabilities([[2.0]]).round(6).tolist()
    [[0.5, 0.5]]
    """

    weights: Floats
    means: Floats
    covariances: Floats
    classes: tuple[Any, ...]
    columns: tuple[str, ...]
    certificate: Certificate | None = None
    label: str = "class"
    log: float | None = None
    """Smallest value of a column where the Gaussians are those of logarithms."""

    def __post_init__(self) -> None:
        k = len(self.classes)
        d = len(self.columns)
        for name, shape in (
            ("weights", (k,)),
            ("means", (k, d)),
            ("covariances", (k, d, d)),
        ):
            numbers = np.array(getattr(self, name), dtype=np.float64)
            if numbers.shape != shape or not np.isfinite(numbers).all():
                raise ShapeError(
                    f"{name} must be finite and of shape {shape}. Got shape {numbers.shape}."
                )
            numbers.setflags(write=False)
            object.__setattr__(self, name, numbers)
        total = float(self.weights.sum())
        if (self.weights < 0).any() or not math.isclose(total, 1.0, abs_tol=1e-6):
            raise ParameterError("weights must not be negative and must sum to one.")
        if not (_are_distinct(self.classes) and _are_distinct(self.columns)):
            raise ParameterError(
                "a mixture needs at least one class and one column, all of them distinct."
            )
        _require_covariances(self.covariances)
        if self.log is not None:
            checks.positive("log", self.log)

    def log_joint(self, values: ArrayLike) -> Floats:
        """Log density of every row together with each class: n x K; where values are missing, of the known ones.

        Of the logarithms of a row, where the model is one of logarithms.

        Returns:
            A row for each row, a column for each class.

        Raises:
            ShapeError: the rows have not as many columns as the model.
        """
        rows = np.asarray(values, dtype=np.float64)
        if self.log is not None:
            rows = np.log(np.maximum(rows, self.log))
        if rows.ndim != 2 or rows.shape[1] != len(self.columns):
            raise ShapeError(
                f"values must have {len(self.columns)} columns. Got shape {rows.shape}."
            )
        with np.errstate(divide="ignore"):
            result = np.broadcast_to(
                np.log(self.weights), (len(rows), len(self.classes))
            ).copy()
        all_known = ~np.isnan(rows)
        patterns = all_known[:1]
        which = np.zeros(len(rows), dtype=np.intp)
        if not all_known.all():
            patterns, which = np.unique(all_known, axis=0, return_inverse=True)
        for place, present in enumerate(patterns):
            chosen = which.ravel() == place
            part = rows[np.ix_(chosen, present)]
            for k, factor in enumerate(
                np.linalg.cholesky(self.covariances[:, present][:, :, present])
            ):
                standard = solve_triangular(
                    factor, (part - self.means[k, present]).T, lower=True
                )
                size = (
                    np.sum(np.log(np.diagonal(factor)))
                    + len(factor) * math.log(2 * math.pi) / 2
                )
                result[chosen, k] -= size + np.sum(standard**2, axis=0) / 2
        return result

    def log_density(self, values: ArrayLike) -> Floats:
        """Log density of every row.

        Args:
            values: rows of numbers.

        Returns:
            A number for each row, in nats.
        """
        return np.asarray(logsumexp(self.log_joint(values), axis=1))

    def probabilities(self, values: ArrayLike) -> Floats:
        """Probability of every class given the row; the rows sum to one, however far away a row is.

        Args:
            values: rows of numbers.

        Returns:
            A row for each row, a column for each class.
        """
        joint = self.log_joint(values)
        with np.errstate(under="ignore"):
            return np.asarray(np.exp(joint - logsumexp(joint, axis=1, keepdims=True)))

    def sample(
        self, count: int, seed: int | np.random.Generator | None = None
    ) -> tuple[Floats, NDArray[np.int64]]:
        """Rows drawn from the model and the indices of their classes. Free: it is post-processing of the release.

        Args:
            count: how many rows.
            seed: of the draws.

        Returns:
            The rows, and places in `classes`.

        Raises:
            ParameterError: count is not a whole number from 1 on.
        """
        size = checks.whole("count", count)
        generator = np.random.default_rng(seed)
        index = generator.choice(
            len(self.weights), size=size, p=self.weights / self.weights.sum()
        )
        factors = np.linalg.cholesky(self.covariances)
        standard = generator.standard_normal((size, len(self.columns)))
        rows = self.means[index] + np.einsum("nij,nj->ni", factors[index], standard)
        return rows if self.log is None else np.exp(rows), index.astype(np.int64)

    def joint_divergence(self, other: MixtureModel) -> float:
        """KL(self || other) of (row, class) in closed form: the papers' figure of merit.

        Returns:
            Nats a row.
        """
        of_classes = gaussian_divergence(
            self.means, self.covariances, other.means, other.covariances
        )
        return weights_divergence(self.weights, other.weights) + float(
            self.weights @ of_classes
        )

    def divergence(
        self, other: MixtureModel, draws: int = 20_000, seed: int = 0
    ) -> tuple[float, float]:
        """KL(self || other) of the rows alone, by Monte Carlo, and its standard error.

        Args:
            other: the model to compare with.
            draws: rows that are drawn.
            seed: of the draws.

        Returns:
            The estimate and its standard error, in nats.
        """
        rows, _ = self.sample(draws, seed)
        ratios = self.log_density(rows) - other.log_density(rows)
        return float(ratios.mean()), float(ratios.std(ddof=1) / math.sqrt(draws))

    @classmethod
    def fitted(
        cls, values: Floats, codes: NDArray[np.int64], classes: Sequence[Any]
    ) -> MixtureModel:
        """The non-private maximum-likelihood fit (GMM paper, eq. 2). For studies: it protects nobody.

        Args:
            values: rows of numbers.
            codes: the class of each row, as a place in `classes`.
            classes: their labels.

        Returns:
            A model without a certificate, whose columns are x0, x1, ...
        """
        groups = [values[codes == k] for k in range(len(classes))]
        weights = np.array([len(group) for group in groups]) / max(len(values), 1)
        means = np.stack([group.mean(axis=0) for group in groups])
        covariances = np.stack(
            [np.atleast_2d(np.cov(group.T, bias=True)) for group in groups]
        )
        return cls(
            weights,
            means,
            covariances,
            tuple(classes),
            tuple(f"x{j}" for j in range(values.shape[1])),
        )

    def to_dict(self) -> dict[str, object]:
        """Plain JSON values; floats survive exactly.

        Returns:
            What the file holds; the certificate is None where there is none.
        """
        return {
            "format": FORMAT,
            "version": VERSION,
            "columns": list(self.columns),
            "classes": [
                value.item() if isinstance(value, np.generic) else value
                for value in self.classes
            ],
            "weights": self.weights.tolist(),
            "means": self.means.tolist(),
            "covariances": self.covariances.tolist(),
            "certificate": None
            if self.certificate is None
            else self.certificate.to_dict(),
            "label": self.label,
            "log": self.log,
        }

    def released_document(self) -> dict[str, object]:
        """All that the model file holds beside the certificate, which carries the digest of it.

        Returns:
            The same without the certificate.
        """
        return {
            name: value
            for name, value in self.to_dict().items()
            if name != "certificate"
        }

    def to_json(self) -> str:
        """The model file's text.

        Returns:
            A text that ends with a line break.
        """
        return json.dumps(self.to_dict(), indent=2, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, body: str) -> MixtureModel:
        """Inverse of `to_json`; refuses what is no model of this version, whatever it is instead.

        Args:
            body: the text of a model file.

        Returns:
            The model, with its certificate where it has one.

        Raises:
            FormatError: the text is no mixture model, of another version, or too large.
        """
        arguments = stated_model(body)
        try:
            return cls(**arguments)
        except InputError as error:
            raise FormatError(
                f"the mixture model could not be read: {error}"
            ) from error

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the model file.

        Args:
            path: the file to write.

        Returns:
            Where it was written.
        """
        return write_whole(path, self.to_json())

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> MixtureModel:
        """Read a model file.

        Args:
            path: the model's file.

        Returns:
            The model, with its certificate where it has one.

        Raises:
            FormatError: the file cannot be read, or holds no mixture model.
        """
        return cls.from_json(text_of(path))


def _require_covariances(matrices: Floats) -> None:
    """Refuse matrices that no Gaussian can have."""
    gaps = np.abs(matrices - np.swapaxes(matrices, 1, 2)).max(axis=(1, 2))
    if not (gaps <= 1e-9 * np.abs(matrices).max(axis=(1, 2))).all():
        raise ParameterError("covariances must be symmetric.")
    if not _positive_definite(matrices):
        raise ParameterError("covariances must be positive definite.")


def _positive_definite(matrices: Floats) -> bool:
    """By factors, which columns in other units change by these units only; eigenvalues would drown in the largest."""
    try:
        return bool(np.isfinite(np.linalg.cholesky(matrices)).all())
    except np.linalg.LinAlgError:
        return False


def _are_distinct(names: Sequence[object]) -> bool:
    """Whether there is at least one, and none twice."""
    return 0 < len(names) == len(set(names))
