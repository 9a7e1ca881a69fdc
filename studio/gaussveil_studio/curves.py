"""What Explore draws: exact curves of a pair, the Renyi bound beside them, the trade-off curve. Formulas live below."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
from pydantic import BaseModel, Field, model_validator

from gaussveil import RenyiBound
from gaussveil.spectrum import GaussianPair, PrivacyLoss
from gaussveil_studio.offers.orders import Asked
from gaussveil_studio.sliders import LARGEST_RATIO, LARGEST_SHIFT, MOST_COORDINATES

SMALLEST_DRAWN_DELTA = 1e-10

Ratio = Annotated[float, Field(ge=1.0 / LARGEST_RATIO, le=LARGEST_RATIO)]
Shift = Annotated[float, Field(ge=-LARGEST_SHIFT, le=LARGEST_SHIFT)]


class PairState(Asked):
    """A pair of Gaussians, coordinate by coordinate: X_i ~ N(mean_shift_i, variance_ratio_i), Y_i ~ N(0, 1)."""

    variance_ratio: list[Ratio] = Field(
        min_length=1,
        max_length=MOST_COORDINATES,
        description="Variance of X over variance of Y, each coordinate.",
    )
    mean_shift: list[Shift] = Field(
        min_length=1,
        max_length=MOST_COORDINATES,
        description="Mean of X in deviations of Y, each coordinate.",
    )
    times: int = Field(
        default=1,
        ge=1,
        le=100_000,
        description="How often the pair is composed with itself.",
    )

    @model_validator(mode="after")
    def _same_length(self) -> PairState:
        if len(self.variance_ratio) != len(self.mean_shift):
            raise ValueError("variance_ratio and mean_shift must have the same length")
        return self

    def loss(self) -> PrivacyLoss:
        """The composed loss."""
        pair = GaussianPair.from_reduced(
            1.0 - np.array(self.variance_ratio), np.array(self.mean_shift)
        )
        if self.times == 1:
            return pair
        return pair**self.times


class CurveRequest(PairState):
    """Where to evaluate delta(epsilon)."""

    epsilon_max: float | None = Field(
        default=None,
        gt=0,
        le=1e5,
        description="Right end; by default where the Renyi bound reaches 1e-10.",
    )
    points: int = Field(default=61, ge=2, le=401)


class SummaryRequest(PairState):
    """At which delta to read epsilon off."""

    delta: float = Field(default=1e-6, ge=1e-12, lt=1)
    points: int = Field(default=61, ge=2, le=401)


class EnclosureRequest(PairState):
    """Where to enclose delta rigorously."""

    epsilon: float = Field(ge=0, le=1e4)


class Curve(BaseModel):
    """delta(epsilon) in both directions and the Renyi bound of the worse one."""

    epsilon: list[float]
    delta_x_y: list[float]
    delta_y_x: list[float]
    renyi: list[float]


class Tradeoff(BaseModel):
    """Smallest type II error of any test at each type I error, in both directions (f-DP; one minus the ROC curve)."""

    type_one: list[float]
    x_y: list[float]
    y_x: list[float]


class Summary(BaseModel):
    """Epsilon at one delta, rounded to the private side; null where it is unbounded. And the trade-off curve."""

    delta: float
    epsilon: float | None
    epsilon_x_y: float | None
    epsilon_y_x: float | None
    renyi_epsilon: float | None
    tradeoff: Tradeoff


class Ends(BaseModel):
    """Rigorous ends of delta in both directions and of the worse one."""

    epsilon: float
    lower: float
    upper: float
    x_y: tuple[float, float]
    y_x: tuple[float, float]


def curve(
    loss: PrivacyLoss, points: int, epsilon_max: float | None = None
) -> dict[str, Any]:
    """Evaluate both directions on equally spaced epsilons."""
    if epsilon_max is not None:
        right = epsilon_max
    else:
        right = _right_end(loss)
    epsilons = np.linspace(0.0, right, points)
    columns = [loss.to_dict(), loss.reversed().to_dict()]
    both = PrivacyLoss.from_terms(
        *([one[name] for one in columns] for name in columns[0])
    )  # as one batch: quicker
    deltas = np.asarray(both.delta(epsilons[:, None]))
    bound = RenyiBound.customary(loss)
    return {
        "epsilon": epsilons.tolist(),
        "delta_x_y": deltas[:, 0].tolist(),
        "delta_y_x": deltas[:, 1].tolist(),
        "renyi": np.asarray(bound.delta(epsilons)).tolist(),
    }


def _right_end(loss: PrivacyLoss) -> float:
    # The bound takes milliseconds whatever the loss is, and is no smaller than the exact epsilon.
    bound = float(RenyiBound.customary(loss).epsilon(SMALLEST_DRAWN_DELTA))
    if 0.0 < bound < 1e4:
        exact_range = bound
    else:
        exact_range = float(loss.dp_epsilon(SMALLEST_DRAWN_DELTA))
    if 0.0 < exact_range < float("inf"):
        return exact_range
    return 1.0


def summary(loss: PrivacyLoss, delta: float, points: int) -> dict[str, Any]:
    """Epsilon at delta, and the trade-off curve; what takes longer than a slider may."""
    # Denser near both ends, where the curve bends.
    type_one = (1.0 - np.cos(np.linspace(0.0, np.pi, points))) / 2.0
    backward = loss.reversed()
    forward_epsilon = float(loss.epsilon(delta))
    backward_epsilon = float(backward.epsilon(delta))
    return {
        "delta": delta,
        "epsilon": max(forward_epsilon, backward_epsilon),
        "epsilon_x_y": forward_epsilon,
        "epsilon_y_x": backward_epsilon,
        "renyi_epsilon": float(RenyiBound.customary(loss).epsilon(delta)),
        "tradeoff": {
            "type_one": type_one.tolist(),
            "x_y": np.asarray(loss.tradeoff(type_one)).tolist(),
            "y_x": np.asarray(backward.tradeoff(type_one)).tolist(),
        },
    }


def enclosure(loss: PrivacyLoss, epsilon: float) -> dict[str, Any]:
    """Rigorous ends of delta by ball arithmetic."""
    both = [
        (float(found.lower), float(found.upper))
        for found in (loss.enclose(epsilon), loss.reversed().enclose(epsilon))
    ]
    return {
        "epsilon": epsilon,
        "lower": max(lower for lower, _ in both),
        "upper": max(upper for _, upper in both),
        "x_y": both[0],
        "y_x": both[1],
    }
