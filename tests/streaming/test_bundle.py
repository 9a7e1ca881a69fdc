"""Meters under one key of state: each is answered as if it were alone, and damaged state is refused."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.errors import FormatError
from gaussveil.streaming import Meter
from gaussveil.streaming.bundle import answer_bundle, bundle_count, bundle_key, pack_states, unpack_states
from gaussveil.streaming.replay import _FILTERS, MeterReplay

SECRET = bytes(range(32))
ROUNDS = [
    {"a": [(0, 1.0), (1, 2.0)], "b": [(0, 1.0)]},
    {"b": [(1, 2.0), (3, 0.5)], "stranger": [(0, 9.0)]},
    {"a": [(2, 3.0), (1, 2.0)], "b": [(3, 0.5), (4, 1.0)], "c": [(7, 1.0)]},
]


@pytest.mark.parametrize("which", [0, 1, 2])
def test_meters_of_one_design_are_answered_as_if_alone(meters: tuple[Meter, ...], which: int) -> None:
    group = {name: replace(meters[which], name=name) for name in ("a", "b", "c")}
    stored, together = None, []
    for readings in ROUNDS:
        stored, answers = answer_bundle(group, SECRET, 0, stored, readings)
        assert all(answer.meter == name for name, answer in answers)
        together += [
            (name, first, tuple(values), answer.energies) for name, answer in answers for first, values in answer.runs
        ]
    alone = []
    for name, meter in group.items():
        kept = None
        for readings in ROUNDS:
            _FILTERS.clear()  # built anew: nothing of another meter can be left in them
            if name in readings:
                kept, own = MeterReplay(meter).answer(SECRET, kept, readings[name])
                alone += [
                    (name, first, tuple(values), answer.energies) for answer in own for first, values in answer.runs
                ]
        assert unpack_states(stored)[name] == kept
    assert sorted(together, key=repr) == sorted(alone, key=repr)
    assert set(unpack_states(stored)) == {"a", "b", "c"}
    # equal readings of meters of equal design have noise of their own
    assert next(v for n, f, v, _ in together if (n, f) == ("a", 0)) != next(
        v for n, f, v, _ in together if (n, f) == ("b", 0)
    )


def test_a_failure_leaves_nothing_behind_for_the_next_meter(meters: tuple[Meter, ...]) -> None:
    first, second = replace(meters[1], name="first"), replace(meters[1], name="second")
    wanted = MeterReplay(second).answer(SECRET, None, [(0, 1.0)])[0]
    with pytest.raises(TypeError):
        MeterReplay(first).answer(SECRET, None, [(0, 1.0), (1, None)])  # type: ignore[list-item]
    assert MeterReplay(second).answer(SECRET, None, [(0, 1.0)])[0] == wanted


@given(st.dictionaries(st.text(max_size=5), st.binary(max_size=40), max_size=5))
def test_states_survive_packing(states: dict[str, bytes]) -> None:
    packed = pack_states(states)
    assert unpack_states(packed) == states
    assert pack_states(dict(reversed(list(states.items())))) == packed
    for bad in [b"XXXX" + packed[4:], packed + b"\1", *([packed[:-1]] if states else [])]:
        with pytest.raises(FormatError):
            unpack_states(bad)


def test_keys_hold_about_as_many_meters_as_asked() -> None:
    assert [bundle_count(meters, 16) for meters in (1, 16, 17, 1600)] == [1, 1, 2, 100]
    sizes = [0] * 100
    for k in range(1600):
        sizes[zlib.crc32(f"m{k}".encode()) % 100] += 1
    assert max(sizes) < 64
    assert bundle_key("meter", 100) == "pmod(crc32(CAST(meter AS BINARY)), 100)"
