"""DP-SGD runs drawn over the whole range of settings, against references of 40 digits (reference/generate_training)."""

from __future__ import annotations

import json
import math
import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import mpmath as mp
import numpy as np
import pytest

from gaussveil import DPSGD, Accountant, Gaussian, GaussianPair, compose
from gaussveil.spectrum.profiles import PoissonSubsampled
from gaussveil.spectrum.subsampled import contour, output_sums
from gaussveil.spectrum.subsampled.double_bands import bands_in_doubles
from gaussveil.spectrum.subsampled.loss import SubsampledLoss
from gaussveil.spectrum.subsampled.nodes import settled
from gaussveil.spectrum.subsampled.step import Step

PATH = Path(__file__).parents[1] / "reference" / "training.json"
CASES: list[dict[str, Any]] = json.loads(PATH.read_text(encoding="utf-8"))["cases"]
ROUNDING = 2e-14  # of a double's logarithm, at most


def chosen(full: bool, every: int) -> list[dict[str, Any]]:
    return CASES if full else CASES[::every]


def loss(case: dict[str, Any]) -> SubsampledLoss:
    return SubsampledLoss([(Step(case["noise_multiplier"], case["sampling_rate"]), case["steps"])])


def test_the_settings_span_the_range() -> None:
    assert len(CASES) >= 1000
    for name, low, high in (("noise_multiplier", 0.31, 100.0), ("sampling_rate", 1e-5, 1.0), ("steps", 1, 10**7)):
        values = [case[name] for case in CASES]
        assert min(values) <= low < high <= max(values)


def test_answers_are_never_below_the_truth(full: bool) -> None:
    """Not by the last digit of a double, either: references have more."""
    mp.mp.dps = 60
    for case in chosen(full, 29):
        found, wanted = loss(case), mp.mpf(case["log_delta"])
        assert wanted <= float(found.log_delta(case["epsilon"])) <= float(wanted) * (1 - 1e-9), case
        assert mp.exp(wanted) <= float(found.delta(case["epsilon"])), case
        delta = math.exp(wanted)
        while delta > mp.exp(wanted):
            delta = math.nextafter(delta, 0.0)
        assert case["epsilon"] <= float(found.epsilon(delta)) <= case["epsilon"] * (1 + 1e-9), case


def test_little_noise_and_rare_records(full: bool) -> None:
    """Noise multipliers of .3 to .5, rates down to 1e-5, many steps: there few of the outputs carry delta."""
    mp.mp.dps = 60
    cases = [case for case in CASES if case["index"] >= 3000]
    assert len(cases) >= 60
    for case in cases if full else cases[::40]:
        found, wanted = loss(case), mp.mpf(case["log_delta"])
        assert wanted <= float(found.log_delta(case["epsilon"])) <= float(wanted) * (1 - 1e-9), case
        ends = found.enclose(case["epsilon"])
        assert ends.lower <= mp.exp(wanted) <= ends.upper, case
        assert ends.relative_width < 1e-9, case


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(0.0025202797131655846, 0.0022338246220399), (0.0028166582828986118, 0.0021464310058755)]
)
def test_few_steps_of_a_replaced_record(epsilon: float, delta: float) -> None:
    """Bands whose tilt leaves out half of the outputs took their sum for a whole one: delta was off by 1e-4.

    The values are enclosed, and convolved losses under X, on grids of 1e-5 and finer, tend to them.
    """
    found = SubsampledLoss([(Step(0.5669622241602114, 0.0007574892308203205, replace=True), 8)])
    assert delta * (1 - 4e-13) <= float(found.delta(epsilon)) <= delta * (1 + 2e-12)
    assert found.reversed() is found


FEW_STEPS = [  # noise multiplier, rate, steps, epsilon, delta
    (4.0, 3e-5, 3, 2.6e-4, 4.78331213506e-21),
    (1.1, 5e-5, 4, 3e-4, 6.51028925027e-6),
    (0.75, 2e-5, 5, 3e-4, 3.98241118791e-6),
]


def test_small_outputs_of_few_steps_share_one_line(full: bool) -> None:
    """Epsilons of a few times the rate: seconds were spent and no end was proven where many small outputs count.

    The values come from the recursion E f(u - L) of one step after the other, on splines of 3,000 and 5,000 points.
    """
    for noise, rate, count, epsilon, delta in FEW_STEPS[: None if full else 1]:
        found = SubsampledLoss([(Step(noise, rate, replace=True), count)])
        ends = found.enclose(epsilon)
        assert ends.lower <= delta * (1 + 2e-11)
        assert ends.upper >= delta * (1 - 2e-11)
        assert ends.relative_width < 1e-9
        assert ends.lower <= float(found.delta(epsilon)) <= delta * (1 + 1e-10)


def test_the_step_of_a_stored_profile_has_no_more_noise() -> None:
    for shift in (0.44637452013158363, 0.1, 1 / 3, 0.7):
        factors = PoissonSubsampled(GaussianPair.mean_shift(shift), 0.75).factors()
        assert factors is not None
        ((step, _),) = factors.steps
        energy = Fraction(float(GaussianPair.mean_shift(shift).energy.sum()))
        assert Fraction(step.noise_multiplier) ** 2 * energy <= 1


def test_a_line_takes_small_outputs_only_where_windows_end_its_moments() -> None:
    step, delta = Step(3.425148432272699, 2.4072915786984395e-05, replace=True), 5.084086617854193e-29
    found = SubsampledLoss([(step, 2)])
    epsilon = float(found.epsilon(delta))
    assert found.enclose(epsilon).lower <= delta  # it was exceeded by 5e-7 at an epsilon 1e-8 too small
    assert found.enclose(epsilon * (1 - 1e-9)).upper > delta


def test_lines_charge_what_they_leave_out_at_every_epsilon() -> None:
    """Bands that were negligible at the lines' own epsilon are not at a smaller one: delta was 17 % too small there.

    The values are of losses convolved on grids of 1e-5 and 5e-6.
    """
    step = Step(0.31188606402411134, 1.0936086567041706e-05, replace=True)
    lines = bands_in_doubles(SubsampledLoss([(step, 12)])._parts.windowed(-11.0), 0.0281768)
    for epsilon, log_delta in ((0.0281768, -10.959458), (0.000533684755913299, -9.56847)):
        value, _, error = lines.log_delta(epsilon)
        assert value + error >= log_delta - 1e-5


def test_far_below_the_loss_a_replaced_record_is_found_out() -> None:
    run = Accountant("replace").add(DPSGD(noise_multiplier=0.6, sampling_rate=0.9), 3_000_000)
    assert run.delta(1000.0) == 1.0
    assert 1.0 - 1e-15 < run.enclose(1000.0).lower < run.enclose(1000.0).upper == 1.0


def above(place: mp.mpf) -> mp.mpf:
    return mp.erfc(place / mp.sqrt(2)) / 2


def test_large_deltas_are_rounded_up() -> None:
    """Of a delta near 1 the last rounding is that of the exponential: 5e-17 of delta were missing."""
    mp.mp.dps = 40
    rng = random.Random(7)
    for _ in range(40):
        noise, rate, level = rng.uniform(0.1, 3.0), rng.uniform(0.01, 1.0), rng.uniform(1e-3, 3.0)
        run = Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=rate))
        s, q, raised = mp.mpf(noise), mp.mpf(rate), mp.expm1(mp.mpf(level)) + mp.mpf(rate)
        edge = s * mp.log(raised / q) + 1 / (2 * s)
        wanted = q * above(edge - 1 / s) - raised * above(edge)
        assert wanted <= run.delta(level) <= float(wanted) * (1 + 1e-13)
        assert wanted <= float(run.loss.delta(level))
        assert run.delta(run.epsilon(run.delta(level))) <= run.delta(level)
        gaussian = Accountant().add(Gaussian(noise_multiplier=noise))
        wanted = 1 - 2 * above(1 / (2 * s))
        assert wanted <= gaussian.advantage() <= float(wanted) * (1 + 1e-14)


def test_a_delta_that_leaves_the_doubles_is_not_zero() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=2.0, sampling_rate=0.5), 3)
    assert run.loss.log_delta(150.0) < -760.0
    assert 0.0 < run.delta(150.0) < 1e-322


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
    mp.mp.dps = 60
    # without sampling the shift 1 / noise is rounded up: the lower end must not be; single steps are quick, too
    plain = [case for case in CASES if case["sampling_rate"] == 1.0 or case["steps"] == 1]
    for case in [*chosen(full, 41), *(plain if full else plain[::4])]:
        step = DPSGD(noise_multiplier=case["noise_multiplier"], sampling_rate=case["sampling_rate"])
        ends = Accountant().add(step, case["steps"]).enclose(case["epsilon"])
        wanted = mp.mpf(case["log_delta"])
        assert float(ends.log_lower) <= wanted <= float(ends.log_upper), case
        assert float(ends.lower) <= mp.exp(wanted) <= float(ends.upper), case
        assert ends.relative_width < 1e-9, case


def test_lower_ends_beside_random_batches_are_of_the_noise_itself() -> None:
    """A third of 1 is no double: rounded up, it lifts delta, and both ends of an enclosure of it."""
    steps = [(Step(3.0, 0.01), 5)]
    less, more = (
        SubsampledLoss(steps, GaussianPair.mean_shift(shift)) for shift in (math.nextafter(1 / 3, 0.0), 1 / 3)
    )
    run = Accountant().add(DPSGD(noise_multiplier=3.0, sampling_rate=0.01), 5).add(Gaussian(noise_multiplier=3.0))
    ends = run.enclose(1.0)
    assert ends.lower <= less.dp_enclose(1.0).lower < more.dp_enclose(1.0).upper <= ends.upper
    assert ends.relative_width < 1e-12


def test_bounds_in_doubles_hold_by_far(full: bool) -> None:
    """Every part of the error is bounded, none was measured: next to the truth there is nothing but a tenth of that."""
    lines = 0
    for case in chosen(full, 24):
        if case["sampling_rate"] < 1.0:
            with np.errstate(all="ignore"):
                value, _, error, nodes = settled(loss(case)._parts, case["epsilon"])
            if isinstance(nodes, contour.Nodes) and math.isfinite(error):
                lines += 1
                wanted = float(mp.mpf(case["log_delta"]))
                assert abs(value - wanted) <= 0.2 * error + ROUNDING * abs(wanted)
    assert lines > 20


@pytest.mark.parametrize("replace", [False, True])
def test_proven_ends_do_not_rest_on_the_c_library(replace: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Were its functions off a billionfold, doubles would say so, and enclosures would answer."""
    step = Step(1.2, 0.01, replace=replace)
    before = SubsampledLoss([(step, 300)])
    epsilon = float(before.epsilon(1e-6))
    ends = before.enclose(epsilon)
    monkeypatch.setattr(output_sums, "LIBRARY", 4e9)
    monkeypatch.setattr(output_sums, "TURN", 12e9)
    after = SubsampledLoss([(step, 300)])
    again = after.enclose(epsilon)
    assert ends.proven
    assert again.proven
    assert max(ends.lower, again.lower) <= min(ends.upper, again.upper)
    assert again.relative_width < 1e-9
    assert float(after.epsilon(1e-6)) == pytest.approx(epsilon, rel=1e-9)  # by enclosures


def test_few_steps_of_much_noise_for_which_the_saddlepoint_gives_no_first_guess() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=3.7974110907847978, sampling_rate=9.048791561963419e-05), 5)
    found = run.epsilon(9.092435866850672e-11)
    assert 0.0 < found < 1.0
    ends = run.enclose(found)
    assert 9.092435866850672e-11 * (1 - 1e-8) <= ends.lower <= ends.upper <= 9.092435866850672e-11 * (1 + 1e-12)


def test_lower_ends_beside_pairs_of_unequal_variances_are_of_the_noise_itself() -> None:
    pair = GaussianPair([0.1], [[1.2]], [0.0], [[1.0]])
    less = Accountant().add(compose(GaussianPair.mean_shift(math.nextafter(1 / 3, 0.0)), pair))  # as it stands
    ends = Accountant().add(Gaussian(noise_multiplier=3.0)).add(pair).enclose(0.5)
    assert ends.lower <= less.enclose(0.5).lower < ends.upper
    assert ends.relative_width < 1e-12


@pytest.mark.parametrize("kind", [{"backward": True}, {"replace": True}], ids=["backward", "replace"])
def test_answers_of_other_pairs_are_not_below_their_enclosures(kind: dict[str, bool]) -> None:
    """Sums that ended before the record's own density lacked 2e-11 of log delta in the first of these."""
    for noise, rate, steps, epsilon in ((0.56747, 0.00024069, 669196, 14.1614), (66.283, 0.58178, 287, 1.48963)):
        found = SubsampledLoss([(Step(noise, rate, **kind), steps)])
        level = epsilon * (1.5 if "replace" in kind else 1.0)
        ends = found.enclose(level)
        assert ends.log_lower <= float(found.log_delta(level)) <= ends.log_upper + 1e-9
        assert ends.relative_width < 1e-9


@pytest.mark.parametrize("shift", [1e-9, -1e-9])
def test_a_wrong_reference_would_be_seen(shift: float) -> None:
    ends, wanted = loss(CASES[3]).enclose(CASES[3]["epsilon"]), float(CASES[3]["log_delta"])
    assert not ends.log_lower <= wanted * (1 + shift) <= ends.log_upper


def test_a_band_that_holds_all_of_its_moment_counts() -> None:
    """Below it there is but rounding, which came out as 0 of 0; then the line left out its first node, unnoticed."""
    delta = 7.2595463379192655e-12
    run = Accountant().add(DPSGD(noise_multiplier=0.3061511103899801, sampling_rate=0.33771681951121457), 3)
    found = run.epsilon(delta)
    assert run.enclose(found).lower <= delta < run.enclose(found * (1.0 - 2e-9)).upper
    parts = run.loss._parts.windowed(math.log(delta) - 2.0)
    for place in range(12):
        epsilon = 47.51 + 0.001 * place
        value, _, error = bands_in_doubles(parts, epsilon).log_delta(epsilon)
        truth = run.loss.enclose(epsilon)
        assert truth.log_lower - error <= value <= truth.log_upper + error


@pytest.mark.parametrize(
    ("relation", "noise", "rate", "steps", "delta"),
    [
        ("add-remove", 0.301972862478699, 0.02923835515940293, 15, 5.100660551568369e-25),
        ("add-remove", 0.5463771981509701, 0.16325290971637163, 14, 5.09108941600931e-18),
        ("add-remove", 9.133270882955845, 2.8985007425368264e-05, 2, 8.844628997064203e-20),
        ("replace", 0.7176444775348326, 0.3861424253530212, 2, 3.824536866110919e-11),
        ("replace", 1.0341317501289375, 0.1735149457368291, 9, 3.3547049325907497e-28),
    ],
)
def test_a_moment_that_comes_back_counts(relation: str, noise: float, rate: float, steps: int, delta: float) -> None:
    """It crosses zero on the line: the contour ended there, and what came after was missing."""
    run = Accountant(relation).add(DPSGD(noise_multiplier=noise, sampling_rate=rate), steps)
    found = run.epsilon(delta)
    assert run.enclose(found).lower <= delta < run.enclose(found * (1.0 - 2e-9)).upper


def test_where_no_tilt_is_found_another_way_is() -> None:
    run = Accountant().add(DPSGD(noise_multiplier=2.0372830869782543, sampling_rate=0.00018460413157706757), 17132)
    found = run.epsilon(1.2089664276663088e-11)
    assert run.enclose(found).lower <= 1.2089664276663088e-11 < run.enclose(found * (1.0 - 2e-9)).upper


def test_a_million_steps_of_the_rarest_records_count_one_by_one(full: bool) -> None:
    """At most one of them holds the record, but for a share of 10^-6 that the small losses of the others make up for.

    Their deltas were 10^-60 for 10^-98: no window suited them, and roundings were charged as if 1 were summed.
    """
    step, uses = Step(1.0, 1e-12), 10**6
    alone = SubsampledLoss([(step, 1)])
    found = SubsampledLoss([(step, uses)])
    for epsilon, most in [(1e-5, 1e-7), (1e-4, 1e-6), (1e-3, 1e-6)][: None if full else 1]:
        wanted = float(alone.enclose(epsilon).log_lower) + math.log(uses)
        with np.errstate(all="ignore"):
            value, _, error, _ = settled(found._parts, epsilon)
        assert value == pytest.approx(wanted, abs=1e-5)
        assert 0.0 < error < most
        assert float(found.log_delta(epsilon)) == pytest.approx(wanted, abs=1e-5)
        assert float(found.epsilon(math.exp(wanted))) == pytest.approx(epsilon, rel=1e-6)


def test_deltas_far_below_doubles_have_a_logarithm() -> None:
    """Three steps that all draw the record, with chance 1/8, are a mean shift of root 3 / 2: a bound from below."""
    found = SubsampledLoss([(Step(2.0, 0.5), 3)])
    for epsilon in (40.0, 60.0, 150.0):
        whole = GaussianPair.mean_shift(math.sqrt(3.0) / 2.0)
        lower = float(whole.log_delta(epsilon + 3.0 * math.log(2.0))) - 3.0 * math.log(2.0)
        value = float(found.log_delta(epsilon))
        assert lower < value < 0.99 * lower < -1000.0
        assert found.delta(epsilon) == 1e-323  # the next double, and one more for rounding
        assert found.enclose(epsilon).lower == 0.0
    far = SubsampledLoss([(Step(5.0, 1e-4), 10)])  # which no line reaches
    assert -1.55e6 < far.log_delta(1000.0) < -1.45e6
