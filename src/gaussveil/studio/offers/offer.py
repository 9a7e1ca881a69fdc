"""What a mechanism offers to the studio: a plan from public numbers, and one release."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gaussveil.errors import ParameterError

if TYPE_CHECKING:
    from gaussveil.accounting import Account, Adjacency, Certificate, Charge

EPSILONS = (0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0)


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

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON values; series as pairs, since browsers reorder names that look like numbers."""
        series = [[name, list(y)] for name, y in self.series.items()]
        return {**vars(self), "x": list(self.x), "series": series, "bands": [dict(one) for one in self.bands]}


def band(low: Sequence[float], high: Sequence[float], name: str = "95 % band", of: int = 0) -> dict[str, Any]:
    """A band around one of a picture's series."""
    return {"of": of, "name": name, "low": list(low), "high": list(high)}


def against_epsilon(title: str, unit: str, series: Mapping[str, Sequence[float]]) -> Picture:
    """How something gets better with epsilon, at `EPSILONS`."""
    return Picture(title, EPSILONS, series, "epsilon", unit, log_x=True, log_y=True)


@dataclass(frozen=True)
class Plan:
    """What is known before anything is spent: facts in words, what it costs, and how it gets better with epsilon."""

    facts: Sequence[tuple[str, str]]
    charge: Charge | None = None
    adjacency: Adjacency | None = None
    accuracy: Picture | None = None
    simulated: Picture | None = None
    """The answer with its band on a simulated table of the same shape."""


@dataclass(frozen=True)
class Outcome:
    """What was released: the file's bytes, the certificate, facts, and how to draw a picture of released numbers."""

    body: bytes
    certificate: Certificate
    facts: Sequence[tuple[str, str]] = ()
    picture: Callable[[], Picture] | None = None


@dataclass
class Offer(ABC):
    """One order on one table."""

    order: Mapping[str, Any]
    address: str | None
    table_name: str = "table"
    _known: dict[str, Any] = field(default_factory=dict)

    file_form = "release.{file_format}"  # of the download, filled from the order

    @property
    def file_name(self) -> str:
        """Name of the download."""
        return self.file_form.format(**self.order)

    @abstractmethod
    def plan(self) -> Plan:
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

    def needed_table(self) -> str:
        """The table's address, where the mechanism needs one."""
        if self.address is None:
            raise ParameterError("choose a table, or upload one")
        return self.address


def names(text: str | None) -> tuple[str, ...] | None:
    """Names separated by commas; None where there are none."""
    listed = tuple(part.strip() for part in (text or "").split(",") if part.strip())
    return listed or None
