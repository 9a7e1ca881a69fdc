"""`verify`: recompute a certificate from its own contents and say whether every statement in it holds."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING

from gaussveil.accounting.certificates import keys
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.rules import check_neighbours
from gaussveil.errors import AssumptionError, FormatError, GaussveilError, NumericalError, VerificationError
from gaussveil.spectrum.positive_definite import is_positive_definite
from gaussveil.spectrum.work import limited_work

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_AGREEMENT = 1e-9
SECONDS = 4.0  # of processor time for steps on random batches: what a stranger's file asks for must end
# Noise drawn on a grid g stands for continuous noise of (2 g)^2 less (derived: docs/math/noise.md).
_LATTICE_VARIANCE = 4
PAIR_ALONE = "the pair alone; that the mechanism leads to this pair is the issuer's word"
PAIR_AND_PARAMETERS = "the pair, and the public parameters that lead to it"
_ROUNDING = Fraction(1, 2**50)  # of a squared float


@dataclass(frozen=True)
class Verification:
    """Outcome of `verify`; `ok` means every check passed, `private` that a guarantee is also claimed.

    `rests_on` says how far the checks reach: from the public parameters on, or from the charged pair alone. `outcome`
    is "verified", "refuted" if a statement is proven false, or "not decided" if only a proof is wanting.
    """

    ok: bool
    private: bool
    delta_lower: float
    delta_upper: float
    signature: str
    problems: tuple[str, ...]
    rests_on: str
    open_questions: int = 0

    @property
    def outcome(self) -> str:
        """Verified, refuted or not decided."""
        return "verified" if self.ok else "not decided" if len(self.problems) == self.open_questions else "refuted"

    def require(self) -> None:
        """Raise `VerificationError` unless every check passed."""
        if not self.ok:
            raise VerificationError("the certificate does not verify: " + "; ".join(self.problems))

    def __bool__(self) -> bool:
        return self.ok


def verify(certificate: Certificate, public_key: Ed25519PublicKey | None = None) -> Verification:
    """Recompute delta in both directions with a rigorous enclosure, check arithmetic, parameters and signature.

    With a `public_key` an unsigned certificate, or one signed by another key, does not verify.
    """
    problems = []
    try:
        check_neighbours(certificate.adjacency, certificate.charge)
    except AssumptionError as error:
        problems.append(str(error))
    lower, upper, unproven, rests_on = 0.0, 1.0, [], PAIR_ALONE  # until it is known better
    try:
        found, rests_on = parameter_problems(certificate)
        problems += found
    except NumericalError as error:
        unproven.append(str(error))
    try:
        if certificate.to_json().count('"random-allocation"') > 1:
            raise NumericalError("several allocations are more work than verifying allows")
        total = Composition.of([(certificate.charge, 1)], symmetric=certificate.adjacency.symmetric)
        with limited_work(SECONDS):
            # Where floats, good to nine digits, already say 1, an enclosure would change nothing.
            flat = total.delta(certificate.epsilon) >= 1 > certificate.delta
            lower, upper = (0.5, 1.0) if flat else total.delta_bounds(certificate.epsilon)
    except (GaussveilError, ArithmeticError, ValueError) as error:
        unproven.append(f"delta could not be recomputed ({error}), so nothing is shown")
    if upper > certificate.delta:
        (problems if lower > certificate.delta else unproven).append(
            f"the pair allows delta {upper:.6g} at epsilon {certificate.epsilon:.6g}, claimed {certificate.delta:.6g}"
        )
    if not lower * (1 - _AGREEMENT) <= certificate.delta_upper <= certificate.delta:
        problems.append(
            f"the stated upper end {certificate.delta_upper:.6g} does not fit [{lower:.6g}, {certificate.delta:.6g}]"
        )
    elif certificate.delta_upper < upper * (1 - _AGREEMENT):  # where only a bound is known, the lower end says nothing
        unproven.append(f"the stated upper end {certificate.delta_upper:.6g} is not shown: it is at most {upper:.6g}")
    signature = _check_signature(certificate, public_key, problems)
    ok = not problems and not unproven
    return Verification(
        ok=ok,
        private=ok and certificate.guarantee.kind != "none",
        delta_lower=lower,
        delta_upper=upper,
        signature=signature,
        problems=(*problems, *unproven),
        rests_on=rests_on,
        open_questions=len(unproven),
    )


def _check_signature(certificate: Certificate, public_key: Ed25519PublicKey | None, problems: list[str]) -> str:
    signature = certificate.signature
    if signature is None:
        if public_key is not None:
            problems.append("the certificate is not signed, but a public key was given")
        return "none"
    if signature["algorithm"] != "Ed25519":
        problems.append(f"the signature must be Ed25519, got {signature['algorithm']!r}")
        return "unknown algorithm"
    try:
        stated = keys.key_from_text(signature["public_key"])
    except FormatError as error:
        problems.append(str(error))
        return "malformed"
    if public_key is not None and keys.public_text(public_key) != signature["public_key"]:
        problems.append("the certificate was signed with another key than the one given")
        return "other key"
    if not keys.signature_holds(certificate.body(), signature["value"], stated):
        problems.append("the signature does not fit the certificate: it was altered after signing")
        return "does not fit"
    # Without a key to compare with, a signature proves integrity, not who signed.
    return "valid, by the given key" if public_key is not None else "valid, by the key inside the certificate"


def parameter_problems(certificate: Certificate) -> tuple[list[str], str]:
    """What does not fit, in words (empty if all is well), and what the recomputed delta rests on.

    Accounting knows no mechanism, only names and numbers on certificates: a stated mean shift must be what is charged,
    and where a sensitivity and the noise on it are stated, the mean shift must follow from them. Any other certificate
    is verified from its pair alone, and the verdict says so.
    """
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
