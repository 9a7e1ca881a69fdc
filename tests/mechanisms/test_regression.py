from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_breast_cancer, load_diabetes
from sklearn.utils.estimator_checks import check_estimator

from gaussveil.accounting import Ledger, verify
from gaussveil.errors import GaussveilError, SchemaError
from gaussveil.mechanisms import (
    PrivateBayesianLogisticRegression,
    PrivateCovariance,
    PrivateLinearRegression,
    PrivateLogisticRegression,
    PrivatePCA,
    regress,
)
from gaussveil.mechanisms.regression.bounded import Draws
from gaussveil.mechanisms.regression.logistic import LogisticRows
from gaussveil.mechanisms.regression.moments import Look, block_scales
from gaussveil.mechanisms.regression.rows import GivenTable, WeightedRows
from gaussveil.mechanisms.regression.unit_sums import (
    FRACTIONS,
    GramReader,
    RowsByLength,
    ScoreSquares,
    UnitGrams,
    block_energies,
)
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Block, ExactSum, FixedPoint, as_source

RNG = np.random.default_rng(4)
ROWS = RNG.uniform(-1, 1, size=(3000, 3))
TARGET = ROWS @ [0.5, -0.3, 0.0] + 0.1 + 0.2 * RNG.normal(size=3000)
GIVEN: dict[str, Any] = {"bounds": (-1.0, 1.0), "target_bounds": (-1.5, 1.5)}

DRAWN = "two fits draw differently"
RELEASED = {
    "check_dtype_object": "a cell that is no number is a missing one: a refusal would tell of it",
    "check_estimators_empty_data_messages": "no rows are released like any other number of them",
}
EXEMPT: dict[type, dict[str, str]] = {
    PrivateLinearRegression: {
        "check_regressor_data_not_an_array": DRAWN,
        "check_supervised_y_2d": DRAWN,
        "check_fit_idempotent": DRAWN,
        "check_regressors_int": DRAWN,
        "check_supervised_y_no_nan": "a record without a target is left out: a refusal would tell of it",
    },
    PrivateLogisticRegression: {
        "check_classifier_data_not_an_array": DRAWN,
        "check_supervised_y_2d": DRAWN,
        "check_fit_idempotent": DRAWN,
        "check_supervised_y_no_nan": "a record without a label is left out: a refusal would tell of it",
    },
    PrivateCovariance: {"check_fit_idempotent": DRAWN},
    PrivatePCA: {
        "check_fit_idempotent": DRAWN,
        "check_transformer_general": DRAWN,
        "check_transformer_data_not_an_array": DRAWN,
    },
}


@pytest.mark.parametrize("kind", EXEMPT, ids=lambda kind: kind.__name__)
def test_scikit_learn_checks_pass(kind: type) -> None:
    exempt = EXEMPT[kind] | RELEASED
    check_estimator(kind(), expected_failed_checks=exempt, on_skip=None, on_fail="raise")


def test_no_combination_of_coefficients_has_a_negative_variance(full: bool) -> None:
    """Slopes of which the release tells enough and others side by side, in columns that are nearly one."""
    mixed, count = 0, 60 if full else 30
    for seed in range(count):
        rng = np.random.default_rng([seed, 11])
        rows = rng.normal(size=(int(rng.integers(20, 4000)), 6)) * [0.1, 1, 1, 1, 1, 1]
        rows[:, 1] = rows[:, 0] + 0.05 * rows[:, 1]
        model = PrivateLinearRegression(
            bounds=(-3, 3),
            target_bounds=(-5, 5),
            epsilon=float(10 ** rng.uniform(-1, 1.5)),
            delta=1e-6,
            generator=SeededGenerator(seed),
        )
        fit = model.fit(rows, rows @ rng.normal(size=6) + rng.normal(size=len(rows))).fits_[0]
        scale = np.outer(fit.std_error, fit.std_error)
        assert np.linalg.eigvalsh(fit.covariance / scale)[0] > -1e-9
        assert np.all(np.isfinite(fit.along(np.c_[np.ones(len(rows)), rows])))
        mixed += len(set(fit.informed[1:])) == 2
    assert mixed > count // 12


def test_no_row_moves_the_blocks_by_more_than_was_charged() -> None:
    """Independent of the formula: whiten what random and wild rows add by the noise itself."""
    targets, size, shift = 2, 4, 0.7
    energies = block_energies(targets)
    scales = block_scales(dict.fromkeys(energies, 2.0) | {"xx": 0.3}, energies, shift)
    statistic = WeightedRows(centre=(0.1,) * 6, scale=(2.0,) * 6, row_norm=1.0, targets=targets)
    rng, worst = np.random.default_rng(3), 0.0
    wild = np.array([[1e308, -1e308, 1e300, 0, 1e9, -1e9], [np.finfo(float).max] * 6, [2.1, 0.1, 0.1, 0.1, 9.0, 9.0]])
    for row in np.concatenate((rng.normal(size=(300, 6)) * 10, wild)):
        sums = statistic.finish(statistic.partial(Block(row[:, None].copy()))).to_float()
        moved = 0.0
        for i in range(7):
            for j in range(i, 7):
                kinds = ["1" if k == 0 else "x" if k <= size else "y" for k in (i, j)]
                name = kinds[1] if kinds[0] == "1" else "".join(kinds)
                variance = scales[name] ** 2 * (2.0 if i == j and i > 0 else 1.0)
                moved += sums[i, j] ** 2 / variance
        moved += sums[7, 7] ** 2 / scales["1"] ** 2  # what its weight lacks is released beside its weight
        worst = max(worst, math.sqrt(moved))
    assert 0.99 * shift <= worst <= shift


class Summed:
    """A Source of one block."""

    rows_per_unit = 1

    def __init__(self, rows: Any) -> None:
        self.rows = rows

    def aggregate(self, statistic: Any, **_: Any) -> Any:
        return statistic.finish(statistic.partial(Block(self.rows.copy())))


class Whitened(Draws):
    """Draws without noise: what was asked for, in deviations of the noise that would have been added."""

    def noisy(self, noise: Any, *sums: Any) -> Any:
        self.__dict__.setdefault("moved", []).append(np.ravel(sums[0].to_float()) / np.sqrt(noise.covariance))
        return sums[0].to_float()


@pytest.mark.parametrize("size", [1, 3, 20])
def test_no_row_moves_the_look_by_more_than_was_charged(size: int) -> None:
    rng, worst, shift = np.random.default_rng(size), 0.0, 0.3
    names = tuple(map(str, range(size)))
    wild = [np.full(size, 1e308), np.ones(size), np.full(size, 1e9), np.eye(size)[0] * -1e300]
    for row in [*rng.normal(size=(200, size)) * 3, *wild]:
        passes = Whitened(GivenTable(Summed(row[:, None]), names, (), names, (), "row"), 1.0, None)  # type: ignore[arg-type]
        Look.at(passes, np.array([[0.0, 1.0]] * size), shift)
        worst = max(worst, float(np.linalg.norm(np.concatenate(passes.__dict__["moved"]))))
    assert 0.99 * shift <= worst <= shift
    assert math.sqrt(passes.spent) == pytest.approx(shift, rel=1e-12)


def test_no_gradient_is_longer_than_was_charged() -> None:
    rng = np.random.default_rng(5)
    for coefficients in ((0.0,) * 4, (3.0, -50.0, 1e4, 0.1)):
        statistic = LogisticRows(centre=(0.0,) * 3, scale=(1.2,) * 3, coefficients=coefficients)
        for row in np.concatenate((rng.normal(size=(50, 3)) * 9, [[1e308, -1e308, 1e308]])):
            for group in (0, 1):
                block = Block(row[:, None].copy(), np.array([group]), 2)
                moved = statistic.finish(statistic.partial(block)).to_float()
                assert np.linalg.norm(moved) <= math.sqrt(1.09) * (1 + 1e-9)


def test_one_record_is_one_number_whatever_stands_beside_it() -> None:
    """Sums of parts are the sum of the whole, to the bit: rounding knows nothing of a row's neighbours."""
    rows = np.random.default_rng(6).normal(size=(3, 501))
    for statistic in (
        WeightedRows(centre=(0.3,) * 3, scale=(1.7,) * 3, row_norm=1.0, targets=1),
        LogisticRows(centre=(0.3,) * 3, scale=(1.7,) * 3, coefficients=(0.1, 0.7, -3.0, 0.2)),
    ):
        whole = statistic.finish(statistic.partial(Block(rows.copy()))).integers()
        parts = [statistic.finish(statistic.partial(Block(rows[:, i : i + 1].copy()))).integers() for i in range(501)]
        assert np.array_equal(whole, sum(parts[1:], parts[0]))


@pytest.mark.parametrize("given", [GIVEN, {}], ids=["bounds", "auto"])
def test_intervals_cover_what_they_promise(given: dict[str, Any]) -> None:
    truth, covered, level, informed = np.array([0.5, -0.3, 0.0]), 0, 0, 0
    for seed in range(60):
        rng = np.random.default_rng(seed)
        rows = rng.uniform(-1, 1, size=(1500, 3))
        target = rows @ truth + 0.1 + 0.2 * rng.normal(size=1500)
        model = PrivateLinearRegression(**given, epsilon=1.0, delta=1e-6, generator=SeededGenerator(seed))
        interval = model.fit(rows, target).interval_
        covered += int(np.sum((interval[:, 0] <= truth) & (truth <= interval[:, 1])))
        low, high = model.fits_[0].interval[0]
        level += low <= 0.1 <= high
        informed += sum(model.fits_[0].informed)
    assert informed >= 0.9 * 240
    assert 0.9 * 180 <= covered <= 0.99 * 180  # 95 % within two and a half standard errors
    assert level >= 52


def test_a_strong_slope_that_is_hardly_seen_does_not_bias_its_neighbour() -> None:
    """A temperature that varies little in its public range, and a season that goes with it."""
    truth, inside, trusted = np.array([0.3, -0.9, 0.05]), 0, 0
    for seed in range(60):
        rng = np.random.default_rng([seed, 1])
        season, other = rng.uniform(-1, 1, size=(2, 4000))
        cold = np.clip(0.15 * season + 0.1 * rng.normal(size=4000), -1, 1)
        rows = np.column_stack((season, cold, other))
        target = rows @ truth + 0.2 * rng.normal(size=4000)
        model = PrivateLinearRegression(
            bounds=(-1, 1), target_bounds=(-4, 4), epsilon=1.0, delta=1e-6, generator=SeededGenerator(seed)
        )
        fit = model.fit(rows, target).fits_[0]
        low, high = fit.interval[1:].T
        told = np.asarray(fit.informed[1:])
        inside += int(np.sum(((low <= truth) & (truth <= high))[told]))
        trusted += int(np.sum(told))
    assert trusted >= 100
    assert inside >= 0.91 * trusted  # 95 % less two and a half standard errors


def test_slopes_that_are_seldom_trusted_are_covered_when_they_are(full: bool) -> None:
    """Two columns that nearly cancel, strong slopes along their sum: noise that shows it makes its slopes too small."""
    truth, held, trusted = np.array([-0.8, -0.8, 0.3, 0.0, 0.2]), 0, 0
    count = 200 if full else 100
    for seed in range(count):
        rng = np.random.default_rng([seed, 3])
        side, apart = rng.choice([-0.4, 0.4], 2000), 0.15 * rng.normal(size=(2, 2000))
        rows = np.column_stack((side + apart[0], apart[1] - side, rng.uniform(-1, 1, size=(2000, 3))))
        target = rows @ truth + 0.3 * rng.normal(size=2000)
        model = PrivateLinearRegression(
            bounds=(-1, 1), target_bounds=(-3, 3), epsilon=1.7, delta=1e-6, generator=SeededGenerator(seed)
        )
        fit = model.fit(rows, target).fits_[0]
        low, high = fit.interval[1:3].T
        told = np.asarray(fit.informed[1:3])
        held += int(np.sum(((low <= -0.8) & (high >= -0.8))[told]))
        trusted += int(np.sum(told))
    assert 0.1 <= trusted / (2 * count) <= 0.6  # whether they are trusted is left to chance
    assert held >= 0.9 * trusted


def test_rows_of_one_unit_may_be_all_alike() -> None:
    """Six copies of every row: intervals as wide as one row of each unit warrants."""
    truth, inside = np.array([0.5, -0.3]), 0
    for seed in range(80):
        rng = np.random.default_rng([seed, 2])
        rows = rng.uniform(-1, 1, size=(1500, 2))
        target = rows @ truth + 0.6 * rng.normal(size=1500)
        model = PrivateLinearRegression(
            bounds=(-1, 1),
            target_bounds=(-3, 3),
            epsilon=30.0,
            delta=1e-6,
            unit=np.repeat(np.arange(1500), 6),
            rows_per_unit=6,
            generator=SeededGenerator(seed),
        ).fit(np.repeat(rows, 6, axis=0), np.repeat(target, 6))
        low, high = model.interval_.T
        inside += int(np.sum((low <= truth) & (truth <= high)))
    assert 0.9 * 160 <= inside <= 159
    assert "taken to be all alike" not in model.summary()
    alone = regress(model.moments_, features=(0,))  # of a part of the features nothing was measured
    assert "taken to be all alike" in alone.summary()


def test_rows_of_one_unit_that_differ_make_no_wider_intervals() -> None:
    """A tenth of the budget tells: intervals of rows by themselves are those of least squares, in any unit."""
    rng = np.random.default_rng(5)
    rows, homes = rng.uniform(-1, 1, size=(12_000, 2)), np.repeat(np.arange(2000), 6)
    target = rows @ [0.5, -0.3] + 0.6 * rng.normal(size=12_000)
    model = PrivateLinearRegression(
        bounds=(-1, 1), target_bounds=(-3, 3), epsilon=30.0, delta=1e-6, unit=homes, rows_per_unit=6
    ).fit(rows, target)
    assert model.moments_.effects is not None
    assert np.all((model.moments_.effects > 0.7) & (model.moments_.effects < 1.5))
    assert model.std_error_ == pytest.approx(0.6 / np.sqrt(12_000 / 3), rel=0.35)
    assert model.certificate_.parameters["unit_share"] == 0.1
    assert "how long the sums of units are, and squares of each unit's part" in model.certificate_.released
    single = PrivateLinearRegression(**GIVEN, unit=np.arange(3000), rows_per_unit=1).fit(ROWS, TARGET)
    assert single.moments_.effects is None  # nothing to tell, nothing spent
    assert single.certificate_.parameters["unit_share"] == 0.0


def test_no_unit_moves_its_sums_by_more_than_was_charged() -> None:
    """Whatever rows a unit has, and in whatever order: blocks of the matrix, rows by length, squares of scores."""
    rng, most, fraction, limit = np.random.default_rng(8), 9, 0.25, 50.0
    rows = WeightedRows(centre=(0.0,) * 3, scale=(1.0,) * 3, row_norm=1.0, targets=1)
    reader = GramReader("home", (), present=("a", "b", "y"), rows=rows)
    grams = UnitGrams(reader, most, fraction)
    matrix = tuple(map(tuple, rng.normal(size=(3, 3)).tolist()))
    passes: list[Any] = [
        (grams, grams.unit),
        (RowsByLength(grams), 1.0),
        (ScoreSquares(grams, ((0.1, 3.0, -2.0),), (matrix,), limit), FixedPoint(limit).unit),
    ]
    kind = np.append(reader.kind, "1")
    base, longest = rng.normal(size=(40, 3)), dict.fromkeys([*kind, "rows", "squares"], 0.0)
    filled, wild = np.array([[0.4, 0.3, -9.0]] * most), np.full((most, 3), 1e308)
    for more in (rng.normal(size=(5, 3)), wild, filled, [[1.0, 0, -9]] * most, rng.normal(size=(most, 3)) * 50):
        found = []
        for values in (base, np.concatenate((base, more)), np.concatenate((base, more))[::-1]):
            home = np.sort(np.r_[np.arange(40) // 4, np.full(len(values) - 40, 99)])
            home = home if np.array_equal(values[:40], base) else home[::-1]
            source = as_source(pd.DataFrame(values, columns=["a", "b", "y"]).assign(home=home))
            kept: list[Any] = []
            found.append(
                [ExactSum(source.fold_units(reader, one, kept)["sums"], unit).to_float() for one, unit in passes]
            )
        assert all(np.array_equal(one, other) for one, other in zip(found[1], found[2]))
        blocks, lengths, squares = (after - before for before, after in zip(*found[:2]))
        moved = {name: float(np.linalg.norm(blocks[kind == name])) for name in set(kind.tolist())}
        moved |= {"rows": float(np.linalg.norm(lengths)), "squares": float(np.linalg.norm(squares))}
        longest = {name: max(before, moved[name]) for name, before in longest.items()}
    charged = {name: most * math.sqrt(energy) for name, energy in block_energies(1, fraction).items()}
    charged |= {"rows": most, "squares": limit}
    assert all(0.99 * charged[name] < each <= charged[name] for name, each in longest.items())


def test_units_are_bounded_together_where_their_rows_differ() -> None:
    """Where they are alike nothing is gained by it, and nothing is done."""
    rng = np.random.default_rng(9)
    homes, each = np.repeat(np.arange(1000), 8), rng.uniform(-1, 1, size=(1000, 4))
    alike, apart = np.repeat(each, 8, axis=0), rng.uniform(-1, 1, size=(8000, 4))
    noise = []
    for rows in (alike, apart):
        target = rows @ [0.5, -0.3, 0.0, 0.1] + 0.2 * rng.normal(size=8000)
        settings: dict[str, Any] = {**GIVEN, "epsilon": 3.0, "delta": 1e-6, "unit": homes, "rows_per_unit": 8}
        moments = PrivateLinearRegression(**settings, generator=SeededGenerator(1)).fit(rows, target).moments_
        noise.append(moments.variance[1, 2] / moments.count**2)
        del settings["target_bounds"]
        # of rows that are alike the default radius is the shorter, which hides what is gained at any one radius
        components = PrivatePCA(**settings, row_norm=1.5, generator=SeededGenerator(1)).fit(rows)
        noise[-1] = noise[-1], components.moments_.variance[1, 2] / components.count_**2
    assert noise[1][0] < 0.5 * noise[0][0]
    assert noise[1][1] < 0.4 * noise[0][1]
    assert FRACTIONS[0] == 1  # rows that no bound of their sums shortens


def test_with_much_budget_it_is_least_squares_and_the_summary_says_so() -> None:
    model = PrivateLinearRegression(**GIVEN, epsilon=30.0, delta=1e-6, row_norm=2.0).fit(ROWS, TARGET)
    design = np.column_stack((np.ones(3000), ROWS))
    exact = np.linalg.lstsq(design, TARGET, rcond=None)[0]
    assert np.concatenate(([model.intercept_], model.coef_)) == pytest.approx(exact, abs=0.01)
    residual = TARGET - design @ exact
    classical = np.sqrt(np.diag(np.linalg.inv(design.T @ design)) * residual.var() * 3000 / 2996)
    assert model.std_error_ == pytest.approx(classical[1:], rel=0.1)
    assert "std err" in model.summary()
    assert "do not trust" not in model.summary()
    value, interval = model.predict(ROWS[:5], return_interval=True)
    assert np.all((interval[:, 0] < value) & (value < interval[:, 1]))


def test_noise_above_the_signal_is_said() -> None:
    model = PrivateLinearRegression(**GIVEN, epsilon=0.01, delta=1e-9, generator=SeededGenerator(1))
    assert "do not trust" in model.fit(ROWS[:50], TARGET[:50]).summary()


@pytest.mark.parametrize(
    "rows",
    [
        np.empty((0, 3)),
        ROWS[:2],
        np.zeros((40, 3)),
        np.repeat(ROWS[:500, :1], 3, axis=1),
        np.full((30, 3), 1e300),
        np.full((30, 3), np.nan),
        ROWS[:1],
        ROWS[:12].reshape(2, 18),
        np.where(ROWS[:40] > 0, np.inf, ROWS[:40]),
        np.full((30, 3), 5e-324),
    ],
    ids=["none", "few", "constant", "collinear", "clipped", "missing", "one", "wide", "infinite", "tiny"],
)
def test_no_table_is_refused(rows: Any) -> None:
    target = np.arange(len(rows), dtype=float)
    labels = np.where(np.arange(len(rows)) % 2, 1, 0)
    for given in (GIVEN, {}):
        model = PrivateLinearRegression(**given).fit(rows, target)
        assert np.all(np.isfinite(model.coef_))
        assert np.all(np.isfinite(model.interval_))
        assert model.summary()
    assert np.all(np.isfinite(PrivatePCA(bounds=(-1, 1)).fit(rows).explained_variance_interval_))
    assert np.all(np.isfinite(PrivateLogisticRegression(classes=[0, 1]).fit(rows, labels).coef_))


def test_one_release_serves_several_targets_and_regressions(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("people", epsilon=2.0, delta=0.1)
    both = pd.DataFrame({"up": TARGET, "down": -TARGET})
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    model = PrivateLinearRegression(**GIVEN, epsilon=1.0, delta=1e-6, account=account).fit(frame, both)
    assert model.coef_.shape == (2, 3)
    assert model.interval_.shape == (2, 3, 2)
    assert model.predict(frame).shape == (3000, 2)
    few = regress(model.moments_, target=1, features=(0, 2))
    assert few.names == ("intercept", "a", "c")
    assert few.target == "down"
    assert few.coefficients[1] == pytest.approx(-0.5, abs=0.15)
    assert len(Ledger(account.ledger).entries("people")) == 1
    assert verify(model.certificate_).private


def test_units_sources_and_frames_agree() -> None:
    homes = np.repeat(np.arange(1000), 3)
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(home=homes)
    settings = {**GIVEN, "epsilon": 1.0, "delta": 1e-6}
    named = PrivateLinearRegression(**settings, unit="home", rows_per_unit=2, generator=SeededGenerator(1)).fit(
        frame, TARGET
    )
    assert list(named.feature_names_in_) == ["a", "b", "c"]
    assert named.certificate_.adjacency.unit == "home"
    assert any("at most 2 rows" in line for line in named.certificate_.assumptions)
    loose = PrivateLinearRegression(**settings, generator=SeededGenerator(1)).fit(frame[["a", "b", "c"]], TARGET)
    shares: list[Any] = [one.certificate_.parameters["row_mean_shift"] for one in (named, loose)]
    assert shares[0] / shares[1] == pytest.approx(0.5, rel=1e-4)
    source = as_source(frame[["a", "b", "c"]].assign(label=TARGET))
    same = PrivateLinearRegression(**settings, generator=SeededGenerator(1)).fit(source)
    assert np.array_equal(same.coef_, loose.coef_)
    wild = np.concatenate((ROWS, [[1e9, -1e9, 1e9]])), np.concatenate((TARGET, [1e12]))
    robust = PrivateLinearRegression(**settings, generator=SeededGenerator(1)).fit(*wild)
    assert np.max(np.abs(robust.coef_ - loose.coef_)) < 0.01
    with pytest.raises(SchemaError, match="numbers"):
        PrivateCovariance().fit(as_source(pd.DataFrame({"a": ["x"]})))


def test_covariance_and_components_find_the_spread() -> None:
    turn = np.linalg.qr(np.random.default_rng(2).normal(size=(5, 5)))[0]
    rows = np.random.default_rng(3).normal(size=(20_000, 5)) * [3.0, 2.0, 0.5, 0.5, 0.5] @ turn.T + [9, 0, 0, 0, 0]
    settings: dict[str, Any] = {"epsilon": 1.0, "delta": 1e-6, "row_norm": 2.0, "generator": SeededGenerator(1)}
    found = PrivateCovariance(**settings, bounds=(-20.0, 20.0)).fit(rows)
    exact = np.cov(rows.T)
    inside = (found.interval_[..., 0] <= exact) & (exact <= found.interval_[..., 1])
    assert inside.mean() >= 0.8
    assert found.location_ == pytest.approx(rows.mean(axis=0), abs=0.3)
    components = PrivatePCA(**settings, bounds=(-20.0, 20.0), n_components=2).fit(rows)
    overlap = np.linalg.svd(components.components_ @ turn[:, :2])[1]
    assert np.min(overlap) > 0.98
    low, high = components.explained_variance_interval_[0]
    assert low <= np.linalg.eigvalsh(exact)[-1] <= high
    back = components.inverse_transform(components.transform(rows))
    assert np.mean((rows - back) ** 2) < 0.5


@pytest.mark.parametrize("epsilon", [0.3, pytest.param(1.0, marks=pytest.mark.full), 10.0])
def test_trusted_variances_are_covered_and_others_are_marked(epsilon: float, full: bool) -> None:
    """Of a normal law, its long rows weighted down; of laws of long tails hardly anything is trusted."""
    truth = np.array([2.0, 1.0, 0.5, 0.25, 0.1])
    count, draws = 8_000, 1_000 if full else 40
    settings: dict[str, Any] = {"epsilon": epsilon, "delta": 1e-6, "bounds": (-6.0, 6.0), "n_components": 2}
    held, trusted, tails = [], [], []
    for seed in range(draws):
        rng = np.random.default_rng([seed, 7])
        model = PrivatePCA(**settings, generator=SeededGenerator(seed))
        low, high = model.fit(rng.normal(size=(count, 5)) * np.sqrt(truth)).explained_variance_interval_.T
        held.append((low <= truth[:2]) & (truth[:2] <= high))
        trusted.append(model.trusted_)
        for freedom in (3, 5, 20)[: 3 if epsilon == 10 else 2] if seed < (20 if full else 10) else ():
            rows = rng.standard_t(freedom, size=(count, 5)) * np.sqrt(truth * (freedom - 2) / freedom)
            tails.append(model.fit(rows).trusted_)
    share = np.mean(np.asarray(held)[np.asarray(trusted)]) if np.any(trusted) else 0.95
    assert np.mean(trusted) > {10.0: 0.9, 1.0: 0.3, 0.3: -1.0}[epsilon]
    assert (0.93 if full else 0.88) <= share <= (0.97 if full else 1.0)
    assert np.mean(held) > 0.93
    assert np.mean(tails) < 0.02


def test_where_a_fifth_of_all_weight_is_taken_nobody_knows_the_tails() -> None:
    """Little budget makes radii short: every eleventh variance was trusted, of which three in a hundred were held."""
    settings: dict[str, Any] = {"epsilon": 0.1, "delta": 1e-6, "bounds": (-6.0, 6.0), "n_components": 2}
    scales = np.sqrt(np.array([2.0, 1.0, 0.5, 0.25, 0.1]) * 0.6)
    trusted = []
    for seed in range(30):
        rows = np.random.default_rng([seed, 9]).standard_t(5, size=(8_000, 5)) * scales
        trusted.append(PrivatePCA(**settings, generator=SeededGenerator(seed)).fit(rows).trusted_)
    assert np.mean(trusted) < 0.03


def test_tails_within_a_wide_radius_are_not_taken_for_known() -> None:
    rows = np.random.default_rng(8).standard_t(5, size=(20_000, 4)) * [2.0, 1.0, 0.5, 0.3]
    wide = PrivatePCA(epsilon=10, bounds=(-50.0, 50.0), row_norm=2.0, generator=SeededGenerator(1)).fit(rows)
    assert wide.moments_.weight == pytest.approx(1.0, abs=0.01)
    assert not wide.trusted_.any()
    told = wide.summary().splitlines()
    assert len(told) == wide.n_components_ + 1
    assert told[-1].startswith("* not to be trusted")


def test_logistic_regression_beats_the_posterior_draw() -> None:
    rows, labels = load_breast_cancer(return_X_y=True)
    low, high = rows.min(axis=0), rows.max(axis=0)
    scores = [
        PrivateLogisticRegression(
            epsilon=1.0, delta=1e-6, bounds=(low, high), classes=[0, 1], generator=SeededGenerator(seed)
        )
        .fit(rows[:455], labels[:455])
        .score(rows[455:], labels[455:])
        for seed in range(5)
    ]
    assert np.mean(scores) > 0.88


def test_logistic_sources_take_named_classes() -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"]).assign(label=np.where(TARGET > 0.1, "high", "low"))
    with pytest.raises(GaussveilError, match="classes"):
        PrivateLogisticRegression().fit(as_source(frame))
    model = PrivateLogisticRegression(bounds=(-1, 1), classes=["low", "high"], epsilon=2.0).fit(as_source(frame))
    assert model.score(frame[["a", "b", "c"]], frame["label"]) > 0.75
    assert verify(model.certificate_).private


@pytest.mark.parametrize("kind", [PrivateLogisticRegression, PrivateBayesianLogisticRegression])
def test_a_label_of_any_kind_is_foreign_and_left_out(kind: type) -> None:
    labels = pd.Series(np.where(TARGET > 0.1, "high", "low"), dtype=object)
    for place, odd in enumerate([["high"], {"a": 1}, ("low", []), np.ones(2), 7, None, b"low"]):
        labels.at[place] = odd
    found = kind(classes=["low", "high"], generator=SeededGenerator(1)).fit(ROWS, labels)
    left = kind(classes=["low", "high"], generator=SeededGenerator(1)).fit(ROWS[7:], labels[7:])
    assert np.array_equal(found.coef_, left.coef_)


def test_diabetes_is_fitted_with_searched_bounds() -> None:
    rows, target = load_diabetes(return_X_y=True, scaled=False)
    model = PrivateLinearRegression(epsilon=10.0, delta=1e-6, generator=SeededGenerator(0)).fit(rows, target)
    assert model.score(rows, target) > 0.2
    assert model.certificate_.parameters["bounds"] == ["searched"] * 11


@pytest.mark.parametrize(
    "changes",
    [
        {"bounds": (1.0, -1.0)},
        {"bounds": "wide"},
        {"bounds": 3.0},
        {"bounds": {"z": (0, 1)}},
        {"bounds": (0.0, math.inf)},
        {"row_norm": 0.0},
        {"unit": "home"},
        {"rows_per_unit": 2},
        {"epsilon": 600.0},
        {"delta": 0.0},
    ],
    ids=str,
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    frame = pd.DataFrame(ROWS, columns=["a", "b", "c"])
    with pytest.raises(GaussveilError):
        PrivateLinearRegression(**{**GIVEN, **changes}).fit(frame, TARGET)


@pytest.mark.parametrize("width", [2, 3])
def test_bounds_are_one_pair_pairs_by_column_ends_or_a_mapping(width: int) -> None:
    """A list of tuples holds pairs also where two columns would let it pass for lows and highs."""
    rows = np.random.default_rng(1).uniform(0, 1, (200, width)) * [5, 10, 1][:width] + [0, 10, 3][:width]
    pairs = [(0.0, 5.0), (10.0, 20.0), (3.0, 4.0)][:width]
    lows, highs = (list(ends) for ends in zip(*pairs))
    named = {f"x{k}": pair for k, pair in enumerate(pairs)}
    fits = [
        PrivatePCA(epsilon=1.0, delta=1e-6, bounds=bounds, generator=SeededGenerator(2)).fit(rows)
        for bounds in (pairs, (lows, highs), named)
    ]
    assert np.array_equal(fits[0].mean_, fits[1].mean_)
    assert np.array_equal(fits[0].mean_, fits[2].mean_)
    for wrong in ([(0.0, 5.0)] * (width + 1), [(0.0, 1.0, 2.0)] * width, [(5.0, 0.0)] * width):
        with pytest.raises(GaussveilError, match="bounds must be"):
            PrivatePCA(epsilon=1.0, delta=1e-6, bounds=wrong).fit(rows)
