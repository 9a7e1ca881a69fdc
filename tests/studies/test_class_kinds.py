from __future__ import annotations

import numpy as np
import pytest

from gaussveil.timeseries import simulate_households
from gaussveil_studies.class_based.homes import read_homes
from gaussveil_studies.class_based.kinds import SETS, SHARES, compared, forecasts, nearest


def test_a_design_is_no_worse_than_any_kind_of_noise(full: bool, request: pytest.FixtureRequest) -> None:
    if full:
        found = forecasts(read_homes(request.getfixturevalue("real_data")))
        rows = [row for count, epsilons in SETS.items() for row in compared(nearest(found, count), SHARES, epsilons)]
    else:
        found = forecasts(simulate_households(10, 15, step_minutes=60, seed=1), horizon=3)
        rows = list(compared(nearest(found, 5), SHARES[:2], (0.5,)))
    for row in rows:
        others = (row.white, row.covariance_only, row.shrink, row.common, row.own)
        assert row.ours <= min(others) * (1 + 1e-6) + 1e-12
        assert row.common < row.shrink * (1 + 1e-3) < row.covariance_only < row.white
        assert 0 < row.retained < 1


def test_a_set_is_what_lies_nearest_to_the_median() -> None:
    found = np.array([[0.0], [5.0], [1.0], [2.0], [9.0]])
    np.testing.assert_array_equal(nearest(found, 2), [[1.0], [2.0]])
    np.testing.assert_array_equal(nearest(found, 3), [[0.0], [1.0], [2.0]])  # in their own order
