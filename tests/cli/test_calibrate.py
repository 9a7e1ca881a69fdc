"""`gaussveil calibrate`: the least noise, which keeps the promise by the accountant's own answer, and no less does."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest

from gaussveil import DPSGD, Accountant, Gaussian, Laplace
from gaussveil.calibration import white_noise_scale

from .conftest import Run


def calibrated(run: Run, *options: object) -> dict[str, Any]:
    code, out, err = run("calibrate", *options, "--json")
    assert code == 0, err
    answer: dict[str, Any] = json.loads(out)
    return answer


def test_one_release_is_calibrated_by_the_proven_scale(run: Run) -> None:
    answer = calibrated(run, "--epsilon", 1, "--delta", 1e-6, "--l2-sensitivity", 2.5)
    assert answer["standard_deviation"] == white_noise_scale(2.5, 1.0, 1e-6)
    told = run("calibrate", "--epsilon", 1, "--delta", 1e-6, "--l2-sensitivity", 2.5)
    assert told == (0, "Gaussian noise of standard deviation 10.56169723 on every number: (1, 1e-06)\n", "")


@pytest.mark.parametrize("epsilon", [0.1, 0.7, 1, 1.3, 2, 3, 5, 8])
def test_the_noise_that_is_printed_is_no_less_than_the_least(run: Run, epsilon: float) -> None:
    """Ten digits, rounded up: 10.56169722 for 10.561697223 had a delta above 1e-6."""
    asked = ("--epsilon", epsilon, "--delta", 1e-6, "--l2-sensitivity", 2.5)
    words = run("calibrate", *asked)[1].split()
    printed = float(words[words.index("deviation") + 1])
    least = calibrated(run, *asked)["standard_deviation"]
    assert least <= printed <= least * (1 + 1e-9)


@pytest.mark.parametrize(
    ("options", "step"),
    [
        ((), lambda noise: Gaussian(noise_multiplier=noise)),
        (("--sampling-rate", 0.01), lambda noise: DPSGD(noise_multiplier=noise, sampling_rate=0.01)),
    ],
    ids=["Gaussian", "DP-SGD"],
)
def test_steps_keep_the_promise_and_hardly_more(run: Run, options: tuple[object, ...], step: Any) -> None:
    answer = calibrated(run, "--epsilon", 2, "--delta", 1e-5, "--steps", 50, "--l2-sensitivity", 3, *options)
    noise = answer["noise_multiplier"]
    assert answer["standard_deviation"] == pytest.approx(3 * noise)
    assert Accountant().add(step(noise), 50).delta(2.0) <= 1e-5
    assert Accountant().add(step(0.9999 * noise), 50).delta(2.0) > 1e-5


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 0.0), (0.5, 1e-6), (0.0, 0.1), (3.0, 0.9)])
def test_laplace_noise_is_the_closed_form_on_the_private_side(run: Run, epsilon: float, delta: float) -> None:
    answer = calibrated(run, "--epsilon", epsilon, "--delta", delta, "--l1-sensitivity", 2)
    scale = answer["scale"]
    assert scale == pytest.approx(2 / (epsilon - 2 * math.log1p(-delta)), rel=1e-14)
    run_of_it = Accountant().add(Laplace(2 / scale))
    assert run_of_it.delta(epsilon) <= delta * (1 + 1e-9)
    assert Accountant().add(Laplace(2.002 / scale)).delta(epsilon) > delta


def test_what_makes_no_sense_is_refused(run: Run) -> None:
    for options in (
        ("--epsilon", 0, "--delta", 0, "--l1-sensitivity", 1),
        ("--epsilon", 1, "--delta", 1e-6, "--l1-sensitivity", 1, "--steps", 2),
        ("--epsilon", 1, "--delta", 1e-6, "--l2-sensitivity", 0),
        ("--epsilon", 1, "--delta", 0),
        ("--epsilon", 1, "--delta", 1e-6, "--replace"),
        ("--epsilon", -1, "--delta", 1e-6),
        ("--epsilon", 1, "--delta", 1e-6, "--sampling-rate", 2, "--steps", 3),
    ):
        code, _, err = run("calibrate", *options)
        assert (code, err[:9]) == (2, "error GV1"), options
