"""Parameters beyond all reason are refused before anything is debited, and no refusal or repr tells of the data."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from gaussveil.accounting import Account, Ledger
from gaussveil.errors import GaussveilError, ParameterError, SchemaError
from gaussveil.mechanisms import Count, Mean, MeterFleet, Quantile, Sum, TableRelease, Variance
from gaussveil.mechanisms.logistic import PrivateBayesianLogisticRegression
from gaussveil.mechanisms.records import Records
from gaussveil.mechanisms.regression.components import PrivateCovariance
from gaussveil.mechanisms.regression.linear import PrivateLinearRegression
from gaussveil.mechanisms.regression.logistic import PrivateLogisticRegression
from gaussveil.mechanisms.table.draws import TableDraws
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import Block, as_source
from gaussveil.statistics.keys import discover
from gaussveil.statistics.unit_cells import UnitCells
from gaussveil.streaming.readings import Segment

ROWS = np.random.default_rng(0).normal(size=(40, 2))
LABELS = [0, 1] * 20
TABLE = pa.table({"home": np.arange(40), "x": np.linspace(0, 1, 40), "z": np.arange(40) % 2, "none": pa.nulls(40)})
TINY, HUGE = (1e-320, 1e-300, 1e-100), (1e100, 1e160, 1e300)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger.create(tmp_path / "spent.ledger")


@pytest.fixture
def account(ledger: Ledger) -> Account:
    return ledger.open_account("homes", epsilon=400.0, delta=1e-3)


def table(account: Account, answer: Any, by: Any = None) -> object:
    asked = {"z": [0, 1]} if by is None else by
    made = TableRelease(unit="home", epsilon=1.0, delta=1e-6, by=asked, answers=[answer], account=account)
    return made.release(TABLE)


def linear(account: Account, **given: Any) -> object:
    given = {"bounds": (-3, 3), "target_bounds": (-3, 3)} | given
    return PrivateLinearRegression(account=account, **given).fit(ROWS, ROWS[:, 0])


def logistic(account: Account, **given: Any) -> object:
    return PrivateLogisticRegression(account=account, classes=[0, 1], **{"bounds": (-3, 3)} | given).fit(ROWS, LABELS)


def covariance(account: Account, **given: Any) -> object:
    return PrivateCovariance(account=account, **{"bounds": (-3, 3)} | given).fit(ROWS)


REFUSED: dict[str, tuple[str, Callable[[Account], object]]] = {
    **{f"unit_norm {v}": ("unit_norm", lambda a, v=v: table(a, Mean("x", (0, 1), unit_norm=v))) for v in TINY + HUGE},
    "three norms": ("unit_norm", lambda a: table(a, Sum("x", (0, 1), unit_norm=(1.0, 1e-300, 1.0)))),
    **{f"variance {v}": ("between", lambda a, v=v: table(a, Variance("x", (0, v)))) for v in TINY + HUGE},
    **{f"quantile {v}": ("between", lambda a, v=v: table(a, Quantile("x", 0.5, (-v, v)))) for v in TINY + HUGE},
    "auto in a tiny range": ("between", lambda a: table(a, Mean("x", (0, 1e-100), bounds="auto"))),
    **{f"row_norm {v}": ("row_norm", lambda a, v=v: linear(a, row_norm=v)) for v in TINY + HUGE},
    **{f"logistic {v}": ("row_norm", lambda a, v=v: logistic(a, row_norm=v)) for v in TINY + HUGE},
    **{f"covariance {v}": ("row_norm", lambda a, v=v: covariance(a, row_norm=v)) for v in TINY + HUGE},
    "posterior": (
        "row_norm",
        lambda a: PrivateBayesianLogisticRegression(row_norm=1e-320, classes=[0, 1], account=a).fit(ROWS, LABELS),
    ),
    **{f"bounds {v}": ("bounds", lambda a, v=v: covariance(a, bounds=(-v, v))) for v in TINY + HUGE},
    "least bounds": ("bounds", lambda a: linear(a, bounds=(0, 5e-324))),
    "least target_bounds": ("target_bounds", lambda a: linear(a, target_bounds=(0, 5e-324))),
    "three ends": ("bounds", lambda a: linear(a, bounds={"x0": (1, 2, 3)})),
    "one end": ("bounds", lambda a: linear(a, bounds={"x0": 5})),
    **{
        f"labels {name} of {column}": ("labels", lambda a, v=v, c=column: table(a, Count(), {c: v}))
        for name, v in {"mixed": [1, "a"], "objects": [object()], "lists": [[1], [2]], "pairs": [(1,), (2,)]}.items()
        for column in ("z", "none")
    },
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_in_our_words_before_anything_is_spent(name: str, ledger: Ledger, account: Account) -> None:
    parameter, attempt = REFUSED[name]
    with pytest.raises(ParameterError, match=f"{parameter} .*must be"):
        attempt(account)
    assert ledger.entries("homes") == []


@pytest.mark.parametrize("end", [1e-40, 1e40])
def test_at_the_ends_of_what_is_allowed_answers_are_numbers(end: float) -> None:
    for norm in (1e-40, 1.0, 1e40):
        for target in (1e-40, 1e40):
            given: dict[str, Any] = {"bounds": (0, end), "row_norm": norm, "generator": SeededGenerator(1)}
            fitted = PrivateLinearRegression(target_bounds=(0, target), **given).fit(ROWS * end, ROWS[:, 0] * target)
            assert np.isfinite(fitted.coef_).all()
        assert np.isfinite(PrivateCovariance(**given).fit(ROWS * end).covariance_).all()
        assert np.isfinite(PrivateLogisticRegression(classes=[0, 1], **given).fit(ROWS * end, LABELS).coef_).all()
    answers = [Variance("x", (0, end)), Mean("x", (0, end), unit_norm=end), Quantile("x", 0.5, (0, end))]
    for answer in (*answers, Sum("x", (0, end)), Mean("x", (0, end), bounds="auto")):
        made = TableRelease(unit="home", epsilon=1.0, delta=1e-6, answers=[answer], generator=SeededGenerator(1))
        for column in made.release(TABLE).value.columns:
            assert np.isfinite(column.to_numpy()).all()


def test_keys_that_are_no_text_are_dropped_and_the_others_are_found() -> None:
    offsets = np.arange(0, 6001, 2, dtype=np.int32)
    words = pa.StringArray.from_buffers(
        3000, pa.py_buffer(offsets.tobytes()), pa.py_buffer(b"\xff\xfeok\xfe\xfe" * 1000)
    )
    made = TableRelease(unit="home", epsilon=1.0, delta=1e-6, by={"z": discover("z")}, answers=[Count()])
    found = made.release(pa.table({"home": np.arange(3000), "z": words})).value
    assert found["z"].to_pylist() == ["ok"]


def test_a_refusal_of_arrays_tells_no_number_of_rows() -> None:
    attempts: list[Callable[[], object]] = [
        lambda: PrivateLinearRegression().fit(ROWS, ROWS[:37, 0]),
        lambda: PrivateLogisticRegression(classes=[0, 1]).fit(ROWS, ROWS),
        lambda: PrivateLogisticRegression(classes=[0, 1]).fit(ROWS, LABELS[:37]),
        lambda: PrivateBayesianLogisticRegression(classes=[0, 1]).fit(ROWS, LABELS[:37]),
        lambda: PrivateLinearRegression().fit(ROWS[:, :0], ROWS[:, 0]),
    ]
    for attempt in attempts:
        with pytest.raises(SchemaError) as refusal:
            attempt()
        assert not {"37", "40"} & set("".join(c if c.isdigit() else " " for c in str(refusal.value)).split())


def test_no_repr_shows_what_was_read() -> None:
    secret = np.array([[42.5]])
    plan = TableRelease(unit="home", epsilon=1.0, delta=1e-6, answers=[Count()]).plan()
    draws = TableDraws(as_source(TABLE), plan.noise, plan.noise.mean_shift, None)
    draws.prepare()
    kept = [Records(secret, secret[0], "row"), Block(secret), Segment(0, 0, False, 0, 0, [secret[0]])]
    assert not any("42.5" in repr(one) for one in kept)
    assert "totals" not in repr(draws)
    assert UnitCells.__repr__ is object.__repr__


def test_a_meter_counts_once_and_a_fleets_parameters_are_checked() -> None:
    given: dict[str, Any] = {"sample_period": "15min", "epsilon": 1.0, "delta": 1e-5, "home": "1h"}
    twice = pd.DataFrame([[1.0, 2.0]], columns=["m1", "m1"])
    for frame in (twice, pa.table([[1.0], [1.0]], names=["m1", "m1"])):
        with pytest.raises(GaussveilError, match="one per meter"):
            MeterFleet.design(**given).push_many(frame)
    same = pd.DataFrame([[1.0, 1.0]], columns=["m1", "m2"])
    assert MeterFleet.design(**given).push_many(same).shape == (1,)
    changes: list[dict[str, Any]] = [
        {"limits": "ab"},
        {"limits": (1,)},
        {"sample_period": None},
        {"home": None, "event": 3},
    ]
    for change in changes:
        with pytest.raises(ParameterError, match="must be"):
            MeterFleet.design(**given | change)
