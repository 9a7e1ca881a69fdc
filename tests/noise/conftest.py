"""Generators that tests control."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from gaussveil.noise import SeededGenerator


class ScriptedGenerator(SeededGenerator):
    """Hands out given words: the only way to reach events of probability 2^-49."""

    def __init__(self, words: list[int]) -> None:
        super().__init__(0)
        self.words = list(words)

    def uint64(self, count: int) -> np.ndarray:
        taken, self.words = self.words[:count], self.words[count:]
        assert len(taken) == count
        return np.array(taken, dtype=np.uint64)


class CountingGenerator(SeededGenerator):
    """Remembers the size of every request."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.requests: list[int] = []

    def uint64(self, count: int) -> np.ndarray:
        self.requests.append(count)
        return super().uint64(count)


@pytest.fixture
def scripted() -> Callable[[list[int]], ScriptedGenerator]:
    return ScriptedGenerator


@pytest.fixture
def counting() -> Callable[[int], CountingGenerator]:
    return CountingGenerator
