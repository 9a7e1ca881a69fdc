from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import array_api_strict
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil import GaussianPair, PrivacyLoss
from gaussveil.audit import FittedGaussian, GaussianSketch, GaussianSum, LinearPosterior, audit
from gaussveil.errors import InputError, NotPositiveDefiniteError, ParameterError, ShapeError

RNG = np.random.default_rng(11)
DATA = RNG.normal(size=(25, 4))


def close(one: Any, other: Any) -> None:
    """Equal deltas, compared as logarithms; in matrices a zero may come out as e^(-1e16)."""
    np.testing.assert_allclose(np.maximum(one, -700.0), np.maximum(other, -700.0), rtol=1e-9, atol=1e-9)


MAPS = [
    (GaussianSum(covariance=np.diag([9.0, 4.0, 1.0, 25.0])), None),
    (GaussianSum(covariance=4.0), lambda rows: (rows.sum(axis=0), 4.0 * np.eye(4))),
    (LinearPosterior(regularization=0.7, noise_variance=2.0), None),
    (
        GaussianSketch(n_components=3, ridge=5.0),
        lambda rows: (np.zeros(12), np.kron(np.eye(3), rows.T @ rows + 5.0 * np.eye(4))),
    ),
    (
        FittedGaussian(draws=2),
        lambda rows: (
            np.tile(rows.mean(axis=0), 2),
            np.kron(np.eye(2), np.cov(rows.T, bias=True)),
        ),
    ),
]


@pytest.mark.parametrize(("fast", "plain"), MAPS, ids=["sum", "white sum", "posterior", "sketch", "fit"])
def test_leverages_agree_with_matrices(fast: Any, plain: Any) -> None:
    by_term = audit(fast, DATA, claim=(0.5, 1e-4))
    by_matrix = audit(plain or (lambda rows: fast(rows)), DATA, claim=(0.5, 1e-4))
    close(by_term.log_delta, by_matrix.log_delta)
    assert by_term.verdict == by_matrix.verdict
    assert [f.neighbour for f in by_term.findings] == [f.neighbour for f in by_matrix.findings]


@pytest.mark.parametrize("fast", [fast for fast, _ in MAPS], ids=["sum", "white sum", "posterior", "sketch", "fit"])
def test_maps_keep_to_the_array_api(fast: Any) -> None:
    """What runs on the strict namespace runs on a GPU's."""
    strict, plain = (fast.leave_one_out(rows)(5, 20) for rows in (array_api_strict.asarray(DATA), DATA))
    assert strict.batch_shape == (15,)
    for one, other in ((strict, plain), (strict.reversed(), plain.reversed())):
        close(np.asarray(one.log_delta(0.5)), other.log_delta(0.5))


def test_every_neighbour_is_evaluated_both_ways() -> None:
    model = LinearPosterior(regularization=1.0, noise_variance=1.0)
    found = audit(model, DATA, claim=(1.0, 1e-6), worst=3)
    mean, covariance = model(DATA)
    for row in range(len(DATA)):
        pair = GaussianPair(mean, covariance, *model(np.delete(DATA, row, axis=0)))
        np.testing.assert_allclose(
            np.exp(found.log_delta[row]), [pair.delta(1.0), pair.reversed().delta(1.0)], rtol=1e-8
        )
    worst = found.findings[0]
    assert worst.neighbour == int(np.argmax(found.delta))
    assert worst.lower <= worst.upper
    assert max(worst.delta_x_y, worst.delta_y_x) == pytest.approx(worst.lower, rel=1e-9)
    assert len(found.findings) == 3


def test_verdicts_turn_at_the_exact_delta() -> None:
    pairs = GaussianPair.mean_shift([0.3, 1.0, 0.7])
    enclosure = GaussianPair.mean_shift(1.0).enclose(1.0)
    assert audit(pairs, claim=(1.0, enclosure.upper)).verdict == "holds-on-these-neighbours"
    assert audit(pairs, claim=(1.0, enclosure.lower * (1 - 1e-6))).verdict == "refuted"
    # Overstepped by less than the rounding granted to the map: nobody is accused.
    assert audit(pairs, claim=(1.0, enclosure.lower * (1 - 1e-12))).verdict == "undecided"
    assert audit(pairs, claim=(1.0, enclosure.lower * (1 - 1e-12)), rounding=0.0).verdict == "refuted"


def test_more_borderline_neighbours_than_can_be_enclosed_are_undecided() -> None:
    many = GaussianPair.mean_shift(np.full(200, 0.5))
    claim = (1.0, float(GaussianPair.mean_shift(0.5).enclose(1.0).upper))
    assert audit(many, claim=claim).verdict == "undecided"
    assert audit(GaussianPair.mean_shift(np.full(20, 0.5)), claim=claim).verdict == "holds-on-these-neighbours"


def test_pure_claims_and_deltas_below_the_smallest_double() -> None:
    bounded = PrivacyLoss.from_terms([0.5], [1.0], [0.0])  # X narrower than Y: its loss is bounded by log(2)/2
    assert not audit(GaussianPair.mean_shift(1e-3), claim=(10.0, 1e-300)).refuted
    assert audit(GaussianPair.mean_shift(1e-3), claim=(10.0, 0.0)).refuted
    assert audit(bounded, claim=(0.4, 0.0)).refuted  # the other direction is unbounded


@settings(derandomize=True, deadline=None, max_examples=12)
@given(st.lists(st.floats(0.0, 3.0), min_size=1, max_size=6), st.floats(0.0, 3.0), st.floats(1e-9, 0.9))
def test_a_refutation_is_never_wrong(shifts: list[float], epsilon: float, delta: float) -> None:
    found = audit(GaussianPair.mean_shift(shifts), claim=(epsilon, delta))
    exact = max(float(GaussianPair.mean_shift(t).enclose(epsilon).upper) for t in shifts)
    assert found.refuted == (exact > delta * (1 + 1e-9)) or found.verdict == "undecided"


def test_given_neighbours_pairs_callables_and_several_losses() -> None:
    def release(rows: Any) -> tuple[float, float]:
        return float(np.sum(rows)), 4.0

    swapped = [np.where(np.arange(25) == row, 0.0, DATA[:, 0]) for row in range(25)]
    by_callable = audit(release, DATA[:, 0], claim=(1.0, 0.1), neighbours=lambda rows: swapped)
    by_pairs = audit(release, claim=(1.0, 0.1), neighbours=[(DATA[:, 0], other) for other in swapped])
    by_rows = audit(release, DATA[:, 0], claim=(1.0, 0.1))
    close(by_callable.log_delta, by_pairs.log_delta)
    close(by_callable.log_delta, by_rows.log_delta)
    several = [GaussianPair.mean_shift(1.0), GaussianPair.mean_shift([[0.1, 0.2], [2.0, 0.3]])]
    found = audit(several, claim=(1.0, 0.3))
    assert found.findings[0].neighbour == 3
    assert found.findings[0].lower == pytest.approx(float(several[1].delta(1.0)[1, 0]), rel=1e-12)


def test_the_outcome_is_private_and_written_on_request(tmp_path: Path) -> None:
    found = audit(GaussianSum(covariance=1.0), DATA, claim=(1.0, 0.1))
    assert "0.1" not in repr(found)
    record = json.loads(found.write(tmp_path / "audit.json").read_text(encoding="utf-8"))
    assert "do not share" in record["warning"]
    values = record["values"]
    assert values["verdict"] == "refuted"
    assert values["neighbours"] == 25
    assert values["above_the_claim"] == int(np.sum(found.delta > 0.1)) > 0
    share, delta = values["distribution"]["share_of_neighbours"], values["distribution"]["delta"]
    assert (share[0], share[-1]) == (0.0, 1.0)
    assert delta == sorted(delta, reverse=True)
    assert delta[0] == pytest.approx(float(np.max(found.delta)))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"claim": (1.0, -1e-3)}, "claim"),
        ({"claim": (math.nan, 1e-3)}, "claim"),
        ({"claim": 3}, "claim"),
        ({"claim": (1.0, 0.1), "worst": 0}, "worst"),
        ({"claim": (1.0, 0.1), "neighbours": "replace"}, "neighbours"),
        ({"claim": (1.0, 0.1), "neighbours": []}, "at least one"),
    ],
)
def test_bad_arguments_are_named(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(ParameterError, match=words):
        audit(lambda rows: (rows.sum(axis=0), np.eye(4)), DATA, **arguments)


def test_bad_maps_are_refused() -> None:
    with pytest.raises(ParameterError, match="data"):
        audit(GaussianSum(covariance=1.0), claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="return"):
        audit(lambda rows: rows.sum(), DATA, claim=(1.0, 0.1))
    with pytest.raises(NotPositiveDefiniteError):
        audit(lambda rows: (rows.sum(axis=0), np.zeros((4, 4))), DATA, claim=(1.0, 0.1))
    with pytest.raises(NotPositiveDefiniteError, match="covariance"):
        audit(GaussianSum(covariance=np.zeros((4, 4))), DATA, claim=(1.0, 0.1))
    with pytest.raises(NotPositiveDefiniteError, match="Gram"):
        audit(GaussianSketch(n_components=2), np.ones((5, 2)), claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="leverage 1"):
        audit(GaussianSketch(n_components=2), np.eye(4), claim=(1.0, 0.1))
    with pytest.raises(ShapeError, match="one record per row"):
        audit(GaussianSum(covariance=1.0), DATA[:, 0], claim=(1.0, 0.1))
    with pytest.raises(ParameterError, match="ridge"):
        GaussianSketch(n_components=2, ridge=-1.0)
    with pytest.raises(ParameterError, match="noise_variance"):
        LinearPosterior(regularization=1.0, noise_variance=0.0)


@pytest.mark.parametrize("data", [np.eye(3) + 1j, np.ma.array(np.eye(3), mask=np.eye(3))], ids=["complex", "masked"])
def test_only_real_numbers_are_audited(data: Any) -> None:
    """NumPy would drop imaginary parts, and masks with what lies under them: another table would be audited."""
    with pytest.raises(InputError):
        audit(GaussianSum(covariance=1.0), data, claim=(1.0, 0.1))
    with pytest.raises(InputError):
        audit(lambda _: (data[0], np.eye(3)), np.eye(3), claim=(1.0, 0.1))


def test_a_delta_far_below_all_doubles_is_settled_by_its_bound() -> None:
    """Equal rows far from the origin: one direction has a delta of e^-1e8, for which every precision was tried."""
    rows = np.tile([[108761.9, 9713.6, 118475.5]], (5, 1))
    found = audit(lambda data: (data.sum(axis=0), data.T @ data + 1e3 * np.eye(3)), rows, claim=(0.9, 3e-4), worst=1)
    assert found.refuted
    assert found.findings[0].delta_x_y > 0.01
    assert found.findings[0].delta_y_x == 0.0
