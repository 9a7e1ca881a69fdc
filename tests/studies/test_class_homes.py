from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from gaussveil.errors import MissingDataError
from gaussveil.timeseries import simulate_households
from gaussveil_studies.class_based.homes import closest_shift, read_homes, table, white_shift


def test_our_noise_beats_white_noise_in_every_row(full: bool, request: pytest.FixtureRequest) -> None:
    if full:
        rows = table(read_homes(request.getfixturevalue("real_data")))
    else:
        homes = simulate_households(12, 15, step_minutes=60, seed=1)
        rows = table(homes, clusters=2, horizon=3, accuracies=(0.45, 1.4), epsilons=(0.1, 1.0))
    assert {row.season for row in rows} == {False, True}
    for row in rows:
        assert row.ours < row.white
        assert (row.ours == 0) == (row.centres == row.clusters)
    assert all(row.ours == 0 for row in rows if not row.season), "the centre meets rho for residual forecasts"


def test_shifts_of_two_homes_in_closed_form() -> None:
    """Two points 2r apart, common noise: spend a share on moving both towards the centre, the rest across the gap."""
    homes = np.array([[0.0, 0.0], [2.0, 0.0]])
    assert white_shift(homes, 0.5) == pytest.approx(2 / np.sqrt(0.5))
    assert closest_shift(homes, 0.6) == (0.0, 0.0)  # budget 1.2 reaches the centre, 1 away
    shift, kept = closest_shift(homes, 0.25)
    moves = np.linspace(0, np.sqrt(0.5), 100_001)[:-1]
    assert shift == pytest.approx(np.min((2 - 2 * moves) / np.sqrt(0.5 - moves**2)), rel=0.02)
    assert 0 < kept < 1


def test_missing_data_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(MissingDataError, match="GAUSSVEIL_DATA"):
        read_homes(tmp_path)
