"""Certificates that can be recomputed and a ledger that cannot be overspent.

Accounting never names a mechanism: it adds privacy losses (`Charge`), keeps them durably (`Ledger`, `Account`), and
lets a release happen only after its debit (`transaction`).
"""

from __future__ import annotations

from gaussveil.accounting.account import Account
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.certificates.certificate import Certificate, CertificateDraft, Guarantee
from gaussveil.accounting.certificates.verification import Verification, verify
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.diagnostics import PrivateDiagnostics
from gaussveil.accounting.ledger.ledger import Ledger
from gaussveil.accounting.transaction import Release, draw_identity, transaction

__all__ = [
    "Account",
    "Adjacency",
    "Certificate",
    "CertificateDraft",
    "Charge",
    "Guarantee",
    "Ledger",
    "PrivateDiagnostics",
    "Release",
    "Verification",
    "draw_identity",
    "transaction",
    "verify",
]
