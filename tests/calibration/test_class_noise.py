"""Class-label noise: gradients, closed forms of constant queries, the paper's synthetic setting, both questions."""

from __future__ import annotations

import math
import sys
from itertools import combinations

import array_api_strict
import numpy as np
import pytest
from numpy.typing import NDArray

from gaussveil.calibration.class_common import Cover, common_noise, enclosing_centre
from gaussveil.calibration.class_gradient import DEVICE_EDGES, LabelModels, WorstDelta, WorstShift, log_delta_of
from gaussveil.calibration.class_noise import design_class_noise, label_edges
from gaussveil.calibration.class_search import Noise, PerLabel, Shared
from gaussveil.calibration.class_sequential import least_figure
from gaussveil.errors import NotFiniteError, NotPositiveDefiniteError, NotSymmetricError, ParameterError, ShapeError
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.curve import mean_shift_delta

Array = NDArray[np.float64]

LINE = np.outer(np.linspace(-1.0, 1.0, 4), (1.0, 0.75))  # means of the synthetic setting, 5/6 apart
FOUR = np.array(list(combinations(range(4), 2)))
CLOUD = np.random.default_rng(11).normal(size=(7, 3))
SEVEN = np.array(list(combinations(range(7), 2)))


def wishart(seed: int) -> Array:
    roots = np.random.default_rng(seed).normal(size=(4, 2, 2))
    return np.asarray(roots @ roots.transpose(0, 2, 1))


def worst_delta(means: Array, covariances: Array, edges: NDArray[np.intp], epsilon: float) -> float:
    ordered = np.concatenate([edges, edges[:, ::-1]])
    first, second = ordered.T
    pair = GaussianPair(means[first], covariances[first], means[second], covariances[second])
    return float(np.max(pair.delta(epsilon)))


@pytest.mark.parametrize("shape", [PerLabel, Shared])
@pytest.mark.parametrize("means", [True, False])
@pytest.mark.parametrize("swap", [True, False])
def test_slopes_in_the_parameters_are_differences(
    shape: type[PerLabel] | type[Shared], means: bool, swap: bool
) -> None:
    generator = np.random.default_rng(5)
    objective = WorstDelta(LabelModels(LINE, wishart(1)), FOUR, 1.0, swap)
    noise = Noise(0.1 * generator.normal(size=(4, 2)), np.tile(0.6 * np.eye(2), (4, 1, 1)), math.inf)
    around = shape.around(noise, 2.0, means)
    point = around.start() + 0.1 * generator.normal(size=around.start().size)
    direction = generator.normal(size=point.size)
    found = objective.smooth(*around.noise(point), 20.0)
    step = 1e-5
    ahead, back = (objective.smooth(*around.noise(point + side * step * direction), 20.0).value for side in (1, -1))
    along = around.slopes(point, found.shifts, found.spreads) @ direction
    assert along == pytest.approx((ahead - back) / (2 * step), abs=1e-6)
    shifts, spreads = around.noise(point)
    assert Noise(shifts, spreads, math.inf).cost <= 2.0 * (1 + 1e-12)


def test_the_slopes_of_the_mahalanobis_distance_are_differences() -> None:
    objective = WorstShift(LabelModels(CLOUD, np.zeros((7, 3, 3))), SEVEN)
    around = Shared.around(Noise(-0.2 * CLOUD, np.tile(np.eye(3), (7, 1, 1)), math.inf), 6.0, True)
    point, direction = around.start(), np.random.default_rng(6).normal(size=around.start().size)
    found = objective.smooth(*around.noise(point), 40.0)
    ahead, back = (objective.smooth(*around.noise(point + side * 1e-5 * direction), 40.0).value for side in (1, -1))
    assert around.slopes(point, found.shifts, found.spreads) @ direction == pytest.approx(
        (ahead - back) / 2e-5, abs=1e-6
    )


@pytest.mark.parametrize("kind", ["one order", "swap", "distance"])
def test_slopes_of_every_edge_are_differences(kind: str) -> None:
    generator = np.random.default_rng(7)
    models = LabelModels(LINE, 0 * wishart(1) if kind == "distance" else wishart(1))
    objective = WorstShift(models, FOUR) if kind == "distance" else WorstDelta(models, FOUR, 1.0, kind == "swap")
    shifts, spreads = 0.1 * generator.normal(size=(4, 2)), np.tile(0.6 * np.eye(2), (4, 1, 1))
    ways = generator.normal(size=(4, 2)), generator.normal(size=(4, 2, 2))
    ways = ways[0], ways[1] + ways[1].transpose(0, 2, 1)
    if kind == "distance":  # one spread for all
        ways = ways[0], np.tile(ways[1][0], (4, 1, 1))
    figures, shift_slopes, spread_slopes = objective.each(shifts, spreads)
    ahead, back = (
        objective.each(shifts + side * 1e-5 * ways[0], spreads + side * 1e-5 * ways[1])[0] for side in (1, -1)
    )
    along = np.einsum("eli,li->e", shift_slopes, ways[0]) + np.einsum("elij,lij->e", spread_slopes, ways[1])
    np.testing.assert_allclose(along, (ahead - back) / 2e-5, atol=1e-6)
    assert np.max(figures) == pytest.approx(np.max(objective.smooth(shifts, spreads, 1.0).figures), abs=1e-12)


@pytest.mark.parametrize("swap", [False, True])
def test_another_array_library_gives_the_same_numbers(swap: bool) -> None:
    """The path of a GPU, on the strict array namespace: it takes batches that are large enough."""
    generator = np.random.default_rng(9)
    roots = generator.normal(size=(24, 2, 2))
    models = LabelModels(generator.normal(size=(24, 2)), np.asarray(roots @ roots.transpose(0, 2, 1)))
    edges = np.array(list(combinations(range(24), 2)))
    assert len(edges) >= DEVICE_EDGES
    spreads = np.tile(0.5 * np.eye(2), (24, 1, 1))
    ours, other = (
        WorstDelta(models, edges, 1.0, swap, device).smooth(0 * models.means, spreads, 20.0)
        for device in (None, array_api_strict)
    )
    for one, same in zip(ours, other):
        np.testing.assert_allclose(same, one, rtol=1e-9, atol=1e-12)


def test_a_device_without_its_library_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)  # as if it were not installed
    edges = np.tile([[0, 1]], (DEVICE_EDGES, 1))
    objective = WorstDelta(LabelModels(np.zeros((2, 1)), np.ones((2, 1, 1))), edges, 1.0, device="cuda")
    with pytest.raises(ParameterError, match="needs PyTorch"):
        objective.smooth(np.zeros((2, 1)), np.ones((2, 1, 1)), 20.0)


def test_random_starts_of_small_problems_find_nothing_better(full: bool) -> None:
    """Quadratic steps from random starts end at the design's optimum or, now and then, stop above it."""
    cases = [(means, rho, seed) for means in (False, True) for rho in (0.5, 1.0) for seed in range(6)]
    generator = np.random.default_rng(8)
    for means, rho, seed in cases if full else cases[2:3]:
        objective = WorstDelta(LabelModels(LINE, wishart(seed)), FOUR, 1.0)
        design = design_class_noise(LINE, wishart(seed), FOUR, epsilon=1.0, accuracy=rho, noise_means=means)
        logs = []
        for _ in range(3):
            roots = generator.normal(size=(4, 2, 2))
            start = Noise(np.zeros((4, 2)), np.asarray(roots @ roots.transpose(0, 2, 1)), math.inf).within(2 * rho)
            found = least_figure(objective, start, 2 * rho, means, False)
            assert found.cost <= 2 * rho * (1 + 1e-12)
            logs.append(log_delta_of(found.figure))
        assert min(logs) == pytest.approx(design.log_worst_delta, abs=3e-4)


def test_enclosing_ball_of_known_points() -> None:
    simplex = np.vstack([np.eye(4), 0.3 * np.eye(4), np.full((1, 4), 0.25)])
    np.testing.assert_allclose(enclosing_centre(simplex), 0.25, atol=1e-6)
    np.testing.assert_allclose(enclosing_centre(np.array([[0.0, 0.0], [4.0, 0.0], [2.0, 1.0]])), [2.0, 0.0], atol=1e-6)


def test_shrinking_has_its_closed_form_and_the_common_optimum_is_better() -> None:
    models = LabelModels(CLOUD, np.zeros((7, 3, 3)))
    cover = Cover.of(models, SEVEN)
    budget = 0.5 * cover.radius**2
    shrunk = cover.shrunk(models, budget)
    assert shrunk.cost == pytest.approx(budget, rel=1e-12)
    square = math.exp(float(np.max(WorstShift(models, SEVEN).smooth(shrunk.shifts, shrunk.spreads, 1.0).figures)))
    trace = float(np.trace(cover.covariance))
    assert square == pytest.approx(trace * (1 / budget - 1 / cover.radius**2), rel=1e-3)
    found = common_noise(models, SEVEN, cover, budget, True)
    assert found.cost <= budget * (1 + 1e-9)
    assert math.exp(found.figure) < 0.97 * square
    # the problem is convex: no feasible noise nearby, nor any mixture with another one, is better
    generator = np.random.default_rng(3)
    for size in (1e-3, 1e-2, 0.1, 0.5):
        other = generator.normal(size=(3, 3))
        mixed = Noise(
            (1 - size) * found.shifts + size * generator.normal(size=(7, 3)) * math.sqrt(budget / 3),
            (1 - size) * found.spreads + size * budget / 9 * (other @ other.T),
            math.inf,
        ).within(budget)
        figure = np.max(WorstShift(models, SEVEN).smooth(mixed.shifts, mixed.spreads, 1.0).figures)
        assert figure >= found.figure - 2e-3


def test_the_papers_synthetic_setting(full: bool) -> None:
    """Means of six draws as measured in the design notes, to their last digit; white noise is worse on every draw.

    By default only the draw on which searches without floors stall; its optimum was also found by sequential
    quadratic programming.
    """
    everything = {
        (False, 0.5): 0.5544,
        (False, 1.0): 0.4110,
        (False, 2.0): 0.2617,
        (True, 0.5): 0.3584,
        (True, 1.0): 0.1737,
        (True, 2.0): 0.0525,
    }
    goals, seeds = (everything, range(6)) if full else ({(False, 0.5): 0.5930}, range(2, 3))
    for (means, rho), goal in goals.items():
        found = []
        for seed in seeds:
            design = design_class_noise(LINE, wishart(seed), FOUR, epsilon=1.0, accuracy=rho, noise_means=means)
            assert design.accuracy <= rho * (1 + 1e-12)
            exact = worst_delta(LINE + design.noise_means, wishart(seed) + design.noise_covariances, FOUR, 1.0)
            assert design.worst_delta == pytest.approx(exact, rel=1e-6)
            assert exact < worst_delta(LINE, wishart(seed) + rho * np.eye(2), FOUR, 1.0)
            found.append(exact)
        assert np.mean(found) < goal + 5e-5


def test_budget_for_delta_is_the_covering_ellipsoid_without_means() -> None:
    found = design_class_noise(CLOUD, None, SEVEN, epsilon=1.0, delta=1e-3, noise_means=False, common_covariance=True)
    cover = Cover.of(LabelModels(CLOUD, np.zeros((7, 3, 3))), SEVEN)
    shift = math.sqrt(np.trace(cover.covariance) / (3 * found.accuracy))
    assert found.worst_delta <= 1e-3
    assert float(mean_shift_delta(shift, np.array(1.0))) == pytest.approx(1e-3, rel=0.02)


def test_with_means_a_small_delta_costs_at_most_the_radius() -> None:
    cover = Cover.of(LabelModels(CLOUD, np.zeros((7, 3, 3))), SEVEN)
    found = design_class_noise(CLOUD, None, SEVEN, epsilon=1.0, delta=1e-3, common_covariance=True)
    assert found.worst_delta <= 1e-3
    assert found.accuracy < cover.radius**2 / 3
    assert found.retained_variance < 0.05
    centre = design_class_noise(CLOUD, None, SEVEN, epsilon=1.0, accuracy=1.01 * cover.radius**2 / 3)
    assert centre.kind == "centre"
    assert centre.worst_delta == 0.0
    assert centre.retained_variance == pytest.approx(0.0, abs=1e-20)


@pytest.mark.parametrize("kind", ["on a line", "nearly on a line", "two alike", "anywhere"])
def test_queries_in_awkward_places_reach_the_asked_delta_for_less_than_their_centre(kind: str) -> None:
    rng = np.random.default_rng(18)
    means = rng.normal(size=(9, 2))
    if kind == "two alike":
        means[1] = means[0]
    elif kind != "anywhere":
        means = np.outer(means[:, 0], [1.0, 0.3]) + (1e-6 * means if kind == "nearly on a line" else 0.0)
    edges = np.array(list(combinations(range(9), 2)))
    found = design_class_noise(means, None, edges, epsilon=0.63, delta=1.8e-6)
    reached = worst_delta(means + found.noise_means, found.noise_covariances, edges, 0.63)
    assert 0.99 * 1.8e-6 < reached <= 1.8e-6
    assert found.accuracy < Cover.of(LabelModels(means, np.zeros((9, 2, 2))), edges).radius ** 2 / 2


def test_promises_at_the_edge_of_what_doubles_hold_are_kept_or_refused() -> None:
    four = CLOUD[:4, :2]
    centre = design_class_noise(four, None, FOUR, epsilon=0.0, delta=1e-9)
    assert centre.kind == "centre"
    without = design_class_noise(four, None, FOUR, epsilon=0.0, delta=1e-9, noise_means=False, common_covariance=True)
    assert 0.99e-9 < worst_delta(four, without.noise_covariances, FOUR, 0.0) <= 1e-9
    with pytest.raises(ParameterError, match="delta must be larger"):
        design_class_noise(four, None, FOUR, epsilon=1.0, delta=1e-30, noise_means=False)


def test_a_spread_without_width_is_far_and_not_near() -> None:
    objective = WorstShift(LabelModels(CLOUD, np.zeros((7, 3, 3))), SEVEN)
    for seed in range(10):
        axis = np.random.default_rng(seed).normal(size=3)
        figures, *slopes = objective.each(
            np.zeros((7, 3)), np.tile(np.outer(axis, axis) + 1e-17 * np.eye(3), (7, 1, 1))
        )
        assert np.min(figures) > math.log(1e9)
        assert all(np.isfinite(one).all() for one in slopes)


def test_cheaper_noise_for_random_queries_reaches_the_asked_delta() -> None:
    means, covariances, edge = np.array([[0.0], [2.0]]), np.array([[[1.0]], [[0.4]]]), np.array([[0, 1]])
    found = design_class_noise(means, covariances, edge, epsilon=1.0, delta=0.1)
    assert worst_delta(means + found.noise_means, covariances + found.noise_covariances, edge, 1.0) <= 0.1
    assert found.worst_delta > 0.09
    less = design_class_noise(means, covariances, edge, epsilon=1.0, accuracy=0.8 * found.accuracy)
    assert less.worst_delta > 0.1


def test_components_of_the_graph_have_their_own_centres() -> None:
    apart = np.array([[0.0, 0.0], [1.0, 0.0], [100.0, 0.0], [101.0, 0.0]])
    cover = Cover.of(LabelModels(apart, np.zeros((4, 2, 2))), np.array([[0, 1], [2, 3]]))
    assert cover.radius == pytest.approx(0.5, rel=1e-6)
    np.testing.assert_allclose(cover.centres[:, 0], [0.5, 0.5, 100.5, 100.5], atol=1e-6)


def test_graphs() -> None:
    points = np.array([[0.0], [1.0], [3.0], [10.0]])
    names = ("a", "b", "c", "d")
    assert len(label_edges("complete", names, points)) == 6
    assert label_edges(("nearest", 1), names, points).tolist() == [[0, 1], [1, 2], [2, 3]]
    assert label_edges(("distance", 7.0), names, points).tolist() == [[0, 1], [0, 2], [1, 2], [2, 3]]
    assert label_edges([("b", "a"), ("d", "c"), ("a", "b")], names, points).tolist() == [[0, 1], [2, 3]]
    with pytest.raises(ParameterError, match="2 of 4 labels have nobody"):
        label_edges(("distance", 1.0), names, points)
    for wrong in ("star", ("nearest", 4), ("nearest", 1.5), ("distance", 0.0), ("ring", 2), [("a", "a")], [("a", "z")]):
        with pytest.raises(ParameterError):
            label_edges(wrong, names, points)  # type: ignore[arg-type]


def test_bad_input_is_refused() -> None:
    good = {"epsilon": 1.0, "accuracy": 1.0}
    with pytest.raises(ParameterError, match="exactly one of accuracy and delta"):
        design_class_noise(LINE, None, FOUR, epsilon=1.0)
    with pytest.raises(ParameterError, match="accuracy must be a finite number, above 0"):
        design_class_noise(LINE, None, FOUR, epsilon=1.0, accuracy=0.0)
    with pytest.raises(ParameterError, match=r"delta must be a number in \(0, 1\)"):
        design_class_noise(LINE, None, FOUR, epsilon=1.0, delta=1.0)
    with pytest.raises(ShapeError, match="at least 2 labels"):
        design_class_noise(LINE[:1], None, FOUR, **good)
    with pytest.raises(ShapeError, match="covariances must have shape"):
        design_class_noise(LINE, np.eye(2), FOUR, **good)
    with pytest.raises(NotFiniteError):
        design_class_noise(LINE * np.nan, None, FOUR, **good)
    with pytest.raises(NotSymmetricError):
        design_class_noise(LINE, np.tile([[1.0, 0.5], [0.0, 1.0]], (4, 1, 1)), FOUR, **good)
    with pytest.raises(NotPositiveDefiniteError):
        design_class_noise(LINE, np.tile(np.diag([1.0, -0.1]), (4, 1, 1)), FOUR, **good)
