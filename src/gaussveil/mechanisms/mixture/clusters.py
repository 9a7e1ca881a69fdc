"""Private K-means inside the budget of a mixture, for records without labels.

One Gaussian is fitted to all records first; K centres start evenly spread over it and are moved by a few noisy Lloyd
steps in its coordinates. Every step groups records by the nearest of centres that are public by then.
"""

from __future__ import annotations

import numpy as np
from sklearn.cluster import KMeans

from gaussveil.calibration import noise_scales
from gaussveil.mechanisms.mixture.debias import radius_from_quantile
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.shrinkage import positive, symmetric_root
from gaussveil.mechanisms.mixture.stages import Guess, run_stages
from gaussveil.typing import Floats

WHOLE_SHARE, STEP_SHARE, STEPS = 0.10, 0.10, 3
CLIP_MASS = 0.9  # share of the fitted Gaussian inside the ball of the Lloyd steps
START_DRAWS = 4000


def find_clusters(
    passes: PrivatePasses,
    classes: int,
    *,
    mean_shift: float,
    radius: float,
    middle: Floats,
    nominal_size: int | None,
) -> tuple[Guess, float]:
    """Centres and counts of K clusters, and the mean shift that is left for their shapes."""
    d = passes.dimension
    whole = run_stages(
        passes, mean_shift=np.sqrt(WHOLE_SHARE) * mean_shift, radius=radius, middle=middle, nominal_size=nominal_size
    )
    covariance = whole.covariances[0]
    root, inverse = (symmetric_root(whole.covariances, power)[0] for power in (0.5, -0.5))
    reach = float(radius_from_quantile(CLIP_MASS, d))
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(d), np.eye(d), START_DRAWS)
    centres = whole.means[0] + KMeans(classes, n_init=2, random_state=0).fit(draws @ root).cluster_centers_
    count_scale, sum_scale = noise_scales(
        np.sqrt(STEP_SHARE) * mean_shift, np.array([reach**2 / 4, float(d)]), np.array([1.0, reach**2])
    ).tolist()
    for _ in range(STEPS):
        passes.with_nearest(centres)
        counts, sums = passes.counts_and_sums(whole.means[0], reach, (count_scale, sum_scale), inverse)
        records = positive(counts, count_scale)
        moved = sums / records[:, None]
        noise = (sum_scale / records) ** 2
        # A step counts as much as its noise is small against the fitted Gaussian's own spread.
        before = (centres - whole.means[0]) @ inverse
        moved = before + (moved - before) / (1 + noise[:, None])
        centres = whole.means[0] + moved @ root
    passes.with_nearest(centres)
    guess = Guess(
        counts,
        np.full(classes, count_scale**2),
        centres,
        np.minimum(noise, 1.0)[:, None, None] * covariance,
        np.broadcast_to(covariance, (classes, d, d)),
    )
    left = 1 - WHOLE_SHARE - STEPS * STEP_SHARE
    return guess, float(np.sqrt(left) * mean_shift)
