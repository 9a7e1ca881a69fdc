"""Secure noise that follows from the name of the test that draws it, so that no test fails by chance."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gaussveil.noise.generator import SEED_BYTES, SecureGenerator, default_generator


class FixedDraws:
    """In place of what the operating system gives to secure generators of this process.

    Releases take the same path as in production and say so in their certificates. Forked children and other programs
    draw from the operating system.
    """

    def __init__(self, word: str) -> None:
        self._word, self._process = word, os.getpid()
        self._name: str | None = None
        self._given = 0
        SecureGenerator._fresh_seed = lambda _: self._seed()  # type: ignore[method-assign]

    def _seed(self) -> bytes:
        if self._name is None or os.getpid() != self._process:
            return os.urandom(SEED_BYTES)
        self._given += 1
        return hashlib.sha384(f"{self._word} {self._name} {self._given}".encode()).digest()

    @contextmanager
    def named(self, name: str | None) -> Iterator[None]:
        """Draw from the streams of this name, and afterwards go on where it was; without a name, as in production."""
        shared = default_generator()
        before = self._name, self._given, shared.__dict__.copy()
        self._name, self._given = name, 0
        shared._rekey(shared._fresh_seed())
        try:
            yield
        finally:
            self._name, self._given, state = before
            shared.__dict__.update(state)


def run_named(word: str, name: str, run: Callable[..., None], *arguments: object) -> None:
    """Call what a process was started for, with the draws of that name."""
    with FixedDraws(word).named(name):
        run(*arguments)
