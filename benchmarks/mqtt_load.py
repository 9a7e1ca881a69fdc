"""A lean MQTT 3.1.1 client that loads a broker: packets made beforehand, many per system call, QoS 1 both ways.

A general client in Python needs more time for a short message than broker and gateway together, so it would measure
itself. This one keeps at most a window of messages unconfirmed, like any client, and counts what comes back.
"""

from __future__ import annotations

import json
import select
import socket
import struct
import time
from collections.abc import Collection, Sequence

PUBLISH, PUBACK = 0x30, 0x40


def publication(topic: str, payload: bytes, number: int) -> bytes:
    """A PUBLISH packet, QoS 1."""
    name = topic.encode()
    body = struct.pack(">H", len(name)) + name + struct.pack(">H", number) + payload
    return b"\x32" + _length(len(body)) + body


def begins(body: bytes) -> bytes:
    """Topic and first twelve bytes, in a batch its mark and number, of a PUBLISH packet of QoS 1."""
    end = 2 + int.from_bytes(body[:2], "big")
    return body[2:end] + body[end + 2 : end + 14]


def _length(size: int) -> bytes:
    made = bytearray()
    while True:
        size, digit = divmod(size, 128)
        made.append(digit | (128 if size else 0))
        if not size:
            return bytes(made)


class LoadClient:
    """Connects and subscribes; `seconds` sends messages and waits until as many have come back."""

    def __init__(self, port: int, topic: str, name: str = "load", window: int = 100) -> None:
        self.window = window
        self.socket = socket.create_connection(("127.0.0.1", port), 10)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        who, what = name.encode(), topic.encode()
        connect = b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack(">H", len(who)) + who
        self.socket.sendall(b"\x10" + _length(len(connect)) + connect)
        self._expect(0x20, 4)
        subscribe = b"\x00\x01" + struct.pack(">H", len(what)) + what + b"\x01"
        self.socket.sendall(b"\x82" + _length(len(subscribe)) + subscribe)
        self._expect(0x90, 5)
        self.rest = b""

    def _expect(self, command: int, size: int) -> None:
        data = b""
        while len(data) < size:
            data += self.socket.recv(size - len(data))
        if data[0] != command or data[-1] > 1:
            raise RuntimeError(f"the broker answered {data.hex()}")

    def seconds(
        self,
        messages: Sequence[tuple[str, bytes]],
        patience: float = 300.0,
        awaited: Collection[bytes] = (),
    ) -> float:
        """Wall time from the first packet sent to the last one received.

        With `awaited` the answers that begin so, topic and payload, must have come, whatever else does: after a kill a
        broker sends again what was answered before.
        """
        packets = [publication(topic, payload, 1 + k % 65535) for k, (topic, payload) in enumerate(messages)]
        sent = confirmed = received = 0
        missing = set(awaited)
        seen: list[bytes] | None = [] if missing else None
        self.socket.setblocking(False)
        out, start = bytearray(), time.perf_counter()
        while received < len(packets) or confirmed < len(packets) or missing:
            room = min(len(packets), confirmed + self.window)
            out += b"".join(packets[sent:room])
            sent = room
            readable, writable, _ = select.select([self.socket], [self.socket] if out else [], [], patience)
            if not readable and not writable:
                raise RuntimeError(f"{received} of {len(packets)} answers came back")
            if writable:
                del out[: self.socket.send(out)]
            if readable:
                answers, confirmations = self._take(out, seen)
                if seen is not None:
                    missing.difference_update(map(begins, seen))
                    seen.clear()
                received, confirmed = received + answers, confirmed + confirmations
        self.socket.setblocking(True)
        self.socket.sendall(out)
        return time.perf_counter() - start

    def delays(self, messages: Sequence[tuple[str, bytes]], rate: float) -> list[float]:
        """Seconds from each message, sent at a steady rate, to its answer, by meter and number."""
        packets = [publication(topic, payload, 1 + k % 65535) for k, (topic, payload) in enumerate(messages)]
        names = [(topic.split("/")[1], json.loads(payload)["seq"]) for topic, payload in messages]
        begun: dict[tuple[str, int], float] = {}
        found: list[float] = []
        seen: list[bytes] = []
        self.socket.setblocking(False)
        out, sent, start = bytearray(), 0, time.perf_counter()
        while len(found) < len(packets):
            now = time.perf_counter()
            due = min(len(packets), int((now - start) * rate))
            for k in range(sent, due):
                begun[names[k]] = start + k / rate  # when it was due: a load that lags must not hide delays
            out += b"".join(packets[sent:due])
            sent = due
            readable, writable, _ = select.select([self.socket], [self.socket] if out else [], [], 0.0002)
            if writable:
                del out[: self.socket.send(out)]
            if readable:
                self._take(out, seen)
                now = time.perf_counter()
                for body in seen:
                    length = body[0] << 8 | body[1]
                    name = body[2 : 2 + length].decode().split("/")[1]
                    found.append(now - begun[name, json.loads(body[4 + length :])["seq"]])
                seen.clear()
        self.socket.setblocking(True)
        self.socket.sendall(out)
        return found

    def _take(self, out: bytearray, seen: list[bytes] | None = None) -> tuple[int, int]:
        """Count what has arrived, and confirm the publications among it."""
        data = self.rest + self.socket.recv(1 << 18)
        answers = confirmations = position = 0
        while position + 2 <= len(data):
            size, shift, body = 0, 0, position + 1
            while body < len(data):
                size |= (data[body] & 127) << shift
                shift += 7
                body += 1
                if data[body - 1] < 128:
                    break
            else:
                break
            if body + size > len(data):
                break
            if data[position] & 0xF0 == PUBLISH:
                topic = data[body] << 8 | data[body + 1]
                out += b"\x40\x02" + data[body + 2 + topic : body + 4 + topic]
                answers += 1
                if seen is not None:
                    seen.append(data[body : body + size])
            elif data[position] & 0xF0 == PUBACK:
                confirmations += 1
            position = body + size
        self.rest = data[position:]
        return answers, confirmations

    def close(self) -> None:
        """Say goodbye."""
        self.socket.sendall(b"\xe0\x00")
        self.socket.close()
