"""A limit on the processor time of what a stranger asks for: recomputing a certificate must end."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gaussveil.errors import NumericalError

_END: ContextVar[float] = ContextVar("end of work", default=math.inf)


@contextmanager
def limited_work(seconds: float) -> Iterator[None]:
    """Let `check_work` raise inside the block once this thread has worked for so long."""
    token = _END.set(time.thread_time() + seconds)
    try:
        yield
    finally:
        _END.reset(token)


def check_work() -> None:
    """Raise `NumericalError` if the work allowed is spent; without a limit it never is."""
    end = _END.get()
    if end < math.inf and time.thread_time() > end:
        raise NumericalError("the processor time allowed for it is spent")
