"""Class-label noise as a mechanism: what is certified is what is drawn, both questions, refusals, whole clusters."""

from __future__ import annotations

import copy
import math
import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from numpy.typing import NDArray

from gaussveil.accounting import Ledger, verify
from gaussveil.accounting.certificates.values import digest_of
from gaussveil.errors import AssumptionError, GaussveilError, LedgerStateError, ParameterError, ShapeError
from gaussveil.mechanisms import ClassLabelNoise
from gaussveil.noise import SeededGenerator
from gaussveil.spectrum import GaussianPair

Array = NDArray[np.float64]

HOMES = np.array([[0.0, 0.2], [1.1, 0.4], [0.5, 1.3]])
NAMES = ("north", "east", "south")
SPREADS = np.array([[[1.0, 0.2], [0.2, 0.5]], [[0.6, 0.0], [0.0, 0.9]], [[0.8, -0.3], [-0.3, 0.7]]])


@pytest.fixture(scope="module")
def constant() -> ClassLabelNoise:
    return ClassLabelNoise(epsilon=1.0, accuracy=0.2).design(HOMES, labels=NAMES)


@pytest.fixture(scope="module")
def random() -> ClassLabelNoise:
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.4, noise_means=False, common_covariance=True)
    return mechanism.design(HOMES, SPREADS)


def worst(mechanism: ClassLabelNoise) -> float:
    """Worst delta from the laws themselves: centres and covariances per label, edge by edge."""
    plan = mechanism.plan_
    drawn = np.stack([np.asarray(noise.continuous_covariance) for noise in plan.noises]) + plan.models.covariances
    return max(
        float(GaussianPair(plan.centres[i], drawn[i], plan.centres[j], drawn[j]).delta(plan.epsilon))
        for i in range(3)
        for j in range(3)
        if i != j
    )


def test_the_certificate_is_the_exact_worst_delta_of_what_is_drawn(constant: ClassLabelNoise) -> None:
    certificate = constant.release("east").certificate
    assert certificate.delta == constant.worst_delta_
    assert constant.worst_delta_ == pytest.approx(worst(constant), rel=1e-9)
    assert certificate.delta_upper <= certificate.delta
    assert verify(certificate).private
    assert str(certificate.guarantee) == "worst case"
    assert certificate.adjacency.edge_count == 6
    assert certificate.parameters["accuracy"] == constant.accuracy_ <= 0.2
    assert constant.design_.candidates["white"] > constant.worst_delta_
    spent = np.trace(constant.noise_covariances_, axis1=1, axis2=2) + np.sum(constant.noise_means_**2, axis=1)
    assert constant.accuracy_ == pytest.approx(float(np.max(spent)) / 2, rel=1e-12)


def test_one_covariance_needs_one_term_per_edge() -> None:
    """The certificate keeps the squared distance of every edge, and still verifies to the same delta."""
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.2, common_covariance=True).design(HOMES, labels=NAMES)
    plan = mechanism.plan_
    assert plan.loss.energy.shape == (6, 1)
    assert plan.pairs.energy.shape == (6, 2)
    drawn = np.asarray(plan.noises[0].continuous_covariance)
    gaps = plan.centres[plan.edges[:, 0]] - plan.centres[plan.edges[:, 1]]
    squares = np.einsum("ei,ij,ej->e", gaps, np.linalg.inv(drawn), gaps)
    np.testing.assert_allclose(plan.loss.energy[:, 0], squares, rtol=1e-9)
    assert np.all(plan.loss.energy[:, 0] >= plan.pairs.energy.sum(axis=-1))
    certificate = mechanism.release("north").certificate
    assert verify(certificate).private
    assert certificate.delta_upper == pytest.approx(worst(mechanism), rel=1e-9)


def test_nothing_betrays_the_label(constant: ClassLabelNoise) -> None:
    bodies = []
    for label in NAMES:
        release = constant.release(label)
        body = release.certificate.body()
        body.pop("release")
        published = digest_of(release.value)
        assert published is not None
        assert body.pop("values") == published.to_dict()  # and so nothing but what everybody sees
        bodies.append(body)
    assert bodies[0] == bodies[1] == bodies[2]
    first, *others = constant.plan_.noises
    for noise in others:
        assert (noise.grid, noise.shape, noise.total_variation) == (first.grid, first.shape, first.total_variation)
        assert noise.white.variance == first.white.variance

    # noise covariances differ, yet the same number of random words is drawn for every label
    class Counting(SeededGenerator):
        drawn = 0

        def uint64(self, count: int) -> NDArray[np.uint64]:
            self.drawn += count
            return super().uint64(count)

    counts = []
    for position in range(3):
        generator = Counting(1)
        constant.plan_.draw(position, HOMES[position], generator)
        counts.append(generator.drawn)
    assert len(set(counts)) == 1


def test_outputs_lie_on_the_grid_and_have_the_declared_mean(constant: ClassLabelNoise) -> None:
    plan = constant.plan_
    generator = SeededGenerator(5)
    rows = np.stack([plan.draw(1, HOMES[1], generator) for _ in range(4000)])
    assert np.array_equal(rows / plan.grid, np.rint(rows / plan.grid))
    deviation = np.sqrt(np.diagonal(constant.noise_covariances_[1]) / len(rows))
    assert np.all(np.abs(rows.mean(axis=0) - plan.centres[1]) < 6 * deviation)
    np.testing.assert_allclose(plan.centres - HOMES, constant.noise_means_, atol=1e-15)


def test_retained_variance_unmasks_a_released_centre() -> None:
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.3).design(HOMES)
    assert mechanism.design_.kind == "centre"
    assert mechanism.retained_variance_ < 1e-12
    assert mechanism.worst_delta_ < 1e-30
    values = [mechanism.release(label).value for label in range(3)]
    assert np.max(np.abs(values[0] - values[2])) < 0.01


def test_random_queries_rest_on_their_model(random: ClassLabelNoise) -> None:
    release = random.release(2, [0.4, 1.5], draw="2026-11-18")
    certificate = release.certificate
    assert isinstance(release.value, list)
    assert certificate.guarantee.kind == "model-based"
    assert any("assumed public" in line for line in certificate.assumptions)
    assert verify(certificate).private
    # rounding a random query is charged
    assert 1e-14 < certificate.charge.sampler_error < 1e-9
    assert random.worst_delta_ == pytest.approx(worst(random), rel=1e-6)
    assert random.retained_variance_ == 1.0
    with pytest.raises(ParameterError, match="query must be given"):
        random.release(2)


def test_an_account_pays_for_a_random_query_once(tmp_path: Path, random: ClassLabelNoise) -> None:
    """Releases of one query share its randomness; composed as independent, five of them passed for delta 0.085
    where together they have 0.220."""
    ledger = Ledger.create(tmp_path / "spent.ledger")
    mechanism = copy.deepcopy(random)
    mechanism.account = ledger.open_account("home", epsilon=10.0, delta=0.9)
    label, query = mechanism.plan_.labels[0], mechanism.plan_.models.means[0] + 0.1
    mechanism.release(label, query, draw="monday")
    spent = ledger.statement("home").spent_delta
    for again in (mechanism, copy.deepcopy(mechanism), pickle.loads(pickle.dumps(mechanism))):
        with pytest.raises(LedgerStateError, match="draw"):
            again.release(label, query.tolist(), draw="tuesday")
    assert ledger.statement("home").spent_delta == spent
    mechanism.release(label, query + 0.1, draw="wednesday")
    assert ledger.statement("home").spent_delta > spent


def test_public_models_are_not_called_assumed() -> None:
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.2, public_models=True, common_covariance=True).design(HOMES)
    assert not any("assumed" in line for line in mechanism.release(0).certificate.assumptions)


def test_the_other_question() -> None:
    mechanism = ClassLabelNoise(epsilon=1.0, delta=0.05, noise_means=False, common_covariance=True).design(HOMES)
    certificate = mechanism.release(0).certificate
    assert certificate.delta == 0.05
    assert 0.0495 < certificate.delta_upper <= mechanism.worst_delta_ <= 0.05


def test_probabilistic_dp_is_two_sided() -> None:
    # K1: N(0, 4) against N(0, 1) at epsilon 0.5: one-sided 0.372 and 0.527, two-sided 0.653 under X
    mechanism = ClassLabelNoise(epsilon=0.5, accuracy=1e-9, noise_means=False, common_covariance=True)
    mechanism.design(np.zeros((2, 1)), [[[4.0]], [[1.0]]])
    assert mechanism.plan_.pdp_delta() == pytest.approx(max(0.653, 0.527 + 0.026), abs=2e-3)
    even = mechanism.plan_.pdp_delta([0.5, 0.5])
    assert even == pytest.approx(mechanism.plan_.pdp_delta(), rel=1e-12)


def test_a_figure_that_is_merely_told_stops_no_release() -> None:
    """Centres a rounding apart, as another processor finds them: the tail was no number, and nothing was released."""
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=1.0, noise_means=False, common_covariance=True)
    mechanism.design([[0.0], [1.0]], np.ones((2, 1, 1)))
    plan = mechanism.plan_
    for apart, told in ((1e-9, 0.0), (1e-80, None)):
        models = replace(plan.models, means=np.array([[0.0], [apart]]))
        near = replace(plan, models=models, shifts=np.zeros((2, 1)))
        mechanism.plan_ = near
        assert near.pdp_delta_told == told
        assert mechanism.release(0, [0.0]).certificate.parameters["pdp_delta"] == told


def test_priors_shift_the_threshold() -> None:
    # equal covariances: L ~ N(t^2/2, t^2), so Remark 1 has a closed form
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=1.0, noise_means=False, common_covariance=True)
    mechanism.design([[0.0], [1.0]])
    shift = 1 / math.sqrt(float(np.asarray(mechanism.plan_.noises[0].continuous_covariance)[0, 0]))

    def posterior(prior: float, other: float) -> float:
        lean = math.log(prior / other)
        above, below = (1.0 - lean - shift**2 / 2) / shift, (-1.0 - lean - shift**2 / 2) / shift
        return 0.5 * math.erfc(above / math.sqrt(2)) + 0.5 * math.erfc(-below / math.sqrt(2))

    expected = max(posterior(0.8, 0.2), posterior(0.2, 0.8))
    assert mechanism.plan_.pdp_delta([0.8, 0.2]) == pytest.approx(expected, rel=1e-6)
    for wrong in ([0.5, 0.6], [1.0], [1.0, 0.0]):
        with pytest.raises(ParameterError, match="priors"):
            mechanism.plan_.pdp_delta(wrong)


def test_all_labels_at_once_are_hidden_as_swaps() -> None:
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.2, swap=True, common_covariance=True).design(
        HOMES, labels=NAMES
    )
    release = mechanism.release_all(("south", "north", "east"))
    assert release.value.shape == (3, 2)
    assert verify(release.certificate).private
    plan = mechanism.plan_
    alone = ClassLabelNoise(epsilon=1.0, accuracy=0.2, common_covariance=True).design(HOMES)
    assert mechanism.worst_delta_ > alone.worst_delta_
    first, second = np.asarray(plan.noises[0].continuous_covariance), plan.centres
    pair = GaussianPair(second[0], first, second[1], first)
    edge = plan.edges.tolist().index([0, 1])
    both = plan.loss.delta(1.0)[edge]
    joined = GaussianPair(
        np.concatenate([second[0], second[1]]),
        np.kron(np.eye(2), first),
        np.concatenate([second[1], second[0]]),
        np.kron(np.eye(2), first),
    )
    assert both == pytest.approx(float(joined.delta(1.0)), rel=1e-9)
    assert both > float(pair.delta(1.0))
    with pytest.raises(ParameterError, match="swap"):
        mechanism.release("south")
    with pytest.raises(ParameterError, match="each of the 3 labels"):
        mechanism.release_all(("south", "south", "east"))


def test_account_is_debited_and_windows_compose(tmp_path: Path, constant: ClassLabelNoise) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("homes", epsilon=4.0, delta=0.9)
    mechanism = ClassLabelNoise(epsilon=1.0, accuracy=0.2, account=account, common_covariance=True).design(HOMES)
    mechanism.release(0)
    mechanism.release(1)
    assert [entry.state for entry in Ledger(account.ledger).entries("homes")] == ["released", "released"]


def test_a_designed_mechanism_can_be_pickled(constant: ClassLabelNoise) -> None:
    copied = pickle.loads(pickle.dumps(constant))
    assert copied.worst_delta_ == constant.worst_delta_
    assert verify(copied.release("south").certificate).private


def test_refusals_come_before_the_debit_and_name_no_label(tmp_path: Path, constant: ClassLabelNoise) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("homes", epsilon=4.0, delta=0.9)
    constant.account = account
    try:
        refused: list[tuple[Any, Any, type[GaussveilError]]] = [
            ("west", None, ParameterError),
            ("east", [1.0], ShapeError),
            ("east", [9.0, 9.0], AssumptionError),
            ("east", ["a", "b"], ParameterError),
            ("east", np.array(["a", "b"]), ParameterError),
            ("east", [np.nan, 0.4], AssumptionError),
        ]
        for label, query, error in refused:
            with pytest.raises(error) as caught:
                constant.release(label, query)
            assert "west" not in str(caught.value)
            assert "east" not in str(caught.value)
        assert Ledger(account.ledger).entries("homes") == []
    finally:
        constant.account = None


def test_a_design_is_needed_and_checked() -> None:
    with pytest.raises(ParameterError, match="call design"):
        ClassLabelNoise(epsilon=1.0, accuracy=1.0).release(0)
    with pytest.raises(ParameterError, match="exactly one of accuracy and delta"):
        ClassLabelNoise(epsilon=1.0).design(HOMES)
    with pytest.raises(ParameterError, match="epsilon"):
        ClassLabelNoise(epsilon=-1.0, accuracy=1.0).design(HOMES)
    with pytest.raises(ParameterError, match="3 names"):
        ClassLabelNoise(epsilon=1.0, accuracy=1.0).design(HOMES, labels=("a", "b"))
    with pytest.raises(ParameterError, match="graph must be"):
        ClassLabelNoise(epsilon=1.0, accuracy=1.0, graph="ring").design(HOMES)


def test_progress_is_shown_on_standard_error(capsys: pytest.CaptureFixture[str]) -> None:
    ClassLabelNoise(epsilon=1.0, accuracy=0.2, common_covariance=True, progress=True).design(HOMES)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "class-label noise" in captured.err


def test_a_series_comes_back_without_the_name_of_its_label(constant: ClassLabelNoise) -> None:
    frame = pd.DataFrame(HOMES, index=list(NAMES), columns=["morning", "evening"])
    row = constant.release("east", frame.loc["east"]).value
    column = constant.release("east", frame.T["east"]).value
    assert row.name is None
    assert column.name is None
    assert list(row.index) == ["morning", "evening"]
    assert constant.release("east", pl.Series("east", HOMES[1])).value.name == ""
    assert frame.loc["east"].name == "east"  # the caller's stays as it is


@pytest.mark.parametrize(("unit", "spread"), [(2.0**-100, 0.0), (2.0**40, 0.1)])
def test_units_of_the_queries_do_not_matter(unit: float, spread: float) -> None:
    """Megawatts or watts: the same design, without a search that loses its way or never ends."""
    means = np.array([[0.2, 0.4], [0.9, 0.7], [0.4, 1.1]])
    covariances = np.stack([spread * np.diag([1.0, 2.0]), spread * np.diag([2.0, 1.0]), spread * np.eye(2)])
    plain = ClassLabelNoise(epsilon=1.0, accuracy=0.1).design(means, covariances)
    moved = ClassLabelNoise(epsilon=1.0, accuracy=0.1 * unit**2).design(unit * means, unit**2 * covariances)
    assert moved.worst_delta_ == pytest.approx(plain.worst_delta_, rel=1e-2)
    assert moved.accuracy_ / unit**2 <= 0.1


def test_small_units_leave_the_other_question_an_answer() -> None:
    """In steps of 2^-10 the search for the least error never ended."""
    means = np.array([[0.2, 0.4], [0.9, 0.7], [0.4, 1.1]])
    plain, moved = (ClassLabelNoise(epsilon=1.0, delta=0.05).design(unit * means) for unit in (1.0, 2.0**-10))
    assert moved.accuracy_ * 2.0**20 == pytest.approx(plain.accuracy_, rel=1e-2)
