"""Where the random bytes of every release come from: AES-256 in counter mode, keyed by the operating system.

Each refill encrypts zeros and spends its first 48 bytes on the next key and counter (fast key erasure, Bernstein 2017),
so that memory read later does not reveal noise drawn earlier. A forked child never continues its parent's stream.
"""

from __future__ import annotations

import hashlib
import operator
import os
import threading
import weakref
from abc import ABC, abstractmethod
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR
from numpy.typing import NDArray

from gaussveil.errors import ParameterError

SEED_BYTES = 48  # 32 of key, 16 of initial counter
BUFFER_BYTES = 1 << 18  # fits the second-level cache
ZEROS = bytes(BUFFER_BYTES)

Words = NDArray[np.uint64]


class Generator(ABC):
    """A stream of uniform random bytes; thread-safe."""

    is_secure: bool

    @property
    def is_trusted(self) -> bool:
        """Whether a guarantee may rest on it: its class decides, whatever was written to its attributes."""
        return isinstance(self, SecureGenerator)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rekey(self._fresh_seed())

    @abstractmethod
    def _fresh_seed(self) -> bytes:
        """The 48 bytes from which the stream starts."""

    def _rekey(self, seed: bytes) -> None:
        self._seed = seed
        self._position = BUFFER_BYTES  # before the buffer: interrupted between, nothing of an empty one is handed out
        self._buffer = bytearray(BUFFER_BYTES)
        self._pid = os.getpid()

    def _refill(self) -> None:
        cipher = Cipher(AES(self._seed[:32]), CTR(self._seed[32:]))
        cipher.encryptor().update_into(ZEROS, self._buffer)
        self._seed = bytes(self._buffer[:SEED_BYTES])
        self._buffer[:SEED_BYTES] = ZEROS[:SEED_BYTES]
        self._position = SEED_BYTES

    def random_bytes(self, count: int) -> bytes:
        """The next `count` bytes."""
        return bytes(self._read(_checked_count(count)))

    def uint64(self, count: int) -> Words:
        """The next `count` uniform 64-bit words (little endian, so that a seeded stream is the same everywhere)."""
        words = np.frombuffer(self._read(8 * _checked_count(count)), dtype="<u8")
        return words.astype(np.uint64, copy=False)

    def _read(self, count: int) -> bytearray:
        result = bytearray(count)
        with self._lock:
            if (
                self.is_trusted and os.getpid() != self._pid
            ):  # a fork that bypassed Python's hooks
                self._rekey(self._fresh_seed())
            filled = 0
            while filled < count:
                if self._position == BUFFER_BYTES:
                    self._refill()
                start = self._position
                stop = min(self._position + count - filled, BUFFER_BYTES)
                self._position = stop  # first: whatever is interrupted below, these bytes are never read again
                result[filled : filled + stop - start] = memoryview(self._buffer)[
                    start:stop
                ]
                self._buffer[start:stop] = memoryview(ZEROS)[
                    : stop - start
                ]  # what was handed out is forgotten
                filled += stop - start
        return result


class SecureGenerator(Generator):
    """Cryptographic generator seeded by the operating system; the only kind a guarantee may rest on.

    Re-keyed in every forked child, by a fork hook and, for forks that bypass Python, by the process id. Copies and
    pickles hold no state: they are fresh generators.
    """

    is_secure = True

    def __init__(self) -> None:
        super().__init__()
        _secure_generators.add(self)

    def _fresh_seed(self) -> bytes:
        return os.urandom(SEED_BYTES)

    def _after_fork(self) -> None:
        self._lock = (
            threading.Lock()
        )  # another thread of the parent may have held the old one
        self._rekey(self._fresh_seed())

    def __reduce__(self) -> tuple[type[SecureGenerator], tuple[()]]:
        return SecureGenerator, ()


class SeededGenerator(Generator):
    """Reproducible stream for studies and tests; a release drawn from it carries the guarantee "none (seeded)"."""

    is_secure = False

    def __init__(self, seed: int) -> None:
        try:
            self.seed = operator.index(seed)
        except TypeError:
            raise ParameterError(
                f"seed must be an integer. Got {type(seed).__name__}."
            ) from None
        super().__init__()

    def _fresh_seed(self) -> bytes:
        return hashlib.sha384(
            f"gaussveil seeded generator {self.seed}".encode()
        ).digest()

    def __getstate__(self) -> dict[str, Any]:
        with self._lock:
            return {
                name: value for name, value in self.__dict__.items() if name != "_lock"
            }

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(
            state, _buffer=bytearray(state["_buffer"]), _lock=threading.Lock()
        )


def _checked_count(count: int) -> int:
    if count < 0:
        raise ParameterError(f"count must be nonnegative. Got {count}.")
    return count


def _rekey_all_after_fork() -> None:
    for generator in list(_secure_generators):
        generator._after_fork()


_secure_generators: weakref.WeakSet[SecureGenerator] = weakref.WeakSet()
os.register_at_fork(after_in_child=_rekey_all_after_fork)
_default = SecureGenerator()


def default_generator() -> SecureGenerator:
    """The process-wide secure generator, used when a release names none."""
    return _default
