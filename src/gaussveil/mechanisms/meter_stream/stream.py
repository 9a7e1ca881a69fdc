"""The private meter stream: readings in, noisy readings out, one at a time or in blocks, for years.

Released: F x + noise of spectrum gamma, on a public grid, and for billing the energies of days, weeks and months.

Adjacency: two streams of one meter that differ in ONE promised event, at most T consecutive readings, each by at most a
kW, of any signs; or by at most B kW in l2 norm over the whole stream. An event that repeats is many events: the
certificate gives the figure for a stated number of them.

Theorem (docs/corrections, S4; docs/mechanisms/meter_stream.md). F and gamma public, D^2 the supremum of d' Q d over the
promised differences d: the whole stream, of any length up to the stated limit, is dominated by N(D, 1) against N(0, 1).
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.accounting import Account, Certificate, Release
from gaussveil.accounting.canonical import parse_json
from gaussveil.errors import AssumptionError, FormatError, ParameterError
from gaussveil.files import PRIVATE, write_whole
from gaussveil.mechanisms.containers import library_of, like, real_array
from gaussveil.mechanisms.meter_stream.design import (
    HOURS_PER_YEAR,
    REDUCTION,
    YEARS,
    HiddenChange,
    StreamDesign,
    StreamRequest,
    check_hides,
    design_stream,
    hours,
)
from gaussveil.mechanisms.meter_stream.record import check_paid, design_from_dict, design_to_dict, stream_plan
from gaussveil.mechanisms.meter_stream.registers import Energy, RegisterBank
from gaussveil.mechanisms.release_path import Mechanism, Promise, check_generator
from gaussveil.mechanisms.source_rows import ordered_vector
from gaussveil.mechanisms.spectral import PrivateSpectrum
from gaussveil.noise import Generator, default_generator
from gaussveil.noise.stream_filter import FilterBank, to_steps
from gaussveil.timeseries import NoisySum
from gaussveil.typing import Floats

FORMAT = "gaussveil meter stream"
VERSION = 1
REPEATED_EVENTS = 30
WARNING = "contains private state: whoever reads it can take the noise off the stream"


@dataclass(frozen=True)
class StreamPlan:
    """What a stream would be like, before anything is spent; energies in kWh are standard deviations of the error."""

    noise_sd: float
    hourly_sd: float
    daily_energy_sd: float
    monthly_energy_sd: float
    daily_energy_percent: float
    monthly_energy_percent: float
    repeated_events: int
    repeated_epsilon: float
    repeated_delta: float
    good_for: tuple[str, ...]

    def describe(self) -> str:
        """Say it in plain text."""
        verdict = (
            ", ".join(self.good_for) or "nothing: ask for less, protect smaller events, or release registers alone"
        )
        return (
            f"noise {self.noise_sd:.3g} kW per reading, {self.hourly_sd:.3g} kW on an hour's mean; energy error "
            f"{self.daily_energy_sd:.3g} kWh a day ({self.daily_energy_percent:.0f} %), "
            f"{self.monthly_energy_sd:.3g} kWh in 28 days ({self.monthly_energy_percent:.1f} %); a habit repeated on "
            f"{self.repeated_events} days has epsilon {self.repeated_epsilon:.3g}, delta {self.repeated_delta:.2g}; "
            f"good for: {verdict}"
        )

    __str__ = describe


class MeterStream(Mechanism):
    """A private stream of one meter; make one with `MeterStream.design`.

    >>> stream = MeterStream.design(sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"))
    >>> round(stream.plan().noise_sd, 2)
    6.46
    >>> isinstance(stream.push(0.8), float)
    True

    The account is debited once, before the first output. Never push the same reading twice: two outputs of one
    reading tell more than the certificate says. The gateway (docs/gateway.md) sees to that.
    """

    mechanism = "meter stream"

    def __init__(
        self,
        *,
        design: StreamDesign,
        account: Account | None = None,
        generator: Generator | None = None,
        spectrum: Certificate | None = None,
    ) -> None:
        check_generator(generator)
        super().__init__(epsilon=design.epsilon, delta=design.delta, account=account, generator=generator)
        self.design_ = design
        self.spectrum_ = spectrum
        self.energies: list[Energy] = []
        self._bank: FilterBank
        self._registers: RegisterBank
        self._index = 0

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
            purpose: "shape", "energy", "billing" or "spectrum".
            history: for "spectrum", a release of `PrivateSpectrum`; or past readings, which `spectrum` then releases.
            spectrum: the `PrivateSpectrum` that protects `history`, with its own promise and account.
            balance: (rho, p) of "energy": how slow, and how much of the promise goes to, the low frequencies.
            reduction: (gain below 1, coefficient) of the first-order low pass F of "spectrum".
            limits: public range in kW that readings are clipped to.
            substitute: public reading that stands for a missing one.
            sample_limit: how many readings the certificate covers; ten years by default.
            account: debited once, before the first output.
        """
        period = hours("sample_period", sample_period)
        request = StreamRequest(
            purpose=purpose,
            sample_period=period,
            promise=Promise(epsilon, delta, generator),
            hidden=HiddenChange.of(event, l2_ball, period),
            sample_limit=math.ceil(YEARS * HOURS_PER_YEAR / period) if sample_limit is None else sample_limit,
            limits=(float(limits[0]), float(limits[1])),
            substitute=float(substitute),
            balance=balance,
            reduction=reduction,
        )
        released = _released_spectrum(history, spectrum) if purpose == "spectrum" else None
        if released is None and (history is not None or spectrum is not None):
            raise ParameterError(f'history and spectrum are for purpose "spectrum" only. Got purpose {purpose!r}.')
        if released is None:
            found = design_stream(request)
        else:
            found = design_stream(request, released.value, _shift_of(released.certificate))
        certificate = None if released is None else released.certificate
        return cls(design=found, account=account, generator=generator, spectrum=certificate)

    def plan(self, *, typical_kw: float = 1.0, repeated_events: int = REPEATED_EVENTS) -> StreamPlan:
        """Noise, energy errors and what they are good for, against a public typical load; nothing is spent.

        Good for shape: an hour's mean is known to within the typical load. Good for daily energy: to within a quarter;
        for monthly energy: to within a tenth.
        """
        design = self.design_
        day, month = design.energy_sd(24.0), design.energy_sd(28 * 24.0)
        hourly = design.energy_sd(1.0) if design.sample_period <= 1 else design.noise_sd
        repeated = design.promise_of(design.repeated_shift(repeated_events))
        percent = 100 * day / (24 * typical_kw), 100 * month / (28 * 24 * typical_kw)
        uses = (("load shape", hourly <= typical_kw), ("daily energy", percent[0] <= 25), ("bills", percent[1] <= 10))
        return StreamPlan(
            noise_sd=design.noise_sd,
            hourly_sd=hourly,
            daily_energy_sd=day,
            monthly_energy_sd=month,
            daily_energy_percent=percent[0],
            monthly_energy_percent=percent[1],
            repeated_events=repeated_events,
            repeated_epsilon=repeated[0],
            repeated_delta=repeated[1],
            good_for=tuple(name for name, good in uses if good),
        )

    def open(self) -> Certificate:
        """Debit and certify, then draw the filters' first state; the first `push` does it if nobody did."""
        if not self.is_open:
            self._open_with(np.empty(0))
        return self.certificate_

    @property
    def is_open(self) -> bool:
        """Whether the stream was debited and drawing began."""
        return hasattr(self, "certificate_")

    @property
    def certificate(self) -> Certificate:
        """The certificate of an opened stream."""
        if not self.is_open:
            raise AssumptionError(
                "the stream is not open: nothing was spent or drawn yet. Call open() or push() first."
            )
        return self.certificate_

    @property
    def index(self) -> int:
        """Readings pushed so far."""
        return self._index

    def push(self, reading: float | None) -> float:
        """The private reading; None or NaN stands for a missing one and is answered all the same."""
        return float(self.push_many([reading])[0])

    def push_many(self, readings: Any, *, order: Sequence[str] = ()) -> Any:
        """A block of private readings; the same as one by one. Finished registers are appended to `energies`.

        An array; for a pandas or polars series, one with the same name and index. Of a Source the one column is taken
        that stands beside the public columns `order`, sorted by these.
        """
        readings = ordered_vector("readings", readings, order)
        if isinstance(readings, list | tuple):
            readings = [math.nan if reading is None else reading for reading in readings]
        values = real_array("readings", readings).astype(np.float64)
        if values.ndim != 1:
            raise ParameterError(f"readings must be one vector. Got {values.ndim} axes.")
        if self._index + values.size > self.design_.sample_limit:
            raise AssumptionError(
                f"the certificate covers {self.design_.sample_limit} readings, not more. Design a new stream."
            )
        outputs = self._push(values) if self.is_open else self._open_with(values)
        return like(readings, outputs) if library_of(readings) else outputs

    def _open_with(self, first: Floats) -> Floats:
        """The first block is drawn inside the transaction, like every other release."""

        def make() -> Floats:
            self._index = 0
            self._start()
            return self._push(first)

        return self._publish(stream_plan(self.design_, self.spectrum_, REPEATED_EVENTS), make).value

    def _push(self, values: Floats) -> Floats:
        low, high = self.design_.limits
        steps = to_steps(values, self.design_.filter.input_grid, low, high, self.design_.substitute)
        outputs, source = [np.empty(0, np.int64)], self._source
        for part in self._registers.cuts(self._index, steps):  # a register draws between two readings, block or not
            outputs.append(self._bank.push(part[:, None], source)[0][:, 0])
            self._index += part.size
            self.energies += self._registers.push(self._index, part, source)
        return np.concatenate(outputs).astype(np.float64) * self.design_.filter.grid

    def noisy_sums(self) -> list[NoisySum]:
        """The released registers as the receiver's smoother (`gaussveil.smooth`) takes them, in kW times readings."""
        deviation = {register.name: register.noise_sd for register in self.design_.registers}
        return [
            NoisySum(first=e.first, samples=e.samples, total=e.kwh / self.design_.sample_period, sd=deviation[e.name])
            for e in self.energies
        ]

    def restart(self) -> None:
        """After lost state: forget past readings and noise together, never one without the other.

        Registers whose window has begun are withheld: their readings are lost in part.
        """
        self.open()
        self._start()
        self._registers.forget(self._index)
        self._registers.forget(self._index)

    @property
    def _source(self) -> Generator:
        if self.generator is None:
            return default_generator()
        if not self.generator.is_secure and self.is_open and self.certificate_.guarantee.kind != "none":
            raise AssumptionError(
                "a stream that was certified with secure noise cannot go on with a seeded generator: leave it out."
            )
        return self.generator

    def _start(self) -> None:
        self._prepare().start(self._source)

    def _prepare(self) -> FilterBank:
        self._bank = FilterBank([self.design_.filter])
        self._registers = RegisterBank(
            self.design_.registers, self.design_.filter.input_grid, self.design_.sample_period
        )
        return self._bank

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write design, certificate and state to a file that only its owner can read."""
        record: dict[str, Any] = {
            "warning": WARNING,
            "format": FORMAT,
            "version": VERSION,
            "design": design_to_dict(self.design_),
            "spectrum": None if self.spectrum_ is None else self.spectrum_.to_dict(),
            "index": self._index,
            "open": None,
            "account": None if self.account is None else [self.account.ledger, self.account.name],
        }
        if self.is_open:
            record["open"] = {
                "certificate": self.certificate_.to_dict(),
                "states": self._bank.states[:, 0].tolist(),
                "past": self._bank.past[:, 0].tolist(),
                "sums": self._registers.sums,
            }
        return write_whole(path, json.dumps(record, allow_nan=False), PRIVATE)

    @classmethod
    def load(cls, path: str | os.PathLike[str], *, generator: Generator | None = None) -> MeterStream:
        """Inverse of `save`; continue one saved stream once only."""
        try:
            record: Any = parse_json(Path(path).read_text(encoding="utf-8"), f"the meter stream {path}")
            if record["format"] != FORMAT or record["version"] != VERSION:
                raise FormatError(f"{path} is not a meter stream of version {VERSION}")
            spectrum = None if record["spectrum"] is None else Certificate.from_dict(record["spectrum"])
            account = None if record["account"] is None else Account(*record["account"])
            design = design_from_dict(record["design"])
            check_hides(design)
            made = cls(design=design, account=account, generator=generator, spectrum=spectrum)
            made._index = int(record["index"])
            if record["open"] is not None:
                bank = made._prepare()
                made.certificate_ = Certificate.from_dict(record["open"]["certificate"])
                check_paid(made.design_, made.certificate_)
                bank.states[:, 0] = record["open"]["states"]
                bank.past[:, 0] = record["open"]["past"]
                made._registers.sums = [None if one is None else int(one) for one in record["open"]["sums"]]
            return made
        except FormatError:  # says itself what is wrong, and quotes nothing of the state
            raise
        except (OSError, UnicodeDecodeError, ValueError, KeyError, TypeError) as error:
            raise FormatError(f"the meter stream {path} cannot be read: {type(error).__name__}") from error

    def __sklearn_clone__(self) -> MeterStream:
        return self.__reduce__()[0]()

    def __reduce__(self) -> tuple[Callable[[], MeterStream], tuple[()]]:
        # A copy is a new stream with its own debit: two continuations of one noise would cancel it.
        given: dict[str, Any] = {"design": self.design_, "account": self.account, "generator": self.generator}
        return partial(MeterStream, spectrum=self.spectrum_, **given), ()


def _released_spectrum(history: Any, spectrum: PrivateSpectrum | None) -> Release[Any]:
    if isinstance(history, Release):
        if history.certificate.mechanism != "spectral":
            raise ParameterError(
                "history must be a release of PrivateSpectrum, or readings with a spectrum to release."
            )
        return history
    if history is None or spectrum is None:
        raise ParameterError(
            'purpose "spectrum" needs history: a release of PrivateSpectrum, or readings and the PrivateSpectrum '
            "(spectrum=) that protects them. The filters may see the private spectrum only."
        )
    return spectrum.release(history)


def _shift_of(certificate: Certificate) -> float:
    energy = certificate.charge.mean_shift_energy
    if energy is None:
        raise ParameterError("history must be a release of PrivateSpectrum; its certificate holds another loss.")
    return math.sqrt(float(np.max(energy)))
