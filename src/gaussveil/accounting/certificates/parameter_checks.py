"""Whether the public parameters on a certificate lead to the pair that it charges.

Accounting knows no mechanism, only names and numbers on certificates: a mechanism whose parameters determine its pair
has one check here, under the name it writes. A mechanism without a check is verified from its pair alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from fractions import Fraction

import numpy as np

from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import FormatError

_LATTICE_VARIANCE = (
    4  # noise drawn on a grid g stands for continuous noise of (2 g)^2 less (derived: docs/math/noise.md)
)
PAIR_ALONE = "the pair alone; that the mechanism leads to this pair is the issuer's word"
PAIR_AND_PARAMETERS = "the pair, and the public parameters that lead to it"
_ROUNDING = Fraction(1, 2**50)  # of a squared float
_SPECTRAL = Fraction(1, 10**9)  # of eigenvalues, relative to the largest


def parameter_problems(certificate: Certificate) -> tuple[list[str], str]:
    """What does not fit, in words (empty if all is well), and what the recomputed delta rests on."""
    check = _CHECKS.get(certificate.mechanism)
    if check is None:
        return [], PAIR_ALONE
    try:
        return check(certificate)
    except FormatError as error:
        return [str(error)], PAIR_ALONE


def _gaussian(certificate: Certificate) -> tuple[list[str], str]:
    """(D + rounding)^2 / (variance - 4 g^2) <= squared mean shift, in the noise's narrowest direction.

    Without the sensitivity (shifts are given by their number only) nothing leads from the parameters to the pair.
    """
    known = certificate.parameters
    problems = []
    energy = certificate.charge.mean_shift_energy
    if energy is None or energy.ndim:
        return ["Gaussian noise is charged as one mean shift, the certificate charges something else"], PAIR_ALONE
    charged = Fraction(float(energy)) * (1 + _ROUNDING)
    if "mean_shift" in known and abs(_number(known, "mean_shift") ** 2 - charged) > 4 * _ROUNDING * charged:
        problems.append(f"the stated mean_shift {known['mean_shift']} is not the charged one")
    if "l2_sensitivity" not in known:
        return problems, PAIR_ALONE
    grid, coordinates = _number(known, "grid"), _coordinates(known)
    rounding = _number(known, "rounding_l2")
    if rounding**2 < grid**2 * coordinates:
        problems.append(f"rounding_l2 must be at least grid times the root of the {coordinates} coordinates")
    left = _narrowest_variance(known, coordinates) - _LATTICE_VARIANCE * grid**2
    if left <= 0 or (_number(known, "l2_sensitivity") + rounding) ** 2 > charged * left:
        problems.append("the noise is too small for the stated l2_sensitivity, grid and charged mean shift")
    return problems, PAIR_AND_PARAMETERS


def _number(known: Mapping[str, object], name: str) -> Fraction:
    value = known.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise FormatError(f"the parameter {name!r} must be a positive number")
    return Fraction(value)


def _coordinates(known: Mapping[str, object]) -> int:
    shape = known.get("shape")
    if not isinstance(shape, list) or any(type(size) is not int or size < 1 for size in shape):
        raise FormatError("the parameter 'shape' must be a list of positive whole numbers")
    return math.prod(shape)


def _narrowest_variance(known: Mapping[str, object], coordinates: int) -> Fraction:
    """Smallest variance of the noise over all directions, rounding in favour of the certificate."""
    stated = known.get("noise_covariance")
    if not isinstance(stated, list):
        # What is drawn has a rational variance, of which the certificate states the nearest float.
        return Fraction(math.nextafter(_number(known, "noise_covariance"), math.inf))
    rows = [row for row in stated if isinstance(row, list) and len(row) == len(stated)]
    numbers = [value for row in rows for value in row if isinstance(value, int | float) and not isinstance(value, bool)]
    if not stated or len(numbers) != len(stated) ** 2 or coordinates % len(stated):
        raise FormatError("the parameter 'noise_covariance' must be a number or a square matrix that fits 'shape'")
    matrix = np.array(numbers, dtype=np.float64).reshape(len(stated), len(stated))
    if np.max(np.abs(matrix - matrix.T)) > _SPECTRAL * np.max(np.abs(matrix)):
        raise FormatError("the parameter 'noise_covariance' must be symmetric")
    values = np.linalg.eigvalsh(matrix)
    if not np.all(np.isfinite(values)):
        raise FormatError("the parameter 'noise_covariance' is too large to be checked")
    return Fraction(float(values[0])) + _SPECTRAL * Fraction(float(values[-1]))


_CHECKS: dict[str, Callable[[Certificate], tuple[list[str], str]]] = {"gaussian": _gaussian}
