"""Kernels whose computed matrices are proven close to positive definite ones: a Gaussian process's bounds need that.

A closed list of scikit-learn's kernels, their sums, products and whole powers, each with the hyperparameters for which
the matrix *as it is computed*, whatever the records, has a proven distance from one that is positive definite: so many
units in the last place of the largest k(x, x) in every entry (`error_units`; derived: docs/mechanisms/gp.md). The noise
pays for them. A subclass may compute anything, so types are compared, not inherited.

What rounds to anything is computed otherwise or refused: squared distances by way of products and Bessel functions are
not on the list; places are reduced to one period, and powers near one taken by `log1p`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from numbers import Integral, Real
from typing import Any

import numpy as np
from scipy.spatial.distance import cdist
from sklearn.gaussian_process import kernels

# of places: no distance of usable records overflows
SMALLEST_SCALE = 2.0**-200
LARGEST_SCALE = 2.0**200
SMALLEST_ALPHA = (
    2.0**-10
)  # of RationalQuadratic: so many times smaller, and far records would overflow
_CLOSED_FORMS = (
    0.5,
    1.5,
    2.5,
    math.inf,
)  # of Matern kernels; others are Bessel functions
_PAIRWISE = ("linear", "laplacian", "poly", "polynomial")


class Periodic(kernels.ExpSineSquared):
    """ExpSineSquared of the remainders of its places, which doubles know exactly."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The matrix of the kernel."""
        X, Y = (
            rows if rows is None else np.fmod(rows, self.periodicity) for rows in (X, Y)
        )
        return super().__call__(X, Y, eval_gradient)


class Rational(kernels.RationalQuadratic):
    """RationalQuadratic by logarithms: a power of 1 + z rounds z away first, and for large alpha that is everything."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The matrix of the kernel; `eval_gradient` is not used here."""
        rows = np.atleast_2d(X)
        squared = cdist(rows, rows if Y is None else Y, metric="sqeuclidean")
        return np.exp(
            -self.alpha * np.log1p(squared / (2 * self.alpha * self.length_scale**2))
        )


_OWN: dict[type, type] = {
    kernels.ExpSineSquared: Periodic,
    kernels.RationalQuadratic: Rational,
}


def as_computed(kernel: Any) -> Any:
    """The kernel as it is evaluated here."""
    if type(kernel) in _OWN:
        return _OWN[type(kernel)](**kernel.get_params())
    parts = {
        name: part
        for name, part in kernel.get_params(deep=False).items()
        if isinstance(part, kernels.Kernel)
    }
    return kernel.set_params(
        **{name: as_computed(part) for name, part in parts.items()}
    )


def error_units(kernel: Any, n_features: int) -> float:
    """How far an entry can lie from that of a positive definite kernel, in units in the last place of k(x, x).

    Infinite where nothing is proven.
    """
    kind = type(kernel)
    if kind is kernels.Sum:
        return max(error_units(part, n_features) for part in (kernel.k1, kernel.k2)) + 1
    if kind is kernels.Product:
        return sum(error_units(part, n_features) for part in (kernel.k1, kernel.k2)) + 1
    if kind is kernels.Exponentiation:
        power = kernel.exponent
        whole = (
            isinstance(power, Real) and float(power).is_integer() and float(power) >= 1
        )
        if whole:
            return float(power) * (error_units(kernel.kernel, n_features) + 1)
        return math.inf
    if kind in _LEAVES:
        return _LEAVES[kind](kernel, n_features)
    return math.inf


def refused_part(kernel: Any, n_features: int) -> str:
    """The first part of a kernel about which nothing is proven, with its hyperparameters."""
    given = {
        name: value
        for name, value in kernel.get_params(deep=False).items()
        if not name.endswith("_bounds")
    }
    parts = [part for part in given.values() if isinstance(part, kernels.Kernel)]
    inside = [part for part in parts if math.isinf(error_units(part, n_features))]
    if inside:
        return refused_part(inside[0], n_features)
    words = ", ".join(
        f"{name}={type(value).__name__ if value in parts else value}"
        for name, value in given.items()
    )
    return f"{type(kernel).__name__}({words})"


# A squared distance errs by (columns + 2) units of itself, and z e^-z <= 1/e.


def _rbf(kernel: Any, columns: int) -> float:
    if _scale(kernel.length_scale):
        return columns / 2 + 6
    return math.inf


def _matern(kernel: Any, columns: int) -> float:
    good = (
        _scale(kernel.length_scale)
        and np.ndim(kernel.nu) == 0
        and kernel.nu in _CLOSED_FORMS
    )
    if good:
        return columns / 2 + 12
    return math.inf


def _rational(kernel: Any, columns: int) -> float:
    good = (
        _scale(kernel.length_scale)
        and _scale(kernel.alpha, SMALLEST_ALPHA)
        and np.ndim(kernel.length_scale) == 0
    )
    if good:
        return columns / 2 + 8
    return math.inf


def _periodic(kernel: Any, columns: int) -> float:
    """Of the distance in a plane it is indefinite; the sine of a whole period is some units of pi, not 0."""
    if columns > 1 or not (_scale(kernel.periodicity) and _scale(kernel.length_scale)):
        return math.inf
    return 40 / float(np.min(kernel.length_scale)) + 8


def _dot(kernel: Any, columns: int) -> float:
    if _real(kernel.sigma_0):
        return columns + 3
    return math.inf


def _is_power(degree: Any, constant: Any) -> bool:
    """Whether (x'y + constant)^degree is a kernel."""
    if not isinstance(degree, Integral) or int(degree) < 1:
        return False
    return bool(_real(constant) and constant >= 0)


def _pairwise(kernel: Any, columns: int) -> float:
    extra = dict(kernel.pairwise_kernels_kwargs or {})
    degree = 1
    if kernel.metric in ("poly", "polynomial"):  # (gamma x'y + coef0)^degree
        degree = extra.pop("degree", 3)
        if not _is_power(degree, extra.pop("coef0", 1)):
            return math.inf
    named = isinstance(kernel.metric, str) and kernel.metric in _PAIRWISE
    good = (
        named and not extra and (kernel.metric == "linear" or _positive(kernel.gamma))
    )
    if good:
        return int(degree) * (columns + 5.0)
    return math.inf


def _constant(kernel: Any, columns: int) -> float:
    if _positive(kernel.constant_value):
        return 0.0
    return math.inf


_LEAVES: dict[type, Callable[[Any, int], float]] = {
    kernels.RBF: _rbf,
    kernels.Matern: _matern,
    kernels.RationalQuadratic: _rational,
    Rational: _rational,
    kernels.ExpSineSquared: _periodic,
    Periodic: _periodic,
    kernels.DotProduct: _dot,
    kernels.PairwiseKernel: _pairwise,
    kernels.ConstantKernel: _constant,
}


def _real(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _positive(value: Any) -> bool:
    numbers = np.asarray(value)
    return (
        numbers.dtype.kind in "iuf"
        and numbers.size > 0
        and bool(np.all(numbers > 0) and np.all(numbers < np.inf))
    )


def _scale(value: Any, smallest: float = SMALLEST_SCALE) -> bool:
    return _positive(value) and bool(
        np.min(value) >= smallest and np.max(value) <= LARGEST_SCALE
    )
