from __future__ import annotations

from fractions import Fraction

import pytest

from gaussveil.timeseries.clock import duration_minutes


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("30s", Fraction(1, 2)), ("5min", 5), ("5 m", 5), (" 3h ", 180), ("0.1h", 6), ("2d", 2880), ("0h", 0)],
)
def test_durations_are_exact(text: str, minutes: Fraction) -> None:
    assert duration_minutes(text) == minutes


@pytest.mark.parametrize("text", ["", "h", "-1h", "1e3h", "1 hour", "1h30min", "٣h", "3", 3, None])
def test_other_text_is_no_duration(text: object) -> None:
    assert duration_minutes(text) is None
