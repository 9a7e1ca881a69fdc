"""What was asked in the caller's words: answers and keys, one by one, before they are a request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gaussveil.errors import ParameterError
from gaussveil.mechanisms.table.answers import (
    Histogram,
    Mean,
    Quantile,
    Sum,
    TableAnswer,
    Variance,
)
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Discovered, Listed, value_of


def answers_of(answers: Any) -> list[TableAnswer]:
    """The answers, one or a list of them."""
    if isinstance(answers, TableAnswer):
        return [answers]
    asked = list(answers)
    if not asked or not all(isinstance(answer, TableAnswer) for answer in asked):
        raise ParameterError(
            "answers must be a list of answers such as [Count(), Mean('kw', between=(0, 10))]."
        )
    return asked


def with_bounds(answer: TableAnswer, unit_norm: Any, bounds: Any) -> TableAnswer:
    """An answer that states none of its own, with the request's bounds."""
    if isinstance(answer, Mean | Sum) and not answer.is_profile:
        return replace(answer, unit_norm=unit_norm, bounds=bounds)
    if isinstance(answer, Variance | Quantile) and answer.between is None:
        return replace(answer, bounds=bounds)
    return answer


def in_rows(asked: Sequence[TableAnswer], whole: bool) -> list[TableAnswer]:
    """Histograms in whole rows where no unit has parts of rows, unless they say otherwise."""
    return [
        replace(one, whole=whole)
        if isinstance(one, Histogram) and one.whole is None
        else one
        for one in asked
    ]


def merged(asked: Sequence[TableAnswer]) -> list[TableAnswer]:
    """Quantiles of one column within one range are one answer: they are searched for together."""
    kept: dict[object, TableAnswer] = {}
    for one in asked:
        place: object = len(kept)
        if isinstance(one, Quantile):
            place = (one.column, one.between, one.bounds)
            before = kept.get(place)
            if isinstance(before, Quantile):
                one = replace(one, q=(*before.shares, *one.shares))
        kept[place] = one
    return list(kept.values())


def key_of(name: str, given: Any, other: bool) -> Key | Discovered:
    """A key as it is, or the listed values of the column of its name."""
    if isinstance(given, Sequence | range) and not isinstance(given, str):
        given = value_of(name, given)
    if isinstance(given, Listed) and other:
        given = value_of(given.column, given.listed, other=True)
    if isinstance(given, Key | Discovered):
        return given
    raise ParameterError(
        f"the key {name!r} must be a list of values, hour_of(column) and its like, or discover(column). Got {given!r}."
    )
