"""Whether a request of a table can be useful, from public numbers: from how many units on, and what to ask instead.

A number is useful where its noise is at most half of what is to be told apart: a tenth of a stated range, of learnt
ones a fifth of the values' size, of counts, sums and histograms a tenth of the rows, of shares a tenth, of variances a
tenth of the largest; or what the caller says. Learnt bounds need so many units that they can be trusted, too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from gaussveil import checks
from gaussveil.mechanisms.table.answers import (
    CDF,
    Count,
    Histogram,
    Share,
    Sum,
    TableAnswer,
    Variance,
)
from gaussveil.mechanisms.table.request import Request
from gaussveil.mechanisms.usefulness import Useful, about
from gaussveil.spectrum.turns import first_whole, whole_turn
from gaussveil.statistics.keys import value_of

PART = 0.1  # of a range, a count, a sum or a share that is to be told apart
LEARNT = 0.2  # of values of size 1
HALF = 0.5
MOST_UNITS = 10**12
# What may be asked instead, whatever the request was.
WAYS = "longer windows, or a model of few numbers, such as a regression or a mixture"

COUNTED = Count | Histogram
SHARES = Share | CDF
Deviations = Callable[[int], Mapping[str, float]]


def usefulness(
    request: Request,
    deviations: Deviations,
    units: int | None,
    spread: float | None,
    fewest: int = 0,
    serves: Callable[[Request], bool] | None = None,
    called: str = "units",
) -> Useful:
    """The verdict on a request.

    Args:
        request: what is asked.
        deviations: those with so many units in every group.
        units: how many there are, if that is known.
        spread: what is to be told apart, if it is no part of a range.
        fewest: how many units learnt bounds need.
        serves: whether another request would be useful with so many units; what it says no to is not advised.
        called: what the verdict calls the units.
    """
    judged = request.answers
    if spread is not None:
        checks.positive("spread", spread)
    if units is not None:
        checks.whole("units", units)
    apart = groups_apart(request)

    def enough(in_group: int) -> bool:
        found = deviations(in_group)
        return all(
            sd <= HALF * _differences(answer, in_group * request.rows, spread)
            for answer in judged
            for name, sd in found.items()
            if name == answer.name
            or name.startswith((f"{answer.name}_", f"{answer.name} "))
        )

    in_group = first_whole(enough, MOST_UNITS, share=50)  # to a fiftieth
    if in_group is None:
        return Useful(
            False,
            f"cannot be useful with fewer than {MOST_UNITS:,} {called}: {_instead()}",
        )
    needed = max(in_group * apart, fewest)
    if apart > 1 and needed > fewest:
        where = f", {about(in_group)} in each of {apart} groups, since nobody is in all"
    elif apart == 1 and request.cells > 1:
        where = " in every group"
    else:
        where = ""
    told = _told_apart(judged, spread)
    if units is None:
        return Useful(
            True,
            f"useful from about {about(needed)} {called} on{where}: noise is then at most {told}",
            needed,
        )
    if units >= needed:
        return Useful(
            True,
            f"useful with {units:,} {called}{where if apart == 1 else ''}: noise is at most {told}",
            needed,
        )
    if units < fewest:
        reason = "bounds that are learnt from so few are not to be trusted"
        instead = _instead("a range that you state", *_fewer(request, serves))
    else:
        reason = f"noise would be more than {told}"
        instead = _instead(*_fewer(request, serves))
    enough_of_them = f"it needs about {about(needed)} {called}{where}"
    words = f"cannot be useful with {units:,} {called}: {reason}; {enough_of_them}. {instead}"
    return Useful(False, words, needed)


def _told_apart(judged: Sequence[TableAnswer], spread: float | None) -> str:
    """What noise is held against, of those kinds of answers that are asked for."""
    if spread is not None:
        return "half of what you want to tell apart"
    ranged = sum(not isinstance(one, COUNTED | SHARES) for one in judged)
    kinds = {
        "the range": ranged == 1,
        "ranges": ranged > 1,
        "counts": any(isinstance(one, COUNTED) for one in judged),
        "shares": any(isinstance(one, SHARES) for one in judged),
    }
    *first, last = [kind for kind, asked in kinds.items() if asked] or ["the range"]
    return "a twentieth of " + " and of ".join(filter(None, (", ".join(first), last)))


def groups_apart(request: Request) -> int:
    """Among how many groups the units are divided, where each can be in a part of the groups only."""
    if request.discovered or request.cells <= request.touched:
        return 1
    return math.ceil(request.cells / request.touched)


def _differences(answer: TableAnswer, rows: int, spread: float | None) -> float:
    if isinstance(answer, COUNTED):
        return PART * rows
    if isinstance(answer, SHARES):
        return PART
    between = getattr(answer, "between", None)
    if spread is not None:
        each = spread
    elif between is None:
        each = LEARNT
    else:
        each = PART * (between[1] - between[0])
    if isinstance(answer, Sum):
        return each * rows
    if isinstance(answer, Variance) and between is not None:
        return PART * float(between[1] - between[0]) ** 2 / 4
    return each


def of_groups(request: Request, groups: int) -> Request:
    """The same request of so many groups, a unit in the same part of them."""
    touched = math.ceil(request.touched * groups / request.cells)
    keys = {"group": value_of("group", range(groups))}
    return replace(request, keys=keys, groups_per_unit=touched)


def _fewer(request: Request, serves: Callable[[Request], bool] | None) -> Iterator[str]:
    """The most groups that would do, in words; nothing where not even one does."""
    if serves is None or request.discovered or request.cells < 2:
        return
    if not serves(of_groups(request, 1)):
        return
    most, _ = whole_turn(
        lambda groups: not serves(of_groups(request, groups)), 1, request.cells
    )
    if most == 1:
        yield f"one group in place of {request.cells}"
        return
    touched = of_groups(request, most).touched
    apart = f" (each in {touched} of them at most)" * (touched < most)
    yield f"{most} groups in place of {request.cells}{apart}"


def _instead(*first: str) -> str:
    return f"Ask instead for {', '.join([*first, WAYS])}."
