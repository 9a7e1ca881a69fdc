"""One privacy curve for anything composed: Gaussian pairs, steps on random batches, named profiles.

Pairs and steps share one contour integral. Other profiles are composed with it on a grid, pessimistically.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from gaussveil.spectrum.curve import Curve
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.loss import PrivacyLoss, compose
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import Step

SMALLEST_RATE = 1e-9  # of a step that the contour takes; rarer ones are left to the grid


def composed(parts: Iterable[tuple[Any, int]], **grid: Any) -> PrivacyLoss | Curve | None:
    """The curve of all parts, each `count` times, in the direction in which they stand; None of nothing.

    Arguments:
        parts: privacy losses, profiles and curves with their counts.
        grid: `interval` and `max_bins` of the grid, where there is one.
    """
    losses, steps, others = [], [], []
    for source, count in parts:
        step = step_of(source)
        if isinstance(source, PrivacyLoss):
            losses.append(source**count)
        elif step is not None:
            steps.append((step, count))
        else:
            others.append((source, count))
    gaussian = compose(*losses) if len(losses) > 1 else losses[0] if losses else None
    if steps and gaussian is not None and gaussian.batch_shape:  # label edges: the worst of them at each epsilon
        others.append((gaussian, 1))
        gaussian = None
    exact: PrivacyLoss | Curve | None = SubsampledLoss(steps, gaussian) if steps else gaussian
    if not others:
        return exact
    if len(others) == 1 and others[0][1] == 1 and exact is None:
        only: Curve = others[0][0]
        return only
    items = [source for source, _ in others] + ([exact] if exact is not None else [])
    return compose_pessimistic(items, [count for _, count in others] + [1] * (exact is not None), **grid)


def step_of(source: Any) -> Step | None:
    """The step that a stored profile stands for, if the contour takes it."""
    if isinstance(source, ReplacedInBatch):
        return Step(source.noise_multiplier, source.rate, replace=True)
    if not isinstance(source, PoissonSubsampled) or not isinstance(source.base, PrivacyLoss):
        return None
    base = source.base
    if base.batch_shape or np.any(np.asarray(base.variance_gap) != 0.0) or not SMALLEST_RATE <= source.rate < 1.0:
        return None
    energy = math.fsum(np.ravel(np.asarray(base.energy, dtype=np.float64)))
    if not 1e-12 <= energy <= 1e4:
        return None
    multiplier = 1.0 / math.sqrt(energy)
    while multiplier * multiplier * energy > 1.0:  # less noise costs more
        multiplier = math.nextafter(multiplier, 0.0)
    return Step(multiplier, source.rate, backward=source.backward)
