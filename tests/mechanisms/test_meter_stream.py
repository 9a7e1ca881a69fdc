from __future__ import annotations

import dataclasses
import math
import os
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import block_diag, toeplitz
from scipy.signal import lfilter

from gaussveil.accounting import Ledger, Release, verify
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import AssumptionError, FormatError, GaussveilError
from gaussveil.mechanisms import MeterStream, PrivateSpectrum
from gaussveil.mechanisms.meter_stream.design import SAMPLER_PART
from gaussveil.mechanisms.meter_stream.registers import window_sums
from gaussveil.noise import Generator, SecureGenerator, SeededGenerator
from gaussveil.noise.filter_bank import FilterBank
from gaussveil.noise.stream_filter import StreamFilter, fourier, turn
from gaussveil.spectrum import GaussianPair
from gaussveil.timeseries import welch_psd
from gaussveil.timeseries.clock import hours

PROMISE = {"sample_period": "5min", "epsilon": 1.0, "delta": 1e-5}
EVENT = {**PROMISE, "event": (0.5, "1h")}
PURPOSES = ("shape", "energy", "billing", "spectrum")
RNG = np.random.default_rng(11)


@pytest.fixture(scope="module")
def private_psd() -> Release[Any]:
    home = 1 + lfilter([0.4], [1, -0.8], RNG.standard_normal(20000))
    mechanism = PrivateSpectrum(
        epsilon=1.0, delta=1e-5, l2_ball=0.02, points=32, sample_period=1 / 12, smoothing=(1.0, 0.5)
    )
    return mechanism.release(home)


def stream(purpose: str, private: Release[Any] | None = None, **changes: Any) -> MeterStream:
    history = {"history": private} if purpose == "spectrum" else {}
    return MeterStream.design(**{**EVENT, "purpose": purpose, **history, **changes})


@pytest.mark.parametrize(
    ("purpose", "sds"), [("shape", (6.46, 3.45, 1.54)), ("energy", (8.45, 4.52, 2.02)), ("billing", (10.2, 5.46, 2.44))]
)
def test_noise_is_that_of_the_design_study(purpose: str, sds: tuple[float, ...]) -> None:
    """The measured table of the design (promise 0.5 kW for 1 h, epsilon 1, 2, 5) to its printed digits."""
    found = [stream(purpose, epsilon=epsilon).plan().noise_sd for epsilon in (1.0, 2.0, 5.0)]
    assert found == pytest.approx(sds, rel=0.005)


@pytest.mark.parametrize(("purpose", "factor"), [("shape", 5.5), ("energy", 7.8), ("billing", 14.6)])
def test_a_month_of_the_same_event_is_stated(purpose: str, factor: float) -> None:
    made = stream(purpose)
    design = made.design_
    assert design.repeated_shift(30) / design.mean_shift == pytest.approx(factor, rel=0.01)
    figure = made.open().parameters["repeated_events"]
    epsilon = GaussianPair.mean_shift(design.repeated_shift(30)).epsilon(1e-5)
    assert figure["epsilon"] == pytest.approx(float(epsilon))
    delta = min(1.0, 1e-5 + (1 + math.exp(float(epsilon))) * design.sampler_error)
    assert figure["delta"] == pytest.approx(delta)
    plan = made.plan()
    assert (plan.repeated_epsilon, plan.repeated_delta) == (figure["epsilon"], figure["delta"])


@pytest.mark.parametrize("purpose", PURPOSES)
@pytest.mark.parametrize("horizon", [1, 13, 310])
def test_delta_on_finite_horizons_is_within_the_promise(purpose: str, horizon: int, private_psd: Release[Any]) -> None:
    """The Gaussian pair of the first `horizon` outputs and of the registers closed by then, for events at every place
    (also across the end of a day) and of several signs."""
    design = stream(purpose, private_psd).design_
    filters = design.filter
    signal = np.array(filters.signal) / 2.0**filters.signal_bits
    path = toeplitz(np.concatenate([signal, np.zeros(horizon)])[:horizon], np.zeros(horizon))
    covariance = toeplitz(fourier(filters.noise_power, horizon))
    for register in design.registers:
        for last in range(register.samples, horizon + 1, register.samples):
            window = (np.arange(horizon) >= last - register.samples) & (np.arange(horizon) < last)
            path = np.vstack([path, window.astype(float)])
            covariance = block_diag(covariance, register.noise_sd**2)
    assert len(path) == horizon + (purpose == "billing" and horizon > 288)
    shifts = []
    for first in {0, horizon // 2, max(0, horizon - 12), min(282, horizon - 1)}:
        for signs in (np.ones(12), (-1.0) ** np.arange(12), np.sign(np.sin(np.arange(12) + 0.5))):
            event = np.zeros(horizon + 12)
            event[first : first + 12] = 0.5 * signs
            shifts.append(path @ event[:horizon])
    distances = [d @ np.linalg.solve(covariance, d) for d in shifts]
    worst = shifts[int(np.argmax(distances))]
    assert max(distances) <= design.mean_shift**2
    assert float(GaussianPair(worst, covariance, 0 * worst, covariance).dp_delta(1.0)) <= 1e-5


@pytest.mark.parametrize("purpose", PURPOSES)
def test_noise_does_not_depend_on_the_horizon(purpose: str, private_psd: Release[Any]) -> None:
    """A day or thirty years: the same filters and registers, but for the lattice's own share of delta."""
    designs = [stream(purpose, private_psd, sample_limit=limit).design_ for limit in (288, 30 * 105_192)]
    least = mean_shift_for(1.0, (1 - SAMPLER_PART) * 1e-5)  # where the lattice takes all it may of delta
    slack = mean_shift_for(1.0, 1e-5) / least - 1 + 1e-5
    assert slack < 3.2e-3
    assert designs[1].noise_sd == pytest.approx(designs[0].noise_sd, rel=slack)
    assert designs[1].filter.noise_power(turn(64)) == pytest.approx(
        designs[0].filter.noise_power(turn(64)), rel=(1 + slack) ** 2 - 1
    )
    assert [r.noise_sd for r in designs[1].registers] == pytest.approx(
        [r.noise_sd for r in designs[0].registers], rel=slack
    )


def test_the_worst_event_reaches_the_promise_on_long_horizons() -> None:
    """Design B is exact: the all-ones event uses up the promise, no more noise than needed is drawn."""
    design = stream("energy", balance=(0.9, 0.4)).design_
    covariance = toeplitz(fourier(design.filter.noise_power, 600))
    event = np.zeros(600)
    event[300:312] = 0.5
    assert event @ np.linalg.solve(covariance, event) == pytest.approx(design.mean_shift**2, rel=1e-6)


def test_starting_the_noise_filter_at_zero_would_break_the_promise() -> None:
    """Why the filter starts in its stationary state: white plus filtered noise from zero hides less at first."""
    design = stream("energy").design_
    f = design.filter
    response = np.concatenate([[f.direct], f.taps[0] * f.pole ** np.arange(399)])
    lower = np.tril(toeplitz(response))
    from_zero = lower @ lower.T + f.white**2 * np.eye(400)
    event = np.concatenate([np.full(12, 0.5), np.zeros(388)])
    assert event @ np.linalg.solve(from_zero, event) > 1.01 * design.mean_shift**2
    stationary = toeplitz(fourier(f.noise_power, 400))
    assert event @ np.linalg.solve(stationary, event) <= design.mean_shift**2


@pytest.mark.parametrize("purpose", PURPOSES)
def test_noise_has_its_spectrum_from_the_first_sample_on(purpose: str, private_psd: Release[Any]) -> None:
    """4000 starts: covariances of the first outputs, and of later ones, are those of the stationary noise."""
    balance = {"balance": (0.9, 0.4)} if purpose == "energy" else {}
    filters = stream(purpose, private_psd, **balance).design_.filter
    bank, generator = FilterBank([filters] * 4000), SeededGenerator(5)
    bank.start(generator)
    noise = bank.push(np.zeros((80, 4000), np.int64), generator)[0] * filters.grid
    expected = toeplitz(fourier(filters.noise_power, 6))
    for part in (noise[:6], noise[-6:]):
        error = (part @ part.T / 4000 - expected) / expected[0, 0]
        assert np.abs(error).max() < 5 * math.sqrt(2 / 4000)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_blocks_and_single_readings_and_saved_streams_agree_to_the_bit(
    purpose: str, private_psd: Release[Any], tmp_path: Path
) -> None:
    readings = RNG.random(640)
    readings[7] = math.nan
    one, block, saved = (stream(purpose, private_psd, generator=SeededGenerator(9)) for _ in range(3))
    expected = np.array([one.push(value) for value in readings])
    assert np.array_equal(block.push_many(readings), expected)
    first = saved.push_many(readings[:301])
    saved.save(tmp_path / "meter.json")
    assert os.stat(tmp_path / "meter.json").st_mode & 0o077 == 0
    again = MeterStream.load(tmp_path / "meter.json", generator=saved.generator)
    assert np.array_equal(np.concatenate([first, again.push_many(readings[301:])]), expected)
    assert again.certificate == saved.certificate
    assert again.index == 640
    assert saved.energies + again.energies == block.energies == one.energies
    assert len(block.energies) == (2 if purpose == "billing" else 0)


@pytest.mark.parametrize("purpose", PURPOSES)
def test_long_run_spectrum_and_cross_correlation(purpose: str, private_psd: Release[Any], full: bool) -> None:
    """PSD(x~) = |F|^2 PSD(x) + gamma, within Welch's own sampling error; R_xx~ = R_xx * f (SpDP Proposition 3)."""
    count = 10**6 if full else 60_000
    made = stream(purpose, private_psd, epsilon=5.0, generator=SeededGenerator(3))
    readings = 2 + lfilter([1.0], [1, -0.7], np.random.default_rng(8).standard_normal(count))
    released = made.push_many(readings)
    filters, points = made.design_.filter, 64
    angles = turn(points)
    expected = filters.signal_power(angles) * np.abs(1 / (1 - 0.7 * np.exp(-1j * angles))) ** 2
    expected += filters.noise_power(angles)
    ratio = welch_psd(released, points) / expected
    segments = count / points
    assert np.abs(ratio[2:-1] - 1).max() < 6 * math.sqrt(1.1 / segments) + 0.01  # a Hann window blurs a little
    signal = np.array(filters.signal) / 2.0**filters.signal_bits
    covariance = 0.7 ** np.arange(0, 200) / (1 - 0.49)
    both = np.concatenate([covariance[:0:-1], covariance])
    for lag in range(4):
        wanted = sum(tap * both[199 + abs(lag - j)] for j, tap in enumerate(signal))
        centred = readings - 2
        found = np.mean(centred[: count - lag] * (released - released.mean())[lag:])
        scale = math.sqrt(both[199] * (filters.noise_power(angles).mean() + both[199]) / count)
        assert abs(found - wanted) < 12 * scale


def test_signal_path_is_exact_and_state_is_reset_together() -> None:
    filters = StreamFilter(white=1e-3, signal=(2000, 900, 77), signal_bits=12)
    bank, generator = FilterBank([filters] * 2), SeededGenerator(1)
    bank.start(generator)
    steps = np.array([[2**40 + 1, -5], [3, 2**41], [-(2**39), 11], [5, 6]])
    exact = [
        [sum(filters.signal[j] * int(steps[k - j, m]) for j in range(min(k + 1, 3))) for m in range(2)]
        for k in range(4)
    ]
    assert bank._filtered(steps, slice(None)).tolist() == exact
    bank.start(generator)
    assert not bank.past.any()
    assert bank._filtered(steps, slice(None)).tolist() == exact


@pytest.mark.parametrize("event", [(0.5, "1h"), (3.0, "4h")])
def test_lags_of_one_pole_in_closed_form_are_the_integrals(event: tuple[float, str]) -> None:
    filters = stream("energy", event=event).design_.filter
    for closed, power in ((filters.ratio_lags(500), filters.ratio), (filters.noise_lags(500), filters.noise_power)):
        integrated = fourier(power, 500)
        assert np.max(np.abs(closed - integrated)) <= 1e-12 * integrated[0]


def test_energy_of_every_second_can_be_planned() -> None:
    """Its noise remembers 42 hours, 150,000 readings: no grid of frequencies is that fine."""
    plan = stream("energy", sample_period="1s").plan()
    assert plan.monthly_energy_percent < 2
    design = stream("energy", sample_period="1s").design_
    lags = design.filter.ratio_lags(3600)
    moved = 0.5**2 * (3600 * lags[0] + 2 * np.sum((3600 - np.arange(1, 3600)) * lags[1:]))
    assert math.sqrt(moved) == pytest.approx(design.mean_shift, rel=1e-6)


def test_restart_in_a_window_withholds_its_register() -> None:
    made = stream("billing", sample_period="1h")
    made.push_many(np.full(30, 50.0))
    made.restart()
    made.push_many(np.full(48, 50.0))
    assert [(energy.name, energy.first) for energy in made.energies] == [("day", 0), ("day", 48)]


def test_a_missing_reading_is_missing_however_it_comes() -> None:
    pushed = [
        [made.push(0.5), made.push(None)]
        if single
        else np.asarray(made.push_many([0.5, None] if listed else np.array([0.5, np.nan]))).tolist()
        for made, single, listed in (
            (stream("shape", generator=SeededGenerator(5)), single, listed)
            for single, listed in ((True, True), (False, True), (False, False))
        )
    ]
    assert pushed[0] == pushed[1] == pushed[2]


def test_restart_forgets_readings_and_noise_together(private_psd: Release[Any]) -> None:
    made = stream("spectrum", private_psd, generator=SeededGenerator(4))
    made.push_many(np.full(100, 50.0))
    before = made._bank.states.copy()
    made.restart()
    assert not made._bank.past.any()
    assert not np.allclose(made._bank.states, before)


@given(st.floats(0.01, 3), st.floats(-1, 1), st.floats(-0.95, 0.95))
@settings(max_examples=20)
def test_sampler_error_covers_the_lattice_exactly_known_parts(white: float, tap: float, pole: float) -> None:
    """The lattice's own figures enter, the error grows like the root of the samples and falls with a finer lattice."""
    f = StreamFilter(white=white, direct=1.0, taps=(tap,), pole=pole, width=36)
    assert f.outer.variance * Fraction(f.grid) ** 2 >= Fraction(white) ** 2
    assert 2**36 <= white / f.grid < 2**37
    assert f.total_variation(400) / f.total_variation(100) == pytest.approx(2, rel=1e-6)
    assert f.at_width(45).total_variation(100) < f.total_variation(100) / 100


@given(st.lists(st.integers(-(2**62), 2**62), max_size=40), st.integers(0, 60), st.integers(1, 20), st.integers(-9, 9))
def test_windows_are_summed_exactly_from_any_reading_on(steps: list[int], first: int, samples: int, open_: int) -> None:
    expected, total = [], open_
    for place, step in enumerate(steps, first + 1):
        total += step
        if place % samples == 0:
            expected.append((place, total))
            total = 0
    assert window_sums(np.array(steps, np.int64), first, samples, open_) == (expected, total)


def test_billing_registers_are_exact_sums_with_their_noise() -> None:
    made = stream("billing", sample_period="1h", event=(0.5, "2h"), generator=SeededGenerator(2))
    readings = RNG.random(28 * 24) * 3
    made.push_many(readings)
    names = [energy.name for energy in made.energies]
    assert (names.count("day"), names.count("week"), names.count("month")) == (28, 4, 1)
    by_name = {register.name: register for register in made.design_.registers}
    for energy in made.energies:
        truth = readings[energy.first : energy.first + energy.samples].sum()
        assert abs(energy.kwh - truth) < 6 * by_name[energy.name].noise_sd
    errors = [e.kwh - readings[e.first : e.first + 24].sum() for e in made.energies if e.name == "day"]
    assert 0.5 < np.std(errors) / by_name["day"].noise_sd < 1.6
    shares = sum((2 * 0.5 / r.noise_sd) ** 2 for r in made.design_.registers) + 2 * 0.25 / made.design_.filter.white**2
    assert shares == pytest.approx(made.design_.mean_shift**2, rel=1e-6)


def test_spectrum_uses_the_private_spectrum_only_and_states_both_guarantees(private_psd: Release[Any]) -> None:
    """Correction S4b: the same private spectrum gives the same filters, whatever the readings were."""
    one, other = (
        stream("spectrum", private_psd),
        stream("spectrum", Release(private_psd.value, private_psd.certificate)),
    )
    assert one.design_ == other.design_
    parameters = one.open().parameters
    assert parameters["spectrum"]["epsilon"] == 1.0
    assert parameters["spectrum"]["l2_ball"] == 0.02
    trajectory, together = parameters["trajectory"], parameters["together"]
    shift = math.hypot(trajectory["mean_shift"], private_psd.certificate.parameters["mean_shift"])
    assert together["mean_shift"] == pytest.approx(shift)
    assert together["epsilon"] > trajectory["epsilon"]
    assert verify(one.certificate).private
    bare = stream("shape").open().parameters["spectrum"]
    assert "not protected" in bare


def test_a_stream_promises_no_more_than_the_spectrum_it_was_shaped_by() -> None:
    def shaped_by(generator: Generator | None) -> Release[Any]:
        mechanism = PrivateSpectrum(
            epsilon=1.0, delta=1e-5, l2_ball=0.02, points=16, sample_period=1 / 12, generator=generator
        )
        return mechanism.release(RNG.random(200))

    seeded = shaped_by(SeededGenerator(1))
    assert str(stream("spectrum", seeded).open().guarantee) == "none (seeded)"
    honest = shaped_by(None)
    assert stream("spectrum", honest).open().guarantee.kind == "worst case"
    forged = Release(honest.value, dataclasses.replace(honest.certificate, delta=1e-9))
    certificate = stream("spectrum", forged).open()
    assert str(certificate.guarantee) == "none (built from a release whose certificate does not verify)"
    assert not verify(certificate).private


def test_spectrum_from_readings_releases_them_first(tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    spectra, streams = (ledger.open_account(name, epsilon=3.0, delta=1e-4) for name in ("spectra", "streams"))
    mechanism = PrivateSpectrum(epsilon=0.5, delta=1e-6, l2_ball=0.1, points=16, account=spectra)
    made = MeterStream.design(**EVENT, purpose="spectrum", history=RNG.random(200), spectrum=mechanism, account=streams)
    assert (len(ledger.entries("spectra")), len(ledger.entries("streams"))) == (1, 0)
    made.push(1.0)
    assert (len(ledger.entries("spectra")), len(ledger.entries("streams"))) == (1, 1)


@pytest.mark.parametrize(
    "change",
    [
        {"reduction": (1.5, 0.3)},
        {"reduction": (0.5, 1e-6)},
        {"limits": (1.0, 0.0)},
        {"substitute": 500.0},
        {"epsilon": -1.0},
        {"delta": 2.0},
        {"sample_limit": 0},
        {"event": (1.0, "400d")},
        {"generator": 3},
    ],
    ids=str,
)
def test_a_bad_design_costs_no_spectrum(change: dict[str, Any], tmp_path: Path) -> None:
    ledger = Ledger.create(tmp_path / "l")
    account = ledger.open_account("spectra", epsilon=3.0, delta=1e-4)
    mechanism = PrivateSpectrum(epsilon=0.5, delta=1e-6, l2_ball=0.1, points=16, account=account)
    with pytest.raises(GaussveilError):
        MeterStream.design(**{**EVENT, "purpose": "spectrum", "history": np.ones(200), "spectrum": mechanism, **change})
    assert ledger.entries("spectra") == []


@pytest.mark.parametrize(("seconds", "length"), [(1, "1min"), (10, "4h")])
@pytest.mark.parametrize("purpose", ["shape", "energy", "billing"])
def test_readings_of_every_second_have_plans_and_certificates(purpose: str, seconds: int, length: str) -> None:
    made = MeterStream.design(
        sample_period=f"{seconds}s", epsilon=1.0, delta=1e-5, event=(0.5, length), purpose=purpose, sample_limit=10**6
    )
    plan = made.plan()
    white = plan.noise_sd * math.sqrt(28 * 24 * 3600 / seconds) * seconds / 3600  # kWh, of noise without a memory
    assert plan.monthly_energy_sd == pytest.approx(white) if purpose == "shape" else plan.monthly_energy_sd < white
    assert verify(made.open()).private


def test_one_debit_before_the_first_output_and_none_after(tmp_path: Path) -> None:
    account = Ledger.create(tmp_path / "l").open_account("home", epsilon=3.0, delta=1e-4)
    made = MeterStream.design(**EVENT, account=account)
    made.plan()
    with pytest.raises(AssumptionError, match="not open"):
        _ = made.certificate
    assert Ledger(account.ledger).entries("home") == []
    made.push_many([1.0, 2.0])
    made.push(1.0)
    assert [entry.state for entry in Ledger(account.ledger).entries("home")] == ["released"]
    assert made.certificate.adjacency.parameters == {"length": 12, "size": 0.5}


def test_public_rule_for_missing_and_extreme_readings() -> None:
    """The same noise whatever the readings, so that differences of outputs are those of the rule."""
    rule = {"limits": (-1.0, 20.0), "substitute": 0.25, "generator": None}
    odd = [math.nan, math.inf, -math.inf, 1e300, 5.0]
    plain = [0.25, 20.0, -1.0, 20.0, 5.0]
    outputs = [
        MeterStream.design(**{**EVENT, **rule, "generator": SeededGenerator(6)}).push_many(values)
        for values in (odd, plain)
    ]
    assert np.array_equal(*outputs)
    assert math.isfinite(stream("shape").push(None))


def test_the_sample_limit_holds() -> None:
    made = stream("shape", sample_limit=10)
    made.push_many(np.zeros(9))
    with pytest.raises(AssumptionError, match="covers 10 readings"):
        made.push_many(np.zeros(2))
    made.push(0.0)
    with pytest.raises(AssumptionError):
        made.push(0.0)


def test_a_plan_says_when_a_stream_is_of_no_use() -> None:
    useless = MeterStream.design(**{**EVENT, "event": (3.0, "1h")}).plan()
    assert useless.good_for == ()
    assert "good for: nothing" in str(useless)
    assert "load shape" in stream("shape", epsilon=5.0).plan().good_for
    assert "bills" in stream("billing").plan().good_for


def test_ball_is_white_and_hides_the_ball() -> None:
    made = MeterStream.design(**PROMISE, l2_ball=2.0)
    assert made.design_.noise_sd == pytest.approx(2.0 / made.design_.mean_shift, rel=1e-4)
    assert made.design_.repeated_shift(3) == pytest.approx(3 * made.design_.mean_shift)


def test_ball_through_the_spectrum_design(private_psd: Release[Any]) -> None:
    design = MeterStream.design(**PROMISE, l2_ball=2.0, purpose="spectrum", history=private_psd).design_
    angles = np.linspace(0, np.pi, 20_001)
    assert 4 * design.filter.ratio(angles).max() <= design.mean_shift**2


@pytest.mark.parametrize(
    "change",
    [
        {"event": None},
        {"l2_ball": 1.0},
        {"event": (0.0, "1h")},
        {"event": (1.0, "soon")},
        {"event": (1.0, 0)},
        {"event": 3.0},
        {"purpose": "profit"},
        {"purpose": "spectrum"},
        {"history": [1.0]},
        {"sample_limit": 0},
        {"limits": (1.0, 0.0)},
        {"substitute": 500.0},
        {"sample_period": "7min", "purpose": "billing"},
        {"event": None, "l2_ball": 1.0, "purpose": "energy"},
        {"balance": (1.0, 0.5), "purpose": "energy"},
        {"epsilon": -1.0},
        {"delta": 0.0},
        {"delta": 1e-300},
        {"limits": (-1e300, 1e300)},
        {"generator": 3},
        {"event": (1e-9, "5min"), "limits": (-1e9, 1e9)},
        {"event": (1.0, "400d")},
    ],
    ids=str,
)
def test_bad_designs_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(GaussveilError):
        MeterStream.design(**{**EVENT, **change})


@pytest.mark.parametrize(("text", "value"), [("5min", 1 / 12), ("1h", 1), ("90s", 0.025), ("2d", 48), (0.25, 0.25)])
def test_durations(text: Any, value: float) -> None:
    assert hours("x", text) == pytest.approx(value)


def test_readings_and_files_that_are_none_are_refused(tmp_path: Path) -> None:
    for readings in ([[1.0, 2.0]], np.array(["a"]), None, [[1.0], [1.0, 2.0]]):
        with pytest.raises(GaussveilError):
            stream("shape").push_many(readings)
    (tmp_path / "x").write_text('{"format": "something else"}')
    for path in (tmp_path / "x", tmp_path / "absent"):
        with pytest.raises(FormatError):
            MeterStream.load(path)


def test_secure_noise_is_fresh() -> None:
    made = stream("energy", generator=SecureGenerator())
    assert len(set(made.push_many(np.ones(50)).tolist())) == 50
