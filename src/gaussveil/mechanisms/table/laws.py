"""Which law of noise a request takes: both are planned for the same promise, and the smaller error is taken.

Both are debited as the same (epsilon, delta). Of many releases in one account Gaussian ones add up to less: what ten
alike would cost is told beside the errors, so that whoever plans many can choose.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from gaussveil.accounting.composition import Composition
from gaussveil.accounting.directed import sampler_delta
from gaussveil.calibration import mean_shift_for
from gaussveil.errors import ParameterError
from gaussveil.mechanisms.release_path import Promise
from gaussveil.mechanisms.table.draws import TableDraws
from gaussveil.mechanisms.table.laplace import LaplaceDraws, LaplaceNoise, unfit
from gaussveil.mechanisms.table.noise import TableNoise
from gaussveil.mechanisms.table.request import Request
from gaussveil.noise import Generator
from gaussveil.statistics import Source

LAWS = ("auto", "gaussian", "laplace")
KEY_SHARE = 1e-5  # of delta, for the chance that a key of one unit alone shows: of such an account allows 1e-3
SEVERAL = 10
SMALLEST_DELTA = 1e-12  # for what several releases add up to, where none is promised

Deviations = Callable[[TableNoise], Mapping[str, float]]


@dataclass(frozen=True)
class Law:
    """What a law would make of a request: its error over the one's taken, and what it costs alone and ten times."""

    error: float
    epsilon: float
    delta: float
    of_ten: tuple[float, float]


def candidates(request: Request, law: str, promise: Promise) -> dict[str, TableNoise]:
    """The noise of every law that can answer the request and that was not ruled out."""
    found: dict[str, TableNoise] = {}
    beyond = unfit(request)
    if law != "gaussian" and beyond is None:
        laplace = LaplaceNoise(request, promise.epsilon)
        found |= {"laplace": laplace} if laplace.drawable else {}
    if law == "laplace" and not found:
        raise ParameterError(_refusal("law='laplace'", beyond))
    if law != "laplace" and promise.delta > 0:
        found["gaussian"] = _gaussian(request, promise)
    if not found:
        raise ParameterError(
            _refusal("delta 0", beyond if law == "auto" else "law='gaussian'")
        )
    return found


def _refusal(what: str, beyond: str | None) -> str:
    if beyond is None:
        words = "an epsilon that is too small for its sampler, or more rows of a unit than it has steps"
    else:
        words = beyond
    return (
        f"{what} must be asked with answers of Laplace noise only: counts, sums, means, variances, shares and "
        "histograms of stated ranges by listed keys; with learnt bounds sums and means where no unit is expected in "
        f"all groups of a time. Got {words}."
    )


def _gaussian(request: Request, promise: Promise) -> TableNoise:
    key_error = 0.0
    if request.discovered:
        key_error = key_error_of(promise)
    sampler = TableNoise(request, 1.0, key_error).sampler_error
    return TableNoise(
        request,
        mean_shift_for(promise.epsilon, promise.ideal_delta(sampler)),
        key_error,
    )


def key_error_of(promise: Promise) -> float:
    """The chance that any key of one unit alone shows, which a release with such a promise takes."""
    return (
        KEY_SHARE
        * promise.delta
        / max(sampler_delta(promise.epsilon, 1e-30) / 1e-30, 1.0)
    )


def chosen(planned: Mapping[str, TableNoise], deviations: Deviations) -> TableNoise:
    """The law of the smallest error, as the geometric mean over the numbers of a group."""
    if len(planned) == 1:
        return next(iter(planned.values()))
    return min(planned.values(), key=lambda noise: error(deviations(noise)))


def error(deviations: Mapping[str, float]) -> float:
    """The geometric mean of deviations, but for numbers without noise: the last of cumulative shares is 1."""
    noisy = [sd for sd in deviations.values() if sd > 0.0]
    return math.exp(float(np.mean(np.log(noisy or [1.0]))))


def compared(
    planned: Mapping[str, TableNoise],
    taken: str,
    deviations: Deviations,
    promise: Promise,
) -> dict[str, Law]:
    """Every law beside the one taken: error, cost alone, and what ten such releases add up to in one account."""
    errors = {name: error(deviations(noise)) for name, noise in planned.items()}
    found = {}
    for name, noise in planned.items():
        if name == "laplace":
            delta = 0.0
        else:
            delta = promise.delta
        several = Composition.of([(noise.charge, SEVERAL)], symmetric=False)
        most = SEVERAL * max(promise.delta, SMALLEST_DELTA)
        found[name] = Law(
            errors[name] / errors[taken],
            promise.epsilon,
            delta,
            (several.epsilon(most), most),
        )
    return found


def draws_of(
    noise: TableNoise, source: Source, generator: Generator | None
) -> TableDraws:
    """The draws of a noise: one release's access to a table."""
    kind = LaplaceDraws if isinstance(noise, LaplaceNoise) else TableDraws
    return kind(source, noise, noise.mean_shift, generator)
