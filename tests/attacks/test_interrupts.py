"""Exceptions at the worst moment: between any two lines of the generator nothing is handed out twice, or empty."""

from __future__ import annotations

import linecache
import multiprocessing
import sys
import threading
from types import FrameType
from typing import Any

import numpy as np
import pytest

from gaussveil.mechanisms import GaussianRelease
from gaussveil.noise import SecureGenerator
from gaussveil.noise import generator as module
from gaussveil.noise.keyed import KeyedGenerator
from gaussveil.spectrum import GaussianPair

FORK = multiprocessing.get_context("fork")


class Interrupt(Exception):
    """Stands for a signal, a tracer or memory that runs out."""


def interrupted(generator: SecureGenerator, count: int, after: int) -> bool:
    """Read `count` bytes and raise before the given line of the generator's code; whether that line was reached."""
    left = after

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != module.__file__:
            return None
        # Python itself would leave a lock held if its release were interrupted.
        if event == "line" and "with self._lock" not in linecache.getline(module.__file__, frame.f_lineno):
            left -= 1
            if left < 0:
                raise Interrupt
        return trace

    sys.settrace(trace)
    try:
        generator.random_bytes(count)
    except Interrupt:
        return True
    finally:
        sys.settrace(None)
    return False


@pytest.mark.parametrize("start", [0, 100, module.BUFFER_BYTES - module.SEED_BYTES - 8])
def test_an_interrupted_read_never_hands_out_zeros_or_the_same_again(start: int) -> None:
    for after in range(200):
        generator = SecureGenerator()
        handed_out = generator.random_bytes(start + 64)
        reached = interrupted(generator, 40, after)
        later = generator.random_bytes(256)
        for position in range(0, 256, 8):
            word = later[position : position + 8]
            assert word != bytes(8)
            assert word not in handed_out
        if not reached:
            return
    pytest.fail("the read never ended")


def test_an_interrupted_change_of_key_never_hands_out_zeros() -> None:
    for after in range(100):
        generator = SecureGenerator()
        generator.random_bytes(64)
        generator._pid = -1  # as in a child of a fork that bypassed Python's hooks
        reached = interrupted(generator, 40, after)
        later = generator.random_bytes(64)
        assert all(later[position : position + 8] != bytes(8) for position in range(0, 64, 8))
        if not reached:
            return
    pytest.fail("the read never ended")


def test_noise_that_a_key_repeats_carries_no_guarantee() -> None:
    """Two releases under one key and label differ by exactly the values, so a certificate must not say worst case."""
    key = bytes(range(32))

    def release(value: float) -> Any:
        return GaussianRelease(
            epsilon=1.0, delta=1e-5, l2_sensitivity=1.0, generator=KeyedGenerator(key, b"same")
        ).release(np.array([value]))

    first, second = release(0.0), release(1.0)
    assert second.value[0] - first.value[0] == pytest.approx(1.0, abs=0.01), "the attack"
    assert first.certificate.guarantee.kind == second.certificate.guarantee.kind == "none"


def test_a_fork_while_another_thread_encloses_leaves_the_child_able_to() -> None:
    loss = GaussianPair.mean_shift(0.7)
    stop = threading.Event()

    def enclose_on() -> None:
        while not stop.is_set():
            loss.enclose(1.0)

    worker = threading.Thread(target=enclose_on)
    worker.start()
    try:
        for _ in range(5):
            parent, child = FORK.Pipe()
            process = FORK.Process(target=lambda child=child: child.send(loss.enclose(1.0).upper))
            process.start()
            answered = parent.poll(60)
            if not answered:
                process.kill()
            process.join()
            assert answered, "the child waits for a lock that nobody holds"
            assert parent.recv() == loss.enclose(1.0).upper
    finally:
        stop.set()
        worker.join()
