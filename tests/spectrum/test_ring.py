"""Bins on a ring: direct integration, large samples, and covariances that must lie above those of the strategy."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
import scipy

from gaussveil import BLT, BallsInBins, BandMF, MatrixMechanism
from gaussveil.spectrum.named_profile import profile_from_dict
from gaussveil.spectrum.subsampled.bins import RingAllocation
from gaussveil.spectrum.subsampled.ring import Ring, chained, ring_upper

CELLS = 512


def covariance(ring: Ring) -> np.ndarray:
    falling = scipy.linalg.toeplitz(chained(ring.decay, ring.bins))
    return np.asarray(ring.shift**2 + ring.chained * falling + ring.own * np.eye(ring.bins))


def integrated(inner: np.ndarray, epsilon: float) -> tuple[float, float]:
    """Both directions of delta of three bins, by Gauss' rule for the normal law in each of three dimensions."""
    nodes, weights = np.polynomial.hermite_e.hermegauss(60)
    weights = weights / weights.sum()
    points = np.array(list(itertools.product(nodes, repeat=3)))
    chances = np.array([math.prod(one) for one in itertools.product(weights, repeat=3)])
    exponents = points @ np.linalg.cholesky(inner).T - 0.5 * np.diag(inner)
    ratio = np.exp(exponents).mean(axis=1)
    level = math.exp(epsilon)
    ahead = chances @ np.maximum(ratio - level, 0.0)
    return float(ahead), float(chances @ np.maximum(1.0 - level * ratio, 0.0))


@pytest.mark.parametrize(("ring", "epsilon"), [(Ring(0.0, 0.4, 0.5, 0.3, 3), 0.1), (Ring(0.5, 0.2, 0.7, 0.4, 3), 0.7)])
def test_three_bins_by_integration(ring: Ring, epsilon: float) -> None:
    truth = integrated(covariance(ring), epsilon)
    for backward in (False, True):
        found = ring_upper([ring], epsilon, CELLS, backward=backward)
        assert truth[backward] * (1.0 - 3e-3) <= found <= truth[backward] * 1.01


def test_many_bins_by_samples() -> None:
    """A removed record, by samples with the record; an added one, by samples without."""
    ring = Ring(0.3, 0.8, 0.7, 0.3, 32)
    inner = covariance(ring)
    generator = np.random.default_rng(4)
    count = 40_000
    drawn = generator.standard_normal((count, ring.bins)) @ np.linalg.cholesky(inner).T
    drawn -= 0.5 * np.diag(inner)
    moved = drawn + inner[generator.integers(ring.bins, size=count)]
    level = math.exp(0.8)
    removed = np.maximum(1.0 - level / np.exp(moved).mean(axis=1), 0.0)
    added = np.maximum(1.0 - level * np.exp(drawn).mean(axis=1), 0.0)
    for shares, backward in ((removed, False), (added, True)):
        error = shares.std() / math.sqrt(count)
        found = ring_upper([ring], 0.8, CELLS, backward=backward)
        assert shares.mean() - 4.0 * error <= found <= 1.03 * shares.mean() + 4.0 * error


def by_hand() -> RingAllocation:
    return RingAllocation(1.0, (), (), (), rings=((0.2, 0.5, 0.6, 0.3),), ring_bins=8)


def test_an_epsilon_has_its_delta() -> None:
    law = by_hand()
    for one in (law, replace(law, backward=True)):
        found = one.epsilon(1e-3)
        assert 0.9e-3 <= one.delta(found) <= 1e-3
        assert found < one._plain().epsilon(1e-3)
    assert law.dp_epsilon(1e-3) == max(law.epsilon(1e-3), law.reversed().epsilon(1e-3))


def test_a_composition_is_as_without_rings() -> None:
    """Told for thousands of epsilons at once they made it wider, and slow."""
    law = MatrixMechanism(BandMF(48, bands=2), noise_multiplier=1.2, allocation=BallsInBins(24)).curve()
    assert isinstance(law, RingAllocation)
    assert law.compose(law).epsilon(1e-5) <= law._plain().compose(law._plain()).epsilon(1e-5) * (1.0 + 1e-6)


@pytest.mark.parametrize(("strategy", "bins"), [(BandMF(128, bands=4), 32), (BLT(128, buffers=3), 64)])
def test_rings_lie_above_the_strategy(strategy: BandMF | BLT, bins: int) -> None:
    """Every inner product of two bins is at most the ring's, as Kahane's inequality needs."""
    law = MatrixMechanism(strategy, noise_multiplier=2.0, allocation=BallsInBins(bins)).curve()
    assert isinstance(law, RingAllocation)
    matrix = strategy.matrix()
    means = np.stack([matrix[:, first::bins].sum(axis=1) for first in range(bins)]) / 2.0
    assert law.rings
    for shift, falls, decay, own in law.rings:
        assert np.all(means @ means.T <= covariance(Ring(shift, falls, decay, own, bins)))
        assert shift**2 + falls + own <= np.max(np.diag(means @ means.T)) * (1.0 + 1e-8)


def test_what_was_stored_without_rings_is_read() -> None:
    law = by_hand()
    before = law._plain()
    assert before.to_dict()["version"] == 1
    assert profile_from_dict(before.to_dict()) == before
    assert profile_from_dict(law.to_dict()) == law
