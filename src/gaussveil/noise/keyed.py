"""Noise that a secret key and a label decide, for computations that may be repeated and must then say the same again.

A cluster may run a piece of work twice. Fresh noise the second time would be a second release of the same data. Here
the noise is a pseudo-random function (HMAC-SHA-384 to a key and a counter of AES-256-CTR) of whatever the label tells.
The label must hold everything that is released under that noise: the same noise on two different values would show
their difference exactly.
"""

from __future__ import annotations

import hmac
import threading

from cryptography.hazmat.primitives.ciphers import Cipher
from cryptography.hazmat.primitives.ciphers.algorithms import AES
from cryptography.hazmat.primitives.ciphers.modes import CTR

from gaussveil.errors import ParameterError
from gaussveil.noise.generator import Generator

KEY_BYTES = 32


class KeyedGenerator(Generator):
    """A stream of bytes for each label; as secure as its key is secret, so draw the key with `os.urandom`.

    A release drawn from it carries no guarantee, unless the caller vouches with `complete_labels` that no two different
    values are ever released under one key and label.
    """

    def __init__(
        self, key: bytes, label: bytes = b"", *, complete_labels: bool = False
    ) -> None:
        self._lock = threading.Lock()
        self.is_secure = self._complete_labels = complete_labels
        self.aim(key, label)

    @property
    def is_trusted(self) -> bool:
        """As the caller vouched when it was made."""
        return self._complete_labels

    def aim(self, key: bytes, label: bytes) -> None:
        """Start the stream of another key and label."""
        if len(key) != KEY_BYTES:
            raise ParameterError(f"key must have {KEY_BYTES} bytes. Got {len(key)}.")
        seed = hmac.digest(key, label, "sha384")
        self._stream = Cipher(AES(seed[:32]), CTR(seed[32:])).encryptor()
        self.used = False

    def _fresh_seed(self) -> bytes:
        raise TypeError("a keyed stream starts from its key and label only")

    def _read(self, count: int) -> bytearray:
        with self._lock:
            self.used = True
            return bytearray(self._stream.update(bytes(count)))

    def __reduce__(self) -> tuple[object, ...]:
        raise TypeError(
            "a keyed generator holds a secret and is not pickled: send the key where it is needed"
        )
