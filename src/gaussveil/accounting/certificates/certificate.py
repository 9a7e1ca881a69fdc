"""`Certificate`: what was released and the exact guarantee that goes with it, in a form that anyone can recompute."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gaussveil import checks
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
from gaussveil.accounting.certificates.stated import StatedCertificate
from gaussveil.accounting.certificates.values import ValuesDigest, digest_of
from gaussveil.accounting.charge import Charge
from gaussveil.errors import FormatError, ParameterError
from gaussveil.files import write_whole

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Certificate(StatedCertificate):
    """A release and its guarantee: frozen, versioned, recomputable with `verify`.

    Args:
        release_id, released, released_at, mechanism: its name, what it is in words, when (UTC), and what drew it.
        adjacency, guarantee, composition: how neighbours differ, what is promised them, by which rule it was admitted.
        epsilon, delta, delta_upper: the promise, and a proven upper end of delta at epsilon, at most `delta`.
        assumptions, parameters: what must hold beside the mathematics; public numbers that lead to the charge.
        charge, account, ledger: the curve that was paid, who paid, which ledger recorded it and where.
        dataset, gaussveil_version: the data that the account protects, and what made the certificate.
        signature, values: an Ed25519 signature, if it is signed, and the digest of the released numbers.

    >>> import gaussveil
    >>> mechanism = gaussveil.GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=1.0)
    >>> certificate = mechanism.release([10.0, 20.0]).certificate
    >>> gaussveil.Certificate.from_json(certificate.to_json()) == certificate
    True
    """

    @classmethod
    def complete(
        cls, draft: CertificateDraft, charge: Charge, **known: Any
    ) -> Certificate:
        """Fill a draft with its charge and what only the transaction has `known`: id, time, rule, ends of delta.

        Returns:
            The certificate of the release, not signed and without a digest of numbers.
        """
        return cls(
            **{name: getattr(draft, name) for name in draft.__dataclass_fields__},
            charge=charge,
            **known,
        )

    def body(self) -> dict[str, object]:
        """Everything that a signature covers, as plain JSON values.

        Returns:
            Mappings, lists, texts and numbers, in the order in which files have them.
        """
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
        """Give the body and the signature.

        Returns:
            What `from_dict` reads; "signature" is None where nobody signed.
        """
        return {
            **self.body(),
            "signature": dict(self.signature) if self.signature else None,
        }

    def to_json(self) -> str:
        """Give readable JSON; floats survive exactly.

        Returns:
            A text that ends with a line break, as `write` writes it.
        """
        return (
            json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
            + "\n"
        )

    def write(self, path: str | os.PathLike[str]) -> Path:
        """Write the JSON file `path`.

        Returns:
            Where it was written; the file is complete or was left as it was.
        """
        return write_whole(path, self.to_json())

    @classmethod
    def from_json(cls, body: str) -> Certificate:
        """Inverse of `to_json`; refuses a body that a newer version wrote.

        Returns:
            The certificate, equal to the one that was written.

        Raises:
            FormatError: the text is no certificate, or of a newer version.
        """
        return cls.from_dict(parse_json(body, "a certificate"))

    @classmethod
    def from_dict(cls, record: object) -> Certificate:
        """Inverse of `to_dict`; the record may be anybody's.

        Returns:
            The certificate, whose own form is again this record.

        Raises:
            FormatError: fields are missing, of another kind, or contradict each other.
        """
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
        """What tells this release from another of the same kind and promise.

        Returns:
            What `another` takes: id, time, account, identities of draws, place in the ledger and signature.
        """
        return {
            "id": self.release_id,
            "at": self.released_at,
            "account": self.account,
            "drawn": list(self.charge.draw_identities),
            "ledger": dict(self.ledger) if self.ledger is not None else None,
            "signature": dict(self.signature) if self.signature else None,
        }

    def another(self, own: object) -> Certificate:
        """The certificate of a release of the same kind and promise, by what `own` told of it.

        Returns:
            A certificate that differs from this one in these fields alone.

        Raises:
            FormatError: `own` does not hold exactly these fields.
        """
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
        """Read a certificate from the file `path`.

        Returns:
            The certificate that the file holds.

        Raises:
            FormatError: the file cannot be read, or holds no certificate.
        """
        try:
            return cls.from_json(Path(path).read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            raise FormatError(
                f"the certificate {path} cannot be read: {error}"
            ) from error

    def of_values(self, values: ValuesDigest | None) -> Certificate:
        """The same certificate with the digest of the `values` it is about; a signature covers what it was made for.

        Returns:
            A certificate without a signature; this one itself where there is no digest.
        """
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
        """Give the same certificate with an Ed25519 signature by a private `key`.

        Returns:
            A copy whose signature covers everything in `body`.
        """
        return replace(self, signature=keys.sign(self.body(), key))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Certificate) and self.to_dict() == other.to_dict()

    def __hash__(self) -> int:
        return hash((self.release_id, self.charge))
