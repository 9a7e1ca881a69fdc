"""`Release`: a released value and the certificate that goes with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from gaussveil.accounting.certificates.certificate import Certificate
from gaussveil.accounting.diagnostics import refuse_private
from gaussveil.shown import Shown

Value = TypeVar("Value")


@dataclass(frozen=True, eq=False, repr=False)
class Release(Shown, Generic[Value]):
    """What may leave the house: the value, drawn with noise, and its certificate."""

    value: Value
    certificate: Certificate

    def _curve(self) -> Any:
        return self.certificate._curve()

    def _claim(self) -> tuple[float, float]:
        return self.certificate._claim()

    def _facts(self) -> dict[str, str]:
        kind = f"{type(self.value).__name__} {getattr(self.value, 'shape', '')}".strip()
        return {"value": kind, **self.certificate._facts()}

    def __post_init__(self) -> None:
        refuse_private(self.value, "a release's value")
