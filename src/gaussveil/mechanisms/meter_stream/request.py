"""What a private stream is asked to be: what it hides, for which purpose, within which limits."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gaussveil import (
    checks,
)  # loaded where it is used: a gateway designs nothing
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.meter_stream import filter_shapes
from gaussveil.mechanisms.release_path import Promise
from gaussveil.timeseries.clock import hours

PURPOSES = ("shape", "energy", "billing", "registers", "spectrum")
SIZES = "[1e-60, 1e60]"  # kW of what is hidden; squares of other numbers are none
ALONE = ("day", "month")


@dataclass(frozen=True, kw_only=True)
class HiddenChange:
    """What is hidden: one event of at most `samples` consecutive readings, each moved by at most `size` kW, or any
    change of at most `l2_ball` kW in l2 norm over the whole stream."""

    size: float = 0.0
    samples: int = 0
    l2_ball: float = 0.0

    @classmethod
    def of(
        cls,
        event: tuple[float, float | str] | None,
        l2_ball: float | None,
        period: float,
    ) -> HiddenChange:
        """From what the caller says: (kW, duration) of an event, or a radius in kW."""
        if (event is None) == (l2_ball is None):
            raise ParameterError(
                "give exactly one of event, (kW, duration), and l2_ball, kW: what the stream hides."
            )
        if event is None:
            return cls(l2_ball=checks.real("l2_ball", l2_ball, SIZES))
        if not isinstance(event, tuple | list) or len(event) != 2:
            raise ParameterError(
                'event must be a pair (kW, duration) such as (0.5, "1h").'
            )
        size = checks.real("event's size", event[0], SIZES)
        length = hours("event's duration", event[1])
        return cls(size=size, samples=math.ceil(length / period * (1 - 1e-9)))

    @property
    def is_event(self) -> bool:
        """Whether an event is hidden, not a ball."""
        return self.samples > 0


@dataclass(frozen=True, kw_only=True)
class StreamRequest:
    """What a stream is asked to be. Whatever no private spectrum could make good is refused before one is paid for."""

    purpose: str
    sample_period: float
    promise: Promise
    hidden: HiddenChange
    sample_limit: int
    limits: tuple[float, float] = (-100.0, 100.0)
    substitute: float = 0.0
    balance: tuple[float, float] | None = None
    reduction: tuple[float, float] = filter_shapes.REDUCTION
    registers: Sequence[str] | Mapping[str, float] = ALONE

    def __post_init__(self) -> None:
        checks.one_of("purpose", self.purpose, PURPOSES)
        if not self.hidden.is_event and self.purpose in ("energy", "billing"):
            raise ParameterError(
                f'purpose {self.purpose!r} needs an event to hide: for an l2 ball white noise, "shape", is optimal.'
            )
        checks.whole("sample_limit", self.sample_limit)
        if self.purpose == "registers":
            longest = self.sample_limit
        else:
            longest = 4096
        checks.whole(
            "the event's number of samples", self.hidden.samples, f"[0, {longest}]"
        )
        low, high = self.limits
        if not (
            math.isfinite(low)
            and math.isfinite(high)
            and low < high
            and low <= self.substitute <= high
        ):
            raise ParameterError(
                "limits must be finite and increasing, with the substitute between them. "
                f"Got {self.limits} and {self.substitute}."
            )
        if self.purpose == "spectrum":
            filter_shapes.low_pass(*self.reduction)
