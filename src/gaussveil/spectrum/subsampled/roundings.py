"""What functions, sums and densities in doubles are off by at most, given what is assumed of the C library.

    computed f(x) = f(x) (1 + d), |d| <= LIBRARY 2^-53         exp, expm1, log, log1p, sin, cos, atan2, hypot, log_ndtr

That is the one assumption about the platform (tests/spectrum/test_roundings.py looks at each of these functions); the
error of an argument is carried on by the function's slope, and products and sums round once (IEEE 754).
"""

from __future__ import annotations

import math

import numpy as np
import scipy

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.cell_exponents import UP
from gaussveil.spectrum.subsampled.line_cells import OutputWindow
from gaussveil.spectrum.subsampled.step import Complexes, Step
from gaussveil.typing import Floats

LIBRARY = 4.0
"""Roundings by which a function of the C library or NumPy may be off: assumed, and tested against 40 digits."""
TURN = 3.0 * LIBRARY + 8.0
"""Roundings of e^{ix} - 1 = -2 sin^2(x/2) + 2i sin(x/2) cos(x/2), its weight and the product."""
REST = 24.0
"""Roundings of e^x - 1 - x: of the series next to 0, and of e^x - 1 less x beyond it, which is a third of its parts."""
REST_NEAR = 0.7
REST_TERMS = 18  # 0.7^17 / (3 4 ... 19) is below a rounding
TURN_TERMS = 7  # of cos and sin up to 1: the next ones are 1/(3 4 ... 18) of the first


def summed(number: int) -> float:
    """Roundings that an addend meets in NumPy's sum: of 128 numbers in eight lanes, and of pairs of such sums."""
    pairs = math.ceil(math.log2(max(number / 128.0, 1.0)))
    return math.ceil(min(number, 128) / 8.0) + 3.0 + pairs


def total(terms: Floats) -> float:
    """The sum, whose roundings `summed` counts: products of matrices add up in an order of their own."""
    return float(np.sum(terms))


def log_density_off(step: Step, z: Floats, log: Floats) -> Floats:
    """By how much A(z) in doubles is off.

    Left of the knee A = log1p(q expm1(x)), x = z/sigma - 1/(2 sigma^2); right of it x + log q + log1p((1-q)/(q e^x)).
    Either way an error of x counts by the share p = q e^x/e^A of the record, at most 1/2 to the left.
    """
    noise = step.noise_multiplier
    in_exponent = UNIT_ROUNDOFF * (3.0 * np.abs(z) / noise + 2.0 / noise**2)
    share = scipy.special.expit((z - step.knee) / noise) * (1.0 + UP)
    size = np.abs(log)
    left = (LIBRARY + 1.0) * np.abs(np.expm1(-log)) + LIBRARY * size
    right = 2.0 * size + LIBRARY * (2.0 - math.log(step.sampling_rate) - step.floor)
    own = np.where(z > step.knee, right, left)
    return np.asarray(share * in_exponent + UNIT_ROUNDOFF * own)


def window_off(window: OutputWindow, z: Floats, log: Floats) -> Floats:
    """By how much the log of a window in doubles is off: it falls by at most 1 + |x|, x edges beyond its cap."""
    place = np.abs(window.cap - z) / window.edge
    place_off = 3.0 * UNIT_ROUNDOFF * place
    steep = np.where(z > window.cap, 1.0 + place, 1.0)
    return np.asarray(
        steep * place_off + (LIBRARY + 1.0) * UNIT_ROUNDOFF * (1.0 + np.abs(log))
    )


def rest(x: Floats) -> Floats:
    """e^x - 1 - x with all its digits, `REST` roundings of it at most."""
    near = np.clip(x, -REST_NEAR, REST_NEAR)
    series = np.ones_like(near)
    for k in range(REST_TERMS, 2, -1):
        series = 1.0 + near / k * series
    return np.asarray(
        np.where(np.abs(x) <= REST_NEAR, 0.5 * x * x * series, np.expm1(x) - x)
    )


def turned_parts(
    weight: Floats, angles: Floats, less_linear: bool, near: bool
) -> Complexes:
    """Sums over points of w (e^{ix} - 1) or of w (e^{ix} - 1 - ix), in each row of angles; `near` if none exceeds 1."""
    if less_linear and near:
        square = angles * angles
        real = np.ones_like(square)
        imaginary = np.ones_like(square)
        for k in range(TURN_TERMS, 0, -1):
            real = 1.0 - square * (real / ((2 * k + 1) * (2 * k + 2)))
            imaginary = 1.0 - square * (imaginary / ((2 * k + 2) * (2 * k + 3)))
        square *= weight
        real *= square
        imaginary *= square
        imaginary *= angles
        return -0.5 * real.sum(axis=1) - 1j / 6.0 * imaginary.sum(axis=1)
    half = 0.5 * angles
    sine = np.sin(half)
    turn = 2.0 * sine * np.cos(half)
    if less_linear:
        turn -= angles
    sine *= sine
    real = (sine * weight).sum(axis=1)
    imaginary = (turn * weight).sum(axis=1)
    return np.asarray(-2.0 * real + 1j * imaginary)
