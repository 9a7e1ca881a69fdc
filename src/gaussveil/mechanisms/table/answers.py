"""What can be asked of a table. Every answer states the public bounds that its numbers are clipped to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.statistics.keys import Bins, Thresholds
from gaussveil.statistics.unit_cells import Feature

Range = tuple[float, float]
MOST_QUANTILES = 32
UNBOUNDED: Range = (-(2.0**20), 2.0**20)  # where only norms of units are bounded


@dataclass(frozen=True)
class TableAnswer:
    """One number, or several, per group."""

    @property
    def name(self) -> str:
        """The answer's column in the frame."""
        column = getattr(self, "column", None)
        return type(self).__name__.lower() + ("" if column is None else f"_{column}")

    @property
    def words(self) -> str:
        """What is asked, as a certificate says it."""
        return type(self).__name__.lower()


@dataclass(frozen=True)
class Count(TableAnswer):
    """How many units a group has, or rows where `rows_per_group` is above 1, of each unit at most so many.

    Rows without a number in a column of another answer are in none: beside a mean these are the units that it is over.
    `rows` says which is meant, and is held against `rows_per_group`: True for rows, False for units.

    Raises:
        ParameterError: rows is neither True, False nor None.

    >>> from gaussveil import Count
    >>> Count().name
    'count'
    """

    rows: bool | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        if not isinstance(self.rows, bool | None):
            checks.refuse(
                "rows",
                "True to count rows, False to count units, or left out",
                self.rows,
            )


class _Ranged:
    column: str
    between: Range | None
    bounds: str | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.column, str) or not self.column:
            checks.refuse("column", "the name of a column", self.column)
        if self.between is not None:
            object.__setattr__(self, "between", checks.span("between", self.between))
        if self.bounds not in (None, "auto"):
            checks.refuse(
                "bounds",
                "'auto', or left out with a range in between (--between)",
                self.bounds,
            )

    @property
    def _limits(self) -> str:
        """What values are held to, in words."""
        said = []
        if self.between is not None:
            said.append("between {:g} and {:g}".format(*self.between))
        if self.bounds is not None:
            said.append("bounds learnt within the budget")
        return ", ".join(said)

    @property
    def span(self) -> Range:
        """The range, which must have been given where none is to be learnt."""
        if self.between is None and self.bounds is None:
            raise ParameterError(
                f"between must be given for {type(self).__name__}({self.column!r}): the public range (low, high) that "
                'values are clipped to, as in --between 0,10; bounds="auto" (--bounds auto) learns it.'
            )
        return self.between or UNBOUNDED


@dataclass(frozen=True)
class _OfColumn(_Ranged, TableAnswer):
    column: str
    between: Range | None = None

    @property
    def words(self) -> str:
        """What is asked, as a certificate says it."""
        return f"{type(self).__name__.lower()} of {self.column} {self._limits}"

    @property
    def feature(self) -> Feature:
        """What is summed over rows."""
        return Feature(self.column, *self.span)


@dataclass(frozen=True)
class _Bounded(_OfColumn):
    unit_norm: float | tuple[float, float, float] | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unit_norm is not None:
            if isinstance(self.unit_norm, Iterable):
                given = tuple(self.unit_norm)
            else:
                given = (self.unit_norm,)
            if len(given) not in (1, 3):
                raise ParameterError(
                    "unit_norm must be one number, or three: rough, smooth residual, rest."
                )
            for norm in given:
                checks.size("unit_norm", norm)

    @property
    def _limits(self) -> str:
        """What values are held to, in words."""
        said = super()._limits
        if self.unit_norm is None:
            return said
        given = np.atleast_1d(np.asarray(self.unit_norm)).tolist()
        norms = ", ".join(f"{norm:g}" for norm in given)
        return ", ".join(filter(None, (said, f"a unit's curve within {norms}")))

    @property
    def is_profile(self) -> bool:
        """Whether the norm of a unit's whole curve is bounded, not each value."""
        return self.unit_norm is not None or self.bounds is not None

    @property
    def feature(self) -> Feature:
        """What is summed over rows."""
        if self.is_profile:
            return Feature(self.column, *(self.between or UNBOUNDED))
        return super().feature


@dataclass(frozen=True)
class Sum(_Bounded):
    """Sum of a column clipped to `between`, or within the bounds of `Mean`; a unit weighs as much as there.

    Args:
        column: name of the column.
        between: public range that values are clipped to.
        bounds, unit_norm: as in `Mean`.

    Raises:
        ParameterError: not exactly one kind of bound is given, or it is out of range.

    >>> from gaussveil import Sum
    >>> Sum("kw", between=(0, 10)).name
    'sum_kw'
    """


@dataclass(frozen=True)
class Mean(_Bounded):
    """Mean of a column over the units that have rows in the group, each once by the mean of its rows there.

    With `rows_per_group` above 1 a unit weighs as many of its rows as it has, at most so many. Values are clipped to
    `between`; or, with `unit_norm` or bounds="auto", a unit's whole curve over its groups is, about a centre that is
    released with it. `unit_norm` bounds a root mean square over the groups that a unit can have: one number, the others
    then being learnt from the data within the budget, or three: of the whole curve, of its smooth part about the rough
    one, of the rest.

    Args:
        column: name of the column.
        between: public range that values are clipped to.
        bounds: "auto" to learn the bounds within the budget.
        unit_norm: public bound on a unit's whole curve instead.

    Raises:
        ParameterError: not exactly one kind of bound is given, or it is out of range.

    >>> from gaussveil import Mean
    >>> Mean("kw", between=(0, 10)).name
    'mean_kw'
    """


@dataclass(frozen=True)
class Variance(_OfColumn):
    """Variance of a column clipped to `between`, with bounds="auto" to the part of it that is learnt.

    Args:
        column: name of the column.
        between: public range that values are clipped to.
        bounds: "auto" to learn the part of it that is used.

    Raises:
        ParameterError: the range is none.

    >>> from gaussveil import Variance
    >>> Variance("kw", between=(0, 10)).name
    'variance_kw'
    """

    bounds: str | None = None

    @property
    def square(self) -> Feature:
        """The second feature."""
        return Feature(self.column, *self.span, "square")


@dataclass(frozen=True)
class Share(_OfColumn):
    """Share of the rows whose value lies in `between`, ends included; an end may be infinite.

    Args:
        column: name of the column.
        between: the range.

    Raises:
        ParameterError: the range is none.

    >>> from gaussveil import Share
    >>> Share("kw", between=(0, 1)).name
    'share_kw'
    """

    def __post_init__(self) -> None:
        low, high = (float(end) for end in self.span)
        if not low <= high:
            raise ParameterError(
                f"between must be a range (low, high) with low <= high. Got ({low:g}, {high:g})."
            )
        object.__setattr__(self, "between", (low, high))

    @property
    def feature(self) -> Feature:
        """1 inside and -1 outside."""
        return Feature(self.column, *self.span, "inside")


@dataclass(frozen=True)
class _OfEdges(TableAnswer):
    column: str
    edges: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "edges", tuple(float(edge) for edge in self.edges))
        Bins(self.column, self.edges)  # refuses edges that do not rise

    @property
    def bins(self) -> Bins | Thresholds:
        """The public bins that rows are counted in."""
        raise NotImplementedError

    def _of_edges(self, words: str) -> str:
        edges = ", ".join(f"{edge:g}" for edge in self.edges)
        return f"{words} of {self.column} with edges {edges}"


@dataclass(frozen=True)
class Histogram(_OfEdges):
    """Rows per range between public edges, and outside all of them; together the rows of the group.

    With `whole` a unit counts in whole rows: of more than `rows_per_group` so many, shared among its bins as its rows
    are, by largest remainders. Where units have no more rows than that it changes nothing but the noise: Laplace noise
    on whole numbers is a little smaller. Where they have more, one row each tells in which bin most of a unit's lie.
    Left out, it is so where the request says that units have no more (`rows_per_unit` of `TableRelease`).

    Args:
        column: name of the column.
        edges: public numbers that rise.
        whole: whether a unit counts in whole rows; None where the request's bounds decide.

    Raises:
        ParameterError: the edges do not rise, or are fewer than two.

    >>> from gaussveil import Histogram
    >>> Histogram("age", edges=(0, 18, 65, 120)).name
    'histogram_age'
    """

    whole: bool | None = None

    @property
    def words(self) -> str:
        """What is asked, as a certificate says it."""
        return self._of_edges("histogram") + ", in whole rows" * bool(self.whole)

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.whole, bool | None):
            checks.refuse("whole", "True or False, or left out", self.whole)

    @property
    def bins(self) -> Bins:
        """The public bins that rows are counted in."""
        return Bins(self.column, self.edges)


@dataclass(frozen=True)
class CDF(_OfEdges):
    """Share of the rows at or below each public edge but the first; values outside count as the ends.

    Args:
        column: name of the column.
        edges: public numbers that rise; the first is the least value.

    >>> from gaussveil import CDF
    >>> CDF("kw", edges=(0.0, 1.0, 2.0)).name
    'cdf_kw'
    """

    @property
    def words(self) -> str:
        """What is asked, as a certificate says it."""
        return self._of_edges("cumulative shares")

    @property
    def bins(self) -> Thresholds:
        """The public bins that rows are counted in."""
        return Thresholds(self.column, np.array([self.edges[1:-1]], dtype=np.float64))


@dataclass(frozen=True)
class Quantile(_Ranged, TableAnswer):
    """Quantiles of a column clipped to `between`, with bounds="auto" to the part of it that is learnt.

    Args:
        column: name of the column.
        q: share or shares of the rows below, each between 0 and 1.
        between: public range.
        bounds: "auto" to learn the part of the range that is used.

    Raises:
        ParameterError: a share is not between 0 and 1, or the range is none.

    >>> from gaussveil import Quantile
    >>> Quantile("kw", 0.5, between=(0, 10)).name
    'quantile_kw'
    """

    column: str
    q: float | tuple[float, ...]
    between: Range | None = None
    bounds: str | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        given = (self.q,) if np.ndim(self.q) == 0 else tuple(self.q)  # type: ignore[arg-type]
        if not 1 <= len(given) <= MOST_QUANTILES:
            raise ParameterError(
                f"q must be one share or at most {MOST_QUANTILES}. Got {len(given)}."
            )
        object.__setattr__(
            self, "q", tuple(checks.real("q", one, "(0, 1)") for one in given)
        )

    @property
    def words(self) -> str:
        """What is asked, as a certificate says it."""
        shares = ", ".join(f"{share:g}" for share in self.shares)
        return f"quantile {shares} of {self.column} {self._limits}"

    @property
    def shares(self) -> tuple[float, ...]:
        """Which quantiles, rising."""
        assert isinstance(self.q, tuple)
        return tuple(sorted(set(self.q)))
