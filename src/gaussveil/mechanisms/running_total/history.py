"""What was released of a running total and is kept: the last totals, and since when their noise goes on."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Self

from gaussveil import checks
from gaussveil.errors import FormatError
from gaussveil.mechanisms.running_total.design import TotalDesign


@dataclass(frozen=True)
class WindowSum:
    """The sum of readings [first, last), and the deviation of its error."""

    first: int
    last: int
    total: float
    sd: float


@dataclass(frozen=True)
class WindowMean:
    """The mean of readings [first, last), and the deviation of its error."""

    first: int
    last: int
    mean: float
    sd: float


@dataclass(frozen=True)
class Run:
    """Noise that began before reading `first`, when a total that had begun before `begun` stood at `total` steps."""

    first: int
    begun: int = 0
    total: int = 0
    variance: float = 0.0
    """Of the total's noise at that time."""


@dataclass(eq=False)
class TotalHistory:
    """Totals in steps of the lattice; `runs` are those that the kept ones belong to, the last the present one."""

    design: TotalDesign
    index: int = 0
    total: int = 0
    kept: list[int] = field(default_factory=list)
    runs: list[Run] = field(default_factory=lambda: [Run(0)])

    @property
    def oldest(self) -> int:
        """The reading of the first total that is kept."""
        return self.index - len(self.kept)

    def begin(self, run: Run) -> None:
        """Noise from here on has nothing to do with the noise so far."""
        self.total = run.total
        if self.runs[-1].first == run.first:
            self.runs.pop()
        self.runs.append(run)

    def anew(self) -> Run:
        """A run that begins a new total here."""
        return Run(self.index, self.index)

    def continued(self) -> Run:
        """A run that goes on from the total here."""
        return replace(
            self.runs[-1], first=self.index, total=self.total, variance=self.variance()
        )

    def add(self, increments: list[int]) -> list[int]:
        """The totals after further noisy readings."""
        totals = []
        for increment in increments:
            self.total += increment
            totals.append(self.total)
        self.index += len(totals)
        self.kept += totals
        return totals

    def forget(self, kept: int) -> None:
        """Let go of all but so many totals."""
        del self.kept[: max(0, len(self.kept) - kept)]
        while len(self.runs) > 1 and self.runs[1].first <= self.oldest:
            del self.runs[0]

    def variance(self) -> float:
        """Of the total's noise as it stands."""
        run = self.runs[-1]
        return run.variance + self.design.sd(0, self.index - run.first) ** 2

    def current(self) -> WindowSum:
        """The total as it stands."""
        return WindowSum(
            self.runs[-1].begun,
            self.index,
            self._scaled(self.total),
            math.sqrt(self.variance()),
        )

    def window(self, first: int, last: int) -> WindowSum:
        """The sum of some readings."""
        earliest = max(
            self.runs[0].first, self.oldest + (self.oldest > self.runs[0].first)
        )
        checks.whole("first", first, f"[{min(earliest, self.index)}, {self.index}]")
        checks.whole("last", last, f"[{first + 1}, {self.index}]")
        steps = 0
        variance = 0.0
        for run, begin, end in self._cut(first, last):
            if begin == run.first:
                before = run.total
            else:
                before = self._after(begin)
            steps += self._after(end) - before
            variance += self.design.sd(begin - run.first, end - run.first) ** 2
        return WindowSum(first, last, self._scaled(steps), math.sqrt(variance))

    def _cut(self, first: int, last: int) -> list[tuple[Run, int, int]]:
        """The window in parts of one run each."""
        ends = [*(run.first for run in self.runs[1:]), self.index]
        parts = [
            (run, max(first, run.first), min(last, end))
            for run, end in zip(self.runs, ends)
        ]
        return [(run, begin, end) for run, begin, end in parts if begin < end]

    def _after(self, index: int) -> int:
        """The total after so many readings."""
        return self.kept[index - 1 - self.oldest]

    def _scaled(self, steps: int) -> float:
        return steps * self.design.filter.grid

    def to_record(self) -> dict[str, Any]:
        """Plain values."""
        runs = [asdict(run) for run in self.runs]
        return {
            "index": self.index,
            "total": self.total,
            "kept": self.kept,
            "runs": runs,
        }

    @classmethod
    def from_record(cls, design: TotalDesign, record: Any) -> Self:
        """Inverse of `to_record`."""
        index = checks.whole("index", record["index"], f"[0, {design.sample_limit}]")
        kept = [int(value) for value in record["kept"]]
        runs = [Run(**run) for run in record["runs"]]
        if not runs or len(kept) > index:
            raise FormatError("the running total does not say since when it goes on")
        return cls(design, index, int(record["total"]), kept, runs)
