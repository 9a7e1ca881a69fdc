"""Certificates that can be recomputed and a ledger that cannot be overspent.

Accounting never names a mechanism: it adds privacy losses (`Charge`), keeps them durably (`Ledger`, `Account`), and
lets a release happen only after its debit (`transaction`).
"""

from gaussveil.lazy_exports import lazy_exports

__getattr__, __dir__, __all__ = lazy_exports(__name__, __file__)
