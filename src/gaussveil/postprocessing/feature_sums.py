"""Noisy class sums put together with the features, where only labels are protected.

EM on both: given the features, labels are independent draws; the released sums are linear in them, with Gaussian noise
of known covariance, so the classes' moments follow by one Gaussian conditioning. Where released and expected sums are
too far apart for the model, the classes stay as the sums alone have them (docs/mechanisms/mixture.md).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from gaussveil.postprocessing.class_guess import RefinedSums
from gaussveil.postprocessing.maximisation import (
    expectation_maximisation,
    log_joint,
    posterior_shares,
)
from gaussveil.postprocessing.mixture_model import Parameters
from gaussveil.postprocessing.public_features import well_shaped
from gaussveil.typing import Floats

FEATURE_ROUNDS = 60
JOINT_ROUNDS = 10
DEVIATIONS = 3.0  # of a chi-square: sums further than so many from what the features say refute them
BORROWED = 1e-3  # records' worth of the pooled covariance in every class
SINGULAR = 1e-12  # variance of a class against that of all records
CERTAIN = 1e-9  # doubt about a record's class below which its label has no variance
MOST_ROWS = 100_000
MOST_PRODUCTS = 10**9


def features_are_used(size: int, classes: int, dimension: int) -> bool:
    """Whether records are so many that features show classes, and so few that nobody waits long; public numbers."""
    sums = classes * _moment_count(dimension)
    return (
        well_shaped(size, classes, dimension)
        and size <= MOST_ROWS
        and size * sums**2 <= MOST_PRODUCTS
    )


def with_features(rows: Floats, released: Parameters, seen: RefinedSums) -> Parameters:
    """The classes that features and the sums last released make likely, or those released where the two disagree."""
    try:
        distance, joint = _together(rows, released, _Sums.of(rows, seen))
    except np.linalg.LinAlgError:  # features in a subspace
        return released
    count = seen.count.size * _moment_count(rows.shape[1])
    if distance <= count + DEVIATIONS * math.sqrt(2 * count):
        return joint
    return released


def _together(
    rows: Floats, released: Parameters, view: _Sums
) -> tuple[float, Parameters]:
    """EM on the features, then on features and sums; how far the sums are from the end, in squared deviations."""
    even = np.zeros((len(rows), len(view.added)))
    _, classes = expectation_maximisation(rows, even, released, FEATURE_ROUNDS)
    distance = math.inf
    for _ in range(JOINT_ROUNDS):
        distance, moments = view.conditioned(
            posterior_shares(log_joint(rows, *classes))
        )
        classes = view.classes_of(moments)
    return distance, classes


@dataclass(frozen=True, eq=False)
class _Sums:
    """What every record adds to the released sums of each class, were it in it, and to the moments of a class."""

    added: tuple[Floats, ...]
    moments: Floats
    observed: Floats
    noise: Floats
    middle: Floats
    spread: Floats

    @classmethod
    def of(cls, rows: Floats, seen: RefinedSums) -> _Sums:
        middle = rows.mean(axis=0)
        spread = rows.std(axis=0) + 1e-300
        added = []
        for mean, scale in zip(seen.means, seen.maps):
            z = (rows - mean) @ scale.T
            added.append(
                _moments(z / np.maximum(1.0, np.linalg.norm(z, axis=1))[:, None])
            )
        d = rows.shape[1]
        second = seen.shape + ((seen.count - seen.slack) / d)[:, None, None] * np.eye(d)
        observed = np.concatenate(
            [seen.count[:, None], seen.total, _stacked(second)], axis=1
        )
        return cls(
            tuple(added),
            _moments((rows - middle) / spread),
            observed,
            _noise(seen),
            middle,
            spread,
        )

    def conditioned(self, shares: Floats) -> tuple[float, Floats]:
        """Squared distance of the released sums from the expected ones, and the classes' moments given both."""
        expected = np.concatenate(
            [part[:, None] * own for part, own in zip(shares.T, self.added)], axis=1
        )
        moments = np.concatenate(
            [part[:, None] * self.moments for part in shares.T], axis=1
        )
        doubted = shares.max(axis=1) < 1 - CERTAIN
        some = expected[doubted]
        other = moments[doubted]
        # a label is one of K: its indicators have covariance diag(share) - share share'
        variance = -some.T @ some
        together = -other.T @ some
        size = self.moments.shape[1]
        for k, own in enumerate(self.added):
            place = slice(k * size, (k + 1) * size)
            variance[place, place] += own[doubted].T @ some[:, place] + self.noise
            together[place, place] += self.moments[doubted].T @ some[:, place]
        gap = self.observed.ravel() - expected.sum(axis=0)
        solved = np.linalg.solve(variance, gap)
        return float(gap @ solved), (moments.sum(axis=0) + together @ solved).reshape(
            len(self.added), -1
        )

    def classes_of(self, moments: Floats) -> Parameters:
        """Weights, means and covariances of such moments; an error where no class can have them."""
        counts = moments[:, 0]
        if not (np.isfinite(moments).all() and (counts > 0).all()):
            raise np.linalg.LinAlgError("no counts")
        d = len(self.middle)
        means = moments[:, 1 : 1 + d] / counts[:, None]
        scatter = (
            _matrices(moments[:, 1 + d :], d)
            - counts[:, None, None] * means[:, :, None] * means[:, None, :]
        )
        pool = scatter.sum(axis=0) / counts.sum()
        covariances = (scatter + BORROWED * pool) / (counts + BORROWED)[:, None, None]
        if not np.linalg.eigvalsh(covariances).min() > SINGULAR:
            raise np.linalg.LinAlgError("no covariance")
        weights = counts / counts.sum()
        return (
            weights,
            self.middle + self.spread * means,
            covariances * np.outer(self.spread, self.spread),
        )


def _moment_count(dimension: int) -> int:
    return 1 + dimension + dimension * (dimension + 1) // 2


def _roots(dimension: int) -> tuple[NDArray[np.intp], NDArray[np.intp], Floats]:
    """Entries on and above the diagonal; those above count twice in a matrix's squared length."""
    above, below = np.triu_indices(dimension)
    return above, below, np.where(above == below, 1.0, math.sqrt(2.0))


def _moments(rows: Floats) -> Floats:
    """(1, x, xx' stacked) of every row."""
    above, below, roots = _roots(rows.shape[1])
    return np.concatenate(
        [np.ones((len(rows), 1)), rows, rows[:, above] * rows[:, below] * roots], axis=1
    )


def _stacked(matrices: Floats) -> Floats:
    above, below, roots = _roots(matrices.shape[-1])
    return np.asarray(matrices[:, above, below] * roots)


def _matrices(stacked: Floats, dimension: int) -> Floats:
    above, below, roots = _roots(dimension)
    matrices = np.empty((len(stacked), dimension, dimension))
    matrices[:, above, below] = matrices[:, below, above] = stacked / roots
    return matrices


def _noise(seen: RefinedSums) -> Floats:
    """Covariance of the noise in one class's (count, sum z, sum zz' stacked)."""
    d = seen.total.shape[1]
    above, below, _ = _roots(d)
    covariance = np.zeros((_moment_count(d), _moment_count(d)))
    sums = np.arange(1, 1 + d)
    off = 1 + d + np.flatnonzero(above != below)
    joint = np.concatenate([[0], 1 + d + np.flatnonzero(above == below)])
    covariance[sums, sums] = seen.scales.total**2
    covariance[off, off] = seen.scales.shape**2
    covariance[np.ix_(joint, joint)] = seen.joint_noise
    return covariance
