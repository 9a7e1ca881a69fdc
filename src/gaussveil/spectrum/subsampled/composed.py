"""One privacy curve for anything composed: Gaussian pairs, steps on random batches, named profiles.

What has factors shares one contour integral. Other curves are composed with it on a grid, pessimistically.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from gaussveil.spectrum.discrete.loss import compose_pessimistic
from gaussveil.spectrum.factors import Factors
from gaussveil.spectrum.laws.with_infinity import WithInfinity
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.pair_composition import compose
from gaussveil.spectrum.privacy_curve import PrivacyCurve
from gaussveil.spectrum.subsampled.laws_alone import LawsAlone
from gaussveil.spectrum.subsampled.loss import SubsampledLoss


def composed(
    parts: Iterable[tuple[PrivacyCurve, int]], **grid: Any
) -> PrivacyCurve | None:
    """The curve of all parts, each `count` times, in the direction in which they stand; None of nothing.

    `grid` may hold `interval` and `max_bins` of the grid, where there is one.
    """
    exact, others = _split(parts)
    whole = exact_curve(exact)
    if not others:
        return whole
    if whole is None and len(others) == 1 and others[0][1] == 1:
        return others[0][0]
    if whole is None and not grid and all(map(_is_law, others)):
        return LawsAlone(others)
    if whole is not None:
        others.append((whole, 1))
    return compose_pessimistic(
        [curve for curve, _ in others], [count for _, count in others], **grid
    )


def _is_law(part: tuple[PrivacyCurve, int]) -> bool:
    """Whether it is a law by atoms and pieces."""
    factors = part[0].factors()
    return factors is not None and bool(factors.laws)


def _split(
    parts: Iterable[tuple[PrivacyCurve, int]],
) -> tuple[Factors, list[tuple[PrivacyCurve, int]]]:
    """What joins one contour, and what needs a grid."""
    exact = Factors()
    by_kind: dict[type[PrivacyCurve], list[tuple[PrivacyCurve, int]]] = {}
    for curve, count in parts:
        factors = curve.factors()
        if factors is None:
            by_kind.setdefault(type(curve), []).append((curve, count))
        else:
            exact += factors.times(count)
    others = [part for kind, alike in by_kind.items() for part in kind.together(alike)]
    edges = any(loss.batch_shape for loss, _ in exact.gaussians)
    if edges and (exact.steps or exact.laws):
        # Of label edges the worst at each epsilon is taken: no pair alone, so that a grid must do.
        others.append((compose(*_repeated(exact.gaussians)), 1))
        exact = Factors(steps=exact.steps, laws=exact.laws)
    if others or not (exact.steps or exact.gaussians):
        # Laws of which no moment falls need a grid, too; where there is one, they lose nothing on it.
        others += exact.laws
        exact = Factors(exact.gaussians, exact.steps)
    return exact, others


def exact_curve(factors: Factors) -> PrivacyCurve | None:
    """The curve of factors under one contour; None where no moment falls along it."""
    losses = _repeated(factors.gaussians)
    if len(losses) > 1:
        gaussian = compose(*losses)
    elif losses:
        gaussian = losses[0]
    else:
        gaussian = None
    if not factors.laws or not (losses or factors.steps):
        if factors.steps:
            return SubsampledLoss(factors.steps, gaussian)
        return gaussian
    finite = SubsampledLoss(
        factors.steps, gaussian, [(law.finite, count) for law, count in factors.laws]
    )
    certain = all(
        law.infinity == law.reversed().infinity == law.rounded_by == 0.0 and law.proven
        for law, _ in factors.laws
    )
    if certain:
        return finite
    return WithInfinity(finite, factors.laws)


def _repeated(gaussians: Sequence[tuple[PrivacyLoss, int]]) -> list[PrivacyLoss]:
    return [loss**count for loss, count in gaussians]


def lower_end(parts: Sequence[tuple[PrivacyCurve, int]], epsilon: float) -> float:
    """A lower end of the worse direction's delta: of the exact parts composed, or of one that knows its own."""
    alternatives = [(curve.least_factors(), count) for curve, count in parts]
    ends = [0.0]
    for index in range(max((len(tried) for tried, _ in alternatives), default=0)):
        below = Factors()
        for tried, count in alternatives:
            if tried:
                below += tried[min(index, len(tried) - 1)].times(count)
        if (whole := exact_curve(below)) is not None:
            ends += [
                float(np.max(side.enclose(epsilon).lower))
                for side in (whole, whole.reversed())
            ]
    own = [
        side.lower(epsilon, count)
        for curve, count in parts
        for side in (curve, curve.reversed())
    ]
    return max(ends + own)
