"""The trapezoid rule along a hyperbola: its proven error holds, and it agrees with adaptive quadrature."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gaussveil.spectrum import PrivacyLoss
from gaussveil.spectrum.enclosures import ball_integral
from gaussveil.spectrum.enclosures.ball_integral import BallIntegral
from gaussveil.spectrum.selection import SWITCH

cpu = pytest.importorskip("gaussveil.spectrum.native.cpu")
ORDINARY = PrivacyLoss.from_terms([-0.09, -0.03, 0.004, 0.07], [1, 1, 1, 1], [0.004, 0.001, 0.002, 0.003])
STEEP = PrivacyLoss.from_terms([-0.8, -0.2, 0.4], [1, 2, 1], [0.05, 0.0, 0.3])
FLAT = PrivacyLoss.from_terms([0.0, -0.05, 0.1], [1, 1, 1], [0.3, 0.002, 0.001])
MANY = PrivacyLoss.from_terms([-0.01, 0.008], [700, 300], [0.02, 0.01])
NEARLY = PrivacyLoss.from_terms([1e-7, -0.05, 0.1], [1, 1, 1], [0.3, 0.002, 0.001])
LOSSES = {
    "ordinary": (ORDINARY, 0.9),
    "steep": (STEEP, 6.0),
    "flat": (FLAT, 2.0),
    "nearly flat": (NEARLY, 2.0),
    "many": (MANY, 1.5),
}


def trapezoid(columns: tuple, numbers: tuple, rule: list) -> float:
    """h sum f(nh) e^-level over the nodes, over 2 pi i, from the formula of F in plain complex numbers."""
    gap, number, shift = columns
    slope, _, flat, level = numbers[:4]
    b, rho, angle, _, step, last = rule[:6]
    turn = 1j * step * np.arange(int(last) + 1) - angle
    s = b + rho * np.sin(turn)
    w = 1 + np.multiply.outer(s, gap)
    exponent = slope * s + s * (1 + s) / 2 * (flat + (1 / w) @ shift) - np.log(w) @ number / 2 - level
    heights = (np.exp(exponent) * np.cos(turn) / (s * (1 + s))).real * rho * step / math.pi
    return float(np.sum(heights) - heights[0] / 2)


@pytest.mark.parametrize("name", LOSSES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("goal", [3.0, 8.0, 16.0])
def test_the_error_of_a_coarse_rule_is_bounded(
    name: str, reverse: bool, goal: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    loss, epsilon = LOSSES[name]
    loss = loss.reversed() if reverse else loss
    asked = []
    best = cpu.hyperbola
    monkeypatch.setattr(cpu, "hyperbola", lambda *job: asked.append(job) or best(*job))
    loss.enclose(epsilon)
    (columns, *numbers), *_ = asked
    monkeypatch.setenv(SWITCH, "0")
    truth = loss.enclose(epsilon)
    assert truth.relative_width < 1e-12
    scaled = math.exp(truth.log_upper - numbers[3])
    rule = best(columns, *numbers[:-1], goal)
    found, error = trapezoid(columns, numbers, rule), rule[6] / math.pi
    assert abs(found - rule[7]) <= rule[8] + 1e-13 * scaled < 1e-10 * scaled
    assert abs(found - scaled) <= error + 1e-12 * scaled
    assert error < 1e4 * math.exp(-goal) * scaled  # it is no idle bound
    if goal == 3.0:
        assert abs(found - scaled) > 1e-9 * scaled  # and this rule is truly coarse


def test_enclosures_agree_with_adaptive_quadrature(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    used = []
    rule = BallIntegral._trapezoid
    monkeypatch.setattr(BallIntegral, "_trapezoid", lambda self, *place: used.append(rule(self, *place)) or used[-1])
    for _ in range(25):
        size = int(rng.integers(1, 9))
        gap = rng.choice([-1, 1], size) * 10 ** rng.uniform(-4, -0.1, size)
        number = rng.choice([1.0, 1.0, 40.0], size)
        loss = PrivacyLoss.from_terms(gap, number, 10 ** rng.uniform(-6, 0, size))
        epsilon = float(loss.epsilon(10 ** rng.uniform(-20, -1)))
        monkeypatch.setenv(SWITCH, "1")
        ours = loss.enclose(epsilon)
        monkeypatch.setenv(SWITCH, "0")
        theirs = loss.enclose(epsilon)
        assert max(ours.log_lower, theirs.log_lower) <= min(ours.log_upper, theirs.log_upper)
        assert max(ours.relative_width, theirs.relative_width) < 1e-9
    assert sum(one is not None for one in used) >= 20


def test_a_rule_is_left_alone_where_the_bound_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ball_integral, "AIM", 2.0)
    wide = ORDINARY.enclose(0.9)
    monkeypatch.setenv(SWITCH, "0")
    assert wide == ORDINARY.enclose(0.9)
