"""The filters of a private stream and the law of its noise, on a public power-of-two lattice.

Output, in units of the grid g:  F(round(x)) + round(H * D1) + D2.  F has integer taps, so the signal path is exact. D1
and D2 are exact lattice Gaussians. H runs in floating point, which is harmless: it never sees x, and D2 smooths what H
was rounded by. The law is within `total_variation` of a post-processing of F x + H * N(0, 1) + N(0, s^2). Derived:
docs/mechanisms/meter_stream.md, "Noise".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import cached_property, lru_cache
from math import floor, ldexp, log2, pi, sqrt

import numpy as np

from gaussveil.errors import NumericalError, ParameterError
from gaussveil.noise.discrete_gaussian import DiscreteGaussianNoise, smoothing_error
from gaussveil.noise.gaussian import LATTICE_VARIANCE
from gaussveil.noise.lattice import checked_grid
from gaussveil.spectrum.constants import ULP
from gaussveil.typing import Floats

# log2 of s/g: three, four or five table draws per discrete Gaussian
WIDTHS = (28, 36, 45)
LONGEST = 4096
LARGEST_GRID = 1 << 22

Power = Callable[[Floats], Floats]


def turn(points: int) -> Floats:
    """Angles 0..pi of a transform of 2 * points samples."""
    return np.asarray(np.linspace(0, np.pi, points + 1))


def fourier(power: Power, lags: int, *, tolerance: float = 1e-13) -> Floats:
    """Fourier coefficients m = 0..lags-1 of an even spectrum; the grid doubles until two answers agree.

    Where it cannot hold so many lags, those it does not hold are 0 if the last half of those it holds are.
    """
    size = min(1 << max(12, (4 * lags - 1).bit_length()), LARGEST_GRID // 2)
    previous: Floats | None = None
    while size <= LARGEST_GRID:
        found = np.fft.irfft(power(turn(size // 2)))[: min(lags, size // 4)]
        near = tolerance * np.abs(found).max()
        agrees = (
            previous is not None
            and np.abs(found[: previous.size] - previous).max() <= near
        )
        if agrees and (
            found.size == lags or np.abs(found[found.size // 2 :]).max() <= near
        ):
            return np.asarray(np.pad(found, (0, lags - found.size)))
        previous = found
        size = 2 * size
    raise NumericalError(
        "the spectrum is too peaked to be integrated: choose smoother filters or a longer time constant"
    )


@dataclass(frozen=True, kw_only=True)
class StreamFilter:
    """Public design of one stream's filters; amplitudes in kW.

    Noise: w_k = pole w_{k-1} + d_k, c_k = direct d_k + sum_j taps_j w_{k-j} (j = 1..), d of unit variance, plus white
    noise of deviation `white`. Signal: taps `signal` / 2^signal_bits. `width` is log2 of white/grid, rounded down.
    """

    white: float
    direct: float = 0.0
    taps: tuple[float, ...] = ()
    pole: float = 0.0
    signal: tuple[int, ...] = (1,)
    signal_bits: int = 0
    width: int = WIDTHS[0]

    def __post_init__(self) -> None:
        if not (
            self.white > 0
            and abs(self.pole) < 1
            and self.width in WIDTHS
            and any(self.signal)
        ):
            raise ParameterError(
                "a stream filter needs white > 0, |pole| < 1, a known width and a signal tap"
            )
        if (
            max(len(self.taps), len(self.signal)) > LONGEST
            or not 0 <= self.signal_bits <= 52
        ):
            raise ParameterError(
                f"a stream filter has at most {LONGEST} taps, and 0 to 52 bits of its signal's"
            )
        if max(map(abs, self.signal)) > 2**52:
            raise ParameterError("a stream filter's signal taps must be below 2^52")

    @property
    def coloured(self) -> bool:
        """Whether there is any noise besides the white one."""
        return self.direct != 0

    @cached_property
    def grid(self) -> float:
        """The lattice of the output, kW."""
        return checked_grid(ldexp(1.0, floor(log2(self.white)) - self.width))

    @property
    def input_grid(self) -> float:
        """The lattice that readings are rounded to, kW."""
        return ldexp(self.grid, self.signal_bits)

    def scaled(self, factor: float) -> StreamFilter:
        """The same filters with so many times the noise."""
        taps = tuple(factor * tap for tap in self.taps)
        return replace(
            self, white=factor * self.white, direct=factor * self.direct, taps=taps
        )

    def at_width(self, width: int) -> StreamFilter:
        """The same filters on a finer or coarser lattice."""
        return replace(self, width=width)

    def noise_power(self, angles: Floats) -> Floats:
        """gamma: the spectrum of the noise as it is drawn."""
        step = np.exp(-1j * angles)
        lagged = sum(
            (tap * step ** (j + 1) for j, tap in enumerate(self.taps)),
            start=np.zeros_like(step),
        )
        return np.asarray(
            np.abs(self.direct + lagged / (1 - self.pole * step)) ** 2 + self.white**2
        )

    def signal_power(self, angles: Floats) -> Floats:
        """|F|^2 of the signal path as it runs."""
        step = np.exp(-1j * angles)
        response = sum(
            (tap * step**j for j, tap in enumerate(self.signal)),
            start=np.zeros_like(step),
        )
        return np.asarray(np.abs(response) ** 2 * 4.0**-self.signal_bits)

    def ratio(self, angles: Floats) -> Floats:
        """R = |F|^2 / gamma: all that privacy depends on."""
        return np.asarray(self.signal_power(angles) / self.noise_power(angles))

    def noise_lags(self, count: int, *, tolerance: float = 1e-13) -> Floats:
        """Autocovariances of the noise at lags 0, 1, ..."""
        if not self._one_pole:
            return fourier(self.noise_power, count, tolerance=tolerance)
        first, second = self._numerator
        # (A + 2 B cos w)/|1 - p z|^2, in closed form however long the memory is
        variance = (first + 2 * second * self.pole) / (
            (1 - self.pole) * (1 + self.pole)
        )
        side = (first * self.pole + second * (1 + self.pole**2)) / (
            (1 - self.pole) * (1 + self.pole)
        )
        return _with_tail(variance, side, self.pole, count)

    def ratio_lags(self, count: int, *, tolerance: float = 1e-13) -> Floats:
        """Fourier coefficients of R at lags 0, 1, ...: what an event is measured by."""
        if not self._one_pole:
            return fourier(self.ratio, count, tolerance=tolerance)
        first, second = self._numerator
        # gamma = g |1 - r z|^2/|1 - p z|^2, so R = |1 - p z|^2/(g |1 - r z|^2); 1 - r without cancellation
        level = (self.direct + self._slope) ** 2 + (self.white * (1 - self.pole)) ** 2
        gain = (first + sqrt(level * (first - 2 * second))) / 2
        gap = sqrt(level / gain)
        root = 1 - gap
        below = gain * gap * (2 - gap)
        middle = ((1 - self.pole) ** 2 + 2 * self.pole * gap) / below
        side = (root - self.pole) * ((1 - self.pole) + self.pole * gap) / below
        return _with_tail(middle, side, root, count)

    @property
    def _one_pole(self) -> bool:
        return len(self.taps) <= 1 and self.signal == (1,) and self.signal_bits == 0

    @property
    def _slope(self) -> float:
        """e of the noise filter (direct + e z)/(1 - pole z)."""
        return (self.taps[0] if self.taps else 0.0) - self.direct * self.pole

    @property
    def _numerator(self) -> tuple[float, float]:
        """A and B of gamma |1 - pole z|^2 = A + 2 B cos w."""
        slope = self._slope
        power = self.white**2
        return (
            self.direct**2 + slope**2 + power * (1 + self.pole**2),
            self.direct * slope - power * self.pole,
        )

    @cached_property
    def inner(self) -> DiscreteGaussianNoise:
        """D1, of deviation about 2^width."""
        return _inner(self.width)

    @cached_property
    def outer(self) -> DiscreteGaussianNoise:
        """D2: white noise and the variance that sampling on the lattice costs."""
        return _outer(self.white, self.grid)

    def total_variation(self, samples: int) -> float:
        """Bound for so many samples between the law drawn and a post-processing of the continuous mechanism."""
        lattice = smoothing_error(LATTICE_VARIANCE, 1)
        per_sample = self.outer.total_variation + lattice
        if not self.coloured:
            return samples * per_sample
        per_sample += self.inner.total_variation + lattice
        largest = _loudest(self) * 1.001 + abs(self.direct) * 0.001
        deviation = 1 / sqrt(1 - self.pole**2)
        arithmetic = abs(self.direct) + sum(map(abs, self.taps)) * deviation * (
            len(self.taps) + 4 / (1 - abs(self.pole))
        )
        moved = (
            2.01 * largest * 2.0**-self.width
            + 0.5 * self.white * 2.0**-self.width
            + 4 * ULP * arithmetic
        )
        return samples * per_sample + sqrt(samples) * moved / (
            sqrt(2 * pi) * self.white
        )


def _with_tail(first: float, second: float, root: float, count: int) -> Floats:
    """first, second, second root, second root^2, ..."""
    return np.concatenate([[first], second * root ** np.arange(max(count - 1, 0))])[
        :count
    ]


@lru_cache(maxsize=256)
def _loudest(filters: StreamFilter) -> float:
    """Root of the largest power of the noise."""
    return sqrt(float(filters.noise_power(turn(1 << 14)).max()))


@lru_cache(maxsize=1 << 16)
def _outer(white: float, grid: float) -> DiscreteGaussianNoise:
    return DiscreteGaussianNoise(
        (Fraction(white) / Fraction(grid)) ** 2 + LATTICE_VARIANCE
    )


@lru_cache
def _inner(width: int) -> DiscreteGaussianNoise:
    return DiscreteGaussianNoise(Fraction(4**width) + LATTICE_VARIANCE)
