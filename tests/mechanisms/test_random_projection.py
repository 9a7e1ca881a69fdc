from __future__ import annotations

import inspect
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy.stats import kstest

from gaussveil.accounting import Certificate, Ledger, verify
from gaussveil.audit import audit_scores
from gaussveil.errors import GaussveilError, NumericalError, ParameterError, SchemaError, ShapeError
from gaussveil.mechanisms import GaussianRelease, PrivateSketch
from gaussveil.mechanisms.random_projection.plan import smallest_eigenvalue
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.sketch import Sketch
from gaussveil.spectrum import GaussianPair
from gaussveil.statistics import ExactSum, Gram, as_source

Matrix = NDArray[np.float64]
ROWS: Matrix = np.random.default_rng(8).normal(size=(400, 3)) @ np.array(
    [[2.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 0.5]]
)
ROW_NORM = 3.0


def sketch(**changes: Any) -> PrivateSketch:
    design = {"epsilon": 1.0, "delta": 1e-6, "row_norm": ROW_NORM, "n_components": 20}
    return PrivateSketch(**{**design, **changes})


def clipped(rows: Matrix) -> Matrix:
    norms = np.linalg.norm(rows, axis=1, keepdims=True)
    return np.asarray(rows * np.minimum(1.0, ROW_NORM / norms))


def gram(rows: Matrix) -> ExactSum:
    return as_source(rows).aggregate(Gram(row_norm=ROW_NORM))


def test_it_has_the_law_of_an_explicit_projection() -> None:
    """D'G with G of n x r standard normals, the ridge as extra rows of D: quadratic forms of both, as samples."""
    plan = sketch(n_components=2).plan(3)
    generator, rng = SeededGenerator(17), np.random.default_rng(17)
    exact = gram(ROWS)
    tall = np.concatenate([clipped(ROWS), math.sqrt(plan.ridge) * np.eye(3)])
    ours = np.stack([plan.draw(exact, generator)[0] for _ in range(1500)])
    explicit = np.stack([tall.T @ rng.normal(size=(len(tall), 2)) for _ in range(1500)])
    root = np.linalg.cholesky(tall.T @ tall)
    for direction in (np.eye(3)[0], np.eye(3)[2], np.linalg.solve(root.T, np.ones(3))):
        forms = [np.sum((direction @ matrices) ** 2, axis=-1) for matrices in (ours, explicit)]
        assert kstest(*forms).pvalue > 1e-4
    standard = np.linalg.solve(root, ours)
    assert kstest(standard.ravel(), "norm").pvalue > 1e-3
    # and the test has power: without the ridge the law is another one
    bare = np.linalg.solve(np.linalg.cholesky(exact.to_float()), ours)
    assert kstest(bare.ravel(), "norm").pvalue < 1e-12


def test_wishart_moments_and_error_bars(full: bool) -> None:
    """The Gram estimate is unbiased with the stated variance; standardised errors are standard."""
    exact, count = gram(ROWS), 800 if full else 400
    truth = exact.to_float()
    mechanism = sketch(n_components=40, generator=SeededGenerator(5))
    plan = mechanism.plan(3)
    estimates = [
        Sketch(plan.draw(exact, mechanism.generator)[0], plan.ridge, ROW_NORM, ("x0", "x1", "x2")).gram()
        for _ in range(count)
    ]
    values = np.stack([estimate.value for estimate in estimates])
    moment = truth + plan.ridge * np.eye(3)
    variance = (moment**2 + np.outer(np.diagonal(moment), np.diagonal(moment))) / 40
    assert np.all(np.abs(values.mean(axis=0) - truth) < 5 * np.sqrt(variance / count))
    assert np.allclose(values.var(axis=0), variance, rtol=0.25)
    bars = np.stack([estimate.standard_error for estimate in estimates])
    assert np.allclose(bars.mean(axis=0), np.sqrt(variance), rtol=0.05)


def test_subsampled_gram_is_divided_by_the_rate() -> None:
    """Figure 3 forgets it: without the division every estimate would be a fifth of the truth."""
    rows = np.tile([[1.0, 0.0], [0.0, 2.0]], (4000, 1))
    mechanism = sketch(variant="subsampled", rate=0.2, n_components=400, generator=SeededGenerator(3)).fit(rows)
    found, truth = mechanism.gram(), rows.T @ rows
    assert np.all(np.abs(found.value - truth) < 5 * found.standard_error)
    assert np.all(found.standard_error < 0.5 * truth.max())
    assert mechanism.ridge_ < sketch(n_components=400).plan(2).ridge


@pytest.mark.parametrize("variant", ["ridge", "subsampled", "tested"])
def test_certificates_verify_and_state_the_public_numbers(variant: str, tmp_path: Path) -> None:
    mechanism = sketch(variant=variant).fit(ROWS)
    certificate = mechanism.certificate_
    assert verify(Certificate.from_json(certificate.to_json())).private
    assert certificate.delta_upper <= 1e-6
    assert certificate.delta_upper == pytest.approx(1e-6, rel=1e-8)
    assert mechanism.sketch_.shape == (3, 20)
    assert mechanism.leverage_ == certificate.parameters["leverage"]
    assert 0 < mechanism.ridge_ <= certificate.parameters["ridge"]  # type: ignore[operator]
    assert "with the row" in certificate.orientation


def test_the_larger_covariance_belongs_to_the_table_with_the_record() -> None:
    """Stored the wrong way round, a composition under-counts (0.338 against 0.236 for two entries of ratio 4)."""
    charge = sketch().plan(3).charge
    (part,) = charge.parts
    assert np.all(np.asarray(part.source.variance_gap) < 0)  # type: ignore[union-attr]
    assert float(np.sum(part.source.multiplicity)) == 20  # type: ignore[union-attr]


def test_worst_neighbours_meet_the_promise_exactly() -> None:
    plan = sketch(n_components=4, delta=1e-4).plan(2)
    record = np.array([ROW_NORM, 0.0])
    without = np.kron(np.eye(4), plan.ridge * np.eye(2))
    with_it = without + np.kron(np.eye(4), np.outer(record, record))
    pair = GaussianPair(np.zeros(8), with_it, np.zeros(8), without)
    assert float(pair.delta(1.0)) <= 1e-4 * (1 + 1e-12)
    assert float(pair.delta(1.0)) == pytest.approx(1e-4, rel=1e-9)


def test_rows_are_shortened_to_the_row_norm() -> None:
    plan, far = sketch().plan(3), ROWS * 1e6
    assert np.trace(gram(far).to_float()) <= len(far) * ROW_NORM**2
    released = PrivateSketch(epsilon=1.0, delta=1e-6, row_norm=ROW_NORM, n_components=300).fit(far)
    assert np.trace(released.gram().value) < 2 * len(far) * ROW_NORM**2
    assert plan.leverage == plan.excess / (1 + plan.excess)


def test_bad_records_are_left_out_one_by_one() -> None:
    rows = ROWS.copy()
    rows[::7, 1] = np.nan
    rows[3, 0] = np.inf
    good = rows[np.isfinite(rows).all(axis=1)]
    seeds = [sketch(generator=SeededGenerator(4)).fit(data).sketch_ for data in (rows, good)]
    assert np.array_equal(*seeds)


def test_units_of_several_rows_need_more_ridge() -> None:
    frame = pd.DataFrame({"home": np.repeat(np.arange(100), 4), "x": ROWS[:, 0], "y": ROWS[:, 1]})
    mechanism = sketch(unit="home", rows_per_unit=3).fit(frame)
    assert mechanism.sketch_.shape == (2, 20)
    assert mechanism.certificate_.adjacency.unit == "home"
    assert mechanism.ridge_ > 3 * sketch().plan(2).ridge
    assert verify(mechanism.certificate_).private
    beside = sketch(unit=np.repeat(np.arange(100), 4), rows_per_unit=3).fit(frame[["x", "y"]])
    assert (beside.ridge_, beside.certificate_.adjacency.unit) == (mechanism.ridge_, "unit")


def test_auto_depends_on_public_quantities_only() -> None:
    mechanism = sketch(n_components="auto", row_bound=50)
    chosen = mechanism.plan(3).components
    assert {mechanism.fit(data).sketch_.shape[1] for data in (ROWS, ROWS[:5], 0 * ROWS)} == {chosen}
    assert chosen < sketch(n_components="auto", row_bound=10**6).plan(3).components <= 4096
    with pytest.raises(ParameterError, match="row_bound"):
        sketch(n_components="auto").plan(3)


@pytest.mark.parametrize(("components", "size"), [(10, 3), (200, 3), (3000, 8)])
def test_the_plan_tells_that_the_gaussian_mechanism_is_often_better(components: int, size: int) -> None:
    """The best a sketch can do (an empty table) tends to the Gaussian mechanism's error from above as r grows."""
    plan = sketch(n_components=components).plan(size)
    noise = GaussianRelease(epsilon=1.0, delta=1e-6, l2_sensitivity=ROW_NORM**2).plan(1).standard_deviation
    assert plan.gaussian_gram_error == pytest.approx(noise * math.sqrt(size * (size + 1) / 2), rel=1e-5)
    assert plan.gaussian_gram_error < plan.gram_error() < plan.gram_error(rows=100)
    assert components < 1000 or plan.gram_error() < 1.05 * plan.gaussian_gram_error
    assert "GaussianRelease instead" in plan.compare()


# --- the tested variant


@pytest.mark.parametrize("scale", [1.0, 300.0])
def test_smallest_eigenvalue_is_exact_to_its_grid(scale: float) -> None:
    exact = gram(np.repeat(ROWS, 3, axis=0) if scale > 1 else ROWS)
    truth = float(np.linalg.eigvalsh(exact.to_float())[0])
    value, grid = smallest_eigenvalue(exact, 1e6)
    assert abs(value - truth) <= 2 * grid + 1e-9 * np.trace(exact.to_float())
    assert smallest_eigenvalue(exact, truth / 2)[0] == pytest.approx(truth / 2, abs=2 * grid)
    assert smallest_eigenvalue(gram(ROWS[:2]), 1e6)[0] <= 2 * grid  # singular


def test_a_well_conditioned_table_needs_hardly_any_ridge() -> None:
    rows = np.tile(np.eye(3) * ROW_NORM, (2000, 1))
    tested = sketch(variant="tested", generator=SeededGenerator(1)).fit(rows)
    poor = sketch(variant="tested", generator=SeededGenerator(1)).fit(ROWS[:3])
    plan = sketch(variant="tested").plan(3)
    assert tested.ridge_ == pytest.approx(plan.ridge * 2.0**-10)
    assert poor.ridge_ == plan.ridge  # nothing to gain: the ridge of the plain variant at the test's leverage
    assert plan.ridge > sketch().plan(3).ridge


def test_tested_ridge_keeps_the_leverage_unless_the_test_fails() -> None:
    """N3: over many draws the leverage of the worst record never exceeds p*, which is what the price rests on."""
    plan = sketch(variant="tested", n_components=1).plan(2)
    level = plan.ridge + plan.row_norm**2
    rng = np.random.default_rng(2)
    for factor in (0.3, 0.9, 1.4):
        rows = np.tile(np.eye(2) * ROW_NORM, (max(1, round(factor * level / ROW_NORM**2)), 1))
        exact = gram(rows + 1e-3 * rng.normal(size=rows.shape))
        smallest = float(np.linalg.eigvalsh(exact.to_float())[0])
        for seed in range(60):
            ridge = plan._tested_ridge(exact, SeededGenerator(seed))
            assert ROW_NORM**2 / (ridge + smallest) <= plan.leverage * (1 + 1e-9) or ridge == plan.ridge


def test_a_test_that_overspends_is_refused_with_nothing_spent(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    account = ledger.open_account("homes", epsilon=3.0, delta=1e-5)
    with pytest.raises(ParameterError, match="test must cost less"):
        sketch(variant="tested", test_noise=ROW_NORM**2, account=account).fit(ROWS)
    assert ledger.entries("homes") == []
    sketch(variant="tested", account=account).fit(ROWS)
    assert [entry.state for entry in ledger.entries("homes")] == ["released"]


# --- black-box audits of what is really drawn


def log_ratio(matrix: Matrix, ridge: float, level: float) -> float:
    """Log likelihood ratio of one more record of full norm in a one-column table with Gram matrix `level`."""
    small, large = level + ridge, level + ridge + ROW_NORM**2
    return float(np.sum(matrix**2) * (1 / small - 1 / large) / 2 - matrix.size / 2 * math.log(large / small))


@pytest.mark.parametrize("overspent", [1.0, 16.0], ids=["as released", "with too little ridge"])
def test_audit_of_the_tested_variant(overspent: float) -> None:
    """Outputs (ridge, sketch) on a table at which the test decides and on its neighbour."""
    honest = sketch(variant="tested", n_components=8, epsilon=1.0, delta=0.2).plan(1)
    plan = replace(honest, excess=overspent * honest.excess)
    assert plan.test is not None
    count = max(1, round((plan.ridge + 9.0) / 9.0)) if overspent == 1.0 else 0
    scores = []
    for rows, seed in ((count + 1, 1), (count, 2)):
        exact, generator = gram(np.full((rows, 1), ROW_NORM)), SeededGenerator(seed)
        drawn = [plan.draw(exact, generator) for _ in range(400)]
        noise = float(np.asarray(plan.test_noise.covariance))
        scores.append([log_ratio(m, ridge, count * 9.0) - ridge * 9.0 / noise for m, ridge in drawn])
    found = audit_scores(*scores, claim=(1.0, 0.2))
    assert found.refuted == (overspent > 1)
    assert overspent > 1 or len({ridge for _, ridge in drawn}) > 100  # the test did decide


@pytest.mark.parametrize("overspent", [1.0, 16.0], ids=["as released", "with too little ridge"])
def test_audit_of_the_subsampled_variant(overspent: float) -> None:
    honest = sketch(variant="subsampled", rate=0.8, n_components=8, epsilon=1.0, delta=0.2).plan(1)
    plan = replace(honest, excess=overspent * honest.excess)
    scores = []
    for rows, seed in ((1, 1), (0, 2)):
        source, generator = as_source(np.full((rows, 1), ROW_NORM)), SeededGenerator(seed)
        views = (source.sample(plan.rate, generator.random_bytes(32)) for _ in range(400))
        drawn = [plan.draw(view.aggregate(Gram(row_norm=ROW_NORM)), generator) for view in views]
        scores.append([log_ratio(m, ridge, 0.0) for m, ridge in drawn])
    assert audit_scores(*scores, claim=(1.0, 0.2)).refuted == (overspent > 1)


# --- estimates


def test_regression_recovers_coefficients_within_its_bars() -> None:
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60000, 3))
    y = x @ [1.0, -0.5, 0.0] + 0.3 * rng.normal(size=60000)
    frame = pd.DataFrame(np.column_stack([x, y]), columns=["a", "b", "c", "y"]) / 2
    mechanism = sketch(n_components=500, generator=SeededGenerator(9)).fit(frame)
    for found in (mechanism.least_squares("y"), mechanism.ridge_regression("y", penalty=10.0)):
        assert found.columns == ("a", "b", "c")
        assert np.all(np.abs(found.value - [1.0, -0.5, 0.0]) < 5 * found.standard_error + 1e-3)
        assert np.all(found.standard_error < 0.1)
    assert mechanism.ridge_regression("y", predictors=["a"]).value.shape == (1,)
    own = mechanism.ridge_regression("y")
    assert np.allclose(own.value, mechanism.ridge_regression("y", penalty=mechanism.ridge_).value)


def test_error_bars_of_regression_are_honest() -> None:
    rng = np.random.default_rng(6)
    x = clipped(rng.normal(size=(3000, 3)))
    plan = sketch(n_components=60).plan(3)
    exact, generator = gram(x), SeededGenerator(6)
    truth = exact.to_float()
    for penalty in (0.0, 40.0):
        best = np.linalg.solve(truth[:2, :2] + penalty * np.eye(2), truth[:2, 2])
        scores = []
        for _ in range(300):
            one = Sketch(plan.draw(exact, generator)[0], plan.ridge, ROW_NORM, ("a", "b", "c"))
            found = one.ridge_regression("c", penalty)
            scores.append((found.value - best) / found.standard_error)
        assert 0.85 < np.std(scores) < 1.15
        assert abs(np.mean(scores)) < 0.2


def test_least_squares_drowned_by_the_ridge_is_refused_with_advice() -> None:
    mechanism = sketch(n_components=8, generator=SeededGenerator(2)).fit(ROWS[:5])
    with pytest.raises(NumericalError, match="ridge_regression"):
        mechanism.least_squares(0)
    assert mechanism.ridge_regression(0).value.shape == (2,)


def test_principal_components_and_covariance() -> None:
    rows = np.tile(np.diag([3.0, 1.5, 0.5]), (5000, 1))
    mechanism = sketch(n_components=1000, generator=SeededGenerator(4)).fit(rows)
    found = mechanism.pca(2)
    assert np.all(np.abs(found.value - [45000, 11250]) < 5 * found.standard_error)
    assert abs(abs(found.components[0, 0]) - 1) < 3 * found.angle_error[0] ** 2
    per_row = mechanism.covariance(rows=15000)
    assert np.all(np.abs(np.diagonal(per_row.value) - [3.0, 0.75, 1 / 12]) < 5 * np.diagonal(per_row.standard_error))


@pytest.mark.parametrize("components", [1, 2])
def test_a_sketch_with_fewer_components_than_columns_tells_no_more_directions(components: int) -> None:
    matrix = np.random.default_rng(2).normal(size=(7, components)) * 1e3
    found = Sketch(matrix, 1.0, 1.0, tuple("abcdefg")).pca(7)
    lengths = np.sort(np.linalg.svd(matrix, compute_uv=False))[::-1]
    assert found.value[:components] == pytest.approx(lengths**2 / components - 1.0)
    assert found.value[components:].tolist() == [-1.0] * (7 - components)
    assert found.angle_error[components:] == pytest.approx([np.pi / 2] * (7 - components))


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda s: s.pca(0), ParameterError),
        (lambda s: s.pca(4), ParameterError),
        (lambda s: s.covariance(0), ParameterError),
        (lambda s: s.least_squares("nope"), ShapeError),
        (lambda s: s.ridge_regression(0, -1.0), ParameterError),
        (lambda s: s.least_squares(0, [0]), ParameterError),
        (lambda s: s.least_squares(0, [1, 1]), ParameterError),
        (lambda s: s.least_squares(7), ShapeError),
    ],
)
def test_bad_questions_to_a_sketch_are_refused(call: Any, error: type[GaussveilError]) -> None:
    with pytest.raises(error):
        call(Sketch(np.ones((3, 5)), 1.0, 1.0, ("a", "b", "c")))


# --- arguments


@pytest.mark.parametrize(
    ("changes", "data", "error"),
    [
        ({"n_components": 0}, ROWS, ParameterError),
        ({"n_components": "many"}, ROWS, ParameterError),
        ({"n_components": True}, ROWS, ParameterError),
        ({"row_norm": 0.0}, ROWS, ParameterError),
        ({"row_norm": np.inf}, ROWS, ParameterError),
        ({"row_norm": "3"}, ROWS, ParameterError),
        ({"variant": "free"}, ROWS, ParameterError),
        ({"rate": 0.5}, ROWS, ParameterError),
        ({"variant": "subsampled", "rate": 0.0}, ROWS, ParameterError),
        ({"variant": "subsampled", "rate": 2.0}, ROWS, ParameterError),
        ({"test_noise": 5.0}, ROWS, ParameterError),
        ({"variant": "tested", "test_noise": -5.0}, ROWS, ParameterError),
        ({"delta": 1e-30}, ROWS, ParameterError),
        ({"epsilon": 501.0}, ROWS, ParameterError),
        ({"columns": ()}, ROWS, SchemaError),
        ({"columns": ("x0", "x0")}, ROWS, SchemaError),
        ({"columns": ("x9",)}, ROWS, SchemaError),
        ({"generator": 7}, ROWS, ParameterError),
        ({"rows_per_unit": 2}, ROWS, ParameterError),
        ({}, pd.DataFrame({"a": ["x"]}), SchemaError),
        ({}, np.zeros((2, 2, 2)), ShapeError),
        ({}, as_source(ROWS).sample(0.5), ParameterError),
        ({"variant": "tested"}, as_source(pd.DataFrame({"u": [1], "x": [1.0]})).bounded("u", 2), ParameterError),
    ],
)
def test_what_is_malformed_is_refused_with_nothing_spent(
    tmp_path: Path, changes: dict[str, Any], data: Any, error: type[GaussveilError]
) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    account = ledger.open_account("homes", epsilon=3.0, delta=1e-5)
    mechanism = sketch(**{"account": account, **changes})
    with pytest.raises(error):
        mechanism.fit(data)
    assert ledger.entries("homes") == []
    assert not hasattr(mechanism, "sketch_")


def test_estimates_before_fit_are_refused() -> None:
    with pytest.raises(ParameterError, match="fit"):
        sketch().gram()


def test_constructor_is_keyword_only() -> None:
    kinds = {p.kind for p in inspect.signature(PrivateSketch).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
