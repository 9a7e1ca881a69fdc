"""The worker: a process of its own for work that needs much memory, reads uploaded files or might never end.

Engines and mechanisms load there, so that the server stays small; a task that takes too long is ended with its process;
and the process goes when nobody has asked for a while. Questions and answers are lines of JSON.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from gaussveil import errors
from gaussveil.errors import GaussveilError, NumericalError
from gaussveil_studio.spoken import FormRefusal

IDLE_SECONDS = 120.0
LIMIT_SECONDS = 120.0  # a busy machine takes its time to load a mechanism
LIMIT_OF_GIVEN_WORK = (
    30.0  # pairs and certificates that somebody sends may be made to take for ever
)

KINDS = {
    kind.code: kind
    for kind in vars(errors).values()
    if isinstance(kind, type) and issubclass(kind, GaussveilError)
}


class Worker:
    """Asks the process, starts it when it is not there, ends it when it is idle or stuck."""

    def __init__(self, idle_seconds: float = IDLE_SECONDS) -> None:
        self._idle_seconds = idle_seconds
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._timer: threading.Timer | None = None

    def ask(
        self,
        task: str,
        *,
        called: Mapping[str, str] = MappingProxyType({}),
        seconds: float = LIMIT_SECONDS,
        **arguments: Any,
    ) -> dict[str, Any]:
        """Do one task there and give its answer; raise the error that it raised there.

        `called` says what people call the files whose paths an error may name.
        """
        with self._lock:
            self._stop_timer()
            try:
                reply = self._exchange({"task": task, "arguments": arguments}, seconds)
            finally:
                self._start_timer()
        if "error" in reply:
            message = reply["error"]["message"]
            for path, name in called.items():
                message = message.replace(path, name)
            kind = KINDS.get(reply["error"]["code"], GaussveilError)
            field = reply["error"]["field"]
            raise kind(message) if field is None else FormRefusal(message, field, kind)
        answer: dict[str, Any] = reply["answer"]
        return answer

    def begin(self, task: str, **arguments: Any) -> None:
        """Do a task whose answer nobody waits for; if it fails, whoever needs it will be told then."""
        threading.Thread(target=self._try, args=(task, arguments), daemon=True).start()

    def _try(self, task: str, arguments: dict[str, Any]) -> None:
        with contextlib.suppress(GaussveilError, RuntimeError):
            self.ask(task, **arguments)

    def close(self) -> None:
        """End the process."""
        with self._lock:
            self._stop_timer()
            self._end()

    def _exchange(self, question: dict[str, Any], seconds: float) -> dict[str, Any]:
        process = self._running()
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = _read_line(process.stdout.fileno(), seconds)
        except BrokenPipeError:
            line = b""
        if line is None:
            self._end()
            raise NumericalError(
                f"the task took longer than {seconds:g} seconds and was ended; nothing was spent"
            )
        if not line:
            self._end()
            raise RuntimeError("the worker's process broke off")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def _running(self) -> subprocess.Popen[bytes]:
        if self._process is not None and self._process.poll() is None:
            return self._process
        self._process = subprocess.Popen(
            [sys.executable, "-m", "gaussveil_studio.worker_tasks"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            umask=0o077,  # an engine that sorts a large table may leave rows of it in temporary files meanwhile
            env={**os.environ, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"},
        )
        return self._process

    def _end(self) -> None:
        if self._process is None:
            return
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        self._process = None

    def _start_timer(self) -> None:
        self._timer = threading.Timer(self._idle_seconds, self.close)
        self._timer.daemon = True
        self._timer.start()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()


def _read_line(handle: int, seconds: float) -> bytes | None:
    """One line; None if it does not come in time, empty if the process ended."""
    parts: list[bytes] = []
    until = time.monotonic() + seconds
    while True:
        left = until - time.monotonic()
        if left <= 0 or not select.select([handle], [], [], left)[0]:
            return None
        part = os.read(handle, 1 << 16)
        parts.append(part)
        if not part or part.endswith(b"\n"):
            if part:
                return b"".join(parts)
            return b""
