"""The pieces of a private mixture: what one record can lose, what clipping does, what shrinkage may claim."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from gaussveil.errors import NumericalError
from gaussveil.mechanisms.mixture.budget import (
    MOST_CLUSTERS,
    RefinementScales,
    classes_for,
    rows_per_unit_for,
    stage_budget,
)
from gaussveil.mechanisms.mixture.passes import PrivatePasses
from gaussveil.noise import SeededGenerator
from gaussveil.postprocessing.clipped_moments import mean_gain, mean_square, radius_from_quantile, shape_gain
from gaussveil.postprocessing.shrinkage import denoised, lifted, positive, shared_prior_means, towards_pool
from gaussveil.statistics import Labels, as_source

Float = NDArray[np.float64]


def squared_loss(z: Float, scales: RefinementScales) -> float:
    """One record's squared distance in noise deviations, from the covariances that are really used."""
    d = len(z)
    moved = np.concatenate([[1.0], z**2])
    counted = moved @ np.linalg.solve(scales.count_and_diagonal(d), moved)
    above, below = np.triu_indices(d, 1)
    off = np.sum((z[above] * z[below]) ** 2) / (scales.shape**2 / 2)
    return float(counted + np.sum(z**2) / scales.total**2 + off)


@given(
    d=st.integers(1, 6),
    seed=st.integers(0, 10**6),
    length=st.floats(0, 1),
    shift=st.floats(0.05, 3),
    mass=st.floats(0.5, 0.99),
)
def test_no_record_loses_more_than_the_stage_was_given(
    d: int, seed: int, length: float, shift: float, mass: float
) -> None:
    rho = radius_from_quantile(mass, d)
    scales = RefinementScales.split(
        shift, d, float(mean_gain(rho, np.ones(()), d)), float(shape_gain(rho, np.ones(()), d))
    )
    direction = np.random.default_rng(seed).normal(size=d)
    unit = direction / np.linalg.norm(direction)
    assert scales.squared_loss(d) == pytest.approx(shift**2, rel=1e-9)
    assert squared_loss(length * unit, scales) <= shift**2 * (1 + 1e-9)
    # both ends of |z| are as bad as it gets: nothing is given away
    assert squared_loss(unit, scales) == pytest.approx(shift**2, rel=1e-9)
    assert squared_loss(0 * unit, scales) == pytest.approx(shift**2, rel=1e-9)


@given(size=st.floats(1, 1e7), shift=st.floats(1e-3, 5), classes=st.integers(1, 20), d=st.integers(1, 12))
def test_the_stages_spend_the_whole_budget_and_no_more(size: float, shift: float, classes: int, d: int) -> None:
    radius = 7.0
    for first in (None, 0.25):
        budget = stage_budget(size, shift, classes, d, radius, first)
        spent = (
            1 / budget.count_scale**2 + (budget.centre_radius / budget.total_scale) ** 2 + 1 / budget.histogram_scale**2
        )
        assert 0.7 * radius <= budget.centre_radius <= radius
        spent += sum(one.squared_loss(d) for one in budget.refinements)
        assert spent == pytest.approx(shift**2, rel=1e-9)


def passes(count: int = 100, mean_shift: float = 1.0, rows_per_unit: int = 1) -> PrivatePasses:
    source = as_source(np.zeros((count, 2)), label=np.zeros(count, dtype=np.int64))
    group = Labels("label", [0, 1])
    return PrivatePasses(source, ("x0", "x1"), group, 2, rows_per_unit, 1, mean_shift, SeededGenerator(0))


def test_passes_refuse_to_overspend() -> None:
    one = passes(mean_shift=1.0)
    one.distances(np.zeros((2, 2)), np.array([0.0, 1.0, 2.0]), 1.25)  # 0.64 of the squared budget
    with pytest.raises(NumericalError, match="more than was charged"):
        one.distances(np.zeros((2, 2)), np.array([0.0, 1.0, 2.0]), 1.25)
    with pytest.raises(NumericalError, match="more than was charged"):
        passes(mean_shift=1.0, rows_per_unit=2).distances(np.zeros((2, 2)), np.array([0.0, 1.0]), 1.25)


@pytest.mark.parametrize("d", [1, 3, 12])
def test_clipping_gains_agree_with_simulation(d: int) -> None:
    generator = np.random.default_rng(d)
    rho, scale = radius_from_quantile(0.7, d), 1.3
    shift = np.zeros(d)
    shift[0] = 0.05
    stretch = np.ones(d)
    if d > 1:
        stretch[0], stretch[1] = 1.05, 0.95
    standard = generator.normal(size=(400_000, d))

    def clipped(y: Float) -> Float:
        z = y / rho
        return z / np.maximum(1, np.linalg.norm(z, axis=1, keepdims=True))

    still = clipped(math.sqrt(scale) * standard)
    assert np.mean(np.sum(still**2, axis=1)) == pytest.approx(float(mean_square(rho, np.array(scale), d)), abs=2e-3)
    # common random numbers: the difference is measured far more exactly than either mean
    moved = clipped(math.sqrt(scale) * standard + shift).mean(axis=0) - still.mean(axis=0)
    assert moved[0] == pytest.approx(0.05 * float(mean_gain(rho, np.array(scale), d)), rel=0.03)
    if d > 1:
        spread = clipped(math.sqrt(scale) * standard * np.sqrt(stretch))
        change = np.mean(spread**2, axis=0) - np.mean(still**2, axis=0)
        expected = scale * float(shape_gain(rho, np.array(scale), d)) * 0.05
        assert (change[0] - change[1]) / 2 == pytest.approx(expected, rel=0.05)


def test_shrinkage_is_between_the_value_and_the_pool_and_honest_about_what_is_left() -> None:
    generator = np.random.default_rng(5)
    errors, stated, raw = [], [], []
    for _ in range(200):
        truth = generator.normal(size=(6, 3)) * 0.5
        noise = np.array([0.1, 0.1, 1.0, 1.0, 4.0, 4.0])
        seen = truth + generator.normal(size=truth.shape) * np.sqrt(noise)[:, None]
        shrunk, left = towards_pool(seen, noise)
        errors.append(np.mean((shrunk - truth) ** 2, axis=1))
        stated.append(left)
        raw.append(np.mean((seen - truth) ** 2, axis=1))
    assert np.all(np.mean(errors, axis=0) < np.mean(raw, axis=0))
    assert np.mean(stated) == pytest.approx(np.mean(errors), rel=0.25)


@given(st.integers(1, 6), st.floats(1e-6, 4.0), st.integers(0, 2**32 - 1))
def test_lifted_matrices_are_positive_and_keep_their_traces(d: int, variance: float, seed: int) -> None:
    noise = np.random.default_rng(seed).normal(size=(3, d, d)) * math.sqrt(variance)
    noise = (noise + noise.transpose(0, 2, 1)) / 2
    shapes = np.eye(d) + noise - np.trace(noise, axis1=1, axis2=2)[:, None, None] / d * np.eye(d)
    found = lifted(shapes, np.full(3, variance))
    assert np.linalg.eigvalsh(found).min() > 0
    assert np.trace(found, axis1=1, axis2=2) == pytest.approx(np.full(3, d))


def test_classes_without_evidence_take_the_scale_of_the_others() -> None:
    points = np.linspace(-3, 3, 121)
    sharp = -np.square((points - 0.5) / 0.05) / 2
    means = shared_prior_means(points, np.stack([sharp, sharp, sharp, np.zeros_like(points)]))
    assert means[:3] == pytest.approx([0.5] * 3, abs=0.02)
    assert means[3] == pytest.approx(0.5, abs=0.1)


def test_positive_keeps_large_values_and_lifts_small_ones() -> None:
    assert positive(np.array([100.0]), 1.0)[0] == pytest.approx(100.01, abs=1e-3)
    assert positive(np.array([-5.0, 0.0]), 1.0) == pytest.approx([0.19258, 1.0], abs=1e-4)


def test_stretched_directions_survive_noise_and_noise_alone_does_not() -> None:
    """Symmetric noise as it is released: variance v on the diagonal, v/2 beside it."""
    generator = np.random.default_rng(3)
    d, variance = 12, 0.05
    direction = generator.normal(size=d)
    direction /= np.linalg.norm(direction)
    spike = 5.0 * (np.outer(direction, direction) - np.eye(d) / d)
    errors, quiet = [], []
    for _ in range(40):
        raw = generator.normal(size=(d, d)) * np.sqrt(variance)
        noise = (raw + raw.T) / 2
        errors.append((np.linalg.norm(denoised(spike + noise, variance)[0] - spike), np.linalg.norm(noise)))
        quiet.append(np.linalg.norm(denoised(noise, variance)[0]))
    assert np.mean([error for error, _ in errors]) < 0.75 * np.mean([size for _, size in errors])
    assert np.mean(quiet) < 0.5 * np.mean([size for _, size in errors])


def test_rules_choose_one_class_for_few_and_more_for_many() -> None:
    assert classes_for(404, 0.27, 12) == 1
    assert classes_for(10**6, 0.27, 12) == MOST_CLUSTERS
    assert [classes_for(size, 0.27, 3) for size in (10, 150, 250)] == [1, 2, 4]
    assert [rows_per_unit_for(404, shift, 12) for shift in (0.14, 0.27, 0.49, 9.0)] == [1, 2, 3, 4]


def test_shares_of_a_single_class_go_to_its_shape_as_columns_grow() -> None:
    last = [stage_budget(400, 0.27, 1, d, 1.0, None).refinements[-1].squared_loss(d) for d in (2, 3, 6, 12)]
    assert last[0] == pytest.approx(last[1])
    assert last[1] < last[2] < last[3]
    given = stage_budget(400, 0.27, 1, 12, 1.0, None, (0.1, 0.1, 0.3, 0.5))
    assert given.refinements[-1].squared_loss(12) == pytest.approx(0.5 * 0.27**2)
