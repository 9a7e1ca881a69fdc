"""Designs of private meter streams: which filters, which registers, how much noise for a promised event.

Design A, "shape": white noise, the least of all for events of any signs. B, "energy": less noise at low frequencies, so
that daily and monthly sums are better, R = r0 + b P_rho. C, "billing": white noise and separately released registers of
day, week and month. "registers": such energies alone, of nested windows, and no readings. "spectrum": SpDP Algorithm
2 repaired (docs/corrections, S4b), filters and noise made from the PRIVATE spectrum and public numbers only. Derived:
docs/mechanisms/meter_stream.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from gaussveil import (
    calibration,
)  # loaded where it is used: a gateway designs nothing
from gaussveil.accounting import Charge
from gaussveil.accounting.directed import sampler_delta
from gaussveil.calibration.stream_events import (
    largest_event,
    largest_ratio,
    repeated_events,
)
from gaussveil.errors import (
    FormatError,
    NumericalError,
    ParameterError,
)
from gaussveil.mechanisms.meter_stream import filter_shapes, register_tree
from gaussveil.mechanisms.meter_stream.register_design import (
    NUMERICAL_MARGIN,
    RegisterDesign,
    billing_shares,
    register_lattice,
    registers_alone,
    registers_beside,
    registers_shift,
)
from gaussveil.mechanisms.meter_stream.request import (
    HiddenChange,
    StreamRequest,
)
from gaussveil.mechanisms.release_path import (
    Promise,
    unaffordable_sampler,
)
from gaussveil.noise.filter_bank import LARGEST_STEPS
from gaussveil.noise.stream_filter import WIDTHS, StreamFilter
from gaussveil.spectrum import GaussianPair
from gaussveil.typing import Floats

YEARS = 10
HOURS_PER_YEAR = 8766.0
SAMPLER_PART = 1 / 20  # of delta that the lattice may cost before a finer one is taken


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
    promise = request.promise
    samples = request.sample_limit
    registers = registers_alone(request) if purpose == "registers" else ()
    shape = fine_enough(_shape_for(request, registers, private_psd), promise, samples)
    error = stream_sampler_error(shape, samples)
    mean_shift = calibration.mean_shift_for(promise.epsilon, promise.ideal_delta(error))

    def scale_for(change: HiddenChange) -> float:
        if purpose == "registers":
            return registers_shift(registers, change) / mean_shift
        moved = _largest_shift(shape, change)
        if purpose == "billing":
            return moved / (mean_shift * math.sqrt(billing_shares()["stream"]))
        if purpose == "spectrum":
            return max(moved / mean_shift, 1.0)  # the private spectrum's own, or more
        return moved / mean_shift

    rough = shape.scaled(scale_for(request.hidden))
    # Rounding readings to the lattice enlarges every difference by a grid, which may still double with the scale.
    rounded = _rounded(request.hidden, 2 * rough.input_grid, samples)
    scale = scale_for(rounded)
    filters = shape.scaled(scale)
    if filters.grid > 2 * rough.grid or filters.total_variation(2 * samples) > error:
        raise NumericalError(
            "the lattice moved while the noise was scaled: choose a slightly different promise"
        )
    _check_limits(request, filters)
    reached = mean_shift
    if purpose == "spectrum":
        reached = _largest_shift(filters.scaled(1 - 2.0**-40), rounded)
    if purpose == "billing":
        registers = registers_beside(request.sample_period, rounded, mean_shift)
    else:
        registers = tuple(
            replace(register, noise_sd=scale * register.noise_sd)
            for register in registers
        )
    return StreamDesign(
        purpose=purpose,
        sample_period=request.sample_period,
        epsilon=promise.epsilon,
        delta=promise.delta,
        hidden=request.hidden,
        filter=filters,
        mean_shift=min(reached, mean_shift),
        sampler_error=error,
        sample_limit=samples,
        registers=registers,
        limits=request.limits,
        substitute=request.substitute,
        spectrum_mean_shift=spectrum_mean_shift,
    )


def _shape_for(
    request: StreamRequest,
    registers: tuple[RegisterDesign, ...],
    private_psd: ArrayLike | None,
) -> StreamFilter:
    """Filters of the purpose, not scaled yet."""
    hidden = request.hidden
    if request.purpose == "registers":
        return register_lattice(registers)
    if request.purpose == "energy":
        balance = request.balance or filter_shapes.balance(
            request.sample_period, hidden.samples
        )
        return filter_shapes.energy_shape(hidden.samples, hidden.size, *balance)
    if request.purpose == "spectrum":
        if private_psd is None:
            raise ParameterError(
                'history must be given for purpose "spectrum": a release of PrivateSpectrum.'
            )
        return filter_shapes.spectrum_shape(
            private_psd, request.sample_period, *request.reduction
        )
    return StreamFilter(white=1.0)


def _check_limits(request: StreamRequest, filters: StreamFilter) -> None:
    """Refuse limits so wide that a sum of readings is no whole number of steps."""
    steps = max(map(abs, request.limits)) / filters.input_grid
    if steps * sum(map(abs, filters.signal)) >= LARGEST_STEPS:
        raise ParameterError(
            f"limits must be closer to the noise of {filters.white:.3g} kW. Got {request.limits}."
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
        squared = registers_shift(design.registers, hidden) ** 2
        lattice = register_lattice(design.registers)
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


def for_purpose(own: StreamDesign, purpose: str) -> StreamDesign | None:
    """The same promise for another purpose, None where that needs more or is refused."""
    if purpose == "spectrum":
        return None
    try:
        return design_stream(
            StreamRequest(
                purpose=purpose,
                sample_period=own.sample_period,
                promise=Promise(own.epsilon, own.delta),
                hidden=own.hidden,
                sample_limit=own.sample_limit,
                limits=own.limits,
                substitute=own.substitute,
            )
        )
    except (ParameterError, NumericalError):
        return None
