"""The accountant, its inverse and its command, as the README shows them."""

from __future__ import annotations

import dataclasses
import json
import math
from pathlib import Path
from typing import Any

import dp_accounting
import mpmath as mp
import numpy as np
import pytest
from dp_accounting.pld import PLDAccountant
from typer.testing import CliRunner

import gaussveil
from gaussveil import DPSGD, Accountant, Gaussian, GaussianPair, calibrate, noise_for
from gaussveil.accounting import Adjacency, Ledger
from gaussveil.cli.main import app
from gaussveil.errors import ParameterError
from gaussveil.spectrum.mixtures import GaussianMixture
from gaussveil.spectrum.profiles import Laplace, PoissonSubsampled

STEP = DPSGD(noise_multiplier=1.0, sampling_rate=0.01)


def test_a_training_run() -> None:
    run = Accountant().add(STEP, steps=1000)
    assert run.epsilon(1e-5) == pytest.approx(1.8282366665, rel=1e-9)
    assert run.delta(run.epsilon(1e-5)) <= 1e-5
    step = dp_accounting.PoissonSampledDpEvent(0.01, dp_accounting.GaussianDpEvent(1.0))
    theirs = PLDAccountant(value_discretization_interval=1e-3).compose(step, 1000)
    assert run.delta(2.0) <= theirs.get_delta(2.0) * (1 + 1e-9)
    assert run.delta(2.0) == pytest.approx(theirs.get_delta(2.0), rel=1e-2)


def test_everything_adds_up() -> None:
    run = Accountant().add(STEP, steps=100).add(Gaussian(noise_multiplier=20)).add(GaussianPair.mean_shift(0.1))
    alone = Accountant().add(STEP, steps=100)
    assert run.delta(1.0) > alone.delta(1.0)
    ends = run.enclose(1.0)
    assert ends.lower <= run.delta(1.0) <= ends.upper * (1 + 1e-9)
    joined = run.add(Laplace(0.1))
    assert joined.delta(1.0) > alone.delta(1.0)
    assert Accountant().epsilon(1e-5) == 0.0


def test_gaussians_alone_are_exact() -> None:
    run = Accountant().add(Gaussian(noise_multiplier=4.0), steps=16)
    assert run.epsilon(1e-6) == pytest.approx(float(GaussianPair.mean_shift(1.0).dp_epsilon(1e-6)), rel=1e-12)
    assert run.enclose(1.0).lower <= run.delta(1.0) <= run.enclose(1.0).upper


@pytest.mark.parametrize("kind", ["sampled", "mixture"])
def test_lower_ends_of_stored_steps_are_not_above_the_truth(kind: str) -> None:
    """In 50 digits, where noise as the inverse of a shift, rounded down, put the lower end 1e-16 above."""
    shift, rate = 1.6385124474266408, 0.5649056129897796
    for epsilon in (0.7, 1.2249049295654513):
        mixture = GaussianMixture((0.0, shift), (1.0 - rate, rate))
        stored = PoissonSubsampled(GaussianPair.mean_shift(shift), rate) if kind == "sampled" else mixture
        found = Accountant().add(stored).enclose(epsilon)
        with mp.workdps(50):  # of the removed record, whose delta is the larger
            t = mp.mpf(shift) if kind == "mixture" else mp.sqrt(mp.mpf(shift * shift))
            inner = mp.log((mp.exp(epsilon) - 1 + rate) / rate)
            exact = rate * (mp.ncdf(t / 2 - inner / t) - mp.exp(inner) * mp.ncdf(-t / 2 - inner / t))
            assert -1e-12 < found.lower / exact - 1 <= 0


def test_replacing_costs_more_than_adding() -> None:
    added = Accountant().add(STEP, 200)
    replaced = Accountant("replace").add(STEP, 200)
    assert replaced.delta(0.5) > added.delta(0.5)
    with pytest.raises(ParameterError, match="relation must be one of"):
        Accountant("swap")


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
def test_calibrated_noise_keeps_the_promise_and_hardly_more(relation: str) -> None:
    noise = calibrate(DPSGD(sampling_rate=0.02), steps=100, epsilon=2, delta=1e-5, relation=relation)
    kept = Accountant(relation).add(DPSGD(noise_multiplier=noise, sampling_rate=0.02), 100)
    broken = Accountant(relation).add(DPSGD(noise_multiplier=noise * (1 - 1e-8), sampling_rate=0.02), 100)
    assert kept.delta(2.0) <= 1e-5 < broken.delta(2.0)


def test_noise_in_the_language_of_attacks() -> None:
    noise = noise_for(true_positive_rate=0.1, at=0.01)
    assert GaussianPair.mean_shift(1 / noise).true_positive_rate(0.01) == pytest.approx(0.1, rel=1e-6)
    assert Accountant().add(Gaussian(noise_multiplier=noise)).true_positive_rate(0.01) <= 0.1
    noise = calibrate(DPSGD(sampling_rate=0.1), steps=300, advantage=0.2)
    run = Accountant().add(DPSGD(noise_multiplier=noise, sampling_rate=0.1), 300)
    assert 0.2 * (1 - 1e-6) <= run.advantage() <= 0.2
    assert run.tradeoff(0.01) == pytest.approx(1 - run.true_positive_rate(0.01))


def test_the_ledger_takes_the_same(tmp_path: Path) -> None:
    run = Accountant().add(STEP, steps=50)
    ((charge, count),) = run.charges
    again = Accountant().add(charge, count)
    assert run.delta(1.0) <= again.delta(1.0) <= run.delta(1.0) * (1 + 1e-12)  # 1 / noise multiplier is rounded up
    ledger = Ledger.create(tmp_path / "ledger.sqlite")
    adjacency = Adjacency.add_remove()
    ledger.open_account("run", epsilon=1.0, delta=1e-5, adjacency=adjacency, rule="planned", plan=[charge * count])
    ledger.debit("run", charge * count, adjacency)
    spent = ledger.statement("run").composition.delta(1.0)
    assert spent == pytest.approx(run.delta(1.0), rel=1e-9)


def test_refusals_name_the_rule() -> None:
    for broken, rule in (
        (lambda: Accountant().add(DPSGD(sampling_rate=0.1)), "noise_multiplier must be given"),
        (lambda: Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=1.5)), "sampling_rate must be"),
        (lambda: Accountant().add(STEP, steps=0), "steps must be"),
        (lambda: Accountant().add("sgd"), "mechanism must be"),
        (lambda: calibrate(STEP, epsilon=1.0), "promises must be complete"),
        (lambda: calibrate(STEP), "promises must be one of"),
        (lambda: noise_for(true_positive_rate=0.01, at=0.02), "true_positive_rate must be above"),
        (lambda: calibrate(DPSGD(sampling_rate=0.01), epsilon=2.0, delta=1e-5), "steps must be given"),
        (lambda: calibrate(STEP, steps=1000, epsilon=2.0, delta=1e-5), "noise_multiplier must be left out"),
        (lambda: calibrate(steps=0, epsilon=2.0, delta=1e-5), "steps must be"),
        (lambda: Accountant().add(STEP).delta(-1.0), "epsilon must be"),
    ):
        with pytest.raises(ParameterError, match=rule):
            broken()


def test_plot_draws_the_curve() -> None:
    axes = Accountant().add(STEP).plot()
    (line,) = axes.get_lines()
    assert np.all(np.diff(line.get_ydata()) <= 0)
    assert axes.get_xlabel() == "epsilon"


def test_the_command() -> None:
    words = ["accountant", "--noise-multiplier", "1", "--sampling-rate", "0.01", "--steps", "1000", "--json"]
    found = json.loads(CliRunner().invoke(app, [*words, "--delta", "1e-5"]).stdout)
    assert found["epsilon"] == gaussveil.Accountant().add(STEP, 1000).epsilon(1e-5)
    words = ["accountant", "--sampling-rate", "0.01", "--steps", "1000", "--delta", "1e-5", "--epsilon", "2", "--json"]
    noise = json.loads(CliRunner().invoke(app, words).stdout)["noise_multiplier"]
    assert noise == pytest.approx(0.9591015525, rel=1e-8)
    words = ["accountant", "--sigma", "2", "--l2-sensitivity", "0.1", "--epsilon", "0.1", "--steps", "10", "--json"]
    found = json.loads(CliRunner().invoke(app, [*words, "--certified"]).stdout)
    assert found["delta_lower"] <= found["delta"] <= found["delta_upper"]
    assert math.isclose(found["noise_multiplier"], 20.0)
    promise = ["--epsilon", "1", "--delta", "1e-6"]
    words = ["accountant", "--steps", "5", *promise, "--l2-sensitivity", "2", "--json"]
    found = json.loads(CliRunner().invoke(app, words).stdout)
    assert found["sigma"] / 2 >= found["noise_multiplier"] == calibrate(Gaussian(), steps=5, epsilon=1, delta=1e-6)
    for given in ([], ["--sigma", "1"], ["--epsilon", "1"], ["--noise-multiplier", "1", *promise]):
        with pytest.raises(ParameterError, match="two of noise"):
            CliRunner().invoke(app, ["accountant", *given], catch_exceptions=False)


def test_an_epsilon_far_below_the_loss_has_a_delta_of_one() -> None:
    accountant = Accountant().add(DPSGD(noise_multiplier=0.36, sampling_rate=0.43), steps=1112)
    assert accountant.epsilon(1e-6) > 1500
    assert accountant.delta(400.0) == 1.0


def test_renyi_divergences_agree_with_another_accountant() -> None:
    from dp_accounting import dp_event
    from dp_accounting.rdp import RdpAccountant

    orders = [2, 4, 8, 32]
    step = dp_event.PoissonSampledDpEvent(0.01, dp_event.GaussianDpEvent(1.0))
    theirs = RdpAccountant(orders).compose(step, 1000).compose(dp_event.GaussianDpEvent(20.0))
    run = Accountant().add(DPSGD(noise_multiplier=1.0, sampling_rate=0.01), 1000).add(Gaussian(noise_multiplier=20.0))
    for order, wanted in zip(orders, theirs._rdp):
        assert run.renyi(order) == pytest.approx(wanted, rel=1e-7)
    assert Accountant().add(Gaussian(noise_multiplier=2.0)).renyi(3.0) == pytest.approx(3 / 8, rel=1e-12)
    with pytest.raises(ParameterError, match="order must be"):
        run.renyi(1.0)


def mean_shift_delta(shift: float, epsilon: float) -> float:
    first, second = shift / 2 - epsilon / shift, -shift / 2 - epsilon / shift
    return float(mp.ncdf(first) - mp.exp(epsilon) * mp.ncdf(second))


@pytest.mark.parametrize("steps", [1, 9])
def test_where_every_record_takes_part_a_replaced_one_moves_the_sum_by_two_clipping_norms(steps: int) -> None:
    """At rate 1 the batch is everything: a closed form, which rates just below 1 approach."""
    for relation, distance in (("add-remove", 1.0), ("replace", 2.0)):
        wanted = mean_shift_delta(distance / 4.0 * math.sqrt(steps), 0.5)
        whole = Accountant(relation).add(DPSGD(noise_multiplier=4.0, sampling_rate=1.0), steps)
        almost = Accountant(relation).add(DPSGD(noise_multiplier=4.0, sampling_rate=1.0 - 1e-6), steps)
        assert whole.delta(0.5) == pytest.approx(wanted, rel=1e-9, abs=0.0)
        assert almost.delta(0.5) == pytest.approx(wanted, rel=1e-3, abs=0.0)


@pytest.mark.parametrize("relation", ["add-remove", "replace"])
@pytest.mark.parametrize("rate", [None, 0.02, 1.0])
def test_the_command_says_what_python_says(relation: str, rate: float | None) -> None:
    step = Gaussian(noise_multiplier=4.0) if rate is None else DPSGD(noise_multiplier=4.0, sampling_rate=rate)
    run = Accountant(relation).add(step, 5)
    options = ["--steps", "5", "--json"]
    options += ["--replace"] * (relation == "replace")
    options += [] if rate is None else ["--sampling-rate", str(rate)]

    def said(*words: str) -> dict[str, Any]:
        result = CliRunner().invoke(app, ["accountant", *words, *options])
        assert result.exit_code == 0, result.output
        answer: dict[str, Any] = json.loads(result.output)
        return answer

    assert said("--noise-multiplier", "4", "--delta", "1e-5")["epsilon"] == run.epsilon(1e-5)
    assert said("--noise-multiplier", "4", "--epsilon", "0.5")["delta"] == run.delta(0.5)
    assert said("--sigma", "8", "--l2-sensitivity", "2", "--epsilon", "0.5")["delta"] == run.delta(0.5)
    open_noise = dataclasses.replace(step, noise_multiplier=None)
    noise = calibrate(open_noise, steps=5, epsilon=2.0, delta=1e-5, relation=relation)
    found = said("--epsilon", "2", "--delta", "1e-5")
    assert (found["mechanism"], found["noise_multiplier"]) == (type(step).__name__, noise)
