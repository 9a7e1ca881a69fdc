"""Filters of the designs "energy" and "spectrum", up to the scale that the promise asks for."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import ParameterError
from gaussveil.noise.stream_filter import WIDTHS, StreamFilter, turn
from gaussveil.timeseries import minimum_phase_factor, one_pole_one_zero
from gaussveil.timeseries.psd import check_psd

WHITE_PART = (
    0.75  # of the least noise power, drawn white on the lattice; the rest is filtered
)
SIGNAL_BITS = 12
REDUCTION = (
    0.8,
    0.314,
)  # gain and 1 - exp(-2 pi 2e-4 Hz 300 s): F of SpDP Table I at 5 minutes


def balance(sample_period: float, samples: int) -> tuple[float, float]:
    """(rho, p) that balance noise and energy: measured at 12 and 48 samples of 5 minutes, a power law between them."""
    length = samples * sample_period
    rho = 1 - min(0.5, 0.00197 * (sample_period * 12) * length**-0.82)
    return rho, min(0.6, 0.42 * length**-0.243)


def energy_shape(
    length: int, size: float, rho: float, low_share: float
) -> StreamFilter:
    """Design B for a unit shift: R = r0 + b P_rho hides the all-ones event exactly; its noise filter in closed form."""
    if not 0 < rho < 1 or not 0 <= low_share < 1:
        raise ParameterError(
            f"balance must hold rho in (0, 1) and p in [0, 1). Got {(rho, low_share)}."
        )
    lags = np.arange(1, length)
    closeness = length + 2 * float(np.sum((length - lags) * rho**lags))
    white = (1 - low_share) / (length * size**2)
    low = low_share / (closeness * size**2)
    whole = one_pole_one_zero(rho, white, low)
    gain = float(whole.b[0]) ** 2
    zero = rho
    pole = -float(whole.a[1])
    least = 1 / (white + low * (1 + rho) / (1 - rho))
    drawn_white = WHITE_PART * least
    # gamma - s^2 has the same pole; its numerator k |1 - r z^-1|^2 from the two coefficients
    middle = gain * (1 + zero**2) - drawn_white * (1 + pole**2)
    side = gain * zero - drawn_white * pole
    half = middle / (2 * side)
    if half > 1:
        root = 1 / (half + math.sqrt(half * half - 1))
    else:
        root = 1.0
    direct = math.sqrt(side / root)
    return StreamFilter(
        white=math.sqrt(drawn_white),
        direct=direct,
        taps=(direct * (pole - root),),
        pole=pole,
        width=WIDTHS[0],
    )


def spectrum_shape(
    private_psd: ArrayLike, sample_period: float, gain: float, coefficient: float
) -> StreamFilter:
    """Algorithm 2 repaired: gamma = (1 - |F|^2) phi~ + floor, F a first-order low pass with gain below 1."""
    density = check_psd(private_psd) / sample_period
    if density.ndim != 1 or not density.max() > 0:
        raise ParameterError(
            "the private spectrum must be one density that is positive somewhere."
        )
    rough = StreamFilter(
        white=1.0, signal=low_pass(gain, coefficient), signal_bits=SIGNAL_BITS
    )
    target = (1 - rough.signal_power(turn(density.size - 1))) * density
    target = np.maximum(
        target, 1e-3 * float(target.max())
    )  # a floor: silent frequencies would hide nothing
    white = WHITE_PART * float(target.min())
    coloured = minimum_phase_factor(
        target - white, min(48, density.size - 1), tolerance=None
    )
    return replace(
        rough,
        white=math.sqrt(white),
        direct=float(coloured.b[0]),
        taps=tuple(map(float, coloured.b[1:])),
    )


def low_pass(gain: float, coefficient: float) -> tuple[int, ...]:
    """Taps of F in units of 2^-12, until they vanish."""
    if not 0 < gain < 1 or not 0 < coefficient <= 1:
        raise ParameterError(
            f"reduction must be (gain below 1, coefficient in (0, 1]). Got {(gain, coefficient)}."
        )
    if not gain * coefficient >= 2.0**-SIGNAL_BITS:
        raise ParameterError(
            f"reduction must let something through: gain times coefficient must be at least 2^-{SIGNAL_BITS}. "
            f"Got {(gain, coefficient)}."
        )
    if coefficient < 1:
        length = max(
            1,
            min(64, math.ceil(math.log(2.0**-SIGNAL_BITS) / math.log1p(-coefficient))),
        )
    else:
        length = 1
    taps = gain * coefficient * (1 - coefficient) ** np.arange(length)
    return tuple(int(tap) for tap in np.floor(taps * 2**SIGNAL_BITS))
