"""Nothing is spent for nothing: whatever can fail after a table's draw has been tried before the debit."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Collection
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from gaussveil import (
    CDF,
    Count,
    Histogram,
    Ledger,
    Mean,
    Quantile,
    Share,
    Sum,
    TableRelease,
    Variance,
    bin_of,
    date_of,
    discover,
    hour_of,
)
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.table import release
from gaussveil.mechanisms.table.draws import Drawn
from gaussveil.mechanisms.table.estimates import Estimates
from gaussveil.mechanisms.table.laws import draws_of
from gaussveil.noise import SeededGenerator
from gaussveil.statistics import MemorySource, as_source

ROWS = 400
RANGE = (0.0, 8.0)
ANSWERS: dict[str, Callable[..., Any]] = {
    "count": lambda **_: Count(),
    "sum": lambda **bound: Sum("kw", **bound),
    "mean": lambda **bound: Mean("kw", **bound),
    "variance": lambda **bound: Variance("kw", **bound),
    "share": lambda between=RANGE, **_: Share("kw", between=between),
    "histogram": lambda **_: Histogram("kw", (0, 1, 2, 4)),
    "cdf": lambda **_: CDF("kw", (0, 1, 2, 4, 8)),
    "quantile": lambda **bound: Quantile("kw", (0.25, 0.5), **bound),
}
BOUNDS: dict[str, dict[str, Any]] = {
    "between": {"between": RANGE},
    "auto": {"bounds": "auto"},
    "one norm": {"unit_norm": 3.0},
    "three norms": {"unit_norm": (3.0, 3.0, 3.0)},
}
KEYS: dict[str, tuple[dict[str, Any], int]] = {
    "nothing": ({}, 1),
    "list": ({"zone": ["a", "b"]}, 2),
    "one value": ({"zone": ["a"]}, 1),
    "hour": ({"hour": hour_of("time")}, 24),
    "dates and bins": ({"day": date_of("time", "2024-01-01", "2024-01-02"), "size": bin_of("kw", (0, 1, 8))}, 4),
    "texts found": ({"zone": discover("zone", per_unit=2)}, 2),
    "numbers found": ({"house": discover("house"), "zone": ["a", "b"]}, 4),
}
LIBRARIES: dict[str, Callable[[pa.Table], Any]] = {
    "arrow": lambda table: table,
    "pandas": lambda table: table.to_pandas(),
    "polars": pl.from_arrow,
    "source": as_source,
}


def table() -> pa.Table:
    rng = np.random.default_rng(4)
    homes = np.arange(ROWS) // 2
    times = np.datetime64("2024-01-01", "us") + rng.integers(0, 48, ROWS) * np.timedelta64(1, "h")
    columns = {"home": homes, "zone": ["a", "b"] * (ROWS // 2), "house": homes % 2, "time": times}
    return pa.table(columns | {"kw": np.minimum(rng.gamma(2.0, 1.0, ROWS), 7.9)})


def requests(kinds: Collection[str], alone: Collection[str]) -> list[tuple[str, list[Any], str]]:
    """Name, answers and keys of every request that is not refused: a bound together, and by some keys alone."""
    made = []
    for (bound, given), keys in itertools.product(BOUNDS.items(), kinds):
        fitting = dict(ANSWERS) if bound == "between" else {}
        if bound == "auto":
            fitting |= {name: ANSWERS[name] for name in ("variance", "quantile")}
        if "found" not in keys:  # norms are of curves over public keys
            fitting |= {name: ANSWERS[name] for name in ("sum", "mean")}
        if keys in alone:
            made += [(f"{name}, {bound}, {keys}", [answer(**given)], keys) for name, answer in fitting.items()]
        asked = {"count": Count(), **{name: answer(**given) for name, answer in fitting.items()}}
        made.append((f"all, {bound}, {keys}", list(asked.values()), keys))
    return made


def asked(answers: Any, keys: str, **changes: Any) -> TableRelease:
    design = {"unit": "home", "epsilon": 8.0, "delta": 0.01, "by": KEYS[keys][0], "generator": SeededGenerator(1)}
    return TableRelease(answers=answers, **{**design, **changes})


@pytest.mark.parametrize("totals", [False, True], ids=["groups", "totals"])
@pytest.mark.parametrize("library", LIBRARIES)
def test_every_request_gives_the_frame_that_was_rehearsed(library: str, totals: bool, full: bool) -> None:
    data = LIBRARIES[library](table())
    every = full or library == "arrow"
    few = ("dates and bins", "texts found")  # columns of every type
    kinds = KEYS if full or (every and totals) else few
    alone = KEYS if full else ("list",) if every and totals else ()
    for name, answers, keys in requests(kinds, alone):
        made = asked(answers, keys, totals=totals)
        *nobody, rehearsed = (one.value for one in made.rehearsals(data))
        value = made.release(data).value if every else rehearsed
        assert type(value).__module__.startswith(
            {"source": "pyarrow"}.get(library, library.replace("arrow", "pyarrow"))
        )
        assert type(rehearsed) is type(value), name
        assert len(value) == KEYS[keys][1] + totals, name
        for frame in (rehearsed, *nobody):
            assert names_of(frame) == names_of(value), name
        assert [len(frame) for frame in nobody] == [0] * ("found" in keys), name


def names_of(frame: Any) -> list[str]:
    return list(frame.column_names if isinstance(frame, pa.Table) else frame.columns)


@pytest.mark.parametrize("keys", ["list", "texts found"])
@pytest.mark.parametrize("step", ["answers_frame", "Estimates"])
def test_what_fails_after_the_draw_fails_before_the_debit(
    keys: str, step: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    account = Ledger.create(tmp_path / "town.ledger").open_account("winter", epsilon=20.0, delta=0.1)

    def fails(*_: Any, **__: Any) -> Any:
        raise MemoryError("no room for the frame")

    made = asked([Count(), Mean("kw", between=RANGE)], keys, account=account, generator=None)
    made.release(table())
    monkeypatch.setattr(release, step, fails)
    for does in (made.release, made.dry_run):
        with pytest.raises(MemoryError):
            does(table())
    assert len(Ledger(account.ledger).entries("winter")) == 1


def test_a_rehearsal_reads_no_row_and_promises_nothing(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "town.ledger").open_account("winter", epsilon=20.0, delta=0.1)
    made = asked([Count(), Mean("kw", between=RANGE)], "texts found", account=account, generator=None)
    none, both = made.rehearsals(table())
    assert Ledger(account.ledger).entries("winter") == []
    assert both.certificate.guarantee.kind == "none"
    assert both.certificate.account == "not recorded"
    assert both.value["zone"].to_pylist() == ["value 0", "value 1"]  # not the table's own
    again = made.rehearsals(table().slice(0, 3))
    assert [one.value for one in again] == [none.value, both.value]


def test_totals_of_curves_are_their_sum_and_their_mean() -> None:
    answers = [Sum("kw", RANGE, unit_norm=(9.0,) * 3), Mean("kw", RANGE, unit_norm=(9.0,) * 3)]
    made = asked(answers, "hour", epsilon=55.0, delta=0.5, totals=True)
    rows = pa.table({"home": np.repeat(np.arange(500), 24), "time": table()["time"].take(np.zeros(12000, dtype=int))})
    hours = np.tile(np.arange(24), 500)
    rows = rows.set_column(1, "time", pa.array(np.datetime64("2024-01-01", "us") + hours * np.timedelta64(1, "h")))
    found = made.release(rows.append_column("kw", pa.array(1.0 + hours / 24))).value
    whole, mean = found["sum_kw"].to_numpy(), found["mean_kw"].to_numpy()
    assert whole[24] == pytest.approx(500 * (1.0 + np.arange(24) / 24).sum(), rel=0.01)
    assert mean[24] == pytest.approx((1.0 + np.arange(24) / 24).mean(), rel=0.01)
    assert whole[24] == pytest.approx(whole[:24].sum(), rel=1e-9)
    assert mean[24] == pytest.approx(mean[:24].mean(), rel=1e-9)


def test_deviations_of_totals_are_those_of_the_noise() -> None:
    """Where nothing is clipped: what is given back of clipping is uncertain, too, which only the bands hold."""
    answers = [Sum("kw", RANGE, unit_norm=(20.0,) * 3), Mean("kw", RANGE, unit_norm=(20.0,) * 3)]
    noise = asked(answers, "list", epsilon=2.0, totals=True).plan().noise
    made = draws_of(noise, as_source(table()), SeededGenerator(1))
    made.prepare()
    draws = []
    for _ in range(60):
        made.spent, made.draws = 0.0, 0
        draws.append(Estimates(noise, Drawn(profiles=made.profiles()), total=True).columns())
    for name in ("sum_kw", "mean_kw"):
        last = np.array([one[name].value[2] for one in draws])
        stated = np.mean([one[name].deviation[2] for one in draws])
        assert np.std(last) == pytest.approx(stated, rel=0.35), name  # four deviations of sixty draws


def test_columns_of_one_name_are_refused_before_anything_is_spent(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "town.ledger").open_account("winter", epsilon=20.0, delta=0.1)
    made = asked(Count(), "list", by={"count_sd": discover("zone", per_unit=2)}, account=account, generator=None)
    with pytest.raises(ParameterError, match="'count_sd' twice"):
        made.release(table())
    assert Ledger(account.ledger).entries("winter") == []


class Watched(MemorySource):
    """A table that counts how often it was read."""

    passes = 0

    def batches(self, columns: Any, order: Any = ()) -> Any:
        type(self).passes += 1
        return super().batches(columns, order)


@pytest.mark.parametrize("keys", ["list", "texts found"])
def test_a_dry_run_reads_no_row(keys: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Watched, "passes", 0)
    made = asked([Count(), Mean("kw", between=RANGE)], keys)
    plan = made.dry_run(Watched(table()))
    assert plan is not None
    assert plan.charge == made.plan().charge
    assert Watched.passes == 0
    made.release(Watched(table()))
    assert Watched.passes > 0
