"""One privacy curve for anything composed: Gaussian pairs, steps on random batches, named profiles.

Pairs and steps share one contour integral. Other profiles are composed with it on a grid, pessimistically.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from gaussveil.spectrum.curve import Curve
from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.loss import PrivacyLoss, compose
from gaussveil.spectrum.mixtures import GaussianMixture
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.renyi_bounds import added
from gaussveil.spectrum.subsampled.allocation import RandomAllocation
from gaussveil.spectrum.subsampled.fixed_size import FixedSizeBatch
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.profile import ReplacedInBatch
from gaussveil.spectrum.subsampled.step import Step

SMALLEST_RATE = 1e-9  # of a step that the contour takes; rarer ones are left to the grid


def composed(parts: Iterable[tuple[Any, int]], **grid: Any) -> PrivacyLoss | Curve | None:
    """The curve of all parts, each `count` times, in the direction in which they stand; None of nothing.

    `grid` may hold `interval` and `max_bins` of the grid, where there is one.
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
    others = added(others)
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


def lower_end(parts: Sequence[tuple[Any, int]], epsilon: float) -> float:
    """A lower end of the worse direction's delta: of the exact parts composed, or of one that knows its own.

    Of batches of a fixed size two pairs of data sets are tried: all other records are 0, or all equal the one replaced.
    """
    gaussians = [source**count for source, count in parts if isinstance(source, PrivacyLoss) and not source.batch_shape]
    gaussian, found = compose(*gaussians) if gaussians else None, [0.0]
    for share in (0.5, 1.0):  # of the noise: a replaced record moves the sum by 2, or by 1 either way
        batches = [(source, count) for source, count in parts if isinstance(source, FixedSizeBatch)]
        steps = [(Step(one.noise_multiplier * share, one.rate, replace=share == 1.0), n) for one, n in batches]
        steps += [(step, count) for source, count in parts if (step := step_of(source)) is not None]
        curve = SubsampledLoss(steps, gaussian) if steps else gaussian
        if curve is not None:
            found += [float(np.max(side.enclose(epsilon).lower)) for side in (curve, curve.reversed())]
    own = [(source, count) for source, count in parts if isinstance(source, RandomAllocation)]
    return max(found + [side.lower(epsilon, n) for source, n in own for side in (source, source.reversed())])


def step_of(source: Any) -> Step | None:
    """The step that a stored profile stands for, if the contour takes it; steps stand for themselves."""
    if isinstance(source, Step):
        return source
    if isinstance(source, ReplacedInBatch):
        return Step(source.noise_multiplier, source.rate, replace=True)
    if isinstance(source, GaussianMixture) and len(source.shifts) == 2 and min(source.shifts) == 0.0:
        shift, rate = max(zip(source.shifts, source.probabilities))
        return Step(math.nextafter(1.0 / shift, 0.0), rate, backward=source.backward) if shift and rate else None
    if not isinstance(source, PoissonSubsampled) or not isinstance(source.base, PrivacyLoss):
        return None
    base = source.base
    if base.batch_shape or np.any(np.asarray(base.variance_gap) != 0.0) or not SMALLEST_RATE <= source.rate < 1.0:
        return None
    energies = np.ravel(np.asarray(base.energy, dtype=np.float64)).tolist()
    if not 1e-12 <= math.fsum(energies) <= 1e4:
        return None
    energy, multiplier = sum(map(Fraction, energies)), 1.0 / math.sqrt(math.fsum(energies))
    while Fraction(multiplier) ** 2 * energy > 1:  # less noise costs more
        multiplier = math.nextafter(multiplier, 0.0)
    return Step(multiplier, source.rate, backward=source.backward)
