"""`PrivacyProfile`: the base of named privacy profiles, how they are stored, and how their parameters are checked."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cached_property, lru_cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from gaussveil.errors import FormatError, ParameterError
from gaussveil.spectrum.arguments import epsilon_array, float_array, require_finite
from gaussveil.spectrum.chords import Chords, chords_of
from gaussveil.spectrum.constants import BALL_BITS
from gaussveil.spectrum.enclosures.interval import ZERO, Enclosure, from_scaled, stacked
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.privacy_curve import PrivacyCurve

if TYPE_CHECKING:
    from flint import arb

PROFILE_RELATIVE_ERROR = 1e-13
_HOMES = (  # modules that define stored profiles; they are loaded where a name is not known yet
    "profiles",
    "mixtures",
    "renyi_bounds",
    "envelope",
    "laws.mechanisms",
    "laws.pair_law",
    "subsampled.allocation",
    "subsampled.bins",
    "subsampled.fixed_size",
    "subsampled.profile",
)
_REGISTRY: dict[tuple[str, int], type[PrivacyProfile]] = {}


class PrivacyProfile(PrivacyCurve):
    """Base of the named profiles; subclasses are frozen dataclasses whose fields are the parameters.

    A field whose name is also that of a method carries a leading underscore; `parameters` drops it.
    """

    name: ClassVar[str]
    version: ClassVar[int] = 1
    stored_as: ClassVar[str] = "profile"

    def __init_subclass__(cls) -> None:
        if "name" in vars(cls):  # others are bases, or never stored
            _REGISTRY[cls.name, cls.version] = cls

    @property
    def relative_error(self) -> float:
        """Bound on the relative error of `delta`, which compositions charge."""
        return PROFILE_RELATIVE_ERROR

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters by name."""
        return {
            name.lstrip("_"): getattr(self, name) for name in _field_names(type(self))
        }

    def reversed(self) -> PrivacyProfile:
        """The profile of Y from X; the profile itself where the pair is symmetric."""
        return self

    @property
    def symmetric(self) -> bool:
        """Whether exchanging X and Y changes nothing."""
        return self.reversed().to_dict() == self.to_dict()

    @property
    def kind(self) -> str:
        """The profile's name."""
        return f"profile {self.name}"

    def fold_key(self) -> object:
        """Its stored form."""
        return self.to_dict()

    @cached_property
    def chord_nodes(self) -> Chords:
        """Nodes and upper ends of delta there; equal profiles share them."""
        return _chord_nodes(json.dumps(self.to_dict(), sort_keys=True))

    def enclose(self, epsilon: ArrayLike) -> Enclosure:
        """Ends of delta(epsilon): proven for a closed form in balls, in doubles elsewhere."""
        levels = epsilon_array(epsilon, np.zeros(()))
        places = [self._enclose_at(float(level)) for level in np.ravel(levels)]
        if None in places:
            return super().enclose(epsilon)
        return stacked([place for place in places if place is not None], levels.shape)

    def _enclose_at(self, epsilon: float) -> Enclosure | None:
        from flint import arb, ctx

        from gaussveil.spectrum.enclosures.enclosure import precision_lock

        if epsilon >= self.largest_loss and self.infinity == 0.0:
            return ZERO
        with precision_lock(), ctx.workprec(BALL_BITS):
            ball = self._in_balls(arb(epsilon))
            if ball is not None:
                return from_scaled(ball, arb(0))
            return None

    def _in_balls(self, epsilon: arb) -> arb | None:
        """Delta at an epsilon, a double, in ball arithmetic; None without a closed form."""
        return None

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready name, version and parameters; floats survive JSON to the last bit."""
        stored = {key: _plain(value) for key, value in self.parameters.items()}
        return {"profile": self.name, "version": self.version, "parameters": stored}


@lru_cache(maxsize=256)
def _chord_nodes(stored: str) -> Chords:
    return chords_of(profile_from_dict(json.loads(stored)))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_plain(entry) for entry in value]
    if hasattr(value, "to_dict"):
        return value.to_dict()
    return value


def profile_from_dict(record: Mapping[str, Any]) -> PrivacyProfile:
    """The profile that `to_dict` described."""
    if not isinstance(record, Mapping) or set(record) != {
        "profile",
        "version",
        "parameters",
    }:
        raise FormatError(
            "A stored profile has exactly the keys 'profile', 'version' and 'parameters'."
        )
    name = record["profile"]
    version = record["version"]
    stored = record["parameters"]
    kind = _kind_of(name, version)
    if kind is None:
        kinds = ", ".join(
            f"{key} (version {number})" for key, number in sorted(_REGISTRY)
        )
        raise FormatError(
            f"No profile {name!r} of version {version!r} here; this release of gaussveil knows {kinds}."
        )
    expected = {field.lstrip("_") for field in _field_names(kind)}
    if not isinstance(stored, Mapping) or set(stored) != expected:
        raise FormatError(
            f"The profile {name!r} needs exactly the parameters {sorted(expected)}."
        )
    return kind(**{key: _restored(value) for key, value in stored.items()})


def _kind_of(name: object, version: object) -> type[PrivacyProfile] | None:
    if not (isinstance(name, str) and type(version) is int):
        return None
    if (name, version) not in _REGISTRY:
        for home in _HOMES:
            import_module(f"gaussveil.spectrum.{home}")
    return _REGISTRY.get((name, version))


def _restored(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(_restored(entry) for entry in value)
    if not isinstance(value, Mapping):
        return value
    if "profile" in value:
        return profile_from_dict(value)
    return PrivacyLoss.from_dict(dict(value))


def _field_names(kind: Any) -> list[str]:
    return [field.name for field in fields(kind)]


def number(argument: str, value: Any, *, low: float, high: float = np.inf) -> float:
    """One finite number of a range, or a refusal."""
    array = float_array(argument, value)
    require_finite(argument, array)
    if array.ndim or not low <= array <= high:
        raise ParameterError(
            f"'{argument}' must be one number in [{low}, {high}]. Got {value!r}."
        )
    return float(array)


def integer(argument: str, value: Any, *, low: int) -> int:
    """A whole number of at least `low`, or a refusal."""
    if (
        isinstance(value, bool)
        or not isinstance(value, int | np.integer)
        or value < low
    ):
        raise ParameterError(
            f"'{argument}' must be an integer >= {low}. Got {value!r}."
        )
    return int(value)


def store(profile: PrivacyProfile, field: str, value: Any) -> None:
    """Store a validated field of a frozen dataclass."""
    object.__setattr__(profile, field, value)
