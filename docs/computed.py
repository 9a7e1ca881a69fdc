"""Figures of the pages that no study shows: `make numbers` evaluates `numbers()` and stores them as computed.NAME."""

from __future__ import annotations

import math
import runpy
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.linalg import toeplitz

from gaussveil import (
    GaussianPair,
    MeterFleet,
    MeterStream,
    PrivateForecaster,
    PrivateSketch,
    RunningTotal,
    compose,
    simulate_households,
)
from gaussveil.mechanisms import MixtureModel
from gaussveil.mechanisms.label_mixture.methods import SecretLabels
from gaussveil.noise import SeededGenerator
from gaussveil.noise.discrete_gaussian import AliasTable, smoothing_error
from gaussveil.postprocessing.label_search import LAST_RECORDS
from gaussveil.postprocessing.maximisation import moments, posterior_shares
from gaussveil.report.forecast import absolute_errors
from gaussveil_studies.gmm.releases import SYNTHETIC_SETS
from gaussveil_studies.gmm.settings import synthetic

HOME_KW = 0.5  # of a home, on average
EVENT = 12  # readings of five minutes in the hour that streams of these pages hide


def stream(purpose: str) -> MeterStream:
    """The stream of docs/mechanisms/meter_stream.md at epsilon 1."""
    return MeterStream.design(sample_period="5min", epsilon=1.0, delta=1e-5, event=(0.5, "1h"), purpose=purpose)


def habits() -> dict[str, str]:
    """By what the distance grows when the event is repeated on 30 days."""
    found = {}
    for purpose in ("shape", "energy", "billing"):
        design = stream(purpose)
        repeated = design.open().parameters["repeated_events"]
        found[f"habit-{purpose}"] = f"{repeated['mean_shift'] / design.design_.mean_shift:.1f}"
    return found


def starts() -> dict[str, str]:
    """Design B whose noise filter starts at zero: how visible an event is at first; what the stationary start costs."""
    design = stream("energy").design_
    noise, length = design.filter, 400
    response = np.concatenate([[noise.direct], noise.taps[0] * noise.pole ** np.arange(length - 1)])
    lower = np.tril(toeplitz(response))
    event = np.concatenate([np.full(EVENT, 0.5), np.zeros(length - EVENT)])
    seen = event @ np.linalg.solve(lower @ lower.T + noise.white**2 * np.eye(length), event)
    found = {"start-zero": f"{math.sqrt(seen):.4f}", "start-allowed": f"{design.mean_shift:.4f}"}
    for name, samples in (("day", 288), ("week", 2016), ("month", 8064)):
        inside = np.cumsum([noise.direct, *noise.taps[0] * noise.pole ** np.arange(samples - 1)])
        before = noise.taps[0] * (1 - noise.pole**samples) / (1 - noise.pole)  # of the last sample before the start
        carried = before**2 / (1 - noise.pole**2)
        plain = float(np.sum(inside**2)) + samples * noise.white**2
        found[f"start-{name}"] = f"{math.sqrt(1 + carried / plain):.2f}"
    return found


def fleets() -> dict[str, str]:
    """Errors of sums over many homes as shares of their load, one home hidden for a day; and other noises' errors."""
    sys.path.append(str(Path(__file__).parents[1] / "benchmarks"))
    from bench_fleet import WINDOWS, designed, others

    design = designed().design_
    found = {}
    methods = {"ours": {name: design.energy_sd(length) for name, length in WINDOWS.items()}, **others()}
    for name, length in WINDOWS.items():
        for homes in (100, 1_000, 10_000):
            share = 100 * methods["ours"][name] / (homes * HOME_KW * length)
            found[f"fleet-{homes}-{name.replace(' ', '')}"] = f"{float(f'{share:.2g}'):g}"
        for method, errors in methods.items():
            found[f"fleet-{method.replace(' ', '')}-{name.replace(' ', '')}"] = f"{errors[name]:.0f}"
    return found


def forecasts() -> dict[str, str]:
    """Mean absolute errors: of homes at epsilon 1, in kW, and of a feeder, in per cent of its load."""
    town = simulate_households(24, 18, step_minutes=60, seed=5)
    given = {"horizon": "6h", "epsilon": 1.0, "delta": 1e-5, "clusters": 3, "order": (2, 1)}
    group = PrivateForecaster(**given, generator=SeededGenerator(1)).fit(town.window(0, 15 * 24))
    alone = PrivateForecaster(**given, smallest_kept=0.0, generator=SeededGenerator(2)).fit(town.window(0, 15 * 24))
    errors = []
    for day in range(3):
        past = town.window(day * 24, 15 * 24)
        for row, home in enumerate(town.households):
            known = group.diagnostics(home, past, town.values[row, past.count + day * 24 :][:6])
            found = absolute_errors(group.release(home, past).value, known)
            errors.append({**found, "alone": absolute_errors(alone.release(home, past).value, known)["released"]})
    told = {f"forecast-{name}": f"{np.mean([one[name] for one in errors]):.2f}" for name in errors[0]}
    loads = simulate_households(1000, 29, step_minutes=60, seed=3).values.T
    fleet = MeterFleet.design(
        sample_period="1h", epsilon=1.0, delta=1e-5, home="1d", limits=(0.0, 10.0), generator=SeededGenerator(4)
    )
    fleet.push_many(loads[: 28 * 24])
    plain, truth = loads[: 28 * 24].sum(axis=1), loads[28 * 24 :].sum(axis=1)
    days = {"private": fleet.forecast("1d").kw, "plain": plain.reshape(28, 24).mean(axis=0), "centre": plain.mean()}
    for name, kw in days.items():
        told[f"feeder-{name}"] = f"{100 * np.mean(np.abs(kw - truth)) / truth.mean():.1f}"
    return told


def orientation() -> dict[str, str]:
    """Two pairs of variance ratio 4, composed as they stand and with one of them reversed."""
    pair = GaussianPair([0.0], [[4.0]], [0.0], [[1.0]])
    return {
        "composed-alike": f"{(pair**2).dp_delta(1.0):.3f}",
        "composed-reversed": f"{compose(pair, pair.reversed()).dp_delta(1.0):.3f}",
    }


def sampler() -> dict[str, str]:
    """What sampling on lattices costs in total variation."""
    sketch = PrivateSketch(n_components=100, epsilon=1, delta=1e-6, row_norm=1.0).plan(50)
    return {
        "smoothing": f"{smoothing_error(4.0, 1):.2e}",
        "table": f"{AliasTable(Fraction(1024**2)).total_variation:.2e}",
        "sketch": f"{sketch.sampler.total_variation:.1e}",
    }


def label_floor() -> dict[str, str]:
    """Distance from the fit that randomised labels leave when the fitted classes are known; the study's ten sets."""
    found = {}
    for epsilon in (1, 2, 4):
        divergences = []
        for number in range(SYNTHETIC_SETS):
            setting = synthetic(number)
            fitted = setting.fitted
            answers = SecretLabels(setting.codes, setting.classes, SeededGenerator(1000 + number)).answers(epsilon)
            shares = posterior_shares(answers.log_label + fitted.log_joint(setting.rows))
            made = MixtureModel(*moments(setting.rows, shares, LAST_RECORDS), fitted.classes, fitted.columns)
            divergences.append(made.joint_divergence(fitted))
        found[f"label-floor-{epsilon}"] = f"{np.mean(divergences):.2g}"
    return found


def totals() -> dict[str, str]:
    """Errors of running totals in units of one hidden reading's noise, beside a binary tree's and independent noise."""
    found = {}
    for steps in (256, 1024, 8192, 100_000):
        total = RunningTotal(steps=steps, epsilon=1.0, delta=1e-5, limits=(0.0, 1.0))
        plan, unit = total.plan(), total.design_.size / total.design_.mean_shift
        errors = {"mean": plan.total_sd, "last": plan.last_sd, "tree": plan.tree_sd, "independent": plan.independent_sd}
        for name, error in errors.items():
            found[f"total-{steps}-{name}"] = f"{error / unit:.3g}"
    return found


def accuracy() -> dict[str, str]:
    """Worst relative errors by regime, from the file beside this one."""
    found: dict[str, str] = runpy.run_path(str(Path(__file__).parent / "accuracy.py"))["figures"]()
    return found


def numbers() -> dict[str, str]:
    """Every figure by its name."""
    streams = habits() | starts() | fleets() | forecasts() | totals()
    return streams | orientation() | sampler() | label_floor() | accuracy()
