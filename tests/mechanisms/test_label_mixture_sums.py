"""Class sums under label adjacency: what the public features add to them, and when they must not."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.mechanisms import MixtureModel, PrivateLabelMixture
from gaussveil.mechanisms.mixture.budget import RefinementScales
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.mechanisms.mixture.records import read_records
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.class_guess import RefinedSums
from gaussveil.postprocessing.feature_sums import _noise, _stacked, _Sums, features_are_used

Float = NDArray[np.float64]
Codes = NDArray[np.int64]

SCALES = RefinementScales.split(0.8, 2, 0.4, 0.1)


def by_sums(rows: Float, codes: Codes, epsilon: float, seed: int) -> MixtureModel:
    mechanism = PrivateLabelMixture(
        epsilon=epsilon,
        delta=1e-5,
        method="sums",
        classes=list(range(int(codes.max()) + 1)),
        generator=SeededGenerator(seed),
    )
    return mechanism.fit(rows, codes).model_


@pytest.mark.parametrize("seed", range(3))
def test_gaussian_classes_are_found_far_within_the_noise_of_their_sums(seed: int) -> None:
    """1500 records at epsilon 1: sums alone are 0.05 to 20 away from the fit on such sets."""
    generator = np.random.default_rng(seed)
    places = np.array([[0.0, 0, 0], [4, 0, 0], [0, 6, 0], [0, 0, 6], [6, 6, 0]])
    codes = np.repeat(np.arange(5), [600, 400, 300, 120, 80])
    roots = generator.normal(size=(5, 3, 4)) / 2
    rows = places[codes] + np.einsum("nij,nj->ni", roots[codes], generator.normal(size=(1500, 4)))
    fitted = MixtureModel.fitted(rows, codes, range(5))
    released = by_sums(rows, codes, 1.0, seed)
    assert released.joint_divergence(fitted) < 0.02
    assert fitted.joint_divergence(released) < 0.02


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_sums_refute_features_that_fall_into_other_groups(epsilon: float) -> None:
    """Two clusters side by side, classes mostly above and below: EM on the features takes the clusters for classes."""
    generator = np.random.default_rng(5)
    rows = generator.normal(size=(3000, 2)) + 5.0 * generator.choice([-1.0, 1.0], size=3000)[:, None] * [1.0, 0.0]
    codes = (rows[:, 1] + 0.1 * rows[:, 0] > 0).astype(np.int64)
    fitted = MixtureModel.fitted(rows, codes, range(2))
    released = by_sums(rows, codes, epsilon, 1)
    assert np.abs(released.means - fitted.means).max() < 1.0  # the clusters are 3 away


def test_labels_are_conditioned_on_the_sums_as_the_best_linear_prediction_is() -> None:
    """Labels drawn from the shares: the distance has its mean, and what is left is uncorrelated with the sums."""
    generator = np.random.default_rng(2)
    rows = generator.normal(size=(12, 2))
    shares = generator.dirichlet(np.ones(3), size=12)
    shares[0] = [1.0, 0.0, 0.0]
    means, maps = generator.normal(size=(3, 2)), generator.normal(size=(3, 2, 2)) / 2
    seen = RefinedSums(
        np.zeros(3),
        np.zeros((3, 2)),
        np.zeros((3, 2, 2)),
        np.zeros(3),
        SCALES,
        means,
        maps,
        SCALES.count_and_diagonal(2),
    )
    view = _Sums.of(rows, seen)
    draws = 6000
    labels = np.eye(3)[(generator.random((draws, 12, 1)) > np.cumsum(shares, axis=1)[:, :2]).sum(axis=2)]
    truth = np.einsum("enk,knp->ekp", labels, np.stack(view.added)).reshape(draws, -1)
    wanted = np.einsum("enk,np->ekp", labels, view.moments).reshape(draws, -1)
    root = np.linalg.cholesky(view.noise)
    observed = truth.reshape(draws, 3, -1) + generator.normal(size=(draws, 3, len(root))) @ root.T
    found = [dataclasses.replace(view, observed=one).conditioned(shares) for one in observed]
    distances = np.array([distance for distance, _ in found])
    left = wanted - np.array([moments.ravel() for _, moments in found])
    count = observed[0].size
    assert distances.mean() == pytest.approx(count, abs=6 * math.sqrt(2 * count / draws))
    deviations = np.std(left, axis=0)[:, None] * observed.reshape(draws, -1).std(axis=0) + 1e-9
    correlations = left.T @ (observed.reshape(draws, -1) - observed.reshape(draws, -1).mean(axis=0)) / draws
    assert np.abs(correlations / deviations).max() < 6 / math.sqrt(draws)
    assert np.abs(left.mean(axis=0)).max() < 6 * wanted.std(axis=0).max() / math.sqrt(draws)


def test_the_noise_taken_for_granted_is_the_noise_drawn() -> None:
    """Many empty classes: what the pass hands out is noise alone."""
    classes = 4000
    records = read_records(
        np.empty((0, 2)),
        np.empty(0, dtype=np.int64),
        classes=list(range(classes)),
        columns=None,
    )
    passes = PrivatePasses(records.source, records.columns, records.group, classes, 1, 2, 1.0, SeededGenerator(3))
    seen = passes.refinement(np.zeros((classes, 2)), np.broadcast_to(np.eye(2), (classes, 2, 2)), SCALES)
    second = seen.shape + ((seen.count - seen.slack) / 2)[:, None, None] * np.eye(2)
    drawn = np.concatenate([seen.count[:, None], seen.total, _stacked(second)], axis=1)
    white = np.linalg.solve(np.linalg.cholesky(_noise(seen)), drawn.T)
    assert np.abs(white @ white.T / classes - np.eye(6)).max() < 7 * math.sqrt(2 / classes)


@pytest.mark.parametrize("far", [0.3, 1e6])
def test_a_changed_label_moves_a_pass_by_what_two_records_may_and_no_more(far: float) -> None:
    """The same noise on neighbours: what is left of the difference is the shift. Far out it is the largest there is."""
    generator = np.random.default_rng(7)
    rows = generator.normal(size=(30, 2))
    rows[0] = [far, 0.0]
    codes = generator.integers(3, size=30)
    means, maps = generator.normal(size=(3, 2)), np.broadcast_to(np.eye(2), (3, 2, 2))
    handed = []
    for first in (0, 1):
        codes[0] = first
        records = read_records(rows, codes, classes=[0, 1, 2], columns=None)
        passes = PrivatePasses(records.source, records.columns, records.group, 3, 1, 2, 9.0, SeededGenerator(4))
        balls = passes.counts_and_sums(np.zeros(2), 2.0, (3.0, 5.0))
        handed.append(
            (*balls, passes.distances(means, np.array([0.0, 1.0, 4.0]), 2.0), passes.refinement(means, maps, SCALES))
        )
    (counts, sums, histogram, seen), (other_counts, other_sums, other_histogram, other) = handed

    def squared(one: Float, two: Float, scale: float) -> float:
        return float(np.sum(np.square((one - two) / scale)))

    ball = squared(counts, other_counts, 3.0) + squared(sums, other_sums, 5.0)
    refined = (
        squared(seen.count, other.count, SCALES.count)
        + squared(seen.total, other.total, SCALES.total)
        + squared(seen.shape, other.shape, SCALES.shape)
        + squared(seen.slack, other.slack, SCALES.slack)
    )
    assert ball <= 2 * (1 / 3.0**2 + (2.0 / 5.0) ** 2) * (1 + 1e-5)
    assert squared(histogram, other_histogram, 2.0) <= 2 / 2.0**2 * (1 + 1e-5)
    assert refined <= 2 * SCALES.squared_loss(2) * (1 + 1e-5)
    if far > 1:
        assert refined == pytest.approx(2 * SCALES.squared_loss(2), rel=1e-4)
        assert ball == pytest.approx(2 * (1 / 3.0**2 + (2.0 / 5.0) ** 2), rel=1e-4)


def test_few_or_many_records_leave_the_features_alone() -> None:
    assert features_are_used(1500, 5, 3)
    assert not features_are_used(70, 5, 3)
    assert not features_are_used(10**6, 5, 3)
    assert not features_are_used(50_000, 10, 20)


def test_features_in_a_subspace_leave_the_sums_as_they_are() -> None:
    """No covariance of the features has an inverse; the release comes out all the same."""
    generator = np.random.default_rng(1)
    codes = generator.integers(2, size=1000)
    line = generator.normal(size=1000) + 4.0 * codes
    released = by_sums(np.stack([line, 2 * line, np.zeros(1000)], axis=1), codes, 2.0, 1)
    assert np.linalg.eigvalsh(released.covariances).min() > 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_features_that_are_all_equal_leave_the_sums_as_they_are(seed: int) -> None:
    codes = np.random.default_rng(seed).integers(3, size=2500)
    released = by_sums(np.full((2500, 2), 1e6), codes, 2.0, seed)
    assert np.isfinite(released.log_density(np.full((1, 2), 1e6))).all()
