"""What a certificate states, and what follows from it: the fields, and the text that a reader sees."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gaussveil.accounting import proofs
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.certificates.draft import Guarantee
from gaussveil.accounting.certificates.values import ValuesDigest
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.directed import sampler_delta
from gaussveil.files import printable
from gaussveil.shown import Shown

NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class StatedCertificate(Shown):
    """Base of `Certificate`: the statements, whose meaning that class explains."""

    release_id: str
    released: str
    released_at: str
    mechanism: str
    adjacency: Adjacency
    guarantee: Guarantee
    composition: str
    epsilon: float
    delta: float
    delta_upper: float
    assumptions: tuple[str, ...]
    parameters: Mapping[str, object]
    charge: Charge
    account: str = NOT_RECORDED
    dataset: str = ""
    gaussveil_version: str = ""
    ledger: Mapping[str, object] | None = None
    signature: Mapping[str, str] | None = None
    values: ValuesDigest | None = None
    """The digest of the released numbers, where they are a table; None also on certificates of versions 1 and 2."""

    def _claim(self) -> tuple[float, float]:
        return self.epsilon, self.delta

    def _facts(self) -> dict[str, str]:
        return {
            "released": self.released,
            "promise": f"({self.epsilon:g}, {self.delta:g}) for {self.adjacency.protected}, {self.guarantee}",
            "account": self.account,
        }

    @property
    def version(self) -> int:
        """The lowest format version that holds what it says."""
        if self.values is not None:
            return 3
        if self.ledger is not None or self.charge.draw_identities:
            return 2
        return 1

    @property
    def proven(self) -> bool:
        """Whether the upper end of delta is proven, every rounding counted, and not computed in doubles alone."""
        return proofs.is_proven(
            self.charge,
            self.epsilon,
            self.delta_upper,
            symmetric=self.adjacency.symmetric,
        )

    @property
    def orientation(self) -> str:
        """Which neighbour X and Y stand for in the dominating pairs."""
        if self.adjacency.symmetric:
            return "X and Y: the two neighbours, in either order"
        if self.adjacency.edge_count is not None:
            return "X: the first label of each ordered edge, Y: the second"
        return f"X: with the {self.adjacency.unit}, Y: without it"

    @property
    def sampler_charge(self) -> float:
        """(1 + e^epsilon) eta, part of `delta_upper`."""
        return sampler_delta(self.epsilon, self.charge.sampler_error)

    def describe(self) -> str:
        """Say it in plain text.

        Returns:
            One line for each fact: who is protected, what was released, the guarantee and what it rests on.
        """
        lines = [
            f"Protected: {self.adjacency}",
            f"Released: {self.released} ({self.mechanism}), {self.released_at}, id {self.release_id}",
            f"Guarantee: {self.guarantee}",
            f"  ({self.epsilon:.6g}, {self.delta:.6g})-differential privacy; "
            f"delta recomputed, {proofs.words(proven=self.proven)}: {self.delta_upper:.6g}",
            f"Rests on: {self.composition}",
            f"Dominating: {self.charge.describe()}; {self.orientation}",
            f"Sampler: total variation {self.charge.sampler_error:.3g}, "
            f"charged (1 + e^epsilon) times: {self.sampler_charge:.3g}",
            f"Account: {self.account}"
            + (f", dataset {self.dataset}" if self.dataset else "")
            + (
                f", line {self.ledger['line']} of its ledger ({str(self.ledger['link'])[:12]})"
                if self.ledger
                else ""
            ),
        ]
        shown = self.values
        numbers = "no digest of them is here, so that a verdict is about the certificate alone"
        if shown is not None:
            numbers = (
                f"{shown.rows} rows of {shown.columns}, digest {shown.sha256[:12]}"
            )
        lines.append(f"Numbers: {numbers}")
        lines += [f"Assumes: {line}" for line in self.assumptions]
        lines += [
            f"Public: {str(name).replace('_', ' ')}: {_in_words(value)}"
            for name, value in self.parameters.items()
        ]
        lines.append(
            f"gaussveil {self.gaussveil_version}; "
            + ("signed (Ed25519)" if self.signature else "not signed")
        )
        if self.guarantee.kind == "none":
            lines[3] = (
                f"  no privacy is promised; the design values were epsilon {self.epsilon:.6g}, delta {self.delta:.6g}"
            )
        return "\n".join(
            map(printable, lines)
        )  # what a stranger wrote must not look like a line of ours

    __str__ = describe


def _in_words(value: object) -> str:
    """A parameter in a line, every digit as it is."""
    if isinstance(value, Mapping):
        parts = (f"{name} {_in_words(part)}" for name, part in value.items())
        return ", ".join(parts) or "none"
    if isinstance(value, list):
        return _listed_in_words(value)
    if value is None:
        return "none"
    return str(value)


def _listed_in_words(values: list[object]) -> str:
    """Texts, which may have commas, are kept apart by semicolons, and lists inside a list stand in brackets."""
    words = [
        f"({_in_words(part)})" if isinstance(part, list) else _in_words(part)
        for part in values
    ]
    between = "; " if any(isinstance(part, str) for part in values) else ", "
    return between.join(words) or "none"
