"""The kernel against independent 30-digit values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from mpmath import log, mp, mpf

import gaussveil
from gaussveil.spectrum import GaussianPair

TABLES = Path(__file__).parent.parent / "reference"


@pytest.fixture(params=["compiled", "arrays"], autouse=True)
def path(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every case by the kernel in C and by the array library."""
    monkeypatch.setenv("GAUSSVEIL_COMPILED", "1" if request.param == "compiled" else "0")


def cases() -> list[dict]:
    mp.dps = 40
    return [
        case
        for name in ("gaussian_pairs", "extra_pairs")
        for case in json.loads((TABLES / f"{name}.json").read_text())["cases"]
    ]


def log_reference(case: dict) -> mpf:
    if "one_minus_delta_ref" in case:
        return mp.log1p(-mpf(case["one_minus_delta_ref"]))
    delta = mpf(case["delta_ref"])
    return log(delta) if delta > 0 else mpf("-inf")


def check(found: float, case: dict, tolerance: float) -> None:
    """Relative error of delta, or of log delta where delta is out of a double's reach."""
    truth = log_reference(case)
    if truth == mpf("-inf"):
        assert found == -np.inf
        return
    error = abs(mpf(float(found)) - truth)
    assert error <= max(tolerance, 1e-10 * abs(truth) if truth < -700 else 0)


def reduced_tolerance(case: dict) -> float:
    return 1e-9 if case["id"].endswith("_edge") else 1e-12


@pytest.mark.parametrize("case", cases(), ids=lambda case: case["id"])
def test_reduced_form(case: dict) -> None:
    pair = GaussianPair.from_reduced([float(gap) for gap in case["nu"]], [float(gap) for gap in case["b"]])
    check(pair.log_delta(case["eps"]), case, reduced_tolerance(case))
    assert pair.delta(case["eps"]) == pytest.approx(float(np.exp(pair.log_delta(case["eps"]))), rel=1e-11, abs=1e-300)


@pytest.mark.parametrize("case", [case for case in cases() if "S1" in case], ids=lambda case: case["id"])
def test_matrices(case: dict) -> None:
    conditions = [np.linalg.cond(np.array(case[name])) for name in ("S1", "S2")]
    tolerance = 1e-4 if case["family"] == "near" else 1e-9 if max(conditions) < 1e6 else 1e-5
    check(
        gaussveil.GaussianPair(case["mu1"], case["S1"], case["mu2"], case["S2"]).log_delta(case["eps"]), case, tolerance
    )


@pytest.mark.parametrize("case", [case for case in cases() if "S1" in case], ids=lambda case: case["id"])
def test_affine_maps_change_nothing(case: dict) -> None:
    """x -> A x + a with a well-conditioned A leaves delta alone."""
    d = case["d"]
    generator = np.random.default_rng(d)
    orthogonal, _ = np.linalg.qr(generator.standard_normal((d, d)))
    change = orthogonal * np.exp(0.3 * generator.standard_normal(d))
    mean_x, mean_y = (change @ np.array(case[name]) + 1 for name in ("mu1", "mu2"))
    cov_x, cov_y = (change @ np.array(case[name]) @ change.T for name in ("S1", "S2"))
    condition = max(np.linalg.cond(np.array(case[name])) for name in ("S1", "S2"))
    if condition > 1e6 or case["family"] == "near" or case["id"].endswith("edge"):
        return  # rounding the mapped matrices alone moves these deltas
    moved = GaussianPair(mean_x, (cov_x + cov_x.T) / 2, mean_y, (cov_y + cov_y.T) / 2).log_delta(case["eps"])
    check(moved, case, 1e-8)
