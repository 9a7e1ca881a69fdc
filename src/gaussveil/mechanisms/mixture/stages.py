"""The stages of a private mixture, each from one pass: centres, radii, refinements; clusters first without labels.

One Gaussian is fitted to records without labels first; K centres start evenly spread over it and are moved by a few
noisy Lloyd steps in its coordinates. Every step groups records by the nearest of centres that are public by then.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from gaussveil import checks
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.mixture.budget import (
    CAPS,
    FIRST_SHARE,
    RADIUS_BINS,
    StageBudget,
    centre_scales,
    inner_mass,
    stage_budget,
)
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.noisy_sums import ROUNDING_SHIFT, SAMPLER_RESERVE
from gaussveil.mechanisms.release_path import Promise
from gaussveil.postprocessing.class_guess import (
    Guess,
    SeenDistances,
    centres_guess,
    heavy_tails,
    refined,
    with_radii,
)
from gaussveil.postprocessing.clipped_moments import radius_from_quantile
from gaussveil.postprocessing.shrinkage import positive, symmetric_root
from gaussveil.typing import Floats

WHOLE_SHARE = 0.10
STEP_SHARE = 0.10
STEPS = 3
CLIP_MASS = 0.9  # share of the fitted Gaussian inside the ball of the Lloyd steps
START_DRAWS = 4000
STAGES_RESERVE = (
    1 - 2.0**-40
)  # for the rounding of certified deltas and of the stages' scales


@dataclass(frozen=True, eq=False)
class Surroundings:
    """What is public of the records: the ball they are clipped to, how many they may be, shares of the budget."""

    radius: float
    middle: Floats
    size: int | None
    shares: Sequence[float] | None = None


def run_stages(
    passes: PrivatePasses,
    known: Surroundings,
    mean_shift: float,
    start: Guess | None = None,
) -> Guess:
    """All passes of one fit, in order; `mean_shift` is what one record may lose. `start` saves the first pass."""
    classes = passes.groups
    d = passes.dimension
    radius = known.radius
    shares = known.shares
    if start is not None:
        first = 0.0
    elif known.size is None and shares is None:
        first = FIRST_SHARE
    else:
        first = None
    budget = stage_budget(
        known.size or 1, mean_shift, classes, d, radius, first, shares
    )
    guess = start
    if guess is None:
        inner = budget.centre_radius
        scales = (budget.count_scale, budget.total_scale)
        counts, sums = passes.counts_and_sums(known.middle, inner, scales)
        guess = centres_guess(counts, sums, scales, inner, known.middle, radius)
    if known.size is None:
        budget = stage_budget(
            float(guess.records.sum()), mean_shift, classes, d, radius, first, shares
        )
    guess = with_radii(
        guess, _distances(passes, guess.means, budget, radius), budget.radius_quantile
    )
    for place, (noise, floor, cap) in enumerate(
        zip(budget.refinements, budget.floors, budget.caps)
    ):
        rho = radius_from_quantile(
            inner_mass(guess.records * mean_shift, floor, cap), d
        )
        refinement = passes.refinement(
            guess.means, guess.factors[1] / rho[:, None, None], noise
        )
        guess = refined(guess, refinement, rho, pool=place == 0)
    covariances = guess.covariances * heavy_tails(guess, radius)[:, None, None]
    return replace(guess, covariances=covariances + guess.mean_noise)


def _distances(
    passes: PrivatePasses, centres: Floats, budget: StageBudget, radius: float
) -> SeenDistances:
    """Noisy half-octave histograms of the distance to the centre."""
    edges = 2 * radius * 2.0 ** (np.arange(-RADIUS_BINS + 1, 1) / 2)
    scale = budget.histogram_scale
    return SeenDistances(
        passes.distances(centres, np.concatenate([[0.0], edges]), scale),
        scale,
        edges,
        centres,
    )


def find_clusters(
    passes: PrivatePasses, classes: int, known: Surroundings, mean_shift: float
) -> tuple[Guess, float]:
    """Centres and counts of K clusters, and the mean shift that is left for their shapes."""
    # loaded here: a second of processor time that synthetic tables, which draw in stages too, do not need
    from sklearn.cluster import KMeans

    d = passes.dimension
    whole = run_stages(
        passes, replace(known, shares=None), np.sqrt(WHOLE_SHARE) * mean_shift
    )
    covariance = whole.covariances[0]
    root, inverse = (
        symmetric_root(whole.covariances, power)[0] for power in (0.5, -0.5)
    )
    reach = float(radius_from_quantile(CLIP_MASS, d))
    draws = np.random.default_rng(0).multivariate_normal(
        np.zeros(d), np.eye(d), START_DRAWS
    )
    centres = (
        whole.means[0]
        + KMeans(classes, n_init=2, random_state=0).fit(draws @ root).cluster_centers_
    )
    count_scale, sum_scale = centre_scales(np.sqrt(STEP_SHARE) * mean_shift, reach, d)
    for _ in range(STEPS):
        passes.with_nearest(centres)
        counts, sums = passes.counts_and_sums(
            whole.means[0], reach, (count_scale, sum_scale), inverse
        )
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


def sampler_error(classes: int, dimension: int) -> float:
    """Total variation of all draws of a fit; each pass checks its own part against the same reserve."""
    moments = 1 + dimension + dimension * (dimension + 1) // 2
    labelled = 1 + dimension + RADIUS_BINS + max(CAPS) * moments
    return SAMPLER_RESERVE * (classes * (labelled + STEPS * (1 + dimension)) + labelled)


def allowed_shift(
    promise: Promise, classes: int, dimension: int, rows_per_unit: int = 1
) -> float:
    """The mean shift that a promise allows one unit over all passes together."""
    shift = mean_shift_for(
        promise.epsilon,
        promise.ideal_delta(sampler_error(classes, dimension), STAGES_RESERVE),
    )
    if shift <= 4 * ROUNDING_SHIFT:
        raise ParameterError(
            f"epsilon and delta allow a mean shift of {shift:.3g} only: raise them."
        )
    if shift <= 4 * ROUNDING_SHIFT * rows_per_unit:
        checks.refuse(
            "rows_per_unit",
            "smaller: so many rows leave nothing to each",
            rows_per_unit,
        )
    return shift


def for_stages(mean_shift: float) -> float:
    """What the stages may use: rounding to the lattice takes the rest."""
    return (mean_shift - ROUNDING_SHIFT) * STAGES_RESERVE


def staged(
    passes: PrivatePasses, classes: int, known: Surroundings, mean_shift: float
) -> Guess:
    """Clusters first where there are several and no labels, then the stages; `mean_shift` is what a record may lose."""
    start = None
    left = for_stages(mean_shift)
    if passes.group is None and classes > 1:
        start, left = find_clusters(passes, classes, known, left)
    return run_stages(passes, known, left, start)
