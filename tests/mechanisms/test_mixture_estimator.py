"""The mixture as a scikit-learn estimator; clusters without labels; households."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.utils.estimator_checks import check_estimator

from gaussveil.accounting import PrivateDiagnostics, verify
from gaussveil.errors import FormatError, GaussveilError, ParameterError
from gaussveil.mechanisms import MixtureModel, PrivateGaussianMixture
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing import mixture_file

EXEMPT = {
    "check_fit_idempotent": "every fit draws fresh noise",
    "check_estimators_overwrite_params": "a seeded generator moves on as it is used",
    "check_supervised_y_2d": "the second fit draws fresh noise",
    "check_classifier_data_not_an_array": "the second fit draws fresh noise",
    "check_dtype_object": "bad input raises our InputError, a ValueError, never a TypeError",
}


def test_check_estimator() -> None:
    estimator = PrivateGaussianMixture(epsilon=20.0, delta=1e-3, radius=20.0, generator=SeededGenerator(0))
    results = check_estimator(estimator, on_fail=None)
    failed = {result["check_name"] for result in results if result["status"] == "failed"}
    assert failed <= set(EXEMPT), failed - set(EXEMPT)
    assert len(results) > 40


def test_missing_columns_are_left_out_of_predictions() -> None:
    """The density of what is known: that of the same mixture without the missing columns; a copy gives the same."""
    weights, means = np.array([0.25, 0.75]), np.array([[0.0, 1.0, 2.0], [3.0, -1.0, 0.0]])
    roots = np.random.default_rng(2).normal(size=(2, 3, 3))
    covariances = roots @ np.swapaxes(roots, 1, 2) + np.eye(3)
    whole = MixtureModel(weights, means, covariances, (0, 1), ("a", "b", "c"))
    rows = np.array([[0.5, np.nan, 1.0], [np.nan, np.nan, np.nan], [1.0, 2.0, 3.0], [2.0, np.nan, -1.0]])
    kept = [0, 2]
    part = MixtureModel(weights, means[:, kept], covariances[:, kept][:, :, kept], (0, 1), ("a", "c"))
    found = pickle.loads(pickle.dumps(whole)).log_joint(rows)
    assert found[[0, 3]] == pytest.approx(part.log_joint(rows[[0, 3]][:, kept]))
    assert found[1] == pytest.approx(np.log(weights))
    assert found[2] == pytest.approx(whole.log_joint(rows[2:3])[0])


def test_clusters_are_found_inside_the_budget() -> None:
    generator = np.random.default_rng(0)
    places = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    rows = generator.normal(size=(3000, 2)) + places[generator.integers(3, size=3000)]
    made = PrivateGaussianMixture(epsilon=2.0, delta=1e-5, radius=14.0, classes=3, generator=SeededGenerator(2)).fit(
        rows
    )
    distances = np.linalg.norm(made.means_[:, None] - places, axis=2)
    assert sorted(np.argmin(distances, axis=1)) == [0, 1, 2]
    assert distances.min(axis=1).max() < 1.0
    assert any("inside the budget" in line for line in made.certificate_.assumptions)
    assert verify(
        PrivateGaussianMixture(epsilon=1.0, delta=1e-5, radius=14.0, classes=3).fit(rows).certificate_
    ).private


def test_a_household_is_protected_whole() -> None:
    generator = np.random.default_rng(1)
    homes = np.repeat(np.arange(500), 4)
    frame = pd.DataFrame({"a": generator.normal(size=2000), "b": generator.normal(size=2000), "home": homes})
    frame["kind"] = np.where(homes % 2, "flat", "house")
    made = PrivateGaussianMixture(
        epsilon=1.0,
        delta=1e-5,
        radius=4.0,
        classes=["flat", "house"],
        unit="home",
        rows_per_unit=2,
        nominal_size=1000,
    ).fit(frame, "kind")
    certificate = made.certificate_
    assert certificate.adjacency.unit == "home"
    assert made.model_.columns == ("a", "b")
    assert any("at most 2 rows of each home" in line for line in certificate.assumptions)
    single = PrivateGaussianMixture(
        epsilon=1.0, delta=1e-5, radius=4.0, classes=["flat", "house"], nominal_size=1000, columns=["a", "b"]
    ).fit(frame, "kind")
    assert certificate.parameters["mean_shift"] == single.certificate_.parameters["mean_shift"]
    ours, theirs = (one.parameters["noise"]["distance histogram"] for one in (certificate, single.certificate_))  # type: ignore[index]
    assert ours == pytest.approx(2 * theirs, rel=1e-3)


@pytest.mark.parametrize("kind", ["objects", "list", "pandas", "string", "category", "numbers", "truths"])
def test_one_missing_label_is_left_out_and_refuses_nothing(kind: str) -> None:
    """A refusal would tell that the record is there."""
    generator = np.random.default_rng(1)
    codes = generator.integers(2, size=300)
    rows = generator.normal(size=(300, 2)) + 4.0 * codes[:, None]
    plain = {"numbers": [3, 8], "truths": [False, True]}.get(kind, ["a", "b"])
    words: list[Any] = [plain[code] for code in codes]
    words[17] = None
    labels = {
        "pandas": lambda: pd.Series(words, dtype=object),
        "string": lambda: pd.Series(words, dtype="string"),
        "category": lambda: pd.Series(words, dtype="category"),
        "list": lambda: words,
    }.get(kind, lambda: np.array(words, dtype=object))()
    for classes in (plain, None):
        made = PrivateGaussianMixture(
            epsilon=8.0, delta=1e-5, radius=9.0, classes=classes, generator=SeededGenerator(1)
        ).fit(rows, labels)
        assert made.classes_.tolist() == plain
        assert np.mean(made.predict(rows) == np.array(plain)[codes]) > 0.9
    with_gap = rows.astype(object)
    with_gap[5, 1] = None
    PrivateGaussianMixture(epsilon=8.0, delta=1e-5, radius=9.0, classes=plain).fit(with_gap, labels)


@pytest.mark.parametrize("odd", [10**400, "seven", {}, None], ids=["huge", "text", "object", "none"])
def test_one_cell_or_label_that_is_no_number_refuses_nothing(odd: Any) -> None:
    rows: list[list[Any]] = np.random.default_rng(1).normal(size=(60, 2)).tolist()
    codes: list[Any] = [0, 1] * 30
    for X, y in (([[odd, 1.0], *rows[1:]], codes), (rows, np.array([odd, *codes[1:]], dtype=object))):
        PrivateGaussianMixture(epsilon=8.0, delta=1e-5, radius=9.0, classes=[0, 1]).fit(X, y)


def test_samples_match_the_model_and_predictions_its_densities() -> None:
    generator = np.random.default_rng(3)
    codes = generator.integers(2, size=2000)
    rows = generator.normal(size=(2000, 3)) + 3.0 * codes[:, None]
    made = PrivateGaussianMixture(epsilon=2.0, delta=1e-5, radius=9.0, generator=SeededGenerator(3)).fit(rows, codes)
    drawn, labels = made.sample(40_000, random_state=0)
    for k in (0, 1):
        part = drawn[labels == k]
        assert len(part) / 40_000 == pytest.approx(made.weights_[k], abs=0.015)
        assert part.mean(axis=0) == pytest.approx(made.means_[k], abs=0.06)
        assert np.cov(part.T) == pytest.approx(made.covariances_[k], abs=0.12)
    assert made.predict_proba(rows).sum(axis=1) == pytest.approx(np.ones(2000))
    assert np.array_equal(made.predict(rows), np.argmax(made.predict_proba(rows), axis=1))
    assert made.score(rows, codes) > 0.95
    # an independent density: the definition, summed in plain probabilities
    inverse = np.linalg.inv(made.covariances_)
    gaps = rows[:50, None] - made.means_
    norms = np.sqrt((2 * np.pi) ** 3 * np.linalg.det(made.covariances_))
    plain = np.sum(made.weights_ * np.exp(-np.einsum("nki,kij,nkj->nk", gaps, inverse, gaps) / 2) / norms, axis=1)
    assert made.score_samples(rows[:50]) == pytest.approx(np.log(plain))


def model_file() -> dict[str, Any]:
    one = MixtureModel(np.array([0.25, 0.75]), np.zeros((2, 2)), np.stack([np.eye(2)] * 2), ("a", "b"), ("x", "y"))
    return dict(one.to_dict())


@pytest.mark.parametrize(
    "body",
    [
        "",
        "[]",
        "{}",
        '{"format": "gaussveil mixture", "version": 99}',
        '{"format": "gaussveil mixture", "version": 1}',
        "[" * 100_000,
        '{"format": ' + "9" * 10_000 + "}",
        '{"format": 1, "format": 2}',
        "NaN",
        "\x00",
    ],
    ids=lambda body: body[:40],
)
def test_damaged_model_files_are_refused(body: str, tmp_path: Path) -> None:
    (tmp_path / "model.json").write_text(body, encoding="utf-8")
    with pytest.raises(FormatError):
        MixtureModel.read(tmp_path / "model.json")


@pytest.mark.parametrize(
    "change",
    [
        {"weights": [0.25, 1e400]},
        {"weights": ["0.25", "0.75"]},
        {"weights": [True, False]},
        {"weights": {"a": 1}},
        {"weights": [0.5, 10**400]},
        {"means": [[0.0, 0.0], [0.0]]},
        {"means": [[None, 0.0], [0.0, 0.0]]},
        {"covariances": [[[1.0, 0.0], [0.0, -1.0]]] * 2},
        {"covariances": [[[1.0, 0.9], [0.0, 1.0]]] * 2},
        {"classes": ["a", "a"]},
        {"classes": [["a"], "b"]},
        {"classes": "ab"},
        {"columns": [1, 2]},
        {"columns": ["x", "x"]},
        {"certificate": {"format": "other"}},
        {"certificate": []},
        {"version": True},
        {"extra": 0},
        {"classes": [], "columns": [], "weights": [], "means": [], "covariances": []},
    ],
    ids=str,
)
def test_model_files_with_a_wrong_field_are_refused(change: dict[str, Any]) -> None:
    assert MixtureModel.from_json(json.dumps(model_file())).classes == ("a", "b")
    with pytest.raises(FormatError):
        MixtureModel.from_json(json.dumps({**model_file(), **change}))


def test_a_model_file_that_is_too_large_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text(json.dumps(model_file()), encoding="utf-8")
    monkeypatch.setattr(mixture_file, "LARGEST_FILE", 100)
    with pytest.raises(FormatError, match="at most"):
        MixtureModel.read(path)


def test_divergences_agree_with_each_other() -> None:
    one = MixtureModel(np.array([1.0]), np.zeros((1, 2)), np.eye(2)[None], (0,), ("a", "b"))
    other = MixtureModel(np.array([1.0]), np.ones((1, 2)), 2 * np.eye(2)[None], (0,), ("a", "b"))
    exact = one.joint_divergence(other)
    assert exact == pytest.approx((1 + 1 - 2 + 2 * np.log(2)) / 2)
    estimate, error = one.divergence(other, 20_000)
    assert abs(estimate - exact) < 5 * error
    with pytest.raises(GaussveilError):
        MixtureModel(np.array([0.5]), np.zeros((1, 2)), np.eye(2)[None], (0,), ("a", "b"))


def test_diagnostics_are_private_and_agree_with_the_definitions(tmp_path: Path) -> None:
    generator = np.random.default_rng(6)
    codes = generator.integers(2, size=1500)
    frame = pd.DataFrame(generator.normal(size=(1500, 2)) + 3.0 * codes[:, None], columns=["a", "b"])
    made = PrivateGaussianMixture(epsilon=2.0, delta=1e-5, radius=9.0, generator=SeededGenerator(7)).fit(frame, codes)
    told = made.diagnose(frame, codes, held_out=frame[:100])
    assert isinstance(told, PrivateDiagnostics)
    fitted = MixtureModel.fitted(frame.to_numpy(), codes, (0, 1))
    assert told["released_fitted"] == pytest.approx(made.model_.joint_divergence(fitted))
    assert told["held_out_log_likelihood"] == pytest.approx(made.score(frame[:100]))
    assert "do not share" in told.write(tmp_path / "mine.json").read_text(encoding="utf-8")
    tiny = made.diagnose(frame[:3], codes[:3])
    assert tiny["released_fitted"] == float("inf")


def test_rules_choose_classes_and_rows_from_public_numbers_alone() -> None:
    """Few homes in many correlated columns: one class, found far better than six by a noisy fit of each."""
    generator = np.random.default_rng(5)
    homes = np.repeat(np.arange(400), 3)
    levels = generator.normal(size=(400, 1))[homes] * 2.5
    rows = levels + generator.normal(size=(1200, 12))
    frame = pd.DataFrame(rows, columns=[f"h{hour}" for hour in range(12)]).assign(home=homes)
    public = {"epsilon": 1.0, "delta": 1e-5, "radius": 14.0, "unit": "home"}
    made = PrivateGaussianMixture(
        **public, classes="auto", rows_per_unit="auto", nominal_size=400, generator=SeededGenerator(1)
    ).fit(frame)
    assert (len(made.classes_), made.certificate_.parameters["rows_per_unit"]) == (1, 2)
    six = PrivateGaussianMixture(
        **public, classes=6, rows_per_unit=2, nominal_size=800, generator=SeededGenerator(1)
    ).fit(frame)
    fresh = 2.5 * generator.normal(size=(2000, 1)) + generator.normal(size=(2000, 12))
    truth = np.eye(12) + 2.5**2
    best = float(
        MixtureModel(np.ones(1), np.zeros((1, 12)), truth[None], (0,), made.model_.columns).log_density(fresh).mean()
    )
    assert best - float(made.model_.log_density(fresh).mean()) < 1.2
    assert made.model_.log_density(fresh).mean() > six.model_.log_density(fresh).mean() + 0.5
    for change in ({"nominal_size": None}, {"classes": "many"}, {"rows_per_unit": "all"}):
        with pytest.raises(ParameterError, match=next(iter(change))):
            PrivateGaussianMixture(
                **{**public, "classes": "auto", "rows_per_unit": "auto", "nominal_size": 400, **change}
            ).fit(frame)


def test_shares_may_be_given() -> None:
    rows = np.random.default_rng(0).normal(size=(300, 2))
    public = {"epsilon": 1.0, "delta": 1e-5, "radius": 4.0, "classes": [0], "nominal_size": 300}
    kinds = np.zeros(300, dtype=np.int64)
    shares = (0.1, 0.2, 0.3, 0.4)
    certificate = PrivateGaussianMixture(**public, shares=shares).fit(rows, kinds).certificate_
    histogram = certificate.parameters["noise"]["distance histogram"]  # type: ignore[index]
    assert 1 / histogram**2 == pytest.approx(0.2 * float(certificate.parameters["mean_shift"]) ** 2, rel=1e-4)  # type: ignore[arg-type]
    assert verify(certificate).private
    for wrong in ((0.5, 0.5), (0.1, 0.2, 0.3, 0.5), (0.5, 0.7, -0.4, 0.2), (1.0,)):
        with pytest.raises(ParameterError, match="shares"):
            PrivateGaussianMixture(**public, shares=wrong).fit(rows, kinds)


def test_heavy_tails_are_missed_no_more_than_the_ball_clips_them() -> None:
    """Student's t with three degrees of freedom: the Gaussian that fits the core has a third of its variance."""
    generator = np.random.default_rng(1)
    rows = generator.normal(size=(20_000, 3)) * np.sqrt(3 / generator.chisquare(3, size=(20_000, 1)))
    clipped = rows * np.minimum(1.0, 12.0 / np.linalg.norm(rows, axis=1))[:, None]
    made = PrivateGaussianMixture(
        epsilon=1.0, delta=1e-5, radius=12.0, classes=1, nominal_size=20_000, generator=SeededGenerator(0)
    ).fit(rows)
    assert np.trace(made.covariances_[0]) == pytest.approx(np.trace(np.cov(clipped.T)), rel=0.1)


@pytest.mark.parametrize("by", [1.0, 1e-12, 1e12])
def test_whether_a_covariance_is_positive_definite_does_not_depend_on_units(by: float) -> None:
    units = np.array([1.0, by])
    close, beyond = (np.array([[[1.0, r], [r, 1.0]]]) * np.outer(units, units) for r in (1 - 1e-13, 1 + 1e-13))
    made = MixtureModel(np.ones(1), np.zeros((1, 2)), close, ("a",), ("x", "y"))
    assert np.isfinite(made.log_density(units[None])).all()
    with pytest.raises(ParameterError, match="positive definite"):
        MixtureModel(np.ones(1), np.zeros((1, 2)), beyond, ("a",), ("x", "y"))
