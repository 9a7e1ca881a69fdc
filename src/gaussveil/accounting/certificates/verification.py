"""`verify`: recompute a certificate from its own contents and say whether every statement in it holds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from gaussveil import checks
from gaussveil.accounting.certificates import keys
from gaussveil.accounting.certificates.cells import Sheet, cells_of
from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.certificates.parameters import PAIR_ALONE, basis
from gaussveil.accounting.certificates.unchecked import unchecked
from gaussveil.accounting.certificates.values import DIFFERENT
from gaussveil.accounting.composition import Composition
from gaussveil.accounting.ledger.rules import check_neighbours
from gaussveil.errors import (
    AssumptionError,
    FormatError,
    GaussveilError,
    NumericalError,
    VerificationError,
)
from gaussveil.spectrum import Enclosure
from gaussveil.spectrum.work import limited_work

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

_AGREEMENT = 1e-9
NUMBERS = "numbers and certificate"
ALONE = "certificate alone"
WITHOUT_DIGEST = f"{ALONE}; it carries no digest of its numbers"
SECONDS = 4.0  # of processor time for steps on random batches: what a stranger's file asks for must end


@dataclass(frozen=True)
class Verification:
    """Outcome of `verify`; `ok` means every check passed, `private` that a guarantee is also claimed.

    `checked` says whether numbers were held against the certificate, or the certificate was looked at alone. `rests_on`
    says how far the checks reach: from the public parameters on, from the owner's word, or from the charged pair alone.
    `outcome` is "verified", "refuted" if a statement is proven false, or "not decided" if only a proof is wanting.
    `proven` tells whether every rounding of the recomputed ends is counted, or they were computed in doubles.
    `unchecked` names the fields that stand on the certificate by the issuer's word: other contents would pass as well;
    of those "(only together)" another number alone would not, while several of them changed together may fit again.
    """

    ok: bool
    private: bool
    delta_lower: float
    delta_upper: float
    signature: str
    problems: tuple[str, ...]
    rests_on: str
    open_questions: int = 0
    checked: str = ALONE
    proven: bool = False
    unchecked: tuple[str, ...] = ()

    @property
    def outcome(self) -> str:
        """Verified, refuted or not decided."""
        if self.ok:
            return "verified"
        if len(self.problems) == self.open_questions:
            return "not decided"
        return "refuted"

    @property
    def on_trust(self) -> str:
        """What stands on the certificate by the issuer's word, in one line."""
        inside = "parameters."
        own = [name for name in self.unchecked if not name.startswith(inside)]
        named = [
            name.removeprefix(inside) for name in self.unchecked if name not in own
        ]
        words = ", ".join(own)
        if named:
            words += f"; of the parameters {', '.join(named)}"
        return words.replace("_", " ")

    def require(self) -> None:
        """Raise `VerificationError` unless every check passed."""
        if not self.ok:
            raise VerificationError(
                "the certificate does not verify: " + "; ".join(self.problems)
            )

    def __bool__(self) -> bool:
        return self.ok


def verify(
    certificate: Certificate,
    public_key: Ed25519PublicKey | None = None,
    table: Any = None,
) -> Verification:
    """Recompute delta in both directions, enclosed where that is known; check arithmetic, parameters and signature.

    Args:
        certificate: what is claimed.
        public_key: with it an unsigned certificate, or one signed by another key, does not verify.
        table: the table that was released (frame, array, list, mapping of columns): its cells must be those that the
            certificate speaks of. Without it the certificate alone is checked, and the verdict says so.

    Returns:
        A `Verification`: whether the certificate holds, what was recomputed, and what was not checked.

    Raises:
        ParameterError: the table is no array, list, frame or mapping of columns.

    >>> import gaussveil
    >>> release = gaussveil.GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0).release([10.0, 20.0])
    >>> gaussveil.verify(release.certificate, table=release.value).ok
    True
    """
    if table is None:
        return verify_files(certificate, public_key, {})
    cells = cells_of(table)
    if cells is None:
        checks.refuse(
            "table", "an array, list, frame or mapping of columns", type(table).__name__
        )
    return verify_files(certificate, public_key, {"table": [cells]})


def verify_files(
    certificate: Certificate,
    public_key: Ed25519PublicKey | None,
    tables: Mapping[str, Sequence[Sheet]],
) -> Verification:
    """`verify` with all tables of a package, by their names; each may be read in several ways."""
    problems: list[str] = []
    try:
        check_neighbours(certificate.adjacency, certificate.charge)
    except AssumptionError as error:
        problems.append(str(error))
    unproven: list[str] = []
    rests_on = PAIR_ALONE
    held: set[str] = set()
    together: set[str] = set()
    try:
        parameters = basis(certificate)
        held = parameters.checked
        together = parameters.together
        problems += parameters.problems
        unproven += parameters.unproven
        rests_on = parameters.rests_on
    except (GaussveilError, ArithmeticError, ValueError) as error:
        unproven.append(str(error))
    lower, upper, proven = _recomputed(certificate, unproven)
    _check_delta(certificate, lower, upper, proven, problems, unproven)
    checked = _check_numbers(certificate, tables, problems, unproven)
    signature = _check_signature(certificate, public_key, problems)
    compared = certificate.values is not None and bool(tables)
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
        checked=checked,
        proven=proven,
        unchecked=unchecked(certificate.body(), held, together, compared=compared),
    )


def _recomputed(
    certificate: Certificate, unproven: list[str]
) -> tuple[float, float, bool]:
    """Ends of delta, and whether they are proven; [0, 1] where nothing could be computed."""
    try:
        if sum(part.source.convolutions for part in certificate.charge.parts) > 1:
            raise NumericalError(
                "several allocations are more work than verifying allows"
            )
        total = Composition.of(
            [(certificate.charge, 1)], symmetric=certificate.adjacency.symmetric
        )
        with limited_work(SECONDS):
            ends = _ends(certificate, total)
        return float(ends.lower), float(ends.upper), ends.proven
    except (GaussveilError, ArithmeticError, ValueError) as error:
        unproven.append(f"delta could not be recomputed ({error}), so nothing is shown")
        return 0.0, 1.0, True


def _check_delta(
    certificate: Certificate,
    lower: float,
    upper: float,
    proven: bool,
    problems: list[str],
    unproven: list[str],
) -> None:
    """Hold the claimed delta and its stated upper end against what was recomputed; only what is proven refutes."""
    surely = lower if proven else 0.0
    if upper > certificate.delta:
        told = problems if surely > certificate.delta else unproven
        told.append(
            f"the pair allows delta {upper:.6g} at epsilon {certificate.epsilon:.6g}, claimed {certificate.delta:.6g}"
        )
    if not surely * (1 - _AGREEMENT) <= certificate.delta_upper <= certificate.delta:
        problems.append(
            f"the stated upper end {certificate.delta_upper:.6g} does not fit [{lower:.6g}, {certificate.delta:.6g}]"
        )
    elif certificate.delta_upper < upper * (1 - _AGREEMENT):
        # where only a bound is known, the lower end says nothing
        unproven.append(
            f"the stated upper end {certificate.delta_upper:.6g} is not shown: it is at most {upper:.6g}"
        )


def _check_numbers(
    certificate: Certificate,
    tables: Mapping[str, Sequence[Sheet]],
    problems: list[str],
    unproven: list[str],
) -> str:
    """Words for what was checked; every table must hold what was released, in one of the ways to read it."""
    if certificate.values is None:
        unproven += [
            f"{name} was compared with nothing: the certificate carries no digest"
            for name in tables
        ]
        return WITHOUT_DIGEST
    for name, readings in tables.items():
        differences = [certificate.values.differs(cells) for cells in readings]
        if None not in differences:
            words = next(filter(None, differences), "it holds no table")
            problems.append(
                DIFFERENT.format(words if len(tables) == 1 else f"{name}: {words}")
            )
    if tables:
        return f"{NUMBERS} ({', '.join(tables)})"
    return f"{ALONE}; no numbers were compared"


def _ends(certificate: Certificate, total: Composition) -> Enclosure:
    """Ends of delta. Where floats of pairs, good to nine digits, already say 1, an enclosure would change nothing."""
    pairs = all(
        part.source.stored_as == "gaussian" for part in certificate.charge.parts
    )
    if pairs and total.delta(certificate.epsilon) >= 1 > certificate.delta:
        return Enclosure.of(
            0.5 if certificate.charge.sampler_error == 0 else 0.0, 1.0, proven=True
        )
    return total.enclose(certificate.epsilon)


def _check_signature(
    certificate: Certificate, public_key: Ed25519PublicKey | None, problems: list[str]
) -> str:
    signature = certificate.signature
    if signature is None:
        if public_key is not None:
            problems.append("the certificate is not signed, but a public key was given")
        return "none"
    if signature["algorithm"] != "Ed25519":
        problems.append(
            f"the signature must be Ed25519, got {signature['algorithm']!r}"
        )
        return "unknown algorithm"
    try:
        stated = keys.key_from_text(signature["public_key"])
    except FormatError as error:
        problems.append(str(error))
        return "malformed"
    if (
        public_key is not None
        and keys.public_text(public_key) != signature["public_key"]
    ):
        problems.append(
            "the certificate was signed with another key than the one given"
        )
        return "other key"
    if not keys.signature_holds(certificate.body(), signature["value"], stated):
        problems.append(
            "the signature does not fit the certificate: it was altered after signing"
        )
        return "does not fit"
    # Without a key to compare with, a signature proves integrity, not who signed.
    if public_key is not None:
        return "valid, by the given key"
    return "valid, by the key inside the certificate"
