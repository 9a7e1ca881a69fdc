"""Figures 3 and 4 of the class-based paper as the paper computes them, on the Swiss homes.

Laws by its eq. (57), the metric its own: the largest one-sided tail of the loss over all ordered pairs of a cluster. No
noise, white noise, and Algorithm 1 with the line search that Appendix C permits (as printed it is white noise, K4);
beside the paper's metric stands what the release of a forecast spends, a constant to who knows the past (K5).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import Readings, mmse_forecast
from gaussveil.timeseries.household_models import HouseholdModels
from gaussveil.typing import Floats
from gaussveil_studies.class_based.homes import CLUSTERS, HORIZON, closest_shift
from gaussveil_studies.published.class_based import algorithm_1, descent
from gaussveil_studies.study import Row

ACCURACY = 0.68571
KINDS = ("none", "white", "Algorithm 1 repaired")
SMALLEST = 1e-9  # of a noise covariance's eigenvalues, over its trace: below it the noise has no density
FIGURE_3 = 0.45


@dataclass(frozen=True)
class PaperCurve:
    """One kind of noise at one accuracy and epsilon: the paper's tail, delta of its laws, delta of what is released."""

    kind: str
    accuracy: float
    epsilon: float
    tail: float | None
    delta: float | None
    released: float


def clusters_of(
    readings: Readings, clusters: int = CLUSTERS
) -> tuple[HouseholdModels, list[tuple[Floats, Floats]]]:
    """Residual forecasts and their covariances by (57), one pair of arrays per cluster."""
    models = HouseholdModels.fit(
        readings,
        clusters=clusters,
        smallest=3,
        floor=0.01,
        weekday_weight=1.0,
        order=(6, 5),
    )
    found = mmse_forecast(models.arma, models.season.residual(readings), HORIZON)
    groups = [
        np.flatnonzero(models.cluster == cluster)
        for cluster in range(len(models.sizes))
    ]
    return models, [(found.mean[rows], found.error_covariance[rows]) for rows in groups]


def noises(means: Floats, covariances: Floats, accuracy: float) -> dict[str, Floats]:
    """Noise covariances of trace k rho by kind."""
    edges = np.array(list(combinations(range(len(means)), 2)))
    white = np.broadcast_to(accuracy * np.eye(means.shape[1]), covariances.shape)
    repaired = algorithm_1(means, covariances, edges, accuracy, repaired=True)
    return {
        "none": np.zeros_like(covariances),
        "white": np.asarray(white),
        "Algorithm 1 repaired": repaired,
    }


def descents(
    groups: Sequence[tuple[Floats, Floats]], accuracies: Sequence[float]
) -> list[Row]:
    """What the repaired algorithm makes of its own surrogate in every cluster, before and after the budget."""
    rows: list[Row] = []
    for accuracy in accuracies:
        for means, covariances in groups:
            edges = np.array(list(combinations(range(len(means)), 2)))
            way = descent(means, covariances, edges, accuracy, repaired=True)
            rows.append(
                {
                    "homes": len(means),
                    "accuracy": accuracy,
                    "steps": way.steps,
                    "white": way.white,
                    "descended": way.descended,
                    "scaled": way.scaled,
                }
            )
    return rows


def curves(
    groups: Sequence[tuple[Floats, Floats]],
    accuracies: Sequence[float],
    epsilons: Sequence[float],
) -> Iterator[PaperCurve]:
    """Worst figures over all clusters and ordered pairs."""
    for accuracy in accuracies:
        made = [noises(means, covariances, accuracy) for means, covariances in groups]
        for kind in KINDS:
            worst = np.zeros((3, len(epsilons)))
            for (means, covariances), noise in zip(groups, made):
                first, second = np.array(
                    [
                        (i, j)
                        for i in range(len(means))
                        for j in range(len(means))
                        if i != j
                    ],
                    dtype=np.intp,
                ).T
                total = covariances + noise[kind]
                pair = GaussianPair(
                    means[first], total[first], means[second], total[second]
                )
                for place, epsilon in enumerate(epsilons):
                    worst[0, place] = max(
                        worst[0, place], float(np.max(pair.loss_tail(epsilon)))
                    )
                    worst[1, place] = max(
                        worst[1, place], float(np.max(pair.delta(epsilon)))
                    )
                if kind == "none":
                    worst[2] = 1.0
                    continue
                worst[2] = np.maximum(
                    worst[2], _released(means, noise[kind], first, second, epsilons)
                )
            for place, epsilon in enumerate(epsilons):
                yield PaperCurve(kind, accuracy, epsilon, *worst[:, place].tolist())
        shift = max(closest_shift(means, accuracy)[0] for means, _ in groups)
        for epsilon in epsilons:
            if shift > 0:
                delta = float(GaussianPair.mean_shift(shift).delta(epsilon))
            else:
                delta = 0.0
            yield PaperCurve("ours", accuracy, epsilon, None, None, delta)


def _released(
    means: Floats,
    noise: Floats,
    first: NDArray[np.intp],
    second: NDArray[np.intp],
    epsilons: Sequence[float],
) -> Floats:
    """Largest delta of constants with that noise; noise without a density gives its label away."""
    if np.any(
        np.linalg.eigvalsh(noise)[:, 0] < SMALLEST * np.trace(noise, axis1=1, axis2=2)
    ):
        return np.ones(len(epsilons))
    pair = GaussianPair(means[first], noise[first], means[second], noise[second])
    return np.array([float(np.max(pair.delta(epsilon))) for epsilon in epsilons])


def figure_3(
    models: HouseholdModels, readings: Readings, truth: Floats, count: int, seed: int
) -> list[Row]:
    """Normalised squared errors in kW of the first homes' forecasts: plain ARMA, white noise, Algorithm 1 repaired.

    Noise is added to the logarithm, as the paper does.
    """
    found = mmse_forecast(models.arma, models.season.residual(readings), HORIZON)
    level = models.season.after(readings, HORIZON)
    generator = np.random.default_rng(seed)
    rows: list[Row] = []
    for home in range(count):
        members = np.flatnonzero(models.cluster == models.cluster[home])
        made = noises(found.mean[members], found.error_covariance[members], FIGURE_3)
        place = int(np.flatnonzero(members == home)[0])
        row: Row = {"home": home + 1}
        for kind in KINDS:
            values, axes = np.linalg.eigh(made[kind][place])
            noise = axes @ (
                np.sqrt(np.maximum(values, 0.0)) * generator.normal(size=HORIZON)
            )
            forecast = np.exp(found.mean[home] + level[home] + noise)
            row[kind] = float(
                np.sum((forecast - truth[home]) ** 2) / np.sum(truth[home] ** 2)
            )
        rows.append(row)
    return rows
