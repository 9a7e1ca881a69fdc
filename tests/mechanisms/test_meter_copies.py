"""No second process goes on with an open stream, and a copy is not open: no reading is answered twice for one debit."""

from __future__ import annotations

import copy
import os
import pickle
from collections.abc import Callable

import pytest

from gaussveil.errors import AssumptionError
from gaussveil.mechanisms import MeterStream


def made() -> MeterStream:
    return MeterStream.design(sample_period="15min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))])
def test_copies_are_streams_of_their_own_that_pay_for_themselves(copied: Callable[[MeterStream], MeterStream]) -> None:
    stream = made()
    stream.push(0.3)
    other = copied(stream)
    assert not other.is_open
    assert isinstance(other.push(0.3), float)
    assert other.certificate.release_id != stream.certificate.release_id


def test_forked_process_answers_nothing() -> None:
    stream = made()
    stream.push(0.3)
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            stream.push(0.4)
            os.write(writing, b"answered")
        except AssumptionError:
            os.write(writing, b"refused")
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as end:
        assert end.read() == b"refused"
    os.waitpid(child, 0)
    assert isinstance(stream.push(0.4), float)
