"""What of a privacy curve enters the exact contour, and how such contributions add up."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, TypeVar

Item = TypeVar("Item")


@dataclass(frozen=True)
class Factors:
    """What multiplies under one contour integral: Gaussian losses, steps on random batches, laws by atoms and pieces.

    Each stands with the number of its uses. A curve that has such factors is composed with others exactly; a new kind
    of law with a closed cumulant gets a field of its own here, and a place in `subsampled.composed.exact_curve`.
    """

    gaussians: tuple[tuple[Any, int], ...] = ()
    steps: tuple[tuple[Any, int], ...] = ()
    laws: tuple[tuple[Any, int], ...] = ()

    def __add__(self, other: Factors) -> Factors:
        return Factors(
            self.gaussians + other.gaussians,
            self.steps + other.steps,
            self.laws + other.laws,
        )

    def times(self, count: int) -> Factors:
        """The factors of `count` independent uses."""
        return Factors(
            *(
                _repeated(kind, count)
                for kind in (self.gaussians, self.steps, self.laws)
            )
        )

    def __bool__(self) -> bool:
        return bool(self.gaussians or self.steps or self.laws)


def _repeated(
    laws: tuple[tuple[Any, int], ...], count: int
) -> tuple[tuple[Any, int], ...]:
    return tuple((law, uses * count) for law, uses in laws)


def counted(items: Iterable[tuple[Item, int]]) -> dict[Item, int]:
    """Equal items once, with the sums of their counts."""
    counts: dict[Item, int] = {}
    for item, count in items:
        counts[item] = counts.get(item, 0) + count
    return counts
