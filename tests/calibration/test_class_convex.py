"""The best common noise of constant queries: closed forms, bounds that nothing undercuts, and every edge kept."""

from __future__ import annotations

import math
from itertools import combinations

import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil import PrivateForecaster, simulate_households
from gaussveil.calibration.class_cones import ConeProblem, Cones
from gaussveil.calibration.class_convex import GAP, least_common_noise, nearest_in_hull, solvable
from gaussveil.calibration.class_gradient import LabelModels, WorstDelta
from gaussveil.calibration.class_noise import design_class_noise
from gaussveil.calibration.class_search import Noise, measured
from gaussveil.mechanisms import ClassLabelNoise

Array = NDArray[np.float64]
FLOOR = 1e-4


def complete(count: int) -> NDArray[np.intp]:
    return np.array(list(combinations(range(count), 2)), dtype=np.intp)


def answer(means: Array, edges: NDArray[np.intp], floor: float = FLOOR, **asked: float) -> Noise:
    models = LabelModels(means, np.zeros((1, 1, 1)))
    return least_common_noise(models, edges, np.tile(means.mean(axis=0), (len(means), 1)), floor, **asked)


def squares(means: Array, noise: Noise, edges: NDArray[np.intp]) -> Array:
    """Squared Mahalanobis distances of the edges' centres, by solving with the covariance."""
    centres = means + noise.shifts
    gaps = centres[edges[:, 0]] - centres[edges[:, 1]]
    return np.asarray(np.sum(gaps * np.linalg.solve(noise.spreads[0], gaps.T).T, axis=1))


@pytest.mark.parametrize("square", [1e-3, 0.0747, 30.0])
@pytest.mark.parametrize("size", [1, 4])
def test_corners_of_a_simplex_have_a_closed_form(size: int, square: float) -> None:
    """By symmetry all are drawn to the middle by one factor and the noise is white: one quadratic in that factor."""
    count = size + 1
    corners = np.linalg.qr(np.eye(count) - 1 / count)[0][:, :size]
    corners = corners / np.linalg.norm(corners[0])
    price = 2 * count / square  # k g / t with g = 2 (k + 1) / k, the corners' squared distance
    cost = price / (1 + price)
    cheapest = answer(corners, complete(count), square=square)
    assert cheapest.cost == pytest.approx(cost, rel=2 * GAP)
    assert cheapest.gap is not None
    assert cheapest.gap <= GAP
    nearest = answer(corners, complete(count), budget=cost)
    assert math.exp(nearest.figure) == pytest.approx(square, rel=2 * GAP)


@pytest.mark.parametrize("asked", ["square", "budget"])
@pytest.mark.parametrize("count", [20, 45])
def test_every_edge_and_every_budget_is_kept_and_the_gap_is_small(count: int, asked: str) -> None:
    means = np.random.default_rng(count).normal(size=(count, 12))
    edges = complete(count)
    if asked == "square":
        noise = answer(means, edges, square=0.9)
        reached = noise.cost
    else:
        budget = 0.7 * float(np.max(np.sum((means - means.mean(axis=0)) ** 2, axis=1)))
        noise = answer(means, edges, budget=budget)
        reached = math.exp(noise.figure)
        assert noise.cost <= budget * (1 + 1e-12)
    worst = float(np.max(squares(means, noise, edges)))
    assert worst == pytest.approx(math.exp(noise.figure), rel=1e-9)
    if asked == "square":
        assert worst <= 0.9 * (1 + 1e-10)
    assert noise.gap is not None
    assert noise.gap <= GAP
    widths = np.linalg.eigvalsh(noise.spreads[0])
    assert widths[0] >= FLOOR * widths.mean() * (1 - 1e-9)
    assert reached > 0


def test_a_design_from_every_label_and_pair_finds_nothing_better() -> None:
    """Sequential quadratic programming on all labels and edges at once, which knows neither cones nor hulls."""
    from scipy.optimize import minimize

    means = np.random.default_rng(4).normal(size=(6, 2))
    edges = complete(6)
    noise = answer(means, edges, floor=1e-9, square=1.3)

    def parts(values: Array) -> tuple[Array, Array]:
        lower = np.array([[values[12], 0.0], [values[13], values[14]]])
        return values[:12].reshape(6, 2), lower @ lower.T

    def room(values: Array) -> Array:
        centres, spread = parts(values)
        gaps = centres[edges[:, 0]] - centres[edges[:, 1]]
        far = np.sum(gaps * np.linalg.solve(spread, gaps.T).T, axis=1)
        return np.concatenate([1.3 - far, values[15] - np.sum((centres - means) ** 2, axis=1) - np.trace(spread)])

    start = np.concatenate([(0.5 * means).ravel(), [2.0, 0.0, 2.0, 20.0]])
    rule = {"type": "ineq", "fun": room}
    other = minimize(
        lambda v: v[15], start, constraints=[rule], method="SLSQP", options={"maxiter": 500, "ftol": 1e-12}
    )
    centres, spread = parts(other.x)
    theirs = Noise(centres - means, np.tile(spread, (6, 1, 1)), math.inf)
    scaled = Noise(theirs.shifts, theirs.spreads * np.max(squares(means, theirs, edges)) / 1.3, math.inf)
    assert noise.cost <= scaled.cost * (1 + GAP) <= noise.cost * (1 + 1e-3)


@pytest.mark.parametrize("asked", ["square", "budget"])
def test_no_multipliers_promise_more_than_a_noise_reaches(asked: str) -> None:
    """Weak duality, with multipliers and noises that have nothing to do with each other."""
    generator = np.random.default_rng(7)
    means = generator.normal(size=(5, 3))
    means -= means.mean(axis=0)
    edges = complete(5)
    budget = 0.3 * float(np.max(np.sum(means**2, axis=1)))
    problem = ConeProblem(means, edges, FLOOR, **({"square": 2.0} if asked == "square" else {"budget": budget}))
    gaps = means[edges[:, 0]] - means[edges[:, 1]]
    bounds = []
    for _ in range(300):
        weights = generator.exponential(size=len(edges)) ** 2
        root = np.eye(3) + 0.5 * generator.normal(size=(3, 3))
        pairs = np.zeros((len(edges), 4, 4))
        pairs[:, 3, 3] = weights
        pairs[:, :3, 3] = -weights[:, None] * (gaps @ (root @ root.T) + 0.1 * generator.normal(size=gaps.shape))
        bounds.append(problem.bound(Cones(pairs, np.zeros((5, 4, 4)), np.zeros((3, 3)))).least)
    reached = []
    for _ in range(300):
        root = generator.normal(size=(3, 3))
        spread = root @ root.T
        spread = spread + FLOOR * np.trace(spread) * np.eye(3)
        noise = Noise(-generator.uniform(0.0, 1.0) * means, np.tile(spread, (5, 1, 1)), math.inf)
        if asked == "square":
            scale = float(np.max(squares(means, noise, edges))) / 2.0
            reached.append(Noise(noise.shifts, scale * noise.spreads, math.inf).cost)
            continue
        left = budget - float(np.max(np.sum(noise.shifts**2, axis=1)))
        if left > 0:
            scaled = Noise(noise.shifts, noise.spreads * left / np.trace(spread), math.inf)
            reached.append(float(np.max(squares(means, scaled, edges))))
    assert max(bounds) > 0.02 * min(reached)  # the bounds say something
    assert max(bounds) <= min(reached)


def test_other_graphs_keep_their_edges() -> None:
    means = np.random.default_rng(5).normal(size=(30, 4))
    path = np.array([[place, place + 1] for place in range(29)])
    noise = answer(means, path, square=0.5)
    assert float(np.max(squares(means, noise, path))) <= 0.5 * (1 + 1e-10)
    assert noise.gap is not None
    assert noise.gap <= GAP
    assert noise.cost < answer(means, complete(30), square=0.5).cost
    assert not solvable(LabelModels(np.zeros((2000, 4)), np.zeros((1, 1, 1))), np.array([[0, 1]]))


def test_points_of_a_hull_are_in_it_and_near() -> None:
    square = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
    targets = np.array([[0.3, 0.6], [2.0, 0.5], [-1.0, -3.0], [0.5, 1.25]])
    np.testing.assert_allclose(
        nearest_in_hull(square, targets), [[0.3, 0.6], [1.0, 0.5], [0.0, 0.0], [0.5, 1.0]], atol=1e-6
    )


def test_the_farthest_edge_has_the_worst_delta_of_a_common_covariance() -> None:
    means = np.random.default_rng(2).normal(size=(9, 3))
    design = design_class_noise(means, None, complete(9), epsilon=0.7, accuracy=0.9, common_covariance=True)
    models = LabelModels(means, np.zeros((9, 3, 3)))
    noise = Noise(design.noise_means, design.noise_covariances, math.inf)
    everything = measured(WorstDelta(models, complete(9), 0.7), noise)
    assert design.log_worst_delta == pytest.approx(-math.log1p(math.exp(-everything.figure)), rel=1e-9)


def test_releases_tell_their_gap() -> None:
    labels = ClassLabelNoise(epsilon=1.0, delta=0.05, common_covariance=True).design(
        np.random.default_rng(3).normal(size=(8, 3))
    )
    told = labels.release(2).certificate.parameters["duality_gap"]
    assert isinstance(told, float)
    assert 0 <= told <= GAP
    assert labels.plan_.duality_gap == told
    readings = simulate_households(6, 15, step_minutes=60, seed=1)
    forecaster = PrivateForecaster(horizon="2h", epsilon=2.0, delta=0.3, clusters=1, smallest_kept=0.0).fit(readings)
    told = forecaster.release("home00003").certificate.parameters["duality_gap"]
    assert isinstance(told, float)
    assert 0 <= told <= GAP
