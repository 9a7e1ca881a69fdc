"""What a stranger can do to a certificate: ambiguous, oversized or inconsistent files never verify and never crash."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Charge, transaction, verify
from gaussveil.errors import FormatError
from gaussveil.spectrum import GaussianPair, PrivacyLoss

SHIFT, GRID = 0.2, 2.0**-10
ROUNDING = GRID * 2.0
NEEDED = ((1.0 + ROUNDING) / SHIFT) ** 2  # variance for a sensitivity of 1 in four coordinates
WHITE = {
    "l2_sensitivity": 1.0,
    "shape": [2, 2],
    "grid": GRID,
    "rounding_l2": ROUNDING,
    "mean_shift": SHIFT,
    "noise_covariance": NEEDED + 4 * GRID**2,
}


def issue(draft: CertificateDraft, charge: Charge | None = None) -> Certificate:
    with transaction(None, charge or Charge(GaussianPair.mean_shift(SHIFT)), draft) as debit:
        debit.draw(lambda: 0.0)
    return debit.certificate


@pytest.fixture
def certificate(draft: CertificateDraft) -> Certificate:
    return issue(draft)


def test_a_repeated_key_is_refused(certificate: Certificate) -> None:
    body = certificate.to_json()
    assert verify(Certificate.from_json(body))
    for repeated in (body.replace("{", '{"delta": 1e-30,', 1), body.replace('"kind"', '"kind": "none", "kind"', 1)):
        with pytest.raises(FormatError, match="repeat a key"):
            Certificate.from_json(repeated)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda record: record.update(note="also pure"),
        lambda record: record["release"].update(note="x"),
        lambda record: record["dominating"]["charge"].update(note="x"),
        lambda record: record["dominating"]["charge"]["parts"][0]["gaussian"].update(note=[1]),
        lambda record: record["dominating"]["charge"]["parts"][0].update(profile={}),
        lambda record: record.update(version=True),
        lambda record: record.update(version=1.0),
        lambda record: record.update(assumptions=[1]),
    ],
)
def test_what_nobody_reads_is_refused(certificate: Certificate, spoil: Callable[[dict[str, object]], object]) -> None:
    record = json.loads(certificate.to_json())
    spoil(record)
    with pytest.raises(FormatError):
        Certificate.from_json(json.dumps(record))


@pytest.mark.parametrize(
    "field", ['"epsilon": 1.0', '"delta": 1e-06', '"count": 1', '"version": 1', '"sensitivity": 1.0']
)
@pytest.mark.parametrize(
    "number",
    ["1" + "0" * 400, "-1" + "0" * 400, "1" + "0" * 9000, "1e999", "NaN", "[" * 10**5 + "]" * 10**5],
    ids=lambda number: f"{len(number)} of {number[:6]}",
)
def test_numbers_and_depths_beyond_reason_are_refused(certificate: Certificate, field: str, number: str) -> None:
    body = certificate.to_json()
    assert body.count(field) == 1
    with pytest.raises(FormatError):
        Certificate.from_json(body.replace(field, field.split(": ")[0] + ": " + number))


def test_nesting_is_refused_in_parsed_records_too(certificate: Certificate) -> None:
    deep: object = 1
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(FormatError, match="nested"):
        Certificate.from_dict({**certificate.to_dict(), "parameters": {"deep": deep}})
    with pytest.raises(FormatError, match="bits"):
        Certificate.from_dict({**certificate.to_dict(), "epsilon": 10**400})


def test_a_hopeless_pair_is_refuted_at_once(certificate: Certificate) -> None:
    for energy in (1e20, 1e300):
        charge = Charge(PrivacyLoss.from_terms([0.0], [1], [energy]))
        dominating = {"orientation": certificate.orientation, "charge": charge.to_dict()}
        found = verify(Certificate.from_dict({**certificate.to_dict(), "dominating": dominating}))
        assert "allows delta 1 " in found.problems[0] + " "


def test_a_symmetric_relation_cannot_be_passed_off_as_oriented(draft: CertificateDraft) -> None:
    wide = Charge(PrivacyLoss.from_terms([-1e-3], [1], [0.0]))
    certificate = issue(replace(draft, adjacency=Adjacency.replace_one("home"), mechanism="m", delta=0.1), wide)
    record = json.loads(certificate.to_json())
    record["adjacency"]["symmetric"] = False
    record["dominating"]["orientation"] = "X: with the home, Y: without it"
    with pytest.raises(FormatError, match="symmetric must be True"):
        Certificate.from_dict(record)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, None),
        ({"noise_covariance": (np.eye(2) * WHITE["noise_covariance"] + np.diag([3.0, 0.0])).tolist()}, None),
        ({"noise_covariance": 0.999 * NEEDED}, "too small"),
        ({"noise_covariance": NEEDED}, "too small"),
        ({"noise_covariance": (np.eye(2) * NEEDED * 0.999 + np.diag([30.0, 0.0])).tolist()}, "too small"),
        ({"noise_covariance": [[2e10, 0.0], [0.0, 1e-6]]}, "too small"),
        ({"noise_covariance": [[1e11, 0.0], [0.0, -50.0]]}, "too small"),
        ({"noise_covariance": [[1e12, 1e12], [1e12, 1e12]]}, "too small"),
        ({"l2_sensitivity": 1.001}, "too small"),
        ({"grid": 1.0, "rounding_l2": 2.0}, "too small"),
        ({"rounding_l2": 1e-9}, "rounding_l2"),
        ({"shape": [2, 4]}, "rounding_l2"),
        ({"mean_shift": 0.1}, "mean_shift"),
        ({"l2_sensitivity": "1"}, "positive number"),
        ({"shape": "2"}, "shape"),
        ({"noise_covariance": [[1.0], [2.0]]}, "square matrix"),
        ({"noise_covariance": 10**300, "grid": 10**300}, "rounding_l2"),
    ],
)
def test_gaussian_parameters_must_lead_to_the_charge(
    draft: CertificateDraft, changes: dict[str, object], words: str | None
) -> None:
    found = verify(issue(replace(draft, parameters={**WHITE, **changes})))
    assert found.ok is (words is None)
    assert words is None or words in found.problems[0]


def test_gaussian_noise_is_charged_as_a_mean_shift(draft: CertificateDraft) -> None:
    spread = Charge(PrivacyLoss.from_terms([-1e-3], [1], [0.0]))
    for stated in (WHITE, {"mean_shift": SHIFT}):  # whether or not a sensitivity is stated
        found = verify(issue(replace(draft, delta=0.1, parameters=stated), spread))
        assert "something else" in found.problems[0]
        assert not found.ok
    longer = verify(issue(replace(draft, parameters={"mean_shift": 1.001 * SHIFT})))
    assert "not the charged one" in longer.problems[0]


def test_the_verdict_says_what_it_rests_on(draft: CertificateDraft) -> None:
    whole = verify(issue(replace(draft, parameters=WHITE)))
    assert "the owner's word that two neighbours" in whole.rests_on
    other = verify(issue(replace(draft, parameters=WHITE, mechanism="other")))
    assert other.rests_on == whole.rests_on  # whatever the mechanism is called
    ball = replace(draft, adjacency=Adjacency.l2_ball(1.0), parameters={**WHITE, "l2_ball": 1.0})
    assert "public parameters that lead to it" in verify(issue(ball)).rests_on
    less = {name: value for name, value in WHITE.items() if name != "l2_sensitivity"}
    for other in (replace(draft, parameters=less), replace(draft, parameters={})):
        found = verify(issue(other))
        assert found.ok
        assert "pair alone" in found.rests_on


def test_a_covariance_that_is_none_is_refused(draft: CertificateDraft) -> None:
    variance = WHITE["noise_covariance"]
    for matrix in ([[variance, 5.0], [0.0, variance]], [[variance, False], [False, variance]]):
        found = verify(issue(replace(draft, parameters={**WHITE, "noise_covariance": matrix})))
        assert not found.ok
        assert "noise_covariance" in found.problems[0]
