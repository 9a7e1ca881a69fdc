"""Mean shifts without a contour integral, in log space, and equal ratios.

Written as a difference of two probabilities the delta of a mean shift cancels for close pairs and underflows where it
is small. Here it is one integral of a positive function. Where the loss crosses eps, the densities of X and e^eps Y
agree; with v the distance from that point in standard deviations of X, delta is the density of X there times

    int exp(-z v - v^2/2) (1 - exp(-(loss - eps))) dv,      loss - eps linear in v

(derived: docs/math). The integrand has one maximum in log v and is analytic around it, so that the trapezoidal rule is
exact to rounding.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum.arguments import epsilon_array, float_array, require_finite
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.typing import Floats

NODES = 320
DEPTH = 45.0  # the rule stops where the integrand has fallen by e^-45
SURE = 12.0  # standard deviations beyond which less than 1e-32 of a Gaussian lies
FARTHEST = 800.0  # of log v, beyond the range of doubles
LOG_ROOT_TWO_PI = 0.9189385332046727418


def log_delta_mean_shift(shift: Any, epsilon: Any) -> Floats:
    """log delta of N(shift, 1) against N(0, 1): Phi(t/2 - eps/t) - e^eps Phi(-t/2 - eps/t) (NDIS Proposition 1)."""
    t, eps = _broadcast(np.abs(_finite("shift", shift)), _epsilon(epsilon))
    return _checked(_shift_value(t, eps))


def log_delta_equal_ratios(ratio: Any, degrees: Any, epsilon: Any) -> Floats:
    """log delta of N(0, ratio I) against N(0, I) in `degrees` dimensions, either direction: one term of the spectrum.

    NDIS Lemma 4 has the same for ratio > 1 as a difference of incomplete gamma functions.
    """
    tau, size, eps = _broadcast(_finite("ratio", ratio), _finite("degrees", degrees), _epsilon(epsilon))
    if np.any(tau <= 0.0):
        raise ParameterError("'ratio' must be > 0: it is a ratio of variances. Got a value <= 0.")
    if np.any(size < 1.0):
        raise ParameterError("'degrees' must be >= 1. Got a smaller value.")
    wide = PrivacyLoss.from_terms(1.0 - np.maximum(tau, 1.0 / tau)[..., None], size[..., None], 0.0)
    found: Floats = np.where(tau < 1.0, wide.reversed().log_delta(eps), wide.log_delta(eps))[()]
    return found


# --- integrals of a positive function


def _shift_value(t: Floats, eps: Floats) -> Floats:
    with np.errstate(all="ignore"):
        moved = t > 0.0
        safe = np.where(moved, t, 1.0)
        far, rest = _ratio(eps, safe)
        z = far - 0.5 * safe
        lost = ((far - z) - 0.5 * safe) + rest  # of z to rounding
        value = _tail(z, lost, safe)
        return np.where(moved, np.minimum(value, 0.0), -np.inf)


def _tail(z: Floats, correction: Floats, step: Floats) -> Floats:
    """log of int_0^inf phi(z + v) (1 - exp(-step v)) dv; `correction` is the low part of z."""
    low = np.minimum(z, 0.0)[..., None]
    high = np.maximum(z, 0.0)
    b, up = step[..., None], high[..., None]

    def log_integrand(x: Floats) -> Floats:
        v = np.exp(x)
        exponent: Floats = x - up * v - 0.5 * (low + v) ** 2
        return exponent + _log_one_minus(b * v)

    square, rest = _square(high)
    value = _log_integral(log_integrand, z.shape) - 0.5 * square - (0.5 * rest + high * correction) - LOG_ROOT_TWO_PI
    # Far below the mean of X nearly all its mass counts fully; there the logarithm of v would resolve it badly.
    first = -z - SURE
    sure = (first > 0.0) & (step * first > DEPTH)
    return np.where(np.isposinf(square), -np.inf, np.where(sure, 0.0, value))


def _log_integral(log_integrand: Callable[[Floats], Floats], shape: tuple[int, ...]) -> Floats:
    """log of the integral over the real line of a function with one maximum; a last axis runs over nodes."""
    low, high = np.full((*shape, 1), -FARTHEST), np.full((*shape, 1), FARTHEST)
    for _ in range(60):
        third = (high - low) / 3.0
        left, right = log_integrand(low + third), log_integrand(high - third)
        go_left = ~(left < right)
        low, high = np.where(go_left, low, low + third), np.where(go_left, high - third, high)
    mode = 0.5 * (low + high)
    floor = log_integrand(mode) - DEPTH
    start, end = _fall(log_integrand, mode, floor, -1.0), _fall(log_integrand, mode, floor, 1.0)
    nodes = start + (end - start) * np.linspace(0.0, 1.0, NODES)
    values = log_integrand(nodes)
    top = np.max(values, axis=-1, keepdims=True)
    total = top[..., 0] + np.log(np.sum(np.exp(values - top), axis=-1))
    result: Floats = total + np.log((end - start)[..., 0] / (NODES - 1))
    return result


def _fall(log_integrand: Callable[[Floats], Floats], mode: Floats, floor: Floats, side: float) -> Floats:
    """Where, on one side of the mode, the integrand has fallen to the floor."""
    near, far = np.zeros_like(mode), np.full_like(mode, FARTHEST)
    for _ in range(50):
        middle = 0.5 * (near + far)
        above = log_integrand(mode + side * middle) > floor
        near, far = np.where(above, middle, near), np.where(above, far, middle)
    return mode + side * far


def _log_one_minus(q: Floats) -> Floats:
    """log(1 - e^-q) for q >= 0."""
    result: Floats = np.log(-np.expm1(-q))
    return result


# --- doubled arithmetic for the exponent, whose rounding is the error of delta


def _square(x: Floats) -> tuple[Floats, Floats]:
    """x^2 and its rounding error (Dekker)."""
    product = x * x
    shifted = 134217729.0 * x
    top = shifted - (shifted - x)
    low = x - top
    error = ((top * top - product) + 2.0 * top * low) + low * low
    return product, np.where(np.isfinite(error), error, 0.0)


def _ratio(x: Floats, y: Floats) -> tuple[Floats, Floats]:
    """x/y and its rounding error."""
    quotient = x / y
    half = 134217729.0
    a, b = half * quotient, half * y
    a_top, b_top = a - (a - quotient), b - (b - y)
    a_low, b_low = quotient - a_top, y - b_top
    product = quotient * y
    error = ((a_top * b_top - product) + a_top * b_low + a_low * b_top) + a_low * b_low
    rest = ((x - product) - error) / y
    return quotient, np.where(np.isfinite(rest), rest, 0.0)


# --- arguments


def _finite(name: str, value: Any) -> Floats:
    array: Floats = np.asarray(float_array(name, value))
    require_finite(name, array)
    return array


def _epsilon(epsilon: Any) -> Floats:
    return np.asarray(epsilon_array(epsilon, np.zeros(0)))


def _broadcast(*arrays: Floats) -> tuple[Floats, ...]:
    return tuple(np.asarray(array) for array in np.broadcast_arrays(*arrays))


def _checked(array: Floats) -> Floats:
    if np.any(np.isnan(array)):
        raise NumericalError("An argument is too large or too small for doubles here; use GaussianPair(...).enclose().")
    result: Floats = array[()]
    return result
