"""paho's client in one thread with many packets per system call; the protocol stays paho's.

paho reads the two or three parts of every packet with a system call each, and sends every packet by itself. Most of a
short message's time goes there. Here its socket is buffered: one `recv` takes whatever has arrived, one `send` whatever
was written since. Should a later paho no longer ask `_create_socket`, everything works as before, only slower.
"""

from __future__ import annotations

import contextlib
import select
import socket
import ssl
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.enums import CallbackAPIVersion

READ_BYTES = 1 << 16
MOST_UNSENT = 1 << 22
NOT_NOW = (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)


class BufferedSocket:
    """A connected socket, plain or TLS, whose reads and writes are gathered."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self._data, self._position = b"", 0
        self._unsent = bytearray()

    def recv(self, size: int) -> bytes:
        """At most `size` bytes; a system call only if none are left from the last one."""
        if self._position == len(self._data):
            self._data, self._position = self.inner.recv(READ_BYTES), 0
        part: bytes = self._data[self._position : self._position + size]
        self._position += len(part)
        return part

    def pending(self) -> int:
        """Bytes that can be had without a system call."""
        inside = self.inner.pending() if hasattr(self.inner, "pending") else 0
        return len(self._data) - self._position + int(inside)

    def send(self, data: bytes | bytearray) -> int:
        """Take all of it for the next `flush`; refuse while too much is unsent."""
        if len(self._unsent) > MOST_UNSENT:
            raise BlockingIOError
        self._unsent += data
        return len(data)

    def flush(self) -> bool:
        """Send what the network takes; whether all went. A broken connection shows when it is read."""
        while self._unsent:
            try:
                sent = self.inner.send(self._unsent)
            except NOT_NOW:
                return False
            except OSError:
                self._unsent.clear()
                break
            del self._unsent[:sent]
        return True

    def fileno(self) -> int:
        """For `select`."""
        return int(self.inner.fileno())

    def setblocking(self, flag: bool) -> None:
        """As the socket's own."""
        self.inner.setblocking(flag)

    def close(self) -> None:
        """Send what is left, such as the farewell, as far as that is possible at once."""
        with contextlib.suppress(OSError):
            self.flush()
        self.inner.close()


class BufferedClient(Client):
    """A client that is driven by `exchange` and `write`, by one thread; publications wait for `write`."""

    def __init__(self, name: str) -> None:
        # A lasting session: the broker keeps what arrives while the gateway is away.
        super().__init__(CallbackAPIVersion.VERSION2, client_id=name, clean_session=False, manual_ack=True)
        # Whoever drives the loop limits what is in flight; paho would go through all of it at each confirmation.
        self.max_inflight_messages_set(0)
        self.max_queued_messages_set(0)
        self.on_socket_register_write = lambda *_: None  # tells paho not to write by itself

    def _create_socket(self) -> Any:
        made: Any = super()._create_socket()
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return BufferedSocket(made)

    @property
    def connected(self) -> bool:
        """Whether there is a connection, accepted or about to be."""
        return self.socket() is not None

    def read(self, seconds: float) -> None:
        """Wait for the broker, then handle every packet that has arrived; callbacks run in here."""
        connection: Any = self.socket()
        if connection is None:
            return
        if not self._pending(connection):
            waits_to_send = self.want_write() or not self._flushed(connection)
            events = select.poll()
            events.register(connection.fileno(), select.POLLIN | (select.POLLOUT if waits_to_send else 0))
            if not events.poll(1000 * seconds):
                return
        self.loop_read()
        while self.socket() is connection and self._pending(connection):
            self.loop_read()

    def write(self) -> None:
        """Send everything that callbacks and publications left, and keep the connection alive."""
        self.loop_write()
        self.loop_misc()
        connection: Any = self.socket()
        if connection is not None:
            self._flushed(connection)

    @staticmethod
    def _pending(connection: Any) -> bool:
        return isinstance(connection, BufferedSocket) and connection.pending() > 0

    @staticmethod
    def _flushed(connection: Any) -> bool:
        return not isinstance(connection, BufferedSocket) or connection.flush()
