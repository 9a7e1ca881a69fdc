"""What gateways on a broker have in common: one thread that works, comes back after the broker was away, and ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress

from gaussveil.errors import GaussveilError, ParameterError, SourceError
from gaussveil.streaming.gateway import MessageGateway
from gaussveil.streaming.mqtt_client import Broker

PATIENCE = 0.25  # seconds between looks at `stop`, when nothing arrives
LONGEST_DELAY = 30.0


class BrokerGateway:
    """A gateway on a broker; `start`, then `stop`. Reconnects by itself and goes on where it was."""

    def __init__(
        self, gateway: MessageGateway, broker: Broker, *, take_over: bool = False
    ) -> None:
        self.gateway = gateway
        self.broker = broker
        self.failure: Exception | None = None
        self.connected = False
        self.connections = 0
        self.backlog = 0  # messages that arrived and are not answered, and answers that the broker has not taken
        self._delay = 1.0
        self._take_over = take_over
        self._ready, self._stopping, self._stopped = (
            threading.Event() for _ in range(3)
        )
        self._worker = threading.Thread(
            target=self._work, name="gaussveil gateway", daemon=True
        )

    _connect: Callable[[], None]
    _exchange: Callable[
        [], bool
    ]  # read, answer and write once; whether the connection is still there
    _close: Callable[[], None]

    def start(self, timeout: float = 30.0) -> None:
        """Connect, subscribe and begin to answer."""
        self._link()
        self._worker.start()
        ready = self._ready.wait(timeout)
        if self.failure is not None or not ready:
            self.stop()
            raise self.failure or SourceError(
                "the broker did not accept the subscription."
            )

    def stop(self) -> None:
        """Answer what has arrived, then disconnect."""
        self._stopping.set()
        if self._worker.is_alive():
            self._worker.join()
        self._stopped.set()

    def finish(self) -> None:
        """Let `wait` return; safe in a signal handler."""
        self._stopped.set()

    def wait(self, seconds: float | None = None) -> None:
        """Block until stopped or broken; raise what broke."""
        self._stopped.wait(seconds)
        if self.failure is not None:
            raise self.failure

    def _other_state(self) -> SourceError:
        return SourceError(
            f"the client name {self.broker.client!r} is served with another state: two gateways would answer one "
            "reading with two noises. Stop the other one; if its state is lost, reset and take over."
        )

    def _link(self) -> None:
        self._connect()
        self.connected, self.connections, self._delay = True, self.connections + 1, 1.0

    def _work(self) -> None:
        """Everything happens in this thread: read, answer, write."""
        done = False
        try:
            while not self._stopping.is_set():
                if self.connected:
                    self.connected = self._exchange()
                elif not self._stopping.wait(self._delay):
                    self._delay = min(2 * self._delay, LONGEST_DELAY)
                    with suppress(
                        OSError, SourceError, ParameterError
                    ):  # a broker may restart: tried again later
                        self._link()
            done = True
        except (
            OSError,
            GaussveilError,
        ) as error:  # the log cannot be written, or the broker refuses for good
            self.failure = error
        finally:
            if not done and self.failure is None:
                self.failure = SourceError(
                    "the gateway's worker broke down; see its traceback. Nothing is answered."
                )
            self._close()
            self.connected = False
            self._ready.set()
            self._stopped.set()
