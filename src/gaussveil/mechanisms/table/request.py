"""A request: keys, answers and the bounds of a unit, checked; and what must be counted and summed to answer it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, TypeVar

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.noisy_sums import MOST_DRAWS
from gaussveil.mechanisms.table.answers import (
    CDF,
    Count,
    Histogram,
    Mean,
    Quantile,
    Share,
    Sum,
    TableAnswer,
    Variance,
)
from gaussveil.mechanisms.table.asked import (
    answers_of,
    in_rows,
    key_of,
    merged,
    with_bounds,
)
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.mechanisms.table.quantiles import ROUND_SHARES, first_limits
from gaussveil.statistics.cell_reader import CellReader
from gaussveil.statistics.key import Key
from gaussveil.statistics.keys import Bins, Discovered, Thresholds, value_of
from gaussveil.statistics.unit_cells import Feature

Item = TypeVar("Item")

MOST_GROUPS = 2**20
MANY_CELLS = (
    10**9
)  # what is assumed of keys that are not known yet: noise for more cells is noise for fewer


@dataclass(frozen=True)
class Request:
    """What is asked, of whom, by which keys, and within which bounds."""

    unit: str
    keys: Mapping[str, Key | Discovered]
    answers: tuple[TableAnswer, ...]
    rows: int
    groups_per_unit: int | None
    totals: bool = False
    rows_per_unit: int | None = None
    """How many rows a unit has in all, where that is public; the bounds that follow are enforced."""

    @classmethod
    def of(
        cls,
        unit: Any,
        by: Any,
        answers: Any,
        rows: object,
        groups: object,
        unit_norm: Any,
        bounds: Any,
        totals: bool,
        other: bool = False,
        rows_in_all: object = None,
    ) -> Request:
        """The request in the caller's words."""
        if not isinstance(unit, str) or not unit:
            checks.refuse("unit", "the column that names whose row it is", unit)
        if not isinstance(by, Mapping):
            checks.refuse(
                "by",
                "a dictionary of names and keys such as {'hour': hour_of('time')}",
                by,
            )
        keys = {
            str(name): key_of(str(name), given, other) for name, given in by.items()
        }
        asked = answers_of(answers)
        if unit_norm is not None or bounds is not None:
            asked = [with_bounds(answer, unit_norm, bounds) for answer in asked]
        rows = checks.whole("rows_per_group", rows, "[1, 1048576]")
        if groups is not None:
            groups = checks.whole("groups_per_unit", groups)
        if rows_in_all is not None:
            rows_in_all = checks.whole("rows_per_unit", rows_in_all)
        asked = in_rows(asked, rows_in_all is not None and rows_in_all <= rows)
        request = cls(
            unit,
            keys,
            tuple(merged(asked)),
            rows,
            groups,
            bool(totals),
            rows_in_all,
        )
        request._check()
        return request

    def _check(self) -> None:
        """Refuse what no table could answer."""
        self._check_names()
        self._check_counts()
        for answer, _ in self.searches:
            first_limits(answer)  # refuses a quantile without a range
        if self.discovered and self.profiles:
            raise ParameterError(
                "unit_norm and bounds='auto' need public keys: list the values of every key."
            )
        self._check_size()

    def _check_names(self) -> None:
        names = [*self.keys, *(answer.name for answer in self.answers)]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise ParameterError(
                f"answers and keys must have names of their own. {twice[0]!r} occurs twice."
            )
        if self.unit in self.numbers:
            raise ParameterError(
                f"the unit {self.unit!r} says whose row it is: its cells are names, no values to answer from. A sheet "
                "with a column for each home or hour must be made one with a row for each reading first."
            )

    def _check_counts(self) -> None:
        """Whether units or rows are counted follows from how many rows a unit may have."""
        counted = [answer.rows for answer in self.answers if isinstance(answer, Count)]
        if self.rows == 1 and True in counted:
            raise ParameterError(
                "rows_per_group must be above 1 for Count(rows=True): how many rows of one unit count at most in a "
                "group. With 1 every unit counts once, and Count() is the number of units."
            )
        if self.rows > 1 and False in counted:
            raise ParameterError(
                f"rows_per_group must be 1 for Count(rows=False), the number of units. Got {self.rows}: Count() then "
                "counts rows."
            )

    def _check_size(self) -> None:
        """Refuse more groups or draws than a release may have."""
        if self._listed_cells > MOST_GROUPS:
            raise ParameterError(
                f"the keys must make at most {MOST_GROUPS} groups together. Got {self._listed_cells}."
            )
        in_one_draw = (
            self.features,
            self.lone_sums,
            self.histograms,
            self.cumulatives,
            self.learnt_ranges,
        )
        draws = (
            2
            + sum(map(len, in_one_draw))
            + 9 * len(self.profiles)
            + len(ROUND_SHARES) * len(self.searches)
        )
        if draws > MOST_DRAWS:
            raise ParameterError(
                f"answers must need at most {MOST_DRAWS} draws together. Got {draws}: ask for fewer."
            )

    @cached_property
    def discovered(self) -> dict[str, Discovered]:
        """The keys whose values are not known yet."""
        return {
            name: key for name, key in self.keys.items() if isinstance(key, Discovered)
        }

    @property
    def _listed_cells(self) -> int:
        return math.prod(
            len(key.values) for key in self.keys.values() if isinstance(key, Key)
        )

    @cached_property
    def cells(self) -> int:
        """Number of groups, a bound of it where keys are not known yet."""
        if self.discovered:
            return MANY_CELLS
        return self._listed_cells

    @property
    def most_values(self) -> int:
        """How many values of each key to be discovered are shown at most: a public limit, whatever is found."""
        return max(
            1, int((MOST_GROUPS / self._listed_cells) ** (1 / len(self.discovered)))
        )

    @cached_property
    def touched(self) -> int:
        """In how many groups a unit counts at most."""
        sizes = (
            key.per_unit if isinstance(key, Discovered) else len(key.values)
            for key in self.keys.values()
        )
        stated = (self.groups_per_unit or MANY_CELLS, self.rows_per_unit or MANY_CELLS)
        return min(math.prod(sizes), *stated)

    @property
    def counts(self) -> str:
        """What a count counts, in a sentence."""
        numbers = " and in ".join(self.numbers)
        if self.rows == 1 and numbers:
            return f"units that have a row with a number in {numbers}"
        if self.rows == 1:
            return "units"
        rows = f"rows with a number in {numbers}" if numbers else "rows"
        return f"{rows}, of each unit at most {self.rows} in a group"

    @property
    def in_rows(self) -> str:
        """Why histograms count whole rows, in a sentence; nothing where they count shares of rows."""
        whole = [one.name for one in self.histograms if one.whole]
        if not whole:
            return ""
        why = "as was asked"
        if self.rows_per_unit is not None and self.rows_per_unit <= self.rows:
            why = f"since rows_per_unit={self.rows_per_unit}"
        return f"{' and '.join(whole)} in whole rows, {why}"

    @property
    def averaged(self) -> str:
        """Whom means and sums are over, in a sentence."""
        if self.rows == 1:
            weight = "once, by the mean of its rows there"
        else:
            weight = f"by its rows there, as {self.rows} at most"
        if self.groups_per_unit is None and self.rows_per_unit is None:
            groups = ""
        else:
            groups = f", of at most {self.touched} groups"
        return f"a mean is over the units that have rows in the group; each counts {weight}{groups}"

    @cached_property
    def layout(self) -> Layout:
        """In which groups one unit is expected; keys must be known."""
        return Layout.of(self.keys, self.touched, self.groups_per_unit)

    def with_values(self, values: Mapping[str, Sequence[Any]]) -> Request:
        """The same request once the values of the discovered keys have been released."""
        listed = {
            name: value_of(key.column, values[name])
            for name, key in self.discovered.items()
        }
        return replace(self, keys={**self.keys, **listed}, groups_per_unit=self.touched)

    @cached_property
    def learning(self) -> tuple[Variance | Quantile, ...]:
        """Answers whose range is learnt."""
        return tuple(
            one
            for one in self.answers
            if isinstance(one, Variance | Quantile) and one.bounds
        )

    @cached_property
    def learnt_ranges(self) -> tuple[str, ...]:
        """Columns whose values' sizes are counted for that."""
        return _distinct([one.column for one in self.learning])

    def with_ranges(self, sizes: Mapping[TableAnswer, float]) -> Request:
        """The same request once sizes have been released that the answers which learn them keep to, where they can."""
        cut = {
            one: (max(one.span[0], -sizes[one]), min(one.span[1], sizes[one]))
            for one in self.learning
        }
        kept = {
            one: replace(one, between=ends)
            for one, ends in cut.items()
            if ends[0] < ends[1]
        }
        return replace(self, answers=tuple(kept.get(one, one) for one in self.answers))  # type: ignore[call-overload]

    # What must be counted and summed.

    @cached_property
    def profiles(self) -> tuple[Mean | Sum, ...]:
        """Answers that bound the norm of a unit's curve."""
        return tuple(
            one
            for one in self.answers
            if isinstance(one, Mean | Sum) and one.is_profile
        )

    @cached_property
    def counted(self) -> bool:
        """Whether rows are counted: for themselves, or to divide by."""
        divided = (Count, Variance, Share)
        return any(
            isinstance(one, divided) or (isinstance(one, Mean) and not one.is_profile)
            for one in self.answers
        )

    @cached_property
    def features(self) -> tuple[Feature, ...]:
        """Features that are summed beside the count."""
        if not self.counted:
            return ()
        stated = [one for one in self.answers if one not in self.learning]
        found = [one.feature for one in stated if isinstance(one, Share | Variance)]
        found += [
            one.feature
            for one in stated
            if isinstance(one, Mean | Sum) and not one.is_profile
        ]
        found += [one.square for one in stated if isinstance(one, Variance)]
        # Ranges that are learnt may coincide with others, or cease to: their features are always drawn by themselves.
        alone = [
            (one.feature, one.square)
            for one in self.learning
            if isinstance(one, Variance)
        ]
        return (*_distinct(found), *chain(*alone))

    @cached_property
    def lone_sums(self) -> tuple[Feature, ...]:
        """Sums where nobody counts: with noise of their own, for values of one sign with less of it."""
        if self.counted:
            return ()
        sums = (
            one for one in self.answers if isinstance(one, Sum) and not one.is_profile
        )
        return _distinct([replace(one.feature, kind="size") for one in sums])

    @cached_property
    def histograms(self) -> tuple[Histogram, ...]:
        """Answers whose bins are counted."""
        return tuple(one for one in self.answers if isinstance(one, Histogram))

    @cached_property
    def cumulatives(self) -> tuple[CDF, ...]:
        """Answers that read prefix sums of bins."""
        return tuple(one for one in self.answers if isinstance(one, CDF))

    @cached_property
    def searches(self) -> tuple[tuple[Quantile, bool], ...]:
        """Quantiles that are searched for, and whether in all groups together."""
        found = [one for one in self.answers if isinstance(one, Quantile)]
        return tuple(
            (one, together)
            for together in (False, True)[: 1 + self.totals]
            for one in found
        )

    @property
    def reader(self) -> CellReader:
        """What one pass reads for everything but profiles; keys must be known."""
        keys = tuple(key for key in self.keys.values() if isinstance(key, Key))
        bins: list[Bins | Thresholds] = [
            one.bins for one in (*self.histograms, *self.cumulatives)
        ]
        bins += [first_limits(one) for one, _ in self.searches]
        curves = tuple(one.column for one in self.profiles)
        features = (*self.features, *self.lone_sums)
        return CellReader(self.unit, keys, features, tuple(bins), curves)

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of which a row must have the numbers, all of them, to count in any answer."""
        asked = [getattr(one, "column", None) for one in self.answers]
        return _distinct([column for column in asked if column is not None])


def _distinct(items: Sequence[Item]) -> tuple[Item, ...]:
    return tuple(dict.fromkeys(items))
