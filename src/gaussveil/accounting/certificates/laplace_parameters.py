"""What a table's certificate says of Laplace noise: epsilons, variances and the pairs that are charged.

Integer noise of scale b in steps of a grid g, a power of two, has the variance g^2 / (2 sinh(1/(2b))^2). A unit moves
a draw by r t rows together, which is the shift of its pair times the grid; shift over scale is the draw's epsilon.
Where sums were rounded to the grid its shift is larger by a step for every number that a unit touches: that tells t
apart from r. Draws of a profile share an epsilon as earlier ones tell: they stand there as one number that a unit moves
by 1.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from fractions import Fraction
from typing import Any

_SCALE = 2.0**-28  # the sampler's scale is a fraction, never below the stated one
_SHIFT = 2.0**-18  # of what a unit moves, the most that rounding to a grid may add
_FEW = 2**17  # half of what such rounding can hide
_SHARE = 2.0**-36
_PROFILE = "profile "


def laplace_problems(
    epsilons: Mapping[str, Fraction],
    variances: Mapping[str, Fraction],
    rows: int,
    touched: int,
    parts: list[Any],
) -> Iterator[str]:
    """What is false of draws of Laplace noise.

    Args:
        epsilons: what is spent on each draw.
        variances: of each draw's numbers, in squared rows; "rows 0", "rows 1" and so on share the epsilon of "rows",
            and "profile 0" and so on stand for numbers that a unit moves by 1.
        rows: by how many a unit moves a number at most.
        touched: in how many groups a unit counts at most.
        parts: the parts of the charge, as they are stored.
    """
    sources = [_source(name, epsilons) for name in variances]
    for name in epsilons.keys() - set(sources):
        yield f"the noise of {name} is not stated"
    if sum(part["count"] for part in parts) != len(variances):
        yield "the charge is not one pair for each draw"
        return
    pairs = [pair for part in parts for pair in [_pair(part)] * part["count"]]
    if None in pairs:
        yield "the charge is not of discrete Laplace noise"
        return
    for (name, variance), source in zip(variances.items(), sources, strict=True):
        if source not in epsilons:
            yield f"the noise of {name} has no epsilon"
            continue
        own = float(epsilons[source]) / sources.count(source)
        far = rows, touched
        fitting = [
            pair for pair in pairs if _fits(name, pair, own, float(variance), far)
        ]
        if fitting:
            pairs.remove(fitting[0])
        else:
            yield f"the noise of {name} does not follow from its epsilon and the bounds of a unit"


def told_exactly(names: Iterable[str], bounds: Mapping[str, int]) -> Iterator[str]:
    """Those bounds of a unit of which another number alone would not fit the noise of some draw.

    The bins of a histogram of shares are rounded, and nobody says how many they are: they tell of few rows or groups.

    Args:
        names: of the draws.
        bounds: rows and groups of a unit, by their names.
    """
    draws = {name.partition(" ")[0] for name in names if not name.startswith(_PROFILE)}
    for name, bound in bounds.items():
        if draws - {"histogram"} or (draws and bound < _FEW):
            yield name


def _source(name: str, epsilons: Mapping[str, Fraction]) -> str:
    if name in epsilons:
        return name
    return name.partition(" ")[0]


def _pair(part: Any) -> tuple[int, float] | None:
    """Shift and scale of a part, where it is one of discrete Laplace noise."""
    profile = part.get("profile") or {}
    if profile.get("profile") != "discrete-laplace":
        return None
    known = profile["parameters"]
    return known["shift"], float(known["scale"])


def _fits(
    name: str,
    pair: tuple[int, float] | None,
    epsilon: float,
    variance: float,
    far: tuple[int, int],
) -> bool:
    """Whether a pair has this epsilon, and noise of this variance on numbers that a unit moves so far."""
    assert pair is not None
    shift, scale = pair
    if not epsilon * (1 - _SHARE) <= shift / scale <= epsilon * (1 + _SHARE):
        return False
    grid = math.sqrt(2 * variance) * math.sinh(1 / (2 * scale))
    if not 0 < grid < math.inf:
        return False
    power = 2.0 ** round(math.log2(grid))
    if abs(grid - power) > _SCALE * power:
        return False
    rows, touched = far
    if name.startswith(_PROFILE):
        rows = touched = 1
    moved = rows * touched
    if not moved <= shift * power <= moved * (1 + _SHIFT):
        return False
    rounded = shift - moved / Fraction(power)
    if name.startswith("sum "):
        return rounded == touched
    if name.startswith("rows "):  # of a row both halves
        return rounded == 2 * touched
    if name.startswith("histogram "):
        return rounded % touched == 0
    return rounded == 0
