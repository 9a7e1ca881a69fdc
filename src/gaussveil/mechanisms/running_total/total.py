"""A private running total: after every reading the sum of all so far, for a meter or over many, for years.

Released: A (x + C^-1 z) on a public grid, A the lower triangle of ones, C a buffered linear Toeplitz strategy, z white.
Its error grows with the logarithm of the number of readings, where that of independent noise grows with the root.

Adjacency: one meter changes in at most `takes` readings, `separation` or more apart, each by at most `size`.

Theorem (Denisov and others 2022, Theorem 2.1; with the lattice: docs/mechanisms/running_total.md). All totals together
are dominated by N(D, 1) against N(0, 1), D the largest norm of C d over the differences d, over the deviation of z.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Any, Self

import numpy as np

from gaussveil import checks
from gaussveil.accounting import Account, Certificate
from gaussveil.accounting.buffered_toeplitz import BOTH
from gaussveil.errors import AssumptionError
from gaussveil.mechanisms.meter_fleet import meter_columns
from gaussveil.mechanisms.release_path import Mechanism, check_generator
from gaussveil.mechanisms.running_total.design import (
    TotalDesign,
    TotalRequest,
    check_paid,
    design_from_dict,
    design_to_dict,
    design_total,
    total_plan,
)
from gaussveil.mechanisms.running_total.figures import TotalPlan, figures
from gaussveil.mechanisms.running_total.history import (
    Run,
    TotalHistory,
)
from gaussveil.mechanisms.running_total.noise import TotalNoise
from gaussveil.mechanisms.running_total.reading import ReadTotals, readings_in
from gaussveil.noise import Generator
from gaussveil.noise.filter_bank import to_steps
from gaussveil.timeseries.clock import hours
from gaussveil.typing import Floats


@dataclass(kw_only=True, eq=False, repr=False)
class RunningTotal(ReadTotals):
    """Private running totals of one meter, or of many together.

    >>> total = RunningTotal(steps=1024, epsilon=1.0, delta=1e-5, limits=(0.0, 1.0))
    >>> total.push_many(np.full(1000, 0.5)).shape
    (1000,)
    >>> total.current().sd < 20
    True

    The account is debited once, before the first total. Memory is a number a buffer, and the last week's totals.

    Args:
        epsilon, delta: the promise for all totals.
        steps: readings that are covered, at most.
        limits: public range that a reading is clipped to.
        size: by how much one reading may be changed; all that the limits allow, its absence included, by default.
        takes: in how many readings a record may be; None for as many as the separation allows: all, at separation 1.
        separation: how many readings these are apart, at least.
        every: after so many readings, or hours as text, a new total begins by itself.
        buffers: numbers of state; five are within a thousandth of the best.
        minimise: the "mean" squared error of the totals, that of the "last" one, or the product of "both".
        sample_period: hours between readings, or text; what durations such as "7d" are measured by.
        keep: how many of the last totals are kept, for windows and means; readings, or hours as text.
        substitute: public reading that stands for a missing one.
        account, people, generator: as in `GaussianRelease`; debited once, before the first total.
    """

    mechanism = "running total"
    kept_as = "running total"
    released_as = "readings"
    steps: int
    limits: tuple[float, float] = (0.0, 1.0)
    size: float | None = None
    takes: int | None = 1
    separation: int = 1
    every: int | str | None = None
    buffers: int = 5
    minimise: str = BOTH
    sample_period: float | str = 1.0
    keep: int | str | None = "7d"
    substitute: float = 0.0
    _design: TotalDesign | None = field(init=False, repr=False, default=None)

    __repr__ = Mechanism.__repr__

    def _facts(self) -> dict[str, str]:
        return self.plan()._facts()

    @property
    def design_(self) -> TotalDesign:
        """The design, made when it is first asked for; nothing is drawn or spent."""
        if self._design is None:
            check_generator(self.generator)
            period = hours("sample_period", self.sample_period)
            if self.every is None:
                every = self.steps
            else:
                every = readings_in("every", self.every, period)
            if self.keep is not None:
                readings_in("keep", self.keep, period)
            self._design = design_total(
                TotalRequest(
                    promise=self.promise,
                    steps=self.steps,
                    every=every,
                    limits=self.limits,
                    substitute=self.substitute,
                    size=self.size,
                    takes=self.takes,
                    separation=self.separation,
                    buffers=self.buffers,
                    minimise=self.minimise,
                    sample_period=period,
                )
            )
        return self._design

    def plan(self) -> TotalPlan:
        """Errors of totals and of a day's and a week's sum, beside other noise; nothing is spent.

        Returns:
            A `TotalPlan`: deviations of totals, days and weeks.
        """
        return figures(self.design_)

    def open(self) -> Certificate:
        """Debit and certify; the first `push` does it if nobody did.

        Returns:
            The certificate of all totals to come.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        if not self.is_open:
            self._open_with(np.empty(0))
        return self.certificate_

    def push(self, reading: Any) -> float:
        """The private total with this reading; None or NaN stands for a missing one and is answered all the same.

        Of many meters, a row of readings.

        Returns:
            The total, in the unit of the readings.

        Raises:
            AssumptionError: there were as many readings as the certificate covers.
        """
        return float(self.push_many([reading])[0])

    def push_many(self, readings: Any, *, order: Sequence[str] = ()) -> Floats:
        """The totals after each of a block of readings; the same as one by one.

        One number per reading, or a row per reading and a column per meter (named in `order`): totals over all.

        Returns:
            A total for each reading.

        Raises:
            AssumptionError: there would be more readings than the certificate covers.
        """
        design = self.design_
        values = meter_columns(
            readings, order, design.limits, design.filter.input_grid, alone=True
        )
        if self.index + len(values) > design.sample_limit:
            raise AssumptionError(
                f"the certificate covers {design.sample_limit} readings, not more. Begin a new one."
            )
        return self._answered(values, readings)

    def _open_with(self, first: Floats) -> Floats:
        """The first block is drawn inside the transaction, like every other release."""

        def make() -> Floats:
            self._history = TotalHistory(self.design_)
            self._start()
            return self._push(first)

        return self._publish(
            total_plan(self.design_, self.released_as), make, self._read, whole=False
        ).value

    def _push(self, values: Floats) -> Floats:
        self._check_process()
        design = self.design_
        steps = to_steps(
            values, design.filter.input_grid, *design.limits, design.substitute
        )
        if steps.ndim > 1:
            steps = steps.sum(axis=1)
        source = self._source
        self._claim_state()
        history = self._history
        released = list[int]()
        while len(released) < len(steps):
            if (
                history.index % design.every == 0
                and history.runs[-1].begun != history.index
            ):
                history.begin(history.anew())
                self._noise.forget()
            left = design.every - history.index % design.every
            part = steps[len(released) : len(released) + left]
            noise = self._noise.draw(len(part), source)
            released += history.add(
                [reading + own for reading, own in zip(part.tolist(), noise)]
            )
        self._forget()
        return np.array(released, dtype=np.float64) * design.filter.grid

    def reset(self) -> None:
        """Begin a new total at 0, at a time that is public; the promise covers it."""
        self.open()
        self._renew(self._history.anew())

    def restart(self) -> None:
        """After lost state: the total goes on from the last one released, with independent noise."""
        self.open()
        self._renew(self._history.continued())

    def _renew(self, run: Run) -> None:
        self._claim_state()
        self._start()
        self._history.begin(run)

    def _start(self) -> None:
        self._process = os.getpid()
        self._noise = TotalNoise(self.design_)

    def _terms(self) -> dict[str, Any]:
        return {"design": design_to_dict(self.design_), "keep": self._to_keep}

    def _state(self) -> dict[str, Any]:
        return {"noise": self._noise.state, "history": self._history.to_record()}

    @classmethod
    def _of_terms(
        cls,
        record: Mapping[str, Any],
        account: Account | None,
        generator: Generator | None,
    ) -> Self:
        keep = None
        if record["keep"] is not None:
            keep = max(0, checks.whole("keep", record["keep"]) - 1)
        design = design_from_dict(record["design"])
        return cls._of_design(design, keep, account, generator)

    def _go_on(self, state: Mapping[str, Any]) -> None:
        check_paid(self.design_, self.certificate_)
        self._start()
        self._noise.go_on([int(value) for value in state["noise"]])
        self._history = TotalHistory.from_record(self.design_, state["history"])

    @classmethod
    def _of_design(
        cls,
        design: TotalDesign,
        keep: int | str | None,
        account: Account | None,
        generator: Generator | None,
    ) -> Self:
        made = cls(
            steps=design.sample_limit,
            epsilon=design.epsilon,
            delta=design.delta,
            limits=design.limits,
            size=design.size,
            takes=design.takes,
            separation=design.separation,
            every=design.every,
            buffers=len(design.scales),
            minimise=design.minimise,
            sample_period=design.sample_period,
            keep=keep,
            substitute=design.substitute,
            account=account,
            generator=generator,
        )
        made._design = design
        return made

    def __reduce__(self) -> tuple[Callable[[], RunningTotal], tuple[()]]:
        # A copy is a new total with its own debit: two continuations of one noise would cancel it.
        arguments = {
            own.name: getattr(self, own.name) for own in fields(self) if own.init
        }
        return partial(type(self), **arguments), ()
