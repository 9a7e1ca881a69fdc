"""Synthetic tables: what one unit can lose, what is read after the noise, what comes out, what is refused."""

from __future__ import annotations

import datetime
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from numpy.typing import NDArray
from scipy.stats import ks_2samp

from gaussveil.accounting import Account, Ledger
from gaussveil.errors import GaussveilError
from gaussveil.mechanisms import SyntheticTable
from gaussveil.mechanisms.noisy_sums import MOST_DRAWS
from gaussveil.mechanisms.synthetic.draws import SyntheticDraws
from gaussveil.mechanisms.synthetic.value_draws import found_columns
from gaussveil.noise import GaussianNoise, SeededGenerator
from gaussveil.postprocessing.synthetic.cells import Cells, shortest_decimal
from gaussveil.postprocessing.synthetic.model import SyntheticModel

from ..new_accounts import new_account
from .synthetic_people import PROMISE, RANGES, VALUES, drawn, people

Frame = Any
Matrix = NDArray[np.float64]


class Replay:
    """A run of the draws that notes exact sums and hands out given numbers in place of noisy ones."""

    def __init__(self, table: SyntheticTable, data: Frame, outputs: list[Matrix] | None = None) -> None:
        records = table._records(data)
        shift = table._mean_shift(records)
        self.made = SyntheticDraws(
            records, shift, table._shares(records), SeededGenerator(1), table._key_error(records)
        )
        self.shift, self.given = shift, outputs
        self.sums: list[Matrix] = []
        self.noises: list[GaussianNoise] = []
        self.outputs: list[Matrix] = []
        self.draw = self.made.passes.noisy
        self.made.passes.__dict__["noisy"] = self.noisy
        self.model = self.made.model()

    def noisy(self, noise: GaussianNoise, *sums: Any) -> Matrix:
        parts = [one.to_float() for one in sums]
        wide = parts[0] if len(parts) == 1 else np.concatenate([one.reshape(noise.shape[0], -1) for one in parts], -1)
        self.sums.append(wide.reshape(noise.shape))
        self.noises.append(noise)
        drawn = self.draw(noise, *sums) if self.given is None else self.given[len(self.outputs)]
        self.outputs.append(drawn)
        return drawn


def squared_loss(one: Replay, other: Replay) -> float:
    """Squared mean shift between two tables, draw by draw, in the noise that was designed."""
    total = 0.0
    for noise, mine, theirs in zip(one.noises, one.sums, other.sums, strict=True):
        gap = mine - theirs
        covariance = noise.continuous_covariance
        if np.ndim(covariance) == 0:
            total += float(np.sum(gap**2)) / float(covariance)
        else:
            rows = gap.reshape(-1, len(np.asarray(covariance)))
            total += float(np.sum(rows * np.linalg.solve(np.asarray(covariance), rows.T).T))
    return total


EXTREME = {"income": 1e300, "height": -(10**9), "born": pd.Timestamp("2200-01-01"), "town": "Aarau", "member": True}
PLAIN = {"income": 25000.0, "height": 171, "born": pd.Timestamp("1971-01-01"), "town": "Bern", "member": False}
MISSING = {"income": np.nan, "height": 170, "born": pd.NaT, "town": "Genf", "member": True}


@pytest.mark.parametrize("row", [EXTREME, PLAIN, MISSING], ids=["extreme", "plain", "missing"])
@pytest.mark.parametrize("known", [{"between": RANGES, "values": VALUES}, {"bounds": "auto"}], ids=["given", "learnt"])
def test_one_unit_never_loses_more_than_was_charged(row: dict[str, Any], known: dict[str, Any]) -> None:
    """The attack: a unit with as many equal rows as it may have, every draw given what the other table gave."""
    data = people(900)
    if "bounds" in known:
        row = {**row, "town": "Bern"}  # a value of one unit alone is hidden by the threshold, not by the noise
    somebody = pd.DataFrame([{**row, "ill": "yes", "who": 10**6}] * 5)
    with_unit = pd.concat([data, somebody], ignore_index=True)
    table = SyntheticTable(**PROMISE, **known, label="ill", unit="who", rows_per_unit=3)
    without = Replay(table, data)
    neighbour = Replay(table, with_unit, without.outputs)
    loss = squared_loss(without, neighbour)
    assert loss <= without.shift**2
    assert loss > 0.4 * without.shift**2, "counts of equal rows lose all that they are charged for"
    assert np.sqrt(without.made.passes.spent) <= without.shift


def test_nothing_is_read_after_the_noise() -> None:
    """Two tables that gave the same noisy numbers give the same release, to the bit."""
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, label="ill")
    columns = [name for name in people(1) if name != "who"]
    first = Replay(table, people(700)[columns])
    second = Replay(table, people(400, seed=9)[columns], first.outputs)
    assert first.model.rows == second.model.rows
    assert np.array_equal(first.model.weights, second.model.weights)
    assert np.array_equal(first.model.correlations, second.model.correlations)
    for one, other in zip(first.model.marginals, second.model.marginals, strict=True):
        assert np.array_equal(one.shares, other.shares)
        assert np.array_equal(one.high, other.high)
        assert np.array_equal(one.missing, other.missing)
    assert first.model.sample(50, 3).equals(second.model.sample(50, 3))


def test_rows_have_the_columns_order_types_and_values_of_the_source() -> None:
    data = people(6000).drop(columns="who")
    _, rows = drawn(data, between=RANGES, values=VALUES, label="ill")
    assert list(rows.columns) == list(data.columns)
    assert rows.dtypes.equals(data.dtypes)
    assert abs(len(rows) - len(data)) < 300
    assert rows["income"].dropna().between(0, 1e6).all()
    assert rows["height"].between(100, 220).all()
    assert rows["born"].between("1900-01-01", "2030-01-01").all()
    assert (rows["born"] == rows["born"].dt.normalize()).all()
    assert set(rows["town"]) <= set(VALUES["town"])
    assert abs(rows["income"].isna().mean() - 0.1) < 0.04
    assert abs((rows["income"] == 0).mean() - (data["income"] == 0).mean()) < 0.04


def test_laws_and_dependence_come_through() -> None:
    data = people(12000).drop(columns="who")
    for known in ({"between": RANGES, "values": VALUES}, {"bounds": "auto"}):
        _, rows = drawn(data, **known, label="ill")
        for name in ("income", "height"):
            assert ks_2samp(data[name].dropna(), rows[name].dropna()).statistic < 0.06, (name, known)
        numbers = ["income", "height"]
        gap = data[numbers].corr("spearman") - rows[numbers].corr("spearman")
        assert np.abs(gap.to_numpy()).max() < 0.08
        for value in ("no", "yes"):
            mine, theirs = (one.loc[one["ill"] == value, "member"].mean() for one in (data, rows))
            assert abs(mine - theirs) < 0.05


def test_arrow_types_come_back_as_they_were() -> None:
    generator = np.random.default_rng(1)
    count = 3000
    table = pa.table(
        {
            "small": pa.array(generator.integers(0, 100, count), pa.uint8()),
            "exact": pa.array(generator.random(count).round(2)).cast(pa.decimal128(6, 2), safe=False),
            "day": pa.array(generator.integers(18000, 19000, count).astype(np.int32)).cast(pa.date32()),
            "clock": pa.array(generator.integers(0, 86400, count).astype(np.int32)).cast(pa.time32("s")),
            "kind": pa.array(generator.choice(["a", "b"], count)).dictionary_encode(),
        }
    )
    release = SyntheticTable(**PROMISE, bounds="auto").release(table)
    rows = release.value.sample(500, 1)
    plain = [one.type.value_type if pa.types.is_dictionary(one.type) else one.type for one in table.schema]
    assert rows.schema.types == plain
    assert rows.column_names == table.column_names
    day = rows["day"].to_pylist()
    assert min(day) > datetime.date(2010, 1, 1)
    assert max(day) < datetime.date(2030, 1, 1)


def test_a_value_of_one_person_alone_stays_hidden() -> None:
    data = people(3000).drop(columns="who")
    data.loc[0, "town"] = "Zermatt"
    for seed in range(5):
        _, rows = drawn(data, bounds="auto", generator=SeededGenerator(seed))
        assert "Zermatt" not in set(rows["town"])
        assert {"Aarau", "Bern", "Chur"} <= set(rows["town"])


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "bounds must be 'auto'"),
        ({"bounds": "guess"}, "bounds must be 'auto'"),
        ({"bounds": "auto", "between": {"income": (5, 5)}}, "from low to high"),
        ({"bounds": "auto", "between": {"income": 5}}, "two numbers"),
        ({"bounds": "auto", "between": {"town": (0, 1)}}, "list its values"),
        ({"bounds": "auto", "between": {"wage": (0, 1)}}, "'wage' is missing"),
        ({"bounds": "auto", "values": {"town": []}}, "must be a list"),
        ({"bounds": "auto", "label": "income"}, "list its values"),
        ({"bounds": "auto", "columns": ["who", "town"], "unit": "who", "rows_per_unit": 2}, "names people"),
        ({"bounds": "auto", "unit": "who"}, "unit and rows_per_unit"),
        ({"bounds": "auto", "columns": ["ill"], "label": "ill"}, "at least one column"),
    ],
)
def test_mistakes_are_refused_with_nothing_spent(changes: dict[str, Any], words: str, tmp_path: Any) -> None:
    account: Account = new_account(tmp_path)
    with pytest.raises(GaussveilError, match=words):
        SyntheticTable(**PROMISE, account=account, **changes).release(people(50))
    assert Ledger(account.ledger).entries(account.name) == []


def test_a_plan_looks_at_no_row() -> None:
    columns = [name for name in people(1) if name != "who"]
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, label="ill")
    plans = [table.plan(people(count)[columns]) for count in (5, 500)]
    assert plans[0].charge.digest == plans[1].charge.digest
    assert plans[0].parameters == plans[1].parameters


def test_the_attack_reaches_every_draw() -> None:
    """Counts, three searches, means by class, cells, the mixture's radii and moments; each is moved by a unit."""
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, label="ill")
    data = people(900).drop(columns="who")
    rare = pd.DataFrame([{**PLAIN, "income": 9e5, "height": 219, "ill": "no"}])
    without = Replay(table, data)
    neighbour = Replay(table, pd.concat([data, rare], ignore_index=True), without.outputs)
    moved = [bool(np.any(mine != theirs)) for mine, theirs in zip(without.sums, neighbour.sums, strict=True)]
    assert all(moved)
    sizes = [one.shape for one in without.sums]
    assert (2, 3) in sizes  # sums of scores by class, of three columns whose cells were looked for
    assert squared_loss(without, neighbour) <= without.shift**2


def test_a_mean_of_scores_moves_by_its_ball_at_most() -> None:
    """However far out a record's scores are, and in whichever class it lies."""
    table = SyntheticTable(**PROMISE, between=RANGES, values=VALUES, label="ill")
    data = people(900).drop(columns="who")
    without = Replay(table, data)
    place = next(index for index, one in enumerate(without.sums) if one.shape == (2, 3))
    share = vars(table._shares(table._records(data)))["means"]
    for row in (EXTREME, PLAIN, MISSING):
        somebody = pd.DataFrame([{**row, "ill": "no"}])
        neighbour = Replay(table, pd.concat([data, somebody], ignore_index=True), without.outputs)
        gap = neighbour.sums[place] - without.sums[place]
        loss = float(np.sum(gap**2)) / float(without.noises[place].continuous_covariance)
        assert loss <= share * without.shift**2
    assert not gap[:, [0, 2]].any(), "a missing cell has a score of zero"


def test_cells_are_a_partition() -> None:
    cells = Cells.of([0.0, 1.0, 2.0, 4.0], [0.0, 2.0])
    numbers = np.array([-5.0, 0.0, 1e-9, 1.0, 1.5, 2.0, 2.5, 4.0, 9.0, np.nan])
    assert cells.codes(numbers).tolist() == [0, 0, 1, 1, 2, 3, 4, 4, 4, -1]
    assert cells.size == 5
    assert cells.low.tolist() == [0.0, 0.0, 1.0, 2.0, 2.0]
    assert cells.high.tolist() == [0.0, 1.0, 2.0, 2.0, 4.0]


def test_round_numbers_are_found_again() -> None:
    assert shortest_decimal(9.987, 9.9931) == 9.99
    assert shortest_decimal(-0.3, 0.2) == 0.0
    assert shortest_decimal(1234.4, 1251.0) == 1250.0
    assert shortest_decimal(-12.6, -11.8) == -12.0


def test_a_release_is_the_same_however_its_model_is_kept() -> None:
    data = people(800).drop(columns="who")
    table, _ = drawn(data, between=RANGES, values=VALUES)
    model: SyntheticModel = table.model_
    assert replace(model, certificate=None).sample(20, 1).equals(model.sample(20, 1))


def test_values_of_any_number_of_columns_are_found_in_one_draw() -> None:
    """A draw for each would pass the limit of draws, after the debit."""
    words = np.random.default_rng(2).choice(["yes", "no"], (9000, MOST_DRAWS + 6))
    data = pd.DataFrame(words, columns=[f"answer {number}" for number in range(MOST_DRAWS + 6)])
    table = SyntheticTable(**PROMISE, bounds="auto")
    records = table._records(data)
    shares = table._shares(records)
    error = table._key_error(records)
    draws = SyntheticDraws(records, table._mean_shift(records), shares, SeededGenerator(1), error)
    columns = found_columns(draws, error)
    assert [one.values for one in columns] == [("no", "yes", "other")] * len(columns)
    assert draws.passes.draws == 1
    assert draws.passes.spent == pytest.approx(shares.found * draws.allowed**2)


@pytest.mark.parametrize("form", ["%H:%M", "%H:%M:%S"])
def test_texts_with_a_range_of_times_of_day_are_times_of_day(form: str) -> None:
    generator = np.random.default_rng(5)
    seconds = generator.normal(8 * 3600, 1800, 9000).clip(6 * 3600, 10 * 3600)
    if form == "%H:%M":
        seconds = seconds // 900 * 900
    clocks = (pd.Timestamp(0) + pd.to_timedelta(seconds.astype(int), "s")).strftime(form)
    data = pd.DataFrame({"at": clocks, "kwh": generator.gamma(2, 1, 9000)})
    data.loc[::4, "at"] = "never"
    ends = ("06:00", "22:00") if form == "%H:%M" else ("06:00:00", "22:00:00")
    _, rows = drawn(data, between={"at": ends, "kwh": (0, 20)})
    assert rows["at"].isna().mean() == pytest.approx(0.25, abs=0.05)
    known = rows["at"].dropna()
    assert pd.to_datetime(known, format=form).dt.strftime(form).equals(known)
    assert known.between(*ends).all()
    told = pd.to_timedelta(known if form != "%H:%M" else known + ":00").dt.total_seconds()
    assert abs(told.mean() - seconds.mean()) < 120
    with pytest.raises(GaussveilError, match="two times of day"):
        drawn(data, between={"at": ("6", "22"), "kwh": (0, 20)})
