"""Names of what releases are drawn from, by which a ledger knows a draw that it paid for: keyed, to tell nothing."""

from __future__ import annotations

import hashlib
import hmac
import os

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.accounting.account import Account
from gaussveil.accounting.ledger.ledger import Ledger

# without a ledger nothing is refused, and nobody is to compare
_UNRECORDED = os.urandom(32)


def draw_identity(account: Account | None, *drawn: ArrayLike) -> str:
    """Name what a release is drawn from (arrays of numbers, texts, bytes): a keyed digest of 64 hexadecimal digits.

    So no account pays for one draw twice as if independent. The same query gives the same name in every process that
    debits the same ledger, and tells nothing to whoever lacks the ledger's secret key: certificates show the name, and
    a plain digest would confirm a guess.
    """
    name = hmac.new(
        Ledger(account.ledger).draw_key() if account is not None else _UNRECORDED,
        digestmod=hashlib.sha256,
    )
    for value in drawn:
        body = _bytes(value)
        name.update(len(body).to_bytes(8, "big") + body)
    return name.hexdigest()


def _bytes(value: ArrayLike) -> bytes:
    """Bytes that two equal values share, whatever their library, type of number and order in memory."""
    if isinstance(value, bytes | str):
        if isinstance(value, str):
            return b"text " + value.encode()
        return b"bytes " + value
    numbers = np.asarray(value, dtype="<f8") + 0.0  # minus zero is zero
    return (
        f"numbers {numbers.shape} ".encode() + np.ascontiguousarray(numbers).tobytes()
    )
