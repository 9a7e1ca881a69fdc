"""Means and sums of groups from what was drawn of units' curves, with their bands; all of it post-processing."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gaussveil.mechanisms.table.answers import Mean, Sum
from gaussveil.mechanisms.table.layout import Layout
from gaussveil.mechanisms.table.radii import Lost
from gaussveil.postprocessing.intervals import Interval, Variances, Z, ratio
from gaussveil.typing import Floats

PLACES_DIFFER = 1.0  # deviation of what a place lost from its share of what all lost
SIDEWAYS = 0.15  # of lengths that are lost, what adds up in other directions than the one they are given back in
BENT = 0.35  # deviation of that direction of a level, as a part of its way from the constant


@dataclass(frozen=True)
class ProfileDraw:
    """What was drawn of a profile (places x moments): the mean is centre + residual / counts, all but the centre noisy.

    A count is the one of its place, with noise of its own and some that all places share, and what its moment adds.
    """

    layout: Layout
    counts: Floats
    centre: Floats
    residual: Floats
    place_noise: Variances
    moment_variance: float
    """Of what a moment adds to the count of its place, before its mean is taken off."""
    smooth_variance: float
    """Of a coefficient of the residuals' smooth part."""
    rest_variance: float
    """Of a number of the rest, before its smooth part is taken off."""
    lost: tuple[Lost, ...] = (Lost(0.0, 0.0),) * 3
    """What clipping took of the level below the centre, above it, and of the rest; of all places together."""
    z: float = Z
    """Within how many deviations 95 % of the noise lie."""

    @property
    def _shares(self) -> Floats:
        """Which part of all units is at each place, as a column."""
        places = np.maximum(self.counts.mean(axis=1, keepdims=True), 1.0)
        return np.asarray(places / places.sum())

    @property
    def _level_lost(self) -> float:
        """What clipping took of the smooth part, above the centre more than below it; all places together."""
        below, above, _ = self.lost
        return above.expected - below.expected

    @cached_property
    def _directions(self) -> tuple[Floats, Floats]:
        """The direction of that (a number for each moment), and how far it is from the constant.

        A unit above the centre has more of all that units have, as far as the centre is a level, and a constant else.
        """
        common = (self._shares.T @ self.centre @ self.layout.basis.T)[0]
        length = float(np.linalg.norm(common))
        constant = np.eye(len(common))[0]
        if not length:
            return constant @ self.layout.basis, 0 * self.residual[0]
        level = common[0] / length
        bent = math.copysign(1.0, level) * common / length - constant
        direction = constant + level**2 * bent
        return direction @ self.layout.basis, bent @ self.layout.basis

    @property
    def _rest(self) -> Floats:
        """What the smooth functions leave of the residuals."""
        smooth = self.residual @ self.layout.basis.T @ self.layout.basis
        return np.asarray(self.residual - smooth)

    @cached_property
    def _rest_kept(self) -> tuple[float, float]:
        """The part of the rest that is no noise, and the length that all rests have after clipping, one by one."""
        layout = self.layout
        square = float(np.sum(self._rest**2))
        noise = layout.places * (layout.moments - layout.functions) * self.rest_variance
        sure = max(1.0 - noise / max(square, 1e-300), 0.0)
        return sure, max(self.lost[2].kept, math.sqrt(sure * square), 1e-300)

    @property
    def restored(self) -> Floats:
        """Residuals with what clipping is expected to have taken.

        Of the rest it took what it left: units with a longer rest have one in the same direction as all together.
        """
        sure, kept = self._rest_kept
        level = self._shares * self._level_lost * self._directions[0]
        return (
            self.residual + level + self._rest * (sure * self.lost[2].expected / kept)
        )

    @property
    def lost_variance(self) -> Floats:
        """Of what is restored to each residual: places may differ from all together, and directions be others."""
        below, above, rest = self.lost
        direction, bent = self._directions
        sure, kept = self._rest_kept
        evenly = SIDEWAYS**2 * (
            below.expected**2 + above.expected**2 + rest.expected**2
        )
        if self.layout.places > 1:
            evenly += (PLACES_DIFFER * (below.expected + above.expected)) ** 2
        level = direction**2 * (below.deviation**2 + above.deviation**2)
        level += (BENT * self._level_lost * bent) ** 2
        noise = self.rest_variance * np.maximum(1 - self.layout.inside, 0.0)
        given = rest.expected / kept
        return np.asarray(
            self._shares**2 * (level + evenly / self.layout.moments)
            + (self._rest * sure * rest.deviation / kept) ** 2
            + noise * (2 * given + given**2)
        )

    @property
    def total_lost(self) -> tuple[float, float]:
        """What is restored to the sum of all residuals, and its variance."""
        below, above, _ = self.lost
        along = float(self._directions[0].sum())
        variance = (below.deviation**2 + above.deviation**2) * along**2
        return self._level_lost * along, variance

    def counted_variance(self, weights: Floats) -> float:
        """Variance of a weighted sum of the counts."""
        places = weights.sum(axis=1)
        shared = (
            self.place_noise.own * np.sum(places**2)
            + self.place_noise.shared * np.sum(places) ** 2
        )
        moments = weights - weights.mean(axis=1, keepdims=True)
        return float(shared + self.moment_variance * np.sum(moments**2))

    @property
    def count_variance(self) -> float:
        """Variance of one count."""
        return self.place_noise.one + self.moment_variance * (
            1 - 1 / self.layout.moments
        )

    @property
    def residual_variance(self) -> Floats:
        """Variance of the residual of each moment."""
        inside = self.layout.inside
        return np.asarray(
            inside * self.smooth_variance
            + np.maximum(1 - inside, 0.0) * self.rest_variance
        )

    @property
    def total_variance(self) -> float:
        """Variance of the sum of all residuals: the constant is smooth, and nothing of the rest is in it."""
        return self.layout.places * self.layout.moments * self.smooth_variance


def interval(answer: Mean | Sum, draw: ProfileDraw, total: bool) -> Interval:
    """The answer of every group, and of all together if asked for: their sum, or the mean over all their counts.

    Bands hold the unclipped answer: noise and what is not known of the clipping; the deviation is the noise's alone.
    Where a group's count might be nothing a mean's band is the whole range: that nothing is known is said, too.
    """
    if isinstance(answer, Sum):
        groups = _sums(draw)
    else:
        groups = _means(draw)
    if total:
        if isinstance(answer, Sum):
            whole = _total_sum(draw)
        else:
            whole = _total_mean(draw)
        groups = Interval(
            *(
                np.append(one, other)
                for one, other in zip(
                    vars(groups).values(), vars(whole).values(), strict=True
                )
            )
        )
    if isinstance(answer, Sum):
        return groups
    return groups.clipped(answer.feature.low, answer.feature.high)


def _sums(draw: ProfileDraw) -> Interval:
    value = draw.counts * draw.centre + draw.restored
    noise = draw.residual_variance + draw.centre**2 * draw.count_variance
    return _grouped(draw, _about(value, noise, draw.lost_variance, draw.z))


def _about(value: Floats, noise: Floats, lost: Floats, z: float) -> Interval:
    wide = Interval.about(value, np.sqrt(noise + lost), z)
    return Interval(
        value, np.broadcast_to(np.sqrt(noise), value.shape), wide.low, wide.high
    )


def _means(draw: ProfileDraw) -> Interval:
    """Only the residuals are divided by a noisy number."""
    noise = np.broadcast_to(draw.residual_variance, draw.residual.shape)
    below = np.full(draw.counts.shape, draw.count_variance)
    found = _divided(
        draw.restored, noise, draw.lost_variance, draw.counts, below, draw.z
    )
    if draw.layout.places > 1:
        value = np.clip(_told_apart(draw, found.value), found.low, found.high)
        found = replace(found, value=value)
    return _grouped(draw, found.shifted(draw.centre, 1.0))


def _told_apart(draw: ProfileDraw, residuals: Floats) -> Floats:
    """Means' distances from their centres, of which less is kept where noise exceeds what places differ by.

    Level, other smooth coefficients and rest each by themselves; what places differ by is found from all of them, each
    weighing as it is sure, and taken larger by its deviation. Bands hold what they held.
    """
    basis = draw.layout.basis
    level = residuals @ basis[:1].T @ basis[:1]
    smooth = residuals @ basis[1:].T @ basis[1:]
    sure = np.maximum(draw.counts.mean(axis=1), math.sqrt(draw.count_variance))
    kept = np.zeros(residuals.shape)
    for part, numbers, variance in (
        (level, 1, draw.smooth_variance),
        (smooth, len(basis) - 1, draw.smooth_variance),
        (residuals - level - smooth, basis.shape[1] - len(basis), draw.rest_variance),
    ):
        if not numbers:
            continue
        noise = variance / sure**2
        weights = noise**-2 / np.sum(noise**-2)
        squares = np.sum(part**2, axis=1) / numbers
        differ = max(float(weights @ (squares - noise)), 0.0)
        differ += math.sqrt(2 / numbers * float(weights**2 @ noise**2))
        kept += part * (differ / (differ + noise))[:, None]
    return kept


def _divided(
    top: Floats,
    noise: Floats,
    lost: Floats,
    below: Floats,
    below_variance: Floats,
    z: float,
) -> Interval:
    """Of residuals over counts: near zero where the count might be nothing, and the band then is without ends."""
    band = ratio(top, noise + lost, below, below_variance, limit=math.inf, z=z)
    value = top * np.maximum(below, 0.0) / (below**2 + below_variance)
    sure = np.maximum(below, np.sqrt(below_variance))
    deviation = np.sqrt(noise + value**2 * below_variance) / sure
    return Interval(
        value, deviation, np.minimum(band.low, value), np.maximum(band.high, value)
    )


def _total_sum(draw: ProfileDraw) -> Interval:
    restored, unknown = draw.total_lost
    value = (
        np.sum(draw.counts * draw.centre + draw.residual, keepdims=True).ravel()
        + restored
    )
    variance = draw.total_variance + draw.counted_variance(draw.centre)
    return _about(value, np.array([variance]), np.array([unknown]), draw.z)


def _total_mean(draw: ProfileDraw) -> Interval:
    """About the mean of the centres, which is weighed by the counts."""
    counts, one = np.maximum(draw.counts, 0.0), np.ones(draw.counts.shape)
    middle = float(np.sum(counts * draw.centre) / max(counts.sum(), 1.0))
    gaps = draw.centre - middle
    restored, unknown = draw.total_lost
    top = np.sum(draw.residual + gaps * draw.counts, keepdims=True).ravel() + restored
    noise = np.array([draw.total_variance + draw.counted_variance(gaps)])
    below = np.sum(draw.counts, keepdims=True).ravel()
    spread = np.array([draw.counted_variance(one)])
    found = _divided(top, noise, np.array([unknown]), below, spread, draw.z)
    return found.shifted(middle, 1.0)


def _grouped(draw: ProfileDraw, one: Interval) -> Interval:
    return Interval(
        *(
            draw.layout.grouped(part)
            for part in (one.value, one.deviation, one.low, one.high)
        )
    )
