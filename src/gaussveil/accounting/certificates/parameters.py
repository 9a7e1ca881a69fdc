"""What the public parameters of a certificate lead to: from neighbours to values, from values and noise to the pair.

Accounting knows no mechanism, only names and numbers on certificates. Nothing is granted to the issuer here: the noise
is taken as it is stated, exactly, and where it covers what is charged only if its last places are read kindly, the
answer is that it is not decided.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, TypeGuard

from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.certificates.table_parameters import table_checks
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.composition import Composition
from gaussveil.errors import FormatError
from gaussveil.files import printable
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.positive_definite import is_positive_definite

PAIR_ALONE = (
    "the pair alone; that the mechanism leads to this pair is the issuer's word"
)
PAIR_AND_PARAMETERS = "the pair, and the public parameters that lead to it"
# Noise drawn on a grid g stands for continuous noise of (2 g)^2 less (derived: docs/math/noise.md).
_LATTICE_VARIANCE = 4
_ROUNDING = Fraction(
    1, 2**50
)  # of a squared float: what differs by less is not decided, what differs by more is false
_TOO_SMALL = (
    "the noise is too small for the stated l2_sensitivity, grid and charged mean shift"
)
_OPEN = (
    "the noise covers the stated l2_sensitivity only if the last places of its covariance are read in the issuer's "
    "favour; as stated it is not shown to be large enough"
)


@dataclass
class Basis:
    """What is false, what is not shown, and what the recomputed delta rests on, in words."""

    problems: list[str] = field(default_factory=list)
    unproven: list[str] = field(default_factory=list)
    rests_on: str = PAIR_ALONE
    checked: set[str] = field(default_factory=set)
    """Parameters that another number would not fit."""
    together: set[str] = field(default_factory=set)
    """Those that another number would not fit alone, while several changed together might."""


def basis(certificate: Certificate) -> Basis:
    """How far the public parameters carry the promise.

    A stated mean shift must be what is charged; where a sensitivity and the noise on it are stated, the mean shift must
    follow from them; where what is released is itself what a ball of neighbours is about (`l2_ball`), the sensitivity
    must follow from the adjacency. Any other sensitivity is the owner's word, and any other certificate is verified
    from its pair alone; the verdict says so.
    """
    basis = Basis()
    stated = certificate.parameters
    try:
        tied = _check_ball(stated, certificate.adjacency, basis)
        if tied:
            basis.checked |= {"l2_ball", "l2_sensitivity"}
        if stated.keys() & {"l2_sensitivity", "mean_shift", "rounding_l2"}:
            _check_noise(certificate, basis)
        if "mean_shift" in stated:
            basis.checked.add("mean_shift")
        table = table_checks(
            stated,
            _one_energy(certificate),
            [part.to_dict() for part in certificate.charge.parts],
        )
        basis.problems += table.problems
        basis.checked |= table.checked
        basis.together |= table.together
        if "l2_sensitivity" in stated:
            if tied:
                basis.rests_on = PAIR_AND_PARAMETERS
            else:
                basis.rests_on = _owners_word(certificate)
    except FormatError as error:
        basis.unproven.append(str(error))
    return basis


def _check_ball(
    known: Mapping[str, object], adjacency: Adjacency, found: Basis
) -> bool:
    """Whether the distance of neighbouring values is that of the neighbours themselves; both are then one number."""
    if "l2_ball" not in known:
        return False
    ball = _number(known, "l2_ball")
    if (
        adjacency.kind != "l2-ball"
        or Fraction(_number(adjacency.parameters, "radius")) != ball
    ):
        found.problems.append("the stated l2_ball is not the radius of the adjacency")
    elif "l2_sensitivity" in known and _number(known, "l2_sensitivity") < ball:
        found.problems.append(
            "the stated l2_sensitivity is less than the radius within which neighbours lie"
        )
    return True


def _one_energy(certificate: Certificate) -> Fraction | None:
    """The squared mean shift that is charged, where it is one."""
    energy = certificate.charge.mean_shift_energy
    if energy is None or energy.ndim:
        return None
    return Fraction(float(energy))


def _owners_word(certificate: Certificate) -> str:
    apart = f"at most {certificate.parameters['l2_sensitivity']} apart in l2 norm"
    return printable(
        f"the owner's word that two neighbours ({certificate.adjacency}) have values {apart}; "
        "from there on, the pair and the stated noise"
    )


def _is_stated(known: Mapping[str, object], charged: Fraction) -> bool:
    """Whether the stated mean shift, if there is one, is the charged one."""
    if "mean_shift" not in known:
        return True
    apart = abs(_number(known, "mean_shift") ** 2 - charged)
    return apart <= 5 * _ROUNDING * charged


def _check_noise(certificate: Certificate, found: Basis) -> None:
    """(D + rounding)^2 / (variance - 4 g^2) <= squared mean shift, in the noise's narrowest direction.

    Without the sensitivity (shifts are given by their number only) nothing leads from the parameters to the pair.
    """
    stated = certificate.parameters
    charged = _one_energy(certificate)
    if charged is None:
        found.problems.append(
            "Gaussian noise is charged as one mean shift, the certificate charges something else"
        )
        return
    if not _is_stated(stated, charged):
        found.problems.append(
            f"the stated mean_shift {stated['mean_shift']} is not the charged one"
        )
    if "l2_sensitivity" not in stated:
        return
    grid = _number(stated, "grid")
    coordinates = _coordinates(stated)
    rounding = _number(stated, "rounding_l2")
    if rounding**2 < grid**2 * coordinates:
        found.problems.append(
            f"rounding_l2 must be at least grid times the root of the {coordinates} coordinates"
        )
    noise = _Noise.stated(
        stated, coordinates, (_number(stated, "l2_sensitivity") + rounding) ** 2, grid
    )
    if not noise.symmetric(granted=True):
        found.problems.append("the parameter 'noise_covariance' must be symmetric")
    elif charged <= 0 or not noise.covers(charged * (1 + _ROUNDING), granted=True):
        found.problems.append(_TOO_SMALL)
    elif not (noise.covers(charged) or _kept(certificate, noise, charged)):
        found.unproven.append(_OPEN)


def _numbers_of_square(rows: list[object]) -> list[Any]:
    """The numbers in rows that are as long as there are rows."""
    square = [row for row in rows if isinstance(row, list) and len(row) == len(rows)]
    return [value for row in square for value in row if _is_number(value)]


@dataclass(frozen=True)
class _Noise:
    """A covariance as stated, the squared distance of values that it is to hide, and the grid's share of it."""

    matrix: list[list[Fraction]]
    squared: Fraction
    lattice: Fraction

    @classmethod
    def stated(
        cls,
        known: Mapping[str, object],
        coordinates: int,
        squared: Fraction,
        grid: Fraction,
    ) -> _Noise:
        """What the parameters say; white noise is a matrix of one row."""
        rows = known.get("noise_covariance")
        lattice = _LATTICE_VARIANCE * grid**2
        if not isinstance(rows, list):
            return cls([[_number(known, "noise_covariance")]], squared, lattice)
        numbers = _numbers_of_square(rows)
        if not rows or len(numbers) != len(rows) ** 2 or coordinates % len(rows):
            raise FormatError(
                "the parameter 'noise_covariance' must be a number or a square matrix that fits 'shape'"
            )
        if not all(map(math.isfinite, numbers)):
            raise FormatError("the parameter 'noise_covariance' must be finite")
        return cls(
            [[Fraction(value) for value in row] for row in rows], squared, lattice
        )

    def _room(self, granted: bool) -> list[Fraction]:
        """By how much the rounding of entries could change a direction's variance, as shares along the axes."""
        size = len(self.matrix)
        return [
            _ROUNDING * size * abs(self.matrix[i][i]) * granted for i in range(size)
        ]

    def symmetric(self, *, granted: bool = False) -> bool:
        """Whether rows and columns are alike; with `granted`, up to the rounding of entries."""
        rows = self.matrix
        room = self._room(granted)
        pairs = ((i, j) for i in range(len(rows)) for j in range(i))
        return all(
            (rows[i][j] - rows[j][i]) ** 2 <= 4 * room[i] * room[j] for i, j in pairs
        )

    def covers(self, energy: Fraction, *, granted: bool = False) -> bool:
        """Whether the values lie within this squared distance in every direction, decided exactly.

        With `granted`, whether they do under some noise whose covariance rounds to what is stated.
        """
        needed = self.squared / energy + self.lattice
        room = self._room(granted)
        size = range(len(self.matrix))
        return self.symmetric(granted=granted) and _not_negative(
            [
                [self.matrix[i][j] + (room[i] - needed if i == j else 0) for j in size]
                for i in size
            ]
        )

    def own_energy(self, charged: Fraction) -> Fraction:
        """The squared distance that white noise leads to; of a matrix one that is a rounding larger than charged."""
        left = self.matrix[0][0] - self.lattice
        if len(self.matrix) == 1 and left > 0:
            return self.squared / left
        return charged * (1 + _ROUNDING)


def _not_negative(matrix: list[list[Fraction]]) -> bool:
    """Whether a symmetric matrix is positive definite, or one number at least zero."""
    if len(matrix) == 1:
        return matrix[0][0] >= 0
    return is_positive_definite(matrix)


def _kept(certificate: Certificate, noise: _Noise, charged: Fraction) -> bool:
    """Whether the promise holds for the mean shift that the noise leads to, exactly as stated.

    The charged square is a rounded one; a promise with room for its rounding needs no grant.
    """
    energy = noise.own_energy(charged)
    if not noise.covers(energy):
        return False
    shift = PrivacyLoss.from_terms(
        [0.0], [1.0], [math.nextafter(float(energy), math.inf)]
    )
    charge = Charge(shift, sampler_error=certificate.charge.sampler_error)
    total = Composition.of([(charge, 1)], symmetric=certificate.adjacency.symmetric)
    return total.delta_upper(certificate.epsilon) <= certificate.delta


def _number(known: Mapping[str, object], name: str) -> Fraction:
    value = known.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise FormatError(f"the parameter {name!r} must be a positive number")
    return Fraction(value)


def _coordinates(known: Mapping[str, object]) -> int:
    shape = known.get("shape")
    if not isinstance(shape, list) or any(
        type(size) is not int or size < 1 for size in shape
    ):
        raise FormatError(
            "the parameter 'shape' must be a list of positive whole numbers"
        )
    return math.prod(shape)


def _is_number(value: object) -> TypeGuard[float]:
    return isinstance(value, int | float) and not isinstance(value, bool)
