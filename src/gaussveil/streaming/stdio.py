"""The embedded transport: one JSON line per reading in, one per private reading out.

In: {"meter": "m1", "seq": 17, "kw": 0.42}. Out, in the same order: {"meter": "m1", "seq": 17, "kw": 3.1}, and for
billing {"meter": "m1", "register": "day", "first": 0, "samples": 288, "kwh": 9.7}. Lines that are ready together are
answered in one durable group.
"""

from __future__ import annotations

import json
import math
import os
import select
from collections.abc import Iterator, Sequence
from typing import BinaryIO

from gaussveil.streaming.gateway import MessageGateway
from gaussveil.streaming.messages import (
    LARGEST_TEXT,
    decode_line,
    encode_answer,
    fault,
)
from gaussveil.streaming.monitor import LOGGER
from gaussveil.streaming.readings import Answer, Message

GROUP_BYTES = 1 << 16
TOLD = 20  # lines whose faults are told one by one; all are counted


def serve_lines(
    gateway: MessageGateway,
    source: BinaryIO,
    target: BinaryIO,
    *,
    keep: int | None = None,
) -> None:
    """Answer until the source ends; the first lines that are no readings are told with their number and the reason.

    Nobody confirms a line, so all answers stay, or the last `keep` of each meter: the same lines again get the same
    answers, whoever read the first ones.
    """
    number = 0
    refused = 0
    for lines in _groups(source):
        messages = []
        for line in lines:
            number += 1
            if not line.strip():
                continue
            message = decode_line(line)
            if message is None:
                gateway.refuse("payload")
            else:
                messages.append(message)
            if _is_refused(message, gateway):
                refused += 1
                if refused <= TOLD:
                    LOGGER.warning("line %d is refused: %s", number, fault(line))
        if messages:
            _write_answers(gateway, messages, target)
        target.flush()
        if keep is not None:
            gateway.forget_before(keep)


def _write_answers(
    gateway: MessageGateway, messages: Sequence[Message], target: BinaryIO
) -> None:
    """Write what answers the messages, a line each."""
    for answer in gateway.answer(messages):
        for line in _lines(answer):
            target.write(line + b"\n")
        gateway.hand_over(answer)


def _is_refused(message: Message | None, gateway: MessageGateway) -> bool:
    if message is None:
        return True
    return gateway.missing == "refuse" and math.isnan(message.values[0])


def _lines(answer: Answer) -> Iterator[bytes]:
    head = b'{"meter": %s, ' % json.dumps(answer.meter).encode()
    for _, payload in encode_answer(answer, batch=False):
        yield head + payload[1:]


def _groups(source: BinaryIO) -> Iterator[list[bytes]]:
    """Whole lines, as many as are there without waiting."""
    descriptor = source.fileno()
    rest = b""
    while True:
        chunk = os.read(descriptor, GROUP_BYTES)
        if not chunk:
            break
        while (
            len(chunk) < 16 * GROUP_BYTES and select.select([descriptor], [], [], 0)[0]
        ):
            more = os.read(descriptor, GROUP_BYTES)
            if not more:
                break
            chunk += more
        *lines, rest = (rest + chunk).split(b"\n")
        rest = rest[
            : LARGEST_TEXT + 1
        ]  # of a line that long no more is kept: it is refused when it ends
        yield lines
    yield [rest]
