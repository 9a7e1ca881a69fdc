"""Composition of privacy profiles: pessimistic privacy-loss distributions on a grid; all values are upper ends.

Chords of H(a) = delta(log a) between grid points are the divergence of a discrete pair that dominates (connect the
dots: Doroshenko, Ghazi, Kamath, Kumar, Manurangsi 2022). Gaussian parts are composed exactly, then discretised, once.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gaussveil.errors import InputError, NumericalError, ParameterError, ShapeError
from gaussveil.spectrum.constants import LARGEST_EPSILON, ULP
from gaussveil.spectrum.curve import SKETCH_NODES
from gaussveil.spectrum.discrete.masses import LossCurve, LossMasses, chord_masses
from gaussveil.spectrum.discrete.tilted_convolution import (
    ConvolutionPlan,
    CountedMasses,
    convolved,
)
from gaussveil.spectrum.pair_composition import compose
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.typing import Floats

_CONTOUR_WORK = 20_000  # terms times nodes that a contour integral is asked for


@dataclass(frozen=True, eq=False)
class DiscreteLoss(PrivacyCurve):
    """A pessimistic privacy loss in both orientations: upper ends; below `infinity` no delta can be certified."""

    forward: LossCurve
    backward: LossCurve

    @property
    def interval(self) -> float:
        """Width of the grid."""
        return self.forward.interval

    @property
    def infinity(self) -> float:
        """Probability charged to an infinite loss: the floor of `delta`."""
        return self.forward.infinity

    @property
    def largest_loss(self) -> float:
        """Highest node of the grid."""
        return self.forward.last * self.interval

    def reversed(self) -> DiscreteLoss:
        """The divergence of Y from X."""
        return DiscreteLoss(self.backward, self.forward)

    def _divergence(self, epsilon: Floats) -> Any:
        return self.forward.delta(epsilon)


def compose_pessimistic(
    items: Sequence[PrivacyCurve],
    counts: Sequence[int] | None = None,
    *,
    interval: float = 1e-4,
    tail_mass: float = 1e-40,
    max_bins: int = 2**21,
) -> DiscreteLoss:
    """Upper ends of the privacy curve of all `items` together, item i being used `counts[i]` times, once by default.

    Items are losses and profiles in the same orientation; of a batch the worst at each epsilon is composed. The grid of
    `interval` is taken finer where losses are small, coarser where `max_bins` do not suffice. Losses of probability
    `tail_mass` may be counted as infinite; no smaller delta can be certified.
    """
    _require_within("interval", interval, 1e-9, 1.0)
    _require_within("tail_mass", tail_mass, 1e-250, 0.1)
    _require_within("max_bins", max_bins, 2**12, 2**26)
    factors = _folded(items, counts)
    uses = sum(count for _, count in factors)
    spans = [_spans(pair, tail_mass / uses) for pair, _ in factors]
    share = _CONTOUR_WORK / max(1.0, len(factors) / 8)  # many parts share the work
    sketch = [
        (_discretised(pair, max(*span, 1e-9) / SKETCH_NODES, span, share), n)
        for (pair, n), span in zip(factors, spans)
    ]
    plans = [ConvolutionPlan.of(side, tail_mass) for side in _orientations(sketch)]
    width = max(
        [plan.top - plan.bottom for plan in plans] + [sum(span) for span in spans]
    )
    grid = _aligned(
        max(_fine(interval, spans, factors), width / max_bins),
        [pair for pair, _ in factors],
    )
    losses = [
        (_discretised(pair, grid, span, share), count)
        for (pair, count), span in zip(factors, spans)
    ]
    if uses == 1:
        (forward_masses, backward_masses), _ = losses[0]
        return DiscreteLoss(forward_masses.curve, backward_masses.curve)
    forwards, backwards = _orientations(losses)
    forward = convolved(forwards, plans[0])
    symmetric = all(pair.symmetric for pair, _ in factors)
    return DiscreteLoss(
        forward, forward if symmetric else convolved(backwards, plans[1])
    )


def _orientations(
    losses: list[tuple[tuple[LossMasses, LossMasses], int]],
) -> tuple[CountedMasses, CountedMasses]:
    return [(pair[0], count) for pair, count in losses], [
        (pair[1], count) for pair, count in losses
    ]


def _require_within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise ParameterError(f"'{name}' must lie in [{low}, {high}]. Got {value!r}.")


def _folded(
    items: Sequence[PrivacyCurve], counts: Sequence[int] | None
) -> list[tuple[PrivacyCurve, int]]:
    """All Gaussian losses as one, equal profiles once, in an order of their own so that the caller's cannot matter."""
    gaussian: list[Any] = []
    folded: dict[str, tuple[PrivacyCurve, int]] = {}
    for item, count in _checked_uses(list(items), counts):
        factors = item.factors()
        if factors is not None and not (factors.steps or factors.laws):
            gaussian += [loss ** (uses * count) for loss, uses in factors.gaussians]
            continue
        key = json.dumps(item.fold_key(), sort_keys=True)
        folded[key] = (item, folded.get(key, (item, 0))[1] + count)
    together: list[tuple[PrivacyCurve, int]] = []
    if gaussian:
        together = [(compose(*gaussian), 1)]
    return together + [folded[key] for key in sorted(folded)]


def _checked_uses(
    items: Sequence[PrivacyCurve], counts: Sequence[int] | None
) -> Iterator[tuple[PrivacyCurve, int]]:
    """Each curve with how often it is used."""
    if not items:
        raise InputError(
            "'items' must hold at least one privacy loss or profile. Got none."
        )
    uses = [1] * len(items) if counts is None else list(counts)
    if len(uses) != len(items):
        raise ShapeError(
            f"'counts' must hold one number per item. Got {len(uses)} counts for {len(items)} items."
        )
    for item, count in zip(items, uses):
        if not isinstance(item, PrivacyCurve):
            raise InputError(
                f"'items' must be privacy losses or profiles. Got {type(item).__name__}."
            )
        whole = isinstance(count, int | np.integer) and not isinstance(count, bool)
        if not whole or count < 1:
            raise ParameterError(f"'counts' must be integers >= 1. Got {count!r}.")
        yield item, int(count)


def _fine(
    interval: float,
    spans: list[tuple[float, float]],
    parts: list[tuple[PrivacyCurve, int]],
) -> float:
    """The interval, halved until the variance that the chords add (at most span * interval per use) is negligible."""
    reach = [(max(span), count) for span, (_, count) in zip(spans, parts)]
    scale = sum(count * span**2 for span, count in reach) / 64.0**2
    while (
        interval > 1e-12
        and sum(count * interval * min(interval, span) for span, count in reach) > scale
    ):
        interval /= 2.0
    return interval


def _aligned(interval: float, pairs: Sequence[PrivacyCurve]) -> float:
    """An interval from the given one to its double that divides the smallest bounded loss, where there is one.

    Laws with atoms at their largest loss (randomised response, Laplace) are then composed with hardly any loss.
    """
    bounds = [side.largest_loss for pair in pairs for side in (pair, pair.reversed())]
    atom = min(
        (bound for bound in bounds if interval <= bound < np.inf), default=interval
    )
    return atom / math.floor(atom / interval)


def _spans(pair: PrivacyCurve, tail: float) -> tuple[float, float]:
    """How far the losses of both orientations reach."""
    ahead = _reach(pair, tail)
    return ahead, ahead if pair.symmetric else _reach(pair.reversed(), tail)


def _reach(pair: PrivacyCurve, tail: float) -> float:
    """An epsilon beyond which delta falls by no more than the tail; any answer is sound."""
    limit = pair.infinity * (1.0 + 1e-12) + tail
    largest = pair.largest_loss

    def small(epsilon: Floats) -> Any:
        return pair.worst_delta(epsilon) <= limit

    low = 0.0
    high = min(1e-6, largest)
    while True:  # eight doublings at a time: a call costs about the same for one point and for many
        steps = np.minimum(high * 2.0 ** np.arange(8), largest)
        enough = small(steps) | (steps >= largest)
        if np.any(enough):
            place = int(np.argmax(enough))
            if place:
                low = float(steps[place - 1])
            high = float(steps[place])
            break
        low = float(steps[-1])
        high = min(2.0 * float(steps[-1]), largest)
        if high > 2.0 * LARGEST_EPSILON:
            raise NumericalError(
                f"Losses beyond {LARGEST_EPSILON} are not composed; add noise or raise 'tail_mass'."
            )
    for _ in range(2):
        points = np.linspace(low, high, 33)
        place = int(np.argmax(np.append(small(points[1:-1]), True))) + 1
        low = float(points[place - 1])
        high = float(points[place])
    return high


def _discretised(
    pair: PrivacyCurve, interval: float, span: tuple[float, float], work: float
) -> tuple[LossMasses, LossMasses]:
    """The chords of the pair's divergence between grid points, in both orientations."""
    inflation = 1.0 + pair.relative_error
    stride = max(1, math.ceil(sum(span) / interval / pair.affordable_nodes(work)))
    sides: list[Floats] = []
    directions = (pair,) if pair.symmetric else (pair, pair.reversed())
    for direction, reach in zip(directions, span):
        nodes = math.ceil(reach / (stride * interval)) + 2
        # A little below the node, so that the rounding of epsilon (here or of a bound inside delta) only raises delta.
        epsilon = (
            stride * interval * (1.0 - 8.0 * ULP) * np.arange(nodes, dtype=np.float64)
        )
        value = np.minimum(direction.worst_delta(epsilon) * inflation, 1.0)
        sides.append(np.maximum.accumulate(value[::-1])[::-1])
    up = sides[0]
    down = sides[-1]
    up[0] = down[0] = max(up[0], down[0])
    if up is down:
        masses = chord_masses(up, up, interval, stride)
        return masses, masses
    return chord_masses(up, down, interval, stride), chord_masses(
        down, up, interval, stride
    )
