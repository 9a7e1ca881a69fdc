"""Noise for boxes against the general covering ellipsoid over all vertices, an independent solver with a proven gap."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from gaussveil.calibration import covering_ellipsoid
from gaussveil.calibration.boxes import BoxNoise, box_noise
from gaussveil.calibration.prefix_sums import EITHER_SHARE, prefix_noise, prefix_rows, workload_noise
from gaussveil.errors import ParameterError


def _vertices(cells: int, touched: int, features: int) -> np.ndarray:
    """Every way to touch cells, with every sign of every feature."""
    moves = []
    for cell in itertools.product((0, 1), repeat=cells):
        if not 0 < sum(cell) <= touched:
            continue
        choices = [(-1, 1) if used else (0,) for used in cell] * features
        moves += [np.array([*cell, *signs]) for signs in itertools.product(*choices)]
    return np.array(moves, dtype=float)


def _covariance(noise: BoxNoise) -> np.ndarray:
    d = noise.cells
    blocks = [noise.own * np.eye(d) + noise.shared, *(variance * np.eye(d) for variance in noise.features)]
    whole = np.zeros((d * len(blocks), d * len(blocks)))
    for place, block in enumerate(blocks):
        whole[place * d : (place + 1) * d, place * d : (place + 1) * d] = block
    return whole


@pytest.mark.parametrize(("cells", "variance"), [(2, 4 / 3), (8, 3.636), (24, 8.69), (168, 48.7)])
def test_counts_with_all_cells_touched_have_the_derived_variance(cells: int, variance: float) -> None:
    assert box_noise(cells, cells).count_variance == pytest.approx(variance, rel=2e-3)


@pytest.mark.parametrize(("cells", "touched"), [(1, 1), (2, 1), (2, 2), (4, 2), (5, 3), (6, 6), (8, 8)])
def test_no_covariance_at_all_has_a_smaller_trace_for_counts(cells: int, touched: int) -> None:
    noise = box_noise(cells, touched)
    best = covering_ellipsoid(_vertices(cells, touched, 0), floor=1e-6)
    assert cells * noise.count_variance <= best.lower_bound * (1 + 1e-6) / (1 - best.relative_gap)
    assert cells * noise.count_variance >= best.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize(
    ("cells", "touched", "weights"),
    [(1, 1, (1.0,)), (3, 3, (1.0,)), (3, 2, (4.0,)), (3, 3, (0.1,)), (2, 2, (1.0, 3.0))],
)
def test_no_covariance_at_all_is_cheaper_with_features(cells: int, touched: int, weights: tuple[float, ...]) -> None:
    noise = box_noise(cells, touched, count_weight=0.7, feature_weights=weights)
    weight = np.diag(np.repeat([0.7, *weights], cells))
    best = covering_ellipsoid(_vertices(cells, touched, len(weights)), weight)
    cost = float(np.trace(weight @ _covariance(noise)))
    assert cost == pytest.approx(best.lower_bound, rel=1e-5)
    assert cost >= best.lower_bound * (1 - 1e-9)


@pytest.mark.parametrize("weights", [(1e-3,), (2.0, 0.1), (50.0, 1.0, 7.0)])
def test_one_cell_is_divided_at_the_square_of_all_roots(weights: tuple[float, ...]) -> None:
    """Of variances v with sum 1/v <= 1 the least sum of w v is the square of the sum of root w: Cauchy and Schwarz."""
    noise = box_noise(1, 1, count_weight=0.7, feature_weights=weights)
    cost = 0.7 * noise.count_variance + float(np.dot(weights, noise.features))
    least = float(np.sum(np.sqrt([0.7, *weights]))) ** 2
    assert least * (1 - 1e-14) <= cost <= least * (1 + 1e-12)


@pytest.mark.parametrize(("cells", "touched"), [(3, 2), (5, 5), (7, 3)])
@pytest.mark.parametrize("features", [0, 1, 2])
def test_the_stated_loss_is_that_of_the_worst_vertex(cells: int, touched: int, features: int) -> None:
    if cells * features > 10:
        cells, touched = 4, min(touched, 4)
    noise = box_noise(cells, touched, feature_weights=(1.0, 2.0)[:features])
    vertices = _vertices(cells, touched, features)
    inverse = np.linalg.inv(_covariance(noise))
    worst = max(float(v @ inverse @ v) for v in vertices)
    assert worst == pytest.approx(float(noise.squared_loss()), rel=1e-9)
    assert 0.999 < noise.squared_loss() <= 1


def test_few_cells_touched_of_many_need_white_noise_and_no_more() -> None:
    noise = box_noise(10_000, 3)
    assert noise.count_variance <= 3
    assert noise.count_variance == pytest.approx(3, rel=2e-3)


def test_touched_cells_beyond_all_cells_are_refused() -> None:
    with pytest.raises(ParameterError, match="touched must be"):
        box_noise(3, 4)


@pytest.mark.parametrize("bins", [1, 2, 16, 32, 33, 100])
def test_prefix_noise_hides_every_bin_and_is_near_the_best(bins: int) -> None:
    covariance = prefix_noise(bins)
    losses = np.diagonal(np.linalg.inv(covariance))
    assert np.all(losses <= 1)
    assert losses[0] == pytest.approx(1, rel=1e-4)
    rows = prefix_rows(EITHER_SHARE, bins)
    if bins > 2:
        best = covering_ellipsoid(np.eye(bins), rows.T @ rows, relative_gap=1e-3)
        ours = float(np.trace(rows @ covariance @ rows.T))
        assert ours <= (1.03 if bins <= 32 else 1.6) * best.lower_bound
        assert ours < 0.75 * float(np.trace(rows @ rows.T))  # of white noise


@pytest.mark.parametrize("share", [0.1, 0.5, 0.9])
def test_a_single_threshold_costs_what_one_unit_can_move_it(share: float) -> None:
    rows = prefix_rows((share,))
    assert rows.tolist() == [[1 - share, -share]]
    spread = math.sqrt((rows @ workload_noise(rows) @ rows.T).item())
    assert max(share, 1 - share) <= spread <= 1.02 * max(share, 1 - share)
