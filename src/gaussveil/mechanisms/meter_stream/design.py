"""Designs of private meter streams: which filters, which registers, how much noise for a promised event.

Design A, "shape": white noise, the least of all for events of any signs. B, "energy": less noise at low frequencies, so
that daily and monthly sums are better, R = r0 + b P_rho. C, "billing": white noise and separately released registers of
day, week and month. "spectrum": SpDP Algorithm 2 repaired (docs/corrections, S4b), filters and noise made from the
PRIVATE spectrum and public numbers only. Derived: docs/mechanisms/meter_stream.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import checks
from gaussveil.accounting import Charge
from gaussveil.accounting.composition import sampler_delta
from gaussveil.calibration import mean_shift_for, noise_scales
from gaussveil.calibration.stream_events import largest_event, largest_ratio, repeated_events
from gaussveil.errors import FormatError, NumericalError, ParameterError
from gaussveil.mechanisms.release_path import Promise, unaffordable_sampler
from gaussveil.noise.stream_filter import LARGEST_STEPS, WIDTHS, StreamFilter, turn
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import minimum_phase_factor, one_pole_one_zero
from gaussveil.timeseries.durations import duration_minutes
from gaussveil.timeseries.psd import check_psd

PURPOSES = ("shape", "energy", "billing", "spectrum")
YEARS = 10
HOURS_PER_YEAR = 8766.0
REGISTER_DAYS = {"day": 1, "week": 7, "month": 28}
EVENT_WEIGHT = 4.0  # of the energy of an event-long stretch of the stream, against that of each register
WHITE_PART = 0.75  # of the least noise power, drawn white on the lattice; the rest is filtered
SAMPLER_PART = 1 / 20  # of delta that the lattice may cost before a finer one is taken
NUMERICAL_MARGIN = 1 + 2.0**-28  # Fourier coefficients and filters are known to 1e-12
SIGNAL_BITS = 12
REDUCTION = (0.8, 0.314)  # gain and 1 - exp(-2 pi 2e-4 Hz 300 s): F of SpDP Table I at 5 minutes


def hours(name: str, value: Any) -> float:
    """A duration in hours, from a number of hours or text such as "5min", "1h", "2d"."""
    minutes = duration_minutes(value)
    if minutes is not None:
        length = float(minutes / 60)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        length = float(value)
    else:
        raise ParameterError(f'{name} must be hours, or text such as "5min", "1h" or "2d". Got {value!r}.')
    if not 0 < length < math.inf:
        raise ParameterError(f"{name} must be longer than nothing and finite. Got {value!r}.")
    return length


@dataclass(frozen=True, kw_only=True)
class HiddenChange:
    """What is hidden: one event of at most `samples` consecutive readings, each moved by at most `size` kW, or any
    change of at most `l2_ball` kW in l2 norm over the whole stream."""

    size: float = 0.0
    samples: int = 0
    l2_ball: float = 0.0

    @classmethod
    def of(cls, event: tuple[float, float | str] | None, l2_ball: float | None, period: float) -> HiddenChange:
        """From what the caller says: (kW, duration) of an event, or a radius in kW."""
        if (event is None) == (l2_ball is None):
            raise ParameterError("give exactly one of event, (kW, duration), and l2_ball, kW: what the stream hides.")
        if event is None:
            return cls(l2_ball=checks.positive("l2_ball", l2_ball))
        if not isinstance(event, tuple | list) or len(event) != 2:
            raise ParameterError('event must be a pair (kW, duration) such as (0.5, "1h").')
        size, length = checks.positive("event's size", event[0]), hours("event's duration", event[1])
        return cls(size=size, samples=math.ceil(length / period * (1 - 1e-9)))

    @property
    def is_event(self) -> bool:
        """Whether an event is hidden, not a ball."""
        return self.samples > 0


@dataclass(frozen=True, kw_only=True)
class RegisterDesign:
    """Energy of aligned windows of `samples` readings, with noise of deviation `noise_sd` in kW times samples."""

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

    @property
    def charge(self) -> Charge:
        """What the whole stream costs, once."""
        return Charge(GaussianPair.mean_shift(self.mean_shift), sampler_error=self.sampler_error)

    @cached_property
    def noise_sd(self) -> float:
        """Standard deviation of the noise on one reading, kW."""
        return math.sqrt(float(self.filter.noise_lags(1)[0]))

    def samples_per(self, length: float) -> int:
        """Readings in so many hours."""
        return max(1, round(length / self.sample_period))

    def energy_sd(self, length: float) -> float:
        """Standard deviation of the energy's error over so many hours, kWh, from stream and registers together."""
        window = self.samples_per(length)
        lags = self.filter.noise_lags(window, tolerance=1e-9)
        variance = window * lags[0] + 2 * float(np.sum((window - np.arange(1, window)) * lags[1:]))
        precision = 1 / max(variance, 1e-300)
        for register in self.registers:
            if window % register.samples == 0:
                precision += 1 / (register.noise_sd**2 * (window // register.samples))
        return self.sample_period / math.sqrt(precision)

    def repeated_shift(self, events: int) -> float:
        """Mean shift of so many promised events, one a day at the same hour; for a ball, so many times the radius."""
        if not self.hidden.is_event:
            return self.mean_shift * events
        day = self.samples_per(24.0)
        size, length = self.hidden.size + self.filter.input_grid, self.hidden.samples
        energy = self.filter.ratio_lags((events - 1) * day + length, tolerance=1e-12)
        total = size**2 * repeated_events(energy, length, day, events)
        for register in self.registers:
            inside = max(1, register.samples // day)
            full, rest = divmod(events, inside)
            total += (size * length / register.noise_sd) ** 2 * (full * inside**2 + rest**2)
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
    reduction: tuple[float, float] = REDUCTION

    def __post_init__(self) -> None:
        checks.one_of("purpose", self.purpose, PURPOSES)
        if not self.hidden.is_event and self.purpose in ("energy", "billing"):
            raise ParameterError(
                f'purpose {self.purpose!r} needs an event to hide: for an l2 ball white noise, "shape", is optimal.'
            )
        checks.whole("the event's number of samples", self.hidden.samples, "[0, 4096]")
        checks.whole("sample_limit", self.sample_limit)
        low, high = self.limits
        if not (math.isfinite(low) and math.isfinite(high) and low < high and low <= self.substitute <= high):
            raise ParameterError(
                "limits must be finite and increasing, with the substitute between them. "
                f"Got {self.limits} and {self.substitute}."
            )
        if self.purpose == "spectrum":
            _low_pass(*self.reduction)


def design_stream(
    request: StreamRequest, private_psd: ArrayLike | None = None, spectrum_mean_shift: float = 0.0
) -> StreamDesign:
    """Shape the filters, measure what they really hide, and scale the noise to the promise.

    The sampler's error does not depend on the scale, so delta is first reduced by it; then the supremum over all
    hidden changes, of the filters as they run, decides the scale.
    """
    purpose, hidden, promise, samples = request.purpose, request.hidden, request.promise, request.sample_limit
    if purpose == "energy":
        shape = _energy_shape(hidden, *(request.balance or _balance(request.sample_period, hidden.samples)))
    elif purpose == "spectrum":
        if private_psd is None:
            raise ParameterError('history must be given for purpose "spectrum": a release of PrivateSpectrum.')
        shape = _spectrum_shape(private_psd, request.sample_period, *request.reduction)
    else:
        shape = StreamFilter(white=1.0)
    shape = _fine_enough(shape, promise, samples)
    error = _sampler_error(shape, samples)
    mean_shift = mean_shift_for(promise.epsilon, promise.ideal_delta(error))
    share = billing_shares()["stream"] if purpose == "billing" else 1.0
    smallest = 1.0 if purpose == "spectrum" else 0.0  # the private spectrum's own noise, or more
    rough = shape.scaled(max(_largest_shift(shape, hidden) / (mean_shift * math.sqrt(share)), smallest))
    # Rounding readings to the lattice enlarges every difference by a grid, which may still double with the scale.
    rounded = _rounded(hidden, 2 * rough.input_grid, samples)
    found = shape.scaled(max(_largest_shift(shape, rounded) / (mean_shift * math.sqrt(share)), smallest))
    reached = _largest_shift(found.scaled(1 - 2.0**-40), rounded) if purpose == "spectrum" else mean_shift
    if found.grid > 2 * rough.grid or found.total_variation(2 * samples) > error:
        raise NumericalError("the lattice moved while the noise was scaled: choose a slightly different promise")
    if max(map(abs, request.limits)) / found.input_grid * sum(map(abs, found.signal)) >= LARGEST_STEPS:
        raise ParameterError(f"limits must be closer to the noise of {found.white:.3g} kW. Got {request.limits}.")
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
        registers=_registers(request.sample_period, rounded, mean_shift) if purpose == "billing" else (),
        limits=request.limits,
        substitute=request.substitute,
        spectrum_mean_shift=spectrum_mean_shift,
    )


def check_hides(design: StreamDesign) -> None:
    """Refuse a design, for example of a file, whose filters and registers hide less than its mean shift says."""
    hidden = _rounded(design.hidden, design.filter.input_grid, design.sample_limit)
    squared = _largest_shift(design.filter, hidden) ** 2
    squared += sum((hidden.samples * hidden.size / register.noise_sd) ** 2 for register in design.registers)
    enough = math.sqrt(squared) <= design.mean_shift * NUMERICAL_MARGIN
    if not enough or design.sampler_error < design.filter.total_variation(2 * design.sample_limit):
        raise FormatError("the filters and registers of the design do not hide what it promises")
    if design.registers and not hidden.is_event:
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


def _fine_enough(shape: StreamFilter, promise: Promise, samples: int) -> StreamFilter:
    for width in WIDTHS:
        shape = shape.at_width(width)
        error = _sampler_error(shape, samples)
        if sampler_delta(promise.epsilon, error) <= SAMPLER_PART * promise.delta:
            return shape
    raise unaffordable_sampler(
        promise.epsilon,
        promise.delta,
        sampler_delta(promise.epsilon, error) / SAMPLER_PART,
        f"a sample_limit below {samples} may help",
    )


def _sampler_error(shape: StreamFilter, samples: int) -> float:
    """Total variation over the whole stream: twice the samples, so that restarts and registers are paid for, too."""
    return 1.5 * shape.total_variation(2 * samples)


def _balance(sample_period: float, samples: int) -> tuple[float, float]:
    """(rho, p) that balance noise and energy: measured at 12 and 48 samples of 5 minutes, a power law between them."""
    length = samples * sample_period
    rho = 1 - min(0.5, 0.00197 * (sample_period * 12) * length**-0.82)
    return rho, min(0.6, 0.42 * length**-0.243)


def _energy_shape(hidden: HiddenChange, rho: float, low_share: float) -> StreamFilter:
    """Design B for a unit shift: R = r0 + b P_rho hides the all-ones event exactly; its noise filter in closed form."""
    if not 0 < rho < 1 or not 0 <= low_share < 1:
        raise ParameterError(f"balance must hold rho in (0, 1) and p in [0, 1). Got {(rho, low_share)}.")
    length = hidden.samples
    lags = np.arange(1, length)
    closeness = length + 2 * float(np.sum((length - lags) * rho**lags))
    white, low = (1 - low_share) / (length * hidden.size**2), low_share / (closeness * hidden.size**2)
    whole = one_pole_one_zero(rho, white, low)
    gain, zero, pole = float(whole.b[0]) ** 2, rho, -float(whole.a[1])
    least = 1 / (white + low * (1 + rho) / (1 - rho))
    drawn_white = WHITE_PART * least
    # gamma - s^2 has the same pole; its numerator k |1 - r z^-1|^2 from the two coefficients
    middle = gain * (1 + zero**2) - drawn_white * (1 + pole**2)
    side = gain * zero - drawn_white * pole
    half = middle / (2 * side)
    root = 1 / (half + math.sqrt(half * half - 1)) if half > 1 else 1.0
    direct = math.sqrt(side / root)
    return StreamFilter(
        white=math.sqrt(drawn_white), direct=direct, taps=(direct * (pole - root),), pole=pole, width=WIDTHS[0]
    )


def _spectrum_shape(private_psd: ArrayLike, sample_period: float, gain: float, coefficient: float) -> StreamFilter:
    """Algorithm 2 repaired: gamma = (1 - |F|^2) phi~ + floor, F a first-order low pass with gain below 1."""
    density = check_psd(private_psd) / sample_period
    if density.ndim != 1 or not density.max() > 0:
        raise ParameterError("the private spectrum must be one density that is positive somewhere.")
    rough = StreamFilter(white=1.0, signal=_low_pass(gain, coefficient), signal_bits=SIGNAL_BITS)
    target = (1 - rough.signal_power(turn(density.size - 1))) * density
    target = np.maximum(target, 1e-3 * float(target.max()))  # a floor: silent frequencies would hide nothing
    white = WHITE_PART * float(target.min())
    coloured = minimum_phase_factor(target - white, min(48, density.size - 1), tolerance=None)
    return replace(rough, white=math.sqrt(white), direct=float(coloured.b[0]), taps=tuple(map(float, coloured.b[1:])))


def _low_pass(gain: float, coefficient: float) -> tuple[int, ...]:
    """Taps of F in units of 2^-12, until they vanish."""
    if not 0 < gain < 1 or not 0 < coefficient <= 1:
        raise ParameterError(f"reduction must be (gain below 1, coefficient in (0, 1]). Got {(gain, coefficient)}.")
    if not gain * coefficient >= 2.0**-SIGNAL_BITS:
        raise ParameterError(
            f"reduction must let something through: gain times coefficient must be at least 2^-{SIGNAL_BITS}. "
            f"Got {(gain, coefficient)}."
        )
    length = (
        max(1, min(64, math.ceil(math.log(2.0**-SIGNAL_BITS) / math.log1p(-coefficient)))) if coefficient < 1 else 1
    )
    taps = gain * coefficient * (1 - coefficient) ** np.arange(length)
    return tuple(int(tap) for tap in np.floor(taps * 2**SIGNAL_BITS))


@lru_cache
def billing_shares() -> dict[str, float]:
    """How design C divides the promise, all weights public: the noise that minimises the weighted energy errors.

    An event of T readings of size a moves the stream by a sqrt(T) and every register by a T at most; the stream's error
    over T readings is sqrt(T) of its noise. So T and a cancel, and the shares are the same for every promise.
    """
    names = ("stream", *REGISTER_DAYS)
    weights = np.array([EVENT_WEIGHT] + [1.0] * len(REGISTER_DAYS))
    scales = noise_scales(1.0, weights, np.ones(len(names)))
    return dict(zip(names, (1 / scales**2).tolist()))


def _registers(sample_period: float, hidden: HiddenChange, mean_shift: float) -> tuple[RegisterDesign, ...]:
    """Design C: a register moves by at most samples * size, however the event lies across its windows."""
    made = []
    for name, days in REGISTER_DAYS.items():
        window = days * 24.0 / sample_period
        if abs(window - round(window)) > 1e-9:
            raise ParameterError(f"sample_period must divide a day for billing. Got {sample_period!r} hours.")
        sd = hidden.samples * hidden.size / (mean_shift * math.sqrt(billing_shares()[name])) * NUMERICAL_MARGIN
        made.append(RegisterDesign(name=name, samples=round(window), noise_sd=sd))
    return tuple(made)
