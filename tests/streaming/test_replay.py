"""One meter's answers from state that somebody else keeps: repeated work says the same again, and nothing else."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gaussveil.errors import FormatError, ParameterError
from gaussveil.noise.keyed import KeyedGenerator
from gaussveil.streaming import Answer, Meter
from gaussveil.streaming.messages import encode_batch, encode_readings
from gaussveil.streaming.replay import MeterReplay, readings_of

Meters = tuple[Meter, ...]
SECRET = bytes(range(32))


def flat(answers: list[Answer]) -> dict[object, float]:
    """Every output by its number; energies by name and first reading."""
    found: dict[object, float] = {}
    for answer in answers:
        for first, values in answer.runs:
            found |= {first + k: value for k, value in enumerate(values.tolist())}
        found |= {(energy.name, energy.first): energy.kwh for energy in answer.energies}
    return found


@given(cuts=st.lists(st.integers(1, 60), max_size=6), which=st.integers(0, 2))
def test_however_readings_are_cut_the_bytes_are_the_same(meters: Meters, cuts: list[int], which: int) -> None:
    readings = [(k, math.sin(k)) for k in range(60)]
    state, whole = MeterReplay(meters[which]).answer(SECRET, None, readings)
    assert set(range(60)) <= set(flat(whole))
    pieces, kept = [], None
    bounds = [0, *sorted(set(cuts)), 60]
    for start, stop in pairwise(bounds):
        kept, answers = MeterReplay(meters[which]).answer(SECRET, kept, readings[start:stop])
        pieces += answers
    assert flat(pieces) == flat(whole)
    assert kept == state


def test_repeated_work_says_the_same_and_another_value_shares_no_noise(meters: Meters) -> None:
    replay = MeterReplay(meters[0])
    state, _ = replay.answer(SECRET, None, [(0, 1.0)])
    once, again = (flat(replay.answer(SECRET, state, [(1, 2.0), (2, 3.0)])[1]) for _ in range(2))
    assert once == again
    changed = flat(replay.answer(SECRET, state, [(1, 2.5), (2, 3.0)])[1])
    # with shared noise the first difference would be exactly 0.5 and the second exactly 0
    assert changed[1] - once[1] != 0.5
    assert changed[2] != once[2]
    other_key = flat(replay.answer(b"k" * 32, None, [(0, 1.0)])[1])
    assert other_key != flat(replay.answer(SECRET, None, [(0, 1.0)])[1])


def test_answered_readings_are_neither_repeated_nor_changed(meters: Meters) -> None:
    replay = MeterReplay(meters[1])
    state, first = replay.answer(SECRET, None, [(0, 1.0), (1, 2.0)])
    assert len(flat(first)) == 2
    for reading in ((1, 2.0), (1, 7.0), (0, math.nan)):
        kept, answers = replay.answer(SECRET, state, [reading])
        assert (kept, answers) == (state, [])
    order = [(3, 1.0), (2, math.nan), (3, 5.0), (2, 4.0)]
    assert flat(replay.answer(SECRET, state, order)[1]) == flat(replay.answer(SECRET, state, order[::-1])[1])
    assert replay.answer(SECRET, state, [(-1, 1.0), (2**63, 1.0), (2**61, 1.0)]) == (state, [])


def test_a_negative_zero_is_no_second_reading(meters: Meters) -> None:
    """Equal, so they stay in order of arrival, which a repeated micro-batch may change: one noise for both."""
    replay, zeros = MeterReplay(meters[1]), [(0, 0.0), (0, -0.0)]
    once, other = (replay.answer(SECRET, None, readings) for readings in (zeros, zeros[::-1]))
    assert flat(once[1]) == flat(other[1])
    assert once[0] == other[0]


def test_the_law_is_the_designs(meters: Meters) -> None:
    """Noise keyed by the history has the deviation of the design, from one meter to the next."""
    ends = []
    for k in range(400):
        _, answers = MeterReplay(meters[1]).answer(k.to_bytes(32, "big"), None, [(j, 0.0) for j in range(3)])
        ends.append(flat(answers)[2])
    assert np.std(ends) == pytest.approx(meters[1].design.noise_sd, rel=0.25)  # seven deviations of the estimate


def test_after_a_reset_nothing_earlier_is_answered(meters: Meters) -> None:
    replay = MeterReplay(meters[0], first_sequence=100)
    state, answers = replay.answer(SECRET, None, [(99, 1.0)])
    assert answers == []
    assert list(flat(replay.answer(SECRET, state, [(100, 1.0)])[1])) == [100]


def test_damaged_state_and_short_keys_are_refused(meters: Meters) -> None:
    replay = MeterReplay(meters[0])
    state, _ = replay.answer(SECRET, None, [(0, 1.0)])
    for bad in (b"XXXX" + state[4:], state[:-8], state + bytes(8)):
        with pytest.raises(FormatError):
            replay.answer(SECRET, bad, [(1, 1.0)])
    with pytest.raises(ParameterError, match="32 bytes"):
        KeyedGenerator(b"short")
    with pytest.raises(TypeError, match="secret"):
        KeyedGenerator(SECRET).__reduce__()


def test_payloads_are_the_gateways(meters: Meters) -> None:
    payloads = [*encode_readings(4, np.array([1.5])), encode_batch(5, np.array([2.5, math.nan])), b"no reading"]
    found = readings_of("m", payloads)
    assert [sequence for sequence, _ in found] == [4, 5, 6]
    assert [value for _, value in found[:2]] == [1.5, 2.5]
    assert math.isnan(found[2][1])
