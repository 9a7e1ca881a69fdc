"""A ledger held against certificates that were given out: a restored or rewritten file cannot agree with them.

Each certificate of a recorded release names its line of the log: how the log begins, the line's number and its link of
the hash chain. The link covers every line before it. So whoever holds one certificate can prove that a ledger forgot or
rewrote anything up to it; if the certificate is signed, nobody can deny having given it out.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.certificates.stated import NOT_RECORDED
from gaussveil.accounting.ledger.ledger import Ledger


@dataclass(frozen=True)
class Comparison:
    """How many certificates speak of this ledger, how many do not, and which of the former contradict it, in words."""

    compared: int
    elsewhere: int
    problems: tuple[str, ...]


def compare(ledger: Ledger, certificates: Mapping[str, Certificate]) -> Comparison:
    """Hold certificates, by the name of their file, against a ledger; its own consistency is `Ledger.check`'s."""
    begins = ledger.line(1)
    accounts = frozenset(ledger.accounts())
    problems = []
    compared = 0
    for name, certificate in certificates.items():
        stated = certificate.ledger
        same_log = stated is not None and stated["begins"] == begins
        if certificate.account == NOT_RECORDED or not (
            same_log or certificate.account in accounts
        ):
            continue
        compared += 1
        problem = _problem(ledger, certificate, same_log)
        if problem is not None:
            problems.append(f"{name}: {problem}")
    return Comparison(compared, len(certificates) - compared, tuple(problems))


def _problem(ledger: Ledger, certificate: Certificate, same_log: bool) -> str | None:
    stated = certificate.ledger
    if stated is not None and not same_log:
        return "it was given out by a ledger whose log begins otherwise: this one was made anew, or is not the same"
    if stated is not None:
        number = stated["line"]
        if isinstance(number, int):
            link = ledger.line(number)
        else:
            link = None
        if link != stated["link"]:
            if link is None:
                lost = "is missing: an older copy was restored"
            else:
                lost = "says something else: it was rewritten"
            return (
                f"line {number} of the log, which the certificate vouches for, {lost}"
            )
    entry = ledger.entry(certificate.release_id)
    if entry is None or (entry.account, entry.charge) != (
        certificate.account,
        certificate.charge.digest,
    ):
        return f"the ledger has no such debit {certificate.release_id!r}: it was restored or rewritten"
    if entry.state in ("debited", "void"):
        return f"its debit is {entry.state}, so nothing was drawn"
    return None
