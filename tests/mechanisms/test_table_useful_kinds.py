"""Every kind of answer is judged before it is called useful, and learnt bounds by how many units they need."""

from __future__ import annotations

from typing import Any

import pytest

from gaussveil import CDF, Count, Histogram, Mean, Quantile, Share, Sum, TableRelease, Variance, hour_of

EDGES = (0.0, 1.0, 2.0, 5.0)


def planned(*answers: Any, **changed: Any) -> Any:
    hours = {"hour": hour_of("time")}
    return TableRelease(unit="home", epsilon=1, delta=1e-6, by=hours, answers=[*answers], **changed).plan()


@pytest.mark.parametrize(
    "answer",
    [
        Count(),
        Mean("kw", between=(0, 10)),
        Sum("kw", between=(0, 10)),
        Share("kw", (1.0, 5.0)),
        Variance("kw", between=(0, 10)),
        Histogram("kw", EDGES),
        CDF("kw", EDGES),
        Quantile("kw", (0.5,), between=(0, 10)),
    ],
    ids=lambda answer: answer.name,
)
def test_nothing_is_useful_of_five_homes_by_hour(answer: Any) -> None:
    plan = planned(answer)
    assert not plan.useful(5).verdict
    needed = plan.useful(None).needed
    assert needed > 20
    assert plan.useful(2 * needed).verdict


def test_cumulative_shares_are_planned_although_the_last_has_no_noise() -> None:
    plan = planned(CDF("kw", EDGES))
    assert plan.deviations()["cdf_kw 5"] == 0.0
    assert 0.0 < plan.laws()["gaussian"].error < float("inf")


def test_learnt_bounds_are_not_useful_before_they_can_be_trusted() -> None:
    plan = planned(Mean("kw"), bounds="auto", groups_per_unit=1)
    fewest = plan.fewest_units
    assert not plan.useful(fewest - 1, spread=1e6).verdict
    assert str(fewest // 10) in str(plan.useful(fewest - 1, spread=1e6))
    assert plan.useful(fewest, spread=1e6).verdict
