"""What is said of a release before it is drawn: its promise, its assumptions and the kind of its guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from gaussveil import checks
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import (
    FrozenRecord,
)
from gaussveil.accounting.diagnostics import refuse_private
from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    pass


_KINDS = ("worst case", "model-based", "none")


@dataclass(frozen=True)
class Guarantee:
    """Kind of guarantee: worst case, model-based (`reason` names the model), or none (`reason` says why)."""

    kind: str = "worst case"
    reason: str = ""

    def __post_init__(self) -> None:
        checks.one_of("kind", self.kind, _KINDS)
        if self.kind != "worst case" and not self.reason.strip():
            raise ParameterError(
                f"a guarantee of kind {self.kind!r} must give its reason. Got empty text."
            )

    @classmethod
    def worst_case(cls) -> Guarantee:
        """Holds for every pair of neighbours."""
        return cls()

    @classmethod
    def model_based(cls, model: str) -> Guarantee:
        """Holds if the data follow the named model."""
        return cls("model-based", model)

    @classmethod
    def none(cls, reason: str) -> Guarantee:
        """No guarantee, for example because the noise was seeded."""
        return cls("none", reason)

    @classmethod
    def least(cls, *guarantees: Guarantee) -> Guarantee:
        """The weakest of several: what is built from a release promises no more than that release did."""
        weakest = max(_KINDS.index(guarantee.kind) for guarantee in guarantees)
        reasons = dict.fromkeys(
            guarantee.reason
            for guarantee in guarantees
            if _KINDS.index(guarantee.kind) == weakest
        )
        return cls(_KINDS[weakest], "; ".join(reasons))

    def __str__(self) -> str:
        if self.reason:
            return f"{self.kind} ({self.reason})"
        return self.kind


@dataclass(frozen=True, kw_only=True)
class CertificateDraft:
    """What a mechanism knows before it draws; `transaction` completes it to a `Certificate`."""

    released: str
    mechanism: str
    adjacency: Adjacency
    epsilon: float
    delta: float
    guarantee: Guarantee = field(default_factory=Guarantee.worst_case)
    assumptions: tuple[str, ...] = ()
    parameters: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name in ("released", "mechanism"):
            if not isinstance(getattr(self, name), str):
                checks.refuse(name, "text", getattr(self, name))
        object.__setattr__(
            self, "epsilon", checks.real("epsilon", self.epsilon, "[0, inf)")
        )
        object.__setattr__(self, "delta", checks.real("delta", self.delta, "[0, 1]"))
        refuse_private(self.parameters, "a certificate's parameters")
        object.__setattr__(self, "parameters", FrozenRecord(self.parameters))
        object.__setattr__(
            self, "assumptions", tuple(str(line) for line in self.assumptions)
        )
