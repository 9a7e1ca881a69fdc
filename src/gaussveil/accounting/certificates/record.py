"""What the JSON of a certificate must hold: its fields, a known version, and nothing that contradicts the rest."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gaussveil.accounting.canonical import fields, text, within_limits
from gaussveil.errors import FormatError, VerificationError

FORMAT = "gaussveil certificate"
VERSIONS = (1, 2, 3)
"""1 knows neither a line of a ledger nor identities of draws, 2 no digest of the numbers."""

_ABSENT = object()


def stated_fields(record: object) -> dict[str, Any]:
    """The fields of a certificate as they are stated, of a version that this library reads."""
    what = "a certificate"
    stated = fields(within_limits(record, what), what, ("format", "version"))
    if stated["format"] != FORMAT:
        raise FormatError(f"not a certificate: the field 'format' must be {FORMAT!r}")
    version = stated["version"]
    if type(version) is not int or version not in VERSIONS:
        raise FormatError(
            f"this certificate has format version {version!r}, this library reads {VERSIONS[0]} to {VERSIONS[-1]}; "
            "upgrade gaussveil to read a newer one"
        )
    needed = (
        "release",
        "adjacency",
        "guarantee",
        "assumptions",
        "parameters",
        "dominating",
    )
    return dict(fields(stated, what, needed))


def listed_facts(
    stated: Mapping[str, Any],
) -> tuple[tuple[str, ...], Mapping[str, object]]:
    """Assumptions and parameters."""
    assumptions = stated["assumptions"]
    parameters = stated["parameters"]
    if not isinstance(assumptions, list) or not isinstance(parameters, Mapping):
        raise FormatError(
            "a certificate needs 'assumptions' as a list and 'parameters' as an object"
        )
    return tuple(str(line) for line in assumptions), parameters


def require_shares(epsilon: float, delta: float, delta_upper: float) -> None:
    """Refuse numbers that no promise can have."""
    if not (epsilon >= 0 and 0 <= delta <= 1 and 0 <= delta_upper <= 1):
        raise FormatError(
            "a certificate needs epsilon not negative, and delta and delta_upper between 0 and 1"
        )


def require_consistent(stated: Mapping[str, Any], again: Mapping[str, object]) -> None:
    """Refuse what does not agree with what it derives from, and fields that nobody reads."""
    stated = {"signature": None, **stated}
    wrong = [
        name
        for name in {**stated, **again}
        if again.get(name, _ABSENT) != stated.get(name, _ABSENT)
    ]
    if wrong == ["sampler"]:  # what is charged for it follows from epsilon alone
        raise VerificationError("the certificate does not verify: epsilon was altered")
    if wrong:
        raise FormatError(
            f"the certificate contradicts itself, or holds unknown fields, in {wrong[0]!r}"
        )


def signature_of(record: object) -> Mapping[str, str] | None:
    """The signature that a certificate states, or None."""
    if record is None:
        return None
    listed = fields(record, "the signature", ("algorithm", "public_key", "value"))
    if len(listed) > 3:
        raise FormatError(
            "the signature must hold its algorithm, public_key and value alone"
        )
    return {name: text(listed, name, "the signature") for name in listed}


def ledger_line(record: object) -> Mapping[str, object] | None:
    """Where the ledger's log holds the debit: how the log begins, the line's number, and its link of the hash chain."""
    if record is None:
        return None
    what = "the field 'ledger'"
    stated = fields(record, what, ("begins", "line", "link"))
    if type(stated["line"]) is not int:
        raise FormatError("the field 'ledger' must give the 'line' as a whole number")
    return {
        "begins": text(stated, "begins", what),
        "line": stated["line"],
        "link": text(stated, "link", what),
    }
