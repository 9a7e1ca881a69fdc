"""What of a privacy curve enters the exact contour, and how such contributions add up."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Factors:
    """Laws whose moments multiply under one contour integral: Gaussian losses and steps on random batches.

    Each stands with the number of its uses. A curve that has such factors is composed with others exactly; a new kind
    of law with a closed cumulant gets a field of its own here, and a place in `subsampled.composed.exact_curve`.
    """

    gaussians: tuple[tuple[Any, int], ...] = ()
    steps: tuple[tuple[Any, int], ...] = ()

    def __add__(self, other: Factors) -> Factors:
        return Factors(self.gaussians + other.gaussians, self.steps + other.steps)

    def times(self, count: int) -> Factors:
        """The factors of `count` independent uses."""
        return Factors(_repeated(self.gaussians, count), _repeated(self.steps, count))

    def __bool__(self) -> bool:
        return bool(self.gaussians or self.steps)


def _repeated(laws: tuple[tuple[Any, int], ...], count: int) -> tuple[tuple[Any, int], ...]:
    return tuple((law, uses * count) for law, uses in laws)
