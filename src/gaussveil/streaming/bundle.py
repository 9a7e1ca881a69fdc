"""Meters that share one key of Spark's state.

For a key Spark takes some milliseconds a micro-batch, whatever is in it; a reading takes a tenth of that. So the state
of several meters lies under one key. Each meter keeps its own history, chain of keys and filters: which meters lie
together changes no byte of what is answered.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

from gaussveil.errors import FormatError
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.readings import Answer
from gaussveil.streaming.replay import MeterReplay, Reading

MARK = b"GVK1"  # states under one key; batches of readings begin with GVB1
LENGTHS = struct.Struct("<II")  # of a meter's name and of its state


def bundle_count(meters: int, meters_per_key: int) -> int:
    """How many keys hold so many meters."""
    return -(-meters // meters_per_key)


def bundle_key(column: str, bundles: int) -> str:
    """SQL for the key of a meter: a checksum that is the same in every version of Spark."""
    return f"pmod(crc32(CAST({column} AS BINARY)), {bundles})"


def answer_bundle(
    meters: Mapping[str, Meter],
    secret: bytes,
    first_sequence: int,
    stored: bytes | None,
    readings: Mapping[str, list[Reading]],
) -> tuple[bytes, list[tuple[str, Answer]]]:
    """The new state and the answers, by meter; meters that nobody knows are left out."""
    if stored is None:
        states = {}
    else:
        states = unpack_states(stored)
    answers = []
    for name in sorted(readings):
        if name in meters:
            replay = MeterReplay(meters[name], first_sequence)
            states[name], own = replay.answer(secret, states.get(name), readings[name])
            answers += [(name, answer) for answer in own]
    return pack_states(states), answers


def pack_states(states: Mapping[str, bytes]) -> bytes:
    """The states of some meters as one value, in the order of their names."""
    parts = [MARK]
    for name, state in sorted(states.items()):
        encoded = name.encode()
        parts += [LENGTHS.pack(len(encoded), len(state)), encoded, state]
    return b"".join(parts)


def unpack_states(packed: bytes) -> dict[str, bytes]:
    """Inverse of `pack_states`."""
    if packed[: len(MARK)] != MARK:
        raise FormatError(
            "the state of some meters is of another version. Start anew with a reset."
        )
    states: dict[str, bytes] = {}
    position = len(MARK)
    while position < len(packed):
        head = packed[position : position + LENGTHS.size]
        name_size, state_size = (
            LENGTHS.unpack(head) if len(head) == LENGTHS.size else (0, len(packed))
        )
        start = position + LENGTHS.size + name_size
        position = start + state_size
        if position > len(packed):
            raise FormatError(
                "the state of some meters is damaged. Start anew with a reset."
            )
        states[packed[start - name_size : start].decode()] = packed[start:position]
    return states
