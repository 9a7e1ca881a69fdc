"""What a plan says of its worth, from public numbers: whether a request can be useful, and what to ask instead."""

from __future__ import annotations

from dataclasses import dataclass
from math import floor, log10


@dataclass(frozen=True)
class Useful:
    """A verdict in words; true where the request can be useful."""

    verdict: bool
    words: str
    needed: int | None = None
    """Units, homes mostly, from which on it can be; None where that is not the question."""

    def __bool__(self) -> bool:
        return self.verdict

    def __str__(self) -> str:
        return self.words


def about(count: float) -> str:
    """A number of units as people say it: two digits."""
    if count < 100:
        return str(int(count))
    digits = 1 - floor(log10(count))
    return f"{round(count, digits):,.0f}"
