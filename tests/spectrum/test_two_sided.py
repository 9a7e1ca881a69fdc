"""Both ends of delta on a grid, against references of 40 digits, closed forms and enclosures in balls."""

from __future__ import annotations

import json
import math
from pathlib import Path

import mpmath as mp
import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, DiscreteGaussian
from gaussveil.errors import NumericalError, ParameterError
from gaussveil.spectrum.loss import PrivacyLoss
from gaussveil.spectrum.subsampled.ball_single import enclose_single
from gaussveil.spectrum.subsampled.cell_probabilities import normal_between, place
from gaussveil.spectrum.subsampled.companions import BallCompanions, Shift
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.step import Step
from gaussveil.spectrum.subsampled.surely_below import surely_below
from gaussveil.spectrum.subsampled.two_sided import GridPlan, enclose_on_grid, lowered, raised

CASES = json.loads((Path(__file__).parents[1] / "reference" / "training.json").read_text(encoding="utf-8"))["cases"]
KINDS = ({}, {"backward": True}, {"replace": True})


def test_truth_lies_between_the_ends(full: bool) -> None:
    mp.mp.dps = 60
    few = [case for case in CASES if case["sampling_rate"] < 1.0 and float(case["log_delta"]) > -90.0]
    for case in few[:: 10 if full else 60]:
        steps = [(Step(case["noise_multiplier"], case["sampling_rate"]), case["steps"])]
        ends = enclose_on_grid(steps, case["epsilon"], float(case["log_delta"]), 2**15)
        assert float(ends.lower) <= mp.exp(mp.mpf(case["log_delta"])) <= float(ends.upper), case


def test_both_ends_are_known_where_balls_would_take_long() -> None:
    """Beside many atoms the contour in doubles has a lower end as well, which is not called proven."""
    run = Accountant().add(DPSGD(noise_multiplier=1.5, sampling_rate=0.001), 10).add(DiscreteGaussian(2.0, 1), 10)
    ends = run.enclose(7.511123200616884)
    assert ends.relative_width < 1e-9
    assert not ends.proven
    assert ends.lower <= run.delta(7.511123200616884) <= 1e-5


@pytest.mark.parametrize("kind", KINDS, ids=["added", "removed", "replaced"])
def test_masses_of_one_step_lie_beside_its_closed_form(kind: dict[str, bool]) -> None:
    """Their own delta, at nodes and between, is nowhere on the wrong side, and next to the truth."""
    for noise, rate, interval in ((0.7, 0.05, 1e-3), (2.0, 1e-4, 1e-6), (0.4, 0.3, 0.02)):
        step = Step(noise, rate, **kind)
        highest = min(step.largest_loss * (1.0 + 1e-12), 400 * interval)
        first, last = math.floor(max(step.floor, -40.0) / interval) - 1, math.ceil(highest / interval)
        if step.replace or step.backward:
            first = -last - 400
        for cells, sign in ((raised(step, interval, first, last), 1.0), (lowered(step, interval, first, last), -1.0)):
            losses = interval * np.arange(first, last + 1)
            for epsilon in interval * np.array([0.0, 0.3, 7.5, 40.0, 111.1]):
                truth = enclose_single(step, float(epsilon))
                beyond = cells.beyond_x[0] - math.exp(epsilon) * cells.beyond_y[0]
                inside = float(cells.masses.mass @ np.maximum(-np.expm1(epsilon - losses), 0.0)) + max(beyond, 0.0)
                assert sign * (inside - float(truth.lower if sign > 0.0 else truth.upper)) >= -1e-15 * inside
                assert abs(inside - float(truth.upper)) <= 0.15 * float(truth.upper) + 1e-15


def test_ends_are_near_where_few_rare_records_count() -> None:
    """Delta(0) of these rested on an enclosure 42 % wide; the second kept a release waiting for minutes."""
    for noise, rate, count, epsilon in ((0.45, 1e-6, 8, 0.0), (0.397, 2.35e-6, 12, 4.65e-5)):
        ends = enclose_on_grid([(Step(noise, rate), count)], epsilon, -12.0, 2**18)
        assert 0.0 < ends.lower < ends.upper
        assert ends.relative_width < 1e-5


def test_ends_hold_what_balls_prove(full: bool) -> None:
    settings = [(1.33, 6.37e-4, 55, 0.0336, {}), (0.99, 2.7e-4, 41, 0.158, {"replace": True})]
    for noise, rate, count, epsilon, kind in [*settings, (0.66, 2.4e-6, 221, 1.68e-4, {})][: 3 if full else 2]:
        steps = [(Step(noise, rate, **kind), count)]
        proven = SubsampledLoss(steps).enclose(epsilon)
        ends = enclose_on_grid(steps, epsilon, float(proven.log_upper), 2**17)
        assert ends.lower <= proven.lower <= proven.upper <= ends.upper
        assert ends.relative_width < 1e-2


def test_schedules_are_composed() -> None:
    steps = [(Step(1.1, 1e-3), 3), (Step(0.8, 2e-3), 2)]
    proven = SubsampledLoss(steps).enclose(0.2)
    ends = enclose_on_grid(steps, 0.2, float(proven.log_upper), 2**16)
    assert ends.lower <= proven.lower <= proven.upper <= ends.upper
    assert ends.relative_width < 1e-4


@pytest.mark.parametrize("shift", [0.3, 3.0, 12.0])
def test_a_mean_shift_has_both_ends(shift: float) -> None:
    """Next to Phi(t/2 - e/t) - e^e Phi(-t/2 - e/t) in 50 digits."""
    mp.mp.dps = 50
    for epsilon in (0.0, 0.4 * shift, 0.5 * shift * shift):
        t, e = mp.mpf(shift), mp.mpf(epsilon)
        truth = mp.ncdf(t / 2 - e / t) - mp.exp(e) * mp.ncdf(-t / 2 - e / t)
        ends = enclose_on_grid((), epsilon, float(mp.log(truth)), 2**16, Shift(shift, shift))
        assert ends.lower <= truth <= ends.upper
        assert ends.relative_width < 1e-4


def test_steps_beside_a_mean_shift_have_both_ends() -> None:
    shift = 0.3
    gaussian = PrivacyLoss.from_terms([0.0], [1.0], [shift**2])
    for step, count in ((Step(1.0, 0.01), 100), (Step(0.8, 1e-3, backward=True), 10), (Step(0.6, 1e-3, True), 9)):
        proven = SubsampledLoss([(step, count)], gaussian).enclose(shift)
        assert proven.proven
        ends = enclose_on_grid([(step, count)], shift, float(proven.log_upper), 2**16, Shift(shift, shift))
        assert ends.lower <= proven.lower <= proven.upper <= ends.upper
        assert ends.relative_width < 2e-2


@pytest.mark.parametrize("above", [0.5, 1.0, 2.0])
def test_a_window_too_low_makes_ends_wide_and_never_wrong(monkeypatch: pytest.MonkeyPatch, above: float) -> None:
    """Sums above the window come back at its lower end, where they count as nothing."""
    steps, chosen = [(Step(1.0, 0.1), 30)], GridPlan.of
    well = enclose_on_grid(steps, 2.0, -6.0, 2**14)
    monkeypatch.setattr(GridPlan, "of", staticmethod(lambda *given: chosen(*given)._replace(top=2.0 + above)))
    low = enclose_on_grid(steps, 2.0, -6.0, 2**14)
    assert low.lower <= well.lower <= well.upper <= low.upper


def test_epsilon_zero_asks_one_direction() -> None:
    """Delta(0) is the same in both, and proves an epsilon of 0; the other direction's grid took seconds."""
    run = Accountant().add(DPSGD(noise_multiplier=0.4925516, sampling_rate=0.00059258), 4)
    assert run.epsilon(0.0016123) == 0.0
    ends = [side.enclose(0.0) for side in (run.loss, run.loss.reversed())]
    assert max(end.lower for end in ends) <= min(end.upper for end in ends) < 0.0016123


def test_probabilities_between_places() -> None:
    mp.mp.dps = 360
    edges = np.array([-38.0, -20.0, -8.0, -7.9999, -1.0, -1.0 + 1e-9, 0.3, 0.31, 6.0, 6.0001, 12.0, math.inf])
    for low, high, found in zip(edges, edges[1:], normal_between(edges)):
        wanted = (mp.erfc(mp.mpf(low) / mp.sqrt(2)) - mp.erfc(mp.mpf(high) / mp.sqrt(2))) / 2
        assert abs(found - wanted) <= 1e-13 * wanted


def test_chernoffs_bound_is_above_delta() -> None:
    back = [(Step(2.0, 0.01, backward=True), 10_000)]
    upper = float(SubsampledLoss(back).enclose(1.0).log_upper)
    assert not surely_below(back, BallCompanions(None), 1.0, upper - 1e-9)
    assert surely_below(back, BallCompanions(None), 1.0, upper + 8.0)


def test_rates_have_no_cliff() -> None:
    """At a rate of 9.9e-10 epsilon was infinite."""
    deltas = []
    for rate in (1e-12, 9.9e-10, 1.01e-9):
        run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=rate), 10**6)
        deltas.append(run.delta(0.0) / rate)
        assert run.epsilon(1e-5) == 0.0
        assert 0.0 < run.epsilon(1e-4 * rate * 10**6) < 1.0
    assert deltas[1] == pytest.approx(deltas[2], rel=1e-2)


@pytest.mark.parametrize("fixed_size", [False, True])
def test_rates_of_replaced_records_have_no_floor(fixed_size: bool) -> None:
    """All below 1e-9 were charged as 1e-9."""
    ends = []
    for rate in (1e-12, 1e-9):
        step = DPSGD(noise_multiplier=2.0, sampling_rate=rate, fixed_size=fixed_size)
        ends.append(float(Accountant("replace").add(step, 10).delta(0.0)) / rate)
    assert ends[0] == pytest.approx(ends[1], rel=0.1 if fixed_size else 1e-6)  # the first comes from a grid


def test_what_cannot_be_answered_is_refused_by_name() -> None:
    with pytest.raises(ParameterError, match="at most 10000000000 in all"):
        Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.5), 10**15).epsilon(1e-5)
    with pytest.raises(NumericalError, match="no grid holds"):
        enclose_on_grid([(Step(0.01, 0.5), 3)], 15000.0, -11.5)


def test_a_grid_that_no_memory_holds_says_nothing() -> None:
    """One loss of the reversed run alone spans billions of the cells that its sum would need."""
    run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), steps=300)
    ends = enclose_on_grid(run.loss.reversed().factors().steps, 5.0, -700.0)
    assert (ends.lower, ends.upper) == (0.0, 1.0)


@pytest.mark.parametrize("kind", KINDS, ids=["added", "removed", "replaced"])
def test_a_record_that_is_surely_drawn_moves_a_gaussian(kind: dict[str, bool]) -> None:
    """By one noise multiplier's inverse, or by two where it is replaced: the loss at an output is linear."""
    losses = np.linspace(-3.0, 3.0, 13)
    length = (2.0 if "replace" in kind else 1.0) / 1.7
    middle = 0.0 if "replace" in kind else 0.5 / 1.7
    np.testing.assert_allclose(place(Step(1.7, 1.0, **kind), losses), losses / length + middle, rtol=1e-13, atol=1e-15)
