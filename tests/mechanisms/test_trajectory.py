from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from gaussveil.accounting import verify
from gaussveil.errors import ParameterError, ShapeError
from gaussveil.mechanisms import TrajectoryRelease
from gaussveil.noise import SeededGenerator


def test_paper_noise_of_a_week_and_of_two_days() -> None:
    """Correction S6: 0.92 kW and 180 kW (Table III's 0.18 MW) are eq. (2) at delta = 0.001, not at Table I's 0.01."""
    sds = [
        float(
            TrajectoryRelease(epsilon=np.log(2), delta=0.001, l2_ball=ball, calibration="published")
            .plan(4)
            .standard_deviation
        )
        for ball in (0.2, 39.0)
    ]
    assert sds == pytest.approx([0.92, 180], rel=0.03)
    exact = float(TrajectoryRelease(epsilon=np.log(2), delta=0.01, l2_ball=39.0).plan(4).standard_deviation)
    assert exact < 0.55 * 180


def test_a_series_comes_back_as_one_with_white_noise() -> None:
    series = pd.Series(np.linspace(0, 1, 4000), name="kw")
    release = TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=1.0, generator=SeededGenerator(2)).release(series)
    assert isinstance(release.value, pd.Series)
    noise = release.value - series
    assert noise.std() == pytest.approx(3.7306, rel=0.05)
    assert abs(np.corrcoef(noise[1:], noise[:-1])[0, 1]) < 0.06
    assert not verify(release.certificate).private


def test_wrong_shapes_and_calibrations_are_refused() -> None:
    mechanism = TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=1.0)
    with pytest.raises(ShapeError):
        mechanism.release(np.ones((3, 2)))
    with pytest.raises(ParameterError, match="calibration"):
        TrajectoryRelease(epsilon=1.0, delta=1e-5, l2_ball=1.0, calibration="best").plan(3)
