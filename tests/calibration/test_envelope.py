from __future__ import annotations

import math
from dataclasses import dataclass

import pytest

from gaussveil.calibration.envelope import (
    smallest_variance,
    variance_for_dominating_pair,
    variance_for_envelope,
    variance_for_pair,
)
from gaussveil.errors import ParameterError
from gaussveil.spectrum import GaussianPair
from gaussveil.spectrum.envelope_search import triangle_bound


@dataclass(frozen=True)
class Logistic:
    """Corrections N5, written down once more."""

    row_norm: float
    regularization: float

    def __call__(self, variance: float) -> tuple[float, float]:
        gap = self.row_norm / self.regularization / math.sqrt(variance) if variance > 0 else math.inf
        wide, narrow = 1 / self.regularization, 1 / (self.regularization + self.row_norm**2 / 4)
        return gap, math.log((variance + wide) / (variance + narrow))


# corrections.md, last two columns; regularization 10 with n private
@pytest.mark.parametrize(("regularization", "ceiling", "goal"), [(1.0, 16.75, 16.37), (10.0, 0.1612, 0.1588)])
def test_variances_of_the_corrections_are_reached(regularization: float, ceiling: float, goal: float) -> None:
    sensitivity = Logistic(1.0, regularization)
    variance, envelope = variance_for_envelope(sensitivity, 1, 1.0, 1e-5, wider="Y")
    assert goal * 0.999 <= variance <= min(goal * 1.002, ceiling)
    assert 0.98e-5 <= float(envelope.dp_delta(1.0)) <= 1e-5
    assert (envelope.mean_gap, envelope.log_ratio) == sensitivity(variance)
    # the ceiling is the triangle bound alone
    gap, log_ratio = sensitivity(ceiling)
    assert triangle_bound(gap, math.expm1(log_ratio), 1, 1.0, wide_first=True) <= math.log(1e-5)


def test_more_privacy_needs_more_variance_and_the_pair_needs_most() -> None:
    sensitivity = Logistic(1.5, 3.0)
    base = variance_for_envelope(sensitivity, 1, 1.0, 1e-5, wider="Y")[0]
    assert math.sqrt(base) <= 2.06
    assert variance_for_envelope(sensitivity, 1, 1.0, 1e-6, wider="Y")[0] > base
    assert variance_for_envelope(sensitivity, 1, 2.0, 1e-5, wider="Y")[0] < base
    variance, pair = variance_for_dominating_pair(sensitivity, 1, 1.0, 1e-5, wider="Y")
    assert base < variance < 1.15 * base
    assert max(pair.enclose(1.0).upper, pair.reversed().enclose(1.0).upper) <= 1e-5
    # X is the law with the record, the narrow one
    assert float(max(pair.variance_gap)) > 0


def test_pair_is_calibrated_to_its_private_side() -> None:
    variance, pair = variance_for_pair(lambda v: GaussianPair.mean_shift(1 / math.sqrt(v + 1e-9)), 1.0, 1e-6)
    assert math.sqrt(variance) == pytest.approx(4.2246788893268352830, rel=1e-4)  # 50 digits, mpmath
    assert pair.enclose(1.0).upper <= 1e-6
    assert variance_for_pair(lambda v: GaussianPair.mean_shift(0.01), 1.0, 1e-6)[0] == 0.0


def test_search_stops_at_the_first_private_variance() -> None:
    assert smallest_variance(lambda v: v >= 3.7) == pytest.approx(3.7, rel=1e-4)
    assert smallest_variance(lambda v: v >= 3.7) >= 3.7
    assert smallest_variance(lambda v: v >= 1e-7) == pytest.approx(1e-7, rel=1e-4)
    assert smallest_variance(lambda v: True) == 0.0
    with pytest.raises(ParameterError, match="no added variance"):
        smallest_variance(lambda v: False)


@pytest.mark.parametrize("bad", [(-1.0, 0.1), (0.1, -1.0), (math.nan, 0.1), (0.1, math.nan)])
def test_a_senseless_sensitivity_is_refused(bad: tuple[float, float]) -> None:
    with pytest.raises(ParameterError, match="mean_gap and log_ratio"):
        variance_for_envelope(lambda variance: bad, 1, 1.0, 1e-5, wider="Y")


def test_laws_beyond_the_stored_range_are_refused() -> None:
    # the ratio e^40 would be clipped to e^16, whose delta is smaller
    with pytest.raises(ParameterError, match="far apart"):
        variance_for_dominating_pair(lambda _variance: (0.0, 40.0), 1, 1.0, 0.9999, wider="X")


@pytest.mark.parametrize("rank", [1, 2])
def test_means_far_apart_are_not_taken_for_private(rank: int) -> None:
    """At small variances every delta rounds to 1: the search must go on, in whatever unit the data come."""
    small = variance_for_envelope(
        lambda v: (1 / math.sqrt(v) if v else math.inf, 1e-3 / (1 + v)), rank, 1.0, 1e-6, wider="Y"
    )
    large = variance_for_envelope(
        lambda v: (1e6 / math.sqrt(v) if v else math.inf, 1e-3 / (1 + v / 1e12)), rank, 1.0, 1e-6, wider="Y"
    )
    assert large[0] / 1e12 == pytest.approx(small[0], rel=2e-3)
    assert float(large[1].dp_delta(1.0)) <= 1e-6
