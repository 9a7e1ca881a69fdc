"""Two verifiers that share no code, on certificates that were mutated, forged or made to be slow: they never contradict
each other, and never verify what is known to be false.
"""

from __future__ import annotations

import json
import operator
import random
import sys
from collections.abc import Callable, Iterator
from functools import cache, reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from flint import ctx
from mpmath import erfc, exp, matrix, mp, mpf, sqrt
from typer.testing import CliRunner

from gaussveil.accounting import Adjacency, Certificate, CertificateDraft, Charge, Ledger, transaction, verify
from gaussveil.accounting.certificates import verification
from gaussveil.accounting.certificates.keys import key_from_text, new_key, public_text
from gaussveil.accounting.composition import Composition
from gaussveil.cli.main import app
from gaussveil.errors import FormatError, GaussveilError, VerificationError
from gaussveil.mechanisms import GaussianRelease, PrivateSpectrum, TrajectoryRelease
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil.spectrum.mixtures import GaussianMixture, PublicChoice
from gaussveil.spectrum.profiles import (
    ApproximatePoint,
    Laplace,
    PoissonSubsampled,
    PrivacyProfile,
    RandomisedResponse,
)
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch

from ..independent_verifier import SOURCE, independent

HOME = Adjacency.add_remove("home")
GRAPH = Adjacency.label_graph([("a", "b"), ("b", "a"), ("a", "c")])
KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
CONTRADICTED = {"refuted", "not a certificate"}


def ours(body: str, key: bytes | None = None) -> str:
    """What gaussveil itself says of the text of a certificate."""
    try:
        certificate = Certificate.from_json(body)
    except FormatError:
        return "not a certificate"
    except VerificationError:
        return "refuted"
    given = Ed25519PrivateKey.from_private_bytes(key).public_key() if key is not None else None
    return verify(certificate, given).outcome


def theirs(body: str, key: bytes | None = None, seconds: float | None = None) -> str:
    """What the independent verifier says, in this time at most."""
    limit = independent().SECONDS if seconds is None else seconds
    return str(independent().verify(body.encode("utf-8", "surrogatepass"), key, limit).outcome)


def issued(charge: Charge, adjacency: Adjacency = HOME, epsilon: float = 1.0, **draft: Any) -> Certificate:
    """A certificate whose claim is as tight as floats allow."""
    upper = Composition.of([(charge, 1)], symmetric=adjacency.symmetric).delta_upper(epsilon)
    claim = min(1.0, upper * (1 + 1e-13))
    made = CertificateDraft(released="mean", mechanism="m", adjacency=adjacency, epsilon=epsilon, delta=claim, **draft)
    with transaction(None, charge, made) as debit:
        debit.draw(lambda: 0)
    return debit.certificate


def of_gaussian_noise(known: dict[str, Any]) -> Certificate:
    """A certificate of plain Gaussian noise, whose public parameters lead to its pair."""
    draft = CertificateDraft(
        released="mean", mechanism="gaussian", adjacency=HOME, epsilon=1.0, delta=1e-5, parameters=known
    )
    with transaction(None, Charge(GaussianPair.mean_shift(0.2)), draft) as debit:
        debit.draw(lambda: 0)
    return debit.certificate


@cache
def honest() -> dict[str, Certificate]:
    """Certificates of every kind, all true."""
    spread = PrivacyLoss.from_terms([-0.5, 0.3, 0.0], [3, 1, 1], [0.0, 0.1, 0.1])
    rng = np.random.default_rng(5)
    noise = rng.normal(size=(2, 2))
    known = {
        "l2_sensitivity": 1.0,
        "shape": [2, 2],
        "grid": 2.0**-10,
        "rounding_l2": 2.0**-9,
        "mean_shift": 0.2,
        "noise_covariance": (np.array(noise @ noise.T) + 30 * np.eye(2)).tolist(),
    }
    found = {
        "shift": issued(Charge(GaussianPair.mean_shift(0.3), sampler_error=1e-18)),
        "shifts": issued(Charge(GaussianPair.mean_shift(0.02), count=500), Adjacency.replace_one("home"), 2.0),
        "pair": issued(Charge(spread)),
        "pairs": issued(Charge(spread, count=2), Adjacency.replace_one("home")),
        "narrow": issued(Charge(PrivacyLoss.from_terms([0.5], [4], [0.3])), epsilon=0.1),
        "edges": issued(
            Charge(PrivacyLoss.from_terms([[-0.3], [0.2], [0.0]], [[2], [1], [1]], [[0.1], [0.05], [0.2]])), GRAPH
        ),
        "response": issued(Charge(RandomisedResponse(1.3, 3))),
        "responses": issued(Charge(RandomisedResponse(0.4, 4), count=6)),
        "coins": issued(Charge(RandomisedResponse(0.1), count=60), epsilon=0.7),
        "laplace": issued(Charge(Laplace(1.5))),
        "batch": issued(Charge(PoissonSubsampled(GaussianPair.mean_shift(1.0), 0.01))),
        "batch of pairs": issued(Charge(PoissonSubsampled(spread, 0.3, backward=True)), epsilon=0.2),
        "replaced": issued(Charge(ReplacedInBatch(0.5, 0.9)), Adjacency.replace_one("home"), 0.0),
        "fixed size": issued(Charge(FixedSizeBatch(1.5, 0.1)), Adjacency.replace_one("home")),
        "draw": issued(Charge(GaussianPair.mean_shift(0.3), draw_identity="0" * 64)),
        "gaussian": of_gaussian_noise(known),
    }
    return {**found, **{f"{name}, signed": one.signed(KEY) for name, one in found.items() if name in ("shift", "draw")}}


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    """A certificate with its line of a ledger."""
    account = Ledger.create(tmp_path_factory.mktemp("l") / "l").open_account("homes", epsilon=3.0, delta=1e-3)
    draft = CertificateDraft(released="mean", mechanism="m", adjacency=HOME, epsilon=1.0, delta=1e-3)
    with transaction(account, Charge(GaussianPair.mean_shift(0.3)), draft) as debit:
        debit.draw(lambda: 0)
    return debit.certificate.signed(KEY)


def test_both_verify_what_is_true(recorded: Certificate) -> None:
    for name, certificate in {**honest(), "recorded": recorded}.items():
        body = certificate.to_json()
        assert (ours(body), theirs(body)) == ("verified", "verified"), name


def test_both_say_what_a_verdict_rests_on() -> None:
    """The pair alone; the owner's word, where a bound is stated; all parameters, where the adjacency gives it."""
    silent, stated = of_gaussian_noise({}), honest()["gaussian"]
    whole = TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=1.0).release(np.arange(9.0)).certificate
    for certificate, words in (
        (silent, "the pair alone"),
        (stated, "the owner's word that two neighbours"),
        (whole, "the public parameters that lead to it"),
    ):
        found = independent().verify(certificate.to_json().encode())
        assert (found.outcome, words in found.basis) == ("verified", True)
        assert words in verify(certificate).rests_on


# --- mutations --------------------------------------------------------------------------------------------------------

NUMBERS: tuple[Callable[[float], Any], ...] = (
    lambda value: float(min(value, 1e300)) * (1 - 1e-9),
    lambda value: float(min(value, 1e300)) * (1 + 1e-9),
    lambda value: value * 0.5 if isinstance(value, float) else value // 2,
    lambda value: value * 2,
    lambda value: float(min(value, 1e300)) * 1e-6,
    lambda value: float(min(value, 1e300)) * 1e6,
    lambda value: -value,
    lambda value: 0,
    lambda value: 1,
    lambda value: 5e-324,
    lambda value: 1e308,
    lambda value: 10**400,
    lambda value: int(value),
    lambda value: str(value),
    lambda value: [value],
    lambda value: None,
    lambda value: True,
)
TEXTS = (
    "",
    "x",
    "\x1b[2J",
    "\u202e",
    "none",
    "worst case",
    "gaussian",
    "replace",
    "add-remove",
    "verified\n",
    None,
    7,
    [],
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Paths to everything inside a record."""
    found = [path] if path else []
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, item in items:
        found += places(item, (*path, name))
    return found


def mutated(record: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The record with one to three things changed."""
    made = json.loads(json.dumps(record))
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        *path, last = chance.choice(places(made))
        parent = made
        for step in path:
            parent = parent[step]
        value, kind = parent[last], chance.random()
        if kind < 0.08:
            del parent[last]
        elif kind < 0.14 and isinstance(parent, dict):
            parent[chance.choice(("note", "count", "ledger", "profile"))] = chance.choice((1, [], {}, None, "x"))
        elif kind < 0.2 and isinstance(parent, list):
            parent.append(value)
        elif isinstance(value, bool) or value is None or isinstance(value, dict | list):
            parent[last] = chance.choice((None, True, False, [], {}, 0, "x", [[]], [value]))
        elif isinstance(value, int | float):
            parent[last] = chance.choice(NUMBERS)(value)
        else:
            parent[last] = chance.choice(TEXTS)
        if not made:
            return made
    return made


def extreme(chance: random.Random) -> str:
    """A certificate of a few terms of any size, whose claim is anything."""

    def size(low: float, high: float) -> float:
        return 10.0 ** chance.uniform(low, high)

    terms = range(chance.choice((1, 1, 2, 3)))
    gaps = [chance.choice((0.0, size(-18, -1e-3), -size(-18, 3), 1 - size(-16, -1))) for _ in terms]
    energies = [chance.choice((0.0, size(-20, 4))) for _ in terms]
    many = [float(chance.choice((1, 2, 10**6, 2**40))) for _ in terms]
    return hostile(
        gaps, many, energies, chance.choice((1, 1, 3, 10**5)), chance.choice((0.0, size(-6, 2.5))), size(-60, 0)
    )


@pytest.fixture(scope="module")
def remembered() -> Iterator[None]:
    """Both verifiers keep what they enclosed: most mutations leave the pair as it was."""
    patch, known = pytest.MonkeyPatch(), {}
    first, second = PrivacyLoss.enclose, independent().Pair.enclose

    def by_ours(loss: PrivacyLoss, epsilon: float) -> Any:
        key = json.dumps(loss.to_dict()), epsilon
        if key not in known or loss.exact_mean_gap:  # rounded squares: not the whole key
            known[key] = first(loss, epsilon)
        return known[key]

    def by_theirs(pair: Any) -> Any:
        key = str(pair.floats), str(pair.epsilon), ctx.prec
        if key not in known:
            known[key] = second(pair)
        return known[key]

    patch.setattr(PrivacyLoss, "enclose", by_ours)
    patch.setattr(independent().Pair, "enclose", by_theirs)
    yield
    patch.undo()


@pytest.mark.parametrize(
    "part", [0, 1, 4, 5, 6, *(pytest.param(part, marks=pytest.mark.full) for part in (2, 3, 7, 8, 9))]
)
def test_the_two_never_contradict_on_ten_thousand_certificates(
    recorded: Certificate, remembered: None, part: int, full: bool
) -> None:
    """A thousand in each part (200 without --full): mutated ones, and one in a hundred of terms from nowhere."""
    count = 1000 if full else 200
    chance = random.Random(17 + part)
    quick = [one for name, one in honest().items() if name != "replaced"]  # its grid takes a second each time
    bases = [json.loads(one.to_json()) for one in (*quick, recorded)]
    seen: dict[tuple[str, str], int] = {}
    for number in range(count):
        body = extreme(chance) if number % 100 == 99 else json.dumps(mutated(chance.choice(bases), chance))
        verdicts = ours(body), theirs(body)
        seen[verdicts] = seen.get(verdicts, 0) + 1
        assert not CONTRADICTED & set(verdicts) or "verified" not in verdicts, body
    rejected = sum(many for verdicts, many in seen.items() if CONTRADICTED.issuperset(verdicts))
    assert rejected > count / 4, seen
    assert seen[("verified", "verified")] > count / 40, seen  # texts, and claims that were loosened


@pytest.mark.parametrize(
    "name", ["shift", "shifts", "pair", "pairs", "narrow", "edges", "response", "laplace", "draw", "fixed size"]
)
@pytest.mark.parametrize("excess", [1e-9, 1e-3, 0.5])
def test_neither_verifies_a_claim_below_the_truth(name: str, excess: float) -> None:
    """The claim of every certificate here is tight to 1e-12, so a smaller one is false."""
    record = json.loads(honest()[name].to_json())
    record["delta"] = record["delta_upper"] = record["delta"] * (1 - excess)
    body = json.dumps(record)
    assert (ours(body), theirs(body)) == ("refuted", "refuted")


@pytest.mark.parametrize(
    ("profile", "epsilon"),
    [
        (RandomAllocation(4.0, 2), 12.0),
        (FixedSizeBatch(5.0, 0.1), 80.0),
        (GaussianMixture((0.0, 1.0, 2.0), (0.8, 0.1, 0.1)), 80.0),
        (PoissonSubsampled(GaussianPair.mean_shift(1.0), 1e-12), 80.0),
    ],
)
def test_a_delta_below_all_doubles_is_not_verified_as_none(profile: PrivacyProfile, epsilon: float) -> None:
    """Gaussian noise has no largest loss, and no epsilon that it keeps for sure."""
    adjacency = Adjacency.replace_one("home") if profile.neighbours == "replace" else HOME
    record = json.loads(issued(Charge(GaussianPair.mean_shift(0.3)), adjacency=adjacency, epsilon=epsilon).to_json())
    record["delta"] = record["delta_upper"] = 0.0
    record["dominating"]["charge"] = Charge(profile).to_dict()
    assert "verified" not in (ours(json.dumps(record)), theirs(json.dumps(record)))


@pytest.mark.parametrize(("noise", "rate", "epsilon"), [(819.06, 0.28454, 1.0794e-6), (665.06, 0.30804, 0.01019)])
def test_ends_of_batches_of_a_fixed_size_hold_the_truth(noise: float, rate: float, epsilon: float) -> None:
    """Doubles err by more than the profile said: q H of the shifted epsilon, in 50 digits."""
    with mp.workdps(50):
        shift, level = 2 / mpf(noise), mp.log((exp(mpf(epsilon)) - 1 + mpf(rate)) / mpf(rate))
        tails = [erfc((level / shift + side * shift / 2) / sqrt(mpf(2))) / 2 for side in (-1, 1)]
        truth = mpf(rate) * (tails[0] - exp(level) * tails[1])
        total = Composition.of([(Charge(FixedSizeBatch(noise, rate)), 1)], symmetric=True)
        lower, upper = total.delta_bounds(epsilon)
        assert lower <= truth <= upper <= lower * (1 + 1e-9)


def test_a_choice_whose_weights_fall_short_costs_no_less() -> None:
    part = RandomisedResponse(1.0)
    assert PublicChoice((0.5, 0.5 - 9e-10), (part, part)).delta(0.5) >= part.delta(0.5) * (1 - 1e-13)


NOISE = [
    [[2e10, 0.0], [0.0, 1e-6]],
    [[1e11, 0.0], [0.0, -50.0]],
    [[30.0, 40.0], [40.0, 30.0]],
    [[1e300, 0.0], [0.0, 1e-300]],
    [[26.0, 0.0], [0.0, 24.9]],
    [[26.0, 1.0], [-1.0, 26.0]],
]


@pytest.mark.parametrize("noise", NOISE, ids=str)
def test_neither_verifies_noise_that_is_too_small_in_some_direction(noise: list[list[float]]) -> None:
    record = json.loads(honest()["gaussian"].to_json())
    record["parameters"]["noise_covariance"] = noise
    body = json.dumps(record)
    assert (ours(body), theirs(body)) == ("refuted", "refuted")


SINGULAR = [
    [[1e18, 1e18], [1e18, 1e18]],
    [[1e34, 1e25], [1e25, 1e16]],
    [[4e18, 4e18], [4e18, 4e18 - 1024]],
]


@pytest.mark.parametrize("noise", SINGULAR, ids=str)
def test_singular_noise_is_not_verified_by_granting_its_last_places(noise: list[list[float]]) -> None:
    """Rank one, or indefinite: the sum and the difference of two values are told exactly."""
    record = json.loads(honest()["gaussian"].to_json())
    record["parameters"]["noise_covariance"] = noise
    body = json.dumps(record)
    assert (ours(body), theirs(body)) == ("not decided", "not decided")


@pytest.mark.parametrize("shape", [None, np.diag([1.0, 1e6]), np.array([[2.0, 1.9], [1.9, 2.0]])], ids=str)
def test_honest_noise_needs_no_grant(shape: Any) -> None:
    chance = np.random.default_rng(8)
    for epsilon, size in zip(chance.uniform(0.1, 8, 6), chance.uniform(1e-3, 1e3, 6), strict=True):
        made = GaussianRelease(epsilon=epsilon, delta=1e-6, l2_sensitivity=size, covariance_shape=shape)
        body = made.release([1.0, 2.0]).certificate.to_json()
        assert (ours(body), theirs(body)) == ("verified", "verified")


def test_a_radius_is_held_against_the_sensitivity() -> None:
    """Neighbours a hundred times as far apart as the noise was made for."""
    record = json.loads(
        TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=1.0).release(np.arange(9.0)).certificate.to_json()
    )
    record["adjacency"]["parameters"]["radius"] = 100.0
    assert (ours(json.dumps(record)), theirs(json.dumps(record))) == ("refuted", "refuted")
    record["parameters"]["l2_ball"] = 100.0
    assert (ours(json.dumps(record)), theirs(json.dumps(record))) == ("refuted", "refuted")
    del record["parameters"]["l2_ball"]  # as certificates were written before
    assert_owners_word(Certificate.from_json(json.dumps(record)))
    spectrum = PrivateSpectrum(epsilon=1.0, delta=1e-5, l2_ball=0.1, points=8).release([0.3, 1.2, 0.4, 2.1] * 4)
    record = json.loads(spectrum.certificate.to_json())
    assert (ours(json.dumps(record)), theirs(json.dumps(record))) == ("verified", "verified")
    record["adjacency"]["parameters"]["radius"] = 100.0
    assert (ours(json.dumps(record)), theirs(json.dumps(record))) == ("refuted", "refuted")


def test_a_bound_that_nothing_leads_to_is_the_owners_word() -> None:
    far = Adjacency.l2_ball(100.0, space="vector", unit="home")
    made = GaussianRelease(epsilon=1.0, delta=1e-5, l2_sensitivity=1.0, adjacency=far)
    assert_owners_word(made.release([1.0, 2.0]).certificate)


def assert_owners_word(certificate: Certificate) -> None:
    for words in (verify(certificate).rests_on, independent().verify(certificate.to_json().encode()).basis):
        assert words.startswith("the owner's word that two neighbours")
        assert "lead to it" not in words


def test_a_true_certificate_is_not_refuted_for_want_of_a_proof() -> None:
    """2^53 points (0, 1e-22) have delta 9e-7 together; the library's bound of it is 1."""
    record = json.loads(honest()["shift"].to_json())
    record["delta"] = record["delta_upper"] = 1e-5
    record["dominating"]["charge"] = Charge(ApproximatePoint(0.0, 1e-22), count=2**53).to_dict()
    record["sampler"] = {"total_variation": 0.0, "charged": 0.0}
    assert (ours(json.dumps(record)), theirs(json.dumps(record))) == ("not decided", "not decided")


@pytest.mark.parametrize("body", ["verified", "", "[]", "{}", "1", '{"format": "another"}'])
def test_a_file_that_is_no_certificate_is_not_refuted(
    body: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert theirs(body) == "not a certificate"
    file = tmp_path / "notes.json"
    file.write_text(body)
    assert independent().main([str(file)]) == 2
    assert "not a certificate" in capsys.readouterr().out
    with pytest.raises(FormatError, match="is not a certificate"):
        CliRunner().invoke(app, ["verify", str(file)], catch_exceptions=False)


# --- files made to be slow --------------------------------------------------------------------------------------------


def hostile(
    gap: list[float], many: list[float], energy: list[float], count: int, epsilon: float, claim: float = 1e-300
) -> str:
    """A certificate that claims anything for any terms."""
    record = json.loads(honest()["pair"].to_json())
    record["epsilon"] = epsilon
    record["delta"] = record["delta_upper"] = claim
    part = {"gaussian": {"variance_gap": gap, "multiplicity": many, "energy": energy}, "count": count}
    record["dominating"]["charge"]["parts"] = [part]
    return json.dumps(record)


HOSTILE = {
    "tiny gap, huge number": hostile([1e-20], [1e41], [0.0], 2000, 1.0),
    "weightless term": hostile([-1e-300, 0.5], [1.0, 1.0], [0.0, 0.1], 1, 1.0),
    "next to the largest loss": hostile([0.5], [2.0], [0.0], 1, 0.6931471805599452),
    "gaps of all sizes": hostile([-(10.0**-k) for k in range(1, 60)], [1.0] * 59, [1e-3] * 59, 3, 0.7),
    "many terms": hostile(np.linspace(-0.9, 0.9, 3000).tolist(), [1.0] * 3000, [1e-6] * 3000, 1, 1.0),
    "huge energy": hostile([-0.5], [1.0], [1e300], 2**53, 500.0),
    "ratio next to nothing": hostile([1 - 2**-53], [1e10], [1.0], 10**6, 3.0),
    "huge epsilon": hostile([-3.0], [5.0], [2.0], 7, 1e300),
    "no epsilon": hostile([-1e-9], [1.0], [0.0], 10**9, 0.0),
    "deep": "[" * 10**5 + "]" * 10**5,
    "long number": '{"format": ' + "9" * 10**5 + "}",
    "empty": "",
    "not JSON": "verified",
    "surrogate": '{"format": "\\ud800"}',
    "not UTF-8": "\udcff",
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=list(HOSTILE))
def test_hostile_files_end_and_are_not_verified_by_one_alone(body: str, full: bool) -> None:
    found = theirs(body, seconds=None if full else 1.0)
    verdicts = {found, ours(body) if "\udcff" not in body else found}
    assert not CONTRADICTED & verdicts or "verified" not in verdicts


# --- ill-conditioned matrices -----------------------------------------------------------------------------------------


def true_delta(shift: Any, epsilon: float) -> Any:
    """Balle and Wang 2018, Theorem 8, with the squared length of the whitened shift, in 60 digits."""
    length, level = sqrt(shift), mpf(epsilon)
    near, far = (level / length + sign * length / 2 for sign in (-1, 1))
    return (erfc(near / sqrt(mpf(2))) - exp(level) * erfc(far / sqrt(mpf(2)))) / 2


@pytest.mark.parametrize("power", [6, 9, 12, 14, 15])
def test_no_claim_below_the_truth_is_verified_for_ill_conditioned_matrices(power: int) -> None:
    direction = np.array([0.6, 0.8])
    covariance = np.outer(direction, direction) + 10.0**-power * np.eye(2)
    shift = 10.0 ** (-power / 2) * np.array([-0.8, 0.6])
    with mp.workdps(60):
        exact = matrix([[mpf(float(value)) for value in row] for row in covariance])
        mean = matrix([mpf(float(value)) for value in shift])
        truth = true_delta((mean.T * (exact**-1) * mean)[0], 1.0)
        try:
            charge = Charge(GaussianPair(shift, covariance, np.zeros(2), covariance))
        except GaussveilError:
            return  # refused: cannot be bounded
        certificate = issued(charge)
        assert mpf(certificate.delta_upper) >= truth
        assert mpf(certificate.delta_upper) <= truth * (1 + mpf("1e-6"))
        record = json.loads(certificate.to_json())
        record["delta"] = record["delta_upper"] = float(truth * (1 - mpf("1e-9")))
    assert theirs(certificate.to_json()) == ours(certificate.to_json()) == "verified"
    assert theirs(json.dumps(record)) == ours(json.dumps(record)) == "refuted"


# --- signatures, the file itself, its command -------------------------------------------------------------------------


def test_signatures_are_checked_as_rfc_8032_says() -> None:
    module = independent()
    key = bytes.fromhex("fc51cd8e6218a1a38da47ed00230f0580816ed13ba3303ac5deb911548908025")  # section 7.1, test 3
    value = bytes.fromhex(
        "6291d657deec24024827e69c3abe01a30ce548a284743a445e3680d7db5ac3ac"
        "18ff9b538d16f290ae67f760984dc6594a7c15e9716ed28dc027beceea1ec40a"
    )
    assert module.signature_holds(key, bytes.fromhex("af82"), value)
    assert not module.signature_holds(key, bytes.fromhex("af83"), value)
    chance = random.Random(3)
    for _ in range(20):
        message = chance.randbytes(chance.randrange(200))
        signed, own = KEY.sign(message), KEY.public_key().public_bytes_raw()
        assert module.signature_holds(own, message, signed)
        spoiled = bytearray(signed)
        spoiled[chance.randrange(64)] ^= 1 << chance.randrange(8)
        assert not module.signature_holds(own, message, bytes(spoiled))
    top = (int.from_bytes(value[32:], "little") + module.ORDER).to_bytes(32, "little")
    assert not module.signature_holds(key, bytes.fromhex("af82"), value[:32] + top), "malleable"
    for body in (b"", bytes(31), b"\xff" * 32, (module.P + 1).to_bytes(32, "little")):
        assert module.recovered(body) is None


def test_a_key_must_have_signed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = independent()
    _, public = new_key(tmp_path / "other.key")
    certificate = honest()["shift, signed"].write(tmp_path / "certificate.json")
    assert module.main([str(certificate)]) == 0
    assert module.main([str(certificate), "--public-key", str(public)]) == 1
    own = tmp_path / "own"
    own.write_text(public_text(KEY.public_key()))
    assert module.main([str(certificate), "--public-key", str(own)]) == 0
    assert "valid, by the given key" in capsys.readouterr().out
    assert key_from_text(own.read_text()).public_bytes_raw() == module.plain_key(own.read_bytes())
    unsigned = honest()["shift"].write(tmp_path / "unsigned.json")
    assert module.main([str(unsigned), "--public-key", str(own)]) == 1
    assert module.main([str(tmp_path / "nothing.json")]) == 2


def test_the_verifier_is_one_file_that_knows_nothing_of_the_package() -> None:
    text = SOURCE.read_text()
    imported = [line.split()[1] for line in text.splitlines() if line.startswith(("import ", "from "))]
    assert "gaussveil" not in {name.split(".")[0] for name in imported}
    assert {name.split(".")[0] for name in imported} - set(sys.stdlib_module_names) == {"flint"}


def test_several_allocations_are_not_decided_at_once() -> None:
    body = json.loads(issued(Charge(GaussianPair.mean_shift(0.3))).to_json())
    body["dominating"]["charge"] = (
        Charge(RandomAllocation(1.0, 20)) + Charge(RandomAllocation(1.1, 20)) + Charge(RandomAllocation(1.2, 20))
    ).to_dict()
    assert verify(Certificate.from_json(json.dumps(body))).outcome == "not decided"
    assert theirs(json.dumps(body)) == "not decided"


def test_more_steps_than_the_allowed_work_are_not_decided(monkeypatch: pytest.MonkeyPatch, full: bool) -> None:
    """Few uses of many different steps, each direction seconds of work; and no limit stays behind."""
    monkeypatch.setattr(verification, "SECONDS", verification.SECONDS if full else 0.5)
    body = json.loads(issued(Charge(GaussianPair.mean_shift(0.3))).to_json())
    steps = [PoissonSubsampled(GaussianPair.mean_shift(1 / (0.6 + 0.013 * k)), 0.01 + 1e-4 * k) for k in range(300)]
    charges = [Charge(step, count=3) for step in steps]
    while len(charges) > 1:  # in pairs: a sum of many parts is put in order at each addition
        charges = [reduce(operator.add, charges[k : k + 2]) for k in range(0, len(charges), 2)]
    body["dominating"]["charge"] = charges[0].to_dict()
    found = verify(Certificate.from_json(json.dumps(body)))
    assert found.outcome == "not decided"
    assert any("processor time" in problem for problem in found.problems)
    assert theirs(json.dumps(body)) == "not decided"
    assert Composition.of([(Charge(steps[0]), 1)], symmetric=False).delta(0.5) > 0
