"""States that were saved before are read, and written again to the letter: the format of what runs for years stays."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gaussveil import MeterFleet, MeterStream, RunningTotal
from gaussveil.errors import FormatError
from gaussveil.noise import SeededGenerator

# Text of records, as version 1 wrote them on 19 November 2026, by kind and whether they were opened.
SAVED: dict[str, str] = json.loads(Path(__file__).with_name("saved_states.json").read_text(encoding="utf-8"))
KINDS = {"meter stream": MeterStream, "meter fleet": MeterFleet, "running total": RunningTotal}


def kind_of(name: str) -> type[MeterStream | RunningTotal]:
    return KINDS[name.partition(",")[0]]


@pytest.mark.parametrize("name", SAVED)
def test_a_saved_state_is_read_and_written_to_the_letter(name: str) -> None:
    again = kind_of(name).from_record(json.loads(SAVED[name]))
    assert json.dumps(again.to_record(), allow_nan=False) == SAVED[name]
    assert again.is_open == ("not open" not in name)


@pytest.mark.parametrize("name", ["meter stream", "running total"])
def test_what_was_read_goes_on(name: str) -> None:
    """Two readers with the same generator answer alike, and the state moves on with what they answer."""
    first, second = (kind_of(name).from_record(json.loads(SAVED[name]), generator=SeededGenerator(7)) for _ in range(2))
    assert first.push_many([0.3, 0.4]).tolist() == second.push_many([0.3, 0.4]).tolist()
    assert first.index == json.loads(SAVED[name]).get("index", 33) + 2
    assert first.to_record() == second.to_record() != json.loads(SAVED[name])


@pytest.mark.parametrize("name", ["meter stream", "running total"])
def test_another_kind_or_version_is_refused_by_name(name: str) -> None:
    kind, record = kind_of(name), json.loads(SAVED[name])
    for change in ({"format": "gaussveil meter"}, {"version": 2}):
        with pytest.raises(FormatError, match=f"house 7 is not a {name} of version 1"):
            kind.from_record({**record, **change}, "house 7")
    for damage in ({"design": None}, {"open": {}}, {"account": 3}):
        with pytest.raises(FormatError):
            kind.from_record({**record, **damage}, "house 7")
