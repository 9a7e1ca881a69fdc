from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import ParameterError
from gaussveil.timeseries import fit_weekly_season, read_readings, simulate_households
from gaussveil_studies.real_data import swiss_homes
from gaussveil_studies.simulator.resemblance import NAMES, figure, run, statistics

# The same figures of the 404 real homes, rounded; test_statistics_of_the_real_homes checks them against the data.
REAL = {"mean": 1.822, "q05": 0.100, "q50": 0.924, "q95": 5.96, "day": 0.423}


def test_town_resembles_the_real_homes(full: bool) -> None:
    # The constants were tuned on seeds 0 to 9.
    for seed in range(10, 30 if full else 11):
        found = statistics(simulate_households(404, 49, seed=seed).values)
        for name, real in REAL.items():
            assert found[name] == pytest.approx(real, rel=0.15), (seed, name)


def test_statistics_of_the_real_homes_and_the_study_of_them(real_data: Path) -> None:
    values = swiss_homes(real_data).values
    for name, found in statistics(values).items():
        assert found == pytest.approx(REAL[name], rel=2e-3), name
    town = run(values, (21,))
    assert town.real == statistics(values)
    # This seed's high quantile is the farthest off of seeds 10 to 29.
    assert town.worst("q95") == pytest.approx(0.122, abs=0.002)
    assert all(town.resembles(name) for name in NAMES)
    assert len(figure(town).axes) == 3


def test_same_seed_same_town_and_generators_are_taken() -> None:
    first, second = simulate_households(5, 8, seed=3), simulate_households(5, 8, seed=np.random.default_rng(3))
    np.testing.assert_array_equal(first.values, second.values)
    assert (simulate_households(5, 8, seed=4).values != first.values).any()
    assert first.households[4] == "home00004"


@pytest.mark.parametrize("step", [5, 15, 60])
def test_steps_and_shape(step: int) -> None:
    town = simulate_households(3, 7, step, seed=1)
    assert town.values.shape == (3, 7 * 24 * 60 // step)
    assert (town.step_minutes, town.week_phase) == (step, 0)
    assert (town.values > 0).all()
    assert fit_weekly_season(town).mean.shape == (3, 7 * 24 * 60 // step)


def test_mean_power_does_not_depend_on_the_step() -> None:
    fine, coarse = (simulate_households(60, 14, step, seed=2).values.mean() for step in (5, 60))
    assert fine == pytest.approx(coarse, rel=0.2)


def test_cold_months_use_more_and_weekends_differ() -> None:
    winter = simulate_households(80, 14, seed=5, start="2018-01-08").values.mean()
    summer = simulate_households(80, 14, seed=5, start="2018-07-09").values.mean()
    assert winter > 1.3 * summer


def test_bad_input_is_refused() -> None:
    with pytest.raises(ParameterError, match=r"homes must be a whole number, at least 1\. Got 0\."):
        simulate_households(0, 3)
    with pytest.raises(ParameterError, match="must divide a day"):
        simulate_households(1, 3, 7)
    with pytest.raises(ParameterError, match=r"multiple of it\. Got 20\."):
        simulate_households(1, 3, 20)
    with pytest.raises(ParameterError, match="date such as"):
        simulate_households(1, 3, start="monday")


def test_a_town_as_a_table_reads_back_as_it_was() -> None:
    town = simulate_households(3, 2, 60, seed=4)
    for table in (town.to_arrow(), town.to_pandas(), town.to_polars()):
        back = read_readings(table)
        assert (back.households, back.start, back.step_minutes) == (town.households, town.start, town.step_minutes)
        np.testing.assert_array_equal(back.values, town.values)
