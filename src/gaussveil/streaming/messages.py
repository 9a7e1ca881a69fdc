"""How readings travel: one JSON object per reading, or a binary batch of consecutive readings.

JSON: {"seq": 17, "kw": 0.42}; kw that is no number means a missing reading. Binary: the four bytes GVB1, the first
sequence number as an unsigned 64-bit integer, then the readings as 64-bit floats, all little endian; NaN is missing.
Answers have the same form as the message they answer.
"""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Iterator

import numpy as np

from gaussveil.mechanisms.meter_stream.registers import Energy
from gaussveil.streaming.readings import Answer, Message
from gaussveil.typing import Floats

MARK = b"GVB1"
HEAD = struct.Struct("<4sQ")
LARGEST_BATCH = 4096
LARGEST_PAYLOAD = HEAD.size + 8 * LARGEST_BATCH
LARGEST_TEXT = 4096  # bytes of one JSON reading; ours have fewer than a hundred
_JSON = json.JSONDecoder()


def is_batch(payload: bytes) -> bool:
    """Whether a payload is binary."""
    return payload[:4] == MARK


def decode(meter: str, payload: bytes) -> Message | None:
    """The message in a payload; None if it has no usable sequence number."""
    if is_batch(payload):
        size = len(payload) - HEAD.size
        if size <= 0 or size % 8 or size > 8 * LARGEST_BATCH:
            return None
        _, sequence = HEAD.unpack_from(payload)
        return Message(meter, sequence, np.frombuffer(payload, "<f8", offset=HEAD.size))
    return from_record(meter, parse_record(payload))


def parse_record(body: bytes) -> object:
    """JSON of a reading; None where it is none, or too long to be one."""
    if len(body) > LARGEST_TEXT:
        return None
    try:
        return _JSON.decode(str(body, "utf-8"))
    except (UnicodeDecodeError, ValueError, RecursionError):
        return None


def from_record(meter: str, record: object) -> Message | None:
    """The message in a JSON object; what is no number counts as missing."""
    if not isinstance(record, dict) or type(record.get("seq")) is not int:
        return None
    value = record.get("kw")
    reading = math.nan
    if isinstance(value, int | float) and not isinstance(value, bool):
        try:
            reading = float(value)
        except OverflowError:
            if value > 0:
                reading = math.inf
            else:
                reading = -math.inf
    return Message(meter, record["seq"], np.array([reading]))


def fault(body: bytes) -> str:
    """Why a line is no reading of a meter; of the line nothing is repeated."""
    if len(body) > LARGEST_TEXT:
        return f"it is longer than {LARGEST_TEXT} bytes"
    record = parse_record(body)
    if not isinstance(record, dict):
        return 'it is no JSON object such as {"meter": "m1", "seq": 17, "kw": 0.42}'
    if not isinstance(record.get("meter"), str):
        return '"meter" must be a text'
    if type(record.get("seq")) is not int:
        return '"seq" must be a whole number'
    return '"kw" must be a number such as 0.4: no text, no decimal comma, no null (or --missing substitute)'


def decode_line(body: bytes) -> Message | None:
    """The message in a JSON object that names its meter."""
    record = parse_record(body)
    if isinstance(record, dict):
        meter = record.get("meter")
    else:
        meter = None
    if isinstance(meter, str):
        return from_record(meter, record)
    return None


def encode_answer(answer: Answer, *, batch: bool) -> Iterator[tuple[str, bytes]]:
    """Payloads of private readings, "power", and of registers, "energy"."""
    for sequence, values in answer.runs:
        for payload in (
            (encode_batch(sequence, values),)
            if batch
            else encode_readings(sequence, values)
        ):
            yield "power", payload
    for energy in answer.energies:
        yield "energy", encode_energy(energy)


def encode_batch(sequence: int, values: Floats) -> bytes:
    """A binary payload."""
    return HEAD.pack(MARK, sequence) + np.ascontiguousarray(values, "<f8").tobytes()


def encode_readings(sequence: int, values: Floats) -> Iterator[bytes]:
    """JSON payloads, one per reading; the shortest digits that give the number back."""
    for offset, value in enumerate(values.tolist()):
        yield b'{"seq": %d, "kw": %s}' % (sequence + offset, repr(value).encode())


def encode_energy(energy: Energy) -> bytes:
    """A register as JSON."""
    record = {
        "register": energy.name,
        "first": energy.first,
        "samples": energy.samples,
        "kwh": energy.kwh,
    }
    return json.dumps(record).encode()
