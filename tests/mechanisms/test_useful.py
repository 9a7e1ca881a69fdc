"""Whether a request can be useful: the number of units that is said is the one at which the noise is small enough."""

from __future__ import annotations

import re
from typing import Any

import pytest

from gaussveil import Count, Mean, MeterStream, RunningTotal, Share, Sum, TableRelease
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.forecast_plan import ForecastPlan
from gaussveil.mechanisms.table.useful import of_groups
from gaussveil.statistics import hour_of, value_of

ZONES = [f"zone {number}" for number in range(10)]
FEEDERS = {"by": {"hour": hour_of("time"), "zone": value_of("zone", ZONES)}, "groups_per_unit": 24}


def planned(**changes: Any) -> Any:
    return TableRelease(unit="household", epsilon=1.0, delta=1e-6, **changes).plan()


def test_zones_by_hours_of_few_homes_need_thousands() -> None:
    plan = planned(**FEEDERS, answers=Mean("kw", bounds="auto"))
    found = plan.useful(300)
    assert not found
    assert 3000 < found.needed < 5000
    assert "cannot be useful with 300 units" in str(found)
    assert "groups in place of 240" in str(found)
    assert "a model" in str(found)
    assert plan.useful(5000)
    assert plan.useful().words.startswith("useful from about")


@pytest.mark.parametrize("units", [40, 150, 300])
@pytest.mark.parametrize("touched", [1, 4, 24])
@pytest.mark.parametrize("answer", [Mean("kw", between=(0.0, 3.0)), Count()], ids=["mean", "count"])
def test_fewer_groups_are_useful_when_they_are_asked_for(answer: Any, touched: int, units: int) -> None:
    plan = planned(by={"zone": list(range(24))}, groups_per_unit=touched, answers=answer)
    told = str(plan.useful(units))
    if (found := re.search(r"(one|\d+) groups? in place of 24(?: \((\d+) of them)?", told)) is None:
        wanted = planned(by={"zone": [0]}, answers=answer).useful(units)
        assert plan.useful(units) or not wanted
        return
    groups = 1 if found[1] == "one" else int(found[1])
    followed = planned(by={"zone": list(range(groups))}, groups_per_unit=int(found[2] or groups), answers=answer)
    assert followed.useful(units)
    more = of_groups(plan.request, groups + 1)
    followed = planned(by={"zone": list(range(groups + 1))}, groups_per_unit=more.touched, answers=answer)
    assert not followed.useful(units)


@pytest.mark.parametrize("spread", [None, 0.1, 1.0])
def test_the_units_named_are_just_enough(spread: float | None) -> None:
    plan = planned(**FEEDERS, answers=Mean("kw", between=(0.0, 3.0)))
    needed = plan.useful(spread=spread).needed
    wanted = 0.5 * (0.3 if spread is None else spread)
    assert plan.deviations(needed // 10)["mean_kw"] <= wanted
    assert plan.deviations(int(0.95 * needed / 10))["mean_kw"] > wanted
    assert plan.useful(needed, spread=spread)
    assert not plan.useful(needed - 1, spread=spread)


def test_units_that_are_in_every_group_are_not_divided_among_them() -> None:
    hours = {"by": {"hour": hour_of("time")}, "answers": Mean("kw", between=(0.0, 3.0))}
    together, divided = planned(**hours), planned(**hours, groups_per_unit=1)
    assert "in each of" not in str(together.useful())
    assert "in each of 24 groups" in str(divided.useful())


def test_counts_sums_and_shares_are_held_against_themselves() -> None:
    plan = planned(answers=[Count(), Sum("kw", between=(0.0, 3.0)), Share("kw", (1.0, 2.0))])
    needed = plan.useful().needed
    found = plan.deviations(needed)
    assert max(found["count"] / needed, found["sum_kw"] / (0.3 * needed) / 10, found["share_kw"]) <= 0.05 * 1.1
    with pytest.raises(ParameterError, match="spread"):
        plan.useful(spread=-1.0)
    with pytest.raises(ParameterError, match="units"):
        plan.useful(0)


def test_streams_say_what_they_are_good_for_or_what_to_ask_instead() -> None:
    given: dict[str, Any] = {"sample_period": "5min", "epsilon": 1.0, "delta": 1e-5, "event": (0.5, "1h")}
    shape = MeterStream.design(**given).plan()
    assert bool(shape.useful()) is bool(shape.good_for)
    large = MeterStream.design(**{**given, "event": (3.0, "1h")}).plan().useful()
    assert not large
    assert "Ask instead for purpose" in str(large)
    hopeless = MeterStream.design(**{**given, "event": (10.0, "28d")}, purpose="registers", registers=("day",)).plan()
    assert "homes (MeterFleet)" in str(hopeless.useful())


def test_totals_and_forecasts_say_it_too() -> None:
    plan = RunningTotal(steps=1024, epsilon=1.0, delta=1e-5).plan()
    assert plan.useful(10 * plan.last_sd)
    assert "times as many meters" in str(plan.useful(plan.last_sd))
    assert not ForecastPlan("a sentence", kept=0.05, group=12).useful()
    kept = ForecastPlan("a sentence", kept=0.3, group=12)
    assert kept == "a sentence"
    assert kept.useful()
