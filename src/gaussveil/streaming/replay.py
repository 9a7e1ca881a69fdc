"""The gateway's rules for one meter whose state another system keeps, and whose work may be done twice.

Nothing here is drawn afresh: the noise of a reading is a keyed function of the meter's answered history up to and
including that reading. The same readings again give the same bytes; another value gives independent noise from there
on, never the same noise on two values (docs/sources.md). Whoever holds key and outputs can take the noise off.
"""

from __future__ import annotations

import hmac
import math
import struct
import threading
from collections.abc import Iterable

import numpy as np

from gaussveil.errors import FormatError
from gaussveil.mechanisms.meter_stream.design import StreamDesign
from gaussveil.noise.keyed import KEY_BYTES, KeyedGenerator
from gaussveil.streaming.gateway import LARGEST_SEQUENCE, Gateway
from gaussveil.streaming.held_state import StreamMemory
from gaussveil.streaming.messages import decode
from gaussveil.streaming.meters import Meter
from gaussveil.streaming.readings import Answer, Message

MARK = b"GVS2"
READING = struct.Struct("<qd")
CACHED_DESIGNS = 4096

Reading = tuple[int, float]


class MeterState(StreamMemory):
    """Filters, registers and positions of one meter; whoever calls keeps the bytes, and delivers what is answered."""

    def __init__(self, meter: Meter, first_sequence: int = 0) -> None:
        super().__init__([meter])
        self.arrays.next[:] = first_sequence
        self.arrays.confirmed[:] = (
            LARGEST_SEQUENCE  # nothing is answered twice here, so nothing is kept for it
        )
        self._fresh = self.to_bytes()

    def to_bytes(self) -> bytes:
        """All arrays; their shapes follow from the meter's design."""
        return b"".join(array.tobytes() for array in self._arrays())

    def load(self, stored: bytes) -> None:
        """Inverse of `to_bytes`."""
        arrays = self._arrays()
        if len(stored) != sum(array.nbytes for array in arrays):
            raise FormatError(
                "the state of a meter does not fit its design. Start anew with a reset."
            )
        position = 0
        for array in arrays:
            part = stored[position : position + array.nbytes]
            array[...] = np.frombuffer(part, array.dtype).reshape(array.shape)
            position += array.nbytes

    def forget(self) -> None:
        """As if no reading had ever come."""
        self.load(self._fresh)

    def _arrays(self) -> list[np.ndarray]:
        arrays = self.arrays
        return [arrays.next, arrays.started, arrays.sums, arrays.states, arrays.past]


class _Filters:
    """Filters and rules of one design. Meters of equal design take turns: each brings its whole state along."""

    def __init__(self, meter: Meter, first_sequence: int) -> None:
        self.name = meter.name
        self.lock = threading.Lock()
        self.state = MeterState(meter, first_sequence)
        self.generator = KeyedGenerator(bytes(KEY_BYTES), complete_labels=True)
        self.gateway = Gateway(
            [meter], self.state, generator=self.generator, missing="substitute"
        )


class MeterReplay:
    """Answers one meter's readings from given state; equal state and readings give equal bytes."""

    def __init__(self, meter: Meter, first_sequence: int = 0) -> None:
        self.meter = meter
        self._key = (meter.design, first_sequence)

    def answer(
        self, secret: bytes, stored: bytes | None, readings: Iterable[Reading]
    ) -> tuple[bytes, list[Answer]]:
        """The new state and the answers to readings that were not answered before, by sequence number."""
        filters = self._filters()
        try:
            with filters.lock:
                return self._answer(filters, secret, stored, readings)
        except BaseException:
            _FILTERS.pop(self._key, None)  # half-done work must not meet another meter
            raise

    def _answer(
        self,
        filters: _Filters,
        secret: bytes,
        stored: bytes | None,
        readings: Iterable[Reading],
    ) -> tuple[bytes, list[Answer]]:
        if stored is None:
            filters.state.forget()
            chain = hmac.digest(
                secret,
                f"{self.meter.certificate.release_id}/{self.meter.name}".encode(),
                "sha256",
            )
        else:
            if stored[:4] != MARK:
                raise FormatError(
                    "the state of a meter is of another version. Start anew with a reset."
                )
            chain = stored[4 : 4 + KEY_BYTES]
            filters.state.load(stored[4 + KEY_BYTES :])
        answers = []
        for sequence, value in sorted(readings, key=_rank):
            if not 0 <= sequence < LARGEST_SEQUENCE:
                continue  # the gateway's rule for numbers that no meter has
            label = READING.pack(
                sequence, math.nan if math.isnan(value) else value + 0.0
            )  # -0.0 is the same reading
            filters.generator.aim(chain, b"noise" + label)
            answer = filters.gateway.answer(
                [Message(filters.name, sequence, np.array([value]))]
            )[0]
            if (
                filters.generator.used
            ):  # otherwise refused, or answered before and given out then
                chain = hmac.digest(chain, b"chain" + label, "sha256")
                answer.meter = self.meter.name
                answers.append(answer)
        return MARK + chain + filters.state.to_bytes(), answers

    def _filters(self) -> _Filters:
        """A worker meets the same designs in every micro-batch; their filters are built once."""
        if self._key not in _FILTERS:
            if len(_FILTERS) >= CACHED_DESIGNS:
                _FILTERS.clear()
            _FILTERS[self._key] = _Filters(self.meter, self._key[1])
        return _FILTERS[self._key]


def readings_of(meter: str, payloads: Iterable[bytes]) -> list[Reading]:
    """The readings in payloads of the gateway's form; what has no usable sequence number is left out."""
    messages = [
        message
        for message in (decode(meter, payload) for payload in payloads)
        if message is not None
    ]
    return [
        (message.sequence + offset, value)
        for message in messages
        for offset, value in enumerate(message.values.tolist())
    ]


_FILTERS: dict[tuple[StreamDesign, int], _Filters] = {}


def _rank(reading: Reading) -> tuple[int, bool, float]:
    """By number; of several values under one number always the same is first, in whatever order they came."""
    sequence, value = reading
    return sequence, math.isnan(value), 0.0 if math.isnan(value) else value
