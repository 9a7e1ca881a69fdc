from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone

from gaussveil.accounting import Adjacency, Ledger, verify
from gaussveil.calibration import covering_ellipsoid
from gaussveil.errors import GaussveilError, ParameterError, ShapeError
from gaussveil.mechanisms import LiftedGaussian
from gaussveil.noise import SeededGenerator
from gaussveil.noise.random_centre import RandomCentre

WIDE = np.array([[2.0, 0.6, 0.0], [0.6, 1.0, 0.2], [0.0, 0.2, 0.5]])


def mean_gap(variance: float) -> float:
    return 1.0 / math.sqrt(0.4 + variance)


def log_ratio(variance: float) -> float:
    return math.log1p(0.1 / (0.4 + variance))


def constant(data: Any) -> tuple[Any, Any]:
    return np.array([1.0, -2.0, 0.5]), WIDE


def lifted(**changes: Any) -> LiftedGaussian:
    design = {
        "algorithm": constant,
        "dimension": 3,
        "epsilon": 1.0,
        "delta": 0.01,
        "mean_gap": mean_gap,
        "log_ratio": log_ratio,
        "mean_bound": 8.0,
        "largest_variance": 2.5,
        "smallest_variance": 0.4,
    }
    return LiftedGaussian(**{**design, **changes})


def test_draws_have_the_posterior_covariance_plus_the_added_variance(full: bool) -> None:
    mechanism, count = lifted(), 4000 if full else 1500
    plan = mechanism.plan()
    assert plan.covered_variance == 0.2
    assert plan.added_variance > 0
    generator = SeededGenerator(11)
    factor = np.linalg.cholesky(WIDE - 0.2 * np.eye(3))
    mean = constant(None)[0]
    noise = np.stack([plan.draw(mean, factor, generator) - mean for _ in range(count)])
    total = WIDE + plan.added_variance * np.eye(3)
    standard = np.linalg.solve(np.linalg.cholesky(total), noise.T)
    assert kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert np.max(np.abs(np.cov(standard) - np.eye(3))) < 5 / np.sqrt(count)
    # without the added variance the same test would fail
    assert kstest(np.linalg.solve(np.linalg.cholesky(WIDE), noise.T).ravel(), "norm").pvalue < 1e-6


def test_shaped_noise_has_its_shape_and_the_promise_of_the_white_one(full: bool) -> None:
    count = 1500 if full else 300
    shape = np.array([[3.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 0.25]])
    mechanism = lifted(noise_shape=shape)
    added = mechanism.plan().added_variance
    assert added == lifted().plan().added_variance  # the same sensitivities, stated under that noise
    generator = SeededGenerator(5)
    releases = [lifted(noise_shape=shape, generator=generator).release(None) for _ in range(count)]
    noise = np.stack([release.value for release in releases]) - constant(None)[0]
    standard = np.linalg.solve(np.linalg.cholesky(WIDE + added * shape), noise.T)
    assert kstest(standard.ravel(), "norm").pvalue > 1e-3
    assert np.max(np.abs(np.cov(standard) - np.eye(3))) < 5 / np.sqrt(count)
    assert releases[0].certificate.parameters["noise_shape"] == shape.tolist()
    assert verify(releases[0].certificate).ok


def test_the_covering_ellipsoid_is_the_shape_of_least_trace() -> None:
    """Differences of means 4 along one axis, 0.1 along the others, no spread of its own."""
    differences = np.diag([4.0, 0.1, 0.1])
    shape = covering_ellipsoid(differences).covariance

    def distance(noise: Any, variance: float) -> float:
        if variance == 0:
            return math.inf
        return max(math.sqrt(step @ np.linalg.solve(variance * noise, step)) for step in differences)

    traces = []
    for noise in (np.eye(3), shape):
        plan = lifted(
            algorithm=lambda data: (np.zeros(3), np.zeros((3, 3))),
            mean_gap=partial(distance, noise),
            log_ratio=lambda variance: 0.0,
            noise_shape=noise,
            smallest_variance=0.0,
            largest_variance=0.0,
        ).plan()
        traces.append(plan.added_variance * float(np.trace(noise)))
    white, least = traces
    assert least == pytest.approx(white * (4.0**2 + 0.1**2 + 0.1**2) / (3 * 4.0**2), rel=1e-3)


def test_a_bound_on_the_log_determinant_is_used() -> None:
    without = lifted(rank=2).plan().added_variance
    same = lifted(rank=2, log_determinant=lambda variance: 2 * log_ratio(variance)).plan().added_variance
    less = lifted(rank=2, log_determinant=lambda variance: log_ratio(variance) / 2).plan().added_variance
    assert less < same == without


def test_grid_words_and_widths_are_the_same_whatever_the_moments() -> None:
    plan = lifted().plan()
    spent = []
    for mean, factor in ((np.zeros(3), np.eye(3) * 0.1), (np.array([7.0, 0.1, 0.0]), np.linalg.cholesky(WIDE))):
        generator = SeededGenerator(4)
        output = plan.draw(mean, factor, generator)
        assert np.array_equal(output / plan.sampler.noise.grid, np.rint(output / plan.sampler.noise.grid))
        spent.append(generator.uint64(1)[0])  # where the stream stands after the draw
    assert spent[0] == spent[1]


def test_no_variance_is_added_where_the_spread_suffices() -> None:
    mechanism = lifted(delta=0.4)
    assert mechanism.plan().added_variance == 0.0
    certificate = mechanism.release([1]).certificate
    assert verify(certificate).private
    assert certificate.parameters["added_variance"] == 0.0
    with pytest.raises(ParameterError, match="smallest_variance"):
        lifted(delta=0.4, smallest_variance=0.0).release([1])


def test_composition_by_a_pair_costs_more_noise_and_is_one_gaussian_pair(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "spent.ledger").open_account("people", epsilon=3.0, delta=0.1)
    mechanism = lifted(composition="pair", account=account)
    release = mechanism.release([1])
    assert mechanism.added_variance_ > lifted().plan().added_variance
    assert "Gaussian pair" in release.certificate.charge.describe()
    assert verify(release.certificate).private
    assert [entry.state for entry in Ledger(account.ledger).entries("people")] == ["released"]
    assert clone(mechanism).account == account


def test_orientation_follows_wider() -> None:
    for wider, law in (("with", "X"), ("without", "Y"), ("either", "either")):
        assert lifted(wider=wider).plan().cost.wider == law  # type: ignore[union-attr]


@pytest.mark.parametrize(
    "changes",
    [
        {"wider": "left"},
        {"wider": "either", "composition": "pair"},
        {"rank": 0},
        {"rank": 4},
        {"rank": True},
        {"composition": "sum"},
        {"epsilon": -1.0},
        {"epsilon": "1"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"mean_bound": math.inf},
        {"mean_bound": 1e12},
        {"largest_variance": -1.0},
        {"delta": 1e-13},
        {"generator": np.random.default_rng(1)},
        {"mean_gap": lambda variance: -1.0},
        {"noise_shape": np.eye(2)},
        {"noise_shape": np.diag([1.0, 1.0, 0.0])},
        {"noise_shape": np.triu(np.ones((3, 3)))},
    ],
    ids=",".join,
)
def test_bad_parameters_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(GaussveilError):
        lifted(**changes).release([1])


def test_moments_of_the_wrong_shape_or_size_are_refused() -> None:
    with pytest.raises(ShapeError, match="mean of shape"):
        lifted(algorithm=lambda data: (np.zeros(2), WIDE)).release([1])
    with pytest.raises(ParameterError, match="adjacency"):
        lifted(adjacency="home").release([1])


def test_moments_that_are_not_finite_count_as_zero_and_refuse_nothing() -> None:
    broken, zero = (np.array([1.0, np.nan, -np.inf]), WIDE), (np.array([1.0, 0.0, 0.0]), WIDE)
    made = [
        lifted(algorithm=lambda data, moments=moments: moments, generator=SeededGenerator(2)).release([1]).value
        for moments in (broken, zero)
    ]
    assert np.array_equal(*made)


def test_the_certificate_says_what_is_the_owners_word() -> None:
    certificate = lifted(adjacency=Adjacency.replace_one("meter")).release([1]).certificate
    assert certificate.adjacency.unit == "meter"
    assert sum("the owner states" in line for line in certificate.assumptions) == 2


def test_sampler_states_an_error_that_holds_its_parts() -> None:
    sampler = RandomCentre(exact_variance=1.0, largest_variance=4.0, dimension=5, mean_bound=100.0)
    parts = sampler.noise.total_variation + sampler.noise.centre_total_variation + 0.4 * sampler.arithmetic_allowance
    assert parts <= sampler.total_variation < 1e-11
    with pytest.raises(ParameterError, match="dimension"):
        RandomCentre(exact_variance=1.0, largest_variance=4.0, dimension=0, mean_bound=1.0)
