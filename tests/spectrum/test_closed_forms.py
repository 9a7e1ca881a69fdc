"""Closed forms against the frozen tables, against enclosures, and on the far ends of the range of doubles."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gaussveil.errors import NotFiniteError, ParameterError
from gaussveil.spectrum.closed_forms import log_delta_equal_ratios, log_delta_mean_shift
from gaussveil.spectrum.enclosures.enclosure import Enclosure, enclose_delta
from gaussveil.spectrum.enclosures.exact_doubles import TermDoubles

REFERENCE = Path(__file__).parents[1] / "reference"
CASES: list[dict[str, Any]] = [
    case
    for table in ("gaussian_pairs.json", "extra_pairs.json")
    for case in json.loads((REFERENCE / table).read_text())["cases"]
]


def reference_log(case: dict[str, Any]) -> float:
    if "log_delta_ref" in case:
        return float(case["log_delta_ref"])
    return math.log(float(case["delta_ref"])) if float(case["delta_ref"]) else -math.inf


def assert_close(log_delta: float, truth: float, error: float) -> None:
    """Relative error of delta, or four ulps of its log where that is more."""
    if math.isinf(truth):
        assert log_delta == truth
    else:
        assert abs(log_delta - truth) <= error + 4.0 * math.ulp(truth)


def edge(case: dict[str, Any]) -> bool:
    """eps within 1e-9 of sup L: the rounding of log and eps alone moves delta by 1e-7."""
    return "edge" in case["id"] and case["d"] == 1


@pytest.mark.parametrize("case", [c for c in CASES if not any(map(float, c["nu"]))], ids=lambda c: str(c["id"]))
def test_mean_shift_on_the_tables(case: dict[str, Any]) -> None:
    shift = math.sqrt(math.fsum(float(b) ** 2 for b in case["b"]))
    assert_close(float(log_delta_mean_shift(shift, case["eps"])), reference_log(case), 1e-13)


@pytest.mark.parametrize(
    "case",
    [c for c in CASES if len(set(c["nu"])) == 1 and not any(map(float, c["b"])) and "near" not in c["id"]],
    ids=lambda c: str(c["id"]),
)
def test_equal_ratios_on_the_tables(case: dict[str, Any]) -> None:
    # 1 - nu is rounded, which alone moves log delta by about eps/nu^2 ulps: hence the looser figure for eps = 1000.
    value = log_delta_equal_ratios(1.0 - float(case["nu"][0]), case["d"], case["eps"])
    assert_close(float(value), reference_log(case), 1e-6 if edge(case) else 2e-10 if case["eps"] == 1000.0 else 3e-13)


def assert_in(log_delta: float, found: Enclosure, slack: float) -> None:
    assert found.log_lower - slack <= log_delta <= found.log_upper + slack


@settings(derandomize=True, deadline=None, max_examples=12)
@given(st.floats(1e-8, 30.0), st.sampled_from([0.0, 1e-6, 0.3, 2.0, 20.0]))
def test_mean_shift_in_the_enclosure(shift: float, eps: float) -> None:
    value = float(log_delta_mean_shift(shift, eps))
    found = enclose_delta([(TermDoubles.of([0.0], mean_gap=[shift]), 1)], eps)
    assert_in(value, found, 1e-13 + 2e-16 * abs(value))


@settings(derandomize=True, deadline=None, max_examples=12)
@given(st.integers(-3, 6), st.integers(1, 60), st.sampled_from([0.0, 0.25, 3.0]))
def test_equal_ratios_in_the_enclosure(power: int, degrees: int, eps: float) -> None:
    ratio = 2.0**power
    value = float(log_delta_equal_ratios(ratio, degrees, eps))
    found = enclose_delta([(TermDoubles.of([1.0 - ratio], multiplicity=[degrees]), 1)], eps)
    assert_in(value, found, 1e-12 + 4e-16 * abs(value) if math.isfinite(value) else 0.0)


def test_far_ends_of_the_range() -> None:
    shifts = np.array([0.0, 1e-300, 1e-100, 1e-8, 1.0, 1e8, 1e100])
    values = log_delta_mean_shift(shifts[:, None], np.array([0.0, 1e-10, 1.0, 1e3, 1e10]))
    assert not np.any(np.isnan(values))
    assert np.all(values <= 0.0)
    assert np.all(values[:, 1:] <= values[:, :-1])  # nonincreasing in eps
    assert np.all(values[1:] >= values[:-1])  # nondecreasing in the shift
    ratios = np.array([1e-300, 1e-10, 0.5, 1.0, 2.0, 1e10, 1e300])
    assert np.all(log_delta_equal_ratios(ratios[:, None], np.array([1, 2, 7, 1000, 10**6]), 1.0) <= 0.0)


def test_total_variation_is_symmetric() -> None:
    ratios = np.array([1.0 + 1e-6, 1.5, 4.0, 1e6])
    for degrees in (1, 2, 15, 400):
        forward = log_delta_equal_ratios(ratios, degrees, 0.0)
        np.testing.assert_allclose(log_delta_equal_ratios(1.0 / ratios, degrees, 0.0), forward, rtol=0, atol=1e-9)


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        log_delta_mean_shift(1.0, -1.0)
    with pytest.raises(NotFiniteError, match="shift"):
        log_delta_mean_shift(math.nan, 1.0)
    with pytest.raises(ParameterError, match="ratio"):
        log_delta_equal_ratios(0.0, 3, 1.0)
    with pytest.raises(ParameterError, match="degrees"):
        log_delta_equal_ratios(2.0, 0, 1.0)
