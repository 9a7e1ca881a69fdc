"""DP-SGD runs drawn over the whole range of settings, against references of 40 digits (reference/generate_training)."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest

from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step

PATH = Path(__file__).parents[1] / "reference" / "training.json"
CASES: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["cases"]
ROUNDING = 2e-14  # of a double's logarithm, at most


def chosen(full: bool, every: int) -> list[dict[str, Any]]:
    return CASES if full else CASES[::every]


def loss(case: dict[str, Any]) -> SubsampledLoss:
    return SubsampledLoss([(Step(case["noise_multiplier"], case["sampling_rate"]), case["steps"])])


def test_the_settings_span_the_range() -> None:
    assert len(CASES) >= 300
    for name, low, high in (("noise_multiplier", 0.4, 80.0), ("sampling_rate", 3e-5, 0.7), ("steps", 1, 3_000_000)):
        values = [case[name] for case in CASES]
        assert min(values) <= low < high <= max(values)


def test_answers_are_never_below_the_truth(full: bool) -> None:
    for case in chosen(full, 9):
        found, wanted = loss(case), float(case["log_delta"])
        slack = ROUNDING * abs(wanted)
        assert wanted - slack <= found.log_delta(case["epsilon"]) <= wanted + 1e-9 * abs(wanted), case
        epsilon = float(found.epsilon(math.exp(wanted)))
        assert case["epsilon"] * (1 - 1e-13) <= epsilon <= case["epsilon"] * (1 + 1e-9), case


def test_moments_subtract_the_whole_normal_density() -> None:
    """Sums over the tilted outputs alone left 1e-12 of log delta out, on the unsafe side, as did a band's tail."""
    noises = (72.518, 71.828, 85.513, 3.761)
    few = [case for case in CASES if case["noise_multiplier"] in noises]
    assert len(few) == len(noises)
    for case in few:
        found, wanted = loss(case), float(case["log_delta"])
        assert wanted - ROUNDING * abs(wanted) <= found.log_delta(case["epsilon"]) <= wanted + 1e-11
        assert case["epsilon"] * (1 - 1e-14) <= float(found.epsilon(math.exp(wanted))) <= case["epsilon"] * (1 + 1e-12)


def test_truth_lies_in_every_enclosure(full: bool) -> None:
    for case in chosen(full, 9):
        ends, wanted = loss(case).enclose(case["epsilon"]), float(case["log_delta"])
        slack = ROUNDING * abs(wanted)
        assert ends.log_lower - slack <= wanted <= ends.log_upper + slack, case
        assert ends.relative_width < 1e-9, case


@pytest.mark.parametrize("shift", [1e-9, -1e-9])
def test_a_wrong_reference_would_be_seen(shift: float) -> None:
    ends, wanted = loss(CASES[3]).enclose(CASES[3]["epsilon"]), float(CASES[3]["log_delta"])
    assert not ends.log_lower <= wanted * (1 + shift) <= ends.log_upper
