"""What is read of a running total once it was released: totals, sums of windows and means, which cost nothing more."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property

import numpy as np

from gaussveil import checks
from gaussveil.errors import AssumptionError, ParameterError
from gaussveil.mechanisms.meter_stream.continued import Continued
from gaussveil.mechanisms.running_total.design import TotalDesign
from gaussveil.mechanisms.running_total.history import (
    TotalHistory,
    WindowMean,
    WindowSum,
)
from gaussveil.timeseries.clock import hours
from gaussveil.typing import Floats


class ReadTotals(Continued):
    """Base of `RunningTotal`: the totals so far, as many as are kept."""

    keep: int | str | None
    sample_period: float | str
    _history: TotalHistory
    _held: int | None = None

    @property
    @abstractmethod
    def design_(self) -> TotalDesign:
        """Noise, grid and periods."""

    @property
    def index(self) -> int:
        """Readings pushed so far."""
        if self.is_open:
            return self._history.index
        return 0

    @property
    def outputs(self) -> list[float]:
        """The totals that are kept, the newest last."""
        if self.is_open:
            return [step * self.design_.filter.grid for step in self._history.kept]
        return []

    def released(self, first: int) -> Floats:
        """The totals after reading `first` and later ones; those that are no longer kept are refused.

        Returns:
            A total for each reading since.

        Raises:
            ParameterError: those totals are no longer kept, or not released yet.
        """
        begin = self.index - len(self.outputs)
        checks.whole("first", first, f"[{begin}, {self.index}]")
        return np.array(self.outputs[first - begin :], dtype=np.float64)

    def hold(self, first: int) -> None:
        """Keep all totals from reading `first` on, whatever `keep` says, until somebody holds from a later one."""
        self._held = first

    def _forget(self) -> None:
        """Let go of totals that nobody asked to keep."""
        if self._to_keep is None:
            return
        if self._held is None:
            held = 0
        else:
            held = self._history.index - self._held
        self._history.forget(max(self._to_keep, held))

    @cached_property
    def _to_keep(self) -> int | None:
        if self.keep is None:
            return None
        return 1 + readings_in(
            "keep", self.keep, hours("sample_period", self.sample_period)
        )

    def current(self) -> WindowSum:
        """The total as it stands, since it began, and the deviation of its error.

        Returns:
            The sum with the readings that it is of, and the deviation of its error.

        Raises:
            AssumptionError: no reading was pushed yet.
        """
        return self._begun().current()

    def window(self, first: int, last: int) -> WindowSum:
        """The sum of readings [first, last), of those that are kept or since the total began; free: post-processing.

        Returns:
            The sum with the readings that it is of, and the deviation of its error.

        Raises:
            AssumptionError: no reading was pushed yet.
        """
        return self._begun().window(first, last)

    def mean(self, last: int | str = "7d") -> WindowMean:
        """The mean of the last readings, as many or of as many hours, such as a week's; free: post-processing.

        Returns:
            The mean with the readings that it is of, and the deviation of its error.

        Raises:
            ParameterError: there were not so many readings yet.
            AssumptionError: no reading was pushed yet.
        """
        history = self._begun()
        samples = readings_in("last", last, self.design_.sample_period)
        if samples > history.index:
            raise ParameterError(
                f"last must be at most the {history.index} readings so far. Got {last!r}."
            )
        found = history.window(history.index - samples, history.index)
        return WindowMean(
            found.first, found.last, found.total / samples, found.sd / samples
        )

    def _begun(self) -> TotalHistory:
        if not self.index:
            raise AssumptionError("no reading was pushed yet: there is no total")
        return self._history


def readings_in(name: str, length: int | str, period: float) -> int:
    """A number of readings; a duration as text in whole readings."""
    if not isinstance(length, str):
        return checks.whole(name, length, "[0, inf)" if name == "keep" else "[1, inf)")
    count = hours(name, length) / period
    if name == "keep":
        return math.ceil(count * (1 - 1e-9))
    if abs(count - round(count)) > 1e-9 * count or count < 1:
        raise ParameterError(
            f"{name} must be whole readings of {period:g} h. Got {length!r}."
        )
    return round(count)
