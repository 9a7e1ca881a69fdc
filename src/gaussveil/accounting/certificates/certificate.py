"""`Certificate`: what was released and the exact guarantee that goes with it, in a form that anyone can recompute."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil import checks
from gaussveil.accounting import proofs
from gaussveil.accounting.adjacency import Adjacency
from gaussveil.accounting.canonical import (
    FrozenRecord,
    fields,
    number,
    parse_json,
    text,
    within_limits,
)
from gaussveil.accounting.certificates import keys
from gaussveil.accounting.certificates.draft import CertificateDraft, Guarantee
from gaussveil.accounting.certificates.record import (
    FORMAT,
    ledger_line,
    listed_facts,
    require_consistent,
    require_shares,
    signature_of,
    stated_fields,
)
from gaussveil.accounting.certificates.values import ValuesDigest, digest_of
from gaussveil.accounting.charge import Charge
from gaussveil.accounting.directed import sampler_delta
from gaussveil.errors import FormatError, ParameterError
from gaussveil.files import printable, write_whole
from gaussveil.shown import Shown

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

NOT_RECORDED = "not recorded"


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificate(Shown):
    """A release and its guarantee: frozen, versioned, recomputable with `verify`.

    Args:
        release_id, released, released_at, mechanism: its name, what it is in words, when (UTC), and what drew it.
        adjacency, guarantee, composition: how neighbours differ, what is promised them, by which rule it was admitted.
        epsilon, delta, delta_upper: the promise, and a proven upper end of delta at epsilon, at most `delta`.
        assumptions, parameters: what must hold beside the mathematics; public numbers that lead to the charge.
        charge, account, ledger: the curve that was paid, who paid, which ledger recorded it and where.
        dataset, gaussveil_version: the data that the account protects, and what made the certificate.
        signature, values: an Ed25519 signature, if it is signed, and the digest of the released numbers.
    """

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

    @classmethod
    def complete(
        cls, draft: CertificateDraft, charge: Charge, **known: Any
    ) -> Certificate:
        """Fill a draft with its charge and what only the transaction has `known`: id, time, rule, ends of delta."""
        return cls(
            **{name: getattr(draft, name) for name in draft.__dataclass_fields__},
            charge=charge,
            **known,
        )

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

    def body(self) -> dict[str, object]:
        """Everything that a signature covers, as plain JSON values."""
        body: dict[str, object] = {
            "format": FORMAT,
            "version": self.version,
            "release": {
                "id": self.release_id,
                "what": self.released,
                "at": self.released_at,
                "mechanism": self.mechanism,
            },
            "privacy_unit": self.adjacency.unit,
            "adjacency": self.adjacency.to_dict(),
            "guarantee": {"kind": self.guarantee.kind, "reason": self.guarantee.reason},
            "composition": self.composition,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "delta_upper": self.delta_upper,
            "assumptions": list(self.assumptions),
            "parameters": dict(self.parameters),
            "dominating": {
                "orientation": self.orientation,
                "charge": self.charge.to_dict(),
            },
            "sampler": {
                "total_variation": self.charge.sampler_error,
                "charged": self.sampler_charge,
            },
            "account": self.account,
            "dataset": self.dataset,
            "library_version": self.gaussveil_version,
        }
        if self.version > 1:
            body["ledger"] = dict(self.ledger) if self.ledger is not None else None
        if self.values is not None:
            body["values"] = self.values.to_dict()
        return body

    def to_dict(self) -> dict[str, object]:
        """Give the body and the signature."""
        return {
            **self.body(),
            "signature": dict(self.signature) if self.signature else None,
        }

    def to_json(self) -> str:
        """Give readable JSON; floats survive exactly."""
        return (
            json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
            + "\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON file `path`."""
        return write_whole(path, self.to_json())

    @classmethod
    def from_json(cls, body: str) -> Certificate:
        """Inverse of `to_json`; refuses a body that a newer version wrote."""
        return cls.from_dict(parse_json(body, "a certificate"))

    @classmethod
    def from_dict(cls, record: object) -> Certificate:
        """Inverse of `to_dict`; the record may be anybody's."""
        stated = stated_fields(record)
        made = cls._of_fields(stated)
        require_shares(made.epsilon, made.delta, made.delta_upper)
        require_consistent(stated, made.to_dict())
        return made

    @classmethod
    def _of_fields(cls, stated: Mapping[str, Any]) -> Certificate:
        what = "a certificate"
        release = fields(
            stated["release"], "the field 'release'", ("id", "what", "at", "mechanism")
        )
        guarantee = fields(
            stated["guarantee"], "the field 'guarantee'", ("kind", "reason")
        )
        dominating = fields(
            stated["dominating"], "the field 'dominating'", ("orientation", "charge")
        )
        assumptions, parameters = listed_facts(stated)
        try:
            return cls(
                composition=text(stated, "composition", what),
                account=text(stated, "account", what),
                dataset=text(stated, "dataset", what),
                gaussveil_version=text(stated, "library_version", what),
                epsilon=number(stated, "epsilon", what),
                delta=number(stated, "delta", what),
                delta_upper=number(stated, "delta_upper", what),
                release_id=text(release, "id", what),
                released=text(release, "what", what),
                released_at=text(release, "at", what),
                mechanism=text(release, "mechanism", what),
                adjacency=Adjacency.from_dict(stated["adjacency"]),
                guarantee=Guarantee(
                    text(guarantee, "kind", what), text(guarantee, "reason", what)
                ),
                assumptions=assumptions,
                parameters=FrozenRecord(parameters),
                charge=Charge.from_dict(dominating["charge"]),
                ledger=ledger_line(stated.get("ledger")),
                signature=signature_of(stated.get("signature")),
                values=None
                if stated["version"] < 3
                else ValuesDigest.from_dict(stated.get("values")),
            )
        except ParameterError as error:
            raise FormatError(f"not a certificate of this version: {error}") from error

    def own(self) -> dict[str, object]:
        """What tells this release from another of the same kind and promise."""
        return {
            "id": self.release_id,
            "at": self.released_at,
            "account": self.account,
            "drawn": list(self.charge.draw_identities),
            "ledger": dict(self.ledger) if self.ledger is not None else None,
            "signature": dict(self.signature) if self.signature else None,
        }

    def another(self, own: object) -> Certificate:
        """The certificate of a release of the same kind and promise, by what `own` told of it."""
        what = "what a certificate has of its own"
        names = ("id", "at", "account", "drawn", "ledger", "signature")
        stated = fields(within_limits(own, what), what, names)
        drawn = stated["drawn"]
        if len(stated) > len(names) or not isinstance(drawn, list):
            raise FormatError(
                f"{what} must hold {', '.join(names)} alone, 'drawn' as a list"
            )
        return replace(
            self,
            release_id=text(stated, "id", what),
            released_at=text(stated, "at", what),
            account=text(stated, "account", what),
            charge=self.charge.redrawn(*drawn)
            if drawn or self.charge.draw_identities
            else self.charge,
            ledger=ledger_line(stated["ledger"]),
            signature=signature_of(stated["signature"]),
        )

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Certificate:
        """Read a certificate from the file `path`."""
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"the certificate {path} cannot be read: {error}"
            ) from error

    def of_values(self, values: ValuesDigest | None) -> Certificate:
        """The same certificate with the digest of the `values` it is about; a signature covers what it was made for."""
        if values is None:
            return self
        return replace(self, values=values, signature=None)

    def about(self, numbers: Any) -> Certificate:
        """The same certificate with the digest of what is published of its release: coefficients, a frame, rows drawn.

        Releases carry the digest of their value already, and so do files of the command line. What was made of a fitted
        estimator in Python gets it here, before it is signed.

        Args:
            numbers: an array, list, frame, mapping of columns, or a released object such as a mixture.

        Returns:
            A certificate against which `verify(certificate, table=numbers)` holds these very numbers.

        Raises:
            ParameterError: if `numbers` is no table or document of numbers and texts.

        Example:
            note = model.certificate_.about({"name": ["x"], "coefficient": model.coef_})
        """
        values = digest_of(numbers)
        if values is None:
            checks.refuse(
                "numbers",
                "an array, list, frame, mapping of columns or a released object",
                type(numbers).__name__,
            )
        return self.of_values(values)

    def signed(self, key: Ed25519PrivateKey) -> Certificate:
        """Give the same certificate with an Ed25519 signature by a private `key`."""
        return replace(self, signature=keys.sign(self.body(), key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.release_id, self.charge))

    def describe(self) -> str:
        """Say it in plain text."""
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
        told = [
            f"({_in_words(part)})" if isinstance(part, list) else _in_words(part)
            for part in value
        ]
        between = "; " if any(isinstance(part, str) for part in value) else ", "
        return between.join(told) or "none"
    if value is None:
        return "none"
    return str(value)
