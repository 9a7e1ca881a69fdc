"""How far a synthetic table may lie from the private one: from public numbers before, from what was drawn after."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from gaussveil.postprocessing.synthetic.columns import OTHER, Column
from gaussveil.postprocessing.synthetic.marginals import MISSING_DEVIATIONS, Marginal

BRIDGE = 0.8687  # mean of the largest distance of a Brownian bridge from zero
INSIDE = 0.25  # of its share, by which the law inside the largest interval is off
LARGEST_GAP = 0.2  # mean expected distance of columns above which rows are refused
MOST_EMPTY = 0.5  # of the columns, above which rows are refused
WORTH_TELLING = 0.05  # share of a column at one end of its range
LEAST_HELD = 0.8  # of a column's spread that does not rest on how far tails reach, without a word
MOST_OTHERS = 0.05  # share of a column's values that may be others without a word


def expected_gap(
    records: float, cells: int, deviation: float, interval: float = 0.0
) -> float:
    """Kolmogorov-Smirnov distance to expect of one column.

    Noisy counts of C cells, normalised, are off by a Brownian bridge whose variance at the end is C times theirs; what
    lies in an interval with a share of `interval` is told by its neighbours alone, and is off by a quarter of it.
    """
    noise = BRIDGE * deviation * math.sqrt(cells) / max(records, 1.0)
    return min(math.hypot(noise, INSIDE * interval), 1.0)


@dataclass(frozen=True)
class Blemish:
    """What is amiss with a column."""

    column: str
    says: str
    """The sentence, with a place for the column's name."""
    remedy: str
    """How the sentence goes on where a program is read, which has arguments to name."""

    def __str__(self) -> str:
        return self.says.format(repr(self.column)) + self.remedy


@dataclass(frozen=True)
class Quality:
    """What a release says of itself.

    Example: `Quality(900.0, {"age": 0.04}, {"age": 0.0}, 0.01, ()).usable` is True.
    """

    records: float
    """Noisy number of rows."""
    gaps: Mapping[str, float]
    """Expected distance of every column's law from the private one's (Kolmogorov-Smirnov)."""
    at_ends: Mapping[str, float]
    """Share of a column's numbers at the ends of its range, where those beyond it were moved."""
    least_share: float
    """Share of missing cells below which none are drawn, since noise explains them."""
    advice: tuple[str, ...]
    """What to change, in sentences; none if nothing is amiss."""
    unknown: tuple[str, ...] = ()
    """Columns of which nothing stands out of the noise: their cells are left empty, their distance is 1."""
    findings: tuple[Blemish, ...] = ()
    """What is amiss, column by column: what advice is made of."""

    @property
    def mean_gap(self) -> float:
        """Expected distance, mean over all columns; one that is left empty is wholly wrong."""
        return _mean(self.gaps)

    @property
    def on_distance(self) -> str:
        """How far columns may be off, and how many are left empty, in a sentence."""
        told = (
            f"by noise alone columns are off by about {self.mean_gap:.1%} of their rows"
        )
        if not self.unknown:
            return told
        return f"{told}, the {len(self.unknown)} of {len(self.gaps)} that are left empty wholly"

    @property
    def told_gap(self) -> float:
        """Expected distance, mean over the columns that are not left empty."""
        return _mean(
            {name: gap for name, gap in self.gaps.items() if name not in self.unknown}
        )

    @property
    def on_missing(self) -> str:
        """From which share on missing cells are drawn, in a sentence."""
        return (
            f"missing cells are drawn in columns that have more than about {self.least_share:.1%} of them; "
            "fewer are hidden by noise, and such columns have none"
        )

    @property
    def usable(self) -> bool:
        """Whether rows are given without being asked twice."""
        return self.told_gap <= LARGEST_GAP and not self._mostly_empty

    @property
    def _mostly_empty(self) -> bool:
        return len(self.unknown) > MOST_EMPTY * len(self.gaps)

    @property
    def verdict(self) -> str | None:
        """Why rows are not given without being asked twice, and what to change."""
        if self.usable:
            return None
        if self._mostly_empty:
            return mostly_empty(len(self.unknown), len(self.gaps))
        return too_small(self.records, len(self.gaps), self.told_gap)


def _mean(gaps: Mapping[str, float]) -> float:
    return sum(gaps.values()) / len(gaps) if gaps else 1.0


def mostly_empty(unknown: int, columns: int) -> str:
    """Why a table of which little came through is refused, and what to change."""
    return (
        f"{unknown} of {columns} columns are left empty, since nothing of them stands out of the noise: "
        "such rows are of no use. Give ranges (between) and values (values) where they are public, take fewer columns, "
        "a larger epsilon or delta, fewer rows per unit, or more rows."
    )


def too_small(records: float, columns: int, gap: float) -> str:
    """Why a table is refused, and what to change."""
    return (
        f"about {records:.0f} rows are too few for {columns} columns: their laws would be off by {gap:.0%} on average. "
        "Take fewer columns or label values, a larger epsilon or delta, fewer rows per unit, or more rows."
    )


def quality_of(
    records: float,
    gaps: Mapping[str, float],
    marginals: Mapping[str, Marginal],
    deviation: float,
    columns: Sequence[Column] = (),
    unknown: Sequence[str] = (),
) -> Quality:
    """Put together what was released: expected distances, what piles up at the ends of ranges, the noise of counts.

    `columns` tell of which the values were found, the last of them standing for all others; of `unknown` ones none was.
    """
    ends = {
        name: _at_ends(one)
        for name, one in marginals.items()
        if one.partition is not None
    }
    findings = [
        Blemish(
            name,
            "{} is left empty, since nothing of it stands out of the noise",
            ": give its range (between) or values (values) where they are public; fewer columns, fewer rows per unit "
            "or a larger epsilon help as well.",
        )
        for name in unknown
    ]
    findings += [
        Blemish(
            name,
            f"{share:.0%} of {{}} are the ends of its range, to which numbers beyond it were moved",
            ": widen it (between).",
        )
        for name, share in ends.items()
        if share > WORTH_TELLING
    ]
    findings += [
        Blemish(
            name,
            f"{share:.0%} of {{}} lie far from all others, and only on which side is known: trust no mean or "
            "correlation of it",
            "; give its range (between), and leave cells empty where a number such as -999 says that none is known.",
        )
        for name, share in _unplaced(marginals).items()
        if share > 0
    ]
    findings += [
        Blemish(
            name,
            f"{1 - held:.0%} of the standard deviation of {{}} rest on how far its outermost numbers reach, of which "
            "only the count is known: trust neither it nor the largest and smallest numbers",
            "; more rows, fewer columns or label values, or a larger epsilon help.",
        )
        for name, held in _held(marginals).items()
        if held < LEAST_HELD
    ]
    others = {
        one.name: float(marginals[one.name].shares[:, -1].mean())
        for one in columns
        if one.others and one.name in marginals
    }
    findings += [
        Blemish(
            name,
            f"{share:.0%} of {{}} are {OTHER!r}, values that too few rows share for them to show",
            ": list its values (values), give the range of times of day such as 08:15 (between), or leave it out "
            "(columns).",
        )
        for name, share in others.items()
        if share > MOST_OTHERS
    ]
    least = min(MISSING_DEVIATIONS * deviation / max(records, 1.0), 1.0)
    every = {**gaps, **dict.fromkeys(unknown, 1.0)}
    advice = tuple(map(str, findings))
    found = Quality(
        records, every, ends, least, advice, tuple(unknown), tuple(findings)
    )
    if found.verdict is None:
        return found
    return replace(found, advice=(found.verdict, *advice))


def _unplaced(marginals: Mapping[str, Marginal]) -> dict[str, float]:
    """Of columns of numbers, the share of which only the side is known."""
    return {
        name: sum(one.unplaced)
        for name, one in marginals.items()
        if one.partition is not None
    }


def _held(marginals: Mapping[str, Marginal]) -> dict[str, float]:
    """Of columns of numbers, the part of their spread that does not rest on how far tails reach."""
    return {
        name: one.held_spread
        for name, one in marginals.items()
        if one.partition is not None
    }


def _at_ends(marginal: Marginal) -> float:
    """Share of numbers that are the smallest or the largest possible one, but for a zero, which is one of its own."""
    shares = marginal.together
    moved = (marginal.low == marginal.high) & (marginal.low != 0)
    return float(shares[0] * moved[0] + shares[-1] * moved[-1])
