"""Named privacy profiles: what a release costs where no pair of Gaussians dominates it.

A profile is a pair of distributions (X = with the record, Y = without) known by its hockey-stick divergences:
`delta(epsilon)` of X from Y for every `epsilon >= 0` and, through `reversed()`, of Y from X. Together they give the
divergence for every real epsilon, since H_a(X||Y) = 1 - a + a H_{1/a}(Y||X), so they compose without further knowledge
(`compose_pessimistic`). A profile is stored as its name, version and parameters; what a version means never changes.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

import numpy as np

from gaussveil.errors import FormatError, InputError, ParameterError
from gaussveil.spectrum.arguments import float_array, require_finite
from gaussveil.spectrum.curve import LARGEST_EPSILON, LOSS_RELATIVE_ERROR, UNIT, Curve, Divergence, worst_delta
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.typing import Floats

_PROFILE_RELATIVE_ERROR = 1e-13
_REGISTRY: dict[tuple[str, int], type[PrivacyProfile]] = {}


class PrivacyProfile(Curve):
    """Base of the named profiles; subclasses are frozen dataclasses whose fields are the parameters.

    A field whose name is also that of a method carries a leading underscore; `parameters` drops it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1

    def __init_subclass__(cls) -> None:
        _REGISTRY[cls.name, cls.version] = cls

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of `delta`, which compositions charge."""
        return _PROFILE_RELATIVE_ERROR

    @property
    def neighbours(self) -> str | None:
        """The one kind of adjacency whose neighbours the profile speaks of; None: any."""
        return None

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name.lstrip("_"): getattr(self, name) for name in _field_names(type(self))}

    def reversed(self) -> PrivacyProfile:
        """The profile of Y from X; the profile itself where the pair is symmetric."""
        return self

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready name, version and parameters; floats survive JSON to the last bit."""
        stored = {key: _plain(value) for key, value in self.parameters.items()}
        return {"profile": self.name, "version": self.version, "parameters": stored}


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(one) for one in value]
    return value.to_dict() if hasattr(value, "to_dict") else value


def profile_from_dict(record: Mapping[str, Any]) -> PrivacyProfile:
    """The profile that `to_dict` described."""
    if not isinstance(record, Mapping) or set(record) != {"profile", "version", "parameters"}:
        raise FormatError("A stored profile has exactly the keys 'profile', 'version' and 'parameters'.")
    name, version, stored = record["profile"], record["version"], record["parameters"]
    kind = _REGISTRY.get((name, version)) if isinstance(name, str) and isinstance(version, int) else None
    if kind is None:
        known = ", ".join(f"{key} (version {number})" for key, number in sorted(_REGISTRY))
        raise FormatError(f"No profile {name!r} of version {version!r} here; this release of gaussveil knows {known}.")
    expected = {field.lstrip("_") for field in _field_names(kind)}
    if not isinstance(stored, Mapping) or set(stored) != expected:
        raise FormatError(f"The profile {name!r} needs exactly the parameters {sorted(expected)}.")
    return kind(**{key: _restored(value) for key, value in stored.items()})


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(one) for one in value)
    if not isinstance(value, Mapping):
        return value
    return profile_from_dict(value) if "profile" in value else PrivacyLoss.from_dict(dict(value))


def _field_names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


@dataclass(frozen=True, init=False)
class RandomisedResponse(PrivacyProfile):
    """Randomised response over `classes` answers: the truth is e^epsilon times as likely as each other answer.

    derived: docs/math. The loss is +epsilon or -epsilon on the two answers in question and 0 on the rest.
    """

    name: ClassVar[str] = "randomised-response"
    _epsilon: float
    classes: int

    def __init__(self, epsilon: float, classes: int = 2) -> None:
        _set(self, "_epsilon", _number("epsilon", epsilon, low=0.0, high=LARGEST_EPSILON))
        _set(self, "classes", _integer("classes", classes, low=2))

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy."""
        return self._epsilon

    def _divergence(self, epsilon: Floats) -> Any:
        others = (self.classes - 1) * np.exp(-self._epsilon)
        return -np.expm1(np.minimum(epsilon - self._epsilon, 0.0)) / (1.0 + others)


@dataclass(frozen=True)
class ResponseOrNoise(PrivacyProfile):
    """An answer that is one of `classes` at random with probability `noise`, else the truth, against one all at random.

    derived: docs/math. There are two losses: one on the true answer, one on all others; exchanged if `backward`.
    """

    name: ClassVar[str] = "response-or-noise"
    noise: float
    classes: int
    backward: bool = False

    def __post_init__(self) -> None:
        _set(self, "noise", _number("noise", self.noise, low=float(np.nextafter(0.0, 1.0)), high=1.0))
        _set(self, "classes", _integer("classes", self.classes, low=2))
        if not isinstance(self.backward, bool):
            raise ParameterError(f"'backward' must be True or False. Got {self.backward!r}.")

    @property
    def largest_loss(self) -> float:
        """The loss of the true answer or, seen from the other side, that of the others; rounded up."""
        found = -np.log(self.noise) if self.backward else np.log1p((self.classes - 1) * (1.0 - self.noise))
        return float(found) * (1.0 + 1e-15)

    def reversed(self) -> ResponseOrNoise:
        """The answer at random against the other."""
        return ResponseOrNoise(self.noise, self.classes, not self.backward)

    def _divergence(self, epsilon: Floats) -> Any:
        others = (self.classes - 1) / self.classes  # of all answers
        weight = others if self.backward else 1.0 - others * self.noise
        return -weight * np.expm1(np.minimum(epsilon - self.largest_loss, 0.0))


@dataclass(frozen=True)
class Laplace(PrivacyProfile):
    """Laplace noise of scale b on a value that moves by at most s in l1 norm, `shift_over_scale` = s/b.

    derived: docs/math. In one dimension delta = 1 - exp((epsilon - s/b)/2), the worst case of the l1 ball.
    """

    name: ClassVar[str] = "laplace"
    shift_over_scale: float

    def __post_init__(self) -> None:
        _set(
            self, "shift_over_scale", _number("shift_over_scale", self.shift_over_scale, low=0.0, high=LARGEST_EPSILON)
        )

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy."""
        return self.shift_over_scale

    def _divergence(self, epsilon: Floats) -> Any:
        return -np.expm1(np.minimum(epsilon - self.shift_over_scale, 0.0) / 2.0)


@dataclass(frozen=True)
class DiscreteLaplace(PrivacyProfile):
    """Integer noise with probabilities proportional to exp(-|i|/scale) on an integer that moves by `shift`.

    derived: docs/math. With r = exp(-1/scale) the loss is (shift - 2j)/scale with probability r^j (1-r)/(1+r) for
    0 < j < shift, and shift/scale with probability 1/(1+r); the sums over the losses above epsilon are geometric.
    """

    name: ClassVar[str] = "discrete-laplace"
    shift: int
    scale: float

    def __post_init__(self) -> None:
        _set(self, "shift", _integer("shift", self.shift, low=1))
        _set(self, "scale", _number("scale", self.scale, low=self.shift / LARGEST_EPSILON))

    @property
    def largest_loss(self) -> float:
        """The epsilon of pure differential privacy, rounded up."""
        return _rounded_up(Fraction(self.shift) / Fraction(self.scale))

    def _divergence(self, epsilon: Floats) -> Any:
        rate = 1.0 / self.scale
        inside = np.clip(np.ceil((self.shift - epsilon * self.scale) / 2.0) - 1.0, 0.0, None)
        outer = -np.expm1(np.minimum(epsilon - self.largest_loss, 0.0))
        # The geometric sums are arranged as products of nonnegative factors, so that nothing cancels.
        inner = np.exp(-rate) * -np.expm1(np.minimum(epsilon - (self.shift - inside - 1.0) / self.scale, 0.0))
        return (outer - np.expm1(-inside * rate) * inner) / (1.0 + np.exp(-rate))


@dataclass(frozen=True, init=False)
class ApproximatePoint(PrivacyProfile):
    """Any mechanism of which nothing but (epsilon, delta)-differential privacy is known, in both directions.

    Dominated by "reveal with probability delta, else randomised response" (Kairouz, Oh, Viswanath 2017).
    """

    name: ClassVar[str] = "approximate-dp"
    _epsilon: float
    _delta: float

    def __init__(self, epsilon: float, delta: float) -> None:
        _set(self, "_epsilon", _number("epsilon", epsilon, low=0.0, high=LARGEST_EPSILON))
        _set(self, "_delta", _number("delta", delta, low=0.0, high=1.0))

    @property
    def infinity(self) -> float:
        """The point's delta."""
        return self._delta

    @property
    def largest_loss(self) -> float:
        """The point's epsilon."""
        return self._epsilon

    def _divergence(self, epsilon: Floats) -> Any:
        response = -np.expm1(np.minimum(epsilon - self._epsilon, 0.0)) / (1.0 + np.exp(-self._epsilon))
        return self._delta + (1.0 - self._delta) * response


@dataclass(frozen=True)
class PoissonSubsampled(PrivacyProfile):
    """A mechanism run on rows that each take part independently with probability `rate`, add/remove adjacency.

    With (P, Q) the base's pair and q the rate, the pair is (qP + (1-q)Q, Q), exchanged if `backward` (Zhu, Dong, Wang
    2022, Theorem 11). Splitting positive parts gives it exactly from the base (derived: docs/math): for a = e^epsilon
    H_a(qP+(1-q)Q || Q) = q H_{(a-1+q)/q}(P||Q), and H_a(Q || qP+(1-q)Q) = c H_{aq/c}(Q||P) with c = 1 - a(1-q), or 0
    where c <= 0.
    """

    name: ClassVar[str] = "poisson-subsampled"
    neighbours: ClassVar[str | None] = "add-remove"
    base: Divergence
    rate: float
    backward: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.base, Divergence):
            raise InputError(f"'base' must be a privacy loss or profile. Got {type(self.base).__name__}.")
        if getattr(self.base, "neighbours", None) not in (None, self.neighbours):
            raise InputError("'base' must be a loss of added or removed records. Got one of replaced records.")
        _set(self, "rate", _number("rate", self.rate, low=1e-12, high=1.0))
        if not isinstance(self.backward, bool):
            raise ParameterError(f"'backward' must be True or False. Got {self.backward!r}.")

    @property
    def relative_error(self) -> float:
        """The base's error and that of the shifted epsilon."""
        return float(getattr(self.base, "relative_error", LOSS_RELATIVE_ERROR)) + _PROFILE_RELATIVE_ERROR

    @property
    def infinity(self) -> float:
        """The row must take part; seen from the other side its absence is always possible unless the rate is 1."""
        certain = self.base.reversed() if self.backward else self.base
        return 0.0 if self.backward and self.rate < 1.0 else self.rate * float(getattr(certain, "infinity", 0.0))

    @property
    def largest_loss(self) -> float:
        """The base's largest loss after amplification, rounded up."""
        base = self.base.reversed() if self.backward else self.base
        largest = float(getattr(base, "largest_loss", np.inf))
        if not self.backward:
            value = np.logaddexp(np.log1p(-self.rate), largest + np.log(self.rate)) if self.rate < 1.0 else largest
        else:
            kept = 0.0 if getattr(base, "infinity", 0.0) > 0.0 and self.rate < 1.0 else np.exp(-largest)
            value = -np.log1p(-self.rate * (1.0 - kept)) if self.rate < 1.0 else largest
        return float(value) * (1.0 + 1e-14) + 1e-15

    def reversed(self) -> PoissonSubsampled:
        """The other direction: a row is added instead of removed."""
        return PoissonSubsampled(self.base, self.rate, not self.backward)

    def _divergence(self, epsilon: Floats) -> Any:
        q, rest = self.rate, 1.0 - self.rate
        if not self.backward:
            return q * worst_delta(self.base, self.shifted(epsilon))
        weight = q - np.expm1(np.minimum(epsilon, 1.0 - np.log(rest) if rest > 0.0 else 0.0)) * rest
        weight = np.clip(weight + 8.0 * UNIT * q, 0.0, q)
        shifted = epsilon + np.log(q / np.where(weight > 0.0, weight, q))
        return weight * worst_delta(self.base.reversed(), shifted * (1.0 - 8.0 * UNIT))

    def shifted(self, epsilon: Floats | float) -> Floats:
        """log((a - 1 + q)/q); rounding may only lower it, which raises delta."""
        small = np.log1p(np.expm1(np.minimum(epsilon, 1.0)) / self.rate)
        large = epsilon - np.log(self.rate) + np.log1p((self.rate - 1.0) * np.exp(-np.maximum(epsilon, 0.5)))
        return np.asarray(np.where(epsilon < 1.0, small, large) * (1.0 - 8.0 * UNIT))


def _number(argument: str, value: Any, *, low: float, high: float = np.inf) -> float:
    array = float_array(argument, value)
    require_finite(argument, array)
    if array.ndim or not low <= array <= high:
        raise ParameterError(f"'{argument}' must be one number in [{low}, {high}]. Got {value!r}.")
    return float(array)


def _integer(argument: str, value: Any, *, low: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < low:
        raise ParameterError(f"'{argument}' must be an integer >= {low}. Got {value!r}.")
    return int(value)


def _rounded_up(value: Fraction) -> float:
    """The least double that is not below the value."""
    nearest = float(value)
    return nearest if nearest >= value else float(np.nextafter(nearest, np.inf))


def _set(profile: PrivacyProfile, field: str, value: Any) -> None:
    """Store a validated field of a frozen dataclass."""
    object.__setattr__(profile, field, value)
