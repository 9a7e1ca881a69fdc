"""One step on a random batch: its loss on complex arguments, and its moments (derived: docs/math/subsampled).

A(z) = log(1 - q + q exp(z/sigma - 1/(2 sigma^2))), z = output / sigma, is the log of the density over N(0, 1)'s. Adding
or removing a record compares e^A with 1, replacing one compares it with e^B, B(z) = A(-z) (Lebeda, Regehr, Kamath,
Steinke 2024). All is in M(s) = E[exp((1+s) A - s B)], z ~ N(0, 1), entire in s; B = 0, or A = 0 if reversed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.selection import compiled_steps
from gaussveil.spectrum.stands_for import StandsFor
from gaussveil.spectrum.turns import turn
from gaussveil.spectrum.work import check_work
from gaussveil.typing import Floats

SMALLEST_RATE = (
    1e-15  # of a step that the contour takes; rarer ones are left to the grid
)
STORED_RATE = 1e-12  # the least rate that profiles are stored with
SUM_DIGITS = 37.0  # e^-37 is 1e-16
SUM_REACH = 9.5  # standard deviations that are summed
FAR_KNEE = 8.0
LOOK_CELLS = 256  # of the coarse look at a sum
# an interval as wide that a look has halved is looked at again, cell by cell, so often at most
WIDE = 64.0
MOST_LOOKS = 60
KNOWN_WITHIN = 4.5  # standard deviations by which a density is shifted if its log moment is above what follows
LARGEST_APART = 40.0  # an exponent beyond which e^exponent - 1 is e^exponent
LARGEST_SUBTRACTED = 3.0  # log moments beyond this are summed without subtracting what their integrals are known to be
Complexes = Any  # NDArray[np.complex128]


class StepMoments(NamedTuple):
    """log M at each order, and its rounding error."""

    log_moment: Complexes
    rounding: Floats


@dataclass(frozen=True, order=True)
class Step(StandsFor):
    """Noise multiplier and sampling rate; `replace` for replaced records; `backward` exchanges X and Y."""

    noise_multiplier: float
    sampling_rate: float
    replace: bool = False
    backward: bool = False

    def reversed(self) -> Step:
        """X and Y exchanged; the pair of a replaced record is symmetric."""
        if self.replace:
            return self
        return replace(self, backward=not self.backward)

    def curve(self) -> PrivacyCurve:
        """The curve of one such step."""
        from gaussveil.spectrum import composed

        alone = composed([(self, 1)])
        assert alone is not None  # of at least one curve
        return alone

    def factors(self) -> Factors:
        """The step itself."""
        return Factors(steps=((self, 1),))

    def charged(self) -> tuple[tuple[PrivacyCurve, int], ...]:
        """The profile that an account keeps of it."""
        return self.curve().charged()

    @property
    def neighbours(self) -> str:
        """A record that is replaced, or one that is added or removed."""
        if self.replace:
            return "replace"
        return "add-remove"

    @property
    def floor(self) -> float:
        """log(1 - q): what A falls to."""
        if self.sampling_rate == 1.0:
            return -math.inf
        return math.log1p(-self.sampling_rate)

    @property
    def largest_loss(self) -> float:
        """Supremum of the loss."""
        if self.backward:
            return -self.floor
        return math.inf

    @property
    def knee(self) -> float:
        """z_t: to its left A is nearly constant, to its right nearly linear."""
        return (
            self.noise_multiplier * (self.floor - math.log(self.sampling_rate))
            + 0.5 / self.noise_multiplier
        )

    def place(self, loss: float) -> float:
        """The z at which A is a loss above 0."""
        odds = self.sampling_rate / (math.expm1(min(loss, 700.0)) + self.sampling_rate)
        return 0.5 / self.noise_multiplier - self.noise_multiplier * math.log(odds)

    def slope(self, z: float) -> float:
        """A'(z)."""
        return (
            _logistic((z - self.knee) / self.noise_multiplier) / self.noise_multiplier
        )

    def log_density(self, z: Any) -> Any:
        """A(z); analytic to the right of the knee for any imaginary part, to its left for |Im z| < pi sigma."""
        right = z.real > self.knee
        exponent = z / self.noise_multiplier - 0.5 / self.noise_multiplier**2
        left = log_one_plus(
            self.sampling_rate * np.expm1(np.where(right, 0.0, exponent))
        )
        linear = exponent + math.log(self.sampling_rate)
        rest = log_one_plus(np.exp(self.floor - np.where(right, linear, 0.0)))
        return np.where(right, linear + rest, left)

    def logs(self, z: Any) -> tuple[Any, Any]:
        """A and B of the direction: the logs of both densities over the normal one."""
        check_work()
        ahead = self.log_density(z)
        if self.replace:
            other = self.log_density(-z)
        else:
            other = np.zeros_like(ahead)
        if self.backward:
            return (other, ahead)
        return (ahead, other)

    @property
    def edge(self) -> float:
        """Width of the window's edge; narrower where losses grow fast next to it, to the left of a far knee."""
        return min(0.3, (0.15 if self.knee > FAR_KNEE else 0.2) * self.noise_multiplier)

    def cap(self, log_share: float) -> float:
        """Where the window ends if it may leave out the share e^log_share of the outputs."""
        shift = 1.0 / self.noise_multiplier  # of the record, if it takes part
        return shift + math.sqrt((1.0 + self.edge**2) * 2.0 * max(-log_share, 1.0))

    def left_out(self, cap: float) -> float:
        """log of a bound on the probability, under either density, that the window leaves out."""
        reach = (cap - 1.0 / self.noise_multiplier) / math.sqrt(1.0 + self.edge**2)
        return float(scipy.special.log_ndtr(-reach)) + (
            math.log(2.0) if self.replace else 0.0
        )

    def _log_weight(self, z: Any, cap: float) -> Any:
        """log of the normal density without its constant, and of the window."""
        value = -0.5 * z * z
        if cap < math.inf:
            value = value + scipy.special.log_ndtr((cap - z) / self.edge)
            if self.replace:
                value = value + scipy.special.log_ndtr((cap + z) / self.edge)
        return value

    def _range(self, order: float, cap: float) -> tuple[float, float]:
        """Interval outside which e^{(1+s)A - sB} times the normal density is negligible, for a real order."""
        if self.backward:
            weight = -order
        else:
            weight = 1.0 + order
        if weight < 0.0 and not self.replace:  # log-concave, with variance at most 1
            mode = self._mode(weight)
            return self._with_known(mode - SUM_REACH, mode + SUM_REACH)
        far = max(weight, abs(order)) / self.noise_multiplier
        far += (
            math.sqrt(max(far * far - 2.0 * far * min(self.knee, 0.0), 0.0)) + SUM_REACH
        )
        far = min(far, cap + SUM_REACH)
        low = -far if self.replace else -SUM_REACH
        high = far
        for _ in range(MOST_LOOKS):
            z = np.linspace(low, high, LOOK_CELLS + 1)
            first, second = self.logs(z)
            size = order * (first - second) + first + self._log_weight(z, cap)
            before = high - low
            low, high = _inside(z, size)
            if high - low < WIDE or high - low > 0.5 * before:
                break
        return self._with_known(low, high)

    def _with_known(self, low: float, high: float) -> tuple[float, float]:
        """An interval that holds all of both densities where the tilted one is near: their integrals are subtracted."""
        far = SUM_REACH + 1.0 / self.noise_multiplier
        if self.replace:  # near though narrow
            return min(low, -far), max(high, far)
        return min(low, -SUM_REACH) if low < KNOWN_WITHIN - SUM_REACH else low, max(
            high, far
        ) if high > SUM_REACH - KNOWN_WITHIN else high

    def _mode(self, weight: float) -> float:
        """The z with z = weight A'(z), for a negative weight."""
        low, high = turn(
            lambda z: z > weight * self.slope(z),
            weight / self.noise_multiplier,
            0.0,
            looks=50,
        )
        return 0.5 * (low + high)

    def real_moments(
        self, order: float, cap: float = math.inf
    ) -> tuple[float, float, float]:
        """K(s) = log M(s), K'(s), K''(s) at a real order."""
        computed = self.compiled(
            "tilted", np.zeros((0, 0)), 1, 3, cap, order=order, digits=SUM_DIGITS
        )
        if computed is not None:
            return float(computed[0, 0]), float(computed[1, 0]), float(computed[2, 0])
        low, high = self._range(order, cap)
        step = self.spacing(0.0, high, 1, cap)
        z = np.arange(low, high, step)
        first, second = self.logs(z)
        loss = first - second
        exponent = order * loss + first
        log_weight = self._log_weight(z, cap) + math.log(
            step / math.sqrt(2.0 * math.pi)
        )
        top = float(np.max(exponent + log_weight))
        tilted = np.exp(exponent + log_weight - top)
        total = float(tilted.sum())
        if top > LARGEST_SUBTRACTED:
            log_moment = top + math.log(total)
        else:
            excess = _weighted_excess(log_weight, exponent)
            excess -= (1.0 + order) * _weighted_excess(log_weight, first)
            excess += order * _weighted_excess(log_weight, second)
            log_moment = math.log1p(float(excess.sum()))
        mean = float(tilted @ loss) / total
        return log_moment, mean, float(tilted @ (loss - mean) ** 2) / total

    def compiled(
        self,
        entry: str,
        points: Floats,
        count: int,
        rows: int,
        cap: float,
        **numbers: float,
    ) -> Floats | None:
        """Rows of numbers that an entry of native/steps.h finds; None where the kernel is not at hand."""
        check_work()
        native = compiled_steps()
        if native is None:
            return None
        own = {
            "noise": self.noise_multiplier,
            "rate": self.sampling_rate,
            "log_rest": self.floor,
            "knee": self.knee,
        }
        own |= {
            "replace": self.replace,
            "backward": self.backward,
            "edge": self.edge,
            "cap": cap,
        }
        answer: Floats = native.step_sums(entry, points, count, rows, **own, **numbers)
        return answer

    def spacing(self, height: float, top: float, count: int, cap: float) -> float:
        """Distance of points, of sums up to z = top, that resolves M at orders of the given height to 1e-16 / count.

        A strip of half-width d about the real axis costs e^(d^2/2) of the density and e^(d^2/(2 w^2)) of the window's
        edge and, as |Im A| <= turn there, e^(height turn).
        """
        bend = 1.0 + (self.edge**-2 if cap < top + SUM_REACH else 0.0)
        strip = min(
            math.pi * 0.95 * self.noise_multiplier, math.sqrt(2.0 * SUM_DIGITS / bend)
        )
        turn = strip / self.noise_multiplier
        turn *= min(
            1.0, 2.0 * math.exp(min((top - self.knee) / self.noise_multiplier, 0.0))
        )
        digits = SUM_DIGITS + math.log(count)
        return (
            2.0
            * math.pi
            * strip
            / (digits + 0.5 * bend * strip * strip + height * turn)
        )


def _inside(x: Floats, size: Floats) -> tuple[float, float]:
    """The interval that holds every x at which the size, a logarithm, is not negligible."""
    inside = np.flatnonzero(size >= size.max() - 0.5 * SUM_REACH * SUM_REACH)
    return float(x[max(inside[0] - 1, 0)]), float(x[min(inside[-1] + 1, x.size - 1)])


def _weighted_excess(log_weight: Floats, exponent: Floats) -> Floats:
    """e^weight (e^exponent - 1), also where e^exponent leaves the doubles: of rare outputs of large moments."""
    near = np.minimum(exponent, LARGEST_APART)
    return np.where(
        exponent > LARGEST_APART,
        np.exp(log_weight + exponent),
        np.exp(log_weight) * np.expm1(near),
    )


def _logistic(x: float) -> float:
    if x > -700.0:
        return 1.0 / (1.0 + math.exp(-x))
    return 1e-304


def log_one_plus(z: Any) -> Any:
    """log(1 + z) with all digits next to 0, which NumPy's has for real numbers only, and next to -1."""
    if not np.iscomplexobj(z):
        return np.log1p(z)
    beyond = 2.0 * z.real + z.real**2 + z.imag**2
    log = 0.5 * np.log1p(beyond)
    if beyond.min(initial=0.0) < -0.9:
        log = np.where(beyond < -0.9, np.log(np.hypot(1.0 + z.real, z.imag)), log)
    return log + 1j * np.arctan2(z.imag, 1.0 + z.real)


def turn_less_one(angle: Floats) -> Complexes:
    """e^{i angle} - 1 without cancellation next to 0."""
    sine = np.sin(0.5 * angle)
    cosine = np.cos(0.5 * angle)
    return -2.0 * sine * sine + 2.0j * sine * cosine


def exp_less_one(z: Complexes) -> Complexes:
    """e^z - 1 without cancellation next to 0, from real functions, which are faster."""
    return np.expm1(z.real) + np.exp(z.real) * turn_less_one(z.imag)
