"""What a release costs: privacy losses and named profiles, how many of each, and the sampler's error.

A charge never names a mechanism. Its parts compose with the parts of every other charge of the account; its sampler
error is the total variation between what is really drawn and the ideal law, over the whole release.

Losses add only where the releases are independent given the data. A query that is itself random may be answered once:
its charge carries the identity of the draw (`draw_identity`), and no account pays twice for one draw. Whoever wants k
answers to one draw charges once, for the pair of all k together.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from gaussveil import checks
from gaussveil.accounting.canonical import (
    canonical_json,
    digest,
    fields,
    number,
    parse_json,
    within_limits,
)
from gaussveil.errors import FormatError, InputError, ParameterError
from gaussveil.shown import Shown
from gaussveil.spectrum import PrivacyCurve, PrivacyLoss, composed
from gaussveil.spectrum.named_profile import profile_from_dict

LossOrProfile = PrivacyCurve  # what a charge is built from: a curve with a stored form
SMALLEST_RATIO = 1e-7
LARGEST_COUNT = 2**53  # beyond it a float no longer counts
COUNTS = f"[1, {LARGEST_COUNT}]"
_IDENTITY = re.compile("[0-9a-f]{64}")
_ONCE = "answers to one draw are not independent; charge them once, for the pair of all of them together"


@dataclass(frozen=True, eq=False)
class Part:
    """One loss or profile, repeated `count` times."""

    source: PrivacyCurve
    count: int

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values."""
        return {self.source.stored_as: self.source.to_dict(), "count": self.count}

    @classmethod
    def from_dict(cls, record: object) -> Part:
        """Inverse of `to_dict`."""
        stated = fields(record, "a part of a charge", ("count",))
        count = stated["count"]
        if (
            isinstance(count, bool)
            or not isinstance(count, int)
            or not 1 <= count <= LARGEST_COUNT
        ):
            raise FormatError(
                "a part of a charge needs a whole 'count' of at least 1 and at most 2^53"
            )
        try:
            if "gaussian" in stated:
                return cls(PrivacyLoss.from_dict(_mapping(stated["gaussian"])), count)
            if "profile" in stated:
                return cls(profile_from_dict(_mapping(stated["profile"])), count)
        except (InputError, KeyError, TypeError) as error:
            raise FormatError(
                f"a part of a charge could not be read: {error}"
            ) from error
        raise FormatError("a part of a charge must hold 'gaussian' or 'profile'")

    @property
    def edges(self) -> int | None:
        """Number of batch entries (label edges), None for a single loss or a profile."""
        if self.source.batch_shape:
            return math.prod(self.source.batch_shape)
        return None

    @property
    def multiplicity(self) -> float:
        """The most coordinates that share a variance gap; one for a profile."""
        return self.source.largest_multiplicity

    @property
    def mean_shift_energy(self) -> NDArray[np.float64] | None:
        """Squared length of the mean shift, per edge; None where variances differ or the part is a profile."""
        energy = self.source.mean_shift_energy
        if energy is None:
            return None
        return np.asarray(self.count * energy, dtype=np.float64)


class Charge(Shown):
    """The cost of one release; add charges with `+`, repeat one with `*`. Equal charges cost the same.

    `draw_identities` name the random quantities that the release is drawn from (see `draw_identity`); they are no part
    of the cost, nor of `digest`.
    """

    __slots__ = ("digest", "draw_identities", "parts", "sampler_error")

    parts: tuple[Part, ...]
    sampler_error: float
    draw_identities: tuple[str, ...]
    digest: str

    def __init__(
        self,
        source: PrivacyCurve,
        *,
        count: int = 1,
        sampler_error: float = 0.0,
        draw_identity: str | None = None,
    ) -> None:
        if not isinstance(source, PrivacyCurve) or not source.stored_as:
            raise ParameterError(
                f"source must be a PrivacyLoss or a PrivacyProfile. Got {type(source).__name__}."
            )
        count = checks.whole("count", count, COUNTS)
        # Of matrices an account keeps terms that dominate them; what is left out is paid like a sampler's error.
        source, left_out = source.dominating()
        if left_out:
            sampler_error = sampler_error + count * left_out * (1 + 2.0**-40)
        if source.smallest_variance < SMALLEST_RATIO:
            # The stored form keeps 1 - ratio, which would round such a ratio away.
            raise ParameterError(
                f"the variance of X must be at least {SMALLEST_RATIO:g} of that of Y to be accounted for. Got less. "
                "Such a pair offers no privacy in one of its directions."
            )
        if draw_identity is not None and count > 1:
            raise ParameterError(
                f"count must be 1 where draw_identity is given. Got {count}: {_ONCE}"
            )
        drawn = (draw_identity,) if draw_identity is not None else ()
        self._set((Part(source.copy(), count),), sampler_error, drawn)

    def _set(
        self, parts: tuple[Part, ...], sampler_error: float, drawn: tuple[str, ...]
    ) -> None:
        sampler_error = checks.real("sampler_error", sampler_error, "[0, inf)")
        if any(part.count * part.multiplicity > LARGEST_COUNT for part in parts):
            raise ParameterError(
                "count times multiplicity must be at most 2^53. Got more, which doubles cannot count."
            )
        batches = {part.source.batch_shape for part in parts} - {()}
        if len(batches) > 1 or any(len(shape) > 1 for shape in batches):
            raise ParameterError(
                f"all batched losses of a charge must share one axis of label edges. Got {batches}."
            )
        if not all(map(_is_identity, drawn)):
            raise ParameterError(
                "draw_identity must be a digest of 64 hexadecimal digits, as `draw_identity` gives it"
            )
        if len(set(drawn)) != len(drawn):
            raise ParameterError(f"charges of the same draw must not be added: {_ONCE}")
        for name, value in (
            ("parts", parts),
            ("sampler_error", sampler_error),
            ("draw_identities", tuple(sorted(drawn))),
        ):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "digest", digest(self.cost()))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"a Charge is immutable: cannot set {name}")

    def __reduce__(self) -> tuple[object, ...]:
        return Charge.from_json, (self.to_json(),)

    @classmethod
    def _from_parts(
        cls, parts: tuple[Part, ...], sampler_error: float, drawn: tuple[str, ...] = ()
    ) -> Charge:
        made = cls.__new__(cls)
        made._set(parts, sampler_error, drawn)
        return made

    def __add__(self, other: Charge) -> Charge:
        total = math.fsum((self.sampler_error, other.sampler_error))
        return Charge._from_parts(
            fold([*self.parts, *other.parts]),
            math.nextafter(total, math.inf) if total else 0.0,
            self.draw_identities + other.draw_identities,
        )

    def drawn_from(self, *identities: str) -> Charge:
        """The same cost, bound to the random quantities that the release is drawn from."""
        return self.redrawn(*self.draw_identities, *identities)

    def redrawn(self, *identities: str) -> Charge:
        """The same cost, bound to these random quantities instead."""
        return Charge._from_parts(self.parts, self.sampler_error, identities)

    def as_stored(self, *, upwards: bool = False) -> Charge:
        """The charge that is read back from what is written of this one, where squares of mean gaps are rounded.

        With `upwards` every square is the next larger number, so that none is less than it was before rounding.
        """
        parts = tuple(
            Part(part.source.as_stored(upwards=upwards), part.count)
            for part in self.parts
        )
        return Charge._from_parts(parts, self.sampler_error, self.draw_identities)

    def parts_for(self, relation: str) -> list[tuple[PrivacyCurve, int]]:
        """What an accountant adds up for it; refused where only an account can tell what it was drawn from."""
        if self.sampler_error or self.draw_identities:
            raise ParameterError(
                "charges must name no draw and no sampler error here: charge them to an account."
            )
        return [
            (curve, uses * part.count)
            for part in self.parts
            for curve, uses in part.source.parts_for(relation)
        ]

    def __mul__(self, count: int) -> Charge:
        count = checks.whole("count", count, COUNTS)
        if self.draw_identities and count > 1:
            raise ParameterError(
                f"a charge that carries a draw_identity must not be repeated: {_ONCE}"
            )
        total = self.sampler_error * count
        repeated = tuple(Part(part.source, part.count * count) for part in self.parts)
        return Charge._from_parts(
            repeated,
            math.nextafter(total, math.inf) if total else 0.0,
            self.draw_identities,
        )

    __rmul__ = __pow__ = __mul__  # as losses are repeated

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Charge) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)

    def _curve(self) -> Any:
        return composed([(part.source, part.count) for part in self.parts])

    def _facts(self) -> dict[str, str]:
        return {"of": self.describe()}

    @property
    def edges(self) -> int | None:
        """Number of label edges that the losses carry, None if they carry none."""
        return next((part.edges for part in self.parts if part.edges is not None), None)

    @property
    def mean_shift_energy(self) -> NDArray[np.float64] | None:
        """Squared mean shift of the whole charge per edge; None unless every part is a mean shift."""
        energies = [part.mean_shift_energy for part in self.parts]
        total = np.zeros(())
        for energy in energies:
            if energy is None:
                return None
            total = total + energy
        return total

    def require_unchanged(self) -> None:
        """Raise unless the digest still is that of the parts: what is debited must be what was built and checked."""
        if digest(self.cost()) != self.digest:
            raise ParameterError(
                f"the charge {self.digest[:12]} was altered after it was built; build it again from its losses"
            )

    def covers(self, other: Charge) -> bool:
        """Whether `other` is the same charge or a post-processing of it: equal, or a shorter mean shift.

        A shorter mean shift is the longer one plus independent noise, so it may take the longer one's place in a plan.
        """
        if self.digest == other.digest:
            return True
        mine = self.mean_shift_energy
        its = other.mean_shift_energy
        if mine is None or its is None or other.sampler_error > self.sampler_error:
            return False
        if mine.shape not in ((), its.shape):
            return False
        return bool(np.all(its <= mine))

    def describe(self) -> str:
        """Name the parts in one line."""
        words = []
        for part in self.parts:
            name = part.source.kind
            name += f" on {part.edges} label edges" if part.edges is not None else ""
            words.append(f"{name} x {part.count}" if part.count > 1 else name)
        words += (
            [f"sampler error {self.sampler_error:.3g}"] if self.sampler_error else []
        )
        return ", ".join(words)

    def cost(self) -> dict[str, object]:
        """Plain JSON values of what it costs, whatever it was drawn from: the part that `digest` covers."""
        return {
            "parts": [part.to_dict() for part in self.parts],
            "sampler_error": self.sampler_error,
        }

    def to_dict(self) -> dict[str, object]:
        """Give plain JSON values; floats survive exactly."""
        return self.cost() | (
            {"draw_identities": list(self.draw_identities)}
            if self.draw_identities
            else {}
        )

    def to_json(self) -> str:
        """Give the canonical JSON text."""
        return canonical_json(self.to_dict())

    @classmethod
    def from_dict(cls, record: object) -> Charge:
        """Inverse of `to_dict`."""
        stated = fields(
            within_limits(record, "a charge"), "a charge", ("parts", "sampler_error")
        )
        listed = stated["parts"]
        if not isinstance(listed, list) or not listed:
            raise FormatError("a charge needs a list of at least one part")
        parts = tuple(Part.from_dict(item) for item in listed)
        drawn = stated.get("draw_identities", [])
        if not isinstance(drawn, list):
            raise FormatError("a charge needs 'draw_identities' as a list, or none")
        try:
            return cls._from_parts(
                parts, number(stated, "sampler_error", "a charge"), tuple(drawn)
            )
        except ParameterError as error:
            raise FormatError(f"not a charge of this version: {error}") from error

    @classmethod
    def from_json(cls, body: str) -> Charge:
        """Inverse of `to_json`."""
        return cls.from_dict(parse_json(body, "a charge"))


def fold(parts: list[Part]) -> tuple[Part, ...]:
    """Merge identical parts by adding their counts."""
    if len(parts) == 1:
        return (parts[0],)
    merged: dict[str, Part] = {}
    for part in parts:
        key = digest(Part(part.source, 1).to_dict())
        before = merged.get(key)
        merged[key] = (
            part if before is None else Part(part.source, before.count + part.count)
        )
    return tuple(merged.values())


def _mapping(record: object) -> dict[str, object]:
    if not isinstance(record, Mapping):
        raise FormatError(
            f"a loss or profile must be a JSON object. Got {type(record).__name__}."
        )
    return dict(record)


def _is_identity(name: object) -> bool:
    return isinstance(name, str) and _IDENTITY.fullmatch(name) is not None
