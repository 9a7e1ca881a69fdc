"""What a mechanism offers to the studio: a plan from public numbers, and one release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gaussveil.errors import ParameterError
from gaussveil_studio.offers.rounding import spoken_numbers

if TYPE_CHECKING:
    from gaussveil.accounting import Account, Adjacency, Certificate, Charge

CLOSE: Mapping[str, float] = {
    "epsilon": 50.0,
    "delta": 0.5,
}  # hides nothing, and is all that samplers allow
# A day of a home as everybody knows it: public, and of no data.
DAY = (2, 2, 1, 1, 1, 2, 4, 6, 6, 5, 5, 6, 7, 6, 5, 5, 6, 8, 10, 10, 9, 7, 5, 3)
ASKED_AGAIN = 'whose = input("Whose is it? That stands in no file: ")'


@dataclass(frozen=True)
class Picture:
    """Released or public numbers to draw: lines or bars over numbers or names."""

    title: str
    x: Sequence[Any]
    series: Mapping[str, Sequence[float]]
    x_name: str = ""
    y_name: str = ""
    kind: str = "line"
    log_x: bool = False
    log_y: bool = False
    bands: Sequence[Mapping[str, Any]] = ()
    """For some of the series, by number: `of`, `name`, and the lower and upper ends, `low` and `high`."""
    holds: str = ""
    """What the bands hold and what they do not, in a sentence."""
    own_scale: bool = False
    """Of a picture of rows: a scale for each, since their sizes have nothing in common."""
    whole: bool = False
    """Whether the numbers count something."""

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; series as pairs, since browsers reorder names that look like numbers."""
        series = [[name, list(y)] for name, y in self.series.items()]
        bands = [dict(one) for one in self.bands]
        told = spoken_numbers(series, bands, self.whole)
        return {
            **vars(self),
            "x": list(self.x),
            "series": series,
            "bands": bands,
            "told": told,
        }


def band(
    low: Sequence[float], high: Sequence[float], name: str = "95 % band", of: int = 0
) -> dict[str, Any]:
    """A band around one of a picture's series."""
    return {"of": of, "name": name, "low": list(low), "high": list(high)}


def spread(found: Sequence[Sequence[float]], of: int = 0) -> dict[str, Any]:
    """The band that answers to one question, each with noise of its own, lie in; without the two outermost."""
    ends = [sorted(each)[1:-1] for each in zip(*found)]
    name = f"{len(found) - 2} of {len(found)} rehearsals"
    return band([each[0] for each in ends], [each[-1] for each in ends], name, of)


@dataclass(frozen=True)
class OfferPlan:
    """What is known before anything is spent: facts in words, what it costs, and a picture of a rehearsal."""

    facts: Sequence[tuple[str, str]]
    charge: Charge | None = None
    adjacency: Adjacency | None = None
    simulated: Picture | None = None
    """The answer with its band on a simulated table of the same shape."""
    charge_at: Callable[[float], Charge] | None = None
    """What it would cost at another epsilon, where that is more than a mean shift."""
    seconds: float | None = None
    """About how long the release takes, where that is long."""
    doubtful: str = ""
    """Why such a release cannot be useful, where public numbers say so."""


@dataclass(frozen=True)
class Outcome:
    """What was released: the file's bytes, the certificate, facts, and how to draw a picture of released numbers."""

    body: bytes
    certificate: Certificate
    facts: Sequence[tuple[str, str]] = ()
    picture: Callable[[], Picture] | None = None
    rows: Sequence[Sequence[str]] = ()
    """The first rows of a table of rows, under their names."""


def spelled(mechanism: Any) -> str:
    """A mechanism as Python spells it, with the account that pays."""
    return f"{repr(mechanism).removesuffix(')')}, account=account)"


@dataclass
class Offer(ABC):
    """One order on one table."""

    order: Mapping[str, Any]
    address: str | None
    table_name: str = "table"
    account: Account | None = (
        None  # that would pay: what noise is best may depend on it
    )
    _known: dict[str, Any] = field(default_factory=dict)

    file_name = "release.csv"  # of the download

    @abstractmethod
    def plan(self) -> OfferPlan:
        """The preview: parameters, schema and what the mechanism declares public; no data."""

    @abstractmethod
    def prepare(self) -> int:
        """Do everything that can fail before anything is spent; the bytes to reserve for the file."""

    @abstractmethod
    def release(self, account: Account) -> Outcome:
        """Debit, draw and certify."""

    @abstractmethod
    def python(self) -> str:
        """A line that makes `release` of `table` and `account`."""

    def columns(self) -> list[str]:
        """Columns that a command must name; all others of the table are not read."""
        return []

    def named(self) -> dict[str, Any]:
        """What a command must name that the order leaves open."""
        return {}

    def seconds(self) -> float | None:
        """About how long a release takes, where that is long."""
        return None

    def shell(self) -> tuple[str, str]:
        """What a command needs beside the table, or in its place: a line that writes it; and what is read then."""
        return "", self.table_name

    def nearly_exact(self) -> Picture:
        """The released picture with next to no noise, for the owner of the data alone."""
        raise ParameterError("such a release cannot be compared with its table here")

    def needed_table(self) -> str:
        """The table's address, where the mechanism needs one."""
        if self.address is None:
            raise ParameterError("choose a table, or upload one")
        return self.address
