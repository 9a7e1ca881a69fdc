"""Certificates, signatures and verification: what holds verifies, what was altered does not."""

from __future__ import annotations

import copy
import json
import pickle
import stat
from pathlib import Path

import numpy as np
import pytest

from gaussveil.accounting import (
    Adjacency,
    Certificate,
    CertificateDraft,
    Charge,
    Guarantee,
    PrivateDiagnostics,
    Release,
    transaction,
    verify,
)
from gaussveil.accounting.certificates.keys import load_private_key, load_public_key, new_key
from gaussveil.errors import AssumptionError, FormatError, ParameterError, PrivacyError, VerificationError
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.profiles import RandomisedResponse


@pytest.fixture
def certificate(charge: Charge, draft: CertificateDraft) -> Certificate:
    with transaction(None, charge, draft) as debit:
        debit.draw(lambda: 0.0)
    return debit.certificate


def altered(certificate: Certificate, **changes: object) -> Certificate:
    return Certificate.from_dict({**certificate.to_dict(), **changes})


def test_verifies_and_round_trips(certificate: Certificate) -> None:
    found = verify(certificate)
    assert found.ok
    assert found.private
    assert found.delta_lower <= certificate.delta_upper <= found.delta_upper * (1 + 1e-12)
    assert certificate.account == "not recorded"
    assert Certificate.from_json(certificate.to_json()) == certificate
    assert pickle.loads(pickle.dumps(certificate)) == copy.deepcopy(certificate) == certificate
    assert certificate.released_at.endswith("Z")


def test_text_says_everything(certificate: Certificate) -> None:
    text = str(certificate)
    for words in (
        "daily mean",
        "worst case",
        "home",
        "added or removed",
        "upper end",
        "mean shift 0.2",
        "not recorded",
        "at most one row per home",
        "sensitivity",
        "total variation 1e-19",
        "not signed",
        f"gaussveil {certificate.gaussveil_version}",
    ):
        assert words in text


@pytest.mark.parametrize(
    "changes",
    [{"delta": 1e-9, "delta_upper": 1e-9}, {"epsilon": 0.5}, {"delta_upper": 1e-12}, {"delta_upper": 1e-5}],
    ids=["delta", "epsilon", "upper too small", "upper too large"],
)
def test_a_false_claim_does_not_verify(certificate: Certificate, changes: dict[str, object]) -> None:
    record = certificate.to_dict()
    if "epsilon" in changes:
        # Keep the derived sampler charge consistent, so that only the claim is false.
        eta = certificate.charge.sampler_error
        changes = {**changes, "sampler": {"total_variation": eta, "charged": (1 + np.exp(0.5)) * eta * (1 + 2.0**-50)}}
    found = verify(Certificate.from_dict({**record, **changes}))
    assert not found
    with pytest.raises(VerificationError):
        found.require()


def test_a_weaker_pair_does_not_verify(certificate: Certificate) -> None:
    stronger = Charge(GaussianPair.mean_shift(0.4), sampler_error=certificate.charge.sampler_error)
    dominating = {"orientation": certificate.orientation, "charge": stronger.to_dict()}
    assert not verify(altered(certificate, dominating=dominating))


def test_both_directions_are_checked(draft: CertificateDraft) -> None:
    loss = PrivacyLoss.from_terms([-1.0], [1], [0.0])
    cheap, dear = sorted([float(loss.delta(1.0)), float(loss.reversed().delta(1.0))])
    assert dear > 1.5 * cheap
    claim = CertificateDraft(
        released="x", mechanism="m", adjacency=draft.adjacency, epsilon=1.0, delta=(cheap + dear) / 2
    )
    for way in (loss, loss.reversed()):
        with pytest.raises(AssumptionError, match="allows delta"), transaction(None, Charge(way), claim):
            pytest.fail("nothing may be drawn")


def test_label_edges_must_be_the_graphs(draft: CertificateDraft) -> None:
    graph = Adjacency.label_graph([("a", "b"), ("b", "a")])
    edges = Charge(PrivacyLoss.from_terms(np.zeros((2, 1)), np.ones((2, 1)), [[0.01], [0.02]]))
    claim = CertificateDraft(released="x", mechanism="m", adjacency=graph, epsilon=1.0, delta=1e-4)
    with transaction(None, edges, claim) as debit:
        debit.draw(lambda: None)
    assert verify(debit.certificate)
    wrong = altered(debit.certificate, adjacency=Adjacency.label_graph([("a", "b")]).to_dict())
    assert "label edges" in verify(wrong).problems[0]
    with pytest.raises(AssumptionError, match="label edges"), transaction(None, edges, draft):
        pytest.fail("nothing may be drawn")


def test_pure_profile_has_delta_zero() -> None:
    claim = CertificateDraft(
        released="labels", mechanism="rr", adjacency=Adjacency.replace_one(), epsilon=1.0, delta=0.0
    )
    with transaction(None, Charge(RandomisedResponse(1.0, 4)), claim) as debit:
        debit.draw(lambda: None)
    assert debit.certificate.delta_upper == 0.0
    assert verify(Certificate.from_json(debit.certificate.to_json()))


def test_no_guarantee_is_said_aloud(charge: Charge, draft: CertificateDraft) -> None:
    seeded = CertificateDraft(
        released="x",
        mechanism="m",
        adjacency=draft.adjacency,
        epsilon=1.0,
        delta=1e-6,
        guarantee=Guarantee.none("seeded"),
    )
    with transaction(None, charge, seeded) as debit:
        debit.draw(lambda: None)
    found = verify(debit.certificate)
    assert found.ok
    assert not found.private
    assert "none (seeded)" in str(debit.certificate)
    assert "no privacy is promised" in str(debit.certificate)
    with pytest.raises(ParameterError, match="reason"):
        Guarantee("none")
    assert str(Guarantee.model_based("Gaussian past")) == "model-based (Gaussian past)"


def test_signatures(certificate: Certificate, tmp_path: Path) -> None:
    private, public = new_key(tmp_path / "owner.key")
    assert stat.S_IMODE(private.stat().st_mode) == 0o600
    other = load_public_key(new_key(tmp_path / "other.key")[1])
    signed = certificate.signed(load_private_key(private))
    again = Certificate.read(signed.write(tmp_path / "c.json"))
    assert verify(again, load_public_key(public)).signature == "valid, by the given key"
    assert verify(again).signature == "valid, by the key inside the certificate"
    assert not verify(again, other)
    assert not verify(certificate, load_public_key(public))
    # Any altered word breaks the signature, and so does a signature borrowed from elsewhere.
    assert not verify(altered(again, dataset="another"))
    assert not verify(altered(again, signature={**dict(again.signature or {}), "value": "AAAA"}))
    assert not verify(altered(again, signature={**dict(again.signature or {}), "public_key": "AAAA"}))
    assert not verify(altered(again, signature={**dict(again.signature or {}), "algorithm": "none"}))


def test_a_private_key_that_others_can_read_is_refused(tmp_path: Path) -> None:
    private, _ = new_key(tmp_path / "k")
    load_private_key(private)
    for mode in (0o640, 0o604):
        private.chmod(mode)
        with pytest.raises(ParameterError, match="owner only"):
            load_private_key(private)


def test_key_files_are_never_overwritten_or_confused(tmp_path: Path) -> None:
    private, public = new_key(tmp_path / "k")
    with pytest.raises(ParameterError, match="exist"):
        new_key(tmp_path / "k")
    with pytest.raises(FormatError):
        load_private_key(public)
    with pytest.raises(FormatError):
        load_public_key(private)
    with pytest.raises(ParameterError, match="cannot be read"):
        load_public_key(tmp_path / "none")


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(format="other"),
        lambda record: record.update(version=2),
        lambda record: record.pop("dominating"),
        lambda record: record.update(epsilon="1"),
        lambda record: record.update(delta_upper=-1.0),
        lambda record: record.update(privacy_unit="record"),
        lambda record: record["sampler"].update(charged=0.0),
        lambda record: record["guarantee"].update(kind="perfect"),
        lambda record: record.update(signature={"value": "x"}),
    ],
)
def test_malformed_files_are_refused(certificate: Certificate, spoil: object) -> None:
    record = json.loads(certificate.to_json())
    spoil(record)  # type: ignore[operator]
    with pytest.raises(VerificationError if record["sampler"]["charged"] == 0 else FormatError):
        Certificate.from_dict(record)


def test_newer_versions_are_refused_with_advice(certificate: Certificate, tmp_path: Path) -> None:
    record = certificate.to_dict() | {"version": 99}
    with pytest.raises(FormatError, match="upgrade"):
        Certificate.from_dict(record)
    (tmp_path / "c.json").write_text("{")
    with pytest.raises(FormatError, match="JSON"):
        Certificate.read(tmp_path / "c.json")
    with pytest.raises(FormatError, match="cannot be read"):
        Certificate.read(tmp_path / "none.json")


def test_private_values_cannot_enter(certificate: Certificate, draft: CertificateDraft) -> None:
    secret = PrivateDiagnostics(error=1.25)
    with pytest.raises(PrivacyError):
        CertificateDraft(
            released="x", mechanism="m", adjacency=draft.adjacency, epsilon=1.0, delta=0.1, parameters={"a": secret}
        )
    for value in (secret, [secret], {"a": secret}):
        with pytest.raises(PrivacyError):
            Release(value, certificate)
    with pytest.raises(ParameterError):
        CertificateDraft(
            released="x", mechanism="m", adjacency=draft.adjacency, epsilon=1.0, delta=0.1, parameters={"a": object()}
        )
    assert Release(np.ones(3), certificate).certificate is certificate
