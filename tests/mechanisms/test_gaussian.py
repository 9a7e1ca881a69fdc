from __future__ import annotations

import inspect
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from gaussveil.accounting import Adjacency, Ledger, verify
from gaussveil.errors import BudgetExceededError, GaussveilError, NotFiniteError, ParameterError, ShapeError
from gaussveil.mechanisms import GaussianRelease
from gaussveil.noise import SeededGenerator

Matrix = NDArray[np.float64]
SHAPE = np.array([[4.0, 1.0, 0.0], [1.0, 2.0, 0.3], [0.0, 0.3, 1.0]])
SHIFTS = np.array([[1.0, 0.0, 0.0], [0.0, 0.2, 0.0], [0.5, 0.1, -0.3]])

ANALYTIC = 4.2246788893268352830  # sigma at (1, 1e-6) and sensitivity 1, solved with 50 digits in mpmath


def mechanism(**changes: Any) -> GaussianRelease:
    return GaussianRelease(**{"epsilon": 1.0, "delta": 1e-6, "l2_sensitivity": 1.0, **changes})


def shifted(**changes: Any) -> GaussianRelease:
    return mechanism(l2_sensitivity=None, shifts=SHIFTS, **changes)


def test_white_noise_is_that_of_the_analytic_gaussian_mechanism() -> None:
    deviation = mechanism().plan(3).standard_deviation
    assert ANALYTIC <= deviation <= ANALYTIC * (1 + 2e-6)  # the grid costs about one part in a million


@pytest.mark.parametrize(
    ("design", "differences"),
    [
        (mechanism(), None),
        (mechanism(covariance_shape=SHAPE), None),
        (shifted(), SHIFTS),
        (shifted(covariance_shape=SHAPE), SHIFTS),
    ],
)
def test_rounded_neighbours_are_no_further_apart_than_the_certificate_says(
    design: GaussianRelease, differences: Matrix | None
) -> None:
    """The theorem's premise, for the covariance really drawn less the lattice's share, and for rounded neighbours."""
    plan, rng = design.plan(3), np.random.default_rng(5)
    covariance = plan.noise.continuous_covariance
    covariance = covariance * np.eye(3) if isinstance(covariance, float) else covariance
    if differences is None:
        _, basis = np.linalg.eigh(covariance)
        differences = np.concatenate([basis.T, rng.normal(size=(100, 3))])
        differences /= np.linalg.norm(differences, axis=1)[:, None]
    grid, value = plan.noise.grid, rng.normal(size=(len(differences), 3))
    gap = np.rint((value + differences) / grid) * grid - np.rint(value / grid) * grid
    distance = np.sqrt(np.einsum("ij,jk,ik->i", gap, np.linalg.inv(covariance), gap))
    assert distance.max() <= plan.mean_shift
    assert distance.max() == pytest.approx(plan.mean_shift, rel=3e-3)


@given(
    epsilon=st.floats(0.05, 8.0),
    log10_delta=st.floats(-12.0, -2.0),
    sensitivity=st.floats(1e-6, 1e6),
    size=st.integers(1, 400),
)
@settings(derandomize=True, deadline=None, max_examples=15)
def test_every_promise_is_certified_within_it(
    epsilon: float, log10_delta: float, sensitivity: float, size: int
) -> None:
    design = GaussianRelease(epsilon=epsilon, delta=10.0**log10_delta, l2_sensitivity=sensitivity)
    certificate = design.release(np.zeros(size)).certificate
    assert certificate.delta_upper <= certificate.delta == 10.0**log10_delta
    assert certificate.delta_upper >= certificate.delta * (1 - 1e-12)
    assert verify(certificate).private


@pytest.mark.parametrize(
    "value",
    [
        np.float64(3.0),
        np.zeros(3),
        np.zeros((4, 3)),
        np.zeros((2, 2, 3)),
        np.zeros(3, dtype=np.int32),
        np.zeros(3, dtype=bool),
        np.zeros(3, dtype=np.float32),
    ],
)
def test_any_shape_and_real_type(value: Any) -> None:
    released = mechanism().release(value).value
    assert np.shape(released) == np.shape(value)
    assert released.dtype == np.float64


def test_a_matrix_is_coloured_along_its_last_axis_or_as_a_whole() -> None:
    assert mechanism(covariance_shape=SHAPE).plan((5, 3)).noise.shape == (5, 3)
    assert mechanism(covariance_shape=np.eye(6)).plan((2, 3)).noise.covariance.shape == (6, 6)  # type: ignore[union-attr]
    assert shifted().plan((3,)).noise.covariance.shape == (3, 3)  # type: ignore[union-attr]
    grid_of_shifts = mechanism(l2_sensitivity=None, shifts=np.ones((2, 2, 3)))
    assert grid_of_shifts.release(np.zeros((2, 3))).value.shape == (2, 3)


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
@pytest.mark.parametrize(("rows", "columns"), [(2, 2), (3, 2), (2, 3), (1, 3), (3, 1)])
def test_every_number_stays_in_its_cell(frame: Any, rows: int, columns: int) -> None:
    table = 1e4 * np.arange(rows * columns).reshape(rows, columns)  # noise stays below 60
    names = [f"c{j}" for j in range(columns)]
    given_frame = frame({name: table[:, j] for j, name in enumerate(names)})
    released = mechanism().release(given_frame).value
    assert list(released.columns) == names
    assert np.array_equal(np.rint(released.to_numpy() / 1e4), table / 1e4)


def test_containers_come_back_as_they_came() -> None:
    design = mechanism()
    frame = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}, index=["x", "y"])
    out = design.release(frame).value
    assert list(out.columns) == ["a", "b"]
    assert list(out.index) == ["x", "y"]
    assert design.release(frame["a"]).value.name == "a"
    assert design.release(pl.DataFrame({"a": [1, 2], "b": [3, 4]})).value.columns == ["a", "b"]
    assert isinstance(design.release(pl.Series("s", [1.0, 2.0])).value, pl.Series)
    assert isinstance(design.release([[1, 2], [3, 4]]).value, list)


def test_plan_needs_no_data_and_can_read_its_shape() -> None:
    assert shifted().plan().noise.shape == (3,)
    assert mechanism(covariance_shape=SHAPE).plan().noise.shape == (3,)
    with pytest.raises(ParameterError, match="shape must be given"):
        mechanism().plan()
    plan = mechanism().plan(3)
    assert plan.charge.sampler_error == plan.noise.total_variation > 0


def test_certificate_says_what_it_rests_on() -> None:
    design = mechanism(adjacency=Adjacency.replace_one("home"))
    certificate = design.release(np.zeros(3), released="mean load").certificate
    assert design.certificate_ is certificate
    assert certificate.released == "mean load"
    assert certificate.adjacency == Adjacency.replace_one("home")
    assert certificate.parameters["grid"] == design.plan(3).noise.grid
    assert certificate.parameters["noise_covariance"] == design.plan(3).noise.covariance
    assert any("l2 norm" in line for line in certificate.assumptions)
    assert any("3 public shifts" in line for line in shifted().release(np.zeros(3)).certificate.assumptions)
    ball = Adjacency.l2_ball(1.0, space="vector", unit="home")
    assert mechanism(adjacency=ball).release([0.0]).certificate.adjacency == ball


def test_seeded_noise_is_repeatable_and_carries_no_guarantee() -> None:
    one, two = (mechanism(generator=SeededGenerator(4)).release(np.zeros(3)) for _ in range(2))
    assert np.array_equal(one.value, two.value)
    assert str(one.certificate.guarantee) == "none (seeded)"
    assert not verify(one.certificate).private


def test_a_coarser_grid_costs_noise_and_is_kept() -> None:
    coarse = mechanism(grid=2.0**-4).plan(4)
    assert coarse.noise.grid == 2.0**-4
    assert coarse.standard_deviation == pytest.approx(np.hypot(1.125 / coarse.mean_shift, 2 * 2.0**-4), rel=1e-4)
    # a value too large for the default grid is released on a coarser one
    with pytest.raises(ParameterError, match="coarser"):
        mechanism().release([1e12])
    assert abs(mechanism(grid=2.0**-4).release([1e12]).value[0] - 1e12) < 1e3


@pytest.mark.parametrize(
    ("design", "value", "error"),
    [
        (mechanism(epsilon=-1.0), [0.0], ParameterError),
        (mechanism(epsilon=None), [0.0], ParameterError),
        (mechanism(delta=0.0), [0.0], ParameterError),
        (mechanism(delta=1e-33), [0.0], ParameterError),
        (mechanism(l2_sensitivity=-1.0), [0.0], ParameterError),
        (mechanism(l2_sensitivity=float("inf")), [0.0], ParameterError),
        (mechanism(l2_sensitivity=None), [0.0], ParameterError),
        (mechanism(shifts=SHIFTS), [0.0, 0.0, 0.0], ParameterError),
        (mechanism(adjacency="swap"), [0.0], ParameterError),
        (mechanism(generator=np.random.default_rng(1)), [0.0], ParameterError),
        (mechanism(grid=0.3), [0.0], ParameterError),
        (mechanism(covariance_shape=SHAPE), [0.0, 0.0], ShapeError),
        (shifted(), [0.0, 0.0], ShapeError),
        (shifted(covariance_shape=np.eye(2)), [0.0, 0.0, 0.0], ShapeError),
        (mechanism(), [], ShapeError),
        (mechanism(), [[1.0], [1.0, 2.0]], ShapeError),
        (mechanism(), [float("nan")], NotFiniteError),
        (mechanism(), ["a"], ParameterError),
        (mechanism(), [1j], ParameterError),
        (mechanism(), [2**60], ParameterError),
        (mechanism(), pl.Series([1.0, None]), NotFiniteError),
        (mechanism(), np.ma.masked_array([1.0, 2.0], [True, False]), ParameterError),
    ],
)
def test_what_is_malformed_is_refused_with_nothing_spent(
    tmp_path: Path, design: GaussianRelease, value: Any, error: type[GaussveilError]
) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    design.account = ledger.open_account("homes", epsilon=3.0, delta=1e-5)
    with pytest.raises(error):
        design.release(value)
    assert ledger.entries("homes") == []
    assert not hasattr(design, "certificate_")


def test_an_account_can_be_spent_whole_by_one_release(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "spent.ledger")
    design = mechanism(account=ledger.open_account("homes", epsilon=1.0, delta=1e-6))
    assert verify(design.release([0.0]).certificate).private
    assert ledger.statement("homes").spent_delta == pytest.approx(1e-6, rel=1e-9)
    with pytest.raises(BudgetExceededError):
        design.release([0.0])


def test_large_epsilon_leaves_room_for_the_sampler_or_is_refused() -> None:
    certificate = mechanism(epsilon=45.0).release(np.zeros(100)).certificate
    assert 0 < certificate.sampler_charge < certificate.delta_upper <= certificate.delta
    with pytest.raises(ParameterError, match="sampler"):
        mechanism(epsilon=70.0).release(np.zeros(100))


def test_many_shifts_cost_less_than_the_ball_around_them() -> None:
    rng = np.random.default_rng(12)
    shifts = rng.normal(size=(300, 6)) * [3.0, 2.0, 1.0, 0.5, 0.2, 0.1]
    cheap = mechanism(l2_sensitivity=None, shifts=shifts).plan()
    ball = mechanism(l2_sensitivity=float(np.linalg.norm(shifts, axis=1).max())).plan(6)
    assert isinstance(ball.noise.covariance, float)
    assert np.trace(cheap.noise.covariance) < 0.4 * 6 * ball.noise.covariance


def test_constructor_is_keyword_only_and_stores_untouched() -> None:
    kinds = {p.kind for p in inspect.signature(GaussianRelease).parameters.values()}
    assert kinds == {inspect.Parameter.KEYWORD_ONLY}
    assert shifted().shifts is SHIFTS
