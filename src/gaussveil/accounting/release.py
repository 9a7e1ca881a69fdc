"""`Release`: a released value and the certificate that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.diagnostics import refuse_private

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False)
class Release(Generic[Value]):
    """What may leave the house: the value, drawn with noise, and its certificate."""

    value: Value
    certificate: Certificate

    def __post_init__(self) -> None:
        refuse_private(self.value, "a release's value")
