"""Which groups of a request one unit is expected in: public, from the kinds of keys and `groups_per_unit`.

A unit is likely there at all times: in every hour, weekday, month, day. Of a zone or a bin of numbers it has one, as a
rule. So the groups are laid out as places, combinations of all other keys, times moments. Whatever the memberships of
units really are, privacy and the meaning of the answers stand; only the width of the noise rests on the expectation.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from gaussveil.statistics.clock_keys import ClockPart, Dates
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Discovered
from gaussveil.typing import Floats, Integers

HARMONICS = 3  # of a clock of twelve or more


@dataclass(frozen=True, eq=False)
class Layout:
    """Groups as places (rows) times moments (columns)."""

    groups: Integers
    """Number of the group at each place and moment."""
    basis: Floats
    """Orthonormal smooth functions of the moments (functions x moments)."""
    touched: int
    """In how many groups a unit counts at most."""
    moments_of: tuple[str, ...]
    """The keys in all of whose groups a unit is expected."""
    reason: str

    @classmethod
    def of(
        cls, keys: Mapping[str, Key | Discovered], touched: int, stated: int | None
    ) -> Layout:
        """Of public keys, of how many groups a unit can touch, and of `groups_per_unit` where it was stated."""
        names = list(keys)
        sizes = [len(key.values) for key in keys.values() if isinstance(key, Key)]
        chosen, reason = _chosen(keys, math.prod(sizes), touched, stated)
        order = [names.index(name) for name in names if name not in chosen]
        order += [names.index(name) for name in chosen]
        numbers = np.arange(math.prod(sizes)).reshape(sizes).transpose(order)
        basis = smooth_basis(
            [
                key
                for name, key in keys.items()
                if name in chosen and isinstance(key, Key)
            ]
        )
        return cls(numbers.reshape(-1, basis.shape[1]), basis, touched, chosen, reason)

    @property
    def places(self) -> int:
        """How many places there are."""
        return len(self.groups)

    @property
    def moments(self) -> int:
        """How many moments each place has."""
        return int(self.groups.shape[1])

    @property
    def functions(self) -> int:
        """How many smooth functions."""
        return len(self.basis)

    @property
    def places_touched(self) -> int:
        """At how many whole places a unit can be at most."""
        return min(math.ceil(self.touched / self.moments), self.places)

    @property
    def inside(self) -> Floats:
        """Which part of the variance of each moment is smooth."""
        return np.asarray(np.sum(self.basis**2, axis=0))

    def smooth(self, cells: Floats) -> Floats:
        """Coefficients (places x functions x units) of numbers (places x moments x units), one term after the other."""
        found = np.zeros((len(cells), self.functions, cells.shape[2]))
        for place, curve in zip(found, cells):
            for moment, row in enumerate(curve):
                for number, coefficient in enumerate(self.basis[:, moment]):
                    place[number] += coefficient * row
        return found

    def rest(self, cells: Floats) -> Floats:
        """What the smooth functions leave of numbers (places x moments x units)."""
        smooth = self.smooth(cells)
        rest = cells.copy()
        for curve, coefficients in zip(rest, smooth):
            for functions, row in zip(self.basis, coefficients):
                for moment, coefficient in enumerate(functions):
                    curve[moment] -= coefficient * row
        return rest

    def grouped(self, cells: Floats) -> Floats:
        """Numbers (places x moments) in the order of the groups."""
        found = np.empty(self.groups.size)
        found[self.groups.ravel()] = np.broadcast_to(cells, self.groups.shape).ravel()
        return found

    def __str__(self) -> str:
        if not self.moments_of:
            return f"group by group ({self.reason})"
        return f"as curves over {' and '.join(self.moments_of)} ({self.reason})"


def _chosen(
    keys: Mapping[str, Key | Discovered], cells: int, touched: int, stated: int | None
) -> tuple[tuple[str, ...], str]:
    """The keys in all of whose groups a unit is expected, and why."""
    times = tuple(
        name for name, key in keys.items() if isinstance(key, ClockPart | Dates)
    )
    moments = math.prod(
        len(key.values)
        for name, key in keys.items()
        if name in times and isinstance(key, Key)
    )
    if stated is not None and touched >= cells > 1:
        return tuple(keys), f"groups_per_unit={stated}: all groups"
    if not times:
        return (), "a unit is expected in one group of a key that is no time"
    if touched < moments:
        return (
            (),
            f"a unit counts in fewer groups, {touched}, than the {moments} of {', '.join(times)}",
        )
    return times, "a unit is expected at all times"


def smooth_basis(keys: list[Key]) -> Floats:
    """Orthonormal smooth functions of the groups: the constant, and harmonics of a clock among the keys."""
    sizes = [len(key.values) for key in keys]
    functions = [np.ones(sizes)]
    clock = next(
        (place for place, key in enumerate(keys) if key.cycle and sizes[place] >= 12),
        None,
    )
    if clock is not None:
        shape = [1] * len(sizes)
        shape[clock] = sizes[clock]
        angle = 2 * math.pi * np.arange(sizes[clock]) / sizes[clock]
        for times in range(1, HARMONICS + 1):
            functions += [
                np.ones(sizes) * wave(times * angle).reshape(shape)
                for wave in (np.cos, np.sin)
            ]
    rows = np.array([function.ravel() for function in functions])
    return np.asarray(rows / np.linalg.norm(rows, axis=1, keepdims=True))
