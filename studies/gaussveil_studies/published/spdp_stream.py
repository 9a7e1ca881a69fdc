"""SpDP Algorithm 2 exactly as printed: a stream whose noise spectrum is made from the RAW spectrum. NOT private.

gamma = phi~ - |F|^2 phi (eq. (11)). Who knows the readings x, as differential privacy supposes, sees c = x~ - F x,
estimates gamma ever better and recovers phi = (phi~ - gamma)/|F|^2: the protected spectrum (docs/corrections, S4b). Nor
is the stream post-processing of phi~: it uses x, and hides an event only as far as |F|^2/gamma says (S4).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import ParameterError
from gaussveil.timeseries import Filter, minimum_phase_factor, welch_psd
from gaussveil.timeseries.spectral_factor import grid_angles
from gaussveil.typing import Floats

FINER = 8


def low_pass(gain: float, cutoff_hz: float, period_seconds: float) -> Filter:
    """The reduction filter F of SpDP Table I: first order, its gain below one."""
    keep = float(np.exp(-2 * np.pi * cutoff_hz * period_seconds))
    return Filter(np.array([gain * (1 - keep)]), np.array([1.0, -keep]))


@dataclass(frozen=True, eq=False)
class PublishedStream:
    """F, H and gamma of Algorithm 2; spectra per sample on frequencies evenly spaced from 0 to Nyquist."""

    reduction: Filter
    noise: Filter
    gamma: Floats

    @classmethod
    def design(
        cls, psd: ArrayLike, private_psd: ArrayLike, reduction: Filter, taps: int = 64
    ) -> PublishedStream:
        """Steps 1 and 2; infeasible, and refused, where gamma is not positive (Proposition 3)."""
        raw = np.asarray(psd, float)
        private = np.asarray(private_psd, float)
        gamma = private - reduction.power(grid_angles(raw.size - 1)) * raw
        if not (gamma > 0).all():
            raise ParameterError(
                f"gamma must be positive at every frequency (SpDP Proposition 3). Got {int((gamma <= 0).sum())} "
                "that are not: lower F's gain or cutoff."
            )
        return cls(reduction, minimum_phase_factor(gamma, taps, tolerance=None), gamma)

    @property
    def noise_variance(self) -> float:
        """Of one sample of the noise."""
        return float(np.sum(self.noise.b**2))

    def run(self, series: ArrayLike, generator: np.random.Generator) -> Floats:
        """Steps 3 to 9: x~ = F x + H w."""
        readings = np.asarray(series, dtype=np.float64)
        return self.reduction.apply(readings) + self.noise.apply(
            generator.standard_normal(readings.size)
        )


def recovered_spectrum(
    stream: PublishedStream,
    series: ArrayLike,
    released: ArrayLike,
    private_psd: ArrayLike,
) -> Floats:
    """The attack: who knows the readings subtracts F x, estimates gamma and solves eq. (11) for the raw spectrum."""
    private = np.asarray(private_psd, dtype=np.float64)
    noise = np.asarray(released, dtype=np.float64) - stream.reduction.apply(series)
    gamma = welch_psd(noise, FINER * (private.size - 1))[
        ::FINER
    ]  # fine enough not to blur gamma
    return np.asarray(
        (private - gamma) / stream.reduction.power(grid_angles(private.size - 1))
    )
