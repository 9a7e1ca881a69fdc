"""The gateway's rules for one meter whose state another system keeps, and whose work may be done twice.

Spark commits state and output of a micro-batch together, but after a failure it runs the micro-batch again from the
state before it. Outputs of the first run may have been seen. So nothing here is drawn afresh: the noise of a reading is
a keyed function of the meter's answered history up to and including that reading. The same readings again give the
same bytes; in order, also if they are cut into other micro-batches. Another value gives independent noise from there
on, never the same noise on two values.

Whoever holds the key and the outputs can take the noise off: keep it, and the state, like the readings themselves.
"""

from __future__ import annotations

import hmac
import math
import struct
from collections.abc import Iterable
from pathlib import Path

import numpy as np

from gaussveil.errors import FormatError
from gaussveil.noise.keyed import KEY_BYTES, KeyedGenerator
from gaussveil.streaming.gateway import LARGEST_SEQUENCE, Answer, Gateway, Message
from gaussveil.streaming.messages import decode
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.state import _ARRAYS, NONE, Records, StreamState

MARK = b"GVS1"
READING = struct.Struct("<qd")
CACHED_METERS = 4096

Reading = tuple[int, float]


class MeterState(StreamState):
    """Filters, registers and kept outputs of one meter; whoever calls keeps the bytes."""

    def __init__(self, meter: Meter, first_sequence: int = 0) -> None:
        super().__init__(Path(), [meter], NONE, first_sequence)
        self._fresh = self.to_bytes()

    def commit(self, records: Records) -> None:
        """Nothing: the state is made durable together with the outputs, by whoever keeps it."""

    def to_bytes(self) -> bytes:
        """All arrays; their shapes follow from the meter's design."""
        return b"".join(array.tobytes() for array in self._arrays())

    def load(self, stored: bytes) -> None:
        """Inverse of `to_bytes`."""
        position = 0
        for array in self._arrays():
            part = stored[position : position + array.nbytes]
            if len(part) != array.nbytes:
                raise FormatError("the state of a meter does not fit its design. Start anew with a reset.")
            array[...] = np.frombuffer(part, array.dtype).reshape(array.shape)
            position += array.nbytes
        if position != len(stored):
            raise FormatError("the state of a meter does not fit its design. Start anew with a reset.")

    def forget(self) -> None:
        """As if no reading had ever come."""
        self.load(self._fresh)

    def _arrays(self) -> list[np.ndarray]:
        return [*(getattr(self, name) for name in _ARRAYS), self.bank.states, self.bank.past]


class MeterReplay:
    """Answers one meter's readings from given state; equal state and readings give equal bytes."""

    def __init__(self, meter: Meter, first_sequence: int = 0) -> None:
        self.meter = meter
        self._state = MeterState(meter, first_sequence)
        self._generator = KeyedGenerator(bytes(KEY_BYTES))
        self._gateway = Gateway([meter], self._state, generator=self._generator)

    def answer(self, secret: bytes, stored: bytes | None, readings: Iterable[Reading]) -> tuple[bytes, list[Answer]]:
        """The new state and the answers to readings that were not answered before, by sequence number."""
        if stored is None:
            self._state.forget()
            chain = hmac.digest(secret, f"{self.meter.certificate.release_id}/{self.meter.name}".encode(), "sha256")
        else:
            if stored[:4] != MARK:
                raise FormatError("the state of a meter is of another version. Start anew with a reset.")
            chain = stored[4 : 4 + KEY_BYTES]
            self._state.load(stored[4 + KEY_BYTES :])
        answers = []
        for sequence, value in sorted(readings, key=_rank):
            if not 0 <= sequence < LARGEST_SEQUENCE:
                continue  # the gateway's rule for numbers that no meter has
            label = READING.pack(sequence, math.nan if math.isnan(value) else value + 0.0)  # -0.0 is the same reading
            self._generator.aim(chain, b"noise" + label)
            answer = self._gateway.answer([Message(self.meter.name, sequence, np.array([value]))])[0]
            if self._generator.used:  # otherwise refused, or answered before and given out then
                chain = hmac.digest(chain, b"chain" + label, "sha256")
                answers.append(answer)
        return MARK + chain + self._state.to_bytes(), answers


def replay_of(meter: Meter, first_sequence: int) -> MeterReplay:
    """A worker meets the same meters in every micro-batch; their filters are built once."""
    key = (meter.certificate.release_id, meter.name, first_sequence)
    if key not in _REPLAYS:
        if len(_REPLAYS) >= CACHED_METERS:
            _REPLAYS.clear()
        _REPLAYS[key] = MeterReplay(meter, first_sequence)
    return _REPLAYS[key]


def readings_of(meter: str, payloads: Iterable[bytes]) -> list[Reading]:
    """The readings in payloads of the gateway's form; what has no usable sequence number is left out."""
    messages = [message for message in (decode(meter, payload) for payload in payloads) if message is not None]
    return [
        (message.sequence + offset, value)
        for message in messages
        for offset, value in enumerate(message.values.tolist())
    ]


_REPLAYS: dict[tuple[str, str, int], MeterReplay] = {}


def _rank(reading: Reading) -> tuple[int, bool, float]:
    """By number; of several values under one number always the same is first, in whatever order they came."""
    sequence, value = reading
    return sequence, math.isnan(value), 0.0 if math.isnan(value) else value
