"""Kernels that are positive definite by construction: the bounds of a Gaussian process hold for no others.

A closed list of scikit-learn's kernels, each with the hyperparameters for which it is known, and their sums, products
and whole powers. A subclass may compute anything, so types are compared, not inherited. What counts is the kernel as it
is computed, whatever the records: squared distances by way of products, and periods of far places, round to anything.
The first are not on the list; of the second, places are reduced to one period before anything is subtracted.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.gaussian_process import kernels

# Hyperparameters that must be positive, beside which nothing can go wrong.
_POSITIVE: dict[type, tuple[str, ...]] = {
    kernels.RBF: ("length_scale",),
    kernels.Matern: ("length_scale", "nu"),
    kernels.RationalQuadratic: ("length_scale", "alpha"),
    kernels.ExpSineSquared: ("length_scale", "periodicity"),
    kernels.ConstantKernel: ("constant_value",),
}
_PAIRWISE = ("linear", "laplacian", "poly", "polynomial")
_SMOOTHEST = 3.0  # nu beyond it: Bessel functions of near and far records overflow


class Periodic(kernels.ExpSineSquared):
    """ExpSineSquared of the remainders of its places, which doubles know exactly."""

    def __call__(self, X: Any, Y: Any = None, eval_gradient: bool = False) -> Any:
        """The matrix of the kernel."""
        X, Y = (rows if rows is None else np.fmod(rows, self.periodicity) for rows in (X, Y))
        return super().__call__(X, Y, eval_gradient)


def as_computed(kernel: Any) -> Any:
    """The kernel as it is evaluated, with remainders of periods."""
    if type(kernel) is kernels.ExpSineSquared:
        return Periodic(**kernel.get_params())
    parts = {name: part for name, part in kernel.get_params(deep=False).items() if isinstance(part, kernels.Kernel)}
    return kernel.set_params(**{name: as_computed(part) for name, part in parts.items()})


def is_positive_definite(kernel: Any, n_features: int) -> bool:
    """Whether the kernel is on the list, for rows of so many columns."""
    kind = type(kernel)
    if kind in (kernels.Sum, kernels.Product):
        return all(is_positive_definite(part, n_features) for part in (kernel.k1, kernel.k2))
    if kind is kernels.Exponentiation:
        power = kernel.exponent
        whole = isinstance(power, Real) and (isinstance(power, Integral) or float(power).is_integer())
        return whole and power >= 1 and is_positive_definite(kernel.kernel, n_features)
    if kind is kernels.DotProduct:
        return _real(kernel.sigma_0)
    if kind is kernels.PairwiseKernel:
        return _pairwise(kernel)
    if kind is kernels.ExpSineSquared and n_features > 1:  # of the distance in a plane it is not
        return False
    known = kind in _POSITIVE and all(_positive(getattr(kernel, name)) for name in _POSITIVE[kind])
    return known and (kind is not kernels.Matern or bool(np.all((kernel.nu <= _SMOOTHEST) | np.isinf(kernel.nu))))


def _pairwise(kernel: Any) -> bool:
    extra = dict(kernel.pairwise_kernels_kwargs or {})
    if kernel.metric in ("poly", "polynomial"):  # (gamma x'y + coef0)^degree
        degree, constant = extra.pop("degree", 3), extra.pop("coef0", 1)
        if not (isinstance(degree, Integral) and int(degree) >= 1 and _real(constant) and constant >= 0):
            return False
    named = isinstance(kernel.metric, str) and kernel.metric in _PAIRWISE
    return named and not extra and (kernel.metric == "linear" or _positive(kernel.gamma))


def _real(value: Any) -> bool:
    return isinstance(value, Real) and math.isfinite(value)


def _positive(value: Any) -> bool:
    numbers = np.asarray(value)
    return numbers.dtype.kind in "iuf" and numbers.size > 0 and bool(np.all(numbers > 0))
