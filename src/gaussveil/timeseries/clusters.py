"""Clusters of similar households: k-means on their profiles, with a smallest size."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from gaussveil import checks
from gaussveil.errors import NotFiniteError, ShapeError
from gaussveil.timeseries.seasonal import WeeklySeason
from gaussveil.typing import Floats


@dataclass(frozen=True, eq=False)
class Clusters:
    """Cluster number of every household; clusters are numbered by falling size."""

    labels: NDArray[np.int64]
    centres: Floats

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Households per cluster."""
        return np.bincount(self.labels, minlength=len(self.centres))

    def members(self, cluster: int) -> NDArray[np.int64]:
        """Positions of the households of one cluster."""
        checks.whole("cluster", cluster, f"[0, {len(self.centres) - 1}]")
        return np.flatnonzero(self.labels == cluster)


def day_profiles(season: WeeklySeason) -> Floats:
    """Mean log power of every household by hour of the day, over the week: the features to cluster."""
    steps = 24 * 60 // season.step_minutes
    per_hour = max(60 // season.step_minutes, 1)
    days = season.mean.reshape(len(season.mean), 7, steps).mean(axis=1)
    return np.asarray(days.reshape(len(days), -1, per_hour).mean(axis=2))


def cluster_households(profiles: ArrayLike, count: int, *, smallest: int = 2, seed: int = 0) -> Clusters:
    """K-means with a fixed seed; a cluster of fewer than `smallest` households is dissolved into the nearest others.

    Smallest cluster first, one at a time, so the result has at most `count` clusters, none too small. A household
    alone in its cluster has nobody to hide among, hence the default of 2.
    """
    points = np.asarray(profiles, dtype=np.float64)
    if points.ndim != 2 or len(points) < 1:
        raise ShapeError(f"profiles must be households x features. Got shape {points.shape}.")
    if not np.isfinite(points).all():
        raise NotFiniteError("profiles must be finite")
    checks.whole("count", count, f"[1, {len(points)}]")  # the households
    checks.whole("smallest", smallest, f"[1, {len(points)}]")
    from sklearn.cluster import KMeans  # takes a second to load, which only clustering should pay
    from sklearn.exceptions import ConvergenceWarning

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # equal households may leave clusters empty
        found = KMeans(n_clusters=count, n_init=10, random_state=seed).fit(points)
    kept, labels = np.unique(found.labels_.astype(np.int64), return_inverse=True)
    centres = found.cluster_centers_[kept]
    while (sizes := np.bincount(labels, minlength=len(centres))).min() < smallest:
        weakest = int(np.argmin(sizes))
        centres = np.delete(centres, weakest, axis=0)
        orphans = labels == weakest
        distance = ((points[orphans, None, :] - centres[None, :, :]) ** 2).sum(axis=2)
        labels = np.where(labels > weakest, labels - 1, labels)
        labels[orphans] = np.argmin(distance, axis=1)
        centres = np.stack([points[labels == k].mean(axis=0) for k in range(len(centres))])
    order = np.argsort(-np.bincount(labels, minlength=len(centres)), kind="stable")
    return Clusters(np.argsort(order)[labels].astype(np.int64), centres[order])
