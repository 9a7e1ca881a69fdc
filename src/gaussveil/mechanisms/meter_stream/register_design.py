"""How much noise the registers of a stream have: beside its readings, or alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from gaussveil import (
    calibration,
)  # loaded where it is used: a gateway designs nothing
from gaussveil.mechanisms.meter_stream import filter_shapes, register_tree
from gaussveil.mechanisms.meter_stream.request import HiddenChange, StreamRequest
from gaussveil.noise.stream_filter import StreamFilter

REGISTER_HOURS = {"hour": 1.0, "day": 24.0, "week": 7 * 24.0, "month": 28 * 24.0}
BILLED = ("day", "week", "month")
EVENT_WEIGHT = 4.0  # of the energy of an event-long stretch of the stream, against that of each register
NUMERICAL_MARGIN = 1 + 2.0**-28  # Fourier coefficients and filters are known to 1e-12


@dataclass(frozen=True, kw_only=True)
class RegisterDesign:
    """Energy of aligned windows of `samples` readings, with noise of deviation `noise_sd` in kW times samples.

    Of registers alone: the noise that a window has beside its part of the noise of the next longer one.
    """

    name: str
    samples: int
    noise_sd: float


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


def registers_beside(
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


def registers_alone(request: StreamRequest) -> tuple[RegisterDesign, ...]:
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


def register_lattice(registers: Sequence[RegisterDesign]) -> StreamFilter:
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


def registers_shift(registers: Sequence[RegisterDesign], hidden: HiddenChange) -> float:
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
