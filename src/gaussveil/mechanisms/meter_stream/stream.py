"""The private meter stream: readings in, noisy readings out, one at a time or in blocks, for years.

Released: F x + noise of spectrum gamma, on a public grid, and for billing the energies of days, weeks and months.

Adjacency: two streams of one meter that differ in ONE promised event, at most T consecutive readings, each by at most a
kW, of any signs; or by at most B kW in l2 norm over the whole stream. An event that repeats is many events: the
certificate gives the figure for a stated number of them.

Theorem (docs/corrections, S4; docs/mechanisms/meter_stream.md). F and gamma public, D^2 the supremum of d' Q d over the
promised differences d: the whole stream, of any length up to the stated limit, is dominated by N(D, 1) against N(0, 1).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.accounting import Account, Certificate, Release
from gaussveil.containers import library_of, like, readings_array
from gaussveil.errors import (
    AssumptionError,
    ParameterError,
)
from gaussveil.mechanisms.meter_stream.design import (
    HOURS_PER_YEAR,
    YEARS,
    design_stream,
    for_purpose,
)
from gaussveil.mechanisms.meter_stream.figures import StreamPlan, figures
from gaussveil.mechanisms.meter_stream.filter_shapes import REDUCTION
from gaussveil.mechanisms.meter_stream.history import (
    refuse_spectrum,
    released_spectrum,
    shift_of,
)
from gaussveil.mechanisms.meter_stream.record import (
    stream_plan,
)
from gaussveil.mechanisms.meter_stream.request import (
    ALONE,
    PURPOSES,
    HiddenChange,
    StreamRequest,
)
from gaussveil.mechanisms.meter_stream.stored import StoredStream
from gaussveil.mechanisms.release_path import Promise
from gaussveil.mechanisms.source_rows import ordered_vector
from gaussveil.mechanisms.spectral import PrivateSpectrum
from gaussveil.noise import Generator
from gaussveil.noise.filter_bank import to_steps
from gaussveil.timeseries import NoisySum
from gaussveil.timeseries.clock import hours
from gaussveil.typing import Floats, Integers

REPEATED_EVENTS = 30


class MeterStream(StoredStream):
    """A private stream of one meter; make one with `MeterStream.design`.

    >>> stream = MeterStream.design(sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))
    >>> round(stream.plan().noise_sd, 2)
    6.46
    >>> isinstance(stream.push(0.8), float)
    True

    The account is debited once, before the first output. Never push the same reading twice: two outputs of one
    reading tell more than the certificate says. The gateway (docs/gateway.md) sees to that.

    Args:
        design, spectrum: of the stream, and the certificate of the spectrum that it rests on, if any.
        account, generator: who is debited before the first output; a `SeededGenerator` for studies alone.
    """

    mechanism = "meter stream"
    kept_as = "meter stream"
    released_as = "readings"

    def _facts(self) -> dict[str, str]:
        return self.design_.facts()

    @classmethod
    def design(
        cls,
        *,
        sample_period: float | str,
        epsilon: float,
        delta: float,
        event: tuple[float, float | str] | None = None,
        l2_ball: float | None = None,
        purpose: str = "shape",
        history: Release[Any] | ArrayLike | None = None,
        spectrum: PrivateSpectrum | None = None,
        balance: tuple[float, float] | None = None,
        reduction: tuple[float, float] = REDUCTION,
        registers: Sequence[str] | Mapping[str, float] = ALONE,
        limits: tuple[float, float] = (-100.0, 100.0),
        substitute: float = 0.0,
        sample_limit: int | None = None,
        account: Account | None = None,
        generator: Generator | None = None,
    ) -> MeterStream:
        """Design a stream; nothing is drawn or spent, except on `spectrum`, where one is to be released first.

        Args:
            sample_period: hours between readings, or text such as "5min".
            epsilon, delta: the promise for the whole stream.
            event: (kW, duration) of the one event that is hidden, or
            l2_ball: kW, a bound on any change of the whole stream.
            purpose: "shape", "energy", "billing", "registers" or "spectrum".
            history: for "spectrum", a release of `PrivateSpectrum`; or past readings, which `spectrum` then releases.
            spectrum: the `PrivateSpectrum` that protects `history`, with its own promise and account.
            balance: (rho, p) of "energy": how slow, and how much of the promise goes to, the low frequencies.
            reduction: (gain below 1, coefficient) of the first-order low pass F of "spectrum".
            registers: of "registers": some of "hour", "day", "week" and "month" (28 days), or with what a relative
                variance of each weighs.
            limits: public range in kW that readings are clipped to.
            substitute: public reading that stands for a missing one.
            sample_limit: how many readings the certificate covers; ten years by default.
            account, generator: debited once, before the first output; a `SeededGenerator` for studies alone.

        Returns:
            The stream, not opened yet.

        Raises:
            ParameterError: an argument is out of range, or does not belong to the purpose.
        """
        period = hours("sample_period", sample_period)
        request = StreamRequest(
            purpose=purpose,
            sample_period=period,
            promise=Promise(epsilon, delta, generator),
            hidden=HiddenChange.of(event, l2_ball, period),
            sample_limit=math.ceil(YEARS * HOURS_PER_YEAR / period)
            if sample_limit is None
            else sample_limit,
            limits=(float(limits[0]), float(limits[1])),
            substitute=float(substitute),
            balance=balance,
            reduction=reduction,
            registers=registers,
        )
        if purpose != "spectrum":
            refuse_spectrum(purpose, history, spectrum)
            designed = design_stream(request)
            return cls(design=designed, account=account, generator=generator)
        released = released_spectrum(history, spectrum)
        certificate = released.certificate
        designed = design_stream(request, released.value, shift_of(certificate))
        return cls(
            design=designed, account=account, generator=generator, spectrum=certificate
        )

    def plan(
        self, *, typical_kw: float = 1.0, repeated_events: int = REPEATED_EVENTS
    ) -> StreamPlan:
        """Noise, energy errors and what they are good for, against a public `typical_kw`; nothing is spent.

        Of `repeated_events` hidden events together it tells the promise, too.
        Good for shape: an hour's mean is known to within the typical load. Good for daily energy: to within a quarter;
        for monthly energy: to within a tenth. `compared` holds the same for every purpose that this promise allows.

        Returns:
            A `StreamPlan` of this purpose, the others beside it in `compared`.
        """
        own = self.design_
        plans = {}
        for purpose in PURPOSES:
            design = own if purpose == own.purpose else for_purpose(own, purpose)
            if design is not None:
                plans[purpose] = figures(design, typical_kw, repeated_events)
        return replace(plans[own.purpose], compared=tuple(plans.values()))

    def open(self) -> Certificate:
        """Debit and certify, then draw the filters' first state; the first `push` does it if nobody did.

        Returns:
            The certificate of the whole stream.

        Raises:
            BudgetExceededError: the account cannot pay.
        """
        if not self.is_open:
            self._open_with(np.empty(0))
        return self.certificate_

    @property
    def index(self) -> int:
        """Readings pushed so far."""
        return self._index

    def push(self, reading: Any) -> float:
        """The private reading; None or NaN stands for a missing one and is answered all the same.

        Returns:
            kW with noise; NaN where the purpose releases energies alone.

        Raises:
            AssumptionError: the stream has as many readings as its certificate covers.
        """
        return float(self.push_many([reading])[0])

    def push_many(self, readings: Any, *, order: Sequence[str] = ()) -> Any:
        """A block of private readings; the same as one by one. Finished registers are appended to `energies`.

        An array; for a pandas or polars series, one with the same name and index. Of a Source the one column is taken
        that stands beside the public columns `order`, sorted by these.

        Returns:
            The private readings, as many as were given.

        Raises:
            ParameterError: a block of another form, or a number that is no power.
            AssumptionError: the stream would have more readings than its certificate covers.
        """
        values = self._values(readings, order)
        if self._index + len(values) > self.design_.sample_limit:
            raise AssumptionError(
                f"the certificate covers {self.design_.sample_limit} readings, not more. Design a new stream."
            )
        outputs = self._answered(values, readings)
        if library_of(readings) and values.ndim == 1:
            return like(readings, outputs)
        return outputs

    def _values(self, readings: Any, order: Sequence[str]) -> Floats:
        """One value per reading."""
        readings = ordered_vector("readings", readings, order)
        values = readings_array("readings", readings).astype(np.float64)
        if values.ndim != 1:
            raise ParameterError(
                f"readings must be one vector. Got {values.ndim} axes."
            )
        return values

    def _steps(self, values: Floats) -> Integers:
        """What is released with noise, on the lattice."""
        return to_steps(
            values,
            self.design_.filter.input_grid,
            *self.design_.limits,
            self.design_.substitute,
        )

    def _open_with(self, first: Floats) -> Floats:
        """The first block is drawn inside the transaction, like every other release."""

        def make() -> Floats:
            self._index = 0
            self._start()
            return self._push(first)

        plan = stream_plan(
            self.design_, self.spectrum_, REPEATED_EVENTS, self.released_as
        )
        return self._publish(
            plan, make, self._read, whole=False
        ).value  # the certificate is that of all blocks

    def _push(self, values: Floats) -> Floats:
        self._check_process()
        steps = self._steps(values)
        outputs = [np.empty(0, np.int64)]
        source = self._source
        self._claim_state()
        for part in self._registers.cuts(
            self._index, steps
        ):  # a register draws between two readings, block or not
            if self.design_.readings:
                outputs.append(self._bank.push(part[:, None], source)[0][:, 0])
            self._index += part.size
            self.energies += self._registers.push(self._index, part, source)
        if not self.design_.readings:
            return np.full(steps.size, np.nan)
        return np.concatenate(outputs).astype(np.float64) * self.design_.filter.grid

    def noisy_sums(self) -> list[NoisySum]:
        """The released registers as the receiver's smoother (`gaussveil.smooth`) takes them, in kW times readings.

        Returns:
            One for each window in `energies`.
        """
        deviation = {
            register.name: register.noise_sd for register in self.design_.registers
        }
        return [
            NoisySum(
                first=e.first,
                samples=e.samples,
                total=e.kwh / self.design_.sample_period,
                sd=deviation[e.name],
            )
            for e in self.energies
        ]

    def restart(self) -> None:
        """After lost state: forget past readings and noise together, never one without the other.

        Registers whose window has begun are withheld: their readings are lost in part.
        """
        self.open()
        self._claim_state()
        self._start()
        self._registers.forget(self._index)

    def _start(self) -> None:
        self._prepare().start(self._source)
        self._registers.start(self._index, self._source)
