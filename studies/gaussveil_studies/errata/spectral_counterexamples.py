"""The counterexamples of the paper on smart-meter spectra: each evaluates exactly what the paper releases."""

from __future__ import annotations

import math

from flint import arb

from gaussveil.calibration import mean_shift_for
from gaussveil.spectrum import GaussianPair
from gaussveil_studies.errata.closed_forms import closed, normal_below
from gaussveil_studies.errata.records import Evidence
from gaussveil_studies.spectral.typical_stream import day_of_noise


def eq_7() -> Evidence:
    """S1: the printed noise variance at (log 2, 0.01), B = 1, against the least that keeps the promise."""
    epsilon = math.log(2)
    delta = 0.01
    quantile = 2.3263478740408408  # Q^-1(0.01)
    stated = 1 / (-quantile + math.sqrt(quantile**2 + 2 * epsilon)) ** 2
    shift = mean_shift_for(epsilon, delta)
    assert float(GaussianPair.mean_shift(shift).enclose(epsilon).upper) <= delta
    return Evidence(
        stated,
        shift**-2 * (1 - 1e-9),
        shift**-2,
        GaussianPair.mean_shift(shift),
        epsilon=epsilon,
    )


def correlated_noise() -> Evidence:
    """S2: two frequencies, correlation 0.5, least eigenvalue that of white noise, so variances 1 and 3: the chance of a
    distance above 2 is at least that of its first part alone.
    """
    white = (-arb(2)).exp()
    return closed(
        float(white.upper()),
        2 * normal_below(-arb(4).sqrt() / arb(3).sqrt()),
        "N(0, diag(1, 3)) against N(0, I), |x| > 2; Anderson's inequality in general",
    )


def measured_ball() -> Evidence:
    """S3: two stretches of the same spectrum give B = 0 and no noise; a neighbour's B is positive, its output has a
    density. The output of the first is one point, which the second never gives.
    """
    return Evidence(0.01, 1.0, 1.0, "a point against a density")


def typical_stream() -> Evidence:
    """S4b: noise of one day of the printed stream, private spectrum public, readings known (an AR(1) home)."""
    pair = (
        day_of_noise().reversed()
    )  # the worse direction; the other need not be enclosed
    return Evidence(
        0.01, float(pair.enclose(math.log(2)).lower), 1.0, pair, epsilon=math.log(2)
    )


def kept_inside() -> Evidence:
    """S4b, the other way: the private spectrum stays in the meter, unclipped and unsmoothed, |F| = 0.8 throughout. Then
    gamma = (1 - |F|^2) phi + eta, and the stream is post-processing of that.
    """
    quantile = 2.3263478740408408
    epsilon = math.log(2)
    shift = -quantile + math.sqrt(quantile**2 + 2 * epsilon)
    return Evidence.of_pair(
        GaussianPair.mean_shift((1 - 0.8**2) * shift), epsilon, 0.01
    )


def cutoff() -> Evidence:
    """S5: a cutoff of 0.39 Hz, for readings every 300 seconds."""
    return Evidence(
        1 / 600, 0.39, 0.39, "Nyquist frequency of five-minute readings, Hz"
    )


def four_hours() -> Evidence:
    """S6: 576 readings, five minutes each, in hours."""
    return Evidence(4.0, 48.0, 48.0, "576 x 5 min", "equal")


def week_decibels() -> Evidence:
    """S6: the other rows of Table III imply a signal of 2.1 x 10^(1.86/20) and 0.92 x 10^(9.07/20) kW."""
    signals = [
        noise * 10 ** (level / 20) for noise, level in ((2.1, 1.86), (0.92, 9.07))
    ]
    found = [20 * math.log10(signal / 180.0) for signal in signals]
    return Evidence(
        -5.5e-4,
        min(found) - 0.05,
        max(found) + 0.05,
        "180 kW of noise on that signal",
        "equal",
    )


def table_noise() -> Evidence:
    """S6: eq. (2) at Table I's (log 2, 0.01) and B = 0.2 kW; the table's 0.92 kW is what delta = 0.001 gives."""
    quantile = 2.3263478740408408
    epsilon = math.log(2)
    found = 0.2 / (2 * epsilon) * (quantile + math.sqrt(quantile**2 + 2 * epsilon))
    return Evidence(
        0.92, found - 0.005, found + 0.005, "noise deviation of eq. (2), kW", "equal"
    )


def fourth_norm(power: float = 4.0, frequencies: int = 289) -> Evidence:
    """S7: the private spectrum with the noise of (7) at (log 2, 0.01), neighbours within B in the p-norm."""
    quantile = 2.3263478740408408
    epsilon = math.log(2)
    shift = -quantile + math.sqrt(quantile**2 + 2 * epsilon)
    apart = frequencies ** (1 / 2 - 1 / power)
    return Evidence.of_pair(GaussianPair.mean_shift(apart * shift), epsilon, 0.01)
