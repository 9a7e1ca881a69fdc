"""Designs of private meter streams: which filters, which registers, how much noise for a promised event.

Design A, "shape": white noise, the least of all for events of any signs. B, "energy": less noise at low frequencies, so
that daily and monthly sums are better, R = r0 + b P_rho. C, "billing": white noise and separately released registers of
day, week and month. "registers": such energies alone, of nested windows, and no readings. "spectrum": SpDP Algorithm
2 repaired (docs/corrections, S4b), filters and noise made from the PRIVATE spectrum and public numbers only. Derived:
docs/mechanisms/meter_stream.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import (
    calibration,
    checks,
)  # loaded where it is used: a gateway designs nothing
from gaussveil.accounting import Charge
from gaussveil.accounting.composition import sampler_delta
from gaussveil.calibration.stream_events import (
    largest_event,
    largest_ratio,
    repeated_events,
)
from gaussveil.errors import FormatError, NumericalError, ParameterError
from gaussveil.mechanisms.meter_stream import filter_shapes, register_tree
from gaussveil.mechanisms.release_path import Promise, unaffordable_sampler
from gaussveil.noise.stream_filter import LARGEST_STEPS, WIDTHS, StreamFilter
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries.clock import hours
from gaussveil.typing import Floats

PURPOSES = ("shape", "energy", "billing", "registers", "spectrum")
SIZES = "[1e-60, 1e60]"  # kW of what is hidden; squares of other numbers are none
YEARS = 10
HOURS_PER_YEAR = 8766.0
REGISTER_HOURS = {"hour": 1.0, "day": 24.0, "week": 7 * 24.0, "month": 28 * 24.0}
BILLED = ("day", "week", "month")
ALONE = ("day", "month")
EVENT_WEIGHT = 4.0  # of the energy of an event-long stretch of the stream, against that of each register
SAMPLER_PART = 1 / 20  # of delta that the lattice may cost before a finer one is taken
NUMERICAL_MARGIN = 1 + 2.0**-28  # Fourier coefficients and filters are known to 1e-12


@dataclass(frozen=True, kw_only=True)
class HiddenChange:
    """What is hidden: one event of at most `samples` consecutive readings, each moved by at most `size` kW, or any
    change of at most `l2_ball` kW in l2 norm over the whole stream."""

    size: float = 0.0
    samples: int = 0
    l2_ball: float = 0.0

    @classmethod
    def of(
        cls,
        event: tuple[float, float | str] | None,
        l2_ball: float | None,
        period: float,
    ) -> HiddenChange:
        """From what the caller says: (kW, duration) of an event, or a radius in kW."""
        if (event is None) == (l2_ball is None):
            raise ParameterError(
                "give exactly one of event, (kW, duration), and l2_ball, kW: what the stream hides."
            )
        if event is None:
            return cls(l2_ball=checks.real("l2_ball", l2_ball, SIZES))
        if not isinstance(event, tuple | list) or len(event) != 2:
            raise ParameterError(
                'event must be a pair (kW, duration) such as (0.5, "1h").'
            )
        size = checks.real("event's size", event[0], SIZES)
        length = hours("event's duration", event[1])
        return cls(size=size, samples=math.ceil(length / period * (1 - 1e-9)))

    @property
    def is_event(self) -> bool:
        """Whether an event is hidden, not a ball."""
        return self.samples > 0


@dataclass(frozen=True, kw_only=True)
class RegisterDesign:
    """Energy of aligned windows of `samples` readings, with noise of deviation `noise_sd` in kW times samples.

    Of registers alone: the noise that a window has beside its part of the noise of the next longer one.
    """

    name: str
    samples: int
    noise_sd: float


@dataclass(frozen=True, kw_only=True)
class StreamDesign:
    """Everything public about a stream: filters, registers, what they guarantee and for how many samples."""

    purpose: str
    sample_period: float
    epsilon: float
    delta: float
    hidden: HiddenChange
    filter: StreamFilter
    registers: tuple[RegisterDesign, ...]
    mean_shift: float
    sampler_error: float
    sample_limit: int
    limits: tuple[float, float]
    substitute: float
    spectrum_mean_shift: float = 0.0

    def facts(self) -> dict[str, str]:
        """Purpose, step and noise."""
        if self.readings:
            noise = f"{self.noise_sd:.3g} kW on a reading"
        else:
            noise = "of the registers alone"
        return {
            "purpose": self.purpose,
            "every": f"{60 * self.sample_period:g} min",
            "noise": noise,
        }

    @property
    def charge(self) -> Charge:
        """What the whole stream costs, once."""
        return Charge(
            GaussianPair.mean_shift(self.mean_shift), sampler_error=self.sampler_error
        )

    @property
    def readings(self) -> bool:
        """Whether readings are released, not registers alone."""
        return self.purpose != "registers"

    @property
    def windows(self) -> tuple[int, ...]:
        """Readings in a window of each register."""
        return tuple(register.samples for register in self.registers)

    @property
    def levels(self) -> Floats:
        """u_l of registers alone: squared noise per reading."""
        return np.array(
            [register.noise_sd**2 / register.samples for register in self.registers]
        )

    @cached_property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on one reading, kW; infinite where no reading is released."""
        if self.readings:
            return math.sqrt(float(self.filter.noise_lags(1)[0]))
        return math.inf

    def samples_per(self, length: float) -> int:
        """Readings in so many hours."""
        return max(1, round(length / self.sample_period))

    def energy_sd(self, length: float) -> float:
        """Standard deviation of the energy's error over so many hours, kWh, from stream and registers together.

        Of registers alone: of hours that begin with the longest window, infinite where they are no whole windows.
        """
        window = self.samples_per(length)
        if not self.readings:
            variance = float(
                np.sum(register_tree.gains(window, self.windows) * self.levels)
            )
            if window % self.windows[0]:
                return math.inf
            return self.sample_period * math.sqrt(variance)
        lags = self.filter.noise_lags(window, tolerance=1e-9)
        variance = window * lags[0] + 2 * float(
            np.sum((window - np.arange(1, window)) * lags[1:])
        )
        precision = 1 / max(variance, 1e-300)
        for register in self.registers:
            if window % register.samples == 0:
                precision += 1 / (register.noise_sd**2 * (window // register.samples))
        return self.sample_period / math.sqrt(precision)

    def repeated_shift(self, events: int) -> float:
        """Mean shift of so many promised events, one a day at the same hour; for a ball, so many times the radius."""
        day = self.samples_per(24.0)
        size = self.hidden.size + self.filter.input_grid
        length = self.hidden.samples
        if (
            not self.hidden.is_event or length > day
        ):  # a norm: so many times as far at most
            return self.mean_shift * events
        if not self.readings:
            squared = register_tree.repeated_square(
                length, self.windows, self.levels, day, events
            )
            return max(size * math.sqrt(squared), self.mean_shift)
        energy = self.filter.ratio_lags((events - 1) * day + length, tolerance=1e-12)
        total = size**2 * repeated_events(energy, length, day, events)
        for register in self.registers:
            inside = max(1, register.samples // day)
            full, rest = divmod(events, inside)
            total += (size * length / register.noise_sd) ** 2 * (
                full * inside**2 + rest**2
            )
        return max(math.sqrt(total), self.mean_shift)

    def promise_of(self, shift: float) -> tuple[float, float]:
        """(epsilon, delta) of a mean shift: epsilon at this design's delta, to which the sampler's error then adds."""
        if shift <= self.mean_shift:
            return self.epsilon, self.delta
        found = float(GaussianPair.mean_shift(shift).epsilon(self.delta))
        return found, min(1.0, self.delta + sampler_delta(found, self.sampler_error))


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """What a stream is asked to be. Whatever no private spectrum could make good is refused before one is paid for."""

    purpose: str
    sample_period: float
    promise: Promise
    hidden: HiddenChange
    sample_limit: int
    limits: tuple[float, float] = (-100.0, 100.0)
    substitute: float = 0.0
    balance: tuple[float, float] | None = None
    reduction: tuple[float, float] = filter_shapes.REDUCTION
    registers: Sequence[str] | Mapping[str, float] = ALONE

    def __post_init__(self) -> None:
        checks.one_of("purpose", self.purpose, PURPOSES)
        if not self.hidden.is_event and self.purpose in ("energy", "billing"):
            raise ParameterError(
                f'purpose {self.purpose!r} needs an event to hide: for an l2 ball white noise, "shape", is optimal.'
            )
        checks.whole("sample_limit", self.sample_limit)
        if self.purpose == "registers":
            longest = self.sample_limit
        else:
            longest = 4096
        checks.whole(
            "the event's number of samples", self.hidden.samples, f"[0, {longest}]"
        )
        low, high = self.limits
        if not (
            math.isfinite(low)
            and math.isfinite(high)
            and low < high
            and low <= self.substitute <= high
        ):
            raise ParameterError(
                "limits must be finite and increasing, with the substitute between them. "
                f"Got {self.limits} and {self.substitute}."
            )
        if self.purpose == "spectrum":
            filter_shapes.low_pass(*self.reduction)


def design_stream(
    request: StreamRequest,
    private_psd: ArrayLike | None = None,
    spectrum_mean_shift: float = 0.0,
) -> StreamDesign:
    """Shape the filters, measure what they really hide, and scale the noise to the promise.

    The sampler's error does not depend on the scale, so delta is first reduced by it; then the supremum over all
    hidden changes, of the filters as they run, decides the scale.
    """
    purpose = request.purpose
    hidden = request.hidden
    promise = request.promise
    samples = request.sample_limit
    registers: tuple[RegisterDesign, ...] = ()
    if purpose == "registers":
        registers = _registers_alone(request)
        shape = _register_lattice(registers)
    elif purpose == "energy":
        shape = filter_shapes.energy_shape(
            hidden.samples,
            hidden.size,
            *(
                request.balance
                or filter_shapes.balance(request.sample_period, hidden.samples)
            ),
        )
    elif purpose == "spectrum":
        if private_psd is None:
            raise ParameterError(
                'history must be given for purpose "spectrum": a release of PrivateSpectrum.'
            )
        shape = filter_shapes.spectrum_shape(
            private_psd, request.sample_period, *request.reduction
        )
    else:
        shape = StreamFilter(white=1.0)
    shape = fine_enough(shape, promise, samples)
    error = stream_sampler_error(shape, samples)
    mean_shift = calibration.mean_shift_for(promise.epsilon, promise.ideal_delta(error))
    if purpose == "billing":
        share = billing_shares()["stream"]
    else:
        share = 1.0
    # the private spectrum's own noise, or more
    if purpose == "spectrum":
        smallest = 1.0
    else:
        smallest = 0.0

    def scale_for(change: HiddenChange) -> float:
        if purpose != "registers":
            moved = _largest_shift(shape, change)
        else:
            moved = _registers_shift(registers, change)
        return max(moved / (mean_shift * math.sqrt(share)), smallest)

    rough = shape.scaled(scale_for(hidden))
    # Rounding readings to the lattice enlarges every difference by a grid, which may still double with the scale.
    rounded = _rounded(hidden, 2 * rough.input_grid, samples)
    scale = scale_for(rounded)
    found = shape.scaled(scale)
    if purpose == "spectrum":
        reached = _largest_shift(found.scaled(1 - 2.0**-40), rounded)
    else:
        reached = mean_shift
    if found.grid > 2 * rough.grid or found.total_variation(2 * samples) > error:
        raise NumericalError(
            "the lattice moved while the noise was scaled: choose a slightly different promise"
        )
    if (
        max(map(abs, request.limits)) / found.input_grid * sum(map(abs, found.signal))
        >= LARGEST_STEPS
    ):
        raise ParameterError(
            f"limits must be closer to the noise of {found.white:.3g} kW. Got {request.limits}."
        )
    return StreamDesign(
        purpose=purpose,
        sample_period=request.sample_period,
        epsilon=promise.epsilon,
        delta=promise.delta,
        hidden=hidden,
        filter=found,
        mean_shift=min(reached, mean_shift),
        sampler_error=error,
        sample_limit=samples,
        registers=_registers(request.sample_period, rounded, mean_shift)
        if purpose == "billing"
        else tuple(
            replace(register, noise_sd=scale * register.noise_sd)
            for register in registers
        ),
        limits=request.limits,
        substitute=request.substitute,
        spectrum_mean_shift=spectrum_mean_shift,
    )


def check_hides(design: StreamDesign) -> None:
    """Refuse a design, for example of a file, whose filters and registers hide less than its mean shift says."""
    hidden = _rounded(design.hidden, design.filter.input_grid, design.sample_limit)
    if design.readings:
        squared = _largest_shift(design.filter, hidden) ** 2
        squared += sum(
            (hidden.samples * hidden.size / register.noise_sd) ** 2
            for register in design.registers
        )
    else:
        squared = _registers_shift(design.registers, hidden) ** 2
        lattice = _register_lattice(design.registers)
        drawn = design.filter
        if not np.allclose(
            (drawn.white, drawn.direct),
            (lattice.white, lattice.direct),
            rtol=1e-9,
            atol=0,
        ):
            squared = math.inf  # the sampler's error was counted for another noise
    enough = math.sqrt(squared) <= design.mean_shift * NUMERICAL_MARGIN
    if not enough or design.sampler_error < design.filter.total_variation(
        2 * design.sample_limit
    ):
        raise FormatError(
            "the filters and registers of the design do not hide what it promises"
        )
    if design.readings and design.registers and not hidden.is_event:
        raise FormatError("registers hide an event, not a ball")


def _largest_shift(filters: StreamFilter, hidden: HiddenChange) -> float:
    """D of the filters as they run: the supremum over the hidden changes."""
    if hidden.is_event:
        energy = filters.ratio_lags(hidden.samples)
        return hidden.size * math.sqrt(largest_event(energy)) * NUMERICAL_MARGIN
    if filters.coloured:
        degree = max(len(filters.taps), len(filters.signal))
        most = largest_ratio(filters.signal_power, filters.noise_power, degree)
    else:
        most = float(filters.ratio(np.zeros(1))[0])
    return hidden.l2_ball * math.sqrt(most) * NUMERICAL_MARGIN


def _rounded(hidden: HiddenChange, step: float, samples: int) -> HiddenChange:
    """The change after readings are rounded to a lattice: a step more per sample that can differ."""
    if hidden.is_event:
        return replace(hidden, size=hidden.size + step)
    return replace(hidden, l2_ball=hidden.l2_ball + step * math.sqrt(samples))


def fine_enough(shape: StreamFilter, promise: Promise, samples: int) -> StreamFilter:
    """The filters on the coarsest lattice whose sampler's error the promise can pay for."""
    for width in WIDTHS:
        shape = shape.at_width(width)
        error = stream_sampler_error(shape, samples)
        if sampler_delta(promise.epsilon, error) <= SAMPLER_PART * promise.delta:
            return shape
    raise unaffordable_sampler(
        promise.epsilon,
        promise.delta,
        sampler_delta(promise.epsilon, error) / SAMPLER_PART,
        f"a sample_limit below {samples} may help",
    )


def stream_sampler_error(shape: StreamFilter, samples: int) -> float:
    """Total variation over the whole stream: twice the samples, so that restarts and registers are paid for, too."""
    return 1.5 * shape.total_variation(2 * samples)


@lru_cache
def billing_shares() -> dict[str, float]:
    """How design C divides the promise, all weights public: the noise that minimises the weighted energy errors.

    An event of T readings of size a moves the stream by a sqrt(T) and every register by a T at most; the stream's error
    over T readings is sqrt(T) of its noise. So T and a cancel, and the shares are the same for every promise.
    """
    names = ("stream", *BILLED)
    weights = np.array([EVENT_WEIGHT] + [1.0] * len(BILLED))
    scales = calibration.noise_scales(1.0, weights, np.ones(len(names)))
    return dict(zip(names, (1 / scales**2).tolist()))


def _registers(
    sample_period: float, hidden: HiddenChange, mean_shift: float
) -> tuple[RegisterDesign, ...]:
    """Design C: a register moves by at most samples * size, however the event lies across its windows."""
    made = []
    for name, (window, _) in register_tree.chosen_windows(
        BILLED, REGISTER_HOURS, sample_period
    ).items():
        sd = (
            hidden.samples
            * hidden.size
            / (mean_shift * math.sqrt(billing_shares()[name]))
            * NUMERICAL_MARGIN
        )
        made.append(RegisterDesign(name=name, samples=window, noise_sd=sd))
    return tuple(made)


def _registers_alone(request: StreamRequest) -> tuple[RegisterDesign, ...]:
    """Nested registers up to a factor; a ball is widest along the longest window, so there all levels are alike."""
    chosen = register_tree.chosen_windows(
        request.registers, REGISTER_HOURS, request.sample_period
    )
    windows, weights = zip(*chosen.values())
    length = request.hidden.samples
    if length:
        levels = register_tree.levels_for(length, windows, weights)
    else:
        levels = np.ones(len(windows))
    return tuple(
        RegisterDesign(name=name, samples=window, noise_sd=math.sqrt(level * window))
        for name, window, level in zip(chosen, windows, levels.tolist())
    )


def _register_lattice(registers: Sequence[RegisterDesign]) -> StreamFilter:
    """What the shortest windows' noise is drawn with: white on the lattice, the rest in floating point."""
    shortest = registers[0]
    longest = registers[-1]
    white = (
        filter_shapes.WHITE_PART
        * longest.noise_sd**2
        * shortest.samples
        / longest.samples
    )
    return StreamFilter(
        white=math.sqrt(white), direct=math.sqrt(shortest.noise_sd**2 - white)
    )


def _registers_shift(
    registers: Sequence[RegisterDesign], hidden: HiddenChange
) -> float:
    """D of registers alone: exact for events and balls."""
    windows = [register.samples for register in registers]
    levels = np.array(
        [register.noise_sd**2 / register.samples for register in registers]
    )
    most = register_tree.largest_square(hidden.samples, windows, levels)
    if not hidden.is_event:
        most = float(1 / levels.min())
        hidden = replace(hidden, size=hidden.l2_ball)
    return hidden.size * math.sqrt(most) * NUMERICAL_MARGIN
