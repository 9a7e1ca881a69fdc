"""A claim, and binomial tests of P(E) <= e^epsilon Q(E) + delta: Clopper-Pearson ends, draws of a refutation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import betainccinv, betaincinv

from gaussveil import checks
from gaussveil.errors import ParameterError
from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.turns import first_whole
from gaussveil.typing import Floats

MOST_DRAWS = 2**53
GRID = 200


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
            raise ParameterError(
                f"'claim' must be a pair (epsilon, delta). Got {claim!r}."
            ) from None
        if not 0.0 <= epsilon < math.inf or not 0.0 <= delta <= 1.0:
            raise ParameterError(
                f"'claim' needs a finite epsilon >= 0 and a delta in [0, 1]. Got {claim!r}."
            )
        return cls(epsilon, delta)

    def is_exceeded(
        self, lower: float, log_lower: float, allowance: float = 0.0
    ) -> bool:
        """Whether a lower end of delta, by itself or by its logarithm, lies above the claim by the allowance."""
        if self.delta == 0.0:
            return log_lower > -math.inf
        return lower > self.delta * (1.0 + allowance)

    def covers(self, upper: float) -> bool:
        """Whether an upper end of delta lies within the claim."""
        return upper <= self.delta


def lower_end(hits: Any, trials: Any, level: float) -> Floats:
    """Clopper-Pearson lower end of a probability: exceeds the truth with probability at most `level`."""
    hits = np.asarray(hits, dtype=np.float64)
    trials = np.asarray(trials, dtype=np.float64)
    inner = betaincinv(np.maximum(hits, 1.0), trials - hits + 1.0, level)
    return np.asarray(np.where(hits > 0, inner, 0.0))


def upper_end(hits: Any, trials: Any, level: float) -> Floats:
    """Clopper-Pearson upper end of a probability: below the truth with probability at most `level`."""
    hits = np.asarray(hits, dtype=np.float64)
    trials = np.asarray(trials, dtype=np.float64)
    inner = betainccinv(hits + 1.0, np.maximum(trials - hits, 1.0), level)
    return np.asarray(np.where(hits < trials, inner, 1.0))


def delta_lower(
    hits: Any, false_hits: Any, trials: Any, epsilon: float, level: float
) -> Floats:
    """Lower end of P(E) - e^epsilon Q(E) from hits on both inputs; too high with probability at most `level`."""
    growth = math.exp(min(epsilon, 700.0))
    difference = lower_end(hits, trials, level / 2) - growth * upper_end(
        false_hits, trials, level / 2
    )
    return np.asarray(np.maximum(difference, 0.0))


def refutes_surely(
    hit_rate: Any,
    false_rate: Any,
    trials: int,
    claim: Claim,
    *,
    power: float,
    level: float,
) -> NDArray[np.bool_]:
    """Whether `trials` draws on each input refute the claim with at least the given power, at these true rates.

    Hits fall below `few` or false hits rise above `many` with probability at most 1 - power in all.
    """
    from scipy.stats import (
        binom,
    )  # a second to import, which whoever reads a claim does not need

    missed = (1.0 - power) / 2.0
    few = binom.ppf(missed, trials, hit_rate)
    many = binom.ppf(1.0 - missed, trials, false_rate)
    return np.asarray(
        delta_lower(few, many, trials, claim.epsilon, level) > claim.delta
    )


def draws_needed(
    loss: PrivacyLoss,
    *,
    claim: tuple[float, float],
    power: float = 0.99,
    confidence: float = 1.0 - 1e-6,
    pilot: float = 0.25,
) -> int:
    """Draws on each input after which a black-box audit of this pair refutes the claim with the given power.

    Assumes the likelihood-ratio test and the best threshold; a learned test needs more. The pilot share, on which the
    event is chosen, is included.
    """
    claimed = Claim.of(claim)
    checks.real("power", power, "(0, 1)")
    checks.real("confidence", confidence, "(0, 1)")
    checks.real("pilot", pilot, "(0, 1)")
    if loss.batch_shape:
        raise ParameterError(
            f"'loss' must be a single pair. Got a batch of shape {loss.batch_shape}."
        )
    true_delta = float(loss.dp_delta(claimed.epsilon))
    if true_delta <= claimed.delta:
        raise ParameterError(
            f"no number of draws refutes a claim that holds: delta({claimed.epsilon:g}) is {true_delta:.6g}, "
            f"claimed {claimed.delta:.6g}"
        )
    level = (1.0 - confidence) / 2.0
    rates = [
        _rates(direction, claimed.epsilon) for direction in (loss, loss.reversed())
    ]
    hit_rate, false_rate = (np.concatenate(column) for column in zip(*rates))

    def enough(trials: int) -> bool:
        return bool(
            np.any(
                refutes_surely(
                    hit_rate, false_rate, trials, claimed, power=power, level=level
                )
            )
        )

    draws = first_whole(enough, MOST_DRAWS, share=1000)
    if draws is None:
        raise ParameterError(
            "more than 2^53 draws would be needed; audit this claim by its pair, not by samples"
        )
    return math.ceil(draws / (1.0 - pilot))


def _rates(loss: PrivacyLoss, epsilon: float) -> tuple[Floats, Floats]:
    """Pr_X and Pr_Y of {L > t} for thresholds t from epsilon on: Pr_Y = e^-t (Pr_X - delta(t))."""
    end = max(float(loss.epsilon(1e-12)), epsilon) + 1.0
    thresholds = epsilon + (end - epsilon) * np.linspace(0.0, 1.0, GRID) ** 2
    hits = np.clip(np.asarray(loss.loss_tail(thresholds)), 0.0, 1.0)
    false_hits = np.exp(-thresholds) * np.maximum(
        hits - np.asarray(loss.delta(thresholds)), 1e-12 * hits
    )
    return hits, np.clip(false_hits, 0.0, 1.0)
