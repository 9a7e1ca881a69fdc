from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import NotFiniteError, ParameterError, ShapeError
from gaussveil.timeseries import WeeklySeason, cluster_households, day_profiles


def test_separated_groups_are_found_and_numbered_by_size() -> None:
    generator = np.random.default_rng(1)
    groups = generator.permutation(np.repeat([0, 1, 2], [5, 20, 10]))
    found = cluster_households(10 * groups[:, None] + generator.standard_normal((35, 4)), 3)
    assert found.sizes.tolist() == [20, 10, 5]
    np.testing.assert_array_equal(found.labels, np.array([2, 0, 1])[groups])
    np.testing.assert_array_equal(found.members(2), np.flatnonzero(groups == 0))
    np.testing.assert_allclose(found.centres[:, 0], [10, 20, 0], atol=1.5)


def test_a_lone_outlier_is_not_left_alone() -> None:
    points = np.random.default_rng(2).standard_normal((20, 2))
    points[7] = 100.0
    assert cluster_households(points, 2, smallest=1).sizes.tolist() == [19, 1]
    assert cluster_households(points, 2).sizes.tolist() == [20]


@settings(max_examples=15)
@given(st.integers(2, 8), st.integers(1, 10), st.integers(0, 1000))
def test_every_cluster_has_the_smallest_size_and_the_same_seed_the_same_answer(
    count: int, smallest: int, seed: int
) -> None:
    points = np.random.default_rng(seed).standard_normal((25, 3))
    first, second = (cluster_households(points, count, smallest=smallest, seed=3) for _ in range(2))
    np.testing.assert_array_equal(first.labels, second.labels)
    assert first.sizes.sum() == 25
    assert first.sizes.min() >= smallest
    assert (np.diff(first.sizes) <= 0).all()
    for cluster in range(len(first.centres)):
        np.testing.assert_allclose(first.centres[cluster], points[first.members(cluster)].mean(axis=0), atol=1e-9)


def test_day_profiles_average_the_week_by_hour() -> None:
    mean = np.arange(2 * 7 * 96, dtype=float).reshape(2, 672)
    found = day_profiles(WeeklySeason(mean, 15, 0.01, weeks=2))
    assert found.shape == (2, 24)
    assert found[1, 5] == mean[1].reshape(7, 24, 4)[:, 5].mean()


def test_bad_input_is_refused() -> None:
    points = np.ones((4, 2))
    for call, error in (
        (lambda: cluster_households(points, 5), ParameterError),
        (lambda: cluster_households(points, 0), ParameterError),
        (lambda: cluster_households(points, 2, smallest=9), ParameterError),
        (lambda: cluster_households(np.ones(4), 2), ShapeError),
        (lambda: cluster_households(points * np.nan, 2), NotFiniteError),
        (lambda: cluster_households(points, 1).members(1), ParameterError),
    ):
        with pytest.raises(error):
            call()


def test_equal_households_leave_no_empty_cluster() -> None:
    points = np.repeat([[0.0, 0.0], [5.0, 5.0]], 4, axis=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = cluster_households(points, 6, smallest=1)
    assert found.sizes.tolist() == [4, 4]
    assert sorted(map(tuple, found.centres.tolist())) == [(0.0, 0.0), (5.0, 5.0)]
