"""What the parameters of a table's certificate say of each other: losses, noise and the bounds of a unit.

A unit counts in t groups with r rows at most, so that in a draw of white noise it moves t numbers by r: its squared
loss is t r^2 over the variance. Of counts that share noise, and of the sums drawn with them, it is r^2 times the
largest j (1/a + sum 1/s) - j^2 b / (a (a + d b)) over j <= t, with own noise a, shared noise b, variances s of the
sums and d groups (derived: docs/math/tables.md). That the request was asked so, and that rows were bounded so, is the
issuer's word.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any

from gaussveil.accounting.certificates.laplace_parameters import (
    laplace_problems,
    told_exactly,
)
from gaussveil.errors import FormatError

LAW = "law"
LOSSES = "squared losses"
EPSILONS = "epsilons"
ROWS = "rows_per_group"
TOUCHED = "groups_per_unit"
CELLS = "groups_in_all"
NOISE = "noise variances"
BOUNDS = (ROWS, TOUCHED, CELLS)
_LISTS = {
    "histograms": "histogram",
    "cumulative counts, times the least": "cumulative",
}
_NOISES = {"rows", "features", "sums", *_LISTS}
_LAST_PLACES = Fraction(1, 2**40)
_KEPT = 2.0**-17  # of the mean shift, for rounding to grids


@dataclass
class TableChecks:
    """What is false, and which parameters were held against others.

    Another number for one of `together` alone does not fit; several of them changed together may.
    """

    problems: list[str] = field(default_factory=list)
    checked: set[str] = field(default_factory=set)
    together: set[str] = field(default_factory=set)


def table_names(known: Mapping[str, object]) -> tuple[str, ...]:
    """The parameters that say together what a table's draws cost."""
    spent = [name for name in (LOSSES, EPSILONS) if name in known]
    if not spent and known.get(LAW) == "laplace":
        spent = [EPSILONS]
    elif not spent:
        spent = [LOSSES]
    return LAW, ROWS, TOUCHED, CELLS, *spent, NOISE


def table_checks(
    known: Mapping[str, object],
    energy: Fraction | None,
    parts: list[Any],
) -> TableChecks:
    """Hold the parameters of a table's certificate against each other and against the charge.

    Args:
        known: the parameters.
        energy: the squared mean shift that is charged, where it is one.
        parts: the parts of the charge as they are stored.
    """
    checks = TableChecks()
    checks.problems = [
        f"the parameter {name!r} must be a whole number of at least 1"
        for name in BOUNDS
        if name in known and not _is_count(known[name])
    ]
    if checks.problems or not known.keys() & {LOSSES, EPSILONS}:
        return checks
    whole = all(name in known for name in table_names(known))
    if whole:
        checks.problems += _bounds_problems(known)
    if LOSSES in known:
        _gaussian(known, energy, checks, whole=whole)
    elif whole:
        variances = _object(known, NOISE)
        checks.problems += laplace_problems(
            {name: _positive(part) for name, part in _object(known, EPSILONS).items()},
            {name: _positive(variance) for name, variance in variances.items()},
            _count(known, ROWS),
            _count(known, TOUCHED),
            parts,
        )
        checks.checked = {LAW}
        bounds = {name: _count(known, name) for name in (ROWS, TOUCHED)}
        checks.together = {EPSILONS, NOISE, *told_exactly(variances, bounds)}
    return checks


def _bounds_problems(known: Mapping[str, object]) -> Iterator[str]:
    if _count(known, TOUCHED) > _count(known, CELLS):
        yield "a unit counts in more groups than there are"
    law = {True: "gaussian", False: "laplace"}[LOSSES in known]
    if known[LAW] != law or (LOSSES in known and EPSILONS in known):
        yield "the law of the noise is not that of what is spent"


def _gaussian(
    known: Mapping[str, object],
    energy: Fraction | None,
    checks: TableChecks,
    *,
    whole: bool,
) -> None:
    """Squared losses add up to what is charged, and the noise of every draw is what its loss needs."""
    losses = {name: _positive(loss) for name, loss in _object(known, LOSSES).items()}
    total = sum(losses.values())
    if energy is None or total > energy:
        checks.problems.append(
            "the squared losses of the draws add up to more than is charged"
        )
        return
    left = math.sqrt(energy) - _KEPT
    if whole and abs(float(total) - left**2) > 2.0**-36 * left**2:
        checks.problems.append(
            "the squared losses of the draws do not add up to what is charged"
        )
    if not all(name in known for name in (ROWS, TOUCHED, NOISE)):
        return
    draws = list(_draws(_object(known, NOISE)))
    checks.problems += _noise_problems(known, losses, draws, whole=whole)
    if whole:
        checks.checked = {LAW}
        checks.together = {LOSSES, NOISE, *_told_by_noise(known, draws)}


@dataclass(frozen=True)
class _Draw:
    """A draw as it is stated: variances of each number, shared by all, and of sums that are drawn beside them."""

    name: str
    own: Fraction
    shared: Fraction = Fraction(0)
    beside: tuple[Fraction, ...] = ()

    @property
    def is_white(self) -> bool:
        """Whether no two numbers share noise."""
        return self.shared == 0

    def moved(self, touched: int, cells: int) -> Fraction:
        """The largest squared loss of a unit of one row in a group."""
        slope = 1 / self.own + sum(
            (1 / variance for variance in self.beside), Fraction(0)
        )
        bend = self.shared / (self.own * (self.own + cells * self.shared))
        peak = touched
        if bend:
            peak = min(touched, int(slope / (2 * bend)))
        return max(j * slope - j * j * bend for j in (peak, min(peak + 1, touched)))

    def least(self, touched: int) -> Fraction:
        """No more than that, where nobody says how many groups there are."""
        return touched / (self.own + touched * self.shared)


def _noise_problems(
    known: Mapping[str, object],
    losses: Mapping[str, Fraction],
    draws: list[_Draw],
    *,
    whole: bool,
) -> Iterator[str]:
    rows, touched = (_count(known, name) for name in (ROWS, TOUCHED))
    for draw in draws:
        loss = losses.get(draw.name)
        if loss is None:
            yield f"the noise of {draw.name} has no squared loss"
            continue
        lost = rows**2 * _moved(draw, touched, known, whole=whole)
        follows = whole or (draw.is_white and not draw.beside)
        if lost > loss * (1 + _LAST_PLACES):
            yield f"the noise of {draw.name} is too small for its squared loss and the bounds of a unit"
        elif follows and lost < loss * (1 - _LAST_PLACES):
            yield f"the noise of {draw.name} does not follow from its squared loss and the bounds of a unit"
    if whole:
        yield from _unstated(losses, draws)


def _moved(
    draw: _Draw, touched: int, known: Mapping[str, object], *, whole: bool
) -> Fraction:
    """By how much a unit of one row moves a draw; at least, where nobody says how many groups there are."""
    if whole:
        return draw.moved(touched, _count(known, CELLS))
    return draw.least(touched)


def _unstated(losses: Mapping[str, Fraction], draws: list[_Draw]) -> Iterator[str]:
    """Squared losses of numbers whose noise stands nowhere."""
    of_noise = ("rows", "sum", *_LISTS.values())
    for name in losses.keys() - {draw.name for draw in draws}:
        if name.partition(" ")[0] in of_noise:
            yield f"the noise of {name} is not stated"


def _told_by_noise(known: Mapping[str, object], draws: list[_Draw]) -> Iterator[str]:
    """Those bounds of a unit of which another number alone would not fit the noise of some draw."""
    _, touched, cells = (_count(known, name) for name in BOUNDS)
    if draws:
        yield ROWS
    for draw in draws:
        lost = draw.moved(touched, cells)
        near = {
            TOUCHED: [(touched - 1, cells), (touched + 1, cells)],
            CELLS: [(touched, cells - 1), (touched, cells + 1)],
        }
        for name, others in near.items():
            moved = [draw.moved(*other) for other in others if min(other)]
            if all(abs(one - lost) > lost * 2 * _LAST_PLACES for one in moved):
                yield name


def _draws(stated: Mapping[str, object]) -> Iterator[_Draw]:
    """Every draw that is stated."""
    unknown = stated.keys() - _NOISES
    if unknown or ("features" in stated and "rows" not in stated):
        raise FormatError(
            f"the parameter {NOISE!r} must hold variances of draws that are known"
        )
    if "rows" in stated:
        beside = tuple(map(_positive, _list(stated, "features")))
        yield _Draw("rows", *_pair(stated["rows"]), beside)
    for place, entry in enumerate(_list(stated, "sums")):
        yield _Draw(f"sum {place}", *_pair(entry))
    for key, name in _LISTS.items():
        for place, entry in enumerate(_list(stated, key)):
            yield _Draw(f"{name} {place}", _positive(entry))


def _is_count(value: object) -> bool:
    return type(value) is int and value >= 1


def _count(known: Mapping[str, object], name: str) -> int:
    value = known[name]
    assert isinstance(value, int)
    return value


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
    if type(shared) in (int, float) and shared == 0:
        return _positive(own), Fraction(0)
    return _positive(own), _positive(shared)


def _positive(value: object) -> Fraction:
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float)
        or not 0 < value < math.inf
    ):
        raise FormatError("losses and variances of a table must be positive numbers")
    return Fraction(value)
