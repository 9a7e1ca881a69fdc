"""What another choice would give, as a plan says: beside the plan of the request that was really changed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gaussveil import CDF, Count, Histogram, Ledger, Mean, Quantile, Share, Sum, TableRelease, Variance, hour_of

RANGE = (0.0, 8.0)
EDGES = (0.0, 2.0, 4.0)
ZONES = ["a", "b", "c"]
ANSWERS = [
    Count(),
    Sum("kw", between=RANGE),
    Mean("kw", between=RANGE),
    Variance("kw", between=RANGE),
    Share("kw", between=(2.0, 4.0)),
    Histogram("kw", edges=EDGES),
    CDF("kw", edges=EDGES),
    Quantile("kw", 0.5, between=RANGE),
    Mean("kw", bounds="auto"),
    Sum("kw", bounds="auto"),
    Mean("kw", unit_norm=3.0),
    Variance("kw", bounds="auto"),
    Quantile("kw", 0.5, bounds="auto"),
]
PROMISES: list[dict[str, Any]] = [
    {"by": {"zone": ZONES}},
    {"by": {"zone": ZONES}, "groups_per_unit": 2, "rows_per_group": 4},
    {"by": {"hour": hour_of("time")}, "rows_per_group": 2, "law": "gaussian"},
]


def really_changed(made: TableRelease, words: str) -> TableRelease:
    """The request that the words of a what-if name, as somebody would write it."""
    answers: Sequence[Any] = [made.answers] if not isinstance(made.answers, Sequence) else made.answers
    name, _, change = words.partition(": ")
    if words.startswith("without "):
        return replace(made, answers=[one for one in answers if one.name != words.removeprefix("without ")])
    if not change:
        option, _, number = words.partition("=")
        return replace(made, **{option: int(number)})
    option, _, value = change.partition("=")
    if option == "between":
        low, high = (float(end) for end in value.strip("()").split(","))
        said: Mapping[str, Any] = {"between": (low, high)}
    else:
        said = {option: value == "True"}
    return replace(made, answers=[replace(one, **said) if one.name == name else one for one in answers])


def compared(made: TableRelease) -> set[str]:
    """Every factor of a plan is that of the deviations of two plans; which options were named."""
    now = made.plan().deviations(500)
    told = made.plan().alternatives_of_each(500)
    for words, factors in told.items():
        then = really_changed(made, words).plan().deviations(500)
        assert factors == pytest.approx({name: sd / now[name] for name, sd in then.items() if now[name] > 0}, rel=1e-9)
    return {words.partition(": ")[-1] or words for words in told}


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda one: one.words)
def test_every_what_if_is_what_the_changed_request_would_give(answer: Any) -> None:
    options = set()
    for choice in PROMISES:
        options |= compared(TableRelease(unit="home", epsilon=1.0, delta=1e-6, answers=answer, **choice))
    assert {"groups_per_unit=1", "groups_per_unit=12", "rows_per_group=2", "rows_per_group=1"} <= options


def test_a_what_if_is_planned_with_the_law_that_it_would_get() -> None:
    """Fewer groups make Laplace noise the better one: two thirds of the width, where Gaussian noise has a half."""
    made = TableRelease(unit="home", epsilon=1.0, delta=1e-6, by={"zone": list(range(40))}, answers=Count())
    few = replace(made, groups_per_unit=8)
    assert (few.plan().law, replace(made, groups_per_unit=20).plan().law) == ("laplace", "gaussian")
    assert compared(replace(made, groups_per_unit=16)) == {"groups_per_unit=8"}


def test_what_ifs_of_several_answers_and_beside_an_account(tmp_path: Any) -> None:
    both = TableRelease(
        unit="home",
        epsilon=1.0,
        delta=1e-6,
        by={"zone": ZONES},
        answers=[ANSWERS[0], ANSWERS[2], ANSWERS[5], ANSWERS[7]],
    )
    assert {"without count", "without quantile_kw"} <= compared(both)
    account = Ledger.create(tmp_path / "a.ledger").open_account("a", epsilon=3, delta=1e-5)
    assert compared(replace(both, account=account, groups_per_unit=2))


def test_a_cut_of_groups_tells_both_ends_of_where_units_may_be() -> None:
    """Units in one group each keep their groups full; of units in all of eight groups a cut to four leaves half."""
    asked = {"unit": "home", "epsilon": 1.0, "delta": 1e-6, "by": {"zone": list(range(8))}}
    made = TableRelease(**asked, answers=Mean("kw", between=RANGE))
    plan, few = made.plan(), replace(made, groups_per_unit=4).plan()
    best, worst = (plan.alternatives_of_each(600, crowded=crowded) for crowded in (False, True))
    now = plan.deviations(600)["mean_kw"]
    assert best["groups_per_unit=4"]["mean_kw"] == pytest.approx(few.deviations(600)["mean_kw"] / now, rel=1e-9)
    assert worst["groups_per_unit=4"]["mean_kw"] == pytest.approx(few.deviations(300)["mean_kw"] / now, rel=1e-9)
    assert {words for words in best if best[words] != worst[words]} == {"groups_per_unit=4"}
    assert best["groups_per_unit=4"]["mean_kw"] < 1 < worst["groups_per_unit=4"]["mean_kw"]
    assert plan.costliest[0] != "groups_per_unit=4"
