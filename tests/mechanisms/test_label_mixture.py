from __future__ import annotations

import math
import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from gaussveil.accounting import Ledger, verify
from gaussveil.errors import ParameterError, SchemaError, ShapeError
from gaussveil.mechanisms import MixtureModel, PrivateGaussianMixture, PrivateLabelMixture
from gaussveil.mechanisms.label_mixture.methods import (
    METHODS,
    SecretLabels,
    choose_method,
    from_both,
    from_clusters,
    from_response,
    split_epsilon,
)
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.intervals import adding_up_to
from gaussveil.postprocessing.label_search import _named_softly
from gaussveil.postprocessing.maximisation import moments
from gaussveil.postprocessing.public_features import nearest_clusters
from gaussveil.spectrum.profiles import DiscreteLaplace, RandomisedResponse
from gaussveil.statistics import as_source

from ..new_accounts import new_account

Float = NDArray[np.float64]
ABC = ("a", "b", "c")


def three_classes(count: int = 1500) -> tuple[Float, NDArray[np.str_]]:
    generator = np.random.default_rng(4)
    codes = generator.integers(3, size=count)
    rows = generator.normal(size=(count, 2)) + np.array([[0.0, 0.0], [6.0, 0.0], [0.0, 6.0]])[codes]
    return rows, np.array(["a", "b", "c"])[codes]


@pytest.mark.parametrize("method", METHODS)
def test_every_method_recovers_the_classes_and_is_certified(method: str) -> None:
    rows, labels = three_classes()
    made = PrivateLabelMixture(epsilon=2.0, delta=1e-5, classes=ABC, method=method, generator=SeededGenerator(1)).fit(
        rows, labels
    )
    fitted = MixtureModel.fitted(rows, np.searchsorted(["a", "b", "c"], labels), ("a", "b", "c"))
    assert made.model_.joint_divergence(fitted) < 0.1
    assert fitted.joint_divergence(made.model_) < 0.1
    secure = PrivateLabelMixture(epsilon=2.0, delta=1e-5, classes=ABC, method=method).fit(rows, labels)
    assert verify(secure.certificate_).private
    assert any("features are not protected" in line for line in secure.certificate_.assumptions)
    assert str(secure.certificate_.adjacency) == "one label is replaced by another"


def test_charges_name_the_exact_losses() -> None:
    rows, labels = three_classes(200)

    def part(method: str) -> tuple[object, int]:
        made = PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, method=method).fit(rows, labels)
        (only,) = made.certificate_.charge.parts
        return only.source, only.count

    response, once = part("response")
    assert isinstance(response, RandomisedResponse)
    assert (response.classes, response.largest_loss, once) == (3, 1.0, 1)
    table, twice = part("clusters")
    assert isinstance(table, DiscreteLaplace)
    assert twice == 2
    assert 2 * table.largest_loss <= 1.0 + 1e-12


@pytest.mark.parametrize("epsilon", [1e-3, 0.1, 0.3, 1.0, 4.0, 1 / 3 + 0.2, 30.0])
def test_table_and_answers_together_cost_no_more_than_epsilon(epsilon: float) -> None:
    for_table, for_answers = split_epsilon(epsilon)
    assert for_table > 0
    assert for_answers >= for_table
    assert Fraction(for_table) + Fraction(for_answers) <= Fraction(epsilon)
    rows, labels = three_classes(60)
    made = PrivateLabelMixture(epsilon=epsilon, delta=1e-5, classes=ABC, method="both").fit(rows, labels)
    charged = {type(part.source): part for part in made.certificate_.charge.parts}
    assert set(charged) == {DiscreteLaplace, RandomisedResponse}
    table, answers = charged[DiscreteLaplace], charged[RandomisedResponse]
    assert (table.count, answers.count) == (2, 1)
    assert isinstance(table.source, DiscreteLaplace)
    assert isinstance(answers.source, RandomisedResponse)
    assert 2 * table.source.largest_loss <= for_table * (1 + 1e-12)
    assert (answers.source.largest_loss, answers.source.classes) == (for_answers, 3)


def test_sums_pay_for_two_classes() -> None:
    """A label moves two classes: each pass has the noise of a mean shift smaller by sqrt(2)."""
    rows, labels = three_classes(200)
    made = PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, method="sums").fit(rows, labels)
    record = PrivateGaussianMixture(epsilon=1.0, delta=1e-5, radius=9.0).fit(rows, labels)
    energy = made.certificate_.charge.mean_shift_energy
    assert energy is not None
    assert math.sqrt(float(energy)) == pytest.approx(record.certificate_.parameters["mean_shift"], rel=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("exponent", [-200, 150])
def test_units_of_the_features_do_not_matter(method: str, exponent: int) -> None:
    """Farads or megawatts: the same noise gives the same classes in other units, to rounding."""
    rows, labels = three_classes(600)
    mechanism = {"epsilon": 2.0, "delta": 1e-5, "classes": ABC, "method": method}
    plain = PrivateLabelMixture(**mechanism, generator=SeededGenerator(1)).fit(rows, labels)
    moved = np.ldexp(rows, exponent) * [1.0, 1.0 if method == "sums" else 1024.0]
    made = PrivateLabelMixture(**mechanism, generator=SeededGenerator(1)).fit(moved, labels)
    scale = np.ldexp([1.0, 1.0 if method == "sums" else 1024.0], exponent)
    assert made.means_ / scale == pytest.approx(plain.means_, rel=1e-6)
    assert made.covariances_ / np.outer(scale, scale) == pytest.approx(plain.covariances_, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("size", [1e308, 1e-170])
def test_features_that_floats_cannot_square_are_refused_before_the_debit(
    method: str, size: float, tmp_path: Path
) -> None:
    rows, labels = three_classes(60)
    rows[:, 0] *= size / np.abs(rows[:, 0]).max()
    account = new_account(tmp_path, "one", epsilon=4.0, delta=1e-3)
    with pytest.raises(ParameterError, match="other units"):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, method=method, account=account).fit(rows, labels)
    assert not Ledger(account.ledger).entries("one")


def test_what_is_missing_or_means_nothing_is_refused() -> None:
    rows, labels = three_classes(60)
    with pytest.raises(ParameterError, match="y"):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC).fit(rows)
    for classes in (["a"], 3, ["a", "a"]):
        with pytest.raises(ParameterError, match="classes"):
            PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=classes).fit(rows, labels)  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match="method must be one of"):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, method="guess").fit(rows, labels)
    with pytest.raises(ParameterError, match="epsilon"):
        PrivateLabelMixture(epsilon=0.0, delta=1e-5, classes=ABC).fit(rows, labels)
    for parameter in ("adjacency", "method"):
        with pytest.raises(TypeError, match=parameter):
            PrivateGaussianMixture(epsilon=1.0, delta=1e-5, radius=1.0, **{parameter: "label"})  # type: ignore[arg-type]


def test_units_are_not_protected_by_hiding_labels() -> None:
    """Features of the same homes are used as they are: what is bounded by homes is refused, a unit no parameter."""
    rows, _ = three_classes(60)
    frame = pd.DataFrame({"x": rows[:, 0], "y": rows[:, 1], "home": np.arange(60) // 4, "kind": ["a", "b", "c"] * 20})
    mixture = PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, columns=["x", "y"])
    with pytest.raises(SchemaError, match="must not be bounded by a unit"):
        mixture.fit(as_source(frame, unit="home", rows_per_unit=2), "kind")
    with pytest.raises(TypeError, match="unit"):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC, unit="home")  # type: ignore[call-arg]
    assert any("not even to a household" in line for line in mixture.fit(frame, "kind").certificate_.assumptions)


@pytest.mark.parametrize("method", METHODS)
def test_a_missing_label_does_not_remove_public_features(method: str) -> None:
    """The seeded noise is the same; what a label that goes missing moves is no more than one that changes."""
    rows, labels = three_classes(300)
    rows[7] = [40.0, -40.0]

    def second_moments(label: object) -> Float:
        changed = labels.astype(object)
        changed[7] = label
        made = PrivateLabelMixture(
            epsilon=4.0, delta=1e-5, classes=ABC, method=method, generator=SeededGenerator(3)
        ).fit(rows, changed)
        second = made.covariances_ + made.means_[:, :, None] * made.means_[:, None, :]
        return np.asarray(np.tensordot(made.weights_, second, 1))

    missing = [second_moments(None), second_moments("unheard of")]
    assert np.array_equal(*missing)
    features = rows.T @ rows / 300
    if method == "sums":
        other = second_moments("b")
        assert np.abs(missing[0] - other).max() < 0.5
    else:  # all features, whatever the labels
        assert missing[0] == pytest.approx(features, rel=0.02)


def test_refusals_do_not_depend_on_labels() -> None:
    """Six records with features are enough for three classes, whoever has a label; five are too few."""
    rows, labels = three_classes(6)
    nobody = np.full(6, None, dtype=object)
    odd = labels.astype(object)
    odd[2] = 7
    for told in (labels, nobody, np.array(["a"] * 6), odd):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC).fit(rows, told)
    with pytest.raises(ShapeError, match="at least 6 records"):
        PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC).fit(rows[:5], labels[:5])


def test_tables_are_projected_on_the_known_sizes() -> None:
    noisy = np.array([[10.0, -3.0], [2.0, 8.0], [-1.0, 1.0]])
    table = adding_up_to(noisy.T, np.array([9, 6])).T
    assert (table >= 0).all()
    assert table.sum(axis=0) == pytest.approx([9, 6])
    assert table[:, 0] == pytest.approx([8.5, 0.5, 0.0])


def test_the_rule_looks_at_sizes_and_promises_alone() -> None:
    """Features moved about leave the method as it is; more records or a larger epsilon change it."""
    rows, labels = three_classes(300)
    methods = set()
    for spread in (0.0, 1.0, 1e3):
        made = PrivateLabelMixture(epsilon=1.0, delta=1e-5, classes=ABC).fit(rows * [1.0, spread], labels)
        methods.add(made.certificate_.parameters["method"])
    assert len(methods) == 1
    assert choose_method(1000, 5, 3, 1.0, 0.27) == "both"
    assert choose_method(1000, 5, 3, 2.0, 0.5) == "response"
    assert choose_method(1400, 6, 12, 1.0, 0.27) == "clusters"
    assert choose_method(1400, 6, 12, 4.0, 1.0) == "response"
    assert choose_method(10**6, 5, 3, 1.0, 0.27) == "sums"
    assert choose_method(10**6, 5, 3, 1.0, 1e-6) != "sums"


@pytest.mark.parametrize(("release", "epsilon"), [(from_response, 1.0), (from_clusters, 0.5), (from_both, 0.5)])
def test_no_start_strands_em_in_a_wrong_maximum(release: Any, epsilon: float, full: bool) -> None:
    """Classes far apart: whatever the noise, each is found where it is (seeded, so for good)."""
    generator = np.random.default_rng(8)
    places = np.array([[0.0, 0.0], [9.0, 0.0], [0.0, 9.0], [9.0, 9.0]])
    codes = np.repeat(np.arange(4), [400, 300, 200, 100])
    rows = places[codes] + generator.normal(size=(1000, 2))
    for seed in range(5 if full else 3):
        weights, means, _ = release(rows, SecretLabels(codes, 4, SeededGenerator(seed)), epsilon)
        assert np.abs(means - places).max() < 1.0
        assert np.abs(weights - [0.4, 0.3, 0.2, 0.1]).max() < 0.05


def test_overlapping_classes_of_uneven_size_are_found_under_their_names() -> None:
    """Two classes that share a cluster and a small one: labels alone strand EM, the table names the components."""
    generator = np.random.default_rng(3)
    codes = np.repeat(np.arange(4), [450, 300, 200, 50])
    places = np.array([[0.0, 0.0], [3.0, 0.0], [9.0, 9.0], [-9.0, 9.0]])
    rows = places[codes] + generator.normal(size=(1000, 2))
    fitted = MixtureModel.fitted(rows, codes, range(4))
    for seed in range(4):
        released = from_both(rows, SecretLabels(codes, 4, SeededGenerator(seed)), 0.5)
        model = MixtureModel(*released, fitted.classes, fitted.columns)
        assert model.joint_divergence(fitted) < 0.1
        assert fitted.joint_divergence(model) < 0.1


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("table", ["units", "constant", "collinear", "few values"])
def test_awkward_features_are_released_all_the_same(method: str, table: str, tmp_path: Path) -> None:
    """A refusal after the draw would cost the budget and depend on the labels."""
    generator = np.random.default_rng(8)
    rows = generator.normal(size=(60, 5))
    if table == "units":
        rows *= 10.0 ** np.array([-6, -2, 0, 3, 6])
    elif table == "constant":
        rows[:, [1, 3]] = [0.3, -7.0]
    elif table == "collinear":
        rows[:, 1], rows[:, 4] = rows[:, 0] * 1e3, rows[:, 2] + rows[:, 3]
    else:
        rows = np.round(rows[:, :1] * 0.7)
    labels = generator.integers(5, size=60)
    account = new_account(tmp_path, "one", epsilon=4.0, delta=1e-3)
    mechanism = {"epsilon": 0.1, "delta": 1e-6, "method": method, "classes": range(5)}
    made = PrivateLabelMixture(**mechanism, account=account).fit(rows, labels)
    assert np.isfinite(made.predict_proba(rows)).all()
    assert [entry.state for entry in Ledger(account.ledger).entries("one")] == ["released"]


def test_components_without_records_have_no_name() -> None:
    parts = np.eye(4)[np.zeros(20, dtype=np.int64)]
    names = _named_softly(parts, np.log(np.full((20, 2), 0.5)))
    assert np.isfinite(names).all()
    assert names[0] == pytest.approx([0.5, 0.5])


def test_a_constant_column_does_not_decide_the_cells() -> None:
    rows = np.stack([np.repeat([0.1, 0.2], 20), np.full(40, 0.75)], axis=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # of scikit-learn too: squares overflowed
        cells = nearest_clusters(rows, 2)
    assert cells.tolist() in ([0] * 20 + [1] * 20, [1] * 20 + [0] * 20)


@pytest.mark.parametrize("rank", [1, 3])
def test_moments_of_many_records_in_dependent_columns_have_factors(rank: int) -> None:
    for seed in range(20):
        generator = np.random.default_rng(seed)
        rows = generator.normal(size=(2500, rank)) @ generator.normal(size=(rank, 8))
        shares = generator.dirichlet(np.ones(3), size=2500)
        covariances = moments(rows, shares, 1e-3)[2]
        assert np.isfinite(np.linalg.cholesky(covariances)).all()
        plain = np.cov(rows.T, bias=True, aweights=shares[:, 0])
        assert covariances[0] == pytest.approx(plain, rel=1e-5, abs=1e-5 * np.abs(plain).max())
