"""Packets of MQTT 3.1.1: how they are written, and taken out of what has arrived."""

from __future__ import annotations

from dataclasses import dataclass, field

from gaussveil.errors import SourceError

PUBLISH = 0x30


NO_PACKET = "the broker sent what is no MQTT packet."


@dataclass(frozen=True, slots=True)
class Arrived:
    """A publication; `payload` is None where it was too large to be held. `number` is 0 at QoS 0."""

    topic: bytes
    payload: bytes | None = field(repr=False)
    number: int


def publication(
    data: bytearray, kind: int, start: int, stop: int, *, held: bool
) -> Arrived:
    """Section 3.3."""
    after = start + 2 + int.from_bytes(data[start : start + 2], "big")
    if after + (2 if kind & 6 else 0) > stop:
        raise SourceError(NO_PACKET)
    topic = bytes(data[start + 2 : after])
    number = 0
    if kind & 6:
        number = data[after] << 8 | data[after + 1]
        after += 2
    return Arrived(topic, bytes(data[after:stop]) if held else None, number)


def remaining_length(data: bytearray, position: int) -> tuple[int, int] | None:
    """Section 2.2.3: where the rest begins and how long it is; None if that is not there yet."""
    length = 0
    for place in range(4):
        if position + place >= len(data):
            return None
        byte = data[position + place]
        length |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            return position + place + 1, length
    raise SourceError(NO_PACKET)


def packet_of(kind: int, body: bytes) -> bytes:
    """A packet of a kind, with its length ahead of its body."""
    length = len(body)
    head = bytearray([kind])
    while length > 127:
        head.append(length & 0x7F | 0x80)
        length >>= 7
    head.append(length)
    return bytes(head) + body


def mqtt_text(text: str) -> bytes:
    """A text with its length ahead of it."""
    encoded = text.encode()
    return len(encoded).to_bytes(2, "big") + encoded
