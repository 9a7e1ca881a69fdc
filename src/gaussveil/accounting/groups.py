"""What a release costs a group of records instead of one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from gaussveil.errors import ParameterError
from gaussveil.spectrum import PrivacyCurve, PrivacyLoss, composed
from gaussveil.spectrum.group_curve import GroupCurve
from gaussveil.spectrum.laws.mechanisms import DiscreteGaussian, Exponential
from gaussveil.spectrum.profiles import DiscreteLaplace, Laplace

Part = tuple[PrivacyCurve, int]
PRODUCTS_UP = 1.0 + 2.0**-50


def of_group(parts: Sequence[Part], members: int) -> list[Part]:
    """The same releases for groups: moved further where they are a shift, all others together by tests in a row."""
    grouped: list[Part] = []
    rest: list[Part] = []
    for curve, count in parts:
        moved = _moved(curve, members)
        if moved is None:
            rest.append((curve, count))
        else:
            grouped.append((moved, count))
    together = composed(rest)
    if together is not None:
        grouped.append((GroupCurve(together, members), 1))
    return grouped


def _moved(curve: PrivacyCurve, members: int) -> PrivacyCurve | None:
    """The curve of a value that each member moves as far; None where that is not all."""
    energies = curve.shift_energies
    if energies is not None:
        energy = math.fsum(energies) * members * members * PRODUCTS_UP
        return PrivacyLoss.from_terms([0.0], [1.0], [energy])
    law: Any = curve
    try:
        match law:
            case Laplace():
                return Laplace(law.shift_over_scale * members * PRODUCTS_UP)
            case Exponential():
                return Exponential(law.largest_loss * members * PRODUCTS_UP)
            case DiscreteLaplace():
                return DiscreteLaplace(law.shift * members, law.scale)
            case DiscreteGaussian():
                return DiscreteGaussian(law.sigma, law.shift * members)
    except (
        ParameterError
    ):  # so far that it is out of range: tests in a row have no range
        return None
    return None
