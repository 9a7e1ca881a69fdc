"""Registers alone: energies of nested public windows with noise that adds up as they do.

With g_l(L) = S_l/n_l - S_{l+1}/n_{l+1}, S_l the sum of squares of L readings that begin with a window, cut by windows
of n_l, an event of T readings of a kW has D^2 = a^2 sum_l g_l(T)/u_l, exactly where u falls with l, and L readings have
the variance sum_l g_l(L) u_l (derived: docs/mechanisms/meter_stream.md, "Registers alone").
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from gaussveil import checks
from gaussveil.calibration import noise_scales
from gaussveil.errors import FormatError, ParameterError
from gaussveil.typing import Floats


def squares(length: int, window: int) -> float:
    """Sum of squares of `length` readings cut by windows, from the beginning of one."""
    whole, rest = divmod(length, window)
    return float(whole * window**2 + rest**2)


def gains(length: int, windows: Sequence[int]) -> Floats:
    """g_l of so many readings: what of their squared sum lies at each level and not above it."""
    parts = np.array([squares(length, window) / window for window in windows] + [0.0])
    return np.asarray(np.maximum(parts[:-1] - parts[1:], 0.0))


def levels_for(length: int, windows: Sequence[int], weights: Sequence[float]) -> Floats:
    """u_l, up to a factor, with the least weighted sum of the windows' relative variances for events of `length`.

    Lagrange on each level; levels whose answers would rise with the window are one level (pool adjacent violators).
    """
    costs = sum(
        (weight / n**2 * gains(n, windows) for weight, n in zip(weights, windows)),
        np.zeros(len(windows)),
    )
    blocks: list[list[float]] = []  # cost, distance, levels
    for cost, distance in zip(costs.tolist(), gains(length, windows).tolist()):
        blocks.append([cost, distance, 1.0])
        while (
            len(blocks) > 1
            and blocks[-1][1] * blocks[-2][0] >= blocks[-2][1] * blocks[-1][0]
        ):
            last = blocks.pop()
            blocks[-1] = [a + b for a, b in zip(blocks[-1], last)]
    found = noise_scales(1.0, *np.array([block[:2] for block in blocks]).T) ** 2
    return np.repeat(found, [int(block[2]) for block in blocks])


def largest_square(length: int, windows: Sequence[int], levels: Floats) -> float:
    """D^2 of the worst event of so many readings of 1 kW; where u rises with l, of the lesser noise that does not."""
    if any(long % short or long <= short for short, long in pairwise(windows)):
        raise FormatError("registers alone must be nested windows, the shortest first")
    return float(np.sum(gains(length, windows) / np.minimum.accumulate(levels)))


def repeated_square(
    length: int, windows: Sequence[int], levels: Floats, day: int, events: int
) -> float:
    """Upper bound of D^2 of such events, one a day for so many days, none longer than a day."""
    steps = np.diff(
        1 / np.minimum.accumulate(levels), prepend=0.0
    )  # all of them positive: level by level the worst case is no less
    total = 0.0
    for step, window in zip(steps, windows):
        inside = max(1, window // day)
        full, rest = divmod(events, inside)
        once = squares(length, window)
        total += float(step) / window * once * (full * inside**2 + rest**2)
    return total


def chosen_windows(
    registers: Sequence[str] | Mapping[str, float],
    lengths: Mapping[str, float],
    sample_period: float,
) -> dict[str, tuple[int, float]]:
    """Name, readings and weight of the windows asked for, the shortest first; `lengths` in hours."""
    if isinstance(registers, str) or not registers:
        checks.refuse(
            "registers", "names of windows, such as ('day', 'month')", registers
        )
    if isinstance(registers, Mapping):
        weights = dict(registers)
    else:
        weights = dict.fromkeys(registers, 1.0)
    found = {}
    for name in sorted(
        weights,
        key=lambda name: lengths[checks.one_of("registers", name, tuple(lengths))],
    ):
        count = lengths[name] / sample_period
        if abs(count - round(count)) > 1e-9 * count or count < 1:
            raise ParameterError(
                f"sample_period must divide the register {name!r}. Got {sample_period!r} hours."
            )
        found[name] = (
            round(count),
            checks.positive(f"the weight of {name!r}", weights[name]),
        )
    return found


def bridge(remainder: float, left: int, spread: float, shock: float) -> float:
    """Noise of the next of `left` windows that share the noise `remainder`; the last takes what is left."""
    return remainder / left + spread * math.sqrt(1 - 1 / left) * shock
