"""A few hundred numbers of the library stay what they were: on every machine, build and Python."""

from __future__ import annotations

import math

from .house_numbers import AGREEMENT, differing, numbers, same, stored


def test_numbers_are_those_that_were_stored() -> None:
    """Who changes one on purpose writes them anew and lists it under "Numbers changed"."""
    assert differing(numbers(1), stored()) == []


def test_what_counts_as_the_same_number() -> None:
    assert same(math.nan, math.nan)
    assert same(1.0, 1.0 + 0.5 * AGREEMENT)
    assert not same(1.0, 1.0 + 2.0 * AGREEMENT)
    assert not same(math.nan, 1.0)
    assert not same(0.0, 1e-280)
    assert differing({"a": 1.0, "b": 2.0}, {"a": 1.0, "c": 2.0}) == ["b", "c"]
