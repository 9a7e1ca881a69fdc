"""What the parameters of a table's certificate say of each other: losses, noise and the bounds of a unit.

A unit counts in t groups with r rows at most, so that in a draw of white noise it moves t numbers by r: its squared
loss is t r^2 over the variance. Of counts that share noise it is at least t r^2 over own variance and t times the
shared one. That the request was asked so, and that rows were bounded so, is the issuer's word.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction

from gaussveil.errors import FormatError

LOSSES = "squared losses"
BOUNDS = ("rows_per_group", "groups_per_unit")
NOISE = "noise variances"
_LISTS = {
    "histograms": "histogram",
    "cumulative counts, times the least": "cumulative",
}
_LAST_PLACES = Fraction(1, 2**40)


def table_problems(known: Mapping[str, object], energy: Fraction | None) -> list[str]:
    """What is false in the parameters of a table's certificate; `energy` is the squared mean shift that is charged."""
    problems = [
        f"the parameter {name!r} must be a whole number of at least 1"
        for name in BOUNDS
        if name in known and not _is_count(known[name])
    ]
    if problems or LOSSES not in known:
        return problems
    losses = {name: _positive(loss) for name, loss in _object(known, LOSSES).items()}
    if energy is None or sum(losses.values()) > energy:
        problems.append(
            "the squared losses of the draws add up to more than is charged"
        )
    if all(name in known for name in BOUNDS) and NOISE in known:
        problems += _noise_problems(known, losses)
    return problems


def _noise_problems(
    known: Mapping[str, object], losses: Mapping[str, Fraction]
) -> Iterator[str]:
    rows, groups = (Fraction(str(known[name])) for name in BOUNDS)
    moved = groups * rows**2
    stated = _object(known, NOISE)
    for name, variances, is_list in _stated(stated):
        loss = losses.get(name)
        if loss is None:
            yield f"the noise of {name} has no squared loss"
            continue
        own, shared = variances
        least = moved / loss
        total = own + groups * shared
        if total < least * (1 - _LAST_PLACES):
            yield f"the noise of {name} is too small for its squared loss and the bounds of a unit"
        elif is_list and total > least * (1 + _LAST_PLACES):
            yield f"the noise of {name} does not follow from its squared loss and the bounds of a unit"


def _stated(
    stated: Mapping[str, object],
) -> Iterator[tuple[str, tuple[Fraction, Fraction], bool]]:
    """Every draw's name, own and shared variance, and whether it is one of white noise."""
    if "rows" in stated:
        yield "rows", _pair(stated["rows"]), False
    for place, entry in enumerate(_list(stated, "sums")):
        yield f"sum {place}", _pair(entry), False
    for key, name in _LISTS.items():
        for place, entry in enumerate(_list(stated, key)):
            yield f"{name} {place}", (_positive(entry), Fraction(0)), True


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _object(known: Mapping[str, object], name: str) -> Mapping[str, object]:
    value = known[name]
    if not isinstance(value, Mapping):
        raise FormatError(f"the parameter {name!r} must be an object")
    return value


def _list(known: Mapping[str, object], name: str) -> list[object]:
    value = known.get(name, [])
    if not isinstance(value, list):
        raise FormatError(f"{name!r} of the parameter {NOISE!r} must be a list")
    return value


def _pair(value: object) -> tuple[Fraction, Fraction]:
    if not isinstance(value, list) or len(value) != 2:
        raise FormatError(f"a variance of {NOISE!r} must be two numbers")
    own, shared = value
    if shared == 0:
        return _positive(own), Fraction(0)
    return _positive(own), _positive(shared)


def _positive(value: object) -> Fraction:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < float("inf")
    ):
        raise FormatError("losses and variances of a table must be positive numbers")
    return Fraction(value)
