"""Whether the public parameters on a certificate lead to the pair that it charges.

Accounting knows no mechanism, only names and numbers on certificates: a stated mean shift must be
what is charged, and where a sensitivity and the noise on it are stated, the mean shift must follow from them. Any other
certificate is verified from its pair alone, and the verdict says so.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.errors import FormatError
from gaussveil.spectrum.positive_definite import is_positive_definite

# Noise drawn on a grid g stands for continuous noise of (2 g)^2 less (derived: docs/math/noise.md).
_LATTICE_VARIANCE = 4
PAIR_ALONE = "the pair alone; that the mechanism leads to this pair is the issuer's word"
PAIR_AND_PARAMETERS = "the pair, and the public parameters that lead to it"
_ROUNDING = Fraction(1, 2**50)  # of a squared float


def parameter_problems(certificate: Certificate) -> tuple[list[str], str]:
    """What does not fit, in words (empty if all is well), and what the recomputed delta rests on."""
    if not certificate.parameters.keys() & {"l2_sensitivity", "mean_shift", "rounding_l2"}:
        return [], PAIR_ALONE
    try:
        return _noise_problems(certificate)
    except FormatError as error:
        return [str(error)], PAIR_ALONE


def _noise_problems(certificate: Certificate) -> tuple[list[str], str]:
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
    shift = _number(known, "l2_sensitivity") + rounding
    if charged <= 0 or not _covers(known, coordinates, shift**2 / charged + _LATTICE_VARIANCE * grid**2):
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


def _covers(known: Mapping[str, object], coordinates: int, needed: Fraction) -> bool:
    """Whether the noise has the needed variance in every direction, the rounding of what is stated granted."""
    stated = known.get("noise_covariance")
    if not isinstance(stated, list):
        # What is drawn has a rational variance, of which the certificate states the nearest float.
        return Fraction(math.nextafter(_number(known, "noise_covariance"), math.inf)) >= needed
    size = range(len(stated))
    rows = [row for row in stated if isinstance(row, list) and len(row) == len(stated)]
    numbers = [value for row in rows for value in row if isinstance(value, int | float) and not isinstance(value, bool)]
    if not stated or len(numbers) != len(stated) ** 2 or coordinates % len(stated):
        raise FormatError("the parameter 'noise_covariance' must be a number or a square matrix that fits 'shape'")
    if not all(math.isfinite(value) for value in numbers):
        raise FormatError("the parameter 'noise_covariance' must be finite")
    matrix = [[Fraction(value) for value in row] for row in rows]
    # Rounded entries change a direction's variance by at most so much of the variances along the axes.
    granted = [_ROUNDING * len(stated) * abs(matrix[i][i]) for i in size]
    if any((matrix[i][j] - matrix[j][i]) ** 2 > 4 * granted[i] * granted[j] for i in size for j in range(i)):
        raise FormatError("the parameter 'noise_covariance' must be symmetric")
    return is_positive_definite([[matrix[i][j] + (granted[i] - needed if i == j else 0) for j in size] for i in size])
