"""A claimed (epsilon, delta) and what contradicts it."""

from __future__ import annotations

import math
from dataclasses import dataclass

from gaussveil.errors import ParameterError


@dataclass(frozen=True)
class Claim:
    """(epsilon, delta)-differential privacy, as somebody claims it."""

    epsilon: float
    delta: float

    @classmethod
    def of(cls, claim: tuple[float, float]) -> Claim:
        """A claim from a pair of numbers, checked."""
        try:
            epsilon, delta = (float(part) for part in claim)
        except (TypeError, ValueError):
            raise ParameterError(f"'claim' must be a pair (epsilon, delta). Got {claim!r}.") from None
        if not 0.0 <= epsilon < math.inf or not 0.0 <= delta <= 1.0:
            raise ParameterError(f"'claim' needs a finite epsilon >= 0 and a delta in [0, 1]. Got {claim!r}.")
        return cls(epsilon, delta)

    def is_exceeded(self, lower: float, log_lower: float, allowance: float = 0.0) -> bool:
        """Whether a lower end of delta, by itself or by its logarithm, lies above the claim by the allowance."""
        if self.delta == 0.0:
            return log_lower > -math.inf
        return lower > self.delta * (1.0 + allowance)

    def covers(self, upper: float) -> bool:
        """Whether an upper end of delta lies within the claim."""
        return upper <= self.delta
