"""Worst case over all pairs of Gaussians whose means and covariances are close: certified, by branch and bound.

The pairs: a narrow law N(0, I) and a wide one N(m, R) with R >= I, in coordinates in which the narrow covariance is I.
At most `rank` eigenvalues of R exceed 1, by a factor of at most e^log_ratio, and |m| <= mean_gap. No single pair is the
worst one at every epsilon, so the supremum is a named profile (corrections N2; derived:
docs/mechanisms/gaussian_output.md).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from math import exp, expm1
from typing import Any, ClassVar

import numpy as np

from gaussveil.errors import ParameterError
from gaussveil.spectrum.constants import LARGEST_EPSILON
from gaussveil.spectrum.envelope_search import SAFETY, dominating_pair, supremum
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.named_profile import PrivacyProfile, integer, number
from gaussveil.spectrum.roots import lowest
from gaussveil.typing import Floats

LARGEST_GAP = 1e3
LARGEST_LOG_RATIO = 16.0  # a wider covariance betrays itself, and a certificate could not store the pair
WIDER = {"X": "Y", "Y": "X", "either": "either"}


@dataclass(frozen=True)
class GaussianEnvelope(PrivacyProfile):
    """All pairs of Gaussians within `mean_gap`, `log_ratio` and `rank`; `wider` says which of X and Y is the wide one.

    The curve is the convex hull of that of the dominating pair with a^2 = `mixing` and of the certified supremum at one
    epsilon, `sharp_at`: one search, where a release is calibrated, instead of one for every epsilon.
    """

    name: ClassVar[str] = "gaussian-envelope"
    mean_gap: float
    log_ratio: float
    rank: int
    wider: str
    mixing: float
    sharp_at: float

    def __post_init__(self) -> None:
        for field, low, high in (
            ("mean_gap", 0.0, LARGEST_GAP),
            ("log_ratio", 0.0, LARGEST_LOG_RATIO),
            ("mixing", 1e-6, 1 - 1e-6),
            ("sharp_at", 0.0, LARGEST_EPSILON),
        ):
            object.__setattr__(
                self, field, number(field, getattr(self, field), low=low, high=high)
            )
        object.__setattr__(self, "rank", integer("rank", self.rank, low=1))
        if self.wider not in WIDER:
            raise ParameterError(
                f"'wider' must be one of {', '.join(WIDER)}. Got {self.wider!r}."
            )

    @property
    def relative_error(self) -> float:
        """Nothing: the values are upper ends already."""
        return 0.0

    def reversed(self) -> GaussianEnvelope:
        """The same pairs with X and Y exchanged."""
        return replace(self, wider=WIDER[self.wider])

    def pair(self) -> PrivacyLoss:
        """The dominating pair at every epsilon, X being wide unless `wider` is "Y"; "either" needs it both ways."""
        wide = dominating_pair(self.mean_gap, self.log_ratio, self.rank, self.mixing)
        if self.wider == "Y":
            return wide.reversed()
        return wide

    def _divergence(self, epsilon: Floats) -> Any:
        value = self._pair_delta(epsilon)
        hull = _hull(self)
        if hull is None:
            return value
        sharp, start, falling, levelling, end = hull
        away = np.exp(np.minimum(epsilon, end)) - exp(self.sharp_at)
        line = np.minimum(sharp + np.where(away < 0, falling, levelling) * away, 1.0)
        return np.where(
            (epsilon >= start) & (epsilon <= end), np.minimum(value, line), value
        )

    def _pair_delta(self, epsilon: Floats) -> Floats:
        pair = self.pair()
        log_delta = np.asarray(pair.log_delta(epsilon))
        if self.wider == "either":
            log_delta = np.maximum(log_delta, pair.reversed().log_delta(epsilon))
        return np.asarray(np.exp(np.minimum(log_delta + SAFETY, 0.0)))

    def _sharp(self) -> float:
        sides = {"X": [True], "Y": [False], "either": [True, False]}[self.wider]
        bounds = self.mean_gap, self.log_ratio, self.rank, self.sharp_at
        return max(supremum(*bounds, wide_first=side)[1] for side in sides)


@lru_cache(maxsize=1024)
def _hull(
    envelope: GaussianEnvelope,
) -> tuple[float, float, float, float, float] | None:
    """The supremum at `sharp_at`, and where and how steeply the tangents from that point touch the pair's curve.

    Every divergence is convex in e^epsilon, so a bound may be replaced by its convex hull.
    """
    sharp = exp(envelope._sharp())
    at = envelope.sharp_at
    if sharp >= float(envelope._pair_delta(np.asarray(at))):
        return None

    def slope(epsilon: float) -> float:
        return (float(envelope._pair_delta(np.asarray(epsilon))) - sharp) / (
            exp(epsilon) - exp(at)
        )

    far = at + 0.125
    while float(envelope._pair_delta(np.asarray(far))) > 0.01 * sharp and far < 512.0:
        far += far
    end = lowest(slope, at, far, xtol=1e-9)
    if at == 0.0:
        return sharp, 0.0, 0.0, slope(end), end
    start = lowest(lambda epsilon: -slope(epsilon), 0.0, at)
    return sharp, start, slope(start), slope(end), end


def best_mixing(mean_gap: float, log_ratio: float, rank: int, epsilon: float) -> float:
    """The a^2 whose dominating pair has the smallest delta at epsilon, worse of both directions (to a few per cent)."""
    if mean_gap == 0.0 or log_ratio == 0.0:
        if log_ratio == 0.0:
            return 0.999
        return 0.001
    tried = np.concatenate(
        (np.linspace(0.05, 0.95, 19), 1 - np.geomspace(0.03, 1e-4, 8))
    )
    excess = expm1(log_ratio) / (1 - tried)
    energy = mean_gap**2 / tried
    pairs = PrivacyLoss.from_terms(
        np.stack((0 * excess, -excess), axis=-1),
        [1.0, float(rank)],
        np.stack((energy, 0 * energy), axis=-1),
    )
    values = np.maximum(pairs.log_delta(epsilon), pairs.reversed().log_delta(epsilon))
    return float(tried[int(np.argmin(values))])
