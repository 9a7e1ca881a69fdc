"""What doubles are off by, function by function and for whole moments, against 40 digits (subsampled/roundings)."""

from __future__ import annotations

import math
from typing import Any

import mpmath as mp
import numpy as np
import pytest
import scipy
from flint import acb, arb, ctx

from gaussveil.spectrum.constants import UNIT_ROUNDOFF
from gaussveil.spectrum.subsampled.ball_line_step import LineStep
from gaussveil.spectrum.subsampled.line_cells import OutputWindow
from gaussveil.spectrum.subsampled.output_sums import OutputSums, reach_to_both_densities
from gaussveil.spectrum.subsampled.roundings import LIBRARY, REST, TURN, log_density_off, rest, summed, turned_parts
from gaussveil.spectrum.subsampled.step import Step

FUNCTIONS: list[tuple[Any, Any, float, float]] = [  # in doubles, to 40 digits, and logs of the ends of arguments
    (np.exp, mp.exp, -12.0, 6.5),
    (np.expm1, mp.expm1, -30.0, 6.5),
    (np.log, mp.log, -40.0, 40.0),
    (np.log1p, mp.log1p, -30.0, 30.0),
    (np.sin, mp.sin, -30.0, 7.0),
    (np.cos, mp.cos, -30.0, 7.0),
]
STEPS = [
    (Step(1.2, 0.01), 0.9, 6.0),
    (Step(0.5, 0.3), 0.02, 0.4),
    (Step(6.0, 1e-4), 40.0, 300.0),
    (Step(1.2, 0.05, backward=True), 3.0, 20.0),
    (Step(2.0, 0.02, replace=True), 1.5, 9.0),
    (Step(2.0, 0.4, replace=True), -0.3, 5.0),
    (Step(1.5, 0.4, backward=True), -0.6, 5.0),
    (Step(20.0, 0.5), 30.0, 25.0),
]


@pytest.mark.parametrize(("ours", "exact", "low", "high"), FUNCTIONS, ids=lambda one: getattr(one, "__name__", ""))
def test_functions_are_off_by_no_more_than_is_assumed(ours: Any, exact: Any, low: float, high: float) -> None:
    mp.mp.dps = 40
    rng = np.random.default_rng(5)
    x = np.exp(rng.uniform(low, high, 400))
    if ours is np.log1p:
        x[::2] = np.expm1(-np.minimum(x[::2], 30.0))
    elif ours is not np.log:
        x[::2] = -x[::2]
    for place, found in zip(x.tolist(), ours(x).tolist()):
        wanted = exact(mp.mpf(place))
        scale = abs(wanted)
        if ours in (np.sin, np.cos) and abs(place) > 1.0:
            scale = mp.mpf(1)
        assert abs(found - wanted) <= LIBRARY * UNIT_ROUNDOFF * scale, place


def test_tails_of_the_normal_law_are_off_by_no_more_than_is_assumed() -> None:
    mp.mp.dps = 40
    for place in np.random.default_rng(6).uniform(-30.0, 9.0, 300).tolist():
        wanted = mp.ncdf(mp.mpf(place))
        log = mp.log(wanted) if place < 0.0 else mp.log1p(-mp.ncdf(-mp.mpf(place)))
        blur = (LIBRARY + 16.0 + 4.0 * place**2) * UNIT_ROUNDOFF
        assert abs(float(scipy.special.ndtr(place)) - wanted) <= blur * wanted
        off = LIBRARY * (1.0 + abs(log)) + 3.0 * abs(place) * (1.0 + max(-place, 0.0))
        assert abs(float(scipy.special.log_ndtr(place)) - log) <= off * UNIT_ROUNDOFF, place


def test_what_is_left_of_the_exponential_keeps_its_digits() -> None:
    mp.mp.dps = 60
    rng = np.random.default_rng(7)
    x = np.concatenate([rng.uniform(-4.0, 4.0, 200), 10.0 ** rng.uniform(-12.0, 0.0, 100)])
    for place, found in zip(x.tolist(), rest(x).tolist()):
        wanted = mp.expm1(mp.mpf(place)) - mp.mpf(place)
        assert abs(found - wanted) <= REST * UNIT_ROUNDOFF * wanted, place


@pytest.mark.parametrize("largest", [1e-6, 0.01, 1.0])
def test_turns_less_their_linear_part_keep_their_digits(largest: float) -> None:
    mp.mp.dps = 50
    x = largest * np.random.default_rng(8).uniform(-1.0, 1.0, 60)
    for place in x.tolist():
        found = complex(turned_parts(np.ones(1), np.array([[place]]), True, near=True)[0])
        wanted = mp.expj(mp.mpf(place)) - 1 - 1j * mp.mpf(place)
        assert abs(found - wanted) <= TURN * UNIT_ROUNDOFF * abs(wanted)


def test_sums_are_rounded_as_often_as_is_said() -> None:
    rng = np.random.default_rng(9)
    for number in (5, 100, 129, 1000, 8192):
        terms = rng.uniform(-1.0, 1.0, (3, number))
        for row, found in zip(terms, terms.sum(axis=1)):
            bound = summed(number) * UNIT_ROUNDOFF * float(np.abs(row).sum())
            assert abs(float(found) - math.fsum(row)) <= bound


@pytest.mark.parametrize("step", [Step(0.3, 1e-6), Step(1.0, 0.01), Step(8.0, 0.6), Step(0.7, 1e-13)])
def test_logs_of_densities_are_off_by_no_more_than_their_bounds(step: Step) -> None:
    mp.mp.dps = 50
    z = np.concatenate([np.linspace(-12.0, 25.0, 80), step.knee + np.linspace(-0.1, 0.1, 20)])
    found = step.log_density(z)
    sigma, rate = mp.mpf(step.noise_multiplier), mp.mpf(step.sampling_rate)
    for place, one, off in zip(z.tolist(), found.tolist(), log_density_off(step, z, found).tolist()):
        wanted = mp.log1p(rate * mp.expm1(mp.mpf(place) / sigma - 1 / (2 * sigma**2)))
        assert abs(one - wanted) <= off
        assert off <= 1e-13 * (1.0 + abs(one))


def exact_moment(step: Step, s: complex, cut: float, window: OutputWindow | None) -> acb:
    """M(s) of outputs below the cut, in the window, by quadrature in balls."""
    sigma, rate = arb(step.noise_multiplier), arb(step.sampling_rate)

    def log_density(z: acb, analytic: bool) -> acb:
        return (1 + rate * (z / sigma - 1 / (2 * sigma**2)).expm1()).log(analytic)

    def integrand(z: acb, analytic: bool) -> acb:
        first = log_density(z, analytic)
        second = log_density(-z, analytic) if step.replace else acb(0)
        if step.backward:
            first, second = second, first
        weight = (-z * z / 2).exp() / (2 * arb.pi()).sqrt()
        if window is not None:
            weight *= ((z - window.cap) / window.edge / arb(2).sqrt()).erfc() / 2
        return weight * (first + acb(s) * (first - second)).exp()

    with ctx.workprec(100):
        return acb.integral(integrand, acb(-18), acb(cut), rel_tol=arb(1e-22), abs_tol=arb(1e-22))


@pytest.mark.parametrize("windowed", [False, True])
@pytest.mark.parametrize(("step", "c", "height"), STEPS, ids=lambda one: str(one) if isinstance(one, float) else "")
def test_moments_are_off_by_no_more_than_their_bounds(step: Step, c: float, height: float, windowed: bool) -> None:
    """By quadrature; and the bounds are roundings of what M - 1 is made of, not of 1."""
    count = 1000
    window = OutputWindow(step.cap(-40.0), -math.inf, step.edge) if windowed else None
    prepared = LineStep(step, count, 400, window)
    heights = np.array([0.0, 0.3 * height, height])
    with np.errstate(all="ignore"):
        assert prepared.look(c, -20.0, 31.0) is not None
        reach_to_both_densities(prepared, c)
        prepared.prepare(c, height, 34.0)
        found = OutputSums(prepared, c, height).moments(heights)
    for place in (0, 2):
        with ctx.workprec(100):
            wanted = exact_moment(step, complex(c, heights[place]), prepared.cut, window).log()
            apart = (acb(complex(found.log_moment[place])) - wanted).abs_lower()
        error = float(found.rounding[place])
        assert float(apart) <= error <= 1e-9 / count
